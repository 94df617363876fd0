/* Copies the generated tables to the operator records. */
#include "jit/generated.h"
#include "loop/loop.h"
#include <pthread.h>

/* Partial results of a plain fold are folded by the kernel that folds its elements. */
static void install_joins(cr_op *op)
{
    for (int t = 0; t < CR_DTYPE_KERNELS; t++) {
        cr_kernel *k = op->kernel[t];
        k[CR_FORM_JOIN] = k[CR_FORM_JOIN] ? k[CR_FORM_JOIN] : k[CR_FORM_MAIN];
        k[CR_FORM_JOIN_COLUMNS] =
            k[CR_FORM_JOIN_COLUMNS] ? k[CR_FORM_JOIN_COLUMNS] : k[CR_FORM_COLUMNS];
    }
}

static bool joins_itself(const cr_op *op)
{
    return op->does == CR_DOES_FOLD &&
           !cr_fn_keeps_index((cr_fn)cr_fn_find(op->fold.rule->name));
}

static cr_status install_kernels(void)
{
    cr_isa isa = cr_isa_chosen();

    for (int i = 0; i < cr_kernel_table_count; i++) {
        const cr_kernel_entry *e = &cr_kernel_table[i];
        CR_TRY(cr_op_add_kernels(cr_ops_at(e->op)));
        cr_ops_at(e->op)->kernel[e->dtype][e->form] = e->fn[isa];
    }
    for (int i = 0; i < cr_ops_count(); i++)
        if (joins_itself(cr_ops_at(i)))
            install_joins(cr_ops_at(i));
    return CR_OK;
}

static cr_kernel fn_kernel[CR_FN_COUNT][CR_DTYPE_KERNELS][CR_FORM_COUNT];

static void index_fn_kernels(void)
{
    cr_isa isa = cr_isa_chosen();

    for (int i = 0; i < cr_fn_kernel_count; i++) {
        const cr_fn_kernel_entry *e = &cr_fn_kernel_table[i];
        fn_kernel[e->fn][e->dtype][e->form] = e->k[isa];
    }
}

cr_kernel cr_fn_kernel(cr_fn fn, cr_dtype t, cr_form form)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, index_fn_kernels);
    return fn_kernel[fn][t][form];
}

bool cr_fn_one(cr_fn fn, cr_dtype t, void *out, const void *const *in)
{
    static const int64_t one[3] = {1, 1, 0}, stride[8] = {0};
    cr_kernel k = cr_fn_kernel(fn, t, CR_FORM_MAIN);
    void *ptr[4] = {out};

    for (int i = 0; i < cr_fn_infos[fn].args; i++)
        ptr[1 + i] = (void *)in[i];
    if (k)
        k(ptr, stride, one, NULL);
    return k != NULL;
}

cr_status cr_generated_install(void)
{
    CR_TRY(cr_ops_load(&cr_table_image));
    cr_generated_records();
    cr_generated_rules();
    return install_kernels();
}
