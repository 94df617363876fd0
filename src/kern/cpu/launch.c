/* The command KERNEL on the host (kern/launch.h): threads share rows, or blocks and strips of
 * columns.  The bits of results do not depend on the cut, because a fold of columns has blocks
 * of fixed sizes (num/order.h). */
#include "kern/launch.h"
#include "base/integer.h"
#include "base/parallel.h"
#include "device/cpu/cpu.h"
#include "kern/move.h"
#include <stdatomic.h>

/* GRAIN: elements that are worth another thread.  GATHERED: elements of a copy. */
enum { GRAIN = 32768, STRIP = 2048, GATHERED = CR_FOLD_ROW };

typedef struct {
    cr_kernel fn;
    const cr_host_cut *cut;
    const cr_launch *l;
    const cr_space *s;
    int outer;
    int64_t block, parts, strips; /* of columns */
    _Atomic bool no_memory;
} launch_job;

enum { OUT, IN };

/* A part of a block that fits the buffer: `size` of it from `first` on along dim `dim`, the dim
 * of results.  The elements are copied row by row, in the kernel's dtype. */
static void call_gathered_part(const launch_job *j, char *buffer, void *const *ptr,
                               const int64_t *stride, const int64_t *size, int dim,
                               int64_t first)
{
    int64_t item = (int64_t)cr_dtype_size((cr_dtype)j->cut->from),
            into = (int64_t)cr_dtype_size((cr_dtype)j->cut->to);
    int64_t steps[2] = {stride[2] / item, stride[3] / item}, dense[2] = {size[1], 1};
    int64_t given[4] = {stride[0], stride[1], size[1] * into, into};
    void *at[2] = {(char *)ptr[OUT] + first * stride[dim], buffer};
    cr_array from = {(char *)ptr[IN] + first * stride[2 + dim], j->cut->from, 2, size, steps};
    cr_array to = {buffer, j->cut->to, 2, size, dense};

    cr_host_move(0, &to, &from);
    j->fn(at, given, size, j->l->param);
}

/* The results of a kernel call do not depend on each other, so that a block with more elements
 * than the buffer is folded by several calls.  The buffer is not on the stack, which may be
 * unable to grow where memory is short. */
static void call_gathered(launch_job *j, void *const *ptr, const int64_t *stride,
                          const int64_t *size)
{
    int dim = stride[0] ? 0 : 1; /* of results: rows of a fold of rows, else columns */
    int64_t folded = size[1 - dim], most = folded < GATHERED ? GATHERED / folded : 1;
    uint32_t class;
    char *buffer = cr_cpu_get_scratch(GATHERED * cr_dtype_size((cr_dtype)j->cut->to), &class);

    if (!buffer) {
        atomic_store(&j->no_memory, true);
        return;
    }
    for (int64_t first = 0; first < size[dim]; first += most) {
        int64_t n = cr_least(most, size[dim] - first);
        int64_t part[2] = {dim ? folded : n, dim ? n : folded};
        call_gathered_part(j, buffer, ptr, stride, part, dim, first);
    }
    cr_cpu_release(buffer, class);
}

static void launch_call(launch_job *j, void *const *ptr, const int64_t *stride,
                        const int64_t *size)
{
    if (CR_UNLIKELY(j->cut->gathers))
        call_gathered(j, ptr, stride, size);
    else
        j->fn(ptr, stride, size, j->l->param);
}

/* Rows [begin, end) of all positions; one call takes neighbours. */
static void launch_rows(void *context, int64_t begin, int64_t end)
{
    launch_job *j = context;
    const cr_launch *l = j->l;
    int64_t rows = l->size[0], row = begin % rows;
    void *ptr[CR_SPACE_OPERANDS];
    cr_place p;

    cr_place_seek(&p, j->s, j->outer, (char *const *)l->pointer, begin / rows);
    while (begin < end) {
        int64_t n = cr_least(rows - row, end - begin);
        for (int k = 0; k < j->s->operands; k++)
            ptr[k] = p.at[k] + row * l->stride[2 * k];
        launch_call(j, ptr, l->stride, (int64_t[]){n, l->size[1]});
        begin += n;
        row = 0;
        cr_place_next(&p, j->s, j->outer);
    }
}

/* Block `part` of the rows, and a strip of columns from `first` on. */
static void launch_strip(launch_job *j, char **at, int64_t part, int64_t first)
{
    const cr_launch *l = j->l;
    int64_t row = part * j->block;
    int64_t size[2] = {cr_least(j->block, l->size[0] - row),
                       cr_least(STRIP, l->size[1] - first)};
    int64_t stride[2 * CR_SPACE_OPERANDS];

    for (int k = 0; k < j->s->operands; k++) {
        at[k] += (k || !j->cut->block ? row : part) * l->stride[2 * k] +
                 first * l->stride[2 * k + 1];
        stride[2 * k] = k || !j->cut->block ? l->stride[2 * k] : 0;
        stride[2 * k + 1] = l->stride[2 * k + 1];
    }
    launch_call(j, (void *const *)at, stride, size);
}

/* Units are (position, block of rows, strip of columns). */
static void launch_strips(void *context, int64_t begin, int64_t end)
{
    launch_job *j = context;
    cr_place p;

    for (int64_t u = begin; u < end; u++) {
        cr_place_seek(&p, j->s, j->outer, (char *const *)j->l->pointer,
                      u / j->strips / j->parts);
        launch_strip(j, p.at, u / j->strips % j->parts, u % j->strips * STRIP);
    }
}

static void launch_columns(launch_job *j, int64_t positions)
{
    const cr_launch *l = j->l;
    int64_t unit;

    j->block = j->cut->block ? j->cut->block : l->size[0];
    j->parts = (l->size[0] + j->block - 1) / j->block;
    j->strips = (l->size[1] + STRIP - 1) / STRIP;
    unit = cr_least(l->size[0], j->block) * cr_least(l->size[1], STRIP);
    cr_parallel_for(positions * j->parts * j->strips, 1 + GRAIN / unit, launch_strips, j);
}

cr_status cr_host_launch(cr_kernel fn, const cr_host_cut *cut, const cr_launch *l,
                         const cr_space *s, int outer)
{
    launch_job j = {.fn = fn, .cut = cut, .l = l, .s = s, .outer = outer};
    int64_t positions = cr_space_count(s, outer);

    if (!positions || !l->size[0] || !l->size[1])
        return CR_OK;
    if (cut->columns)
        launch_columns(&j, positions);
    else
        cr_parallel_for(positions * l->size[0], 1 + GRAIN / l->size[1], launch_rows, &j);
    return j.no_memory /* another thread has the message */
               ? cr_fail(CR_MEMORY, "not enough memory for the buffer of a reduction")
               : CR_OK;
}
