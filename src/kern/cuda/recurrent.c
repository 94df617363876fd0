/* Steps of recurrent layers on NVIDIA devices: a launch each, or, backward, one for all steps
 * where the weights have room in the shared memory of blocks that run at once; the kernels are
 * in emit/recurrent.cuh.  Callers give row-major arrays of one dtype. */
#include "device/cuda/cuda.h"
#include "jit/cuda.h"
#include "kern/cuda/entries.h"
#include "kern/cuda/product.h"
#include "num/dtype.h"
#include "space/space.h"
#include <limits.h>
#include <stdio.h>

enum { RNN_LSTM, RNN_GRU, RNN_THREADS = 256, RNN_VECTOR = 4, RNN_ALIGNED = 16 };
enum { RNN_ROWS = 16, RNN_UNITS = 4, RNN_BACK_ROWS = 8, RNN_BACK_UNITS = 8 };
enum { RNN_MOST_UNITS = 65535 * RNN_UNITS }; /* the grid's second number is at most 65,535 */

/* rn_call of emit/recurrent.cuh.
 * Invariant: the members are those of the kernels' struct, in the same order. Members of the
 * derivative are NULL in the forward pass. */
typedef struct {
    const void *gates, *share, *before, *cell_before, *w, *bias;
    void *out, *cell_out;
    const void *later, *grad, *grad_cell;
    void *gates_grad, *own_grad, *hidden_grad, *cell_grad, *carry;
    int rows, units, last, unused;
} rnn_call;

/* rn_all_call of emit/recurrent.cuh. */
typedef struct {
    rnn_call step;
    const void *hidden, *cell;
    int64_t state, gates;
    int steps, tiles, across, alike;
    int *done;
} rnn_all_call;

/* What the steps of a call share. */
typedef struct {
    int device, kind, item, vector;
    bool reverse;
    int64_t steps, state, gates; /* elements of a state and of the gates of a step */
    cr_cuda_grid grid;
} rnn_steps;

static void rnn_print(cr_text *out, char symbol[32], const cr_cuda_text *k)
{
    cr_text_printf(out, "#define RN_ITEM cm_%s\n#define RN_KIND %d\n#define RN_VECTOR %d\n",
                   cr_dtype_infos[k->a].suffix, k->b, k->c);
    cr_text_printf(out, "#define RN_WARPS %d\n", k->d > 1 ? k->d : 0);
    snprintf(symbol, 32, k->d > 1 ? "rn_backward_all" : k->d ? "rn_backward" : "rn_forward");
}

static unsigned rnn_parts(int64_t n, int by) { return (unsigned)((n + by - 1) / by); }

/* True if each of n arrays is NULL or aligned. */
static bool rnn_aligned(const void *const *at, int n)
{
    uintptr_t bits = 0;

    for (int i = 0; i < n; i++)
        bits |= (uintptr_t)at[i];
    return bits % RNN_ALIGNED == 0;
}

/* True for arrays that the kernels read: row-major ones, rows and units that fit the grid. */
static bool rnn_takes(const cr_given *arg, int n, const cr_array *hidden)
{
    for (int i = 0; i < n; i++)
        if (arg[i].kind == CR_GIVEN_ARRAY && !cr_is_dense_array(&arg[i].array))
            return false;
    return hidden->size[0] <= INT_MAX - RNN_ROWS && hidden->size[1] <= RNN_MOST_UNITS;
}

static const char *rnn_begin(rnn_steps *s, rnn_call *c, const cr_array *gates,
                             const cr_array *hidden, bool backward, bool aligned)
{
    bool vectors = aligned && hidden->size[1] % RNN_VECTOR == 0;
    cr_cuda_text k = {.print = rnn_print,
                      .device = s->device,
                      .part = CR_VEC_CUDA_RECURRENT,
                      .a = gates->dtype,
                      .b = s->kind,
                      .c = vectors ? RNN_VECTOR : 1,
                      .d = backward};

    s->vector = k.c;
    s->item = (int)cr_dtype_size((cr_dtype)gates->dtype);
    s->steps = gates->size[0];
    s->state = hidden->size[0] * hidden->size[1];
    s->gates = gates->size[1] * gates->size[2];
    c->rows = (int)hidden->size[0];
    c->units = (int)hidden->size[1];
    s->grid =
        (cr_cuda_grid){.grid = {rnn_parts(c->rows, backward ? RNN_BACK_ROWS : RNN_ROWS),
                                rnn_parts(c->units, backward ? RNN_BACK_UNITS : RNN_UNITS)},
                       .block = {RNN_THREADS, 1}};
    return cr_cuda_find(&s->grid.function, &k);
}

