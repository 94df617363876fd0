/* C files of AOT objects (object/abi.h).
 *
 * Where a size varies, the file is printed for several sizes, the probes.  The texts are
 * compared token by token: an integer that differs becomes a polynomial of the size, of degree
 * two at most, which all probes confirm.  Anything else that differs is refused.
 *
 * Invariant: the text of each probe is the merged text with the probe's size in place of
 * `varying`. */
#include "compile/c_job.h"
#include "compile/places.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char cr_c_object_types[] =
#include "c_abi_text.inc"
    "\ntypedef cr_object_threads cv_threads;\ntypedef cr_object_threads model_threads;\n"
    "#ifndef CV_CONTRACTS\n#define CV_CONTRACTS\n#endif\n\n";

enum { MOST_PROBES = 8 };

typedef struct {
    cr_session *s;
    const cr_c_probe *probe;
    int probes;
    const cr_c_range *range;
    cr_c_input *input;
    int inputs;
    cr_c_how how;
    cr_c_job *job; /* of each probe */
    cr_text text[MOST_PROBES], *out;
} object_job;

/* --- polynomials --- */

typedef struct {
    int64_t c[3];
} polynomial;

static bool at_size(int64_t *out, polynomial p, int64_t n)
{
    int64_t square, rest;

    return !__builtin_mul_overflow(n, n, &square) &&
           !__builtin_mul_overflow(square, p.c[2], &square) &&
           !__builtin_mul_overflow(n, p.c[1], &rest) &&
           !__builtin_add_overflow(square, rest, &rest) &&
           !__builtin_add_overflow(rest, p.c[0], out);
}

static bool fits(const object_job *o, polynomial p, const int64_t *value)
{
    int64_t v;

    for (int k = 0; k < o->probes; k++)
        if (!at_size(&v, p, o->probe[k].n) || v != value[k])
            return false;
    return true;
}

/* The slope of values between two probes; false if it is no integer. */
static bool slope(const object_job *o, const int64_t *value, int a, int b, int64_t *out)
{
    int64_t step = o->probe[b].n - o->probe[a].n, rise;

    if (__builtin_sub_overflow(value[b], value[a], &rise) || rise % step)
        return false;
    *out = rise / step;
    return true;
}

/* A polynomial with these values at the probes. */
static bool fit(const object_job *o, const int64_t *value, polynomial *out)
{
    int64_t low = 0, high = 0, width;
    polynomial p = {{value[0], 0, 0}};

    *out = p;
    if (fits(o, p, value))
        return true;
    if (o->probes < 2 || !slope(o, value, 0, 1, &low))
        return false;
    *out = (polynomial){{value[0] - low * o->probe[0].n, low, 0}};
    if (fits(o, *out, value))
        return true;
    if (o->probes < 3 || !slope(o, value, 1, 2, &high))
        return false;
    width = o->probe[2].n - o->probe[0].n;
    if ((high - low) % width)
        return false;
    p.c[2] = (high - low) / width;
    p.c[1] = low - p.c[2] * (o->probe[0].n + o->probe[1].n);
    p.c[0] = value[0] - p.c[1] * o->probe[0].n - p.c[2] * o->probe[0].n * o->probe[0].n;
    *out = p;
    return fits(o, p, value);
}

/* --- memory --- */

/* A polynomial that is nowhere less than values which grow as polynomials without negative
 * factors, or as the greatest of several. */
static polynomial bound(const object_job *o, const int64_t *value)
{
    int64_t least = value[0], n = o->probe[0].n;
    bool same = true, linear = true;

    for (int k = 1; k < o->probes; k++) {
        same = same && value[k] == least;
        linear = linear && value[k] - least <= (least + n - 1) / n * o->probe[k].n;
    }
    if (same)
        return (polynomial){{least, 0, 0}};
    return linear ? (polynomial){{least, (least + n - 1) / n, 0}}
                  : (polynomial){{least, 0, (least + n * n - 1) / (n * n)}};
}

