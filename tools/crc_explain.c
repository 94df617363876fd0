/* crc explain, crc ops - prints the operator table and everything derived from it.
 *
 * `crc explain OP` prints the entry, its derivatives, its tests and the C text of its kernels,
 * and then the same of every entry that its composition calls. */
#include "crc.h"
#include "emit/emit.h"
#include "graph/graph.h"
#include "jit/generated.h"
#include "loop/build.h"
#include "loop/libm.h"
#include <ctype.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const does_names[] = {
    [CR_DOES_BODY] = "body: elementwise",
    [CR_DOES_FOLD] = "fold: reduction",
    [CR_DOES_MAP] = "map: view",
    [CR_DOES_IS] = "is: composition",
    [CR_DOES_LOOP] = "loop",
    [CR_DOES_SCAN] = "scan",
    [CR_DOES_STEPS] = "steps: composition beside C on views",
    [CR_DOES_EXTERN] = "extern: C on views",
    [CR_DOES_WHOLE] = "whole: C on tensors",
    [CR_DOES_INPLACE] = "in-place form",
};

static void put_rule(cr_text *out, const char *label, const cr_rule *r)
{
    if (!r)
        return;
    cr_text_printf(out, "  %-8s", label);
    cr_rule_print(out, r);
    cr_text_char(out, '\n');
}

static void put_forms(cr_text *out, const cr_op *op)
{
    static const char *const names[] = {"function", "method", "inplace", "out",
                                        "nn",       "c",      "copied"};

    cr_text_put(out, "  forms   ");
    for (size_t i = 0; i < CR_LEN(names); i++)
        if (op->forms >> i & 1)
            cr_text_printf(out, "%s ", names[i]);
    cr_text_put(out, op->forms & ~(unsigned)CR_AS_COPIED ? "\n" : "internal\n");
}

/* Prints one line for each word, with its promise. */
static void put_words(cr_text *out, const cr_op *op)
{
    for (int i = 0; i < CR_WORD_COUNT; i++)
        if (op->words >> i & 1)
            cr_text_printf(out, "  %-9s %s\n", cr_word_infos[i].name, cr_word_infos[i].promise);
    for (int i = CR_WORD_BIT_RAISES_BY_VALUES; i <= CR_WORD_BIT_SIZED_BY_VALUES; i++)
        if (!(op->words >> i & 1) && cr_op_reaches(op, i))
            cr_text_printf(out, "  %s (an entry that it calls)\n", cr_word_infos[i].name);
    if (op->inverse.op)
        cr_text_printf(out, "  inverse   %s\n", op->inverse.name);
    if (op->scatter.op)
        cr_text_printf(out, "  scatter   %s\n", op->scatter.name);
    for (int i = 0; i < op->result_count; i++)
        if (op->format.rule == CR_FORMAT_RULE_COLUMNS && op->format.params >> i & 1)
            cr_text_printf(out, "  format    columns %s\n",
                           *op->result[i].name ? op->result[i].name : "result");
    for (int i = 0; i < op->param_count; i++)
        if (op->format.rule != CR_FORMAT_RULE_COLUMNS && op->format.params >> i & 1)
            cr_text_printf(out, "  format    %s %s\n",
                           op->format.rule == CR_FORMAT_RULE_LIKE        ? "like"
                           : op->format.rule == CR_FORMAT_RULE_STACKED   ? "stacked"
                           : op->format.rule == CR_FORMAT_RULE_IMAGES    ? "images"
                           : op->format.rule == CR_FORMAT_RULE_TRANSFORM ? "transform"
                                                                         : "channels_last",
                           op->param[i].name);
    for (int i = 0; i < op->param_count; i++)
        if (op->updates.params >> i & 1)
            cr_text_printf(out, "  updates   %s when %s\n", op->param[i].name,
                           op->param[op->updates.when].name);
    put_rule(out, "functional", op->functional);
    put_rule(out, "expanded", op->expanded);
    if (op->neutral.param >= 0)
        cr_text_printf(out, "  neutral   %s = %g\n", op->param[op->neutral.param].name,
                       op->neutral.number);
    put_rule(out, "filled", op->filled);
    put_rule(out, "dispatch", op->dispatch.calls);
    for (int i = 0; i < op->param_count; i++)
        if (op->counts >> i & 1)
            cr_text_printf(out, "  counts    %s\n", op->param[i].name);
    for (int i = 0; i < op->onnx_count; i++)
        put_rule(out, "onnx", op->onnx[i]);
}

