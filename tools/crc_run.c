/* crc run - runs a program on every tier.
 *
 * The program runs as eager operators (one operation at a time, through memory), as tiles, as
 * native code that is compiled in the background, and, on a few rows, in the interpreter; with
 * one and with two threads.  The tool compares bits and measures speed relative to copying as
 * many bytes.
 *
 * Sizes and parameters come from a line "# run R=4096 C=768 s=0.5" in the file, or from
 * arguments.  Other parameters are 1. */
#include "base/isa.h"
#include "base/map.h"
#include "base/parallel.h"
#include "crc.h"
#include "crc_eager.h"
#include "jit/fused.h"
#include "jit/generated.h"
#include "jit/tile.h"
#include "loop/interp.h"
#include "num/philox.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 32 };

typedef struct {
    char name[64];
    double value;
} setting;

typedef struct {
    const char *text;
    setting settings[MOST];
    int setting_count;
    cr_fused *fused;
    cr_buffer *operand[MOST];
    int operands, outputs;
    int64_t rows, columns;
    void *memory[MOST]; /* of each operand */
    int64_t stride[2 * MOST], bytes[MOST];
    char param[MOST * CR_PARAM_BYTES];
} experiment;

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* --- settings --- */

static void set(experiment *x, const char *word)
{
    const char *sign = strchr(word, '=');
    setting *s = &x->settings[x->setting_count];

    if (!sign || x->setting_count == MOST)
        return;
    for (int i = 0; i < x->setting_count; i++)
        if (!strncmp(x->settings[i].name, word, (size_t)(sign - word)) &&
            !x->settings[i].name[sign - word])
            s = &x->settings[i];
    snprintf(s->name, sizeof s->name, "%.*s", (int)(sign - word), word);
    s->value = atof(sign + 1);
    x->setting_count += s == &x->settings[x->setting_count];
}

static void set_from_file(experiment *x)
{
    const char *p = strstr(x->text, "# run ");
    char line[512], *rest = line, *word;

    if (!p)
        return;
    snprintf(line, sizeof line, "%.*s", (int)strcspn(p + 6, "\n"), p + 6);
    while ((word = strtok_r(rest, " ", &rest)))
        set(x, word);
}

static bool find(const experiment *x, const char *name, double *out)
{
    for (int i = 0; i < x->setting_count; i++)
        if (!strcmp(x->settings[i].name, name)) {
            *out = x->settings[i].value;
            return true;
        }
    return false;
}

static int64_t size_of(const experiment *x, const cr_sym *e)
{
    double v = 1;

    if (e->kind == CR_SYM_INT)
        return e->integer;
    if (e->kind != CR_SYM_NAME || !find(x, e->name, &v))
        printf("the size of a loop has no value; taking 1\n");
    return (int64_t)v;
}

/* --- operands --- */

static cr_loop *parse(cr_session *s, void *context)
{
    experiment *x = context;
    cr_loop *l = cr_loop_parse(s, x->text);

    l->name = "program";
    l->origin = "crc run";
    return l;
}

/* Fills memory with normal numbers of the counter-based stream, which are the same in every
 * run. */
static void fill(void *memory, cr_dtype t, int64_t n, uint64_t seed)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t word[4];
        cr_philox(seed, (uint64_t)i, word);
        double u = ((double)word[0] + 1) * 0x1p-32, v = (double)word[1] * 0x1p-32;
        double normal = sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
        cr_scalar s = cr_dtype_is_float(t) ? cr_scalar_float(normal)
                                           : cr_scalar_int((int64_t)(word[0] % 100));
        cr_scalar_store(s, t, (char *)memory + i * (int64_t)cr_dtype_size(t));
    }
}

static void lay_out(experiment *x, int k)
{
    const cr_nest *n = cr_fused_nest(x->fused);
    const cr_buffer *b = x->operand[k];
    int64_t item = (int64_t)cr_dtype_size((cr_dtype)b->dtype);
    bool by_row = b->ndim == 2 || (b->ndim == 1 && b->size[0] == n->row.extent && !n->one_row &&
                                   b->size[0] != n->column.extent);
    bool by_column = b->ndim == 2 || !by_row;

    x->stride[2 * k] = !by_row ? 0 : by_column ? x->columns * item : item;
    x->stride[2 * k + 1] = by_column ? item : 0;
    x->bytes[k] = (by_row ? x->rows : 1) * (by_column ? x->columns : 1) * item;
}

