/* Entries whose promises say where the elements of their results are: `reshape`, `permute`,
 * `expand`, `join`, `split`, `identity` and `cast`, and those that fill a result. */
#include "onnx/lower.h"
#include <string.h>

enum {
    VIEWS = CR_WORD_RESHAPE | CR_WORD_PERMUTE | CR_WORD_EXPAND | CR_WORD_JOIN | CR_WORD_SPLIT |
            CR_WORD_IDENTITY | CR_WORD_CAST
};

bool ox_is_view(const cr_gnode *n) { return (n->op->words & VIEWS) || n->op->filled; }

static const cr_gvalue *operand(ox *x) { return x->node[0]->arg[0].value; }

/* --- sizes of the result --- */

static bool same_size(const ox_arg *a, const ox_arg *b, int samples)
{
    return a->at && b->at ? !memcmp(a->at, b->at, (size_t)samples * sizeof *a->at)
                          : !a->at && !b->at && a->i == b->i;
}

/* In the input of Reshape 0 is the operand's size along the same dim, and -1 what remains. */
static ox_value reshape_sizes(ox *x, const cr_gvalue *from, const cr_gvalue *to)
{
    int n = to->type.ndim, open = 0;
    ox_arg *size = CR_NEW_N(x->s, ox_arg, n + 1);

    for (int d = 0; d < n; d++) {
        ox_arg own = d < from->type.ndim ? ox_size(x, from, d) : ox_int(-1);
        size[d] = ox_size(x, to, d);
        if (!size[d].at && !size[d].i)
            ox_refuse(x, "a result without elements");
        if (size[d].at && same_size(&size[d], &own, x->samples))
            size[d] = ox_int(0);
        open += size[d].at != NULL;
    }
    for (int d = n - 1; d >= 0 && open; d--)
        if (size[d].at) {
            size[d] = ox_int(-1);
            break;
        }
    return ox_list_value(x, size, (size_t)n);
}

static ox_value reshaped(ox *x, const cr_gvalue *from, const cr_gvalue *to)
{
    return ox_op2(x->m, "Reshape", x->now[from->id], reshape_sizes(x, from, to));
}

/* Expand broadcasts both ways: sizes that stay are 1. */
static ox_value expanded(ox *x, const cr_gvalue *from, const cr_gvalue *to)
{
    int n = to->type.ndim, more = n - from->type.ndim;
    ox_arg *size = CR_NEW_N(x->s, ox_arg, n + 1);

    for (int d = 0; d < n; d++) {
        ox_arg own = d >= more ? ox_size(x, from, d - more) : ox_int(1);
        size[d] = ox_size(x, to, d);
        if (d >= more && same_size(&size[d], &own, x->samples))
            size[d] = ox_int(1);
    }
    return ox_op2(x->m, "Expand", x->now[from->id], ox_list_value(x, size, (size_t)n));
}

/* --- permutations --- */

/* The operand's dims, in the order of the result, found from strides that tell them apart. */
static ox_value permuted(ox *x, const cr_gnode *n)
{
    const cr_gtype *t = &n->arg[0].value->type;
    int64_t size[CR_MAX_DIMS], stride[CR_MAX_DIMS], perm[CR_MAX_DIMS];
    cr_view view = {.size = size, .stride = stride, .ndim = t->ndim, .dtype = t->dtype};
    cr_value arg[CR_MAX_ARGS];
    cr_geometry *to = CR_NEW(x->s, cr_geometry);

    if (n->op->does != CR_DOES_MAP || t->ndim > 62)
        ox_refuse(x, "its permutation is not known");
    for (int d = 0; d < t->ndim; d++) {
        size[d] = t->size[d];
        stride[d] = (int64_t)1 << d;
    }
    for (int i = 0; i < n->arg_count; i++) {
        arg[i] = (cr_value){.tag = n->arg[i].tag, .len = n->arg[i].len};
        memcpy(&arg[i].number, &n->arg[i].number,
               sizeof arg[i].number); /* the largest member */
    }
    arg[0] = (cr_value){.tag = CR_VIEW, .view = &view};
    cr_session_check(x->s, n->op->fn.on_geometry(arg, &view, to));
    for (int d = 0; d < to->ndim; d++)
        for (perm[d] = 0; (int64_t)1 << perm[d] < to->stride[d];)
            perm[d]++;
    ox_attr attr = {.name = "perm",
                    .kind = OX_INTS,
                    .ints = cr_session_copy(x->s, perm, sizeof perm),
                    .len = (size_t)to->ndim};
    ox_value self = x->now[n->arg[0].value->id];
    return ox_call(x->m, "Transpose", &self, 1, &attr, 1, 0, self.dtype);
}

