/* Members of commands, stated once for printing, reading and copying.
 *
 * Each kind of command has a function that visits its members in the order of the text.  The
 * functions for members print a member, read it, or copy the memory that it points to.  They
 * return the member's value, which only reading and copying change.
 *
 * After the first error while reading, each function returns at once, and the memory of the
 * members read so far is freed with the plan.  A copy is one block.  It is filled twice: the
 * first pass, with `block` NULL, only measures it. */
#include "plan/plan.h"
#include "space/space.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPERANDS = 64, PARAM_BYTES = 1024, MOST_ITEMS = 256 };

/* One pass over the members of a plan: it prints, reads or copies them.
 * Invariant: `way` decides which members are set. After a failure in `failed`, the pass
 * visits no further members. */
typedef struct {
    enum { PRINTS, READS, KEEPS } way;
    cr_text *out;
    const char *at, *text;                 /* READS: next character, all */
    CR_VEC(const cr_plan_kernel *) kernel; /* by number: those that were printed or read */
    cr_plan *plan;                         /* READS: the plan that is made */
    cr_status failed;
    char *block;
    size_t used;
    const cr_keeping *how;
    cr_address_visit visit; /* KEEPS: nothing is copied; or NULL */
    void *context;          /* of `visit` */
} pass;

/* --- reading --- */

/* Moves *text past leading blanks.  Returns its length without trailing blanks. */
static int pass_trim(const char **text)
{
    *text += strspn(*text, " ");
    int n = (int)strlen(*text);
    while (n && (*text)[n - 1] == ' ')
        n--;
    return n;
}

static void pass_fail(pass *p, const char *wanted)
{
    int line = 1, n = pass_trim(&wanted);

    if (p->failed)
        return;
    for (const char *c = p->text; c < p->at; c++)
        line += *c == '\n';
    p->failed = cr_fail(CR_VALUE, "line %d of the plan: %.*s is expected at '%.*s'", line, n,
                        wanted, (int)strcspn(p->at, "\n"), p->at);
    p->at = "";
}

/* Zeroed memory in the arena of the plan that is read. */
static void *pass_room(pass *p, size_t n)
{
    void *made = cr_arena_get(&p->plan->arena, n + 1);

    if (made)
        return made;
    p->failed = p->failed ? p->failed : CR_MEMORY;
    p->at = "";
    return NULL;
}

static char pass_next(pass *p)
{
    while (isspace((unsigned char)*p->at))
        p->at++;
    return *p->at;
}

/* True if the word or the sign is next; the reader then moves past it. */
static bool pass_meets(pass *p, const char *word)
{
    size_t n = (size_t)pass_trim(&word);

    pass_next(p);
    if (strncmp(p->at, word, n) || (isalnum((unsigned char)*word) &&
                                    (isalnum((unsigned char)p->at[n]) || p->at[n] == '_')))
        return false;
    p->at += n;
    return true;
}

/* Moves to the end of a number, as strtoll() or strtod() found it. */
static void pass_behind(pass *p, const char *end, const char *wanted)
{
    if (end == p->at)
        pass_fail(p, wanted);
    else
        p->at = end;
}

static bool pass_is_byte(const char *at)
{
    return isxdigit((unsigned char)at[0]) && isxdigit((unsigned char)at[1]);
}

static char pass_byte(const char *at)
{
    return (char)strtol((char[]){at[0], at[1], '\0'}, NULL, 16);
}

/* --- keeping --- */

/* A copy of n bytes; NULL for NULL. */
static void *pass_keep(pass *p, const void *from, size_t n)
{
    char *to = p->block ? p->block + p->used : NULL;

    if (!from)
        return NULL;
    if (to)
        memcpy(to, from, n);
    p->used += (n + 15) / 16 * 16;
    return to;
}

/* One struct that a member points to. */
static void *pass_alone(pass *p, const void *from, size_t n)
{
    if (p->way != READS)
        return pass_keep(p, from, n);
    void *made = pass_room(p, n);
    return made ? memcpy(made, from, n) : NULL;
}

/* Room for a list of structs: for `most` that are read, or for a copy of n. */
static void *pass_structs(pass *p, const void *from, size_t n, size_t most, size_t item)
{
    return p->way == READS ? pass_room(p, most * item) : pass_keep(p, from, n * item);
}

/* --- words and numbers --- */

/* A text that is present if `set`; blanks around it are printed. */
static bool pass_flag(pass *p, const char *text, bool set)
{
    if (p->way == READS)
        return pass_meets(p, text);
    if (p->way == PRINTS && set)
        cr_text_put(p->out, text);
    return set;
}

static void pass_sign(pass *p, const char *text)
{
    if (!pass_flag(p, text, true))
        pass_fail(p, text);
}

