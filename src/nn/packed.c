/* Packed sequences: the steps of a batch of sequences of several lengths, without padding.
 *
 * The longest sequence is first, so batch_sizes[t] sequences have a step t, and they are the
 * first ones.  Steps with the same number of sequences are moved at once. */
#include "entry.h"
#include "nn/parts.h"
#include <string.h>

void cr_packed_drop(cr_packed *p)
{
    if (!p)
        return;
    cr_drop(p->data);
    cr_drop(p->batch_sizes);
    cr_drop(p->sorted);
    cr_drop(p->unsorted);
    *p = (cr_packed){NULL, NULL, NULL, NULL};
}

static cr_status packed_vector(cr_tensor **out, const int64_t *number, int64_t n)
{
    cr_tensor *t = NULL;
    char *to;

    CR_TRY(cr_tensor_new(&t, CR_I64, CR_HOST, 1, &n));
    cr_status st = cr_reach(&to, t);
    if (st) {
        cr_drop(t);
        return st;
    }
    if (n)
        memcpy(to, number, (size_t)n * sizeof *number);
    *out = t;
    return CR_OK;
}

/* The elements of a vector of int64 on the host, to be freed with cr_free. */
static cr_status packed_numbers(int64_t **out, cr_steps *w, cr_tensor *t)
{
    cr_tensor *host = t;

    if (!cr_is_host_memory(t->device))
        host = CR_STEP(w, _to_copy, cr_of_tensor(t), cr_of_none(), cr_of_none(),
                       (cr_value){.tag = CR_DEVICE_VAL, .i = cr_device_pack(CR_CPU, -1)});
    host = CR_STEP(w, to_dtype, cr_maybe(host), cr_of_dtype(CR_I64));
    host = CR_STEP(w, contiguous, cr_maybe(host));
    CR_TRY(w->st);
    size_t n = (size_t)host->size[0];
    char *from;
    CR_TRY(cr_reach(&from, host));
    *out = cr_alloc((n + 1) * sizeof **out);
    CR_NEED(*out);
    if (n)
        memcpy(*out, from, n * sizeof **out);
    return CR_OK;
}

static cr_status packed_check(const int64_t *length, int64_t count, int64_t batch)
{
    if (count != batch)
        return cr_fail(CR_RUNTIME,
                       "Expected `len(lengths)` to be equal to batch_size, but got %lld "
                       "(batch_size=%lld)",
                       (long long)count, (long long)batch);
    for (int64_t i = 0; i < count; i++)
        if (length[i] <= 0)
            return cr_fail(CR_RUNTIME,
                           "Length of all samples has to be greater than 0, but found an "
                           "element in 'lengths' that is <= 0");
    for (int64_t i = 1; i < count; i++)
        if (length[i] > length[i - 1])
            return cr_fail(
                CR_RUNTIME,
                "`lengths` array must be sorted in decreasing order when `enforce_sorted` is "
                "True. You can pass `enforce_sorted=False` to pack_padded_sequence and/or "
                "pack_sequence to sidestep this requirement if you do not need ONNX "
                "exportability.");
    return CR_OK;
}

/* size[t]: how many of the sorted sequences have a step t. */
static void packed_count(int64_t *size, const int64_t *length, int64_t batch)
{
    int64_t n = batch;

    for (int64_t t = 0; batch && t < length[0]; t++) {
        while (n && length[n - 1] <= t)
            n--;
        size[t] = n;
    }
}

/* The end of the run of equal sizes that begins at step t. */
static int64_t packed_run(const int64_t *size, int64_t steps, int64_t t)
{
    int64_t end = t + 1;

    while (end < steps && size[end] == size[t])
        end++;
    return end;
}

/* The steps of x (length, batch, ...) one after the other. */
static cr_tensor *packed_join(cr_steps *w, cr_tensor *x, const int64_t *size, int64_t steps)
{
    cr_tensor **part = cr_step_room(w, steps + 1), *out = NULL;
    int64_t n = 0, end;

    for (int64_t t = 0; part && !w->st && t < steps; t = end) {
        end = packed_run(size, steps, t);
        cr_tensor *run = CR_STEP(w, narrow, cr_of_tensor(x), I(0), I(t), I(end - t));
        run = CR_STEP(w, narrow, cr_maybe(run), I(1), I(0), I(size[t]));
        part[n++] = CR_STEP(w, flatten_using_ints, cr_maybe(run), I(0), I(1));
    }
    if (part && !w->st)
        out = cr_step_join(w, cr_entry.cat, part, n, 0);
    cr_free(part);
    return out;
}

