/* The text of plans; parse.c reads it. */
#include "plan/plan.h"
#include "space/space.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    cr_text *out;
    const cr_plan *plan;
    CR_VEC(const cr_plan_kernel *) kernel; /* that were printed, by number */
    size_t buffers;                        /* that were printed */
} printer;

/* --- parts --- */

static void put_numbers(cr_text *t, const int64_t *v, int64_t n)
{
    cr_text_put(t, "[");
    for (int64_t i = 0; i < n; i++)
        cr_text_printf(t, "%s%lld", i ? ", " : "", (long long)v[i]);
    cr_text_put(t, "]");
}

/* A float has a point, an exponent, or letters. */
static void put_float(cr_text *t, double d)
{
    char text[40];

    snprintf(text, sizeof text, "%.17g", d);
    cr_text_printf(t, "%s%s", text, strpbrk(text, ".en") ? "" : ".0");
}

static void put_floats(cr_text *t, const double *v, int64_t n)
{
    cr_text_put(t, "[");
    for (int64_t i = 0; i < n; i++) {
        cr_text_put(t, i ? ", " : "");
        put_float(t, v[i]);
    }
    cr_text_put(t, "]");
}

static void put_bytes(cr_text *t, const void *bytes, size_t n)
{
    const unsigned char *b = bytes;

    cr_text_put(t, "#");
    for (size_t i = 0; i < n; i++)
        cr_text_printf(t, "%02x", b[i]);
}

/* The number of bytes without those at the end that are zero. */
static size_t bytes_in_use(const void *bytes, size_t n)
{
    const unsigned char *b = bytes;

    while (n && !b[n - 1])
        n--;
    return n;
}

static void put_number(cr_text *t, const void *bytes, size_t n)
{
    put_bytes(t, bytes, bytes_in_use(bytes, n));
}

static void put_string(cr_text *t, const char *s, size_t n)
{
    cr_text_put(t, "\"");
    for (size_t i = 0; i < n; i++)
        if (s[i] == '"' || s[i] == '\\' || (unsigned char)s[i] < ' ')
            cr_text_printf(t, "\\%02x", (unsigned char)s[i]);
        else
            cr_text_char(t, s[i]);
    cr_text_put(t, "\"");
}

static void put_address(cr_text *t, const char *address)
{
    if (!address) {
        cr_text_put(t, "none");
        return;
    }
    int64_t offset = cr_plan_offset_of(address);
    cr_text_printf(t, "%%%zu", cr_plan_buffer_of(address));
    if (offset)
        cr_text_printf(t, "%+lld", (long long)offset);
}

/* Strides are left out of a row-major array. */
static void put_array(cr_text *t, const cr_array *a)
{
    int64_t stride[CR_MAX_DIMS];

    put_address(t, a->data);
    cr_text_printf(t, ":%s", cr_dtype_name((cr_dtype)a->dtype));
    put_numbers(t, a->size, a->ndim);
    cr_dense_strides(stride, a->ndim, a->size);
    if (!memcmp(stride, a->stride, (size_t)a->ndim * sizeof *stride))
        return;
    cr_text_put(t, " by ");
    put_numbers(t, a->stride, a->ndim);
}

/* --- kernels --- */

static size_t kernel_number(printer *p, const cr_plan_kernel *k)
{
    size_t i = 0;

    while (i < p->kernel.len && p->kernel.at[i] != k)
        i++;
    return i;
}

/* Prints the program of a kernel before the first command that has it. */
static void put_program(printer *p, const cr_plan_kernel *k)
{
    size_t number = kernel_number(p, k);

    if (number < p->kernel.len)
        return;
    if (cr_vec_reserve(&p->kernel, 1)) {
        p->out->failed = CR_MEMORY;
        return;
    }
    cr_vec_put(&p->kernel, k);
    cr_text_printf(p->out, "  kernel %zu %s {\n", number, k->name);
    for (const char *at = k->program; *at;) {
        size_t n = strcspn(at, "\n");
        cr_text_printf(p->out, "    %.*s\n", (int)n, at);
        at += n + (at[n] == '\n');
    }
    cr_text_put(p->out, "  }\n");
}

