/* Calls for all examples of a batch at once: levels, examples, and which rule takes a call.
 *
 * A rule makes a call of the batch out of a call of an example; batch_call.h lists them.  Calls
 * that no rule takes are left to the caller, or made for one example after the other. */
#include "tensor/batch.h"
#include "entry.h"
#include "tensor/batch_call.h"
#include "tensor/internal.h"
#include <string.h>

/* --- levels --- */

enum { LEVELS_RUNNING = 64 };
static _Atomic uint64_t level_last;
static _Atomic uint64_t levels_running[LEVELS_RUNNING]; /* 0: no level */

/* Levels that never end are odd. */
uint64_t cr_level_new(void) { return atomic_fetch_add(&level_last, 2) + 2; }

uint64_t cr_level_new_endless(void) { return cr_level_new() | 1; }

void cr_level_starts(uint64_t level)
{
    for (int i = 0; i < LEVELS_RUNNING; i++) {
        uint64_t none = 0;
        if (atomic_compare_exchange_strong(&levels_running[i], &none, level))
            return;
    }
}

void cr_level_ends(uint64_t level)
{
    for (int i = 0; i < LEVELS_RUNNING; i++) {
        uint64_t own = level;
        if (atomic_compare_exchange_strong(&levels_running[i], &own, 0))
            return;
    }
}

static bool level_runs(uint64_t level)
{
    if (level & 1)
        return true;
    for (int i = 0; i < LEVELS_RUNNING; i++)
        if (atomic_load_explicit(&levels_running[i], memory_order_relaxed) == level)
            return true;
    return false;
}

/* --- examples --- */

void cr_example_set(cr_tensor *t, cr_tensor *batch, uint64_t level)
{
    cr_tensor *old = t->batch;

    t->batch = cr_keep(batch);
    t->level = level;
    t->stages |= CR_DISPATCH_BITS;
    cr_drop(old);
}

cr_status cr_example_new(cr_tensor **out, cr_tensor *batch, uint64_t level)
{
    cr_tensor *t;

    CR_ASSERT(batch->ndim);
    CR_TRY(cr_tensor_new_strided(&t, (cr_dtype)batch->dtype, cr_as_fake(batch->device),
                                 batch->ndim - 1, batch->size + 1, batch->stride + 1));
    t->offset = batch->offset;
    cr_example_set(t, batch, level);
    *out = t;
    return CR_OK;
}

/* --- which rule --- */

static bool batch_writes(const cr_op *op)
{
    return op->does == CR_DOES_INPLACE || cr_batch_is_functional(op);
}

/* Tries the rule for the entry's kind. */
static cr_status batch_rule(batch_call *c, cr_value *result)
{
    const cr_op *op = c->op;
    int right, left = cr_batch_factor_dims(op, &right);
    cr_tensor *only = cr_batch_only(c);
    bool stated;

    if (cr_batch_is_functional(op))
        return cr_batch_functional(c, result);
    if (op->does == CR_DOES_INPLACE)
        return cr_batch_inplace(c, result);
    if (left)
        return cr_batch_product(c, left, right, result);
    if (op->words & CR_WORD_JOIN || op == cr_entry.stack)
        return cr_batch_join(c, result);
    if (op->does == CR_DOES_MAP)
        return cr_batch_map(c, result);
    if (op->words & CR_WORD_RESHAPE && only)
        return cr_batch_resize(c, result);
    if (op->does == CR_DOES_BODY)
        return cr_batch_pointwise(c, result);
    if (cr_op_find_param(op, "dims") >= 0 &&
        op->param[cr_op_find_param(op, "dims")].type == CR_T_INT)
        return cr_batch_trailing(c, result);
    CR_TRY(cr_batch_axes(c, &stated, result));
    if (stated)
        return CR_OK;
    if (cr_batch_is_like(c))
        return cr_batch_like(c, result);
    if (op->does == CR_DOES_FOLD)
        return cr_batch_fold(c, result);
    if (op->fused)
        return cr_batch_fused(c, result);
    if (op->does == CR_DOES_LOOP) {
        CR_TRY(cr_batch_loop(c, result));
        if (!c->left)
            return CR_OK;
        c->left = false;
        cr_batch_give(c);
    }
    if (only && op->words & CR_WORD_VIEW && op->words & CR_WORD_BITS && op->param_count == 1)
        return cr_batch_run(c, result);
    if (only && (op->does != CR_DOES_WHOLE || cr_batch_has_dims(op)))
        return cr_batch_named_dims(c, result);
    return cr_batch_leave(c);
}