/* Sorts the sequences by length: *x and *lengths are sorted, the result is the order. */
static cr_tensor *packed_sort(cr_steps *w, cr_tensor **x, cr_tensor **lengths, int batch_dim)
{
    const cr_value arg[] = {cr_of_tensor(*lengths), I(0), cr_of_bool(true)};
    cr_tensor *sorted[2] = {NULL, NULL};

    cr_step_all(w, sorted, cr_entry.sort, 3, arg);
    *lengths = sorted[0];
    *x = CR_STEP(w, index_select, cr_of_tensor(*x), I(batch_dim), cr_maybe(sorted[1]));
    return sorted[1];
}

static cr_tensor *packed_invert(cr_steps *w, cr_tensor *order)
{
    return order ? CR_STEP(w, argsort, cr_of_tensor(order)) : NULL;
}

static cr_status packed_give(cr_packed *out, cr_steps *w, const cr_packed *p)
{
    cr_tensor *unused = NULL;

    if (!w->st)
        *out = (cr_packed){cr_keep(p->data), cr_keep(p->batch_sizes), cr_keep(p->sorted),
                           cr_keep(p->unsorted)};
    return cr_steps_end(w, &unused, NULL);
}

cr_status cr_pack_padded(cr_packed *out, cr_tensor *input, cr_tensor *lengths, bool batch_first,
                         bool enforce_sorted)
{
    int64_t *length = NULL, *size = NULL, steps;
    cr_packed p = {NULL, NULL, NULL, NULL};
    cr_tensor *x = input;
    cr_steps w = {0};
    cr_status st;

    CR_TRY(nn_need(out, "pack_padded_sequence", "out", "PackedSequence"));
    CR_TRY(nn_need(input, "pack_padded_sequence", "input", "Tensor"));
    CR_TRY(nn_need(lengths, "pack_padded_sequence", "lengths", "Tensor"));
    if (input->ndim < 2 || lengths->ndim != 1)
        return cr_fail(CR_RUNTIME,
                       "pack_padded_sequence: input must have at least 2 dims and "
                       "lengths one, got %d and %d",
                       input->ndim, lengths->ndim);
    if (!enforce_sorted)
        p.sorted = packed_sort(&w, &x, &lengths, batch_first ? 0 : 1);
    if (batch_first)
        x = CR_STEP(&w, transpose_int, cr_maybe(x), I(0), I(1));
    CR_GO(w.st);
    CR_GO(packed_numbers(&length, &w, lengths));
    CR_GO(packed_check(length, lengths->size[0], x->size[1]));
    steps = x->size[1] ? length[0] : 0;
    size = cr_alloc((size_t)(steps + 1) * sizeof *size);
    CR_GO(size ? CR_OK : CR_MEMORY);
    packed_count(size, length, x->size[1]);
    p.data = packed_join(&w, x, size, steps);
    p.unsorted = packed_invert(&w, p.sorted);
    CR_GO(w.st);
    CR_GO(packed_vector(&p.batch_sizes, size, steps));
    p.batch_sizes = cr_step_own(&w, p.batch_sizes);
    st = w.st;
done:
    cr_free(length);
    cr_free(size);
    cr_step_fail(&w, st);
    return packed_give(out, &w, &p);
}

/* --- back to padded --- */

/* (length, batch, ...): the steps in a tensor that is full of the padding. */
static cr_tensor *packed_spread(cr_steps *w, const cr_packed *p, const int64_t *size,
                                int64_t steps, int64_t length, double padding)
{
    int64_t shape[CR_MAX_DIMS + 1] = {length, steps ? size[0] : 0}, at = 0, end;
    cr_tensor *x = p->data, **part = cr_step_room(w, steps + 2), *out = NULL;
    int64_t n = 0;

    for (int64_t t = 0; part && !w->st && t < steps; t = end) {
        end = packed_run(size, steps, t);
        cr_tensor *run =
            CR_STEP(w, narrow, cr_of_tensor(x), I(0), I(at), I((end - t) * size[t]));
        at += (end - t) * size[t];
        memcpy(shape + 2, x->size + 1, (size_t)(x->ndim - 1) * sizeof *shape);
        shape[0] = end - t;
        shape[1] = size[t];
        run = CR_STEP(w, reshape, cr_maybe(run), cr_of_ints(shape, (uint32_t)x->ndim + 1));
        int64_t gap[CR_MAX_DIMS * 2] = {0};
        gap[2 * (x->ndim - 1) + 1] = size[0] - size[t];
        part[n++] =
            CR_STEP(w, constant_pad_nd, cr_maybe(run), cr_of_ints(gap, 2 * (uint32_t)x->ndim),
                    cr_of_number(cr_scalar_float(padding)));
    }
    if (part && !w->st)
        out = cr_step_join(w, cr_entry.cat, part, n, 0);
    int64_t after[CR_MAX_DIMS * 2] = {0};
    after[2 * x->ndim + 1] = length - steps;
    if (out && length > steps)
        out = CR_STEP(w, constant_pad_nd, cr_of_tensor(out),
                      cr_of_ints(after, 2 * (uint32_t)x->ndim + 2),
                      cr_of_number(cr_scalar_float(padding)));
    cr_free(part);
    return out;
}