static bool prepare(experiment *x)
{
    const cr_nest *n = cr_fused_nest(x->fused);

    x->rows = size_of(x, n->row.extent);
    x->columns = size_of(x, n->column.extent);
    x->operands = cr_loop_operands(n->loop, x->operand, MOST);
    for (int k = 0; k < x->operands; k++) {
        lay_out(x, k);
        x->memory[k] = aligned_alloc(64, (size_t)(x->bytes[k] + 127) & ~(size_t)63);
        if (!x->memory[k])
            return false;
        x->outputs += x->operand[k]->role == CR_BUFFER_OUTPUT;
        fill(x->memory[k], (cr_dtype)x->operand[k]->dtype,
             x->bytes[k] / (int64_t)cr_dtype_size((cr_dtype)x->operand[k]->dtype),
             (uint64_t)k + 1);
    }
    for (size_t i = 0; i < n->loop->params.len; i++) {
        const cr_loop_param *p = n->loop->params.at[i];
        double v = 1;
        find(x, p->name, &v);
        cr_scalar_store(cr_dtype_is_float((cr_dtype)p->dtype) ? cr_scalar_float(v)
                                                              : cr_scalar_int((int64_t)v),
                        (cr_dtype)p->dtype, x->param + p->slot * CR_PARAM_BYTES);
    }
    return true;
}

/* --- one operation at a time --- */

/* A program as text with one operation for each definition.  The buffer of a node is called
 * t<id>.  Values that are known before the loops remain where they are used. */
typedef struct {
    cr_text text;
    cr_expr_set seen;
    const cr_nest *n;
    int64_t rows, columns;
} splitter;

static bool is_array(const splitter *w, const cr_expr *e)
{
    return cr_nest_scope(w->n, e) != CR_SCOPE_KERNEL;
}

static void put_index(splitter *w, const cr_expr *e, bool axes)
{
    const cr_nest *n = w->n;
    bool full = cr_nest_scope(n, e) == CR_SCOPE_COLUMN;
    cr_text r = {0}, c = {0};

    cr_sym_print(&r, n->row.extent);
    cr_sym_print(&c, n->column.extent);
    if (!n->one_row)
        cr_text_printf(&w->text, "[%s%s%s", n->row.index->name, axes ? "<" : "",
                       axes ? cr_text_str(&r) : "");
    if (full)
        cr_text_printf(&w->text, "%s%s%s%s", n->one_row ? "[" : ", ", n->column.index->name,
                       axes ? "<" : "", axes ? cr_text_str(&c) : "");
    cr_text_put(&w->text, "]");
    cr_text_drop(&r);
    cr_text_drop(&c);
}

static int64_t value_of_size(void *context, const cr_sym *name)
{
    const splitter *w = context;

    return name == w->n->row.extent ? w->rows : w->columns;
}

/* A single operation may lack the loops whose sizes it uses, so sizes are numbers. */
static void put_size(splitter *w, const cr_expr *e)
{
    bool wrong = false;

    cr_text_printf(&w->text, "%s(%lld)", cr_dtype_infos[e->dtype].suffix,
                   (long long)cr_sym_eval(e->index[0], value_of_size, w, &wrong));
}

static void put_value(splitter *w, const cr_expr *e)
{
    if (e->kind == CR_EXPR_INTEGER && !is_array(w, e)) {
        put_size(w, e);
        return;
    }
    if (!is_array(w, e) || e->kind == CR_EXPR_LOAD || e->kind == CR_EXPR_INTEGER) {
        cr_expr_print(&w->text, e);
        return;
    }
    cr_text_printf(&w->text, "t%u", e->id);
    put_index(w, e, false);
}

static void put_typed(splitter *w, const cr_expr *e)
{
    bool literal = e->kind == CR_EXPR_CONST && e->dtype != CR_BOOL;

    if (literal)
        cr_text_printf(&w->text, "%s(", cr_dtype_infos[e->dtype].suffix);
    put_value(w, e);
    cr_text_put(&w->text, literal ? ")" : "");
}