static int64_t pass_integer(pass *p, int64_t v)
{
    char *end;

    if (p->way == PRINTS)
        cr_text_printf(p->out, "%lld", (long long)v);
    if (p->way != READS)
        return v;
    pass_next(p);
    v = strtoll(p->at, &end, 10);
    pass_behind(p, end, "an integer");
    return v;
}

/* An integer that follows a text. */
static int64_t pass_count(pass *p, const char *text, int64_t v)
{
    pass_sign(p, text);
    return pass_integer(p, v);
}

/* A float has a point, an exponent, or letters. */
static double pass_float(pass *p, double d)
{
    char text[40], *end;

    if (p->way == READS) {
        pass_next(p);
        d = strtod(p->at, &end);
        pass_behind(p, end, "a number");
    } else if (p->way == PRINTS) {
        snprintf(text, sizeof text, "%.17g", d);
        cr_text_printf(p->out, "%s%s", text, strpbrk(text, ".en") ? "" : ".0");
    }
    return d;
}

static const char *pass_name(pass *p, const char *name)
{
    size_t n = 0;

    if (p->way == PRINTS)
        cr_text_put(p->out, name);
    if (p->way != READS)
        return pass_keep(p, name, name ? strlen(name) + 1 : 0);
    pass_next(p);
    while (isalnum((unsigned char)p->at[n]) || (p->at[n] && strchr("_.:", p->at[n])))
        n++;
    if (!n)
        pass_fail(p, "a name");
    char *made = pass_room(p, n);
    if (!p->failed)
        memcpy(made, p->at, n);
    p->at += p->failed ? 0 : n;
    return p->failed ? "" : made;
}

/* The index of a name in a list. */
static int pass_choice(pass *p, const char *const *names, int count, int v, const char *wanted)
{
    if (p->way == PRINTS)
        cr_text_put(p->out, names[v]);
    if (p->way != READS)
        return v;
    for (int i = 0; i < count; i++)
        if (pass_meets(p, names[i]))
            return i;
    pass_fail(p, wanted);
    return 0;
}

static int pass_dtype(pass *p, int dtype)
{
    const char *names[CR_DTYPE_COUNT];

    for (int t = 0; t < CR_DTYPE_COUNT && p->way != KEEPS; t++)
        names[t] = cr_dtype_name((cr_dtype)t);
    return pass_choice(p, names, CR_DTYPE_COUNT, dtype, "a dtype");
}

/* --- bytes --- */

/* The number of bytes without those at the end that are zero. */
static size_t bytes_in_use(const char *bytes, size_t n)
{
    while (n && !bytes[n - 1])
        n--;
    return n;
}

/* Bytes; those that are read get memory for `least` bytes or more. */
static const void *pass_bytes(pass *p, const void *bytes, size_t *count, size_t least)
{
    const unsigned char *from = bytes;
    size_t n = 0;

    if (p->way == KEEPS)
        return pass_keep(p, bytes, *count);
    pass_sign(p, "#");
    for (; p->way == PRINTS && n < *count; n++)
        cr_text_printf(p->out, "%02x", from[n]);
    if (p->way == PRINTS)
        return bytes;
    while (pass_is_byte(p->at + 2 * n))
        n++;
    char *made = pass_room(p, n > least ? n : least);
    for (size_t i = 0; i < n && made; i++)
        made[i] = pass_byte(p->at + 2 * i);
    p->at += p->failed ? 0 : 2 * n;
    *count = n;
    return made;
}

/* An element or a number of at most 16 bytes, without zeros at the end. */
static const void *pass_element(pass *p, const void *element)
{
    size_t n = p->way == PRINTS ? bytes_in_use(element, 16) : 16;

    element = pass_bytes(p, element, &n, 16);
    if (n > 16)
        pass_fail(p, "an element of at most 16 bytes");
    return element;
}

/* The same for an array inside of the struct, which a copy of the struct contains. */
static void pass_own_element(pass *p, char element[static 16])
{
    const void *made = p->way == KEEPS ? NULL : pass_element(p, element);

    if (p->way == READS && !p->failed)
        memcpy(element, made, 16);
}

static void print_string(cr_text *t, const char *s, size_t n)
{
    cr_text_put(t, "\"");
    for (size_t i = 0; i < n; i++)
        if (s[i] == '"' || s[i] == '\\' || (unsigned char)s[i] < ' ')
            cr_text_printf(t, "\\%02x", (unsigned char)s[i]);
        else
            cr_text_char(t, s[i]);
    cr_text_put(t, "\"");
}

static const char *read_string(pass *p, size_t *count)
{
    size_t n = 0;

    pass_sign(p, "\"");
    char *made = pass_room(p, strcspn(p->at, "\""));
    while (*p->at && *p->at != '"' && !p->failed) {
        bool escaped = *p->at == '\\' && pass_is_byte(p->at + 1);
        made[n++] = escaped ? pass_byte(p->at + 1) : *p->at;
        p->at += escaped ? 3 : 1;
    }
    pass_sign(p, "\"");
    *count = n;
    return made;
}

