/* Plans as C99 files: helpers for the commands, tables of their sizes, and the function. */
#include "compile/c_job.h"
#include "compile/places.h"
#include "loop/loop.h"
#include "num/convert.h"
#include "num/order.h"
#include <stdio.h>
#include <string.h>

CR_NORETURN static void refuse(const cr_c_job *j, const char *what)
{
    cr_bail(j->s, CR_VALUE, "to_c: the program has %s, which has no C99 form", what);
}

static const char *type_of(const cr_c_job *j, int dtype)
{
    const char *type = cr_c_type((cr_dtype)dtype);

    if (!type)
        refuse(j, cr_dtype_name((cr_dtype)dtype));
    return type;
}

/* --- memory --- */

/* Whether the command computes the places of extremes, which nothing reads. */
static bool has_unread_places(const cr_c_job *j, const cr_command *c)
{
    size_t b = c->kind == CR_COMMAND_WINDOWS && c->windows.extreme && c->windows.which.data
                   ? cr_plan_buffer_of(c->windows.which.data)
                   : SIZE_MAX;

    return b < j->p->buffer.len && !j->p->buffer.at[b].input && j->memory.uses[b] == 1;
}

static void place_buffers(cr_c_job *j)
{
    size_t n = j->p->buffer.len;
    int64_t *bytes = CR_NEW_N(j->s, int64_t, n + 1),
            *time = CR_NEW_N(j->s, int64_t, j->p->command.len + 1);

    j->memory.offset = CR_NEW_N(j->s, int64_t, n + 1);
    cr_c_order(j);
    cr_c_count_uses(j);
    cr_c_own_buffers(j);
    for (size_t b = 0; b < n; b++)
        bytes[b] = j->p->buffer.at[b].input || j->memory.slot[b]
                       ? -1
                       : (int64_t)j->p->buffer.at[b].bytes;
    for (size_t i = 0; i < j->p->command.len; i++)
        if (has_unread_places(j, j->p->command.at[i]))
            bytes[cr_plan_buffer_of(j->p->command.at[i]->windows.which.data)] = -1;
    for (size_t i = 0; i < j->group.len; i++)
        for (size_t k = 0; k < j->group.at[i].n; k++)
            time[j->order.at[j->group.at[i].at + k]] = (int64_t)i;
    j->memory.bytes = cr_plan_places(j->s, j->p, time, bytes, CR_C_ALIGNMENT, j->memory.offset);
}

int cr_c_input_number(const cr_c_job *j, size_t buffer)
{
    return j->p->buffer.at[buffer].number;
}

const cr_c_input *cr_c_half(const cr_c_job *j, const char *address)
{
    size_t b = cr_plan_buffer_of(address);

    if (!address || b >= j->p->buffer.len || !j->p->buffer.at[b].input)
        return NULL;
    int k = cr_c_input_number(j, b);
    return k < j->inputs && j->input[k].half ? &j->input[k] : NULL;
}

void cr_c_half_pointer(cr_c_job *j, const char *address)
{
    const cr_c_input *in = cr_c_half(j, address);

    cr_text_printf(&j->body, "(const uint16_t *)(const void *)%s + %lld", in->name,
                   (long long)(cr_plan_offset_of(address) / (int64_t)sizeof(float)));
}

/* Where the floats of an input in halves are in the caller's memory. */
static int64_t widened_at(cr_c_job *j, int k)
{
    if (!j->memory.widened[k]) {
        j->memory.bytes =
            (j->memory.bytes + CR_C_ALIGNMENT - 1) / CR_C_ALIGNMENT * CR_C_ALIGNMENT;
        j->memory.widened[k] = 1 + j->memory.bytes;
        j->memory.bytes += (int64_t)sizeof(float) * cr_c_weight_count(&j->input[k]);
    }
    return j->memory.widened[k] - 1;
}

/* The address of an array as text: a pointer to unsigned char. */
void cr_c_address(cr_c_job *j, const char *address, bool written)
{
    size_t b = cr_plan_buffer_of(address);
    int64_t at = cr_plan_offset_of(address);

    if (!address) { /* no elements */
        cr_text_put(&j->body, "w");
        return;
    }
    if (b >= j->p->buffer.len)
        refuse(j, "an address outside of its buffers");
    if (j->memory.offset[b] >= 0) {
        cr_text_printf(&j->body, "w + %lld", (long long)(j->memory.offset[b] + at));
        return;
    }
    int k = cr_c_input_number(j, b);
    if (k >= j->inputs)
        refuse(j, "another number of inputs");
    if (written && !j->input[k].state)
        refuse(j, "a write to an argument or a parameter");
    if (j->input[k].half) {
        cr_text_printf(&j->body, "w + %lld", (long long)(widened_at(j, k) + at));
        return;
    }
    cr_text_printf(&j->body, "(unsigned char *)%s + %lld", j->input[k].name, (long long)at);
}

void cr_c_integers(cr_text *out, const char *name, const int64_t *at, int64_t n, int64_t factor)
{
    cr_text_printf(out, "        static const int64_t %s[] = {", name);
    for (int64_t i = 0; i < n; i++) {
        int64_t value = at[i] * factor;
        cr_text_put(out, i ? ", " : "");
        cr_c_literal(out, CR_I64, &value);
    }
    cr_text_put(out, n ? "};\n" : "0};\n");
}

void cr_c_bytes(cr_text *out, const char *name, const void *bytes, size_t n)
{
    const unsigned char *at = bytes;
    size_t stated = n; /* C sets the bytes after the last that is not 0 */

    while (stated > 1 && !at[stated - 1])
        stated--;
    cr_text_printf(out, "        static const unsigned char %s[%zu] = {", name, n ? n : 1);
    for (size_t i = 0; i < stated; i++)
        cr_text_printf(out, i ? ", %u" : "%u", at[i]);
    cr_text_put(out, n ? "};\n" : "0};\n");
}

void cr_c_scratch(cr_c_job *j, int64_t elements)
{
    j->memory.scratch = elements > j->memory.scratch ? elements : j->memory.scratch;
}

