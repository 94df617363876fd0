/* Calls of products and convolutions as numbers. */
#include "compile/products.h"
#include <string.h>

/* --- products --- */

static int64_t stride_at(const cr_array *a, int from_end, const cr_array *result)
{
    int d = a->ndim - from_end, r = result->ndim - from_end;

    return d < 0 || (a->size[d] == 1 && r >= 0 && result->size[r] != 1) ? 0 : a->stride[d];
}

/* Rows are the last dim along which b does not move, with the dims before it that are one with
 * it. */
static void find_rows(cr_product *p)
{
    cr_space_merge(&p->space, 0);
    const cr_space_dim *last = cr_space_last(&p->space, 0);
    bool rows = !last->step[CR_PRODUCT_B];

    p->n = rows ? last->size : 1;
    p->on = rows ? last->step[CR_PRODUCT_OUT] : 0;
    p->an = rows ? last->step[CR_PRODUCT_A] : 0;
    p->cn = rows ? last->step[CR_PRODUCT_BIAS] : 0;
    p->batch = p->space.ndim - (rows && p->space.ndim);
}

/* A product of arrays of at least two dims; turned: b is b[..., m, k]. */
static const char *find_matrices(cr_product *p, bool turned)
{
    const cr_array *out = p->out, *a = p->a, *b = p->b, *bias = p->bias;

    if (out->ndim < 2 || a->ndim < 2 || b->ndim < 2)
        return "with a vector";
    cr_space_start(&p->space, CR_PRODUCT_OPERANDS);
    for (int d = 0; d < out->ndim - 1; d++) {
        bool row = d == out->ndim - 2;
        int64_t *step = cr_space_add(&p->space, out->size[d], d);
        step[CR_PRODUCT_OUT] = out->stride[d];
        step[CR_PRODUCT_A] = stride_at(a, out->ndim - d, out);
        step[CR_PRODUCT_B] = turned || row ? 0 : stride_at(b, out->ndim - d, out);
        step[CR_PRODUCT_BIAS] = bias ? stride_at(bias, out->ndim - d, out) : 0;
    }
    find_rows(p);
    p->m = out->size[out->ndim - 1];
    p->depth = a->size[a->ndim - 1];
    p->om = out->stride[out->ndim - 1];
    p->ak = a->stride[a->ndim - 1];
    p->bk = b->stride[b->ndim - (turned ? 1 : 2)];
    p->bm = b->stride[b->ndim - (turned ? 2 : 1)];
    p->cm = bias ? stride_at(bias, 1, out) : 0;
    return NULL;
}

/* Products with vectors: a matrix and a vector, and the other way round. */
static const char *find_vectors(cr_product *p, bool turned)
{
    const cr_array *out = p->out, *a = p->a, *b = p->b, *bias = p->bias;

    if (a->ndim > 2 || b->ndim > 2)
        return "with a vector and more than two dims";
    p->n = p->m = 1;
    p->depth = a->size[a->ndim - 1];
    p->ak = a->stride[a->ndim - 1];
    if (a->ndim == 2) {
        p->n = a->size[0];
        p->an = a->stride[0];
        p->on = out->stride[0];
        p->cn = bias ? stride_at(bias, 1, out) : 0;
    }
    p->bk = b->stride[turned ? b->ndim - 1 : 0];
    if (b->ndim == 2) {
        p->m = b->size[!turned];
        p->bm = b->stride[!turned];
        p->om = out->stride[0];
        p->cm = bias ? stride_at(bias, 1, out) : 0;
    }
    return NULL;
}

/* Whether numbers after the three operands of addmm() are not 1. */
static bool has_factors(const cr_library *c)
{
    for (int k = 3; k < c->args; k++)
        if ((c->arg[k].kind == CR_GIVEN_INT && c->arg[k].i != 1) ||
            (c->arg[k].kind == CR_GIVEN_FLOAT && c->arg[k].d != 1))
            return true;
    return false;
}

static const cr_array *array_at(const cr_library *c, int k)
{
    return c->args > k && c->arg[k].kind == CR_GIVEN_ARRAY ? &c->arg[k].array : NULL;
}

static const struct {
    const char *entry;
    int a, b, bias; /* arguments; -1: none */
    bool turned;
} entries[] = {
    {"mm", 0, 1, -1, false},   {"bmm", 0, 1, -1, false},    {"matmul", 0, 1, -1, false},
    {"mv", 0, 1, -1, false},   {"dot", 0, 1, -1, false},    {"addmm", 1, 2, 0, false},
    {"addmv", 1, 2, 0, false}, {"baddbmm", 1, 2, 0, false}, {"linear", 0, 1, 2, true},
};