static const void *rnn_optional(const cr_given *g)
{
    return g->kind == CR_GIVEN_ARRAY ? g->array.data : NULL;
}

/* The part of an array that step i has: steps are counted in the order of time, or backward.
 * Before the first step it is `first`. */
static void *rnn_at(const rnn_steps *s, const void *array, int64_t each, int64_t i)
{
    int64_t at = s->reverse ? s->steps - 1 - i : i;

    return array ? (char *)array + at * each * s->item : NULL;
}

static const void *rnn_before(const rnn_steps *s, const void *array, const void *first,
                              int64_t i)
{
    return i ? rnn_at(s, array, s->state, i - 1) : first;
}

/* (gates, hidden, cell, w_hh, b_hh, kind, reverse) -> output, cells */
const char *cr_cuda_rnn_steps(int device, const cr_given *arg, const cr_array *result)
{
    rnn_steps s = {.device = device, .kind = (int)arg[5].i, .reverse = arg[6].i != 0};
    rnn_call c = {.w = arg[3].array.data, .bias = rnn_optional(&arg[4])};
    const void *hidden = arg[1].array.data, *cell = rnn_optional(&arg[2]);
    const void *read[] = {hidden, c.w, result[0].data};

    if (!rnn_takes(arg, 5, &arg[1].array))
        return cr_command_declines;
    const char *error =
        rnn_begin(&s, &c, &arg[0].array, &arg[1].array, false, rnn_aligned(read, 3));

    for (int64_t i = 0; i < s.steps && s.state && !error; i++) {
        c.gates = rnn_at(&s, arg[0].array.data, s.gates, i);
        c.before = rnn_before(&s, result[0].data, hidden, i);
        c.cell_before = rnn_before(&s, result[1].data, cell, i);
        c.out = rnn_at(&s, result[0].data, s.state, i);
        c.cell_out = rnn_at(&s, result[1].data, s.state, i);
        error = cr_cuda_launch(device, &s.grid, &c);
    }
    return error;
}

/* Sets the arrays of step i of the backward pass, which are those of
 * cr_cuda_rnn_steps_backward. */
static void rnn_set_backward(const rnn_steps *s, rnn_call *c, const cr_given *arg,
                             const cr_array *result, int64_t i)
{
    const void *own = result[s->kind == RNN_GRU ? 1 : 0].data;

    c->last = i == s->steps - 1;
    c->later = c->last ? NULL : rnn_at(s, own, s->gates, i + 1);
    c->grad = i < 0 ? NULL : rnn_at(s, arg[0].array.data, s->state, i);
    if (!c->grad)
        return;
    c->grad_cell = rnn_at(s, arg[1].array.data, s->state, i);
    c->out = rnn_at(s, arg[2].array.data, s->state, i);
    c->cell_out = rnn_at(s, arg[3].array.data, s->state, i);
    c->gates = rnn_at(s, arg[4].array.data, s->gates, i);
    c->share = rnn_at(s, arg[5].array.data, s->gates, i);
    c->before = rnn_before(s, arg[2].array.data, arg[6].array.data, i);
    c->cell_before = rnn_before(s, arg[3].array.data, rnn_optional(&arg[7]), i);
    c->gates_grad = rnn_at(s, result[0].data, s->gates, i);
    c->own_grad = rnn_at(s, result[1].data, s->gates, i);
}

/* --- all steps in one launch --- */

/* As in emit/recurrent.cuh; blocks have at most RNN_EACH tiles each, and the kernel declares
 * at most RNN_KEPT bytes of shared memory. */
enum { RNN_TILE_ROWS = 8, RNN_TILE_UNITS = 16, RNN_EACH = 4, RNN_KEPT = 17 << 10 };
enum { RNN_WARPS = 16, RNN_LEAST_WARPS = 4, RNN_WARP = 32 };