void cr_c_own_scratch(cr_c_job *j, int64_t elements)
{
    int64_t *most = j->how->threads ? &j->memory.own : &j->memory.scratch;

    *most = elements > *most ? elements : *most;
}

/* --- kernels --- */

/* Whether results are in other buffers than all other operands. */
static bool is_apart(const cr_launch *l, int outputs)
{
    for (int i = 0; i < outputs; i++)
        for (int k = 0; k < l->operands; k++)
            if (k != i && !(l->numbers >> k & 1) &&
                cr_plan_buffer_of(l->pointer[i]) == cr_plan_buffer_of(l->pointer[k]))
                return false;
    return true;
}

/* Strides along one row do not matter. */
static bool has_strides(const cr_launch *a, const cr_launch *b)
{
    for (int k = 0; k < b->operands; k++)
        if (a->stride[2 * k + 1] != b->stride[2 * k + 1] ||
            (b->size[0] != 1 && a->stride[2 * k] != b->stride[2 * k]))
            return false;
    return true;
}

static bool is_printed(const cr_c_printed *k, const cr_launch *l)
{
    const cr_plan_kernel *a = k->of->code, *b = l->code;

    return !strcmp(a->program, b->program) && k->of->operands == l->operands &&
           (!k->fixed || k->fixed == l->size[1]) && k->apart == is_apart(l, k->outputs) &&
           (!k->blocks || l->stride[0] || l->size[0] <= CR_FOLD_COLUMN) &&
           (k->of->size[0] == 1) == (l->size[0] == 1) && has_strides(k->of, l);
}

/* Results come first. */
static int count_outputs(cr_c_job *j, const cr_launch *l)
{
    const cr_plan_kernel *source = l->code;
    cr_loop *loop = cr_loop_parse(j->s, source->program);
    cr_buffer *operand[CR_PLAN_OPERANDS];
    int n = cr_loop_operands(loop, operand, CR_PLAN_OPERANDS), outputs = 0;

    for (int i = 0; i < n; i++)
        outputs += operand[i]->role == CR_BUFFER_OUTPUT;
    return outputs;
}

size_t cr_c_kernel_number(cr_c_job *j, const cr_launch *l)
{
    char symbol[32];
    cr_c_printed new = {.of = l, .varies = j->how->threads, .columns_vary = j->how->varies};

    for (size_t k = 0; k < j->kernel.len; k++)
        if (is_printed(&j->kernel.at[k], l))
            return k;
    snprintf(symbol, sizeof symbol, "kernel_%zu", j->kernel.len);
    new.apart = is_apart(l, count_outputs(j, l));
    cr_c_kernel(j->s, &j->kernels, &j->words, &new, symbol);
    CR_PUSH(j->s, &j->kernel, new);
    return j->kernel.len - 1;
}

void cr_c_numbers(cr_c_job *j, const cr_launch *l)
{
    char name[32];

    for (int k = 0; k < l->operands; k++)
        if (l->numbers >> k & 1) { /* 16 bytes, aligned like any element */
            int64_t number[2] = {0};
            memcpy(number, l->pointer[k], sizeof number);
            snprintf(name, sizeof name, "n%d", k);
            cr_c_integers(&j->body, name, number, 2, 1);
        }
}

static void put_operands(cr_c_job *j, const cr_launch *l, int outputs)
{
    cr_c_numbers(j, l);
    cr_text_put(&j->body, "        unsigned char *p[32];\n\n");
    for (int k = 0; k < l->operands; k++) {
        cr_text_printf(&j->body, "        p[%d] = ", k);
        if (l->numbers >> k & 1)
            cr_text_printf(&j->body, "(unsigned char *)n%d", k);
        else
            cr_c_address(j, l->pointer[k], k < outputs);
        cr_text_put(&j->body, ";\n");
    }
}

static void put_kernel(cr_c_job *j, const cr_launch *l)
{
    size_t k = cr_c_kernel_number(j, l);
    const cr_c_printed *of = &j->kernel.at[k];
    bool parts = of->columns && l->stride[0];
    char shared[32] = "scratch";

    j->needs.launches = true;
    if (j->how->threads)
        snprintf(shared, sizeof shared, "%d, team, %s",
                 of->splits && !l->outer && l->size[0] == 1, j->how->object ? "varying" : "0");
    cr_c_own_scratch(j, l->size[0] > l->size[1] ? l->size[0] : l->size[1]);
    cr_c_integers(&j->body, "s", l->stride, 2 * l->operands, 1);
    cr_c_integers(&j->body, "size", l->outer_size, l->outer, 1);
    cr_c_integers(&j->body, "step", l->outer_stride, (int64_t)l->outer * l->operands, 1);
    cr_c_bytes(&j->body, "q", l->param, l->param_bytes);
    put_operands(j, l, of->outputs);
    cr_text_printf(
        &j->body,
        "        cv_launch(kernel_%zu, p, %d, %d, s, %d, size, step, %lld, %lld, %d, "
        "q, %s);\n",
        k, l->operands, of->outputs, l->outer, (long long)l->size[0], (long long)l->size[1],
        parts                          ? 1
        : j->how->threads && of->whole ? 2
                                       : 0,
        shared);
}

/* --- copies --- */

/* Steps in bytes along the dims of `to`; 0 where an array is broadcast. */
static void put_steps(cr_c_job *j, const char *name, const cr_array *a, const cr_array *to)
{
    int64_t step[64], item = (int64_t)cr_dtype_size((cr_dtype)a->dtype);

    for (int d = 0; d < to->ndim && d < 64; d++) {
        int own = d - (to->ndim - a->ndim);
        step[d] =
            own < 0 || (a->size[own] == 1 && to->size[d] != 1) ? 0 : a->stride[own] * item;
    }
    cr_c_integers(&j->body, name, step, to->ndim, 1);
}

void cr_c_move_name(cr_c_job *j, int to, int from)
{
    type_of(j, to);
    type_of(j, from);
    j->needs.moves[to] |= 1u << from;
    cr_text_printf(&j->body, "        %scv_move_%s_%s", j->how->threads ? "cv_move(team, " : "",
                   cr_dtype_name((cr_dtype)to), cr_dtype_name((cr_dtype)from));
}