static void put_operand(cr_text *t, const cr_launch *l, int k)
{
    bool number = l->numbers >> k & 1;

    if (number)
        put_number(t, l->pointer[k], 16);
    else
        put_address(t, l->pointer[k]);
    cr_text_put(t, " by [");
    for (int d = 0; d < l->outer; d++)
        cr_text_printf(t, "%lld, ", (long long)l->outer_stride[k * l->outer + d]);
    cr_text_printf(t, "%lld, %lld]", (long long)l->stride[2 * k],
                   (long long)l->stride[2 * k + 1]);
}

static void put_launch(printer *p, const cr_launch *l)
{
    cr_text *t = p->out;

    cr_text_printf(t, " %zu %s over [", kernel_number(p, l->code),
                   ((const cr_plan_kernel *)l->code)->name);
    for (int d = 0; d < l->outer; d++)
        cr_text_printf(t, "%lld, ", (long long)l->outer_size[d]);
    cr_text_printf(t, "%lld, %lld]", (long long)l->size[0], (long long)l->size[1]);
    if (l->size[2])
        cr_text_printf(t, " first %lld", (long long)l->size[2]);
    cr_text_put(t, " (");
    for (int k = 0; k < l->operands; k++) {
        cr_text_put(t, k ? ", " : "");
        put_operand(t, l, k);
    }
    cr_text_put(t, ")");
    size_t params = bytes_in_use(l->param, l->param ? l->param_bytes : 0);
    if (!params)
        return;
    cr_text_put(t, " param ");
    put_bytes(t, l->param, params);
}

/* --- other commands --- */

static void put_place(cr_text *t, const char *word, const char *address, const int64_t *stride,
                      int ndim)
{
    cr_text_printf(t, " %s ", word);
    put_address(t, address);
    cr_text_put(t, " by ");
    put_numbers(t, stride, ndim);
}

static void put_index(cr_text *t, const cr_indexed *c)
{
    put_place(t, c->is32 ? "at int32" : "at int64", c->index, c->index_stride, c->ndim);
    cr_text_printf(t, " unit %lld below %lld%s", (long long)c->unit, (long long)c->extent,
                   c->wraps ? " wraps" : "");
    if (c->numbered) {
        cr_text_put(t, " numbered ");
        put_array(t, c->numbered);
    }
    if (c->picked)
        cr_text_printf(t, " picked %lld", (long long)(int64_t)c->picked);
    if (c->outside) {
        cr_text_printf(t, " error %d ", c->outside_kind);
        put_string(t, c->outside, strlen(c->outside));
    }
}

static void put_indexed(cr_text *t, const cr_indexed *c)
{
    cr_text_printf(t, " %s %s", cr_combine_names[c->how], cr_dtype_name((cr_dtype)c->dtype));
    put_numbers(t, c->size, c->ndim);
    put_place(t, "table", c->table, c->table_stride, c->ndim);
    if (c->dense) {
        put_place(t, "dense", c->dense, c->dense_stride, c->ndim);
    } else {
        cr_text_put(t, " number ");
        put_number(t, c->item, sizeof c->item);
    }
    if (c->index)
        put_index(t, c);
}

static void put_axis(cr_text *t, const cr_window_axis *a)
{
    cr_text_printf(t, " dim %lld of %lld start ", (long long)a->size, (long long)a->in);
    put_numbers(t, a->start, a->size + 1);
    cr_text_put(t, " ranges ");
    put_numbers(t, a->range, 3 * a->start[a->size]);
    if (a->count) {
        cr_text_put(t, " count ");
        put_floats(t, a->count, a->size);
    }
    if (a->share) {
        cr_text_put(t, " share ");
        put_floats(t, a->share, a->in);
    }
}

static void put_windows(cr_text *t, const cr_windows *c)
{
    cr_text_printf(t, " %s ", c->extreme ? "max" : "sum");
    put_array(t, &c->result);
    cr_text_put(t, " which ");
    put_array(t, &c->which);
    cr_text_put(t, " from ");
    put_array(t, &c->from);
    cr_text_printf(t, " planes %lld of [%lld, %lld] divisor %lld%s%s", (long long)c->planes,
                   (long long)c->in, (long long)c->out, (long long)c->divisor,
                   c->divides ? " divides" : "", c->shares ? " shares" : "");
    for (int i = 0; i < 3; i++)
        put_axis(t, &c->dim[i]);
}

