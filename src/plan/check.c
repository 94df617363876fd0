/* Checks of commands before they run.
 *
 * Executors access memory as a command says.  The text of a plan may say anything, so a run
 * compares each command with its buffers first: elements are inside their buffer and aligned,
 * lists agree with the sizes that they are for, and elements at computed places are inside for
 * every index that passes the command's test. */
#include "plan/plan.h"
#include "space/shape.h"
#include <string.h>

typedef struct {
    const cr_plan *plan;
    const cr_executor *by;
    const char *name; /* of the command */
    size_t number;    /* from 1 on */
} checker;

static cr_status wrong(const checker *c, const char *what)
{
    return cr_fail(CR_VALUE, "%s %zu of the plan: %s", c->name, c->number, what);
}

/* --- counts and distances --- */

/* Larger than every buffer (cr_plan_address). */
static const int64_t FAR = (int64_t)1 << 40;

/* Multiplies *n by the sizes.  Where one size is 0, the others may have any product. */
static cr_status check_count(const checker *c, int64_t *n, int64_t ndim, const int64_t *size)
{
    bool many = false, none = false;

    if (ndim < 0 || ndim > CR_MAX_DIMS)
        return wrong(c, "too many dims");
    for (int64_t d = 0; d < ndim; d++) {
        if (size[d] < 0)
            return wrong(c, "a size is negative");
        none = none || !size[d];
        many = CR_MUL_OVERFLOW(*n, size[d], n) || many;
    }
    *n = none ? 0 : *n;
    return many && !none ? wrong(c, "too many elements") : CR_OK;
}

/* The bytes of an operand, relative to its address. */
typedef struct {
    int64_t low, high; /* of the first byte, and behind the last one */
    int64_t align;
    bool far, crooked; /* outside every buffer; a step is no multiple of `align` */
} reach;

/* The elements of complex numbers are two aligned floats. */
static reach reach_of(int dtype)
{
    int64_t item = (int64_t)cr_dtype_size((cr_dtype)dtype);

    return (reach){.high = item,
                   .align = cr_dtype_is_complex((cr_dtype)dtype) ? item / 2 : item};
}

/* Adds a dim with steps of `step` times `unit` bytes. */
static void reach_add(reach *r, int64_t size, int64_t step, int64_t unit)
{
    int64_t bytes, last;

    if (size < 2 || !step || !unit)
        return;
    if (CR_MUL_OVERFLOW(step, unit, &bytes) || CR_MUL_OVERFLOW(size - 1, bytes, &last) ||
        last > FAR || last < -FAR) {
        r->far = true;
        return;
    }
    r->crooked = r->crooked || bytes % r->align;
    r->low += last < 0 ? last : 0;
    r->high += last > 0 ? last : 0;
}

static void reach_add_dims(reach *r, int ndim, const int64_t *size, const int64_t *step,
                           int64_t unit)
{
    for (int d = 0; d < ndim; d++)
        reach_add(r, size[d], step[d], unit);
}

static cr_status check_reach(const checker *c, const char *address, const reach *r)
{
    size_t buffer = cr_plan_buffer_of(address);

    if (!address || buffer >= c->plan->buffer.len)
        return wrong(c, "elements have no buffer");
    int64_t offset = cr_plan_offset_of(address),
            bytes = (int64_t)c->plan->buffer.at[buffer].bytes;
    if (r->crooked || offset % r->align)
        return wrong(c, "elements are not aligned");
    if (r->far || offset + r->low < 0 || offset + r->high > bytes)
        return wrong(c, "elements are outside their buffer");
    return CR_OK;
}

static bool reaches_meet(const char *a, const reach *r, const char *b, const reach *s)
{
    return a && b && a + r->low < b + s->high && b + s->low < a + r->high;
}

/* --- arrays --- */

static cr_status check_array(const checker *c, const cr_array *a)
{
    reach r = reach_of(a->dtype);
    int64_t n = 1;

    CR_TRY(check_count(c, &n, a->ndim, a->size));
    if (!n)
        return CR_OK;
    reach_add_dims(&r, a->ndim, a->size, a->stride, (int64_t)cr_dtype_size((cr_dtype)a->dtype));
    return check_reach(c, a->data, &r);
}

