/* Exact rewrites: the bits do not change for any value, including -0, infinities and NaN.
 *
 * Each node is visited once, after its arguments were rewritten, so that one walk simplifies
 * chains.  A value that must not share memory (owner.c) is not replaced by another value; a
 * chain of views may still become one view of its root. */
#include "entry.h"
#include "graph/rewrite.h"
#include <string.h>

typedef struct {
    cr_owners owners;
    size_t at;
} simplifier;

static bool has_word(const cr_gnode *n, unsigned words)
{
    return n && n->kind == CR_GNODE_CALL && (n->op->words & words);
}

static cr_gvalue *arg_value(const cr_rewrite *w, const cr_gnode *n)
{
    return n->arg_count && n->arg[0].tag == CR_TENSOR ? w->now[n->arg[0].value->id] : NULL;
}

/* --- types --- */

static bool types_size_alike(const cr_gtype *a, const cr_gtype *b)
{
    return a->ndim == b->ndim &&
           (!a->ndim || !memcmp(a->size, b->size, a->ndim * sizeof *a->size));
}

static bool types_stride_alike(const cr_gtype *a, const cr_gtype *b)
{
    if (!a->stride || !b->stride)
        return !a->stride && !b->stride;
    return !a->ndim || !memcmp(a->stride, b->stride, a->ndim * sizeof *a->stride);
}

static bool types_alike(const cr_gtype *a, const cr_gtype *b)
{
    return a->known && b->known && a->dtype == b->dtype &&
           cr_same_device(a->device, b->device) && types_size_alike(a, b) &&
           types_stride_alike(a, b);
}

/* --- numbers --- */

static bool equals_default(const cr_garg *a, const cr_value *preset)
{
    if (a->tag == CR_NUMBER && preset->tag == CR_NUMBER)
        return cr_scalar_as_double(a->number) == cr_scalar_as_double(preset->number);
    return a->tag == CR_NONE && preset->tag == CR_NONE;
}

/* True for the neutral number (clause `neutral`) in the dtype of x. */
static bool is_neutral(const cr_garg *a, double number, const cr_gtype *x)
{
    if (a->tag != CR_NUMBER || a->number.category == CR_CAT_COMPLEX)
        return false;
    double y = cr_scalar_as_double(a->number);
    return y == number && (!cr_dtype_is_inexact((cr_dtype)x->dtype) ||
                           !__builtin_signbit(y) == !__builtin_signbit(number));
}

/* True when a call with a neutral number returns x. Not for complex numbers: the product of an
 * infinity and 1 + 0i has NaN. */
static bool gives_first(const cr_gnode *n, const cr_gtype *x)
{
    int at = n->op->neutral.param;

    if (at < 0 || !x->known || cr_dtype_is_complex((cr_dtype)x->dtype) ||
        !is_neutral(&n->arg[at], n->op->neutral.number, x))
        return false;
    for (int i = 1; i < n->arg_count; i++)
        if (i != at && !equals_default(&n->arg[i], &n->op->param[i].preset))
            return false;
    return true;
}

static bool same_arg(const cr_garg *a, const cr_garg *b)
{
    if (a->tag != b->tag || a->len != b->len)
        return false;
    switch (a->tag) {
    case CR_NONE: return true;
    case CR_INT:
    case CR_TRUTH:
    case CR_DTYPE_VAL: return a->i == b->i;
    case CR_INTS: return !a->len || !memcmp(a->ints, b->ints, a->len * sizeof *a->ints);
    default: return false;
    }
}

/* Compares all arguments but the first. */
static bool same_further_args(const cr_gnode *a, const cr_gnode *b)
{
    for (int i = 1; i < a->arg_count; i++)
        if (!same_arg(&a->arg[i], &b->arg[i]))
            return false;
    return a->arg_count == b->arg_count;
}