static void put_move_call(cr_c_job *j, int to, int from, int ndim)
{
    cr_c_move_name(j, to, from);
    cr_text_printf(&j->body, j->how->threads ? ", %d, size, " : "(%d, size, ", ndim);
}

static void put_move(cr_c_job *j, const cr_array *to, const cr_array *from)
{
    cr_c_integers(&j->body, "size", to->size, to->ndim, 1);
    put_steps(j, "ts", to, to);
    put_steps(j, "fs", from, to);
    put_move_call(j, to->dtype, from->dtype, to->ndim);
    cr_c_address(j, to->data, true);
    cr_text_put(&j->body, ", ts, ");
    cr_c_address(j, from->data, false);
    cr_text_put(&j->body, ", fs);\n");
}

static void put_fill(cr_c_job *j, const cr_plan_fill *f)
{
    int64_t none[64] = {0}, element[2] = {0};

    memcpy(element, f->element, sizeof element);
    cr_c_integers(&j->body, "size", f->to.size, f->to.ndim, 1);
    put_steps(j, "ts", &f->to, &f->to);
    cr_c_integers(&j->body, "fs", none, f->to.ndim, 1);
    cr_c_integers(&j->body, "element", element, 2, 1);
    put_move_call(j, f->to.dtype, f->to.dtype, f->to.ndim);
    cr_c_address(j, f->to.data, true);
    cr_text_put(&j->body, ", ts, (const unsigned char *)element, fs);\n");
}

/* Whether bytes are those of int64 numbers with one step: of a program whose size varies, their
 * list varies, too, and its numbers are a loop. */
static bool has_one_step(const cr_plan_copy *c, int64_t *first, int64_t *step)
{
    const char *bytes = c->bytes;
    uint64_t number, was;

    if (!c->n || c->n % sizeof number || cr_plan_offset_of(c->to) % (int64_t)sizeof number)
        return false;
    memcpy(first, bytes, sizeof *first);
    *step = 1;
    if (c->n > sizeof number) {
        memcpy(&number, bytes + sizeof number, sizeof number);
        *step = (int64_t)(number - (uint64_t)*first);
    }
    was = (uint64_t)*first;
    for (size_t at = sizeof number; at < c->n; at += sizeof number, was = number) {
        memcpy(&number, bytes + at, sizeof number);
        if (number - was != (uint64_t)*step)
            return false;
    }
    return true;
}

static void put_counted(cr_c_job *j, const cr_plan_copy *c, int64_t first, int64_t step)
{
    cr_text_put(&j->body, "        int64_t k, *numbers = (int64_t *)(void *)(");
    cr_c_address(j, c->to, true);
    cr_text_printf(&j->body, ");\n\n        for (k = 0; k < %lld; k++)\n",
                   (long long)(c->n / sizeof(int64_t)));
    cr_text_put(&j->body, "            numbers[k] = (int64_t)((uint64_t)");
    cr_c_literal(&j->body, CR_I64, &first);
    cr_text_put(&j->body, " + (uint64_t)k * (uint64_t)");
    cr_c_literal(&j->body, CR_I64, &step);
    cr_text_put(&j->body, ");\n");
}

static void put_copy(cr_c_job *j, const cr_plan_copy *c)
{
    int64_t first, step;

    if (!c->to)
        refuse(j, "a copy to the host");
    if (!c->from && j->how->varies && has_one_step(c, &first, &step)) {
        put_counted(j, c, first, step);
        return;
    }
    if (!c->from)
        cr_c_bytes(&j->body, "bytes", c->bytes, c->n);
    cr_text_put(&j->body, "        memcpy(");
    cr_c_address(j, c->to, true);
    cr_text_put(&j->body, c->from ? ", " : ", bytes");
    if (c->from)
        cr_c_address(j, c->from, false);
    cr_text_printf(&j->body, ", %zu);\n", c->n);
}

/* --- windows --- */

/* The factors of the divisors along a dim. */
static void put_factors(cr_c_job *j, int d, const double *count, int64_t places)
{
    cr_text_printf(&j->body, "        static const double count%d[] = {", d);
    for (int64_t i = 0; i < places; i++)
        cr_text_printf(&j->body, i ? ", %a" : "%a", count ? count[i] : 1.0);
    cr_text_put(&j->body, places ? "};\n" : "1};\n");
}

void cr_c_dense(cr_c_job *j, const cr_array *a, int64_t at)
{
    int64_t stride[64], next = 1;
    cr_array to = *a;

    for (int d = a->ndim - 1; d >= 0; d--) {
        stride[d] = next;
        next *= a->size[d];
    }
    to.stride = stride;
    cr_c_scratch(j, at + next);
    cr_text_put(&j->body, "        {\n");
    cr_c_integers(&j->body, "size", a->size, a->ndim, 1);
    put_steps(j, "ts", &to, a);
    put_steps(j, "fs", a, a);
    put_move_call(j, a->dtype, a->dtype, a->ndim);
    cr_text_printf(&j->body, "(unsigned char *)scratch + %lld, ts, ", (long long)(8 * at));
    cr_c_address(j, a->data, false);
    cr_text_put(&j->body, ", fs);\n        }\n");
}