/* The batches in a list, where no rule has replaced them. */
static cr_status batch_give_list(batch_call *c, int i)
{
    const cr_value *v = &c->arg[i];
    cr_value *list = cr_arena_get(&c->memory, v->len * sizeof *list + 1);

    CR_NEED(list);
    for (uint32_t k = 0; k < v->len; k++) {
        list[k] = v->list[k];
        if (cr_batch_has_value(c, &list[k]))
            list[k].t = list[k].t->batch;
    }
    c->given[i] = (cr_value){.tag = CR_TENSORS, .len = v->len, .list = list};
    return CR_OK;
}

cr_status cr_batch_any(batch_call *c, cr_value *result)
{
    cr_batch_give(c);
    CR_TRY(batch_rule(c, result));
    if (!c->left || batch_writes(c->op))
        return CR_OK;
    c->left = false;
    cr_batch_give(c);
    for (int i = 0; i < c->op->param_count; i++)
        if (c->arg[i].tag == CR_TENSORS)
            CR_TRY(batch_give_list(c, i));
    return cr_batch_other(c, result);
}

/* Makes each result an example.  One without the batch's dim is left out, such as the vectors
 * of a decomposition that computes values only: it is that of all examples. */
static cr_status batch_show(batch_call *c, cr_value *v)
{
    cr_tensor *t, *whole;

    for (uint32_t k = 0; v->tag == CR_TENSORS && k < v->len; k++)
        CR_TRY(batch_show(c, (cr_value *)&v->list[k]));
    if (v->tag != CR_TENSOR)
        return CR_OK;
    whole = v->t;
    if (!whole->ndim || whole->size[0] != c->size)
        CR_TRY(cr_batch_whole(c, &whole, v->t));
    CR_TRY(cr_example_new(&t, whole, c->level));
    cr_drop(v->t);
    v->t = t;
    return CR_OK;
}

typedef struct {
    uint64_t level;
    int64_t size;
    bool other; /* a tensor that another handler takes, or that has another layout */
} batch_found;

static void batch_find(cr_tensor *t, void *context)
{
    batch_found *f = context;

    if (!t->batch) {
        f->other |= cr_is_dispatched(t) || t->layout;
        return;
    }
    f->other |= t->batch->layout || !t->batch->ndim;
    if (t->level > f->level) {
        f->level = t->level;
        f->size = t->batch->ndim ? t->batch->size[0] : 0;
    }
}

/* Of an entry whose results' sizes depend on elements: false where these are those of one mask
 * for all examples, in a list of indices. */
static bool batch_sizes_differ(const cr_op *op, const cr_value *arg)
{
    bool listed = false;

    for (int i = 0; i < op->param_count; i++) {
        if (op->param[i].type != CR_T_TENSORS || arg[i].tag != CR_TENSORS)
            continue;
        listed = true;
        for (uint32_t k = 0; k < arg[i].len; k++)
            if (arg[i].list[k].tag == CR_TENSOR && arg[i].list[k].t->batch &&
                (arg[i].list[k].t->dtype == CR_BOOL || arg[i].list[k].t->dtype == CR_U8))
                return true;
    }
    return !listed;
}

/* Entries that no rule takes: programs' own, those that draw numbers or write arguments, and
 * those whose results' sizes depend on elements. */
static bool batch_refuses(const cr_op *op, const cr_value *arg)
{
    if (op->custom || op->updates.params ||
        op->words & (CR_WORD_RANDOM | CR_WORD_SPARSE | CR_WORD_RESETS | CR_WORD_MEETS))
        return true;
    if (op->words & CR_WORD_SIZED_BY_VALUES && batch_sizes_differ(op, arg))
        return true;
    for (int i = batch_writes(op); i < op->param_count; i++)
        if (op->param[i].written)
            return true;
    return false;
}

cr_status cr_batch_call(const cr_op *op, const cr_value *arg, cr_value *result, bool *left)
{
    batch_found found = {0};
    uint32_t was = cr_thread.exclude;
    cr_status st;

    *left = true;
    cr_each_tensor(op, arg, batch_find, &found);
    if (!found.level || found.other || batch_refuses(op, arg) || !level_runs(found.level))
        return CR_OK;
    batch_call c = {.op = op, .arg = arg, .level = found.level, .size = found.size};
    if (op == cr_entry.detach) { /* of a saved result: the batch keeps its history */
        *left = false;
        result[0] = cr_of_tensor(NULL);
        CR_TRY(cr_example_new(&result[0].t, arg[0].t->batch, found.level));
        result[0].tag = CR_TENSOR;
        return CR_OK;
    }
    cr_thread.exclude = was & ~CR_STAGES_UP_TO(CR_STAGE_AUTOGRAD);
    st = cr_batch_any(&c, result);
    cr_thread.exclude = was;
    *left = !st && c.left;
    if (!st && !c.left && !batch_writes(op))
        for (int k = 0; !st && k < op->result_count; k++)
            if ((st = batch_show(&c, &result[k])))
                cr_drop_values(result, op->result_count);
    cr_batch_drop(&c);
    return st;
}