/* A string; NUL-terminated when it is read, and in a copy if `ends` is 1. */
static const char *pass_string(pass *p, const char *s, size_t *count, size_t ends)
{
    if (p->way == READS)
        return read_string(p, count);
    if (p->way == KEEPS)
        return pass_keep(p, s, *count + ends);
    print_string(p->out, s, *count);
    return s;
}

/* --- lists --- */

/* True if the list has an item i: there are n items; when read, the items before the sign
 * `end`, at most `most`. */
static bool pass_item(pass *p, size_t i, size_t n, size_t most, const char *end)
{
    if (p->way != READS) {
        pass_flag(p, i < n ? ", " : end, i || i == n);
        return i < n;
    }
    if (p->failed || pass_meets(p, end))
        return false;
    if (i)
        pass_sign(p, ",");
    if (i == most)
        pass_fail(p, end);
    return !p->failed;
}

typedef union {
    int64_t i;
    double d;
} list_item;

static const void *pass_list(pass *p, const void *list, int64_t *count, bool floats)
{
    const list_item *from = list;
    list_item one = {0}, *made = NULL;
    size_t n = (size_t)*count, most = 1, i;

    if (p->way == KEEPS)
        return pass_keep(p, list, n * sizeof one);
    pass_sign(p, "[");
    for (i = 0; p->way == READS && p->at[i] && p->at[i] != ']'; i++)
        most += p->at[i] == ',';
    if (p->way == READS)
        made = pass_room(p, most * sizeof *made);
    for (i = 0; pass_item(p, i, n, most, "]"); i++) {
        one = made ? one : from[i];
        if (floats)
            one.d = pass_float(p, one.d);
        else
            one.i = pass_integer(p, one.i);
        if (made)
            made[i] = one;
    }
    *count = (int64_t)i;
    return p->way == PRINTS ? list : made;
}

/* A list of exactly n numbers. */
static const void *pass_numbers(pass *p, const void *list, int64_t n, bool floats)
{
    int64_t count = n;
    const void *made = pass_list(p, list, &count, floats);

    if (count != n)
        pass_fail(p, "a list of another length");
    return made;
}

static const int64_t *pass_sizes(pass *p, const int64_t *size, int *ndim)
{
    int64_t n = *ndim;

    size = pass_list(p, size, &n, false);
    if (n > CR_MAX_DIMS)
        pass_fail(p, "fewer dims");
    *ndim = (int)n;
    return size;
}

/* --- addresses and arrays --- */

static char *read_address(pass *p)
{
    pass_sign(p, "%");
    int64_t buffer = pass_integer(p, 0), offset = 0;
    if (*p->at == '+' || *p->at == '-')
        offset = pass_integer(p, 0);
    if (buffer < 0 || (size_t)buffer >= p->plan->buffer.len)
        pass_fail(p, "a buffer of the plan");
    if (offset >> 39 && offset >> 39 != -1)
        pass_fail(p, "a distance in a buffer");
    return p->failed ? NULL : cr_plan_address((size_t)buffer, offset);
}

/* A copy maps an address once, in the pass that fills it. */
static char *keep_address(const pass *p, char *address)
{
    if (address && p->visit)
        p->visit(p->context, address);
    return address && p->block && p->how->map ? p->how->map(p->how->context, address) : address;
}

static char *pass_address(pass *p, const void *at)
{
    char *address = (char *)(uintptr_t)at;

    if (p->way == KEEPS)
        return keep_address(p, address);
    if (pass_flag(p, "none", !at))
        return NULL;
    if (p->way == READS)
        return read_address(p);
    int64_t offset = cr_plan_offset_of(address);
    cr_text_printf(p->out, "%%%zu", cr_plan_buffer_of(address));
    if (offset)
        cr_text_printf(p->out, "%+lld", (long long)offset);
    return address;
}

/* An address with its strides along the dims. */
static char *pass_place(pass *p, const void *at, const int64_t **stride, int ndim)
{
    char *address = pass_address(p, at);

    pass_sign(p, " by ");
    *stride = pass_numbers(p, *stride, ndim, false);
    return address;
}

/* Strides are left out of the text of a row-major array. */
static cr_array pass_array(pass *p, cr_array a)
{
    int64_t dense[CR_MAX_DIMS];

    a.data = pass_address(p, a.data);
    pass_sign(p, ":");
    a.dtype = pass_dtype(p, a.dtype);
    a.size = pass_sizes(p, a.size, &a.ndim);
    if (p->failed)
        return a;
    if (p->way == KEEPS)
        a.stride = pass_keep(p, a.stride, (size_t)a.ndim * sizeof *dense);
    if (p->way == KEEPS)
        return a;
    cr_dense_strides(dense, a.ndim, a.size);
    bool plain =
        !a.ndim || (a.stride && !memcmp(dense, a.stride, (size_t)a.ndim * sizeof *dense));
    if (pass_flag(p, " by ", !plain))
        a.stride = pass_numbers(p, a.stride, a.ndim, false);
    else if (p->way == READS)
        a.stride = pass_alone(p, dense, (size_t)a.ndim * sizeof *dense);
    return a;
}

