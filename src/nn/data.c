/* Minibatches of tensors, in order or shuffled as by torch's DataLoader. */
#include "entry.h"
#include "nn/nn_impl.h"
#include <string.h>

struct cr_loader {
    cr_tensor **tensor, **batch; /* `count` of each; batch: the last batch returned */
    size_t count;
    int64_t size, batch_size, at; /* number of samples; at: the next sample */
    bool shuffle, drop_last;
    cr_generator *generator; /* NULL for the default generator */
    cr_tensor *order;        /* int64 [size]; NULL without shuffling */
};

static const char schema[] =
    "loader(int batch_size=1, bool shuffle=False, *, bool drop_last=False, "
    "Generator? generator=None) -> Tensor";

static cr_status check_tensors(cr_tensor *const *tensors, size_t count)
{
    if (!count)
        return cr_fail(CR_VALUE, "DataLoader needs at least one tensor");
    for (size_t i = 0; i < count; i++) {
        CR_TRY(nn_need(tensors[i], "TensorDataset", "tensors", "Tensor"));
        if (!tensors[i]->ndim || tensors[i]->size[0] != tensors[0]->size[0])
            return cr_fail(CR_ASSERTION, "Size mismatch between tensors");
    }
    return CR_OK;
}

static cr_status loader_set_up(cr_loader *l, cr_tensor *const *tensors, size_t count,
                               const cr_arg *args)
{
    cr_value arg[CR_MAX_ARGS];
    cr_arena arena = {0};
    const cr_op *signature;

    CR_TRY(nn_bind(&signature, arg, &arena, schema, "DataLoader", args));
    CR_TRY(check_tensors(tensors, count));
    l->size = tensors[0]->size[0];
    l->batch_size = arg[0].i;
    l->shuffle = arg[1].i != 0;
    l->drop_last = arg[2].i != 0;
    if (l->batch_size <= 0)
        return cr_fail(CR_VALUE,
                       "batch_size should be a positive integer value, but got "
                       "batch_size=%lld",
                       (long long)l->batch_size);
    if (l->shuffle && !l->size)
        return cr_fail(CR_VALUE, "num_samples should be a positive integer value, but got "
                                 "num_samples=0");
    l->generator = arg[3].tag == CR_GENERATOR ? cr_generator_hold(arg[3].generator) : NULL;
    l->at = l->size;
    l->tensor = cr_alloc_zero(count * sizeof *l->tensor);
    l->batch = cr_alloc_zero(count * sizeof *l->batch);
    CR_NEED(l->tensor && l->batch);
    for (; l->count < count; l->count++)
        l->tensor[l->count] = cr_keep(tensors[l->count]);
    return CR_OK;
}

cr_status cr_loader_new(cr_loader **out, cr_tensor *const *tensors, size_t count,
                        const cr_arg *args)
{
    CR_TRY(nn_need(tensors, "DataLoader", "tensors", "tuple of Tensors"));
    cr_loader *l = cr_alloc_zero(sizeof *l);

    CR_NEED(l);
    cr_status st = loader_set_up(l, tensors, count, args);
    CR_GIVE(st, out, l, cr_loader_drop);
}

static void drop_batch(cr_loader *l)
{
    for (size_t i = 0; i < l->count; i++) {
        cr_drop(l->batch[i]);
        l->batch[i] = NULL;
    }
}

void cr_loader_drop(cr_loader *l)
{
    if (!l)
        return;
    drop_batch(l);
    for (size_t i = 0; i < l->count; i++)
        cr_drop(l->tensor[i]);
    cr_drop(l->order);
    if (l->generator)
        cr_generator_drop(l->generator);
    cr_free(l->tensor);
    cr_free(l->batch);
    cr_free(l);
}

static cr_value generator_value(cr_generator *g)
{
    return g ? (cr_value){.tag = CR_GENERATOR, .generator = g} : cr_of_none();
}

