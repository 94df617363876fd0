/* Reading the text of plans.
 *
 * After the first error the reader reads nothing: each function then returns at once, and what
 * it has made so far is dropped with the plan. */
#include "plan/plan.h"
#include "space/space.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *at, *text;
    cr_plan *plan;
    CR_VEC(const cr_plan_kernel *) kernel;
    cr_status failed;
} reader;

static void fail(reader *r, const char *wanted)
{
    int line = 1;

    if (r->failed)
        return;
    for (const char *p = r->text; p < r->at; p++)
        line += *p == '\n';
    r->failed = cr_fail(CR_VALUE, "line %d of the plan: %s is expected at '%.*s'", line, wanted,
                        (int)strcspn(r->at, "\n"), r->at);
    r->at = "";
}

static void *room(reader *r, size_t n)
{
    void *p = cr_arena_get(&r->plan->arena, n + 1);

    if (!p && !r->failed)
        r->failed = CR_MEMORY;
    if (!p)
        r->at = "";
    return p;
}

/* --- words --- */

static void skip_space(reader *r)
{
    while (isspace((unsigned char)*r->at))
        r->at++;
}

/* Reads the word or the sign if it is next. */
static bool next_is(reader *r, const char *word)
{
    size_t n = strlen(word);

    skip_space(r);
    if (strncmp(r->at, word, n) || (isalnum((unsigned char)*word) &&
                                    (isalnum((unsigned char)r->at[n]) || r->at[n] == '_')))
        return false;
    r->at += n;
    return true;
}

static void need(reader *r, const char *word)
{
    if (!next_is(r, word))
        fail(r, word);
}

static bool is_name(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '.' || c == ':';
}

static const char *read_name(reader *r)
{
    size_t n = 0;

    skip_space(r);
    while (is_name(r->at[n]))
        n++;
    if (!n)
        fail(r, "a name");
    const char *name = cr_arena_text(&r->plan->arena, r->at, n);
    r->at += n;
    if (!name && !r->failed)
        r->failed = CR_MEMORY;
    return name ? name : "";
}

static int64_t read_int(reader *r)
{
    char *end;

    skip_space(r);
    int64_t v = strtoll(r->at, &end, 10);
    if (end == r->at)
        fail(r, "an integer");
    else
        r->at = end;
    return v;
}

static double read_float(reader *r)
{
    char *end;

    skip_space(r);
    double v = strtod(r->at, &end);
    if (end == r->at)
        fail(r, "a number");
    else
        r->at = end;
    return v;
}

/* The number of items up to the closing sign. */
static size_t count_items(const reader *r)
{
    size_t n = 1;
    const char *p = r->at;

    while (isspace((unsigned char)*p))
        p++;
    if (*p == ']')
        return 0;
    for (; *p && *p != ']'; p++)
        n += *p == ',';
    return n;
}

typedef union {
    int64_t i;
    double d;
} item;

static void *read_items(reader *r, bool floats, int64_t *count)
{
    need(r, "[");
    size_t n = count_items(r);
    item *v = room(r, n * sizeof *v);

    for (size_t i = 0; i < n && !r->failed; i++) {
        if (i)
            need(r, ",");
        if (floats)
            v[i].d = read_float(r);
        else
            v[i].i = read_int(r);
    }
    need(r, "]");
    *count = (int64_t)n;
    return v;
}

/* Numbers of which there must be n. */
static void *read_exactly(reader *r, bool floats, int64_t n)
{
    int64_t count;
    void *v = read_items(r, floats, &count);

    if (count != n)
        fail(r, "a list of another length");
    return v;
}

static int hex(char c) { return isdigit((unsigned char)c) ? c - '0' : tolower(c) - 'a' + 10; }

static int read_byte(const char *at) { return hex(at[0]) * 16 + hex(at[1]); }