/* --- compositions --- */

static void batch_find_outer(cr_tensor *t, void *context)
{
    bool *found = context;

    for (t = t->batch ? t->batch : t; t; t = t->batch)
        *found |= t->requires_grad;
}

static void batch_find_written(cr_tensor *t, void *context)
{
    bool *empty = context;

    *empty |= t->batch && t->batch->ndim && !t->batch->size[0];
}

bool cr_batch_comes_apart(const cr_op *op, const cr_value *arg)
{
    bool found = false, empty = false;
    bool parts = op->does == CR_DOES_IS || (op->does == CR_DOES_STEPS && op->body_count) ||
                 (op->does == CR_DOES_WHOLE && op->defer.by_calls);

    if (!parts || op->custom || op->updates.params || !cr_op_makes_tensors(op) ||
        op->words & (CR_WORD_RANDOM | CR_WORD_SPARSE | CR_WORD_SIZED_BY_VALUES))
        return false;
    for (int i = 0; i < op->param_count; i++)
        if (op->param[i].written)
            return false;
    cr_each_tensor(op, arg, batch_find_written, &empty);
    if (empty)
        return false;
    if (!cr_thread.no_grad && op->grad_count)
        cr_each_tensor(op, arg, batch_find_outer, &found);
    return !found;
}

/* The dtypes of a call by its entry; an error where the entry's function would raise it. */
static cr_status batch_types(const cr_op *op, const cr_value *arg, cr_dtype *compute,
                             cr_dtype *types)
{
    cr_frame f;
    cr_status st;

    cr_frame_init(&f, op, arg);
    st = cr_run_checks(op, &f);
    if (!st)
        st = cr_compute_type(compute, op, arg, &f);
    for (int k = 0; !st && k < op->result_count; k++)
        st = cr_result_type(&types[k], op, k, *compute, &f);
    cr_frame_drop(&f);
    return st;
}

static cr_status batch_cast(cr_tensor **out, cr_tensor *t, cr_dtype to)
{
    cr_value arg[] = {cr_of_tensor(t), cr_of_dtype(to)};

    return cr_call_tensor(out, cr_entry.to_dtype, arg, 2);
}

/* A kernel of rows computes halves in float32, and rounds results only. */
static cr_status batch_parts_of_halves(const cr_op *op, const cr_value *arg, cr_dtype compute,
                                       const cr_dtype *types, cr_value *result,
                                       cr_call_fn parts)
{
    batch_call c = {.op = op, .arg = arg};
    cr_value made[CR_MAX_RESULTS];
    cr_tensor *t;
    cr_status st;

    memcpy(c.given, arg, op->param_count * sizeof *arg);
    for (int i = 0; i < op->param_count; i++) {
        if (arg[i].tag != CR_TENSOR || arg[i].t->dtype != compute)
            continue;
        CR_GO(batch_cast(&t, arg[i].t, cr_dtype_compute(compute)));
        CR_GO(cr_batch_keep(&c, t));
        c.given[i] = cr_of_tensor(t);
    }
    CR_GO(parts(op, c.given, made));
    for (int k = 0; k < op->result_count; k++)
        result[k] = cr_of_none();
    for (int k = 0; k < op->result_count && !st; k++)
        if (!(st = batch_cast(&t, made[k].t, types[k])))
            result[k] = cr_of_tensor(t);
    cr_drop_values(made, op->result_count);
    if (st)
        cr_drop_values(result, op->result_count);
done:
    cr_batch_drop(&c);
    return st;
}

cr_status cr_batch_in_parts(const cr_op *op, const cr_value *arg, cr_value *result,
                            cr_call_fn parts)
{
    cr_dtype compute, types[CR_MAX_RESULTS];
    bool all = true;

    for (int i = 0; i < op->param_count; i++)
        all &= op->param[i].type != CR_T_TENSOR || arg[i].tag == CR_TENSOR;
    if (!(op->fused && all) && op->does != CR_DOES_STEPS)
        return parts(op, arg, result);
    CR_TRY(batch_types(op, arg, &compute, types));
    if (op->fused && cr_dtype_is_float(compute) && cr_dtype_compute(compute) != compute)
        return batch_parts_of_halves(op, arg, compute, types, result, parts);
    return parts(op, arg, result);
}