static void put_operation(splitter *w, const cr_expr *e)
{
    cr_text_printf(&w->text, "t%u", e->id);
    put_index(w, e, true);
    cr_text_put(&w->text, " = ");
    if (e->kind == CR_EXPR_CALL && cr_fn_infos[e->fn].kind == CR_FN_RANDOM) {
        cr_expr_print(&w->text, e);
    } else if (e->kind == CR_EXPR_CALL && e->fn == CR_FN_cast) {
        cr_text_printf(&w->text, "%s(", cr_dtype_infos[e->dtype].suffix);
        put_value(w, e->args[0]);
        cr_text_put(&w->text, ")");
    } else {
        const char *end = e->kind == CR_EXPR_INDEX_OF ? "))" : ")";
        if (e->kind == CR_EXPR_INDEX_OF) {
            cr_text_put(&w->text, "index(");
            e = e->args[0];
        }
        if (e->kind == CR_EXPR_SCAN)
            cr_text_put(&w->text, e->back ? "scan_back " : "scan ");
        cr_text_put(&w->text, cr_fn_infos[e->fn].name);
        if (e->kind == CR_EXPR_REDUCE || e->kind == CR_EXPR_SCAN) {
            cr_text_printf(&w->text, "[%s<", e->axis.index->name);
            cr_sym_print(&w->text, e->axis.extent);
            cr_text_put(&w->text, "]");
        }
        for (int i = 0; i < e->count; i++) {
            cr_text_put(&w->text, i ? ", " : "(");
            put_typed(w, e->args[i]);
        }
        cr_text_put(&w->text, end);
    }
    cr_text_put(&w->text, "\n");
}

static void split(splitter *w, const cr_expr *e)
{
    if (!is_array(w, e) || !cr_expr_set_add(&w->seen, e))
        return;
    if (e->kind == CR_EXPR_CALL && cr_fn_infos[e->fn].kind == CR_FN_RANDOM) {
        put_operation(w, e);
        return;
    }
    for (int i = 0; i < e->count; i++)
        split(w, e->args[i]);
    if (e->count)
        put_operation(w, e);
}

/* One operation: a program of one line and its operands in memory. */
typedef struct {
    experiment *x;
    const char *declarations, *line;
    cr_map *arrays; /* name -> memory */
    double seconds;
} operation;

typedef struct {
    const cr_tile *tile;
    void *const *ptr;
    const int64_t *stride;
    int64_t columns;
    int operands;
    const void *param;
} rows_job;

static void run_operation_rows(void *context, int64_t begin, int64_t end)
{
    rows_job *j = context;
    int64_t size[3] = {end - begin, j->columns, begin};
    void *ptr[MOST];

    for (int k = 0; k < j->operands; k++)
        ptr[k] = (char *)j->ptr[k] + begin * j->stride[2 * k];
    if (cr_tile_run(j->tile, ptr, j->stride, size, j->param))
        abort();
}

static void *array(operation *o, const cr_buffer *b, int64_t bytes)
{
    void *p = cr_map_get(o->arrays, b->name, strlen(b->name));

    if (p)
        return p;
    p = aligned_alloc(64, (size_t)(bytes + 127) & ~(size_t)63);
    if (!p || cr_map_set(o->arrays, b->name, strlen(b->name), p))
        abort();
    memset(p, 0, (size_t)bytes);
    return p;
}

/* Compares expressions of different sessions by their text. */
static bool same_extent(const cr_sym *a, const cr_sym *b)
{
    cr_text p = {0}, q = {0};
    bool same;

    cr_sym_print(&p, a);
    cr_sym_print(&q, b);
    same = !strcmp(cr_text_str(&p), cr_text_str(&q));
    cr_text_drop(&p);
    cr_text_drop(&q);
    return same;
}

static int64_t extent_value(const experiment *x, const cr_sym *e)
{
    const cr_nest *n = cr_fused_nest(x->fused);

    return same_extent(e, n->row.extent) ? x->rows : x->columns;
}

