/* The host as an executor of plans: calls of operators, and kernels that its compiler builds.
 */
#include "device/cpu/cpu.h"
#include "jit/oracle.h"
#include "tensor/internal.h"
#include "tensor/remote.h"
#include <string.h>

/* --- calls of operators --- */

/* The values of a call, with the views that they name. */
typedef struct {
    cr_value arg[CR_MAX_ARGS];
    cr_view out[CR_MAX_RESULTS];
    cr_arena room;
    bool failed;
} library_call;

static cr_view library_view(const cr_array *a)
{
    return (cr_view){a->data,           a->size, a->stride, (uint8_t)a->ndim,
                     (uint8_t)a->dtype, CR_HOST, false};
}

static cr_value library_array(library_call *c, const cr_array *a)
{
    cr_view *v = cr_arena_get(&c->room, sizeof *v);

    if (!v) {
        c->failed = true;
        return cr_of_none();
    }
    *v = library_view(a);
    return (cr_value){.tag = CR_VIEW, .view = v};
}

static cr_value library_integer(int64_t i, cr_type type)
{
    switch (type) {
    case CR_T_TENSOR:
    case CR_T_SCALAR: return cr_of_number(cr_scalar_int(i));
    case CR_T_BOOL: return cr_of_bool(i != 0);
    case CR_T_DTYPE: return cr_of_dtype((cr_dtype)i);
    default: return cr_of_int(i);
    }
}

static cr_value library_value(library_call *c, const cr_given *g, cr_type type)
{
    bool number = type == CR_T_TENSOR || type == CR_T_SCALAR;
    cr_value v = {.len = (uint32_t)g->count}, *list;

    switch (g->kind) {
    case CR_GIVEN_ARRAY: return library_array(c, &g->array);
    case CR_GIVEN_INT: return library_integer(g->i, type);
    case CR_GIVEN_FLOAT:
        return number ? cr_of_number(cr_scalar_float(g->d)) : cr_of_float(g->d);
    case CR_GIVEN_INTS: v.tag = type == CR_T_BOOLS ? CR_TRUTHS : CR_INTS; break;
    case CR_GIVEN_FLOATS: v.tag = CR_FLOATS; break;
    case CR_GIVEN_TEXT: v.tag = CR_STRING; break;
    case CR_GIVEN_LIST:
        list = cr_arena_get(&c->room, g->count * sizeof *list + 1);
        c->failed = c->failed || !list;
        for (size_t i = 0; list && i < g->count; i++)
            list[i] = library_value(c, &g->list[i], CR_T_TENSOR);
        v.tag = CR_TENSORS;
        v.list = list;
        return v;
    case CR_GIVEN_NONE:
    case CR_GIVEN_OTHER: return cr_of_none();
    }
    v.ints = g->ints;
    return v;
}

static const char *library_run(int index, const cr_library *l)
{
    const cr_op *op = cr_ops_find(l->entry);
    library_call c = {.failed = false};
    cr_status st = CR_OK;

    (void)index;
    if (!op || !cr_op_on_views(op) || op->param_count != l->args ||
        op->result_count != l->results)
        st = cr_fail(CR_VALUE, "'%s' is no operator with %d arguments that is written in C",
                     l->entry, l->args);
    for (int i = 0; !st && i < l->args; i++)
        c.arg[i] = library_value(&c, &l->arg[i], op->param[i].type);
    for (int i = 0; !st && i < l->results; i++)
        c.out[i] = library_view(&l->result[i]);
    if (!st)
        st = c.failed ? CR_MEMORY : cr_run_on_views(op, c.arg, c.out);
    cr_arena_drop(&c.room);
    return st ? cr_error_message() : NULL;
}

/* --- kernels --- */

static const char *library_build(int index, const cr_kernel_source *source, void **code)
{
    cr_kernel_function function;
    const char *error = cr_kernel_compile(&function, source);

    (void)index;
    *code = error ? NULL : (void *)(uintptr_t)function;
    return error;
}

static const char *library_launch(int index, const cr_launch *l)
{
    (void)index;
    cr_launch_run((cr_kernel_function)(uintptr_t)l->code, l);
    return NULL;
}

const cr_executor cr_host_executor = {.ops = &cr_cpu_ops, .build = cr_plan_build};

void cr_library_install(void)
{
    cr_cpu_ops.library = cr_oracle_ops.library = library_run;
    cr_cpu_ops.build = library_build;
    cr_cpu_ops.launch = library_launch;
    cr_oracle_install();
}