static void bound_scratch(object_job *o)
{
    int64_t value[2][MOST_PROBES], v;

    for (int k = 0; k < o->probes; k++) {
        value[0][k] = (o->job[k].memory.scratch + 7) / 8 * 8;
        value[1][k] = (o->job[k].memory.own + 7) / 8 * 8;
    }
    for (int i = 0; i < 2; i++) {
        polynomial p = bound(o, value[i]);
        for (int d = 0; d < 3; d++)
            p.c[d] = (p.c[d] + 7) / 8 * 8;
        for (int k = 0; k < o->probes; k++) {
            if (!at_size(&v, p, o->probe[k].n))
                cr_bail(o->s, CR_VALUE, "the program needs too much memory");
            *(i ? &o->job[k].memory.own : &o->job[k].memory.scratch) = v;
        }
    }
}

/* Buffers whose bytes have equal degree have places in a region whose bytes are a number times
 * this power of the size: buffers do not meet at any size from 1 on. */
static void place_region(object_job *o, const polynomial *bytes, int degree, polynomial *offset,
                         polynomial *total)
{
    const cr_plan *p = o->probe[0].plan;
    int64_t *unit = CR_NEW_N(o->s, int64_t, p->buffer.len + 1),
            *place = CR_NEW_N(o->s, int64_t, p->buffer.len + 1);

    for (size_t b = 0; b < p->buffer.len; b++) {
        const int64_t *c = bytes[b].c;
        int own = c[2] ? 2 : c[1] ? 1 : 0;
        unit[b] = p->buffer.at[b].input || own != degree ? -1 : 0;
        for (int d = 0; d < 3 && unit[b] >= 0; d++)
            unit[b] += c[d] > 0 ? c[d] : 0;
    }
    int64_t all = cr_plan_places(o->s, p, NULL, unit, CR_C_ALIGNMENT, place);
    for (size_t b = 0; b < p->buffer.len; b++)
        if (unit[b] >= 0) {
            offset[b] = *total;
            offset[b].c[degree] += place[b];
        }
    total->c[degree] += all;
}

static void place_all(object_job *o)
{
    size_t n = o->probe[0].plan->buffer.len;
    polynomial *bytes = CR_NEW_N(o->s, polynomial, n + 1),
               *offset = CR_NEW_N(o->s, polynomial, n + 1), total = {{0}};

    for (size_t b = 0; b < n; b++) {
        int64_t value[MOST_PROBES];
        for (int k = 0; k < o->probes; k++)
            value[k] = (int64_t)o->probe[k].plan->buffer.at[b].bytes;
        if (!o->probe[0].plan->buffer.at[b].input && !fit(o, value, &bytes[b]))
            bytes[b] = bound(o, value);
    }
    for (int degree = 0; degree < 3; degree++)
        place_region(o, bytes, degree, offset, &total);
    for (int k = 0; k < o->probes; k++) {
        cr_c_job *j = &o->job[k];
        j->memory.offset = CR_NEW_N(o->s, int64_t, n + 1);
        for (size_t b = 0; b < n; b++)
            if (j->p->buffer.at[b].input ||
                !at_size(&j->memory.offset[b], offset[b], o->probe[k].n))
                j->memory.offset[b] = -1;
        if (!at_size(&j->memory.bytes, total, o->probe[k].n))
            cr_bail(o->s, CR_VALUE, "the program needs too much memory");
    }
}

/* --- merging --- */

CR_NORETURN static void refuse_difference(const object_job *o, const char *line)
{
    size_t n = strcspn(line, "\n");

    cr_bail(
        o->s, CR_VALUE,
        "the program computes in other ways when %s varies: %.*s; export it with fixed sizes",
        o->range->symbol, (int)(n < 120 ? n : 120), line);
}

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_' || c == '.'; }