static void put_given(cr_text *t, const cr_given *g)
{
    switch (g->kind) {
    case CR_GIVEN_ARRAY: put_array(t, &g->array); break;
    case CR_GIVEN_INT: cr_text_printf(t, "%lld", (long long)g->i); break;
    case CR_GIVEN_FLOAT: put_float(t, g->d); break;
    case CR_GIVEN_INTS: put_numbers(t, g->ints, (int64_t)g->count); break;
    case CR_GIVEN_FLOATS: put_floats(t, g->floats, (int64_t)g->count); break;
    case CR_GIVEN_TEXT: put_string(t, g->text, g->count); break;
    case CR_GIVEN_LIST:
        cr_text_put(t, "(");
        for (size_t i = 0; i < g->count; i++) {
            cr_text_put(t, i ? ", " : "");
            put_given(t, &g->list[i]);
        }
        cr_text_put(t, ")");
        break;
    case CR_GIVEN_NONE:
    case CR_GIVEN_OTHER: cr_text_put(t, "None"); break;
    }
}

static void put_library(cr_text *t, const cr_library *c)
{
    cr_text_printf(t, " %s(", c->entry);
    for (int i = 0; i < c->args; i++) {
        cr_text_put(t, i ? ", " : "");
        put_given(t, &c->arg[i]);
    }
    cr_text_put(t, ") -> (");
    for (int i = 0; i < c->results; i++) {
        cr_text_put(t, i ? ", " : "");
        put_array(t, &c->result[i]);
    }
    cr_text_put(t, ")");
}

static void put_copy(cr_text *t, const cr_plan_copy *c)
{
    cr_text_put(t, " ");
    if (c->to)
        put_address(t, c->to);
    else
        cr_text_put(t, "host");
    cr_text_put(t, " = ");
    if (c->from || !c->bytes) {
        put_address(t, c->from);
        cr_text_printf(t, " %zu", c->n);
    } else {
        put_bytes(t, c->bytes, c->n);
    }
}

static void put_arrays(cr_text *t, const char *word, const cr_array *a, const cr_array *b)
{
    cr_text_put(t, " ");
    put_array(t, a);
    cr_text_put(t, word);
    put_array(t, b);
}

static void put_operands(printer *p, const cr_command *c)
{
    cr_text *t = p->out;

    switch (c->kind) {
    case CR_COMMAND_KERNEL: put_launch(p, &c->kernel); break;
    case CR_COMMAND_MOVE: put_arrays(t, " = ", &c->move.to, &c->move.from); break;
    case CR_COMMAND_FILL:
        cr_text_put(t, " ");
        put_array(t, &c->fill.to);
        cr_text_put(t, " = ");
        put_number(t, c->fill.element, sizeof c->fill.element);
        break;
    case CR_COMMAND_INDEXED:
    case CR_COMMAND_COMBINE: put_indexed(t, &c->indexed); break;
    case CR_COMMAND_WINDOWS: put_windows(t, &c->windows); break;
    case CR_COMMAND_LIBRARY: put_library(t, &c->library); break;
    case CR_COMMAND_COPY: put_copy(t, &c->copy); break;
    case CR_COMMAND_WAIT:
    case CR_COMMAND_KINDS: break;
    }
}

/* --- plans --- */

static void put_buffers(printer *p, size_t commands)
{
    const cr_plan_buffer *b = p->plan->buffer.at;

    for (; p->buffers < p->plan->buffer.len && b[p->buffers].before <= commands; p->buffers++)
        cr_text_printf(p->out, "  %%%zu = %s %zu\n", p->buffers,
                       b[p->buffers].input ? "input" : "buffer", b[p->buffers].bytes);
}

static void put_command(printer *p, const cr_command *c)
{
    if (c->kind == CR_COMMAND_KERNEL)
        put_program(p, c->kernel.code);
    cr_text_printf(p->out, "  %s", cr_command_names[c->kind]);
    put_operands(p, c);
    cr_text_put(p->out, "\n");
}

void cr_plan_print(cr_text *out, const cr_plan *plan)
{
    printer p = {.out = out, .plan = plan};

    cr_text_put(out, plan->of_values ? "plan of values {\n" : "plan {\n");
    for (size_t i = 0; i < plan->command.len; i++) {
        put_buffers(&p, i);
        put_command(&p, plan->command.at[i]);
    }
    put_buffers(&p, plan->command.len);
    for (size_t i = 0; i < plan->output.len; i++) {
        cr_text_put(out, i ? ", " : "  return ");
        put_array(out, &plan->output.at[i]);
    }
    cr_text_put(out, plan->output.len ? "\n}\n" : "}\n");
    cr_vec_drop(&p.kernel);
}