static void put_windows(cr_c_job *j, const cr_command *command)
{
    const cr_windows *c = &command->windows;
    bool where = c->extreme && !has_unread_places(j, command);
    char name[16];

    if (c->result.dtype != CR_F32 || c->shares || !cr_array_is_dense(&c->result) ||
        (c->extreme && !cr_array_is_dense(&c->which)))
        refuse(j, "such windows");
    *(where ? &j->needs.maxima : c->extreme ? &j->needs.greatest : &j->needs.averages) = true;
    for (int d = 0; d < 3; d++) {
        const cr_window_axis *a = &c->dim[d];
        int64_t places = a->start ? a->size : 1, ranges = a->start ? a->start[places] : 1;
        static const int64_t whole[] = {0, 1}, one[] = {0, 0, 1};
        if (!c->extreme)
            put_factors(j, d, a->count, places);
        snprintf(name, sizeof name, "start%d", d);
        cr_c_integers(&j->body, name, a->start ? a->start : whole, places + 1, 1);
        snprintf(name, sizeof name, "range%d", d);
        cr_c_integers(&j->body, name, a->start ? a->range : one, 3 * ranges, 1);
    }
    if (!cr_array_is_dense(&c->from))
        cr_c_dense(j, &c->from, 0);
    cr_text_printf(&j->body,
                   "        cv_%s(%lld, %lld, %lld, %lld, %lld, %lld, (float *)(void *)(",
                   where        ? "maxima"
                   : c->extreme ? "greatest"
                                : "sums",
                   (long long)c->planes, (long long)c->in, (long long)c->out,
                   (long long)(c->dim[0].start ? c->dim[0].size : 1),
                   (long long)(c->dim[1].start ? c->dim[1].size : 1),
                   (long long)(c->dim[2].start ? c->dim[2].size : 1));
    cr_c_address(j, c->result.data, true);
    if (where) {
        cr_text_put(&j->body, "), (int64_t *)(void *)(");
        cr_c_address(j, c->which.data, true);
    }
    cr_text_put(&j->body, "), (const float *)(const void *)(");
    if (cr_array_is_dense(&c->from))
        cr_c_address(j, c->from.data, false);
    else
        cr_text_put(&j->body, "scratch");
    cr_text_put(&j->body, "), start0, range0, start1, range1, start2, range2");
    if (!c->extreme)
        cr_text_printf(&j->body, ", count0, count1, count2, %lld",
                       (long long)(c->divides ? c->divisor : 0));
    cr_text_put(&j->body, ");\n");
}

/* --- the file --- */

static void put_command(cr_c_job *j, const cr_command *c)
{
    cr_text_put(&j->body, "    {\n");
    switch (c->kind) {
    case CR_COMMAND_KERNEL: put_kernel(j, &c->kernel); break;
    case CR_COMMAND_MOVE: put_move(j, &c->move.to, &c->move.from); break;
    case CR_COMMAND_FILL: put_fill(j, &c->fill); break;
    case CR_COMMAND_COPY: put_copy(j, &c->copy); break;
    case CR_COMMAND_INDEXED:
    case CR_COMMAND_COMBINE: cr_c_indexed(j, &c->indexed); break;
    case CR_COMMAND_WINDOWS: put_windows(j, c); break;
    case CR_COMMAND_LIBRARY: cr_c_library(j, &c->library); break;
    case CR_COMMAND_WAIT: break;
    default: refuse(j, "calls between ranks");
    }
    cr_text_put(&j->body, "    }\n");
}

static const char team_text[] =
#include "c_team_text.inc"
    ;
static const char team_launch_text[] =
#include "c_team_launch_text.inc"
    ;

static const char launch_text[] =
    "typedef void kernel(unsigned char *const *, int64_t, int64_t, int64_t,\n"
    "    const unsigned char *, void *);\n\n"
    "/* Calls a kernel at each index of the outer dims.  parts: it folds columns, 512 rows a "
    "call. */\n"
    "static void cv_launch(kernel *f, unsigned char *const *p, int operands, int outputs, "
    "const int64_t *s,\n"
    "    int outer, const int64_t *size, const int64_t *step, int64_t rows, int64_t columns, "
    "int parts,\n"
    "    const unsigned char *q, void *scratch)\n"
    "{\n"
    "    int64_t at[16] = {0}, first = 0, from, width = parts ? 512 : rows;\n"
    "    unsigned char *now[32];\n"
    "    int k, d;\n\n"
    "    for (d = 0; d < outer; d++)\n"
    "        if (size[d] == 0)\n"
    "            return;\n"
    "    for (;;) {\n"
    "        for (from = 0; from < rows; from += width) {\n"
    "            for (k = 0; k < operands; k++) {\n"
    "                now[k] = p[k] + (k < outputs ? from / width : from) * s[2 * k];\n"
    "                for (d = 0; d < outer; d++)\n"
    "                    now[k] += at[d] * step[k * outer + d];\n"
    "            }\n"
    "            f(now, rows - from < width ? rows - from : width, columns, first + from, "
    "q, scratch);\n"
    "        }\n"
    "        first += rows;\n"
    "        for (d = outer - 1; d >= 0 && ++at[d] == size[d]; d--)\n"
    "            at[d] = 0;\n"
    "        if (d < 0)\n"
    "            return;\n"
    "    }\n"
    "}\n\n";

/* %1 and %3: dtypes; %2 and %4: types.  A copy to truth values compares with 0. */
static const char move_text[] =
    "static void cv_move_%1$s_%3$s(int ndim, const int64_t *size, unsigned char *to, const "
    "int64_t *ts,\n"
    "    const unsigned char *from, const int64_t *fs)\n"
    "{\n"
    "    int64_t at[64] = {0}, n = ndim ? size[ndim - 1] : 1, t = ndim ? ts[ndim - 1] : 0, f = "
    "ndim ? fs[ndim - 1] : 0, k;\n"
    "    int d;\n\n"
    "    for (d = 0; d < ndim; d++)\n"
    "        if (size[d] == 0)\n"
    "            return;\n"
    "    for (;;) {\n"
    "        if (t == (int64_t)sizeof(%2$s) && f == (int64_t)sizeof(%4$s))\n"
    "            for (k = 0; k < n; k++)\n"
    "                ((%2$s *)(void *)to)[k] = (%2$s)(((const %4$s *)(const void "
    "*)from)[k]%5$s);\n"
    "        else if (t == (int64_t)sizeof(%2$s) && f == 0 && n > 0) {\n"
    "            const %2$s same = (%2$s)(*(const %4$s *)(const void *)from%5$s);\n\n"
    "            for (k = 0; k < n; k++)\n"
    "                ((%2$s *)(void *)to)[k] = same;\n"
    "        } else\n"
    "            for (k = 0; k < n; k++)\n"
    "                *(%2$s *)(void *)(to + k * t) = (%2$s)(*(const %4$s *)(const void *)(from "
    "+ k "
    "* f)%5$s);\n"
    "        for (d = ndim - 2; d >= 0; d--) {\n"
    "            to += ts[d];\n"
    "            from += fs[d];\n"
    "            if (++at[d] < size[d])\n"
    "                break;\n"
    "            to -= size[d] * ts[d];\n"
    "            from -= size[d] * fs[d];\n"
    "            at[d] = 0;\n"
    "        }\n"
    "        if (d < 0)\n"
    "            return;\n"
    "    }\n"
    "}\n\n";