/* An integer as cr_c_literal prints it; returns its end, or NULL. */
static const char *read_integer(const char *at, int64_t *value)
{
    bool closed = at[0] == '(' && at[1] == '-', wide;
    char *end;

    at += closed ? 2 : 0;
    wide = !strncmp(at, "INT64_C(", 8);
    at += wide ? 8 : 0;
    if (!isdigit((unsigned char)*at) || (at[0] == '0' && at[1] == 'x'))
        return NULL;
    *value = strtoll(at, &end, 10);
    if (wide && *end++ != ')')
        return NULL;
    if (closed) {
        *value = -*value;
        if (*end++ != ')')
            return NULL;
    }
    return is_word(*end) ? NULL : end;
}

static void put_polynomial(cr_text *out, polynomial p)
{
    static const char *const power[] = {"", " * varying", " * varying * varying"};
    const char *gap = "";

    cr_text_char(out, '(');
    for (int d = 0; d < 3; d++)
        if (p.c[d]) {
            cr_text_put(out, gap);
            cr_c_literal(out, CR_I64, &p.c[d]);
            cr_text_put(out, power[d]);
            gap = " + ";
        }
    cr_text_put(out, *gap ? ")" : "0)");
}

/* Merges the integers at `at`, and moves behind them; false if there are none. */
static bool merge_integers(const object_job *o, cr_text *out, const char **at)
{
    int64_t value[MOST_PROBES];
    const char *end[MOST_PROBES];
    polynomial p;

    for (int k = 0; k < o->probes; k++) {
        end[k] = read_integer(at[k], &value[k]);
        if (!end[k])
            return false;
    }
    if (!fit(o, value, &p))
        return false;
    if (p.c[1] || p.c[2])
        put_polynomial(out, p);
    else
        cr_text_put_n(out, at[0], (size_t)(end[0] - at[0]));
    memcpy(at, end, sizeof end);
    return true;
}

/* Merges a line; *varies: its numbers do. */
static void merge_line(const object_job *o, cr_text *out, const char **at, bool *varies)
{
    const char *line = at[0];
    char before = ' ';

    *varies = false;
    while (*at[0] && *at[0] != '\n') {
        bool same = true;
        size_t start = out->len;
        if (!is_word(before) && merge_integers(o, out, at)) {
            *varies = *varies || strstr(cr_text_str(out) + start, "varying");
            before = ')';
            continue;
        }
        for (int k = 1; k < o->probes; k++)
            same = same && *at[k] == *at[0];
        if (!same)
            refuse_difference(o, line);
        before = *at[0];
        cr_text_char(out, before);
        for (int k = 0; k < o->probes; k++)
            at[k]++;
    }
}

static void merge(const object_job *o)
{
    const char *at[MOST_PROBES];
    cr_text line = {0};
    bool varies;

    for (int k = 0; k < MOST_PROBES; k++)
        at[k] = k < o->probes ? cr_text_str(&o->text[k]) : "";
    while (*at[0]) {
        line.len = 0;
        merge_line(o, &line, at, &varies);
        const char *text = line.len ? cr_text_str(&line) : "",
                   *is_static = strstr(text, "static ");
        if (varies && is_static) {
            cr_text_put_n(o->out, text, (size_t)(is_static - text));
            text = is_static + strlen("static ");
        }
        cr_text_put(o->out, text);
        for (int k = 0; k < o->probes; k++) {
            if (*at[k] != *at[0])
                refuse_difference(o, text);
        }
        if (*at[0])
            cr_text_char(o->out, '\n');
        for (int k = 0; k < o->probes; k++)
            at[k] += *at[k] == '\n';
    }
    cr_text_drop(&line);
}

/* --- the description --- */

static bool is_state(const cr_c_input *in) { return in->state && in->values; }
static bool is_given(const cr_c_input *in) { return !in->values; }