/* --- along a dim --- */

static ox_attr along_dim(ox *x, int ndim)
{
    const cr_gnode *n = x->node[0];
    int at = cr_op_find_param(n->op, "dim");
    int64_t dim = at < 0 ? 0 : n->arg[at].i;

    return (ox_attr){.name = "axis", .kind = OX_INT, .i = dim < 0 ? dim + ndim : dim};
}

static ox_value joined(ox *x)
{
    const cr_gnode *n = x->node[0];
    ox_value *in = CR_NEW_N(x->s, ox_value, n->arg[0].len + 1);
    cr_dtype t = (cr_dtype)n->result[0]->type.dtype;
    int count = 0;

    for (uint32_t i = 0; i < n->arg[0].len; i++) {
        const cr_gvalue *v = n->arg[0].list[i].value;
        if (v->type.ndim !=
            n->result[0]->type.ndim) /* torch leaves out empty tensors of one dim */
            continue;
        in[count++] = ox_cast(x->m, x->now[v->id], t);
    }
    ox_attr axis = along_dim(x, n->result[0]->type.ndim);
    return ox_call(x->m, "Concat", in, count, &axis, 1, 0, t);
}

/* Pieces from `from` to `to`, as a node for each: the number of results of Split is small. */
static void splits(ox *x, ox_value *out)
{
    const cr_gnode *n = x->node[0];
    const cr_gvalue *self = operand(x);
    ox_attr axis = along_dim(x, self->type.ndim);
    int64_t from[OX_SAMPLES] = {0}, to[OX_SAMPLES];

    for (int k = 0; k < n->result_count; k++) {
        for (int p = 0; p < x->samples; p++)
            to[p] = from[p] + x->node[p]->result[k]->type.size[axis.i];
        ox_arg low = ox_varying(x, from), high = ox_varying(x, to), at = ox_int(axis.i);
        ox_value in[4] = {x->now[self->id], ox_int_value(x, &low), ox_int_value(x, &high),
                          ox_int_value(x, &at)};
        out[k] = ox_call(x->m, "Slice", in, 4, NULL, 0, 0, in[0].dtype);
        memcpy(from, to, sizeof from);
    }
}

/* --- constants --- */

static ox_value filled(ox *x)
{
    const cr_gnode *n = x->node[0];
    const cr_gtype *t = &n->result[0]->type;
    const cr_rule *r = n->op->filled;
    ox_arg *size = CR_NEW_N(x->s, ox_arg, t->ndim + 1), value = ox_int(r->integer);
    ox_attr attr = {.name = "value", .kind = OX_TENSOR, .dtype = (cr_dtype)t->dtype};

    if (r->kind == CR_RULE_NAME)
        value = ox_argument(x, r->slot);
    for (int d = 0; d < t->ndim; d++)
        size[d] = ox_size(x, n->result[0], d);
    ox_value sizes = ox_list_value(x, size, t->ndim);
    if (value.tag == CR_TENSOR || value.at) {
        ox_value one = value.tag == CR_TENSOR ? value.v : ox_int_value(x, &value);
        return ox_op2(x->m, "Expand", ox_cast(x->m, one, attr.dtype), sizes);
    }
    attr.d = value.tag == CR_FLOAT ? value.d : (double)value.i;
    attr.i = value.tag == CR_FLOAT ? cr_scalar_as_int(cr_scalar_float(value.d)) : value.i;
    return ox_call(x->m, "ConstantOfShape", &sizes, 1, &attr, 1, 0, attr.dtype);
}

void ox_by_view(ox *x, ox_value *out)
{
    const cr_gnode *n = x->node[0];
    unsigned words = n->op->words;

    if (words & CR_WORD_SPLIT)
        splits(x, out);
    else if (n->op->filled)
        out[0] = filled(x);
    else if (words & CR_WORD_JOIN)
        out[0] = joined(x);
    else if (words & CR_WORD_PERMUTE)
        out[0] = permuted(x, n);
    else if (words & CR_WORD_RESHAPE)
        out[0] = reshaped(x, operand(x), n->result[0]);
    else if (words & CR_WORD_EXPAND)
        out[0] = expanded(x, operand(x), n->result[0]);
    else
        out[0] = x->now[operand(x)->id];
}