static void put_window(cr_text *out, const cr_op *op)
{
    static const char *const folds[] = {"add", "above_last_nan"};
    const cr_loop_window *w = op->loop.window;

    if (!w)
        return;
    cr_text_printf(out, "  folds   %s\n", folds[w->how]);
    put_rule(out, "window", op->loop.axis[op->loop.axis_count - 1].count);
    put_rule(out, "inside", w->inside);
    put_rule(out, "divisor", w->divisor);
    put_rule(out, "index", w->index);
}

/* The clauses of an entry that is stated as loops. */
static void put_loop(cr_text *out, const cr_op *op)
{
    if (op->does != CR_DOES_LOOP)
        return;
    cr_text_put(out, "  axes   ");
    for (int i = 0; i < op->loop.axis_count; i++)
        cr_text_printf(out, " %s%s", op->loop.axis[i].name, op->loop.axis[i].pack ? ".." : "");
    cr_text_char(out, '\n');
    for (int i = 0; i < op->loop.index_count; i++)
        cr_text_printf(out, "  index   %s\n", op->param[op->loop.index[i].param].name);
    put_rule(out, "start", op->loop.start);
    put_rule(out, op->loop.adds ? "adds to" : "defines", op->loop.target);
    put_window(out, op);
    put_rule(out, "loop", op->loop.value);
    put_rule(out, "combine", op->loop.combine);
    put_rule(out, "fresh", op->loop.fresh);
}

/* Clauses that the calls of the entry are deferred by. */
static void put_deferral(cr_text *out, const cr_op *op)
{
    for (int i = 0; i < op->param_count; i++)
        if (op->defer.unread >> i & 1)
            cr_text_printf(out, "  unread  %s\n", op->param[i].name);
    if (!op->defer.within)
        return;
    cr_text_printf(out, "  within  %s\n", op->param[op->defer.within->param].name);
    put_rule(out, "from", op->defer.within->low);
    put_rule(out, "below", op->defer.within->high);
}

static void put_record(cr_text *out, const cr_op *op)
{
    cr_op_print_schema(out, op);
    cr_text_printf(out, "\n  %s:%d, number %d, %s\n", op->text.file, op->text.line, op->index,
                   does_names[op->does]);
    cr_text_put(out, "  doc     ");
    cr_clause_put(out, op->text.doc);
    cr_text_char(out, '\n');
    put_forms(out, op);
    put_words(out, op);
    put_rule(out, "type", op->type);
    for (int k = 0; k < op->result_count; k++) {
        put_rule(out, "returns", op->returns[k]);
        put_rule(out, "shape", op->sizes.rule[k]);
    }
    for (int i = 0; i < op->let_count; i++)
        put_rule(out, op->lets[i].name, op->lets[i].rule);
    for (int k = 0; k < op->body_count; k++)
        put_rule(out, op->does == CR_DOES_BODY ? "body" : "is", op->body[k]);
    put_rule(out, op->fold.index ? "index" : "fold", op->fold.rule);
    put_rule(out, op->scan.back ? "scan_back" : "scan", op->scan.rule);
    put_loop(out, op);
    if (op->fn.name)
        cr_text_printf(out, "  C       %s\n", op->fn.name);
    for (int i = 0; i < op->check_count; i++)
        put_rule(out, "refuses", op->checks[i].when);
    for (int i = 0; i < op->warning_count; i++)
        put_rule(out, "warns", op->warnings[i].say.when);
    put_deferral(out, op);
}

static void put_derivatives(cr_text *out, const cr_op *op)
{
    for (int i = 0; i < op->grad_count; i++) {
        cr_text_printf(out, "  d %s: ", op->grads[i].input);
        if (op->grads[i].rule)
            cr_rule_print(out, op->grads[i].rule);
        else
            cr_text_put(out, "none");
        cr_text_char(out, '\n');
    }
}