/* Bytes in a room of at least `least`. */
static char *read_bytes(reader *r, size_t *count, size_t least)
{
    size_t n = 0;

    need(r, "#");
    while (isxdigit((unsigned char)r->at[2 * n]) && isxdigit((unsigned char)r->at[2 * n + 1]))
        n++;
    char *v = room(r, n > least ? n : least);
    for (size_t i = 0; i < n && v; i++)
        v[i] = (char)read_byte(r->at + 2 * i);
    r->at += r->failed ? 0 : 2 * n;
    *count = n;
    return v;
}

static void read_element(reader *r, char element[static 16])
{
    size_t n;
    char *v = read_bytes(r, &n, 16);

    if (n > 16)
        fail(r, "an element of at most 16 bytes");
    if (!r->failed)
        memcpy(element, v, 16);
}

static char *read_string(reader *r, size_t *count)
{
    size_t n = 0;

    need(r, "\"");
    char *v = room(r, strcspn(r->at, "\""));
    while (*r->at && *r->at != '"' && !r->failed) {
        bool escaped = *r->at == '\\' && isxdigit((unsigned char)r->at[1]) &&
                       isxdigit((unsigned char)r->at[2]);
        v[n++] = escaped ? (char)read_byte(r->at + 1) : *r->at;
        r->at += escaped ? 3 : 1;
    }
    need(r, "\"");
    *count = n;
    return v;
}

static int read_dtype(reader *r)
{
    const char *name = read_name(r);

    for (int t = 0; t < CR_DTYPE_COUNT; t++)
        if (!strcmp(cr_dtype_name((cr_dtype)t), name))
            return t;
    fail(r, "a dtype");
    return 0;
}

static char *read_address(reader *r)
{
    if (next_is(r, "none"))
        return NULL;
    need(r, "%");
    int64_t buffer = read_int(r), offset = 0;
    if (*r->at == '+' || *r->at == '-')
        offset = read_int(r);
    if (buffer < 0 || (size_t)buffer >= r->plan->buffer.len)
        fail(r, "a buffer of the plan");
    if (offset >> 39 && offset >> 39 != -1)
        fail(r, "a distance in a buffer");
    if (r->failed)
        return NULL;
    return cr_plan_address((size_t)buffer, offset);
}

static void check_dims(reader *r, int64_t ndim)
{
    if (ndim > CR_MAX_DIMS)
        fail(r, "fewer dims");
}

static cr_array read_array(reader *r)
{
    cr_array a = {.data = read_address(r)};
    int64_t n, *stride;

    need(r, ":");
    a.dtype = read_dtype(r);
    a.size = read_items(r, false, &n);
    check_dims(r, n);
    a.ndim = (int)n;
    if (next_is(r, "by")) {
        a.stride = read_exactly(r, false, n);
        return a;
    }
    a.stride = stride = room(r, (size_t)n * sizeof *stride);
    if (!r->failed)
        cr_dense_strides(stride, a.ndim, a.size);
    return a;
}

/* --- kernels --- */

static void read_kernel(reader *r)
{
    cr_plan_kernel *k = room(r, sizeof *k);
    cr_text program = {0};

    if ((size_t)read_int(r) != r->kernel.len)
        fail(r, "the next number of a kernel");
    if (!r->failed)
        r->failed = cr_vec_reserve(&r->kernel, 1);
    if (r->failed)
        return;
    k->name = read_name(r);
    need(r, "{");
    r->at += strcspn(r->at, "\n") + (*r->at != 0);
    while (*r->at && strncmp(r->at, "  }", 3)) {
        size_t skip = strspn(r->at, " "), n = strcspn(r->at, "\n");
        cr_text_put_n(&program, r->at + skip, n - skip);
        cr_text_put(&program, "\n");
        r->at += n + (r->at[n] == '\n');
    }
    need(r, "}");
    k->program = cr_arena_text(&r->plan->arena, cr_text_str(&program), program.len);
    if (!r->failed && (cr_text_status(&program) || !k->program))
        r->failed = CR_MEMORY;
    cr_text_drop(&program);
    cr_vec_put(&r->kernel, k);
}