/* True when n is the inverse of `by`, which made n's first argument. */
static bool is_undone(const cr_gnode *n, const cr_gnode *by)
{
    unsigned dtypes = by ? by->op->inverse.dtypes : 0;

    if (!by || by->op->inverse.op != n->op || !same_further_args(n, by))
        return false;
    return !dtypes ||
           (by->arg[0].value->type.known && dtypes >> by->arg[0].value->type.dtype & 1);
}

static bool is_idempotent(const cr_gnode *n, const cr_gnode *by)
{
    return by && by->op == n->op && has_word(n, CR_WORD_IDEMPOTENT) && same_further_args(n, by);
}

/* --- dtypes --- */

/* True when `to` represents every value of `from`. */
static bool dtype_holds(cr_dtype to, cr_dtype from)
{
    if (cr_dtype_category(from) == CR_CAT_BOOL || to == from)
        return true;
    return cr_dtype_category(from) == cr_dtype_category(to) && cr_promote(to, from) == to;
}

static bool is_cast(const cr_gnode *n) { return has_word(n, CR_WORD_CAST); }

/* True for a cast to a wider type and back. */
static bool is_cast_back(const cr_gnode *n, const cr_gnode *by)
{
    const cr_gtype *x;

    if (!is_cast(n) || !by || !is_cast(by))
        return false;
    x = &by->arg[0].value->type;
    return x->known && by->result[0]->type.known && n->result[0]->type.known &&
           n->result[0]->type.dtype == x->dtype &&
           dtype_holds((cr_dtype)by->result[0]->type.dtype, (cr_dtype)x->dtype);
}

/* --- nodes that return a value unchanged --- */

static bool cuts_gradient(const cr_op *op)
{
    for (int i = 0; i < op->grad_count; i++)
        if (!op->grads[i].arg)
            return !op->grads[i].rule;
    return !op->differentiable && op->does != CR_DOES_IS && op->does != CR_DOES_WHOLE;
}

/* True when the result has the elements of the first argument in the same order, if it has the
 * same type. */
static bool keeps_elements(const cr_gnode *n)
{
    return has_word(n, CR_WORD_IDENTITY | CR_WORD_CAST | CR_WORD_RESHAPE | CR_WORD_EXPAND) &&
           !cuts_gradient(n->op);
}

static cr_gvalue *given_back(const cr_rewrite *w, const cr_gnode *n)
{
    cr_gvalue *x = arg_value(w, n);
    const cr_gnode *by = x ? x->by : NULL;

    if (!x)
        return NULL;
    if (!by || by->kind != CR_GNODE_CALL || !by->arg_count || by->arg[0].tag != CR_TENSOR)
        by = NULL;
    if (gives_first(n, &x->type) || keeps_elements(n) || is_idempotent(n, by))
        return x;
    return is_undone(n, by) || is_cast_back(n, by) ? by->arg[0].value : NULL;
}

/* --- chains of views --- */

/* True for a view of the same row-major elements with other sizes. */
static bool is_reshape(const cr_gnode *n)
{
    return has_word(n, CR_WORD_RESHAPE) && n->result[0]->type.known &&
           !n->result[0]->type.stride && n->arg[0].tag == CR_TENSOR &&
           n->arg[0].value->type.known && cr_gtype_is_contiguous(&n->arg[0].value->type);
}