/* --- kernels --- */

/* The number of a kernel, or the next number for a new kernel. */
static size_t kernel_number(const pass *p, const cr_plan_kernel *k)
{
    size_t i = 0;

    while (i < p->kernel.len && p->kernel.at[i] != k)
        i++;
    return i;
}

static void *pass_code(pass *p, const void *code)
{
    int64_t number = pass_integer(p, (int64_t)kernel_number(p, code));

    if (number < 0 || (size_t)number >= p->kernel.len)
        pass_fail(p, "a kernel of the plan");
    if (p->failed)
        return NULL;
    const cr_plan_kernel *k = p->kernel.at[number];
    pass_sign(p, " ");
    pass_name(p, k->name);
    return (void *)(uintptr_t)k;
}

/* Numbers of the outer dims, of rows and of columns as one list; *dims is their number. */
static const int64_t *pass_dims(pass *p, const int64_t *outer, const int64_t *inner, int *dims)
{
    int64_t all[CR_MAX_DIMS + 2];

    if (p->way == READS)
        return pass_sizes(p, NULL, dims);
    memcpy(all, outer, (size_t)(*dims - 2) * sizeof *all);
    memcpy(all + *dims - 2, inner, 2 * sizeof *all);
    pass_list(p, all, &(int64_t){*dims}, false);
    return NULL;
}

static void pass_over(pass *p, cr_launch *l)
{
    int dims = l->outer + 2;
    const int64_t *size = pass_dims(p, l->outer_size, l->size, &dims);

    if (dims < 2)
        pass_fail(p, "rows and columns");
    if (!size || p->failed)
        return;
    l->outer = dims - 2;
    l->outer_size = size;
    memcpy(l->size, size + l->outer, 2 * sizeof *l->size);
}

static void pass_steps(pass *p, const cr_launch *l, int k, int64_t *outer, int64_t *stride)
{
    int dims = l->outer + 2;
    const int64_t *step =
        pass_dims(p, l->outer_stride + k * l->outer, l->stride + 2 * k, &dims);

    if (dims != l->outer + 2)
        pass_fail(p, "a step for each dim");
    if (!step || p->failed)
        return;
    memcpy(outer + k * l->outer, step, (size_t)l->outer * sizeof *outer);
    memcpy(stride + 2 * k, step + l->outer, 2 * sizeof *stride);
}

static void *pass_pointer(pass *p, void *at, bool number)
{
    return number ? (void *)(uintptr_t)pass_element(p, at) : pass_address(p, at);
}

static void keep_operands(pass *p, cr_launch *l)
{
    size_t n = (size_t)l->operands, outer = (size_t)l->outer, word = sizeof(int64_t);
    void *const *given = l->pointer;
    void **pointer = pass_keep(p, given, n * sizeof *given);

    for (int i = 0; i < l->operands; i++) {
        void *at = pass_pointer(p, given[i], l->numbers >> i & 1);
        if (pointer)
            pointer[i] = at;
    }
    l->pointer = pointer;
    l->stride = pass_keep(p, l->stride, 2 * n * word);
    l->outer_size = pass_keep(p, l->outer_size, outer * word);
    l->outer_stride = pass_keep(p, l->outer_stride, outer * n * word);
    l->param = pass_keep(p, l->param, l->param_bytes);
}

static void pass_operands(pass *p, cr_launch *l)
{
    bool reads = p->way == READS;
    void **pointer = reads ? pass_room(p, OPERANDS * sizeof *pointer) : NULL;
    int64_t *stride = reads ? pass_room(p, (size_t)(2 * OPERANDS) * sizeof *stride) : NULL;
    int64_t *outer =
        reads ? pass_room(p, OPERANDS * (size_t)(l->outer + 1) * sizeof *outer) : NULL;
    int k = 0;

    pass_sign(p, " (");
    for (; pass_item(p, (size_t)k, (size_t)l->operands, OPERANDS, ")"); k++) {
        bool number = reads ? pass_next(p) == '#' : l->numbers >> k & 1;
        void *at = pass_pointer(p, reads ? NULL : l->pointer[k], number);
        pass_sign(p, " by ");
        pass_steps(p, l, k, outer, stride);
        if (!reads)
            continue;
        l->numbers |= (uint64_t)number << k;
        pointer[k] = at;
    }
    if (!reads)
        return;
    l->operands = k;
    l->pointer = pointer;
    l->stride = stride;
    l->outer_stride = outer;
}