enum { OPERANDS = 64, PARAM_BYTES = 1024 };

static void read_operand(reader *r, cr_launch *l, void **pointer, int64_t *outer,
                         int64_t *stride)
{
    int64_t n = 0;
    int k = l->operands++;

    skip_space(r);
    if (*r->at == '#') {
        size_t count;
        pointer[k] = read_bytes(r, &count, 16);
        l->numbers |= (uint64_t)1 << k;
    } else {
        pointer[k] = read_address(r);
    }
    need(r, "by");
    int64_t *steps = read_items(r, false, &n);
    if (n != l->outer + 2)
        fail(r, "a step for each dim");
    if (r->failed)
        return;
    memcpy(outer + k * l->outer, steps, (size_t)l->outer * sizeof *outer);
    memcpy(stride + 2 * k, steps + l->outer, 2 * sizeof *stride);
}

static void read_operands(reader *r, cr_launch *l)
{
    void **pointer = room(r, OPERANDS * sizeof *pointer);
    int64_t *outer = room(r, OPERANDS * (size_t)(l->outer + 1) * sizeof *outer);
    int64_t *stride = room(r, (size_t)(2 * OPERANDS) * sizeof *stride);

    need(r, "(");
    while (!r->failed && l->operands < OPERANDS) {
        read_operand(r, l, pointer, outer, stride);
        if (!next_is(r, ","))
            break;
    }
    need(r, ")");
    l->pointer = pointer;
    l->outer_stride = outer;
    l->stride = stride;
}

static void read_launch(reader *r, cr_launch *l)
{
    int64_t number = read_int(r), n, *size;
    size_t count = 0;

    if (number < 0 || (size_t)number >= r->kernel.len)
        fail(r, "a kernel of the plan");
    if (r->failed)
        return;
    l->code = (void *)(uintptr_t)r->kernel.at[number];
    read_name(r);
    need(r, "over");
    size = read_items(r, false, &n);
    check_dims(r, n);
    if (n < 2)
        fail(r, "rows and columns");
    if (r->failed)
        return;
    l->outer = (int)n - 2;
    l->outer_size = size;
    l->size[0] = size[n - 2];
    l->size[1] = size[n - 1];
    l->size[2] = next_is(r, "first") ? read_int(r) : 0;
    read_operands(r, l);
    l->param = next_is(r, "param") ? read_bytes(r, &count, PARAM_BYTES) : room(r, PARAM_BYTES);
    l->param_bytes = count > PARAM_BYTES ? count : PARAM_BYTES;
}

/* --- other commands --- */

static int read_combine(reader *r)
{
    for (int i = 0; i < CR_COMBINE_COUNT; i++)
        if (next_is(r, cr_combine_names[i]))
            return i;
    fail(r, "an operation");
    return 0;
}

static void read_index(reader *r, cr_indexed *c)
{
    c->is32 = next_is(r, "int32");
    if (!c->is32)
        need(r, "int64");
    c->index = read_address(r);
    need(r, "by");
    c->index_stride = read_exactly(r, false, c->ndim);
    need(r, "unit");
    c->unit = read_int(r);
    need(r, "below");
    c->extent = read_int(r);
    c->wraps = next_is(r, "wraps");
    if (next_is(r, "numbered")) {
        cr_array *a = room(r, sizeof *a), of = read_array(r);
        if (a)
            *a = of;
        c->numbered = a;
    }
    if (next_is(r, "picked"))
        c->picked = (uint64_t)read_int(r);
    if (next_is(r, "error")) {
        size_t n;
        c->outside_kind = (int)read_int(r);
        c->outside = read_string(r, &n);
    }
}

static void read_indexed(reader *r, cr_indexed *c)
{
    int64_t n;

    c->how = (cr_combine)read_combine(r);
    c->dtype = read_dtype(r);
    c->size = read_items(r, false, &n);
    check_dims(r, n);
    c->ndim = (int)n;
    need(r, "table");
    c->table = read_address(r);
    need(r, "by");
    c->table_stride = read_exactly(r, false, n);
    if (next_is(r, "dense")) {
        c->dense = read_address(r);
        need(r, "by");
        c->dense_stride = read_exactly(r, false, n);
    } else {
        need(r, "number");
        read_element(r, c->item);
    }
    if (next_is(r, "at"))
        read_index(r, c);
}

