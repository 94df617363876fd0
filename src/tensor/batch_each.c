/* Batches of all other entries.
 *
 * A function on plain views runs on the views of one example after the other, with results that
 * were allocated once (extern.c).  Where autograd records the call for the batch, it is made
 * for each example.  Batches of examples of a lower level become examples of one batch of all,
 * at a level that never ends. */
#include "entry.h"
#include "tensor/batch.h"
#include "tensor/batch_call.h"
#include "tensor/internal.h"
#include <string.h>

static void batch_find_history(cr_tensor *t, void *context)
{
    bool *found = context;

    *found |= t->requires_grad;
}

/* Whether autograd will record a call for the batch. */
static bool batch_is_recorded(const batch_call *c)
{
    bool found = false;

    if (cr_thread.no_grad || !c->op->differentiable)
        return false;
    cr_each_tensor(c->op, c->given, batch_find_history, &found);
    return found;
}

static void batch_find_lower(cr_tensor *t, void *context)
{
    uint64_t *level = context;

    if (t->batch && t->level > *level)
        *level = t->level;
}

/* Replaces the tensors of an argument by what `make` makes of them. */
static cr_status
batch_replace(batch_call *c, int i,
              cr_status (*make)(batch_call *, cr_tensor **, cr_tensor *, void *), void *context)
{
    const cr_value *v = &c->arg[i];
    cr_value *list;
    cr_tensor *t;

    if (v->tag == CR_TENSOR) {
        CR_TRY(make(c, &t, v->t, context));
        c->given[i] = cr_of_tensor(t);
    }
    if (v->tag != CR_TENSORS || !v->len)
        return CR_OK;
    list = cr_arena_get(&c->memory, v->len * sizeof *list);
    CR_NEED(list);
    for (uint32_t k = 0; k < v->len; k++) {
        list[k] = v->list[k];
        if (list[k].tag != CR_TENSOR)
            continue;
        CR_TRY(make(c, &t, v->list[k].t, context));
        list[k].t = t;
    }
    c->given[i] = (cr_value){.tag = CR_TENSORS, .len = v->len, .list = list};
    return CR_OK;
}

/* Replaces the batches among the arguments by one example. */
static cr_status batch_select(batch_call *c, cr_tensor **out, cr_tensor *t, void *context)
{
    *out = t;
    if (!cr_batch_has(c, t))
        return CR_OK;
    cr_value arg[] = {cr_of_tensor(t->batch), cr_of_int(0), cr_of_int(*(int64_t *)context)};
    return cr_batch_apply(c, out, cr_entry.select_int, arg, 3);
}

static bool batch_has_lists(const cr_op *op)
{
    for (int k = 0; k < op->result_count; k++)
        if (op->result[k].type != CR_T_TENSOR)
            return true;
    return false;
}

/* Makes result k of the results of all examples. */
static cr_status batch_stack(batch_call *c, cr_value *list, int k, cr_value *result)
{
    int n = c->op->result_count;

    for (int64_t e = 0; e < c->size; e++)
        list[e] = cr_of_tensor(c->more.at[e * n + k]);
    cr_value arg = {.tag = CR_TENSORS, .len = (uint32_t)c->size, .list = list};
    return cr_call_tensor(&result->t, cr_entry.stack, &arg, 1);
}

/* Makes the call for one example after the other, so that autograd records each. */
static cr_status batch_each(batch_call *c, cr_value *result)
{
    batch_call all = {.op = c->op, .size = c->size}; /* owns the results */
    int n = c->op->result_count;
    cr_value *list = cr_arena_get(&c->memory, (size_t)c->size * sizeof *list + 1);
    cr_status st;

    CR_NEED(list);
    CR_GO(cr_vec_reserve(&all.more, (size_t)c->size * n));
    for (int64_t e = 0; e < c->size; e++) {
        cr_value made[CR_MAX_RESULTS];
        cr_batch_give(c);
        for (int i = 0; i < c->op->param_count; i++)
            CR_GO(batch_replace(c, i, batch_select, &e));
        CR_GO(cr_batch_run(c, made));
        for (int k = 0; k < n; k++)
            cr_vec_put(&all.more, made[k].tag == CR_TENSOR ? made[k].t : NULL);
    }
    for (int k = 0; k < n; k++) {
        result[k] = cr_of_none();
        if (!all.more.at[k])
            continue;
        st = batch_stack(&all, list, k, &result[k]);
        if (st) {
            cr_drop_values(result, k);
            goto done;
        }
        result[k].tag = CR_TENSOR;
    }
done:
    cr_batch_drop(&all);
    return st;
}

/* What batches of examples of a lower level become: one batch of all. */
typedef struct {
    uint64_t lower, level;
    int64_t size; /* number of examples of the lower level */
} batch_merge;

