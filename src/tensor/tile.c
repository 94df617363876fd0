/* The tile driver: any strides, broadcasts and dtypes to calls of one kernel.
 *
 * The dims of the iteration space are sorted by the outputs' strides, and merged where every
 * operand allows it.  The last two are the rows and columns of a kernel call.  An operand of
 * the kernel's dtype whose rows are contiguous or one value is used directly.  Any other goes
 * through a buffer: it is converted before the call, or after it for an output. */
#include "base/parallel.h"
#include "num/convert.h"
#include "tensor/internal.h"
#include <string.h>

enum { TILE = 1024, GRAIN = 32768 };

typedef struct {
    cr_kernel kernel;
    const void *param;
    int count, outputs, ndim;
    int64_t size[CR_MAX_DIMS];
    char *data[CR_MAX_OPERANDS];
    int64_t stride[CR_MAX_OPERANDS][CR_MAX_DIMS]; /* bytes */
    uint8_t dtype[CR_MAX_OPERANDS], want[CR_MAX_OPERANDS];
    bool staged[CR_MAX_OPERANDS];
    bool any_staged;
} plan;

/* --- the iteration space --- */

static void lay_out_space(plan *p, const cr_operand_view *v, int ndim)
{
    for (int k = 0; k < p->count; k++) {
        int lead = ndim - v[k].ndim;
        int64_t item = (int64_t)cr_dtype_size((cr_dtype)v[k].dtype);
        p->data[k] = v[k].data;
        p->dtype[k] = v[k].dtype;
        p->want[k] = v[k].want;
        for (int d = 0; d < ndim; d++)
            p->stride[k][d] =
                d < lead || v[k].size[d - lead] == 1 ? 0 : v[k].stride[d - lead] * item;
    }
}

/* 1 when dim `a` must be inside dim `b`, -1 when outside, 0 when strides do not decide. */
static int runs_faster(const plan *p, int a, int b)
{
    for (int k = 0; k < p->count; k++) {
        int64_t sa = p->stride[k][a], sb = p->stride[k][b];
        if (sa < 0)
            sa = -sa;
        if (sb < 0)
            sb = -sb;
        if (sa == 0 || sb == 0)
            continue;
        if (sa != sb)
            return sa < sb ? 1 : -1;
    }
    return 0;
}

static void swap_space_dims(plan *p, int a, int b)
{
    int64_t t = p->size[a];

    p->size[a] = p->size[b];
    p->size[b] = t;
    for (int k = 0; k < p->count; k++) {
        t = p->stride[k][a];
        p->stride[k][a] = p->stride[k][b];
        p->stride[k][b] = t;
    }
}

/* Insertion sort, outermost dim first; stable, so that row-major order is kept. */
static void order_space(plan *p)
{
    for (int i = 1; i < p->ndim; i++)
        for (int j = i; j > 0 && runs_faster(p, j - 1, j) == 1; j--)
            swap_space_dims(p, j - 1, j);
}

static bool can_merge_dims(const plan *p, int d)
{
    for (int k = 0; k < p->count; k++)
        if (p->stride[k][d] != p->stride[k][d + 1] * p->size[d + 1])
            return false;
    return true;
}

static void remove_space_dim(plan *p, int d)
{
    for (int i = d; i + 1 < p->ndim; i++) {
        p->size[i] = p->size[i + 1];
        for (int k = 0; k < p->count; k++)
            p->stride[k][i] = p->stride[k][i + 1];
    }
    p->ndim--;
}

static void merge_space(plan *p)
{
    for (int d = p->ndim - 1; d >= 0 && p->ndim > 1; d--)
        if (p->size[d] == 1)
            remove_space_dim(p, d);
    for (int d = p->ndim - 2; d >= 0; d--)
        if (can_merge_dims(p, d)) {
            p->size[d + 1] *= p->size[d];
            remove_space_dim(p, d);
        }
}

/* Adds dims of size 1 up to two. */
static void complete(plan *p)
{
    while (p->ndim < 2) {
        for (int d = p->ndim; d > 0; d--) {
            p->size[d] = p->size[d - 1];
            for (int k = 0; k < p->count; k++)
                p->stride[k][d] = p->stride[k][d - 1];
        }
        p->size[0] = 1;
        for (int k = 0; k < p->count; k++)
            p->stride[k][0] = 0;
        p->ndim++;
    }
}

static void choose_staged(plan *p)
{
    int last = p->ndim - 1;

    p->any_staged = false;
    for (int k = 0; k < p->count; k++) {
        int64_t step = p->stride[k][last], item = (int64_t)cr_dtype_size((cr_dtype)p->want[k]);
        bool row = step == item || (step == 0 && k >= p->outputs) || p->size[last] == 1;
        p->staged[k] = p->dtype[k] != p->want[k] || !row;
        p->any_staged |= p->staged[k];
    }
}

/* --- running --- */

/* A plane of rows and columns: the operands' addresses, and the part to compute. */
typedef struct {
    char *data[CR_MAX_OPERANDS];
    int64_t rows, columns;
} plane;

static void run_plain(const plan *p, const plane *at)
{
    void *ptr[CR_MAX_OPERANDS];
    int64_t stride[2 * CR_MAX_OPERANDS], size[2] = {at->rows, at->columns};
    int last = p->ndim - 1;

    for (int k = 0; k < p->count; k++) {
        ptr[k] = at->data[k];
        stride[2 * k] = p->stride[k][last - 1];
        stride[2 * k + 1] = p->size[last] == 1 && k < p->outputs
                                ? (int64_t)cr_dtype_size((cr_dtype)p->want[k])
                                : p->stride[k][last];
    }
    p->kernel(ptr, stride, size, p->param);
}

