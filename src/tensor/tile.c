/* The tile driver: any strides, broadcasts and dtypes to calls of one kernel.
 *
 * The dims of the space are ordered by the first output's strides, and merged where every
 * operand allows it.  The last two are the rows and columns of a kernel call.  An operand of
 * the kernel's dtype whose rows are contiguous or one value is used directly.  Any other goes
 * through a buffer: it is converted before the call, or after it for an output. */
#include "base/parallel.h"
#include "num/convert.h"
#include "space/space.h"
#include "tensor/internal.h"

enum { TILE = 1024, GRAIN = 32768 };

typedef struct {
    cr_kernel kernel;
    const void *param;
    int count, outputs;
    char *data[CR_MAX_OPERANDS];
    uint8_t dtype[CR_MAX_OPERANDS], want[CR_MAX_OPERANDS];
    bool staged[CR_MAX_OPERANDS];
    bool any_staged;
    int64_t stride[2 * CR_MAX_OPERANDS]; /* of operands that are used directly */
    const cr_space_dim *row, *column;    /* the last dims of the space; its steps are bytes */
    cr_space space;
} plan;

/* --- the iteration space --- */

static void lay_out_space(plan *p, const cr_operand_view *v, int ndim, const int64_t *size)
{
    int64_t item[CR_MAX_OPERANDS];

    for (int k = 0; k < p->count; k++) {
        item[k] = (int64_t)cr_dtype_size((cr_dtype)v[k].dtype);
        p->data[k] = v[k].data;
        p->dtype[k] = v[k].dtype;
        p->want[k] = v[k].want;
    }
    cr_space_start(&p->space, p->count);
    for (int d = 0; d < ndim; d++) {
        int64_t *step = cr_space_add(&p->space, size[d], d);
        for (int k = 0; k < p->count; k++)
            step[k] = cr_broadcast_step(v[k].ndim, v[k].size, v[k].stride, ndim, d) * item[k];
    }
    cr_space_order(&p->space);
    cr_space_merge(&p->space, 0);
    p->column = cr_space_last(&p->space, 0);
    p->row = cr_space_last(&p->space, 1);
}

static void choose_staged(plan *p)
{
    p->any_staged = false;
    for (int k = 0; k < p->count; k++) {
        int64_t step = p->column->step[k], item = (int64_t)cr_dtype_size((cr_dtype)p->want[k]);
        bool one = p->column->size == 1;
        p->staged[k] = p->dtype[k] != p->want[k] ||
                       !(step == item || one || (step == 0 && k >= p->outputs));
        p->any_staged |= p->staged[k];
        p->stride[2 * k] = p->row->step[k];
        p->stride[2 * k + 1] = one && k < p->outputs ? item : step;
    }
}

/* --- running --- */

typedef struct {
    _Alignas(64) char bytes[TILE * 16];
} tile;

/* Runs one tile of rows x columns through the buffers of the converted operands. */
static void run_tile(const plan *p, tile *tiles, char *const *data, int64_t rows,
                     int64_t columns)
{
    void *ptr[CR_MAX_OPERANDS];
    int64_t stride[2 * CR_MAX_OPERANDS], size[2] = {rows, columns};

    for (int k = 0; k < p->count; k++) {
        int64_t item = (int64_t)cr_dtype_size((cr_dtype)p->want[k]);
        ptr[k] = data[k];
        stride[2 * k] = p->stride[2 * k];
        stride[2 * k + 1] = p->stride[2 * k + 1];
        if (!p->staged[k])
            continue;
        bool one = p->column->step[k] == 0 && k >= p->outputs;
        ptr[k] = tiles[k].bytes;
        stride[2 * k] = one ? item : columns * item;
        stride[2 * k + 1] = one ? 0 : item;
        if (k < p->outputs)
            continue;
        cr_convert_fn convert = cr_convert_row((cr_dtype)p->want[k], (cr_dtype)p->dtype[k]);
        for (int64_t r = 0; r < rows; r++)
            convert(tiles[k].bytes + r * stride[2 * k], item, data[k] + r * p->row->step[k],
                    p->column->step[k], one ? 1 : columns);
    }
    p->kernel(ptr, stride, size, p->param);
    for (int k = 0; k < p->outputs; k++) {
        if (!p->staged[k])
            continue;
        int64_t item = (int64_t)cr_dtype_size((cr_dtype)p->want[k]);
        cr_convert_fn convert = cr_convert_row((cr_dtype)p->dtype[k], (cr_dtype)p->want[k]);
        for (int64_t r = 0; r < rows; r++)
            convert(data[k] + r * p->row->step[k], p->column->step[k],
                    tiles[k].bytes + r * columns * item, item, columns);
    }
}

