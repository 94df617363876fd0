/* The table of loop functions. */
#include "loop/fn.h"
#include <string.h>

const cr_fn_info cr_fn_infos[CR_FN_COUNT] = {
#define CR_FN(name, args, kind, dtypes, cost, libm)                                            \
    {#name, args, CR_FN_##kind, cost, dtypes, libm},
#include "loop/fn.def"
#undef CR_FN
};

/* Other names that rules may use. */
static const struct {
    const char *name;
    cr_fn fn;
} aliases[] = {
    {"max", CR_FN_maximum},     {"min", CR_FN_minimum},   {"sign", CR_FN_sgn},
    {"bitwise_and", CR_FN_and}, {"bitwise_or", CR_FN_or}, {"bitwise_xor", CR_FN_xor},
    {"bitwise_not", CR_FN_not}, {"select", CR_FN_where},  {"bitand", CR_FN_and},
    {"bitor", CR_FN_or},        {"bitxor", CR_FN_xor},    {"bitnot", CR_FN_not},
};

int cr_fn_find(const char *name)
{
    for (int i = 0; i < CR_FN_COUNT; i++)
        if (!strcmp(cr_fn_infos[i].name, name))
            return i;
    for (size_t i = 0; i < CR_LEN(aliases); i++)
        if (!strcmp(aliases[i].name, name))
            return (int)aliases[i].fn;
    return -1;
}

bool cr_fn_has(cr_fn fn, cr_dtype t)
{
    static const char letter[] = {[CR_CAT_BOOL] = 'B', 'I', 'F', 'C'};

    return strchr(cr_fn_infos[fn].dtypes, letter[cr_dtype_category(t)]) ||
           (t == CR_F32 && *cr_fn_infos[fn].dtypes == 'S');
}

bool cr_fn_calls_libm(cr_fn fn, cr_dtype t)
{
    const char *words = t == CR_F64 ? "FD" : cr_dtype_is_complex(t) ? "C" : "F";

    return cr_dtype_category(t) >= CR_CAT_FLOAT && strpbrk(cr_fn_infos[fn].libm, words);
}