/* %1: name, %2: further parameters, %3: start, %4: step, %5: end.  Places of a row whose
 * windows follow each other are computed together, in all rows. */
static const char window_text[] =
    "static void cv_%1$s(int64_t planes, int64_t in, int64_t out, int64_t n0, int64_t n1, "
    "int64_t n2, float *to,\n"
    "    %2$sconst float *from, const int64_t *s0, const int64_t *r0, const int64_t *s1, const "
    "int64_t *r1,\n"
    "    const int64_t *s2, const int64_t *r2%6$s)\n"
    "{\n"
    "    int64_t k, a, b, c, i, j, l, x, y, z, at, u, n, next;\n\n"
    "    for (c = 0; c < n2; c += n) {\n"
    "        const int64_t *r = r2 + 3 * s2[c];\n\n"
    "        next = c + 1 < n2 ? r2[3 * s2[c + 1]] - r[0] : 0;\n"
    "        for (n = 1; n < 64 && c + n < n2; n++)\n"
    "            if (s2[c + n] != s2[c] + n || s2[c + n + 1] != s2[c] + n + 1 || s2[c + 1] != "
    "s2[c] + 1 ||\n"
    "                r[3 * n] != r[0] + n * next || r[3 * n + 1] != r[1] || r[3 * n + 2] != "
    "r[2])\n"
    "                break;\n"
    "        for (k = 0; k < planes; k++)\n"
    "            for (a = 0; a < n0; a++)\n"
    "                for (b = 0; b < n1; b++) {\n"
    "                    const float *plane = from + k * in;\n"
    "                    int any = 0;\n"
    "                    %3$s\n\n"
    "                    for (i = s0[a]; i < s0[a + 1]; i++)\n"
    "                        for (x = 0; x < r0[3 * i + 2]; x++)\n"
    "                            for (j = s1[b]; j < s1[b + 1]; j++)\n"
    "                                for (y = 0; y < r1[3 * j + 2]; y++)\n"
    "                                    for (l = s2[c]; l < s2[c + 1]; l++)\n"
    "                                        for (z = 0; z < r2[3 * l + 2]; z++) {\n"
    "                                            at = r0[3 * i] + x * r0[3 * i + 1] + r1[3 * "
    "j] + y * r1[3 * j + 1] +\n"
    "                                                 r2[3 * l] + z * r2[3 * l + 1];\n"
    "                                            %4$s\n"
    "                                            any = 1;\n"
    "                                        }\n"
    "                    at = k * out + (a * n1 + b) * n2 + c;\n"
    "                    for (u = 0; u < n; u++) {\n"
    "                        %5$s\n"
    "                    }\n"
    "                }\n"
    "    }\n"
    "}\n\n";

/* Greatest elements of windows; a NaN is greater than all others. */
static const char raise_text[] =
    "/* best[u] = the greater one of it, if there is any, and from[u * step]. */\n"
    "static inline void cv_raise(float *best, const float *from, int64_t n, int64_t step, int "
    "any)\n"
    "{\n"
    "    int64_t u;\n\n"
    "    if (!any)\n"
    "        for (u = 0; u < n; u++)\n"
    "            best[u] = from[u * step];\n"
    "    else if (step == 1)\n"
    "        for (u = 0; u < n; u++)\n"
    "            best[u] = from[u] > best[u] || from[u] != from[u] ? from[u] : best[u];\n"
    "    else if (step == 2)\n"
    "        for (u = 0; u < n; u++)\n"
    "            best[u] = from[2 * u] > best[u] || from[2 * u] != from[2 * u] ? from[2 * u] : "
    "best[u];\n"
    "    else\n"
    "        for (u = 0; u < n; u++)\n"
    "            best[u] =\n"
    "                from[u * step] > best[u] || from[u * step] != from[u * step] ? from[u * "
    "step] : best[u];\n"
    "}\n\n";

/* --- helpers --- */

void cr_c_fill_in(cr_text *out, const char *text, const char *const *with)
{
    for (; *text; text++) {
        if (text[0] == '%' && text[1] >= '1' && text[1] <= '9') {
            cr_text_put(out, with[text[1] - '1']);
            text += 3;
        } else {
            cr_text_char(out, *text);
        }
    }
}

static void put_moves(const cr_c_job *j, cr_text *out)
{
    for (int to = 0; to < 16; to++)
        for (int from = 0; from < 16; from++)
            if (j->needs.moves[to] >> from & 1)
                cr_c_fill_in(out, move_text,
                             (const char *const[]){
                                 cr_dtype_name((cr_dtype)to), cr_c_type((cr_dtype)to),
                                 cr_dtype_name((cr_dtype)from), cr_c_type((cr_dtype)from),
                                 to == CR_BOOL ? " != 0" : ""});
}

static const char f16_text[] =
    "/* The float of a weight, which is a float16. */\n"
    "static inline float cv_widened(uint16_t h)\n"
    "{\n"
    "    uint32_t bits = (uint32_t)(h & 0x7fff) << 13, sign = (uint32_t)(h & 0x8000) << 16;\n"
    "    float x;\n\n"
    "    memcpy(&x, &bits, sizeof x);\n"
    "    x *= 0x1p112f;\n"
    "    memcpy(&bits, &x, sizeof x);\n"
    "    bits |= ((h & 0x7c00) == 0x7c00 ? 0x7f800000 : 0) | sign;\n"
    "    memcpy(&x, &bits, sizeof x);\n"
    "    return x;\n"
    "}\n\n";

static const char bf16_text[] = "/* The float of a weight, which is a bfloat16. */\n"
                                "static inline float cv_widened(uint16_t h)\n"
                                "{\n"
                                "    uint32_t bits = (uint32_t)h << 16;\n"
                                "    float x;\n\n"
                                "    memcpy(&x, &bits, sizeof x);\n"
                                "    return x;\n"
                                "}\n\n";