static void run_operation(cr_session *s, void *context)
{
    operation *o = context;
    cr_text program = {0};
    cr_loop *l;
    cr_nest *n;
    rows_job j = {.columns = o->x->columns, .param = o->x->param};
    cr_buffer *operand[MOST];
    int64_t stride[2 * MOST];
    void *ptr[MOST];

    cr_text_printf(&program, "%s%s", o->declarations, o->line);
    l = cr_loop_parse(s, cr_text_str(&program));
    cr_text_drop(&program);
    n = cr_nest_schedule(l);
    j.tile = cr_tile_plan(n);
    j.operands = cr_loop_operands(l, operand, MOST);
    if (n->one_row)
        j.columns = extent_value(o->x, n->column.extent);
    for (int k = 0; k < j.operands; k++) {
        const cr_buffer *b = operand[k];
        int64_t item = (int64_t)cr_dtype_size((cr_dtype)b->dtype);
        int64_t length = extent_value(o->x, b->size[0]);
        bool along = b->ndim == 2 || n->one_row ||
                     (same_extent(b->size[0], n->column.extent) &&
                      !same_extent(n->row.extent, n->column.extent));
        stride[2 * k] = b->ndim == 2 ? j.columns * item : along ? 0 : item;
        stride[2 * k + 1] = along ? item : 0;
        ptr[k] = array(o, b, (b->ndim == 2 ? length * j.columns : length) * item);
    }
    j.ptr = ptr;
    j.stride = stride;
    double start = now();
    cr_parallel_for(n->one_row ? 1 : o->x->rows, 1 + 16384 / (o->x->columns + 1),
                    run_operation_rows, &j);
    o->seconds += now() - start;
}

static const char *result_name(char *room, size_t n, const cr_expr *e)
{
    snprintf(room, n, "t%u", e->id);
    return room;
}

/* Declares inputs, parameters and all earlier results, one array a line. */
static void declare(cr_text *out, const cr_nest *n)
{
    for (size_t i = 0; i < n->loop->params.len; i++)
        cr_text_printf(out, "param %s: %s @%d\n", n->loop->params.at[i]->name,
                       cr_dtype_infos[n->loop->params.at[i]->dtype].suffix,
                       n->loop->params.at[i]->slot);
}

static void declare_used(cr_text *out, splitter *w, const cr_expr *e, const char *line)
{
    char name[32], index[40];

    result_name(name, sizeof name, e);
    snprintf(index, sizeof index, "%s[", name);
    const char *use = strstr(line, index);
    if (use == line)
        use = strstr(line + 1, index);
    if (!use)
        return;
    cr_text_printf(out, "input %s: %s[", name, cr_dtype_infos[e->dtype].suffix);
    if (!w->n->one_row)
        cr_sym_print(out, w->n->row.extent);
    if (cr_nest_scope(w->n, e) == CR_SCOPE_COLUMN) {
        cr_text_put(out, w->n->one_row ? "" : ", ");
        cr_sym_print(out, w->n->column.extent);
    }
    cr_text_put(out, "]\n");
}

static void declare_inputs(cr_text *out, const cr_nest *n, const char *line)
{
    for (size_t i = 0; i < n->loop->buffers.len; i++) {
        const cr_buffer *b = n->loop->buffers.at[i];
        char index[80];
        snprintf(index, sizeof index, "%s[", b->name);
        if (b->role != CR_BUFFER_INPUT || !strstr(line, index))
            continue;
        cr_text_printf(out, "input %s: %s[", b->name, cr_dtype_infos[b->dtype].suffix);
        for (int k = 0; k < b->ndim; k++) {
            cr_text_put(out, k ? ", " : "");
            cr_sym_print(out, b->size[k]);
        }
        cr_text_put(out, "]\n");
    }
}

typedef struct {
    const cr_expr *at[512];
    int count;
} expr_order;

static void order(splitter *w, cr_expr_set *seen, expr_order *o, const cr_expr *e)
{
    if (!cr_expr_set_add(seen, e) || !is_array(w, e))
        return;
    for (int i = 0; i < e->count; i++)
        order(w, seen, o, e->args[i]);
    if (e->count && o->count < (int)CR_LEN(o->at))
        o->at[o->count++] = e;
}