typedef struct {
    _Alignas(64) char bytes[TILE * 16];
} tile;

/* Runs one tile of rows x columns through the buffers of the converted operands. */
static void run_tile(const plan *p, tile *tiles, char *const *data, int64_t rows,
                     int64_t columns)
{
    void *ptr[CR_MAX_OPERANDS];
    int64_t stride[2 * CR_MAX_OPERANDS], size[2] = {rows, columns};
    int last = p->ndim - 1;

    for (int k = 0; k < p->count; k++) {
        int64_t item = (int64_t)cr_dtype_size((cr_dtype)p->want[k]);
        ptr[k] = data[k];
        stride[2 * k] = p->stride[k][last - 1];
        stride[2 * k + 1] = p->stride[k][last];
        if (!p->staged[k]) {
            if (p->size[last] == 1 && k < p->outputs)
                stride[2 * k + 1] = item;
            continue;
        }
        bool one = p->stride[k][last] == 0 && k >= p->outputs;
        ptr[k] = tiles[k].bytes;
        stride[2 * k] = one ? item : columns * item;
        stride[2 * k + 1] = one ? 0 : item;
        if (k < p->outputs)
            continue;
        cr_convert_fn convert = cr_convert_row((cr_dtype)p->want[k], (cr_dtype)p->dtype[k]);
        for (int64_t r = 0; r < rows; r++)
            convert(tiles[k].bytes + r * stride[2 * k], item,
                    data[k] + r * p->stride[k][last - 1], p->stride[k][last],
                    one ? 1 : columns);
    }
    p->kernel(ptr, stride, size, p->param);
    for (int k = 0; k < p->outputs; k++) {
        if (!p->staged[k])
            continue;
        int64_t item = (int64_t)cr_dtype_size((cr_dtype)p->want[k]);
        cr_convert_fn convert = cr_convert_row((cr_dtype)p->dtype[k], (cr_dtype)p->want[k]);
        for (int64_t r = 0; r < rows; r++)
            convert(data[k] + r * p->stride[k][last - 1], p->stride[k][last],
                    tiles[k].bytes + r * columns * item, item, columns);
    }
}

static void run_through_tiles(const plan *p, const plane *at)
{
    tile tiles[CR_MAX_OPERANDS];
    int last = p->ndim - 1;
    int64_t wide = at->columns < TILE ? at->columns : TILE, high = TILE / wide;
    char *data[CR_MAX_OPERANDS];

    for (int64_t r = 0; r < at->rows; r += high)
        for (int64_t c = 0; c < at->columns; c += wide) {
            for (int k = 0; k < p->count; k++)
                data[k] = at->data[k] + r * p->stride[k][last - 1] + c * p->stride[k][last];
            run_tile(p, tiles, data, at->rows - r < high ? at->rows - r : high,
                     at->columns - c < wide ? at->columns - c : wide);
        }
}

static void run_plane(const plan *p, const plane *at)
{
    if (p->any_staged)
        run_through_tiles(p, at);
    else
        run_plain(p, at);
}

/* Runs the rows [begin, end) of the space, plane by plane. */
static void run_space_rows(void *context, int64_t begin, int64_t end)
{
    const plan *p = context;
    int last = p->ndim - 1;
    int64_t rows = p->size[last - 1];

    while (begin < end) {
        int64_t outer = begin / rows, row = begin % rows;
        plane at = {.rows = rows - row < end - begin ? rows - row : end - begin,
                    .columns = p->size[last]};
        for (int k = 0; k < p->count; k++)
            at.data[k] = p->data[k] + row * p->stride[k][last - 1];
        for (int d = last - 2; d >= 0; d--) {
            int64_t i = outer % p->size[d];
            outer /= p->size[d];
            for (int k = 0; k < p->count; k++)
                at.data[k] += i * p->stride[k][d];
        }
        run_plane(p, &at);
        begin += at.rows;
    }
}

/* Runs columns of a space of one row; [begin, end) counts chunks of CHUNK columns. */
enum { CHUNK = 4096 };
static void run_columns(void *context, int64_t begin, int64_t end)
{
    const plan *p = context;
    int last = p->ndim - 1;
    int64_t from = begin * CHUNK, to = end * CHUNK;
    plane at = {.rows = 1};

    if (to > p->size[last])
        to = p->size[last];
    at.columns = to - from;
    for (int k = 0; k < p->count; k++)
        at.data[k] = p->data[k] + from * p->stride[k][last];
    run_plane(p, &at);
}

static void run_space(plan *p)
{
    int last = p->ndim - 1;
    int64_t rows = 1, columns = p->size[last];

    for (int d = 0; d < last; d++)
        rows *= p->size[d];
    if (rows == 1)
        cr_parallel_for((columns + CHUNK - 1) / CHUNK, GRAIN / CHUNK, run_columns, p);
    else
        cr_parallel_for(rows, 1 + GRAIN / columns, run_space_rows, p);
}

cr_status cr_operands_run(cr_kernel kernel, cr_operand_view *operand, int count, int outputs,
                          int ndim, const int64_t *size, const void *param)
{
    plan p;

    CR_ASSERT(count <= CR_MAX_OPERANDS);
    p.kernel = kernel;
    p.param = param;
    p.count = count;
    p.outputs = outputs;
    p.ndim = ndim;
    for (int d = 0; d < ndim; d++) {
        if (size[d] == 0)
            return CR_OK;
        p.size[d] = size[d];
    }
    lay_out_space(&p, operand, ndim);
    order_space(&p);
    merge_space(&p);
    complete(&p);
    choose_staged(&p);
    run_space(&p);
    return CR_OK;
}
