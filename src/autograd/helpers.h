/* helpers.h - makes and compares tensors in this room's tests. */
#ifndef CR_AUTOGRAD_HELPERS_H
#define CR_AUTOGRAD_HELPERS_H

#include "autograd/autograd.h"
#include "base/test.h"

static CR_UNUSED void start_autograd(void)
{
    OK(cr_tensor_start());
    OK(cr_autograd_start());
}

/* Makes a float64 tensor of one dim. */
static CR_UNUSED cr_tensor *vec(int n, const double *v)
{
    cr_tensor *t = NULL;

    start_autograd();
    OK(cr_tensor_new(&t, CR_F64, CR_HOST, 1, (int64_t[]){n}));
    memcpy(t->address, v, (size_t)n * sizeof *v);
    return t;
}
#define VEC(...) vec((int)CR_LEN(((double[]){__VA_ARGS__})), (double[]){__VA_ARGS__})

static CR_UNUSED cr_tensor *leaf(cr_tensor *t)
{
    OK(cr_set_requires_grad(t, true));
    return t;
}
#define LEAF(...) leaf(VEC(__VA_ARGS__))

/* Keeps the tensors of a test until it ends. */
enum { CR_TEST_KEPT = 256 };
static cr_tensor *kept_tensors[CR_TEST_KEPT];
static int kept_count;
static CR_UNUSED cr_tensor *keep_tensor(cr_tensor *t)
{
    CR_ASSERT(kept_count < CR_TEST_KEPT);
    return kept_tensors[kept_count++] = t;
}
static CR_UNUSED void drop_kept(void)
{
    while (kept_count)
        cr_drop(kept_tensors[--kept_count]);
}

static CR_UNUSED cr_status try_op(cr_tensor **out, const char *name, int n, const cr_value *arg)
{
    cr_value r[CR_MAX_RESULTS];

    *out = NULL;
    CR_TRY(cr_call_named(name, arg, n, r));
    *out = r[0].t;
    return CR_OK;
}

/* Calls an operator and returns its first result, which is dropped at the test's end. */
static CR_UNUSED cr_tensor *op(const char *name, int n, const cr_value *arg)
{
    cr_tensor *t;

    if (try_op(&t, name, n, arg)) {
        cr_test_failed(__FILE__, __LINE__, "%s: %s", name, cr_error_message());
        return NULL;
    }
    return keep_tensor(t);
}
#define T(t) cr_of_tensor(t)
#define N(x) cr_of_number(cr_scalar_float(x))
#define OP(name, ...)                                                                          \
    op(name, (int)CR_LEN(((cr_value[]){__VA_ARGS__})), (cr_value[]){__VA_ARGS__})

static CR_UNUSED cr_status try_inplace(const char *name, int n, const cr_value *given)
{
    const cr_op *o = cr_ops_find(name);
    cr_value arg[CR_MAX_ARGS], r[CR_MAX_RESULTS];

    for (int i = 0; i < o->param_count; i++)
        arg[i] = i < n ? given[i] : o->param[i].preset;
    CR_TRY(cr_call_inplace(o, arg, r));
    cr_drop_values(r, o->result_count);
    return CR_OK;
}
#define INPLACE(name, ...)                                                                     \
    try_inplace(name, (int)CR_LEN(((cr_value[]){__VA_ARGS__})), (cr_value[]){__VA_ARGS__})

static CR_UNUSED cr_status backward_from(cr_tensor *root, bool retain, bool create)
{
    cr_backward_call c = {.roots = &root,
                          .root_count = 1,
                          .retain_graph = retain || create,
                          .create_graph = create};
    return cr_backward(&c, NULL);
}

static CR_UNUSED cr_tensor *gradient(cr_tensor *root, cr_tensor *input, bool create)
{
    cr_tensor *g = NULL;
    cr_backward_call c = {.roots = &root,
                          .root_count = 1,
                          .inputs = &input,
                          .input_count = 1,
                          .retain_graph = true,
                          .create_graph = create};

    OK(cr_backward(&c, &g));
    return keep_tensor(g);
}

static CR_UNUSED void check_elements(const char *file, int line, const cr_tensor *t, int n,
                                     const double *v)
{
    cr_test_compared();
    if (!t || t->numel != n) {
        cr_test_failed(file, line, "%lld elements, not %d", t ? (long long)t->numel : -1LL, n);
        return;
    }
    double got[64];
    cr_view from, to;
    if (cr_reach_view(&from, t)) {
        cr_test_failed(file, line, "%s", cr_error_message());
        return;
    }
    to = from;
    int64_t stride[CR_MAX_DIMS], step = 1;
    for (int i = t->ndim - 1; i >= 0; step *= t->size[i--])
        stride[i] = step;
    to.data = (char *)got;
    to.stride = stride;
    to.dtype = CR_F64;
    OK(cr_copy_elements(&to, &from));
    for (int i = 0; i < n; i++)
        if (!(got[i] - v[i] < 1e-6 && v[i] - got[i] < 1e-6))
            cr_test_failed(file, line, "element %d is %.12g, not %.12g", i, got[i], v[i]);
}
#define SAME(t, ...)                                                                           \
    check_elements(__FILE__, __LINE__, t, (int)CR_LEN(((double[]){__VA_ARGS__})),              \
                   (double[]){__VA_ARGS__})

#define SAYS(text) EQ_STR(cr_error_message(), text)

#endif