static void put_dims(const object_job *o, int ndim, const int64_t *const *size)
{
    for (int d = 0; d < ndim; d++) {
        int64_t value[MOST_PROBES];
        polynomial p;
        for (int k = 0; k < o->probes; k++)
            value[k] = size[k][d];
        if (!fit(o, value, &p))
            cr_bail(o->s, CR_VALUE, "a size of an input or a result is no polynomial of %s",
                    o->range->symbol);
        cr_text_printf(o->out, "%s%lld, %lld, %lld", d ? ", " : "", (long long)p.c[0],
                       (long long)p.c[1], (long long)p.c[2]);
    }
    cr_text_put(o->out, ndim ? "}" : "0}");
}

static void put_array(cr_text *out, const char *name, int dtype, int ndim, const char *of,
                      int k)
{
    cr_text_printf(out, "    {\"%s\", \"%s\", %d, %d, %s%d},\n", name,
                   cr_dtype_name((cr_dtype)dtype), (int)cr_dtype_size((cr_dtype)dtype), ndim,
                   of, k);
}

static void put_arrays(const object_job *o)
{
    const cr_plan *p = o->probe[0].plan;
    const int64_t *size[MOST_PROBES];
    char name[32];

    for (int i = 0; i < o->inputs; i++)
        if (is_given(&o->input[i])) {
            for (int k = 0; k < o->probes; k++)
                size[k] = o->probe[k].size[i];
            cr_text_printf(o->out, "static const int64_t input_size%d[] = {", i);
            put_dims(o, o->probe[0].ndim[i], size);
            cr_text_put(o->out, ";\n");
        }
    for (size_t i = 0; i < p->output.len; i++) {
        for (int k = 0; k < o->probes; k++)
            size[k] = o->probe[k].plan->output.at[i].size;
        cr_text_printf(o->out, "static const int64_t output_size%zu[] = {", i);
        put_dims(o, p->output.at[i].ndim, size);
        cr_text_put(o->out, ";\n");
    }
    cr_text_put(o->out, "static const cr_object_array inputs[] = {\n");
    for (int i = 0; i < o->inputs; i++)
        if (is_given(&o->input[i]))
            put_array(o->out, o->input[i].name + strlen("in_"), o->input[i].dtype,
                      o->probe[0].ndim[i], "input_size", i);
    cr_text_put(o->out, "    {0, 0, 0, 0, 0}};\nstatic const cr_object_array outputs[] = {\n");
    for (size_t i = 0; i < p->output.len; i++) {
        snprintf(name, sizeof name, "out%zu", i);
        put_array(o->out, name, p->output.at[i].dtype, p->output.at[i].ndim, "output_size",
                  (int)i);
    }
    cr_text_put(o->out, "    {0, 0, 0, 0, 0}};\nstatic const int64_t states[] = {");
    for (int i = 0; i < o->inputs; i++)
        if (is_state(&o->input[i]))
            cr_text_printf(o->out, "%lld, ",
                           (long long)o->input[i].count *
                               (long long)cr_dtype_size((cr_dtype)o->input[i].dtype));
    cr_text_put(o->out, "0};\n\n");
}

/* A call of model_run, or of model_start, with the arrays of tables. */
static void put_call(const object_job *o, bool starts)
{
    int given = 0, states = 0;

    for (int i = 0; i < o->inputs; i++) {
        const cr_c_input *in = &o->input[i];
        const char *type = cr_c_type((cr_dtype)in->dtype);
        if (is_state(in))
            cr_text_printf(o->out, ", (%s *)state[%d]", type, states++);
        else if (is_given(in) && !starts)
            cr_text_printf(o->out, ", (%s%s *)input[%d]", in->state ? "" : "const ", type,
                           given++);
    }
    for (size_t i = 0; i < o->probe[0].plan->output.len && !starts; i++)
        cr_text_printf(o->out, ", (%s *)output[%zu]",
                       cr_c_type((cr_dtype)o->probe[0].plan->output.at[i].dtype), i);
    cr_text_put(o->out, starts ? ");\n}\n\n" : ", work, threads);\n}\n\n");
}