/* Which functions of the C library are reached, and in which types. */
static cr_status put_libm(cr_text *out, const cr_op *op)
{
    static const cr_dtype types[] = {CR_F32, CR_F64, CR_C64, CR_C128};
    cr_fn_set set[CR_LEN(types)] = {{.count = 0}};
    const char *before = "  calls the C library: ";

    for (size_t t = 0; t < CR_LEN(types); t++)
        CR_TRY(cr_op_libm(&set[t], op, types[t]));
    for (int fn = 0; fn < CR_FN_COUNT; fn++) {
        bool any = false;
        for (size_t t = 0; t < CR_LEN(types); t++) {
            if (!set[t].has[fn])
                continue;
            if (!any)
                cr_text_printf(out, "%s%s (", before, cr_fn_infos[fn].name);
            cr_text_printf(out, "%s%s", any ? " " : "", cr_dtype_name(types[t]));
            any = true;
        }
        cr_text_put(out, any ? ")" : "");
        before = any ? ", " : before;
    }
    cr_text_put(out, *before == ',' ? "\n" : "");
    return CR_OK;
}

typedef struct {
    const cr_op *op;
    cr_dtype t;
    cr_form form;
    cr_text *out;
} kernel_job;

static void explain_text(const kernel_job *j, const cr_nest *n, const cr_dialect *d,
                         const char *language)
{
    const cr_loop *l = n->loop;
    const char *symbol =
        cr_session_printf(l->session, "%s_%s", l->name, cr_dtype_infos[j->t].suffix);
    cr_unit u = {.body = {0}};

    cr_emit(&u, d, n, symbol, NULL);
    cr_text_printf(j->out, "-- %s\n", language);
    cr_text_put(j->out, cr_text_str(&u.body));
    cr_unit_drop(&u);
}

static void explain_kernel(cr_session *s, void *context)
{
    static const char *const form[] = {"main", "columns", "join", "join columns"};
    kernel_job *j = context;
    cr_loop *l = cr_loop_of_op(s, j->op, j->t, j->form);
    cr_nest *n;

    cr_text_printf(j->out, "\n-- %s, %s: program\n", cr_dtype_name(j->t), form[j->form]);
    cr_loop_print(j->out, l);
    cr_loop_simplify(l);
    n = cr_nest_schedule(l);
    cr_text_put(j->out, "-- schedule\n");
    cr_nest_print(j->out, n);
    explain_text(j, n, &cr_dialect_c, "C");
    explain_text(j, n, &cr_dialect_cuda, "CUDA C++");
}

/* Kernels of the first `most` dtypes. */
static void put_kernels(cr_text *out, const cr_op *op, size_t most)
{
    static const cr_dtype types[] = {CR_F32, CR_F64,  CR_I32, CR_I64,
                                     CR_U8,  CR_BOOL, CR_C64, CR_C128};

    for (size_t t = 0; t < CR_LEN(types) && t < most; t++)
        for (int form = 0; form < CR_FORM_COUNT; form++) {
            kernel_job j = {op, types[t], (cr_form)form, out};
            cr_session s = {.status = CR_OK};
            if (!cr_loop_has_form(op, j.form) || !cr_loop_wants(op, j.t))
                continue;
            if (cr_session_run(&s, explain_kernel, &j))
                cr_text_printf(out, "\n-- %s: none: %s\n", cr_dtype_name(j.t),
                               cr_error_message());
            cr_session_drop(&s);
        }
}

/* --- tests --- */

/* The generated tests of tests/ops; `make check-op` runs them. */
static void put_generated_tests(cr_text *out, const cr_op *op)
{
    bool drawn = strncmp(op->text.sample.at, "none", 4) != 0,
         compared = drawn && op->text.ref.len;

    cr_text_printf(out, "  tests   make check-op OP=%s:", op->name);
    if (drawn)
        cr_text_put(out, " dtypes, strides, fakes, compiled;");
    if (compared) {
        cr_text_put(out, " values against ");
        cr_clause_put(out, op->text.ref);
        cr_text_char(out, ';');
    }
    if (drawn && op->grad_count)
        cr_text_put(out, " gradients against differences;");
    cr_text_put(out, compared ? "\n" : " calls recorded from torch\n");
}