static const char widen_text[] =
    "#define CV_WIDENS_f32 /* products read them */\n\n"
    "static inline void cv_widen(int64_t n, float *to, const uint16_t *from)\n"
    "{\n"
    "    int64_t k;\n\n"
    "    for (k = 0; k < n; k++)\n"
    "        to[k] = cv_widened(from[k]);\n"
    "}\n\n";

static void put_helpers(const cr_c_job *j, cr_text *out)
{
    if (j->memory.half) {
        cr_text_put(out, j->memory.half == CR_F16 ? f16_text : bf16_text);
        cr_text_put(out, widen_text);
    }
    cr_text_put(out, j->how->threads ? team_text : "");
    if (j->needs.launches)
        cr_text_put(out, j->how->threads ? team_launch_text : launch_text);
    put_moves(j, out);
    cr_c_print_places(j, out);
    if (j->needs.maxima)
        cr_c_fill_in(
            out, window_text,
            (const char *const[]){
                "maxima", "int64_t *which, ",
                "float best[64];\n                    int64_t where[64];",
                "for (u = 0; u < n; u++) {\n"
                "                                                float v = plane[at + u * "
                "next];\n"
                "                                                int more = !any || v > "
                "best[u] || v != v;\n\n"
                "                                                best[u] = more ? v : "
                "best[u];\n"
                "                                                where[u] = more ? at + u * "
                "next : where[u];\n"
                "                                            }",
                "to[at + u] = any ? best[u] : -INFINITY;\n"
                "                        which[at + u] = any ? where[u] : -1;",
                ""});
    if (j->needs.greatest) {
        cr_text_put(out, raise_text);
        cr_c_fill_in(out, window_text,
                     (const char *const[]){"greatest", "", "float best[64];",
                                           "cv_raise(best, plane + at, n, next, any);",
                                           "to[at + u] = any ? best[u] : -INFINITY;", ""});
    }
    if (j->needs.averages)
        cr_c_fill_in(
            out, window_text,
            (const char *const[]){
                "sums", "", "float sum[64] = {0};",
                "for (u = 0; u < n; u++)\n"
                "                                                sum[u] += plane[at + u * "
                "next];",
                "to[at + u] = any && divisor ? sum[u] / (float)((double)divisor * f0[a] * "
                "f1[b] * f2[c + u]) : sum[u];",
                ",\n    const double *f0, const double *f1, const double *f2, int64_t "
                "divisor"});
    cr_c_print_products(j, out);
}

/* --- the function --- */

/* The dtype of a weight's elements in the file. */
static cr_dtype dtype_there(const cr_c_input *in)
{
    return (cr_dtype)(in->half ? in->half : in->dtype);
}

/* The elements of a weight in the file, in order: of the panels, or as they are; `zero` where a
 * panel has no column. */
static const void *weight_at(const cr_c_input *in, int64_t i, const void *zero)
{
    int64_t item = (int64_t)cr_dtype_size(dtype_there(in));

    if (in->panel) {
        int64_t p = in->panel, column = i / (p * in->depth) * p + i % p, k = i / p % in->depth;
        if (column >= in->columns)
            return zero;
        i = column * in->wide + k * in->deep;
    }
    return (const char *)in->values + i * item;
}

int64_t cr_c_weight_count(const cr_c_input *in)
{
    int64_t p = in->panel;

    return p ? (in->columns + p - 1) / p * p * in->depth : in->count;
}

void cr_c_weight_bytes(cr_text *out, const cr_c_input *in)
{
    static const char zero[64];
    size_t item = cr_dtype_size(dtype_there(in)), start = out->len;

    if (!in->panel)
        cr_text_put_n(out, in->values, (size_t)in->count * item);
    for (int64_t i = 0; i < cr_c_weight_count(in) && in->panel; i++)
        cr_text_put_n(out, weight_at(in, i, zero), item);
    cr_text_put_n(out, zero, (16 - (out->len - start) % 16) % 16);
}

static void put_element(cr_text *out, const cr_c_input *in, const void *element)
{
    uint16_t half;

    if (in->half) {
        memcpy(&half, element, sizeof half);
        cr_text_printf(out, "%u", (unsigned)half);
    } else {
        cr_c_literal(out, (cr_dtype)in->dtype, element);
    }
}

static void put_weights(const cr_c_job *j, cr_text *out)
{
    static const int64_t zero[2];

    for (int k = 0; k < j->inputs; k++) {
        const cr_c_input *in = &j->input[k];
        if (!in->values || in->from_file)
            continue;
        cr_text_printf(out, "static const %s %s%s[] = {",
                       in->half ? "uint16_t" : type_of(j, in->dtype), in->state ? "first_" : "",
                       in->name);
        for (int64_t i = 0; i < cr_c_weight_count(in); i++) {
            cr_text_put(out, !i ? "" : i % (in->half ? 16 : 8) ? ", " : ",\n    ");
            put_element(out, in, weight_at(in, i, zero));
        }
        cr_text_put(out, in->count ? "};\n" : "0};\n");
    }
    cr_text_char(out, '\n');
}

int64_t cr_c_weight_span(const cr_c_input *in)
{
    return (cr_c_weight_count(in) * (int64_t)cr_dtype_size(dtype_there(in)) + 15) / 16 * 16;
}

static bool is_argument(const cr_c_input *in) { return in->state || !in->values; }

/* Parameters of the function, and of the one that fills states. */
static void put_parameters(const cr_c_job *j, cr_text *out, bool starts)
{
    const char *gap = "";

    if (j->how->object) {
        cr_text_put(out,
                    starts ? "const void *weights" : "int64_t varying, const void *weights");
        gap = ", ";
    }
    for (int k = 0; k < j->inputs && !*gap; k++)
        if (j->input[k].from_file && (starts == j->input[k].state)) {
            cr_text_put(out, "const void *weights");
            gap = ", ";
        }
    for (int k = 0; k < j->inputs; k++) {
        const cr_c_input *in = &j->input[k];
        if (starts ? !in->state || !in->values : !is_argument(in))
            continue;
        cr_text_printf(out, "%s%s%s *%s", gap, in->state ? "" : "const ", type_of(j, in->dtype),
                       in->name);
        gap = ", ";
    }
    for (size_t i = 0; i < j->p->output.len && !starts; i++) {
        cr_text_printf(out, "%s%s *out%zu", gap, type_of(j, j->p->output.at[i].dtype), i);
        gap = ", ";
    }
    if (!starts)
        cr_text_printf(out, "%svoid *work", gap);
    if (!starts && j->how->threads)
        cr_text_printf(out, ", const %s_threads *threads", j->how->name);
}