static cr_tensor *packed_lengths(cr_steps *w, const int64_t *size, int64_t steps)
{
    int64_t batch = steps ? size[0] : 0;
    int64_t *length = cr_alloc((size_t)(batch + 1) * sizeof *length);
    cr_tensor *made = NULL;

    for (int64_t i = 0; length && i < batch; i++) {
        length[i] = 0;
        while (length[i] < steps && size[length[i]] > i)
            length[i]++;
    }
    cr_step_fail(w, length ? packed_vector(&made, length, batch) : CR_MEMORY);
    cr_free(length);
    return made ? cr_step_own(w, made) : NULL;
}

/* A caller may have filled the struct: its tensors have the right numbers of dims. */
static cr_status packed_need(const cr_packed *p, const char *function, const char *name)
{
    CR_TRY(nn_need(p && p->data ? p->batch_sizes : NULL, function, name, "PackedSequence"));
    if (p->data->ndim < 1 || p->batch_sizes->ndim != 1)
        return cr_fail(CR_RUNTIME,
                       "%s: data must have at least one dim and batch_sizes one, got %d and %d",
                       function, p->data->ndim, p->batch_sizes->ndim);
    return CR_OK;
}

/* The sizes are positive, do not grow, and are the length of the data together. */
static cr_status packed_check_sizes(const int64_t *size, int64_t steps, int64_t length)
{
    int64_t left = length;

    for (int64_t t = 0; t < steps; t++) {
        if (size[t] <= 0 || size[t] > left || (t && size[t] > size[t - 1]))
            return cr_fail(CR_RUNTIME,
                           "batch_sizes must be positive, must not grow, and must add up to "
                           "the %lld rows of data, got %lld at step %lld",
                           (long long)length, (long long)size[t], (long long)t);
        left -= size[t];
    }
    if (left)
        return cr_fail(CR_RUNTIME, "batch_sizes add up to %lld of the %lld rows of data",
                       (long long)(length - left), (long long)length);
    return CR_OK;
}

cr_status cr_pad_packed(cr_tensor **out, cr_tensor **lengths, const cr_packed *packed,
                        bool batch_first, double padding_value, int64_t total_length)
{
    cr_tensor *x = NULL, *n = NULL;
    int64_t *size = NULL;
    cr_steps w = {0};
    cr_status st;

    CR_TRY(nn_need(out, "pad_packed_sequence", "out", "Tensor"));
    CR_TRY(packed_need(packed, "pad_packed_sequence", "sequence"));
    int64_t steps = packed->batch_sizes->size[0];
    if (total_length >= 0 && total_length < steps)
        return cr_fail(
            CR_VALUE,
            "Expected total_length to be at least the length of the longest sequence "
            "in input, but got total_length=%lld and max sequence length being %lld",
            (long long)total_length, (long long)steps);
    CR_GO(packed_numbers(&size, &w, packed->batch_sizes));
    CR_GO(packed_check_sizes(size, steps, packed->data->size[0]));
    x = packed_spread(&w, packed, size, steps, total_length < 0 ? steps : total_length,
                      padding_value);
    n = packed_lengths(&w, size, steps);
    if (batch_first)
        x = CR_STEP(&w, transpose_int, cr_maybe(x), I(0), I(1));
    if (packed->unsorted) {
        x = CR_STEP(&w, index_select, cr_maybe(x), I(batch_first ? 0 : 1),
                    cr_of_tensor(packed->unsorted));
        n = CR_STEP(&w, index_select, cr_maybe(n), I(0), cr_of_tensor(packed->unsorted));
    }
    if (!w.st && lengths)
        *lengths = cr_keep(n);
    st = w.st;
done:
    cr_free(size);
    cr_step_fail(&w, st);
    return cr_steps_end(&w, out, x);
}

cr_status cr_module_call_packed(cr_packed *out, cr_tensor **state, size_t states, cr_module *m,
                                const cr_packed *input, cr_tensor *const *hx)
{
    cr_tensor *result[3] = {NULL, NULL, NULL};
    cr_steps w = {0};

    CR_TRY(nn_need(m, "forward", "self", "Module"));
    CR_TRY(nn_need(out, "forward", "out", "PackedSequence"));
    CR_TRY(packed_need(input, "forward", "input"));
    if (!m->layer || m->layer->many != nn_recurrent)
        return cr_fail(CR_TYPE, "%s.forward() does not take a PackedSequence", m->kind);
    nn_recurrent_packed(&w, result, m, input, hx);
    for (size_t i = 0; !w.st && state && i < states && i < 2 && result[i + 1]; i++)
        state[i] = cr_keep(result[i + 1]);
    const cr_packed made = {result[0], input->batch_sizes, input->sorted, input->unsorted};
    return packed_give(out, &w, &made);
}
