/* fn.h - the functions of the loop IR (fn.def). */
#ifndef CR_LOOP_FN_H
#define CR_LOOP_FN_H

#include "num/dtype.h"

typedef enum {
#define CR_FN(name, args, kind, dtypes, cost, libm) CR_FN_##name,
#include "loop/fn.def"
#undef CR_FN
    CR_FN_COUNT
} cr_fn;

typedef enum {
    CR_FN_SAME,
    CR_FN_TEST,
    CR_FN_SELECT,
    CR_FN_PARTS,
    CR_FN_JOIN,
    CR_FN_CAST,
    CR_FN_RANDOM
} cr_fn_kind;

typedef struct {
    const char *name;
    uint8_t args;
    uint8_t kind; /* cr_fn_kind */
    uint8_t cost;
    const char *dtypes, *libm;
} cr_fn_info;

extern const cr_fn_info cr_fn_infos[CR_FN_COUNT];

/* Computes *out from elements in memory of type `t` (a bool is one byte).  False when there is
 * no such function for `t`. */
typedef bool (*cr_fn_eval)(cr_fn fn, cr_dtype t, void *out, const void *const *in);

/* The function with this name, or -1. "max" and "min" are maximum and minimum. */
int cr_fn_find(const char *name);
/* True when the function exists for arguments of type `t`. */
bool cr_fn_has(cr_fn fn, cr_dtype t);
/* True when the function for arguments of type `t` calls the C library, whose bits may differ
 * between machines. */
bool cr_fn_calls_libm(cr_fn fn, cr_dtype t);

#endif