static bool is_name_character(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* True when the file at `path` calls the name: "name(" with no longer name before it. */
static bool file_calls(const char *path, const char *name)
{
    size_t n = strlen(name);
    char line[4096];
    bool found = false;
    FILE *file = fopen(path, "r");

    while (file && !found && fgets(line, sizeof line, file))
        for (char *at = line; !found && (at = strstr(at, name)); at += n)
            found = at[n] == '(' && (at == line || !is_name_character(at[-1]));
    if (file)
        fclose(file);
    return found;
}

/* Files of tests that call the entry by its name, when the working folder is the repository. */
static void put_calling_tests(cr_text *out, const cr_op *op)
{
    static const char *const folders[] = {"tests/python/*.py", "tests/ops/*.py",
                                          "tests/text/*.txt", "tests/c/*.c"};

    for (size_t i = 0; i < CR_LEN(folders); i++) {
        glob_t files = {0};
        if (!glob(folders[i], 0, NULL, &files))
            for (size_t k = 0; k < files.gl_pathc; k++)
                if (file_calls(files.gl_pathv[k], op->name))
                    cr_text_printf(out, "          %s\n", files.gl_pathv[k]);
        globfree(&files);
    }
}

/* --- compositions --- */

typedef struct {
    cr_text *out;
    bool *seen; /* by the entry's index */
} explainer;

static void put_entry(explainer *x, const cr_op *op, size_t dtypes)
{
    put_record(x->out, op);
    put_derivatives(x->out, op);
    if (put_libm(x->out, op))
        cr_text_printf(x->out, "  calls the C library: unknown: %s\n", cr_error_message());
    put_generated_tests(x->out, op);
    put_calling_tests(x->out, op);
    put_kernels(x->out, op, dtypes);
    cr_text_char(x->out, '\n');
}

static void follow_composition(explainer *x, const cr_op *op);

/* Explains the entries that a rule calls, each once. */
static void follow_rule(explainer *x, const cr_rule *r)
{
    if (r->kind == CR_RULE_EACH)
        return; /* a list of integers */
    if (r->kind == CR_RULE_CALL && r->op && r->builtin < 0 && !x->seen[r->op->index]) {
        x->seen[r->op->index] = true;
        cr_text_put(x->out, "-- part: ");
        put_entry(x, r->op, 1);
        follow_composition(x, r->op);
    }
    for (int i = 0; i < r->count; i++)
        follow_rule(x, r->args[i]);
}

static void follow_composition(explainer *x, const cr_op *op)
{
    if (op->does != CR_DOES_IS)
        return;
    for (int i = 0; i < op->let_count; i++)
        follow_rule(x, op->lets[i].rule);
    for (int k = 0; k < op->body_count; k++)
        follow_rule(x, op->body[k]);
}

/* Reads the table without resolving functions, so that entries with missing functions can be
 * explained. */
cr_status crc_read_table(void)
{
    return cr_ops_count() ? CR_OK /* inside of the package's extension */
                          : cr_ops_load(&cr_table_image);
}

int crc_explain(int argc, char **argv)
{
    cr_text out = {0};
    explainer x = {.out = &out};
    const cr_op *op;

    if (argc < 2 || crc_read_table())
        return argc < 2 ? 2 : crc_failed();
    op = cr_ops_find(argv[1]);
    if (!op) {
        fprintf(stderr, "crc: no operator is called '%s'\n", argv[1]);
        return 1;
    }
    x.seen = calloc((size_t)cr_ops_count(), sizeof *x.seen);
    for (; x.seen && op; op = strchr(argv[1], '.') ? NULL : op->next) {
        x.seen[op->index] = true;
        put_entry(&x, op, SIZE_MAX);
        follow_composition(&x, op);
    }
    free(x.seen);
    fputs(cr_text_str(&out), stdout);
    cr_text_drop(&out);
    return 0;
}

int crc_ops(int argc, char **argv)
{
    int count[CR_DOES_COUNT] = {0};

    (void)argc;
    (void)argv;
    if (crc_read_table())
        return crc_failed();
    for (int i = 0; i < cr_ops_count(); i++) {
        const cr_op *op = cr_ops_at(i);
        cr_text line = {0};
        count[op->does]++;
        if (op->does == CR_DOES_INPLACE)
            continue;
        cr_op_print_schema(&line, op);
        printf("%s\n", cr_text_str(&line));
        cr_text_drop(&line);
    }
    for (size_t k = 0; k < CR_LEN(count); k++)
        printf("%5d %s\n", count[k], does_names[k]);
    return 0;
}