/* Sets how blocks share the tiles; false where each step is a launch. */
static bool rnn_together(const rnn_steps *s, rnn_all_call *c, cr_cuda_grid *g)
{
    int64_t depth = s->gates / c->step.rows, real = s->item == 8 ? 8 : 4;
    int most = cr_cuda_together(s->device, 1, RNN_WARPS * RNN_WARP, 0), warps = RNN_WARPS;
    int64_t across = rnn_parts(c->step.units, RNN_TILE_UNITS);
    int64_t tiles = across * rnn_parts(c->step.rows, RNN_TILE_ROWS);
    int64_t blocks = tiles <= most ? tiles : across <= most ? most / across * across : most;

    while (warps > RNN_LEAST_WARPS && warps * RNN_WARP > depth)
        warps /= 2;
    int64_t slabs = (depth + warps * RNN_WARP - 1) / (warps * RNN_WARP);
    bool alike = tiles <= blocks || blocks % across == 0;
    int64_t copies = alike ? 1 : (tiles + blocks - 1) / blocks;
    int64_t bytes = copies * slabs * warps * RNN_WARP * RNN_TILE_UNITS * real;
    if (s->steps < 2 || s->steps > INT_MAX / most || tiles > RNN_EACH * blocks ||
        bytes + RNN_KEPT > cr_cuda_shared_most(s->device))
        return false;
    c->tiles = (int)tiles;
    c->across = (int)across;
    c->alike = alike;
    *g = (cr_cuda_grid){.grid = {(unsigned)blocks, 1},
                        .block = {(unsigned)(warps * RNN_WARP), 1},
                        .shared = (unsigned)bytes,
                        .together = true};
    return true;
}

static const char *rnn_launch_together(const rnn_steps *s, rnn_all_call *c, cr_cuda_grid *g,
                                       int dtype)
{
    int groups = (int)rnn_parts(c->step.rows, RNN_TILE_ROWS);
    const int zero = 0;
    cr_cuda_text k = {.print = rnn_print,
                      .device = s->device,
                      .part = CR_VEC_CUDA_RECURRENT,
                      .a = dtype,
                      .b = s->kind,
                      .c = s->vector,
                      .d = (int)g->block[0] / RNN_WARP};
    const char *error = cr_cuda_find(&g->function, &k);

    if (!error)
        error = cr_cuda_fill(s->device, c->done, &zero, 4, (size_t)groups);
    return error ? error : cr_cuda_launch(s->device, g, c);
}

/* The steps from the last one to the first one. */
static const char *rnn_run_backward(rnn_steps *s, rnn_call *c, const cr_given *arg,
                                    const cr_array *result, int *done)
{
    int64_t back = s->reverse ? 1 : -1;
    cr_cuda_grid g;
    const char *error = NULL;

    rnn_set_backward(s, c, arg, result, s->steps - 1);
    rnn_all_call all = {.step = *c,
                        .hidden = arg[6].array.data,
                        .cell = rnn_optional(&arg[7]),
                        .state = back * s->state,
                        .gates = back * s->gates,
                        .steps = (int)s->steps,
                        .done = done};
    if (rnn_together(s, &all, &g))
        return rnn_launch_together(s, &all, &g, arg[4].array.dtype);
    for (int64_t i = s->steps - 1; i >= -1 && !error; i--) {
        rnn_set_backward(s, c, arg, result, i);
        error = cr_cuda_launch(s->device, &s->grid, c);
    }
    return error;
}

/* (grad_output, grad_cells, output, cells, gates, share, hidden, cell, w_hh, b_hh, kind,
 * reverse) -> gates_grad, own_grad, hidden_grad, cell_grad */
const char *cr_cuda_rnn_steps_backward(int device, const cr_given *arg, const cr_array *result)
{
    rnn_steps s = {.device = device, .kind = (int)arg[10].i, .reverse = arg[11].i != 0};
    rnn_call c = {
        .w = arg[8].array.data, .hidden_grad = result[2].data, .cell_grad = result[3].data};
    const void *read[] = {c.w, result[0].data, s.kind == RNN_GRU ? result[1].data : NULL};

    if (!rnn_takes(arg, 10, &arg[6].array))
        return cr_command_declines;
    const char *error =
        rnn_begin(&s, &c, &arg[4].array, &arg[6].array, true, rnn_aligned(read, 3));
    size_t carry = (size_t)s.state * (s.item == 8 ? 8 : 4);
    size_t bytes = carry + 4 * (size_t)rnn_parts(c.rows, RNN_TILE_ROWS);
    uint32_t block = 0;

    if (error || !s.state)
        return error;
    c.carry = cr_cuda_memory_get(device, bytes, &block);
    if (!c.carry)
        return cr_cuda_no_memory(device, bytes);
    error = rnn_run_backward(&s, &c, arg, result, (int *)(void *)((char *)c.carry + carry));
    cr_cuda_memory_release(device, c.carry, block);
    return error;
}