bool cr_product_of(cr_product *out, const cr_library *c, const char **why)
{
    size_t i = 0;
    cr_product p = {0};

    while (i < CR_LEN(entries) && strcmp(entries[i].entry, c->entry))
        i++;
    if (i == CR_LEN(entries))
        return false;
    p.out = &c->result[0];
    p.a = array_at(c, entries[i].a);
    p.b = array_at(c, entries[i].b);
    p.bias = entries[i].bias < 0 ? NULL : array_at(c, entries[i].bias);
    if (!entries[i].bias && has_factors(c))
        *why = "with factors";
    else if (!p.a || !p.b)
        *why = "without matrices";
    else
        *why = p.a->ndim < 2 || p.b->ndim < 2 ? find_vectors(&p, entries[i].turned)
                                              : find_matrices(&p, entries[i].turned);
    *out = p;
    return true;
}

int cr_library_dim(const cr_library *c)
{
    int64_t dim = c->arg[1].i;

    return (int)(dim < 0 ? dim + c->arg[0].array.ndim : dim);
}

/* --- convolutions --- */

static int64_t item_of(const cr_given *g, int d)
{
    return g->count ? g->ints[(size_t)d < g->count ? d : 0] : 0;
}

/* Where a call has what: arguments; -1: the result. */
typedef struct {
    const char *entry;
    int x, w, out, bias, stride, groups;
    cr_convolution_kind kind;
} convolution_form;

static const convolution_form forms[] = {
    {"convolution", 0, 1, -1, 2, 3, 8, CR_CONVOLUTION},
    {"_convolution_output", 0, 1, -1, 9, 3, 6, CR_CONVOLUTION},
    {"convolution", -1, 1, 0, 2, 3, 8, CR_CONVOLUTION_SPREAD}, /* transposed */
    {"_convolution_input_grad", -1, 1, 0, 9, 3, 6, CR_CONVOLUTION_SPREAD},
    {"_convolution_weight_grad", 1, -1, 0, 9, 3, 6, CR_CONVOLUTION_WEIGH},
};

static const convolution_form *form_of(const cr_library *c)
{
    for (size_t i = 0; i < CR_LEN(forms); i++)
        if (!strcmp(c->entry, forms[i].entry) && c->args > forms[i].groups &&
            (forms[i].groups != 8 || (forms[i].x < 0) == (c->arg[6].i != 0)))
            return &forms[i];
    return NULL;
}

static void put_steps(int64_t *step, const cr_array *a)
{
    bool planar = a->ndim == 4;

    step[0] = a->stride[0];
    step[1] = a->stride[1];
    step[2] = planar ? a->stride[2] : a->size[2] * a->stride[2];
    step[3] = a->stride[a->ndim - 1];
}

static void number(cr_convolution *c, const cr_given *stride, int64_t groups)
{
    const cr_array *x = c->x, *w = c->w, *to = c->out;
    bool planar = x->ndim == 4;
    int width = x->ndim - 1;
    const int64_t n[] = {
        x->size[1] / groups,
        to->size[1] / groups,
        planar ? x->size[2] : 1,
        x->size[width],
        planar ? w->size[2] : 1,
        w->size[width],
        planar ? item_of(&stride[0], 0) : 1,
        item_of(&stride[0], planar),
        planar ? item_of(&stride[1], 0) : 0,
        item_of(&stride[1], planar),
        planar ? item_of(&stride[2], 0) : 1,
        item_of(&stride[2], planar),
        to->size[0],
        groups,
        planar ? to->size[2] : 1,
        to->size[width],
    };

    memcpy(c->number, n, sizeof n);
    put_steps(c->number + 16, x);
    put_steps(c->number + 20, to);
}

static const cr_array *operand(const cr_library *c, int k)
{
    return k < 0 ? &c->result[0] : array_at(c, k);
}

bool cr_convolution_of(cr_convolution *out, const cr_library *c, const char **why)
{
    const convolution_form *f = form_of(c);

    if (!f)
        return false;
    *out = (cr_convolution){f->kind,          operand(c, f->out),   operand(c, f->x),
                            operand(c, f->w), array_at(c, f->bias), {0}};
    if (out->x->ndim != 3 && out->x->ndim != 4)
        *why = "of three dims";
    else
        number(out, &c->arg[f->stride], c->arg[f->groups].i);
    return true;
}

bool cr_array_is_dense(const cr_array *a)
{
    int64_t next = 1;

    for (int d = a->ndim - 1; d >= 0; d--) {
        if (a->size[d] != 1 && a->stride[d] != next)
            return false;
        next *= a->size[d];
    }
    return true;
}
