/* crc explain, crc ops - prints the operator table and everything derived from it. */
#include "crc.h"
#include "emit/emit.h"
#include "graph/graph.h"
#include "jit/generated.h"
#include "loop/build.h"
#include "loop/libm.h"
#include <stdio.h>
#include <string.h>

static const char *const does_names[] = {
    [CR_DOES_BODY] = "body: elementwise",  [CR_DOES_FOLD] = "fold: reduction",
    [CR_DOES_MAP] = "map: view",           [CR_DOES_IS] = "is: composition",
    [CR_DOES_EXTERN] = "extern: C on views", [CR_DOES_WHOLE] = "whole: C on tensors",
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
    static const char *const names[] = {"function", "method", "inplace", "out", "nn", "c"};

    cr_text_put(out, "  forms   ");
    for (size_t i = 0; i < CR_LEN(names); i++)
        if (op->forms >> i & 1)
            cr_text_printf(out, "%s ", names[i]);
    cr_text_put(out, op->forms ? "\n" : "internal\n");
}

/* A line a word, with what it promises. */
static void put_words(cr_text *out, const cr_op *op)
{
    for (int i = 0; i < CR_WORD_COUNT; i++)
        if (op->words >> i & 1)
            cr_text_printf(out, "  %-9s %s\n", cr_word_infos[i].name, cr_word_infos[i].promise);
    for (int i = CR_WORD_BIT_RAISES_BY_VALUES; i <= CR_WORD_BIT_SIZED_BY_VALUES; i++)
        if (!(op->words >> i & 1) && cr_op_reaches(op, i))
            cr_text_printf(out, "  %s (an entry that it calls)\n", cr_word_infos[i].name);
    if (op->inverse)
        cr_text_printf(out, "  inverse   %s\n", op->inverse_name);
    if (op->scatter)
        cr_text_printf(out, "  scatter   %s\n", op->scatter_name);
    for (int i = 0; i < op->param_count; i++)
        if (op->updates >> i & 1)
            cr_text_printf(out, "  updates   %s when %s\n", op->param[i].name,
                           op->param[op->updates_when].name);
    put_rule(out, "functional", op->functional);
    if (op->neutral_param >= 0)
        cr_text_printf(out, "  neutral   %s = %g\n", op->param[op->neutral_param].name,
                       op->neutral);
    put_rule(out, "filled", op->filled);
}

static void put_record(cr_text *out, const cr_op *op)
{
    cr_op_print_schema(out, op);
    cr_text_printf(out, "\n  %s:%d, number %d, %s\n", op->file, op->line, op->index,
                   does_names[op->does]);
    cr_text_printf(out, "  doc     %s\n", op->doc);
    put_forms(out, op);
    put_words(out, op);
    put_rule(out, "type", op->type);
    for (int k = 0; k < op->result_count; k++) {
        put_rule(out, "returns", op->returns[k]);
        put_rule(out, "shape", op->shape[k]);
    }
    for (int i = 0; i < op->let_count; i++)
        put_rule(out, op->lets[i].name, op->lets[i].rule);
    for (int k = 0; k < op->body_count; k++)
        put_rule(out, op->does == CR_DOES_IS ? "is" : "body", op->body[k]);
    put_rule(out, "fold", op->fold);
    if (op->extern_name)
        cr_text_printf(out, "  C       %s\n", op->extern_name);
    for (int i = 0; i < op->check_count; i++)
        put_rule(out, "refuses", op->checks[i].when);
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

static void explain_kernel(cr_session *s, void *context)
{
    static const char *const form[] = {"main", "columns", "join", "join columns"};
    kernel_job *j = context;
    cr_loop *l = cr_loop_of_op(s, j->op, j->t, j->form);
    cr_unit u = {.body = {0}};
    cr_nest *n;

    cr_text_printf(j->out, "\n-- %s, %s: program\n", cr_dtype_name(j->t), form[j->form]);
    cr_loop_print(j->out, l);
    cr_loop_simplify(l);
    n = cr_nest_schedule(l);
    cr_text_put(j->out, "-- schedule\n");
    cr_nest_print(j->out, n);
    cr_emit_c(&u, n, cr_session_printf(s, "%s_%s", l->name, cr_dtype_infos[j->t].suffix));
    cr_text_put(j->out, "-- C\n");
    cr_text_put(j->out, cr_text_str(&u.body));
    cr_unit_drop(&u);
}

static void put_kernels(cr_text *out, const cr_op *op)
{
    static const cr_dtype types[] = {CR_F32, CR_F64,  CR_I32, CR_I64,
                                     CR_U8,  CR_BOOL, CR_C64, CR_C128};

    for (size_t t = 0; t < CR_LEN(types); t++)
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

/* Reads the table without resolving functions, so that entries with missing functions can be
 * explained. */
static cr_status read_table(void)
{
    for (int i = 0; i < cr_table_text_count; i++)
        CR_TRY(cr_ops_read(cr_table_texts[i].file, cr_table_texts[i].text,
                           cr_table_texts[i].len));
    return cr_ops_resolve();
}

int crc_explain(int argc, char **argv)
{
    cr_text out = {0};
    const cr_op *op;

    if (argc < 2 || read_table())
        return argc < 2 ? 2 : crc_failed();
    op = cr_ops_find(argv[1]);
    if (!op) {
        fprintf(stderr, "crc: no operator is called '%s'\n", argv[1]);
        return 1;
    }
    for (; op; op = strchr(argv[1], '.') ? NULL : op->next) {
        put_record(&out, op);
        put_derivatives(&out, op);
        if (put_libm(&out, op))
            return crc_failed();
        put_kernels(&out, op);
        cr_text_char(&out, '\n');
    }
    fputs(cr_text_str(&out), stdout);
    cr_text_drop(&out);
    return 0;
}

int crc_ops(int argc, char **argv)
{
    int count[CR_DOES_INPLACE + 1] = {0};

    (void)argc;
    (void)argv;
    if (read_table())
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