/* Sets dims[k] to the argument's dim that is dim k of the result; false for other nodes. */
static bool is_permutation(const cr_gnode *n, int64_t *dims)
{
    int64_t size[CR_MAX_DIMS], stride[CR_MAX_DIMS];
    const cr_gtype *x =
        n && n->kind == CR_GNODE_CALL && n->arg_count && n->arg[0].tag == CR_TENSOR
            ? &n->arg[0].value->type
            : NULL;
    cr_value arg[CR_MAX_ARGS];
    cr_geometry g;

    if (!x || !x->known || !has_word(n, CR_WORD_PERMUTE) || n->op->does != CR_DOES_MAP)
        return false;
    for (int d = 0; d < x->ndim; d++) {
        size[d] = x->size[d];
        stride[d] = d; /* marks the dim, so that the view's strides give the permutation */
    }
    for (int i = 0; i < n->arg_count; i++) {
        arg[i] = (cr_value){.tag = n->arg[i].tag, .len = n->arg[i].len};
        memcpy(&arg[i].number, &n->arg[i].number, sizeof arg[i].number);
    }
    if (n->op->fn.on_geometry(arg, &(cr_view){.size = size, .stride = stride, .ndim = x->ndim},
                              &g) ||
        g.ndim != x->ndim)
        return false;
    memcpy(dims, g.stride, (size_t)g.ndim * sizeof *dims);
    return true;
}

static cr_gvalue *call_with_ints(cr_rewrite *w, cr_gblock *to, const cr_gnode *n,
                                 const cr_op *op, cr_gvalue *x, const int64_t *ints, int count)
{
    cr_garg arg[2] = {cr_garg_value(x), {.tag = CR_INTS, .len = (uint32_t)count, .ints = ints}};
    cr_gnode *made = cr_graph_call(w->to, to, op, arg, 1, &n->result[0]->name);

    made->source = n->source;
    made->result[0]->type = n->result[0]->type;
    return made->result[0];
}

static bool join_reshapes(cr_rewrite *w, cr_gblock *to, const cr_gnode *n, bool own)
{
    cr_gvalue *x = arg_value(w, n), *root;
    const cr_gtype *t = &n->result[0]->type;

    if (!is_reshape(n) || !x || !is_reshape(x->by))
        return false;
    root = x->by->arg[0].value;
    if (!own && types_alike(&root->type, t))
        w->now[n->result[0]->id] = root;
    else
        w->now[n->result[0]->id] =
            call_with_ints(w, to, n, cr_entry.view, root, t->size, t->ndim);
    return true;
}

static bool join_permutations(cr_rewrite *w, cr_gblock *to, const cr_gnode *n, bool own)
{
    int64_t outer[CR_MAX_DIMS], inner[CR_MAX_DIMS], both[CR_MAX_DIMS];
    cr_gvalue *x = arg_value(w, n);
    bool same = true, chained;
    int ndim;

    if (!x || !is_permutation(n, outer))
        return false;
    ndim = n->arg[0].value->type.ndim;
    chained = is_permutation(x->by, inner);
    for (int d = 0; d < ndim; d++) {
        both[d] = chained ? inner[outer[d]] : outer[d];
        same = same && both[d] == d;
    }
    if (same && !own)
        w->now[n->result[0]->id] = chained ? x->by->arg[0].value : x;
    else if (chained)
        w->now[n->result[0]->id] =
            call_with_ints(w, to, n, cr_entry.permute, x->by->arg[0].value, both, ndim);
    return chained || (same && !own);
}

/* --- the walk --- */

static bool simplify_node(cr_rewrite *w, cr_gblock *to, const cr_gnode *n)
{
    simplifier *s = w->context;
    cr_gvalue *same;
    bool own = cr_owners_has(&s->owners, n);

    if (cr_owners_past(&s->owners, w, to, &s->at) || n->kind != CR_GNODE_CALL ||
        n->result_count != 1 || cr_gnode_has_effect(n))
        return false;
    same = own ? NULL : given_back(w, n);
    if (same && types_alike(&same->type, &n->result[0]->type)) {
        w->now[n->result[0]->id] = same;
        return true;
    }
    return join_reshapes(w, to, n, own) || join_permutations(w, to, n, own);
}

cr_graph *cr_graph_simplify(const cr_graph *g)
{
    simplifier s = {.at = 0};
    cr_rewrite w = {.from = g, .node = simplify_node, .context = &s};

    cr_graph_need_sizes(g);
    return cr_owners_find(&s.owners, g) ? cr_rewrite_run(&w) : (cr_graph *)(uintptr_t)g;
}