/* Runs all operations.  `out` receives the outputs' arrays. */
static bool run_eager(experiment *x, void **out, double *seconds, cr_map *arrays, bool show)
{
    const cr_nest *n = cr_fused_nest(x->fused);
    splitter w = {
        .n = n, .seen = cr_expr_set_new(n->loop), .rows = x->rows, .columns = x->columns};
    cr_expr_set seen = cr_expr_set_new(n->loop);
    expr_order o = {.count = 0};
    bool ok = true;

    for (size_t i = 0; i < n->loop->defs.len; i++) {
        split(&w, n->loop->defs.at[i]->value);
        order(&w, &seen, &o, n->loop->defs.at[i]->value);
    }
    if (show)
        printf("-- one operation at a time\n%s", cr_text_str(&w.text));
    for (int k = x->outputs; k < x->operands; k++)
        ok = ok && !cr_map_set(arrays, x->operand[k]->name, strlen(x->operand[k]->name),
                               x->memory[k]);
    *seconds = 0;
    for (const char *p = cr_text_str(&w.text); ok && *p;) {
        size_t len = strcspn(p, "\n") + 1;
        char *text = cr_strndup(p, len);
        cr_text declared = {0};
        cr_session s = {.status = CR_OK};
        operation op = {.x = x, .line = text, .arrays = arrays};
        declare(&declared, n);
        declare_inputs(&declared, n, text);
        for (int i = 0; i < o.count; i++)
            declare_used(&declared, &w, o.at[i], text);
        op.declarations = cr_text_str(&declared);
        if (cr_session_run(&s, run_operation, &op)) {
            printf("%s", text);
            ok = false;
        }
        *seconds += op.seconds;
        cr_session_drop(&s);
        cr_text_drop(&declared);
        cr_free(text);
        p += len;
    }
    for (int k = 0; ok && k < x->outputs; k++)
        for (size_t i = 0; i < n->loop->defs.len; i++)
            if (n->loop->defs.at[i]->target == x->operand[k]) {
                char name[32];
                result_name(name, sizeof name, n->loop->defs.at[i]->value);
                out[k] = cr_map_get(arrays, name, strlen(name));
            }
    cr_text_drop(&w.text);
    return ok;
}

/* --- comparing and measuring --- */

/* Number of elements whose bits differ.  All NaNs are equal. */
static int64_t differing(cr_dtype t, const void *a, const void *b, int64_t bytes)
{
    size_t item = cr_dtype_size(t);
    int64_t n = 0;

    for (int64_t i = 0; i < bytes; i += (int64_t)item) {
        const char *p = (const char *)a + i, *q = (const char *)b + i;
        if (!memcmp(p, q, item))
            continue;
        if (cr_dtype_is_float(t) && isnan(cr_scalar_as_double(cr_scalar_load(t, p))) &&
            isnan(cr_scalar_as_double(cr_scalar_load(t, q))))
            continue;
        n++;
    }
    return n;
}

static cr_status run_tier(experiment *x, cr_tier tier)
{
    return cr_fused_run_by(x->fused, tier, x->memory, x->stride, x->rows, x->columns, x->param);
}

static double measure(experiment *x, cr_tier tier)
{
    double best = 1e9, start = now();

    for (int i = 0; i < 5 || (now() - start < 0.3 && i < 1000); i++) {
        double t = now();
        if (run_tier(x, tier))
            return 0;
        t = now() - t;
        best = t < best ? t : best;
    }
    return best;
}

static int64_t moved(const experiment *x)
{
    int64_t n = 0;

    for (int k = 0; k < x->operands; k++)
        n += x->bytes[k];
    return n;
}

typedef struct {
    char *to, *from;
    int64_t bytes;
} copy_job;

static void copy_range(void *context, int64_t begin, int64_t end)
{
    copy_job *j = context;
    int64_t from = begin * 4096, to = end * 4096 < j->bytes ? end * 4096 : j->bytes;

    memcpy(j->to + from, j->from + from, (size_t)(to - from));
}

/* Bytes read and written per second by a plain copy. */
static double copy_ceiling(int64_t bytes)
{
    copy_job j = {calloc(1, (size_t)bytes), calloc(1, (size_t)bytes), bytes};
    double best = 1e9;

    if (!j.to || !j.from)
        abort();
    memset(j.from, 1, (size_t)bytes);
    memset(j.to, 1, (size_t)bytes);
    for (int i = 0; i < 15; i++) {
        double t = now();
        cr_parallel_for((bytes + 4095) / 4096, 64, copy_range, &j);
        t = now() - t;
        best = t < best ? t : best;
    }
    free(j.to);
    free(j.from);
    return 2 * (double)bytes / best;
}