static bool has_states(const cr_c_job *j)
{
    for (int k = 0; k < j->inputs; k++)
        if (j->input[k].state && j->input[k].values)
            return true;
    return false;
}

static void put_start(const cr_c_job *j, cr_text *out, const char *name)
{
    int64_t at = 0;

    cr_text_printf(out, "%svoid %s_start(", j->how->object ? "static " : "", name);
    put_parameters(j, out, true);
    cr_text_put(out, j->how->object ? ")\n{\n    (void)weights;\n" : ")\n{\n");
    for (int k = 0; k < j->inputs; k++) {
        const cr_c_input *in = &j->input[k];
        if (in->state && in->values) {
            cr_text_printf(out, "    memcpy(%s, ", in->name);
            if (in->from_file)
                cr_text_printf(out, "(const unsigned char *)weights + %lld", (long long)at);
            else
                cr_text_printf(out, "first_%s", in->name);
            cr_text_printf(out, ", %lld);\n",
                           (long long)in->count *
                               (long long)cr_dtype_size((cr_dtype)in->dtype));
        }
        at += in->from_file ? cr_c_weight_span(in) : 0;
    }
    cr_text_put(out, "}\n\n");
}

/* Of the caller's memory, which the file aligns as buffers are; an object's loader does so. */
static int64_t spare_bytes(const cr_c_job *j) { return j->how->object ? 0 : CR_C_ALIGNMENT; }

/* Bytes of the buffers and of scratch memory, before that of the threads. */
static int64_t common_bytes(const cr_c_job *j)
{
    return j->memory.bytes + (8 * j->memory.scratch + 63) / 64 * 64;
}

static int64_t own_bytes(const cr_c_job *j) { return (8 * j->memory.own + 127) / 64 * 64; }

static void put_work_bytes(const cr_c_job *j, cr_text *out, const char *name)
{
    if (!j->how->threads) {
        cr_text_printf(out, "size_t %s_work_bytes(void)\n{\n    return %lld;\n}\n\n", name,
                       (long long)(common_bytes(j) + spare_bytes(j)));
        return;
    }
    cr_text_printf(
        out,
        "%ssize_t %s_work_bytes(%sint parts)\n{\n%s    return (size_t)(%lld + (parts > 1 "
        "? parts : 1) * (int64_t)%lld);\n}\n\n",
        j->how->object ? "static " : "", name, j->how->object ? "int64_t varying, " : "",
        j->how->object ? "    (void)varying;\n" : "",
        (long long)(common_bytes(j) + spare_bytes(j)), (long long)own_bytes(j));
}

/* The threads of a call. */
static void put_team(const cr_c_job *j, cr_text *out)
{
    cr_text_printf(out,
                   "    cv_team all, *team = &all;\n\n"
                   "    all.by = threads;\n"
                   "    all.parts = threads && threads->parts > 1 ? threads->parts : 1;\n"
                   "    all.bytes = %lld;\n"
                   "    all.memory = w + %lld;\n"
                   "    (void)team;",
                   (long long)own_bytes(j), (long long)common_bytes(j));
}

static void put_head(const cr_c_job *j, cr_text *out, const char *name)
{
    int64_t at = 0;

    put_work_bytes(j, out, name);
    if (has_states(j))
        put_start(j, out, name);
    cr_text_printf(out, "%sint %s_run(", j->how->object ? "static " : "", name);
    put_parameters(j, out, false);
    cr_text_put(out, ")\n{\n    unsigned char *w = ");
    if (j->how->object)
        cr_text_put(out, "work;\n");
    else
        cr_text_printf(
            out, "(unsigned char *)work + (%d - (uintptr_t)work %% %d) %% %d; /* aligned */\n",
            CR_C_ALIGNMENT, CR_C_ALIGNMENT, CR_C_ALIGNMENT);
    cr_text_printf(out, "    void *scratch = w + %lld;\n", (long long)j->memory.bytes);
    for (int k = 0; k < j->inputs; k++) {
        const cr_c_input *in = &j->input[k];
        if (!in->from_file)
            continue;
        if (!in->state)
            cr_text_printf(
                out, "    const unsigned char *%s = (const unsigned char *)weights + %lld;\n",
                in->name, (long long)at);
        at += cr_c_weight_span(in);
    }
    if (j->how->threads)
        put_team(j, out);
    cr_text_put(out, "\n    (void)scratch;\n    (void)w;\n");
    cr_text_put(out, j->how->object ? "    (void)varying;\n    (void)weights;\n" : "");
    for (int k = 0; k < j->inputs; k++)
        cr_text_printf(out, "    (void)%s;\n", j->input[k].name);
    for (int k = 0; k < j->inputs; k++)
        if (j->memory.widened[k])
            cr_text_printf(out,
                           "    cv_widen(%lld, (float *)(void *)(w + %lld), (const uint16_t "
                           "*)(const void *)%s);\n",
                           (long long)cr_c_weight_count(&j->input[k]),
                           (long long)(j->memory.widened[k] - 1), j->input[k].name);
}

/* Results are copied to arguments in row-major order. */
static void put_output(cr_c_job *j, int i, const cr_array *a)
{
    int64_t step[64], next = (int64_t)cr_dtype_size((cr_dtype)a->dtype);

    for (int d = a->ndim - 1; d >= 0; d--) {
        step[d] = next;
        next *= a->size[d];
    }
    cr_text_put(&j->body, "    {\n");
    cr_c_integers(&j->body, "size", a->size, a->ndim, 1);
    cr_c_integers(&j->body, "ts", step, a->ndim, 1);
    put_steps(j, "fs", a, a);
    put_move_call(j, a->dtype, a->dtype, a->ndim);
    cr_text_printf(&j->body, "(unsigned char *)out%d, ts, ", i);
    cr_c_address(j, a->data, false);
    cr_text_put(&j->body, ", fs);\n    }\n");
}