static void pass_launch(pass *p, cr_launch *l)
{
    size_t n;

    if (p->way == KEEPS) {
        keep_operands(p, l);
        return;
    }
    l->code = pass_code(p, l->code);
    pass_sign(p, " over ");
    pass_over(p, l);
    if (p->failed)
        return;
    if (pass_flag(p, " first ", l->size[2]))
        l->size[2] = pass_integer(p, l->size[2]);
    pass_operands(p, l);
    n = l->param ? bytes_in_use(l->param, l->param_bytes) : 0;
    if (pass_flag(p, " param ", n))
        l->param = pass_bytes(p, l->param, &n, PARAM_BYTES);
    else if (p->way == READS)
        l->param = pass_room(p, PARAM_BYTES);
    l->param_bytes = n > PARAM_BYTES ? n : PARAM_BYTES;
}

/* --- elements at computed places --- */

static void pass_index(pass *p, cr_indexed *c)
{
    c->is32 = pass_flag(p, " int32 ", c->is32);
    if (!c->is32)
        pass_sign(p, " int64 ");
    c->index = pass_place(p, c->index, &c->index_stride, c->ndim);
    c->unit = pass_count(p, " unit ", c->unit);
    c->extent = pass_count(p, " below ", c->extent);
    c->wraps = pass_flag(p, " wraps", c->wraps);
    if (pass_flag(p, " numbered ", c->numbered)) {
        cr_array a = pass_array(p, c->numbered ? *c->numbered : (cr_array){0});
        c->numbered = pass_alone(p, &a, sizeof a);
    }
    if (pass_flag(p, " picked ", c->picked))
        c->picked = (uint64_t)pass_integer(p, (int64_t)c->picked);
    if (pass_flag(p, " error ", c->outside)) {
        size_t n = c->outside ? strlen(c->outside) : 0;
        c->outside_kind = (int)pass_integer(p, c->outside_kind);
        pass_sign(p, " ");
        c->outside = pass_string(p, c->outside, &n, 1);
    }
}

static void pass_indexed(pass *p, cr_indexed *c)
{
    pass_sign(p, " ");
    c->how = (cr_combine)pass_choice(p, cr_combine_names, CR_COMBINE_COUNT, (int)c->how,
                                     "an operation");
    pass_sign(p, " ");
    c->dtype = pass_dtype(p, c->dtype);
    c->size = pass_sizes(p, c->size, &c->ndim);
    pass_sign(p, " table ");
    c->table = pass_place(p, c->table, &c->table_stride, c->ndim);
    if (pass_flag(p, " dense ", c->dense)) {
        c->dense = pass_place(p, c->dense, &c->dense_stride, c->ndim);
    } else {
        c->dense_stride = NULL;
        pass_sign(p, " number ");
        pass_own_element(p, c->item);
    }
    if (pass_flag(p, " at", c->index))
        pass_index(p, c);
    else
        c->index_stride = NULL;
}

/* --- windows --- */

static const void *pass_factors(pass *p, const char *word, const double *factor, int64_t n)
{
    return pass_flag(p, word, factor) ? pass_numbers(p, factor, n, true) : NULL;
}

static void pass_axis(pass *p, cr_window_axis *a)
{
    int64_t words = p->way == READS ? 0 : 3 * a->start[a->size];

    a->size = pass_count(p, " dim ", a->size);
    a->in = pass_count(p, " of ", a->in);
    if (a->size < 0 || a->size == INT64_MAX)
        pass_fail(p, "a size of a dim");
    pass_sign(p, " start ");
    const int64_t *start = p->failed ? NULL : pass_numbers(p, a->start, a->size + 1, false);
    pass_sign(p, " ranges ");
    if (p->way == READS && !p->failed && CR_MUL_OVERFLOW(start[a->size], 3, &words))
        pass_fail(p, "a number of ranges");
    a->start = start;
    a->range = p->failed ? NULL : pass_numbers(p, a->range, words, false);
    a->count = pass_factors(p, " count ", a->count, a->size);
    a->share = pass_factors(p, " share ", a->share, a->in);
}

static void pass_windows(pass *p, cr_windows *c)
{
    const int64_t plane[] = {c->in, c->out}, *made;

    c->prepared = NULL;
    c->extreme = pass_flag(p, " max ", c->extreme);
    if (!c->extreme)
        pass_sign(p, " sum ");
    c->result = pass_array(p, c->result);
    pass_sign(p, " which ");
    c->which = pass_array(p, c->which);
    pass_sign(p, " from ");
    c->from = pass_array(p, c->from);
    c->planes = pass_count(p, " planes ", c->planes);
    pass_sign(p, " of ");
    made = p->way == KEEPS ? NULL : pass_numbers(p, plane, 2, false);
    if (p->way == READS && !p->failed)
        c->in = made[0], c->out = made[1];
    c->divisor = pass_count(p, " divisor ", c->divisor);
    c->divides = pass_flag(p, " divides", c->divides);
    c->shares = pass_flag(p, " shares", c->shares);
    for (int i = 0; i < 3 && !p->failed; i++)
        pass_axis(p, &c->dim[i]);
}

