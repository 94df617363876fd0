/* Groups that are alike.
 *
 * Equal layers have groups with the same operators and arguments over values of the same types,
 * so that one plan is valid for all of them.  The description of a group is everything that
 * planning reads, with values replaced by numbers. */
#include "compile/code.h"

cr_alike *cr_alike_new(cr_session *s, unsigned values, bool all_sizes)
{
    cr_alike *x = CR_NEW(s, cr_alike);

    x->s = s;
    x->all_sizes = all_sizes;
    x->group = CR_NEW_N(s, uint32_t, values);
    x->number = CR_NEW_N(s, int32_t, values);
    return x;
}

static void put(cr_text *t, const void *bytes, size_t n) { cr_text_put_n(t, bytes, n); }

static void put_type(const cr_alike *x, cr_text *t, const cr_gtype *type)
{
    uint8_t facts[] = {type->known,          type->dtype,       type->ndim,
                       type->stride != NULL, type->device.kind, type->device.index,
                       type->device.fake};

    put(t, facts, sizeof facts);
    if (!type->known)
        return;
    if (x->all_sizes) { /* the types are equal for all sizes when they share their arrays */
        put(t, &type->size, sizeof type->size);
        put(t, &type->stride, sizeof type->stride);
        return;
    }
    put(t, type->size, type->ndim * sizeof *type->size);
    if (type->stride)
        put(t, type->stride, type->ndim * sizeof *type->stride);
}

/* Values of the group have numbers 1, 2, ...; values from outside -1, -2, ... */
static void number_value(cr_alike *x, const cr_gvalue *v, int32_t number)
{
    x->group[v->id] = x->groups;
    x->number[v->id] = number;
}

static void put_value(cr_alike *x, cr_text *t, cr_gvalue *v)
{
    if (x->group[v->id] == x->groups) {
        put(t, &x->number[v->id], sizeof x->number[v->id]);
        return;
    }
    CR_PUSH(x->s, &x->reads, v);
    number_value(x, v, -(int32_t)x->reads.len);
    put(t, &x->number[v->id], sizeof x->number[v->id]);
    put_type(x, t, &v->type);
}

static void put_arg(cr_alike *x, cr_text *t, const cr_garg *a)
{
    put(t, &a->tag, sizeof a->tag);
    switch (a->tag) {
    case CR_NONE: return;
    case CR_TENSOR: put_value(x, t, a->value); return;
    case CR_NUMBER:
        put(t, &a->number.category, sizeof a->number.category);
        put(t, &a->number.c, a->number.category == CR_CAT_COMPLEX ? 16 : 8);
        return;
    case CR_INTS:
    case CR_TRUTHS:
        put(t, &a->len, sizeof a->len);
        put(t, a->ints, a->len * sizeof *a->ints);
        return;
    case CR_FLOATS:
        put(t, &a->len, sizeof a->len);
        put(t, a->floats, a->len * sizeof *a->floats);
        return;
    case CR_STRING:
        put(t, &a->len, sizeof a->len);
        put(t, a->s, a->len);
        return;
    case CR_TENSORS:
    case CR_NUMBERS:
        put(t, &a->len, sizeof a->len);
        for (uint32_t i = 0; i < a->len; i++)
            put_arg(x, t, &a->list[i]);
        return;
    default: put(t, &a->i, sizeof a->i); return;
    }
}

static void put_varying(cr_text *t, const cr_gnode *n)
{
    put(t, &n->varying_count, sizeof n->varying_count);
    for (int i = 0; i < n->varying_count; i++) {
        uint32_t place[] = {n->varying[i].arg, n->varying[i].item,
                            (uint32_t)n->varying[i].number};
        put(t, place, sizeof place);
    }
}

void cr_alike_describe(cr_alike *x, cr_text *out, const cr_gnode *group)
{
    const cr_gblock *b = group->block[0];
    int32_t made = 0;

    x->groups++;
    x->reads.len = x->reads.cap = 0;
    x->reads.at = NULL;
    for (size_t i = 0; i < b->len; i++) {
        const cr_gnode *n = b->at[i];
        put(out, &n->op, sizeof n->op);
        put(out, &n->result_count, sizeof n->result_count);
        put_varying(out, n);
        for (int k = 0; k < n->arg_count; k++)
            put_arg(x, out, &n->arg[k]);
        for (int k = 0; k < n->result_count; k++) {
            number_value(x, n->result[k], ++made);
            put_type(x, out, &n->result[k]->type);
        }
    }
    for (int k = 0; k < b->output_count; k++)
        put_arg(x, out, &b->output[k]);
}