/* An array whose elements are written: no two have one address. */
static cr_status check_result(const checker *c, const cr_array *a)
{
    int64_t n = 1;
    bool still = false;

    CR_TRY(check_array(c, a));
    CR_TRY(check_count(c, &n, a->ndim, a->size));
    for (int d = 0; d < a->ndim; d++)
        still = still || (a->size[d] > 1 && !a->stride[d]);
    if (n && (still || (size_t)n > c->plan->buffer.at[cr_plan_buffer_of(a->data)].bytes))
        return wrong(c, "elements of a result share memory");
    return CR_OK;
}

static cr_status check_move(const checker *c, const cr_plan_move *m)
{
    CR_TRY(check_result(c, &m->to));
    CR_TRY(check_array(c, &m->from));
    return cr_expands(m->from.ndim, m->from.size, m->to.ndim, m->to.size)
               ? CR_OK
               : wrong(c, "the source does not broadcast to the result");
}

static cr_status check_copy(const checker *c, const cr_plan_copy *m)
{
    reach r = {.high = (int64_t)m->n, .align = 1};

    if (m->n > (size_t)FAR || (m->to && !m->from && !m->bytes))
        return wrong(c, "there are no such bytes");
    if (m->to)
        CR_TRY(check_reach(c, m->to, &r));
    if (m->from)
        CR_TRY(check_reach(c, m->from, &r));
    return reaches_meet(m->to, &r, m->from, &r) ? wrong(c, "source and result share memory")
                                                : CR_OK;
}

/* --- kernels --- */

static cr_status check_operand(const checker *c, const cr_launch *l, int k,
                               const cr_plan_operand *o)
{
    reach r = reach_of(o->dtype);

    if (l->numbers >> k & 1)
        return o->written || l->stride[2 * k] || l->stride[2 * k + 1]
                   ? wrong(c, "a number is an operand of one element that is read")
                   : CR_OK;
    if (!o->rows || !o->columns)
        return CR_OK;
    reach_add_dims(&r, l->outer, l->outer_size, l->outer_stride + k * l->outer, 1);
    reach_add(&r, o->rows, l->stride[2 * k], 1);
    reach_add(&r, o->columns, l->stride[2 * k + 1], 1);
    return check_reach(c, l->pointer[k], &r);
}

static cr_status check_launch(const checker *c, const cr_launch *l)
{
    cr_plan_operand operand[CR_PLAN_OPERANDS];
    int64_t calls = 1, n;

    CR_TRY(check_count(c, &calls, l->outer, l->outer_size));
    n = calls;
    CR_TRY(check_count(c, &n, 2, l->size));
    if (l->size[2] < 0 || l->size[2] > INT64_MAX - n)
        return wrong(c, "the number of the first row is out of range");
    if (!c->by->operands || l->operands > CR_PLAN_OPERANDS)
        return wrong(c, "the executor does not take the kernel");
    CR_TRY(c->by->operands(l, operand));
    for (int k = 0; calls && k < l->operands; k++)
        CR_TRY(check_operand(c, l, k, &operand[k]));
    return CR_OK;
}

/* --- elements at computed places --- */

/* Adds the places of all indices that are in range. */
static cr_status add_places(const checker *c, reach *table, const cr_indexed *i)
{
    int64_t n = 1;

    if (!i->numbered) {
        reach_add(table, i->extent, i->unit, 1);
        return i->extent < 0 ? wrong(c, "a limit of indices is negative") : CR_OK;
    }
    CR_TRY(check_count(c, &n, i->numbered->ndim, i->numbered->size));
    if (n)
        reach_add_dims(table, i->numbered->ndim, i->numbered->size, i->numbered->stride,
                       (int64_t)cr_dtype_size((cr_dtype)i->numbered->dtype));
    return i->numbered->dtype == i->dtype ? CR_OK
                                          : wrong(c, "elements of another dtype are numbered");
}