static void run_through_tiles(const plan *p, char *const *at, int64_t rows, int64_t columns)
{
    tile tiles[CR_MAX_OPERANDS];
    int64_t wide = columns < TILE ? columns : TILE, high = TILE / wide;
    char *data[CR_MAX_OPERANDS];

    for (int64_t r = 0; r < rows; r += high)
        for (int64_t c = 0; c < columns; c += wide) {
            for (int k = 0; k < p->count; k++)
                data[k] = at[k] + r * p->row->step[k] + c * p->column->step[k];
            run_tile(p, tiles, data, rows - r < high ? rows - r : high,
                     columns - c < wide ? columns - c : wide);
        }
}

/* Runs a plane of rows and columns from the operands' addresses on. */
static void run_plane(const plan *p, char *const *at, int64_t rows, int64_t columns)
{
    if (p->any_staged)
        run_through_tiles(p, at, rows, columns);
    else
        p->kernel((void *const *)at, p->stride, (int64_t[2]){rows, columns}, p->param);
}

static void run_rows_of_plane(void *context, char *const *at, const int64_t *step, int64_t n)
{
    const plan *p = context;

    (void)step;
    run_plane(p, at, n, p->column->size);
}

/* Runs the rows [begin, end) of the space, plane by plane. */
static void run_space_rows(void *context, int64_t begin, int64_t end)
{
    const plan *p = context;

    cr_space_walk(&p->space, p->space.ndim - 1, p->data, begin, end, run_rows_of_plane,
                  context);
}

/* Runs columns of a space of one row; [begin, end) counts chunks of CHUNK columns. */
enum { CHUNK = 4096 };
static void run_columns(void *context, int64_t begin, int64_t end)
{
    const plan *p = context;
    int64_t from = begin * CHUNK, to = end * CHUNK;
    char *at[CR_MAX_OPERANDS];

    if (to > p->column->size)
        to = p->column->size;
    for (int k = 0; k < p->count; k++)
        at[k] = p->data[k] + from * p->column->step[k];
    run_plane(p, at, 1, to - from);
}

static void run_space(plan *p)
{
    int64_t rows = cr_space_count(&p->space, p->space.ndim - 1), columns = p->column->size;

    if (rows == 1)
        cr_parallel_for((columns + CHUNK - 1) / CHUNK, GRAIN / CHUNK, run_columns, p);
    else
        cr_parallel_for(rows, 1 + GRAIN / columns, run_space_rows, p);
}

cr_status cr_operands_run(cr_kernel kernel, cr_operand_view *operand, int count, int outputs,
                          int ndim, const int64_t *size, const void *param)
{
    plan p; /* not initialized: a space is long */

    CR_ASSERT(count <= CR_MAX_OPERANDS);
    for (int d = 0; d < ndim; d++)
        if (size[d] == 0)
            return CR_OK;
    p.kernel = kernel;
    p.param = param;
    p.count = count;
    p.outputs = outputs;
    lay_out_space(&p, operand, ndim, size);
    choose_staged(&p);
    run_space(&p);
    return CR_OK;
}