static void read_axis(reader *r, cr_window_axis *a)
{
    need(r, "dim");
    a->size = read_int(r);
    need(r, "of");
    a->in = read_int(r);
    if (a->size < 0 || a->size == INT64_MAX)
        fail(r, "a size of a dim");
    if (r->failed)
        return;
    need(r, "start");
    a->start = read_exactly(r, false, a->size + 1);
    if (r->failed)
        return;
    need(r, "ranges");
    int64_t words;
    if (CR_MUL_OVERFLOW(a->start[a->size], 3, &words))
        fail(r, "a number of ranges");
    if (r->failed)
        return;
    a->range = read_exactly(r, false, words);
    if (next_is(r, "count"))
        a->count = read_exactly(r, true, a->size);
    if (next_is(r, "share"))
        a->share = read_exactly(r, true, a->in);
}

static void read_windows(reader *r, cr_windows *c)
{
    c->extreme = next_is(r, "max");
    if (!c->extreme)
        need(r, "sum");
    c->result = read_array(r);
    need(r, "which");
    c->which = read_array(r);
    need(r, "from");
    c->from = read_array(r);
    need(r, "planes");
    c->planes = read_int(r);
    need(r, "of");
    const int64_t *plane = read_exactly(r, false, 2);
    if (r->failed)
        return;
    c->in = plane[0];
    c->out = plane[1];
    need(r, "divisor");
    c->divisor = read_int(r);
    c->divides = next_is(r, "divides");
    c->shares = next_is(r, "shares");
    for (int i = 0; i < 3 && !r->failed; i++)
        read_axis(r, &c->dim[i]);
}

static bool is_float_ahead(const reader *r, const char *ends)
{
    size_t n = strcspn(r->at, ends);

    for (size_t i = 0; i < n; i++)
        if (strchr(".en", r->at[i]))
            return true;
    return false;
}

static cr_given read_given(reader *r, bool inside);

/* A list `inside` of another one has no lists. */
static cr_given read_list(reader *r, bool inside)
{
    enum { MOST = 256 };
    cr_given *list = room(r, MOST * sizeof *list);
    cr_given g = {.kind = CR_GIVEN_LIST, .list = list};

    while (!r->failed && g.count < MOST && !next_is(r, ")")) {
        if (g.count)
            need(r, ",");
        list[g.count++] = read_given(r, inside);
    }
    return g;
}

static cr_given read_given_numbers(reader *r)
{
    cr_given g = {.kind = CR_GIVEN_INTS};
    int64_t n;

    if (is_float_ahead(r, "]")) {
        g.kind = CR_GIVEN_FLOATS;
        g.floats = read_items(r, true, &n);
    } else {
        g.ints = read_items(r, false, &n);
    }
    g.count = (size_t)n;
    return g;
}

static cr_given read_given(reader *r, bool inside)
{
    cr_given g = {.kind = CR_GIVEN_NONE};

    skip_space(r);
    if (next_is(r, "None"))
        return g;
    if (inside && *r->at == '(')
        fail(r, "an item that is no list");
    if (next_is(r, "("))
        return read_list(r, true);
    if (*r->at == '[')
        return read_given_numbers(r);
    if (*r->at == '"') {
        g.kind = CR_GIVEN_TEXT;
        g.text = read_string(r, &g.count);
    } else if (*r->at == '%' || !strncmp(r->at, "none:", 5)) {
        g.kind = CR_GIVEN_ARRAY;
        g.array = read_array(r);
    } else if (is_float_ahead(r, ",) \n")) {
        g.kind = CR_GIVEN_FLOAT;
        g.d = read_float(r);
    } else {
        g.kind = CR_GIVEN_INT;
        g.i = read_int(r);
    }
    return g;
}