static int compare(experiment *x, void *const *reference, const char *what)
{
    int64_t wrong = 0;

    for (int k = 0; k < x->outputs; k++)
        wrong +=
            differing((cr_dtype)x->operand[k]->dtype, reference[k], x->memory[k], x->bytes[k]);
    printf("  %-28s %lld differing elements\n", what, (long long)wrong);
    return wrong != 0;
}

static void scramble(experiment *x)
{
    for (int k = 0; k < x->outputs; k++)
        memset(x->memory[k], 0xA5, (size_t)x->bytes[k]);
}

/* --- the tensor library --- */

static bool find_setting(const void *context, const char *name, double *out)
{
    return find(context, name, out);
}

/* Computes the program's first output with the operators of the "# eager" lines. */
static cr_status run_operators(experiment *x, void *out)
{
    const cr_nest *n = cr_fused_nest(x->fused);
    crc_array inputs[MOST];
    crc_eager e = {x->text, inputs, 0, find_setting, x};

    for (int k = x->outputs; k < x->operands; k++) {
        const cr_buffer *b = x->operand[k];
        crc_array *a = &inputs[e.count++];
        *a = (crc_array){b->name, (cr_dtype)b->dtype, b->ndim, {0}, x->memory[k]};
        for (int i = 0; i < b->ndim && i < 2; i++)
            a->size[i] = b->size[i] == n->row.extent ? x->rows : x->columns;
    }
    return crc_eager_run(&e, out, (size_t)x->bytes[0]);
}

static int compare_operators(experiment *x, void *reference)
{
    void *out = malloc((size_t)x->bytes[0]);
    int wrong = 0;

    for (int threads = 1; out && threads <= 2; threads++) {
        if (cr_set_threads(threads) || run_operators(x, out)) {
            free(out);
            crc_failed();
            return 1;
        }
        int64_t n = differing((cr_dtype)x->operand[0]->dtype, reference, out, x->bytes[0]);
        printf("  operators, %d thread%-13s %lld differing elements\n", threads,
               threads > 1 ? "s" : "", (long long)n);
        wrong += n != 0;
    }
    free(out);
    return wrong;
}

/* --- the interpreter --- */

typedef struct {
    experiment *x;
    double worst; /* relative to the result's magnitude */
} oracle_job;

enum { ORACLE_ROWS = 3 };

static void run_oracle(cr_session *s, void *context)
{
    oracle_job *o = context;
    experiment *x = o->x;
    cr_loop *l = cr_loop_parse(s, x->text);
    const cr_nest *n = cr_fused_nest(x->fused);
    int64_t rows = x->rows < ORACLE_ROWS ? x->rows : ORACLE_ROWS;
    cr_loop_size sizes[2];
    int count = 0;
    void *operand[MOST];

    if (n->row.extent->kind == CR_SYM_NAME)
        sizes[count++] = (cr_loop_size){cr_sym_find(l->syms, n->row.extent->name), rows};
    if (n->column.extent->kind == CR_SYM_NAME)
        sizes[count++] =
            (cr_loop_size){cr_sym_find(l->syms, n->column.extent->name), x->columns};
    for (int k = 0; k < x->operands; k++)
        operand[k] = k < x->outputs ? cr_session_get(s, (size_t)x->bytes[k]) : x->memory[k];
    cr_loop_interpret(l, &(cr_loop_run){.sizes = sizes,
                                        .size_count = count,
                                        .operand = operand,
                                        .param = x->param,
                                        .eval = cr_fn_one});
    for (int k = 0; k < x->outputs; k++) {
        cr_dtype t = (cr_dtype)x->operand[k]->dtype;
        int64_t item = (int64_t)cr_dtype_size(t), bytes = x->bytes[k];
        if (x->stride[2 * k])
            bytes = rows * x->stride[2 * k];
        for (int64_t i = 0; i < bytes; i += item) {
            double a = cr_scalar_as_double(cr_scalar_load(t, (char *)operand[k] + i));
            double b = cr_scalar_as_double(cr_scalar_load(t, (char *)x->memory[k] + i));
            double d = fabs(a - b) / fmax(fabs(a), 1e-30);
            if (!(isnan(a) && isnan(b)) && a != b)
                o->worst = fmax(o->worst, isnan(d) ? HUGE_VAL : d);
        }
    }
}