static int count_of(const object_job *o, bool (*is)(const cr_c_input *))
{
    int n = 0;

    for (int i = 0; i < o->inputs; i++)
        n += is(&o->input[i]);
    return n;
}

static int64_t weight_bytes(const object_job *o)
{
    int64_t total = 0;

    for (int i = 0; i < o->inputs; i++)
        total += o->input[i].from_file ? cr_c_weight_span(&o->input[i]) : 0;
    return total;
}

static void put_description(const object_job *o)
{
    bool starts = count_of(o, is_state) > 0, calls = o->job[0].needs.calls_library;

    put_arrays(o);
    if (starts) {
        cr_text_put(o->out, "static void object_start(const void *weights, void *const "
                            "*state)\n{\n    model_start(weights");
        put_call(o, true);
    }
    cr_text_put(
        o->out,
        "static int object_run(int64_t n, const void *weights, void *const *input, void "
        "*const *state,\n    void *const *output, void *work, const cr_object_threads "
        "*threads)\n{\n    (void)input;\n    (void)state;\n    (void)output;\n"
        "    return model_run(n, weights");
    put_call(o, false);
    cr_text_put(o->out,
                "#if defined(__GNUC__)\n__attribute__((visibility(\"default\")))\n#endif\n"
                "const cr_object_model cresset_aot_model = {");
    cr_text_put(o->out, calls ? "2, " : "1, ");
    cr_text_printf(o->out, o->range->symbol ? "\"%s\", " : "0, ", o->range->symbol);
    cr_c_literal(o->out, CR_I64, &o->range->least);
    cr_text_put(o->out, ", ");
    cr_c_literal(o->out, CR_I64, &o->range->most);
    cr_text_printf(o->out,
                   ", %d, %zu, %d, inputs, outputs, states, %lld, model_work_bytes, %s, "
                   "object_run, %s};\n",
                   count_of(o, is_given), o->probe[0].plan->output.len, count_of(o, is_state),
                   (long long)weight_bytes(o), starts ? "object_start" : "0",
                   calls ? "&cv_libraries" : "0");
}

static void make_object(cr_session *s, void *context)
{
    object_job *o = context;

    for (int k = 0; k < o->probes; k++) {
        if (o->probe[k].plan->buffer.len != o->probe[0].plan->buffer.len ||
            o->probe[k].plan->output.len != o->probe[0].plan->output.len)
            cr_bail(s, CR_VALUE,
                    "the program computes in other ways when %s varies; export it "
                    "with fixed sizes",
                    o->range->symbol);
        o->job[k].p = o->probe[k].plan;
    }
    place_all(o);
    for (int k = 0; k < o->probes; k++) {
        cr_c_order(&o->job[k]);
        cr_c_print_commands(&o->job[k]);
    }
    bound_scratch(o);
    for (int k = 0; k < o->probes; k++)
        cr_c_print_file(&o->job[k], &o->text[k]);
    merge(o);
    put_description(o);
}

cr_status cr_c_object(cr_session *s, cr_text *out, const cr_c_probe *probe, int probes,
                      const cr_c_range *range, bool libraries, cr_c_input *input, int inputs)
{
    object_job o = {.s = s,
                    .probe = probe,
                    .probes = probes,
                    .range = range,
                    .input = input,
                    .inputs = inputs,
                    .how = {"model", true, true, range->symbol != NULL, libraries},
                    .out = out};
    cr_c_job job[MOST_PROBES];
    cr_status st;

    if (probes < 1 || probes > MOST_PROBES)
        return cr_fail(CR_VALUE, "an object has 1 to %d probes", MOST_PROBES);
    for (int k = 0; k < probes; k++)
        job[k] = (cr_c_job){.s = s, .how = &o.how, .input = input, .inputs = inputs};
    o.job = job;
    st = cr_session_run(s, make_object, &o);
    for (int k = 0; k < probes; k++) {
        cr_c_job_drop(&job[k]);
        cr_text_drop(&o.text[k]);
    }
    return st;
}
