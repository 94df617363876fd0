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

static uintptr_t value_number(void *alike, const cr_gvalue *v)
{
    cr_alike *x = alike;

    if (x->group[v->id] != x->groups) {
        CR_PUSH(x->s, &x->reads, (cr_gvalue *)(uintptr_t)v);
        number_value(x, v, -(int32_t)x->reads.len);
    }
    return (uintptr_t)x->number[v->id];
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
        put(out, &n->result_count, sizeof n->result_count);
        cr_gnode_key(out, n, value_number, x);
        for (int k = 0; k < n->result_count; k++) {
            number_value(x, n->result[k], ++made);
            put_type(x, out, &n->result[k]->type);
        }
    }
    for (int k = 0; k < b->output_count; k++)
        cr_garg_key(out, &b->output[k], value_number, x);
    for (size_t k = 0; k < x->reads.len; k++)
        put_type(x, out, &x->reads.at[k]->type);
}