/* Draws a seed as torch does. */
static cr_status draw_seed(int64_t *out, cr_generator *from)
{
    cr_tensor *t = NULL, *same = NULL;

    CR_TRY(cr_tensor_new(&t, CR_I64, CR_HOST, 0, NULL));
    cr_value arg[] = {cr_of_tensor(t), generator_value(from)};
    char *bytes;
    cr_status st;

    CR_GO(cr_call_tensor(&same, cr_entry.random_, arg, 2));
    CR_GO(cr_reach(&bytes, t));
    memcpy(out, bytes, sizeof *out);
done:
    cr_drop(same);
    cr_drop(t);
    return st;
}

static cr_status draw_permutation(cr_tensor **out, int64_t n, cr_generator *g)
{
    cr_value arg[] = {cr_of_int(n), generator_value(g)};

    return cr_call_tensor(out, cr_entry.randperm, arg, 2);
}

/* Draws the order from the caller's generator.  Without one, a seed is drawn from the default
 * generator and the order from a new generator with this seed. */
static cr_status draw_order(cr_loader *l)
{
    cr_generator *own = NULL;
    cr_tensor *order = NULL;
    int64_t seed;

    if (!l->generator) {
        CR_TRY(draw_seed(&seed, NULL));
        CR_TRY(cr_generator_new(&own, (uint64_t)seed));
    }
    cr_status st = draw_permutation(&order, l->size, own ? own : l->generator);
    if (own)
        cr_generator_drop(own);
    CR_TRY(st);
    cr_drop(l->order);
    l->order = order;
    return CR_OK;
}

cr_status cr_loader_start(cr_loader *l)
{
    int64_t unused;

    CR_TRY(nn_need(l, "DataLoader", "self", "DataLoader"));
    drop_batch(l);
    /* torch first draws a seed for its workers, even when it has none. */
    CR_TRY(draw_seed(&unused, l->generator));
    if (l->shuffle)
        CR_TRY(draw_order(l));
    l->at = 0;
    return CR_OK;
}

static cr_status loader_narrow(cr_tensor **out, cr_tensor *t, int64_t from, int64_t n)
{
    cr_value arg[] = {cr_of_tensor(t), cr_of_int(0), cr_of_int(from), cr_of_int(from + n)};

    return cr_call_tensor(out, cr_entry.slice_Tensor, arg, 4);
}

static cr_status loader_pick(cr_tensor **out, cr_tensor *t, cr_tensor *rows)
{
    cr_value arg[] = {cr_of_tensor(t), cr_of_int(0), cr_of_tensor(rows)};

    return cr_call_tensor(out, cr_entry.index_select, arg, 3);
}

static cr_status make_batch(cr_loader *l, int64_t n)
{
    cr_tensor *rows = NULL;
    cr_status st = l->shuffle ? loader_narrow(&rows, l->order, l->at, n) : CR_OK;

    for (size_t i = 0; !st && i < l->count; i++)
        st = rows ? loader_pick(&l->batch[i], l->tensor[i], rows)
                  : loader_narrow(&l->batch[i], l->tensor[i], l->at, n);
    cr_drop(rows);
    return st;
}

/* At an epoch's end torch draws one more permutation, for samples that do not exist.  The draw
 * advances the caller's generator. */
static cr_status end_epoch(cr_loader *l)
{
    cr_tensor *unused = NULL;

    if (l->shuffle && l->generator && l->order)
        CR_TRY(draw_permutation(&unused, l->size, l->generator));
    cr_drop(unused);
    cr_drop(l->order);
    l->order = NULL;
    l->at = l->size;
    return CR_OK;
}

cr_status cr_loader_next(cr_loader *l, bool *more, cr_tensor **batch)
{
    CR_TRY(nn_need(l, "DataLoader", "self", "DataLoader"));
    int64_t left = l->size - l->at, n = left < l->batch_size ? left : l->batch_size;

    drop_batch(l);
    *more = n > 0 && !(l->drop_last && n < l->batch_size);
    if (!*more)
        return end_epoch(l);
    CR_TRY(make_batch(l, n));
    l->at += n;
    for (size_t i = 0; i < l->count; i++)
        batch[i] = l->batch[i];
    return CR_OK;
}

int64_t cr_loader_batches(const cr_loader *l)
{
    return !l             ? 0
           : l->drop_last ? l->size / l->batch_size
                          : (l->size + l->batch_size - 1) / l->batch_size;
}

size_t cr_loader_tensors(const cr_loader *l) { return l ? l->count : 0; }