/* --- calls --- */

static bool is_float_ahead(const pass *p, const char *ends)
{
    size_t n = strcspn(p->at, ends);

    for (size_t i = 0; i < n; i++)
        if (strchr(".en", p->at[i]))
            return true;
    return false;
}

/* The kind of the next argument; `inside`: it is an item of a list. */
static cr_given_kind kind_ahead(pass *p, bool inside)
{
    char c = pass_next(p);

    if (!strncmp(p->at, "None", 4))
        return CR_GIVEN_NONE;
    if (inside && c == '(')
        pass_fail(p, "an item that is no list");
    if (c == '(')
        return CR_GIVEN_LIST;
    if (c == '[')
        return is_float_ahead(p, "]") ? CR_GIVEN_FLOATS : CR_GIVEN_INTS;
    if (c == '"')
        return CR_GIVEN_TEXT;
    if (c == '%' || !strncmp(p->at, "none:", 5))
        return CR_GIVEN_ARRAY;
    return is_float_ahead(p, ",) \n") ? CR_GIVEN_FLOAT : CR_GIVEN_INT;
}

static const cr_given *pass_givens(pass *p, const cr_given *list, size_t *count, bool inside);

static cr_given pass_given(pass *p, cr_given g, bool inside)
{
    int64_t n;

    if (p->way == READS)
        g = (cr_given){.kind = kind_ahead(p, inside)};
    n = (int64_t)g.count;
    switch (g.kind) {
    case CR_GIVEN_ARRAY: g.array = pass_array(p, g.array); break;
    case CR_GIVEN_INT: g.i = pass_integer(p, g.i); break;
    case CR_GIVEN_FLOAT: g.d = pass_float(p, g.d); break;
    case CR_GIVEN_INTS:
    case CR_GIVEN_FLOATS:
        g.ints = pass_list(p, g.ints, &n, g.kind == CR_GIVEN_FLOATS);
        g.count = (size_t)n;
        break;
    case CR_GIVEN_TEXT: g.text = pass_string(p, g.text, &g.count, 0); break;
    case CR_GIVEN_LIST: g.list = pass_givens(p, g.list, &g.count, true); break;
    case CR_GIVEN_NONE:
    case CR_GIVEN_OTHER:
    case CR_GIVEN_COMPLEX: pass_sign(p, "None"); break; /* the last two: in no plan */
    }
    return g;
}

/* Lists are not nested. */
static const cr_given *pass_givens(pass *p, const cr_given *list, size_t *count, bool inside)
{
    cr_given *made = pass_structs(p, list, *count, MOST_ITEMS, sizeof *list);
    size_t i;

    pass_sign(p, "(");
    for (i = 0; pass_item(p, i, *count, MOST_ITEMS, ")"); i++) {
        cr_given g = pass_given(p, p->way == READS ? (cr_given){0} : list[i], inside);
        if (made && p->way != PRINTS)
            made[i] = g;
    }
    *count = i;
    return made;
}

/* A list of arrays in brackets. */
static const cr_array *pass_arrays(pass *p, const cr_array *list, int *count)
{
    cr_array *made = pass_structs(p, list, (size_t)*count, MOST_ITEMS, sizeof *made);
    size_t i;

    pass_sign(p, "(");
    for (i = 0; pass_item(p, i, (size_t)*count, MOST_ITEMS, ")"); i++) {
        cr_array a = pass_array(p, p->way == READS ? (cr_array){0} : list[i]);
        if (made && p->way != PRINTS)
            made[i] = a;
    }
    *count = (int)i;
    return made;
}

static void pass_library(pass *p, cr_library *c)
{
    size_t args = (size_t)c->args;

    pass_sign(p, " ");
    c->entry = pass_name(p, c->entry);
    c->arg = pass_givens(p, c->arg, &args, false);
    c->args = (int)args;
    pass_sign(p, " -> ");
    c->result = pass_arrays(p, c->result, &c->results);
}

/* --- other commands --- */

static void pass_copy(pass *p, cr_plan_copy *c)
{
    bool host = pass_flag(p, " host", !c->to), own = !host && c->bytes && !c->from;

    pass_sign(p, host ? "" : " ");
    c->to = host ? NULL : pass_address(p, c->to);
    pass_sign(p, " = ");
    if (p->way == READS)
        own = !host && pass_next(p) == '#';
    if (own) {
        c->bytes = pass_bytes(p, c->bytes, &c->n, 1);
        return;
    }
    c->bytes = NULL;
    c->from = pass_address(p, c->from);
    pass_sign(p, " ");
    if (p->way == READS && (pass_next(p) == '-'))
        pass_fail(p, "a number of bytes");
    c->n = (size_t)pass_integer(p, (int64_t)c->n);
}