static cr_status batch_to_merged(batch_call *c, cr_tensor **out, cr_tensor *t, void *context)
{
    const batch_merge *m = context;
    int64_t size[CR_MAX_DIMS];
    cr_tensor *whole, *all;
    batch_call lower = {.op = c->op, .level = m->lower, .size = m->size};
    cr_status st;

    *out = t;
    if (!cr_batch_has(c, t) && !(t->batch && t->level == m->lower))
        return CR_OK;
    CR_TRY(cr_batch_whole(c, &whole, t));
    CR_GO(cr_batch_whole(&lower, &all, whole));
    size[0] = m->size * c->size;
    memcpy(size + 1, all->size + 2, (all->ndim - 2) * sizeof *size);
    CR_GO(cr_batch_reshape(c, &all, all, all->ndim - 1, size));
    CR_GO(cr_example_new(&all, all, m->level));
    CR_GO(cr_batch_keep(c, all));
    *out = all;
done:
    cr_batch_drop(&lower);
    return st;
}

/* The batch of all results becomes an example of the lower level. */
static cr_status batch_unmerge(cr_value *v, const batch_merge *m, int64_t size)
{
    int64_t sizes[CR_MAX_DIMS];
    cr_tensor *parted, *made;

    for (uint32_t k = 0; v->tag == CR_TENSORS && k < v->len; k++)
        CR_TRY(batch_unmerge((cr_value *)&v->list[k], m, size));
    if (v->tag != CR_TENSOR)
        return CR_OK;
    cr_tensor *all = v->t->batch;
    CR_ASSERT(all && v->t->level == m->level);
    if (all->ndim >= CR_MAX_DIMS)
        return cr_fail(CR_RUNTIME, "a batch of results has more than %d dims", CR_MAX_DIMS);
    sizes[0] = m->size;
    sizes[1] = size;
    memcpy(sizes + 2, all->size + 1, (all->ndim - 1) * sizeof *sizes);
    cr_value arg[] = {cr_of_tensor(all), cr_of_ints(sizes, (size_t)all->ndim + 1)};
    CR_TRY(cr_call_tensor(&parted, cr_entry.reshape, arg, 2));
    cr_status st = cr_example_new(&made, parted, m->lower);
    cr_drop(parted);
    CR_TRY(st);
    cr_drop(v->t);
    v->t = made;
    return CR_OK;
}

/* Batches of examples of a lower level: the call for all examples of both levels. */
static cr_status batch_merged(batch_call *c, uint64_t lower, int64_t lower_size,
                              cr_value *result)
{
    batch_merge m = {.lower = lower, .level = cr_level_new_endless(), .size = lower_size};

    for (int i = 0; i < c->op->param_count; i++)
        CR_TRY(batch_replace(c, i, batch_to_merged, &m));
    CR_TRY(cr_batch_run(c, result));
    for (int k = 0; k < c->op->result_count; k++) {
        cr_status st = batch_unmerge(&result[k], &m, c->size);
        if (st) {
            cr_drop_values(result, c->op->result_count);
            return st;
        }
    }
    return CR_OK;
}

typedef struct {
    uint64_t level;
    int64_t size;
} batch_size_of;

static void batch_find_size_of(cr_tensor *t, void *context)
{
    batch_size_of *s = context;

    if (t->batch && t->level == s->level)
        s->size = t->batch->size[0];
}

static void batch_find_bytes(cr_tensor *t, void *context)
{
    bool *plain = context;

    *plain &= cr_is_host_memory(t->device) && !(t->stages & ~CR_STAGE_BIT(AUTOGRAD)) &&
              (t->address || !t->numel);
}

cr_status cr_batch_other(batch_call *c, cr_value *result)
{
    batch_size_of lower = {0};
    bool plain = true;

    if (cr_thread.include & ~cr_thread.exclude & CR_STAGE_BIT(CAPTURE))
        return cr_batch_leave(c);
    if (batch_is_recorded(c)) {
        bool each = c->size && c->op->does != CR_DOES_WHOLE && !batch_has_lists(c->op);
        return each ? batch_each(c, result) : cr_batch_leave(c);
    }
    if (!cr_extern_takes_batch(c->op, c->given))
        return cr_batch_leave(c);
    cr_each_tensor(c->op, c->given, batch_find_lower, &lower.level);
    if (lower.level) {
        cr_each_tensor(c->op, c->given, batch_find_size_of, &lower);
        return batch_merged(c, lower.level, lower.size, result);
    }
    CR_TRY(cr_defer_settle_all(c->op, c->given));
    cr_each_tensor(c->op, c->given, batch_find_bytes, &plain);
    if (!plain)
        return cr_batch_leave(c);
    return cr_run_extern_batch(c->op, c->arg, c->given, c->size, result);
}