static void put_threads(cr_text *out, const char *name)
{
    cr_text_printf(
        out,
        "/* Threads of the caller.  run() calls part(argument, k) for each k below `parts`, in "
        "any "
        "threads, and returns\n * when all are done; `parts` is at most the member of that "
        "name. "
        " Results do not depend on it.\n * NULL: the calling thread computes all. */\n"
        "typedef struct %s_threads {\n    void *context;\n    int parts;\n"
        "    void (*run)(void *context, void (*part)(void *argument, int k), void *argument, "
        "int "
        "parts);\n} %s_threads;\n\n"
        "/* Of memory that up to `parts` parts use; with threads. */\n",
        name, name);
}

static void put_prototypes(const cr_c_job *j, cr_text *out, const char *name)
{
    if (j->how->threads)
        put_threads(out, name);
    cr_text_printf(out, "size_t %s_work_bytes(%s);\n", name,
                   j->how->threads ? "int parts" : "void");
    if (has_states(j)) {
        cr_text_printf(out, "/* Fills states with their first values. */\nvoid %s_start(",
                       name);
        put_parameters(j, out, true);
        cr_text_put(out, ");\n");
    }
    cr_text_printf(out, "int %s_run(", name);
    put_parameters(j, out, false);
    cr_text_put(out, ");\n\n");
    if (j->how->threads)
        cr_text_printf(out, "typedef %s_threads cv_threads;\n\n", name);
}

static const char includes_text[] =
    "#include <math.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <string.h>\n\n"
    "#if defined(__FAST_MATH__) && !defined(MODEL_ANY_BITS)\n"
    "#error \"-ffast-math changes results; define MODEL_ANY_BITS to allow that\"\n#endif\n"
    "#if defined(MODEL_ANY_BITS) || defined(MODEL_FUSED) /* products by multiply-adds */\n"
    "#define CV_CONTRACTS\n#endif\n"
    "#if defined(__clang__) /* -std=c99 does the same for gcc */\n"
    "#pragma STDC FP_CONTRACT OFF\n"
    "#elif defined(__GNUC__) /* so that gcc makes vectors; changes no result */\n"
    "#pragma GCC optimize(\"no-trapping-math\", \"no-math-errno\")\n#endif\n\n";

static void put_title(const cr_c_job *j, cr_text *out, const char *name)
{
    if (j->how->object) {
        cr_text_put(out, "/* A compiled model; made by cresset. */\n");
        return;
    }
    cr_text_printf(
        out,
        "/* Made by cresset.export.to_c.  C99; compile with -O2 -ffp-contract=off and link "
        "with -lm.\n * -fno-math-errno changes no result, and gcc then makes vectors of square "
        "roots.\n"
        " * With -DMODEL_FUSED products consist of fused multiply-adds, which round once; with "
        "-DMODEL_ANY_BITS they do\n * where the processor has these.\n"
        " *\n * %s_run computes the results in memory of its caller: %s_work_bytes() bytes, "
        "aligned to 16.\n"
        " * It keeps nothing between calls but in states and in inputs that it writes, so "
        "calls "
        "may run at the same\n"
        " * time if these, the results and the work memory of each are its own.  It returns 0, "
        "or 1 where an index of\n * an element is out of range.\n */\n",
        name, name);
}

void cr_c_print_file(cr_c_job *j, cr_text *out)
{
    const char *name = j->how->name;

    put_title(j, out, name);
    cr_text_put(out, includes_text);
    cr_text_put(out, j->how->object ? cr_c_object_types : "");
    if (!j->how->object)
        put_prototypes(j, out, name);
    put_head(j, &j->head, name);
    put_weights(j, out);
    cr_c_print_words(out, &j->words);
    put_helpers(j, out);
    cr_text_put(out, cr_text_str(&j->kernels));
    cr_text_put(out, cr_text_str(&j->head));
    cr_text_put(out, cr_text_str(&j->body));
    cr_text_put(out, "    return 0;\n}\n");
}

typedef struct {
    cr_c_job *j;
    cr_text *out;
} file_job;

void cr_c_print_commands(cr_c_job *j)
{
    if (j->p->of_values)
        refuse(j, "commands that depend on elements");
    if (!j->memory.uses)
        cr_c_count_uses(j);
    j->memory.widened = CR_NEW_N(j->s, int64_t, (size_t)j->inputs + 1);
    memset(j->memory.widened, 0, ((size_t)j->inputs + 1) * sizeof *j->memory.widened);
    for (int k = 0; k < j->inputs; k++)
        j->memory.half = j->input[k].half ? j->input[k].half : j->memory.half;
    cr_c_pack_weights(j);
    for (size_t i = 0; i < j->group.len; i++)
        if (j->group.at[i].n > 1)
            cr_c_chain(j, &j->group.at[i]);
        else
            put_command(j, j->p->command.at[j->order.at[j->group.at[i].at]]);
    for (size_t i = 0; i < j->p->output.len; i++)
        put_output(j, (int)i, &j->p->output.at[i]);
}

void cr_c_job_drop(cr_c_job *j)
{
    cr_text_drop(&j->kernels);
    cr_text_drop(&j->body);
    cr_text_drop(&j->head);
}

static void make_file(cr_session *s, void *context)
{
    file_job *f = context;

    (void)s;
    place_buffers(f->j);
    cr_c_print_commands(f->j);
    cr_c_print_file(f->j, f->out);
}

cr_status cr_c_file(cr_session *s, cr_text *out, const cr_plan *p, const cr_c_how *how,
                    cr_c_input *input, int inputs)
{
    cr_c_job j = {.s = s, .p = p, .how = how, .input = input, .inputs = inputs};
    file_job f = {&j, out};
    cr_status st = cr_session_run(s, make_file, &f);

    cr_c_job_drop(&j);
    return st;
}