static const char *pass_word(pass *p, const char *s)
{
    size_t n = p->way == READS ? 0 : strlen(s);

    return pass_string(p, s, &n, 1);
}

static void pass_rows(pass *p, cr_plan_collective *c)
{
    int64_t in = c->parts, out = c->parts;

    if (!pass_flag(p, " rows ", c->in_rows)) {
        c->in_rows = c->out_rows = NULL;
        return;
    }
    c->in_rows = pass_list(p, c->in_rows, &in, false);
    pass_sign(p, " to ");
    c->out_rows = pass_list(p, c->out_rows, &out, false);
    if (in != out)
        pass_fail(p, "as many rows of each rank as for each");
    c->parts = in;
}

static void pass_collective(pass *p, cr_plan_collective *c)
{
    int outs = c->count;

    c->wait = pass_flag(p, " wait ", c->wait);
    if (c->wait) {
        c->out = pass_arrays(p, c->out, &outs);
        c->count = outs;
        c->call = c->group = c->reduce = "";
        c->ins = 0;
        c->in = NULL;
        c->in_rows = c->out_rows = NULL;
        return;
    }
    pass_sign(p, " ");
    c->call = pass_name(p, c->call);
    pass_sign(p, " ");
    c->reduce = pass_word(p, c->reduce);
    pass_sign(p, " of ");
    c->group = pass_word(p, c->group);
    c->root = pass_count(p, " root ", c->root);
    pass_sign(p, " ");
    c->in = pass_arrays(p, c->in, &c->ins);
    pass_sign(p, " -> ");
    c->out = pass_arrays(p, c->out, &outs);
    if (c->ins && c->ins != outs)
        pass_fail(p, "as many results as operands");
    c->count = outs;
    pass_rows(p, c);
}

static void pass_members(pass *p, cr_command *c)
{
    switch (c->kind) {
    case CR_COMMAND_KERNEL:
        pass_sign(p, " ");
        pass_launch(p, &c->kernel);
        break;
    case CR_COMMAND_MOVE:
        pass_sign(p, " ");
        c->move.to = pass_array(p, c->move.to);
        pass_sign(p, " = ");
        c->move.from = pass_array(p, c->move.from);
        break;
    case CR_COMMAND_FILL:
        pass_sign(p, " ");
        c->fill.to = pass_array(p, c->fill.to);
        pass_sign(p, " = ");
        pass_own_element(p, c->fill.element);
        break;
    case CR_COMMAND_INDEXED:
    case CR_COMMAND_COMBINE: pass_indexed(p, &c->indexed); break;
    case CR_COMMAND_WINDOWS: pass_windows(p, &c->windows); break;
    case CR_COMMAND_LIBRARY: pass_library(p, &c->library); break;
    case CR_COMMAND_COLLECTIVE: pass_collective(p, &c->collective); break;
    case CR_COMMAND_COPY: pass_copy(p, &c->copy); break;
    case CR_COMMAND_WAIT:
    case CR_COMMAND_KINDS: break;
    }
}

/* --- lines of plans --- */

static void pass_command(pass *p, cr_command *c)
{
    pass_sign(p, "  ");
    c->kind = (cr_command_kind)pass_choice(p, cr_command_names, CR_COMMAND_KINDS, (int)c->kind,
                                           "a command");
    pass_members(p, c);
    pass_sign(p, p->way == PRINTS ? "\n" : "");
}

/* Prints the program of a kernel before the first command that has it. */
static void print_kernel(pass *p, const cr_plan_kernel *k)
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

/* The lines of a program up to the brace, without their indents. */
static const char *read_program(pass *p)
{
    cr_text lines = {0};

    p->at += strcspn(p->at, "\n") + (*p->at != 0);
    while (*p->at && strncmp(p->at, "  }", 3)) {
        size_t skip = strspn(p->at, " "), n = strcspn(p->at, "\n");
        cr_text_put_n(&lines, p->at + skip, n - skip);
        cr_text_put(&lines, "\n");
        p->at += n + (p->at[n] == '\n');
    }
    char *program = pass_room(p, lines.len);
    if (cr_text_status(&lines) && !p->failed)
        p->failed = CR_MEMORY;
    if (!p->failed)
        memcpy(program, cr_text_str(&lines), lines.len);
    cr_text_drop(&lines);
    return program;
}

static void read_kernel(pass *p)
{
    cr_plan_kernel *k = pass_room(p, sizeof *k);

    if ((size_t)pass_integer(p, 0) != p->kernel.len)
        pass_fail(p, "the next number of a kernel");
    if (!p->failed)
        p->failed = cr_vec_reserve(&p->kernel, 1);
    if (p->failed)
        return;
    k->name = pass_name(p, "");
    pass_sign(p, "{");
    k->program = read_program(p);
    pass_sign(p, "}");
    cr_vec_put(&p->kernel, k);
}