static cr_status check_how(const checker *c, const cr_indexed *i)
{
    bool reads = i->how == CR_COMBINE_READ, divides = i->how == CR_COMBINE_DIVIDE;
    bool orders = i->how == CR_COMBINE_MIN || i->how == CR_COMBINE_MAX;

    if (reads != !strcmp(c->name, cr_command_names[CR_COMMAND_INDEXED]))
        return wrong(c, "the command does not have this operation");
    if ((reads && !i->index) || (divides && i->index) || (!i->dense && (reads || divides)))
        return wrong(c, "an operand of the operation is missing or not allowed");
    if (i->dtype >= CR_DTYPE_KERNELS || (orders && cr_dtype_is_complex((cr_dtype)i->dtype)))
        return wrong(c, "the operation does not take the dtype");
    if (i->outside && (i->outside_kind < 1 || i->outside_kind >= CR_PYTHON))
        return wrong(c, "there is no such kind of error");
    return CR_OK;
}

/* Indices are tested before elements are written, which therefore may not be indices. */
static cr_status check_indexed(const checker *c, const cr_indexed *i)
{
    bool reads = i->how == CR_COMBINE_READ, divides = i->how == CR_COMBINE_DIVIDE, meet;
    reach table = reach_of(i->dtype), dense = reach_of(divides ? CR_I64 : i->dtype),
          index = reach_of(i->is32 ? CR_I32 : CR_I64);
    int64_t n = 1;

    CR_TRY(check_how(c, i));
    CR_TRY(check_count(c, &n, i->ndim, i->size));
    reach_add_dims(&table, i->ndim, i->size, i->table_stride, table.high);
    if (i->index)
        CR_TRY(add_places(c, &table, i));
    if (!n)
        return CR_OK;
    CR_TRY(check_reach(c, i->table, &table));
    if (i->dense) {
        reach_add_dims(&dense, i->ndim, i->size, i->dense_stride, dense.high);
        CR_TRY(check_reach(c, i->dense, &dense));
    }
    if (i->index) {
        reach_add_dims(&index, i->ndim, i->size, i->index_stride, index.high);
        CR_TRY(check_reach(c, i->index, &index));
    }
    meet = reads ? reaches_meet(i->index, &index, i->dense, &dense)
                 : reaches_meet(i->index, &index, i->table, &table);
    return meet ? wrong(c, "the index shares memory with the elements that are written")
                : CR_OK;
}

/* --- windows --- */

/* Factors of integers are converted, and the place of an element is found by divisions. */
static cr_status check_factors(const checker *c, const double *factor, int64_t n)
{
    const double most = 9007199254740992.0; /* 2^53 */

    for (int64_t i = 0; factor && i < n; i++)
        if (!(factor[i] <= most && factor[i] >= -most))
            return wrong(c, "a factor of a divisor is out of range");
    return CR_OK;
}

/* Adds the least and the largest position of the dim, unless it has none. */
static cr_status add_positions(const checker *c, reach *r, const cr_window_axis *a)
{
    int64_t low = INT64_MAX, high = INT64_MIN;

    for (int64_t i = 0; i < a->start[a->size]; i++) {
        const int64_t *range = a->range + 3 * i;
        reach one = {.align = 1};
        reach_add(&one, range[2], range[1], 1);
        if (range[2] < 0 || range[0] < 0 || range[0] > FAR || one.far)
            return wrong(c, "a range of positions is out of range");
        low = range[2] && range[0] + one.low < low ? range[0] + one.low : low;
        high = range[2] && range[0] + one.high > high ? range[0] + one.high : high;
    }
    r->low += low <= high ? low : 0;
    r->high += low <= high ? high : 0;
    return CR_OK;
}

static cr_status check_axis(const checker *c, reach *r, const cr_window_axis *a)
{
    if (a->in <= 0 || a->start[0])
        return wrong(c, "a dim of windows has no elements, or its ranges do not begin at 0");
    for (int64_t p = 0; p < a->size; p++)
        if (a->start[p] > a->start[p + 1])
            return wrong(c, "ranges of a place end before they begin");
    CR_TRY(check_factors(c, a->count, a->size));
    CR_TRY(check_factors(c, a->share, a->in));
    return add_positions(c, r, a);
}