enum { LIBRARY_ARRAYS = 32 };

static void read_library(reader *r, cr_library *c)
{
    cr_array *result = room(r, LIBRARY_ARRAYS * sizeof *result);

    c->entry = read_name(r);
    need(r, "(");
    cr_given all = read_list(r, false);
    c->arg = all.list;
    c->args = (int)all.count;
    need(r, "->");
    need(r, "(");
    while (!r->failed && c->results < LIBRARY_ARRAYS && !next_is(r, ")")) {
        if (c->results)
            need(r, ",");
        result[c->results++] = read_array(r);
    }
    c->result = result;
}

static void read_copy(reader *r, cr_plan_copy *c)
{
    bool host = next_is(r, "host");

    c->to = host ? NULL : read_address(r);
    need(r, "=");
    skip_space(r);
    if (*r->at == '#' && !host) {
        c->bytes = read_bytes(r, &c->n, 1);
        return;
    }
    c->from = read_address(r);
    int64_t n = read_int(r);
    if (n < 0)
        fail(r, "a number of bytes");
    c->n = (size_t)n;
}

static void read_operands_of(reader *r, cr_command *c)
{
    switch (c->kind) {
    case CR_COMMAND_KERNEL: read_launch(r, &c->kernel); break;
    case CR_COMMAND_MOVE:
        c->move.to = read_array(r);
        need(r, "=");
        c->move.from = read_array(r);
        break;
    case CR_COMMAND_FILL:
        c->fill.to = read_array(r);
        need(r, "=");
        read_element(r, c->fill.element);
        break;
    case CR_COMMAND_INDEXED:
    case CR_COMMAND_COMBINE: read_indexed(r, &c->indexed); break;
    case CR_COMMAND_WINDOWS: read_windows(r, &c->windows); break;
    case CR_COMMAND_LIBRARY: read_library(r, &c->library); break;
    case CR_COMMAND_COPY: read_copy(r, &c->copy); break;
    case CR_COMMAND_WAIT:
    case CR_COMMAND_KINDS: break;
    }
}

/* --- lines --- */

static void read_buffer(reader *r)
{
    size_t number;

    if ((size_t)read_int(r) != r->plan->buffer.len)
        fail(r, "the next number of a buffer");
    need(r, "=");
    bool input = next_is(r, "input");
    if (!input)
        need(r, "buffer");
    int64_t bytes = read_int(r);
    if (bytes < 0 || bytes >> 39)
        fail(r, "a size in bytes");
    if (!r->failed)
        r->failed = cr_plan_add_buffer(&number, r->plan, (size_t)bytes, input);
}

static void read_return(reader *r)
{
    do {
        cr_array a = read_array(r);
        if (!r->failed)
            r->failed = cr_plan_add_output(r->plan, &a);
    } while (!r->failed && next_is(r, ","));
}

static void read_command(reader *r)
{
    cr_command c;

    memset(&c, 0, sizeof c);
    while (c.kind < CR_COMMAND_KINDS && !next_is(r, cr_command_names[c.kind]))
        c.kind++;
    if (c.kind == CR_COMMAND_KINDS)
        fail(r, "a command");
    read_operands_of(r, &c);
    if (!r->failed)
        r->failed = cr_plan_add(r->plan, &c);
}

static void read_line(reader *r)
{
    if (next_is(r, "%"))
        read_buffer(r);
    else if (next_is(r, "kernel"))
        read_kernel(r);
    else if (next_is(r, "return"))
        read_return(r);
    else
        read_command(r);
}

cr_status cr_plan_parse(cr_plan *out, const char *text)
{
    reader r = {.at = text, .text = text, .plan = out};

    need(&r, "plan");
    out->of_values = next_is(&r, "of") && next_is(&r, "values");
    need(&r, "{");
    while (!r.failed && !next_is(&r, "}"))
        read_line(&r);
    cr_vec_drop(&r.kernel);
    return r.failed;
}