/* --- the report --- */

static int report(experiment *x)
{
    void *reference[MOST] = {NULL};

    double eager[2] = {0}, ceiling;
    int wrong = 0, before = cr_threads();
    oracle_job o = {.x = x};
    cr_session s = {.status = CR_OK};

    printf("%s", cr_fused_source(x->fused));
    scramble(x);
    double start = now();
    if (run_tier(x, CR_TIER_BEST))
        return crc_failed();
    printf("first result after %.2f ms, by tiles\n", (now() - start) * 1e3);
    if (cr_jit_wait(cr_fused_kernel(x->fused), 60) != CR_JIT_READY)
        printf("no native code (CR_LOG=jit tells why)\n");
    else
        printf("native code after %.1f ms%s\n", cr_jit_seconds(cr_fused_kernel(x->fused)) * 1e3,
               cr_jit_from_disk(cr_fused_kernel(x->fused)) ? ", from disk" : ", compiled");
    for (int threads = 1; threads <= 2; threads++) {
        cr_map once = {0};
        void *again[MOST] = {NULL};
        if (cr_set_threads(threads) ||
            !run_eager(x, again, &eager[threads - 1], &once, threads == 1))
            return crc_failed();
        if (threads == 1) {
            memcpy(reference, again, sizeof again);
            printf("bits, %lld x %lld, against one operation at a time\n", (long long)x->rows,
                   (long long)x->columns);
        } else {
            for (int k = 0; k < x->outputs; k++)
                memcpy(x->memory[k], again[k], (size_t)x->bytes[k]);
            wrong += compare(x, reference, "eager, 2 threads");
        }
        for (int tier = CR_TIER_TILES; tier <= CR_TIER_NATIVE; tier++) {
            char what[64];
            scramble(x);
            if (run_tier(x, (cr_tier)tier))
                return crc_failed();
            snprintf(what, sizeof what, "%s, %d thread%s",
                     tier == CR_TIER_TILES ? "tiles" : "native", threads,
                     threads > 1 ? "s" : "");
            wrong += compare(x, reference, what);
        }
        cr_map_drop(&once);
    }
    if (strstr(x->text, "# eager "))
        wrong += compare_operators(x, reference[0]);
    if (cr_session_run(&s, run_oracle, &o))
        return crc_failed();
    printf("  %-28s %.3g largest relative difference\n", "interpreter", o.worst);
    cr_session_drop(&s);
    printf("speed, %lld bytes moved, GB/s\n", (long long)moved(x));
    for (int threads = 1; threads <= 2; threads++) {
        if (cr_set_threads(threads))
            return crc_failed();
        ceiling = copy_ceiling(moved(x) / 2);
        double tiles = measure(x, CR_TIER_TILES), native = measure(x, CR_TIER_NATIVE);
        double b = (double)moved(x) * 1e-9;
        printf("  %d thread%s: copy %.1f, one at a time %.1f, tiles %.1f, native %.1f\n",
               threads, threads > 1 ? "s" : " ", ceiling * 1e-9, b / eager[threads - 1],
               b / tiles, native > 0 ? b / native : 0.0);
    }

    if (cr_set_threads(before))
        return crc_failed();
    return wrong != 0;
}

int crc_run(int argc, char **argv)
{
    experiment x = {.text = NULL};
    char *text;
    size_t len;
    int code;

    if (argc < 2 || cr_read_file(&text, &len, argv[1]))
        return argc < 2 ? 2 : crc_failed();
    x.text = text;
    set_from_file(&x);
    for (int i = 2; i < argc; i++)
        set(&x, argv[i]);
    printf("instruction set %s\n", cr_isa_name(cr_isa_chosen()));
    if (cr_fused_new(&x.fused, parse, &x))
        return crc_failed();
    code = prepare(&x) ? report(&x) : 1;
    for (int k = 0; k < x.operands; k++)
        free(x.memory[k]);
    cr_fused_drop(x.fused);
    cr_free(text);
    return code;
}