static cr_status check_planes(const checker *c, const cr_windows *w)
{
    int64_t from = 1, result = 1, which = 1, in = w->planes, out = w->planes;

    CR_TRY(check_count(c, &from, w->from.ndim, w->from.size));
    CR_TRY(check_count(c, &result, w->result.ndim, w->result.size));
    CR_TRY(check_count(c, &which, w->which.ndim, w->which.size));
    CR_TRY(check_count(c, &in, 1, &w->in));
    CR_TRY(check_count(c, &out, 1, &w->out));
    if (w->planes < 0 || from != in || result != out || (w->extreme && which != out))
        return wrong(c, "the arrays do not have the elements of their planes");
    if (w->from.dtype != w->result.dtype || w->from.dtype >= CR_DTYPE_KERNELS ||
        (w->extreme &&
         (w->which.dtype != CR_I64 || cr_dtype_is_complex((cr_dtype)w->from.dtype))))
        return wrong(c, "the operation does not take the dtypes");
    return CR_OK;
}

static cr_status check_windows(const checker *c, const cr_windows *w)
{
    int64_t in = 1, out = 1;
    reach r = {.align = 1};

    CR_TRY(check_result(c, &w->result));
    CR_TRY(check_array(c, &w->from));
    if (w->extreme)
        CR_TRY(check_result(c, &w->which));
    CR_TRY(check_planes(c, w));
    for (int k = 0; k < 3; k++) {
        CR_TRY(check_axis(c, &r, &w->dim[k]));
        CR_TRY(check_count(c, &in, 1, &w->dim[k].in));
        CR_TRY(check_count(c, &out, 1, &w->dim[k].size));
    }
    /* Only shares need the place of an element in its dims; windows that add positions of two
     * dims to one (col2im) have none. */
    if ((w->shares && in != w->in) || out != w->out || r.low < 0 || (out && r.high >= w->in))
        return wrong(c, "positions are outside their plane");
    return CR_OK;
}

/* --- calls --- */

static cr_status check_given(const checker *c, const cr_given *g)
{
    if (g->kind == CR_GIVEN_ARRAY)
        return check_array(c, &g->array);
    for (size_t i = 0; g->kind == CR_GIVEN_LIST && i < g->count; i++)
        CR_TRY(check_given(c, &g->list[i]));
    return CR_OK;
}

/* The executor compares the results with those of the entry's rules. */
static cr_status check_library(const checker *c, const cr_library *l)
{
    for (int i = 0; i < l->args; i++)
        CR_TRY(check_given(c, &l->arg[i]));
    for (int i = 0; i < l->results; i++)
        CR_TRY(check_result(c, &l->result[i]));
    return CR_OK;
}

static cr_status check_collective(const checker *c, const cr_plan_collective *m)
{
    if (!m->count)
        return wrong(c, "there is no result");
    for (int i = 0; i < m->ins; i++)
        CR_TRY(check_array(c, &m->in[i]));
    for (int i = 0; i < m->count; i++)
        CR_TRY(check_result(c, &m->out[i]));
    return CR_OK;
}

/* --- plans --- */

static cr_status check_command(const checker *c, const cr_command *m)
{
    switch (m->kind) {
    case CR_COMMAND_KERNEL: return check_launch(c, &m->kernel);
    case CR_COMMAND_MOVE: return check_move(c, &m->move);
    case CR_COMMAND_FILL: return check_result(c, &m->fill.to);
    case CR_COMMAND_INDEXED:
    case CR_COMMAND_COMBINE: return check_indexed(c, &m->indexed);
    case CR_COMMAND_WINDOWS: return check_windows(c, &m->windows);
    case CR_COMMAND_LIBRARY: return check_library(c, &m->library);
    case CR_COMMAND_COLLECTIVE: return check_collective(c, &m->collective);
    case CR_COMMAND_COPY: return check_copy(c, &m->copy);
    case CR_COMMAND_WAIT:
    case CR_COMMAND_KINDS: break;
    }
    return CR_OK;
}

cr_status cr_plan_check(const cr_plan *p, const cr_executor *by, size_t first)
{
    for (size_t i = first; i < p->command.len; i++) {
        const cr_command *m = p->command.at[i];
        checker c = {p, by, cr_command_names[m->kind], i + 1};
        CR_TRY(check_command(&c, m));
    }
    for (size_t i = 0; i < p->output.len; i++) {
        checker c = {p, by, "result", i + 1};
        CR_TRY(check_array(&c, &p->output.at[i]));
    }
    return CR_OK;
}