static void read_buffer(pass *p)
{
    size_t number;

    if ((size_t)pass_integer(p, 0) != p->plan->buffer.len)
        pass_fail(p, "the next number of a buffer");
    pass_sign(p, "=");
    bool input = pass_meets(p, "input");
    if (!input)
        pass_sign(p, "buffer");
    int64_t bytes = pass_integer(p, 0);
    if (bytes < 0 || bytes >> 39)
        pass_fail(p, "a size in bytes");
    if (!p->failed)
        p->failed = cr_plan_add_buffer(&number, p->plan, (size_t)bytes, input);
}

static void read_return(pass *p)
{
    do {
        cr_array a = pass_array(p, (cr_array){0});
        if (!p->failed)
            p->failed = cr_plan_add_output(p->plan, &a);
    } while (!p->failed && pass_meets(p, ","));
}

static void read_line(pass *p)
{
    cr_command c;

    if (pass_meets(p, "%")) {
        read_buffer(p);
    } else if (pass_meets(p, "kernel")) {
        read_kernel(p);
    } else if (pass_meets(p, "return")) {
        read_return(p);
    } else {
        memset(&c, 0, sizeof c);
        pass_command(p, &c);
        if (!p->failed)
            p->failed = cr_plan_add(p->plan, &c);
    }
}

cr_status cr_plan_parse(cr_plan *out, const char *text)
{
    pass p = {.way = READS, .at = text, .text = text, .plan = out};

    pass_sign(&p, "plan");
    out->of_values = pass_meets(&p, "of") && pass_meets(&p, "values");
    pass_sign(&p, "{");
    while (!p.failed && !pass_meets(&p, "}"))
        read_line(&p);
    cr_vec_drop(&p.kernel);
    return p.failed;
}

/* Prints the buffers that were made before a command, from number `first` on. */
static size_t print_buffers(cr_text *out, const cr_plan *plan, size_t first, size_t commands)
{
    const cr_plan_buffer *b = plan->buffer.at;

    for (; first < plan->buffer.len && b[first].before <= commands; first++)
        cr_text_printf(out, "  %%%zu = %s %zu\n", first, b[first].input ? "input" : "buffer",
                       b[first].bytes);
    return first;
}

void cr_plan_print(cr_text *out, const cr_plan *plan)
{
    pass p = {.way = PRINTS, .out = out};
    size_t buffers = 0;

    cr_text_put(out, plan->of_values ? "plan of values {\n" : "plan {\n");
    for (size_t i = 0; i < plan->command.len; i++) {
        cr_command c = *plan->command.at[i];
        buffers = print_buffers(out, plan, buffers, i);
        if (c.kind == CR_COMMAND_KERNEL)
            print_kernel(&p, c.kernel.code);
        pass_command(&p, &c);
    }
    print_buffers(out, plan, buffers, plan->command.len);
    for (size_t i = 0; i < plan->output.len; i++) {
        cr_text_put(out, i ? ", " : "  return ");
        pass_array(&p, plan->output.at[i]);
    }
    cr_text_put(out, plan->output.len ? "\n}\n" : "}\n");
    cr_vec_drop(&p.kernel);
}

/* --- copies --- */

static void keep_command(pass *p, void *made, const void *from)
{
    cr_command *c = made;

    *c = *(const cr_command *)from;
    pass_members(p, c);
}

static void keep_array(pass *p, void *made, const void *from)
{
    *(cr_array *)made = pass_array(p, *(const cr_array *)from);
}

/* Copies n bytes of `from`, and after them the memory that its members point to (`fill`). */
static void *keep_all(const void *from, size_t n, const cr_keeping *how,
                      void (*fill)(pass *p, void *made, const void *from))
{
    pass p = {.way = KEEPS, .at = "", .how = how};
    cr_command unused;

    pass_keep(&p, from, n);
    fill(&p, &unused, from);
    p.block = how->get(how->from, p.used);
    p.used = 0;
    if (!p.block)
        return NULL;
    void *made = pass_keep(&p, from, n);
    fill(&p, made, from);
    return made;
}

cr_command *cr_command_keep(const cr_command *c, const cr_keeping *how)
{
    return keep_all(c, sizeof *c, how, keep_command);
}

void cr_command_each_address(const cr_command *c, cr_address_visit visit, void *context)
{
    pass p = {.way = KEEPS, .at = "", .visit = visit, .context = context};
    cr_command unused;

    keep_command(&p, &unused, c);
}

cr_array *cr_array_keep_by(const cr_array *a, const cr_keeping *how)
{
    return keep_all(a, sizeof *a, how, keep_array);
}
