/* Kernels as C99: each definition of a loop program is loops over its axes. */
#include "compile/c_text.h"
#include "loop/nest.h"
#include "num/convert.h"
#include "num/order.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_OPERANDS = CR_PLAN_OPERANDS };

/* A kernel that is printed as C.
 * Invariant: stride has two numbers for each of `operands`; done, start and line have one
 * entry for each expression of `l`; what `start` has is also in `done` at the start of each
 * loop. */
typedef struct {
    cr_session *s;
    cr_text *out;
    cr_c_words *words;
    cr_loop *l;
    const cr_nest *nest;
    const char *name;
    cr_buffer *operand[MOST_OPERANDS];
    const int64_t *stride; /* in bytes, along rows and columns of each operand */
    int operands, depth;
    int64_t columns; /* how many, where the text is for this number; otherwise 0 */
    bool one_row;    /* strides along rows do not matter */
    bool blocks;     /* columns are folded PANEL at a time */
    bool apart;      /* results share no memory with other operands */
    bool *done;      /* by expression id: its value is in scope */
    bool *start;     /* the same before the loops */
    uint32_t *line;  /* by expression id: the reduction whose array has its values, plus 1 */
} kernel_job;

CR_NORETURN static void kernel_refuse(const kernel_job *k, const char *what)
{
    cr_bail(k->s, CR_VALUE, "to_c: the kernel %s has %s, which has no C99 form", k->name, what);
}

const char *cr_c_type(cr_dtype t)
{
    switch (t) {
    case CR_BOOL: return "unsigned char";
    case CR_U8: return "uint8_t";
    case CR_I8: return "int8_t";
    case CR_I16: return "int16_t";
    case CR_I32: return "int32_t";
    case CR_I64: return "int64_t";
    case CR_F32: return "float";
    case CR_F64: return "double";
    default: return NULL;
    }
}

static const char *value_type(const kernel_job *k, const cr_expr *e)
{
    const char *type = e->dtype == CR_BOOL ? "int" : cr_c_type((cr_dtype)e->dtype);

    if (!type)
        kernel_refuse(k, cr_dtype_name((cr_dtype)e->dtype));
    return type;
}

static const char *suffix_of(cr_dtype t) { return t == CR_F64 ? "f64" : "f32"; }

static void put_float(cr_text *out, double d, const char *end)
{
    if (isnan(d))
        cr_text_put(out, "NAN");
    else if (isinf(d))
        cr_text_put(out, d < 0 ? "(-INFINITY)" : "INFINITY");
    else
        cr_text_printf(out, d < 0 || signbit(d) ? "(%a%s)" : "%a%s", d, end);
}

static void put_integer(cr_text *out, int64_t i)
{
    if (i == INT64_MIN)
        cr_text_put(out, "(-INT64_C(9223372036854775807) - 1)");
    else if (i >= INT32_MIN + 1ll && i <= INT32_MAX)
        cr_text_printf(out, i < 0 ? "(%lld)" : "%lld", (long long)i);
    else
        cr_text_printf(out, i < 0 ? "(-INT64_C(%lld))" : "INT64_C(%lld)",
                       i < 0 ? -(long long)i : (long long)i);
}

static void put_scalar(cr_text *out, cr_dtype t, cr_scalar v)
{
    if (v.category == CR_CAT_FLOAT || cr_dtype_is_float(t))
        put_float(out, cr_scalar_as_double(v), t == CR_F32 ? "f" : "");
    else
        put_integer(out, t == CR_BOOL ? v.i != 0 : v.i);
}

void cr_c_literal(cr_text *out, cr_dtype t, const void *element)
{
    put_scalar(out, t, cr_scalar_load(t, element));
}

static void indent(const kernel_job *k)
{
    for (int i = 0; i < k->depth; i++)
        cr_text_put(k->out, "    ");
}

/* --- axes --- */

static void open_loop(kernel_job *k, const cr_axis *a)
{
    const char *i = a->index->name;

    indent(k);
    cr_text_printf(k->out, "for (int64_t %s = 0; %s < ", i, i);
    cr_sym_print(k->out, a->extent);
    cr_text_printf(k->out, "; %s++) {\n", i);
    k->depth++;
}

static void close_loop(kernel_job *k)
{
    k->depth--;
    indent(k);
    cr_text_put(k->out, "}\n");
}

/* --- values --- */

static int operand_number(const kernel_job *k, const cr_buffer *b)
{
    for (int i = 0; i < k->operands; i++)
        if (k->operand[i] == b)
            return i;
    kernel_refuse(k, "a local array");
}

/* The address of an element, as an expression of type T *. */
static void put_place(kernel_job *k, const cr_buffer *b, const cr_sym *const *index,
                      const char *qualified)
{
    int n = operand_number(k, b);
    const char *type = cr_c_type((cr_dtype)b->dtype);

    if (!type)
        kernel_refuse(k, cr_dtype_name((cr_dtype)b->dtype));
    cr_text_printf(k->out, "*(%s%s *)(%svoid *)(p%d", qualified, type, qualified, n);
    for (int d = 0; d < b->ndim; d++) {
        bool row = !k->nest->one_row && cr_same_name(b->size[d], k->nest->row.extent);
        if (!index[d] || index[d]->kind != CR_SYM_NAME)
            kernel_refuse(k, "an index that is no axis");
        if (!row && !cr_same_name(b->size[d], k->nest->column.extent))
            kernel_refuse(k, "a dim that is neither rows nor columns");
        int64_t step = k->stride[2 * n + !row];
        if (step && !(row && k->one_row))
            cr_text_printf(k->out, " + %s * %lld", index[d]->name, (long long)step);
    }
    cr_text_put(k->out, ")");
}

static void put_name(kernel_job *k, const cr_expr *e)
{
    const cr_expr *of = e->kind == CR_EXPR_INDEX_OF ? e->args[0] : e;

    cr_text_printf(k->out, "%c%u",
                   of != e                     ? 'x'
                   : e->kind == CR_EXPR_REDUCE ? 'r'
                                               : 'v',
                   of->id);
}

/* Functions that are operators of C, by their names: of floats and truths, and of integers. */
static const struct {
    const char *name, *floats, *integers;
} operators[] = {{"add", "%a + %b", "(%t)((uint64_t)%a + (uint64_t)%b)"},
                 {"sub", "%a - %b", "(%t)((uint64_t)%a - (uint64_t)%b)"},
                 {"mul", "%a * %b", "(%t)((uint64_t)%a * (uint64_t)%b)"},
                 {"div", "%a / %b", NULL},
                 {"neg", "-%a", "(%t)(0 - (uint64_t)%a)"},
                 {"square", "%a * %a", "(%t)((uint64_t)%a * (uint64_t)%a)"},
                 {"eq", "%a == %b", "%a == %b"},
                 {"ne", "%a != %b", "%a != %b"},
                 {"lt", "%a < %b", "%a < %b"},
                 {"le", "%a <= %b", "%a <= %b"},
                 {"gt", "%a > %b", "%a > %b"},
                 {"ge", "%a >= %b", "%a >= %b"},
                 {"isnan", "%a != %a", NULL},
                 {"isinf", "%a - %a != %a - %a && %a == %a", NULL},
                 {"isfinite", "%a - %a == %a - %a", NULL},
                 {"signbit", "signbit(%a) != 0", NULL},
                 {"above", "!(%a <= %b) && %b == %b", "%a > %b"},
                 {"below", "!(%a >= %b) && %b == %b", "%a < %b"},
                 {"maximum", NULL, "%a > %b ? %a : %b"},
                 {"minimum", NULL, "%a < %b ? %a : %b"},
                 {"abs", NULL, "%a < 0 ? (%t)(0 - (uint64_t)%a) : %a"},
                 {"and", NULL, "%a & %b"},
                 {"or", NULL, "%a | %b"},
                 {"xor", NULL, "%a ^ %b"},
                 {"reciprocal", "1 / %a", NULL}};

static void put_template(kernel_job *k, const char *text, const cr_expr *e)
{
    for (; *text; text++) {
        if (*text != '%') {
            cr_text_char(k->out, *text);
            continue;
        }
        text++;
        if (*text == 't')
            cr_text_put(k->out, value_type(k, e->args[0]));
        else
            put_name(k, e->args[*text - 'a']);
    }
}

/* A call of a word: cv_exp_f32(v3); integers have words of int64. */
static void put_word(kernel_job *k, const char *fn, cr_dtype t, const cr_expr *e)
{
    bool real = cr_dtype_is_float(t);
    char name[64];

    snprintf(name, sizeof name, "cv_%s_%s", fn, real ? suffix_of(t) : "i64");
    if (!cr_c_need(k->words, name))
        cr_bail(k->s, CR_VALUE, "to_c: %s of %s, in the kernel %s, has no C99 form", fn,
                cr_dtype_name(t), k->name);
    if (real)
        cr_text_printf(k->out, "%s(", name);
    else
        cr_text_printf(k->out, "(%s)%s(", value_type(k, e), name);
    for (int i = 0; i < e->count; i++) {
        cr_text_put(k->out, i ? ", " : "");
        put_name(k, e->args[i]);
    }
    cr_text_char(k->out, ')');
}

static void put_call(kernel_job *k, const cr_expr *e)
{
    const cr_fn_info *info = &cr_fn_infos[e->fn];
    cr_dtype t = (cr_dtype)e->args[0]->dtype;

    if (info->kind == CR_FN_SELECT) {
        put_template(k, "%a ? %b : %c", e);
        return;
    }
    if (info->kind == CR_FN_CAST) {
        cr_text_printf(k->out, e->dtype == CR_BOOL ? "" : "(%s)", value_type(k, e));
        put_name(k, e->args[0]);
        cr_text_put(k->out, e->dtype == CR_BOOL ? " != 0" : "");
        return;
    }
    if (!strcmp(info->name, "not")) {
        put_template(k, t == CR_BOOL ? "!%a" : "~%a", e);
        return;
    }
    for (size_t i = 0; i < CR_LEN(operators); i++) {
        const char *text = cr_dtype_is_float(t) ? operators[i].floats : operators[i].integers;
        if (text && !strcmp(operators[i].name, info->name)) {
            put_template(k, text, e);
            return;
        }
    }
    put_word(k, info->name, t, e);
}

static void put_load(kernel_job *k, const cr_expr *e)
{
    put_place(k, e->buffer, e->index, "const ");
    if (e->dtype == CR_BOOL)
        cr_text_put(k->out, " != 0");
}

static void put_param(kernel_job *k, const cr_expr *e)
{
    char name[32];

    if (e->dtype == CR_BOOL) {
        cr_text_printf(k->out, "q[%d] != 0", e->param->slot * CR_PARAM_BYTES);
        return;
    }
    snprintf(name, sizeof name, "cv_param_%s", cr_dtype_name((cr_dtype)e->dtype));
    if (!cr_c_need(k->words, name))
        kernel_refuse(k, "a parameter of this type");
    cr_text_printf(k->out, "%s(q + %d)", name, e->param->slot * CR_PARAM_BYTES);
}

/* #i, or an expression of sizes. */
static void put_number(kernel_job *k, const cr_expr *e)
{
    const cr_sym *n = e->index[0];

    if (n->kind != CR_SYM_NAME && n->kind != CR_SYM_INT)
        kernel_refuse(k, "an integer that is no axis");
    cr_text_printf(k->out, "(%s)(", value_type(k, e));
    cr_sym_print(k->out, n);
    cr_text_put(k->out,
                !k->nest->one_row && cr_same_name(n, k->nest->row.index) ? " + first)" : ")");
}

/* --- scans --- */

static void put_line_of(kernel_job *k, const char *text)
{
    indent(k);
    cr_text_put(k->out, text);
    cr_text_char(k->out, '\n');
}

/* Whether a sum or a product has running values in double precision, in runs. */
static bool scan_has_runs(const cr_expr *e)
{
    return !cr_fn_keeps_index((cr_fn)e->fn) && cr_dtype_is_float((cr_dtype)e->dtype);
}

/* Declares the variables of a scan: s, and t, the place of an extreme. */
static void open_scan(kernel_job *k, const cr_expr *e)
{
    const char *fn = cr_fn_infos[e->fn].name;

    indent(k);
    if (scan_has_runs(e)) {
        if (!cr_c_need(k->words, !strcmp(fn, "add") ? "cv_scan_add" : "cv_scan_mul"))
            kernel_refuse(k, "such a scan");
        cr_text_printf(k->out, "cv_scan s%u;\n", e->id);
        indent(k);
        cr_text_printf(k->out, "s%u.count = 0;\n", e->id);
        return;
    }
    cr_text_printf(k->out, "%s s%u = %d;\n", value_type(k, e), e->id, !strcmp(fn, "mul"));
    if (!cr_fn_keeps_index((cr_fn)e->fn))
        return;
    indent(k);
    cr_text_printf(k->out, "int64_t t%u = -1;\n", e->id);
}

/* An extreme and its place: the element is the extreme unless the one so far is beyond it. */
static void put_running_extreme(kernel_job *k, const cr_expr *e, const char *type)
{
    const char *x = !strcmp(cr_fn_infos[e->fn].name, "above") ? ">" : "<";
    unsigned s = e->id, v = e->args[0]->id;

    indent(k);
    if (cr_dtype_is_float((cr_dtype)e->dtype))
        cr_text_printf(k->out, "if (t%u < 0 || v%u != v%u || !(s%u %s v%u || s%u != s%u)) {\n",
                       s, v, v, s, x, v, s, s);
    else
        cr_text_printf(k->out, "if (t%u < 0 || !(s%u %s v%u)) {\n", s, s, x, v);
    indent(k);
    cr_text_printf(k->out, "    s%u = v%u;\n", s, v);
    indent(k);
    cr_text_printf(k->out, "    t%u = %s;\n", s, e->axis.index->name);
    put_line_of(k, "}");
    indent(k);
    cr_text_printf(k->out, "const %s v%u = s%u;\n", type, s, s);
    indent(k);
    cr_text_printf(k->out, "const int64_t x%u = t%u;\n", s, s);
    indent(k);
    cr_text_printf(k->out, "(void)v%u;\n", s);
    indent(k);
    cr_text_printf(k->out, "(void)x%u;\n", s);
}

/* The scan's value after its operand's. */
static void put_scan(kernel_job *k, const cr_expr *e)
{
    const char *type = value_type(k, e), *fn = cr_fn_infos[e->fn].name;
    unsigned s = e->id, v = e->args[0]->id;

    if (cr_fn_keeps_index((cr_fn)e->fn)) {
        put_running_extreme(k, e, type);
        return;
    }
    indent(k);
    if (scan_has_runs(e)) {
        cr_text_printf(k->out, "const %s v%u = (%s)cv_scan_%s(&s%u, v%u);\n", type, s, type, fn,
                       s, v);
        return;
    }
    cr_text_printf(k->out, "const %s v%u = s%u = (%s)((uint64_t)s%u %s (uint64_t)v%u);\n", type,
                   s, s, type, s, !strcmp(fn, "add") ? "+" : "*", v);
}

/* Declares the values that an expression is made of, in order. */
static void declare(kernel_job *k, const cr_expr *e)
{
    if (cr_expr_is_scan_index(e))
        declare(k, e->args[0]);
    if (k->done[e->id] || e->kind == CR_EXPR_REDUCE || e->kind == CR_EXPR_INDEX_OF)
        return;
    if (cr_expr_is_indexed(e))
        kernel_refuse(k, "a computed index");
    if (e->kind == CR_EXPR_SCAN) {
        declare(k, e->args[0]);
        k->done[e->id] = true;
        put_scan(k, e);
        return;
    }
    if (k->line[e->id]) {
        k->done[e->id] = true;
        indent(k);
        cr_text_printf(k->out, "const %s v%u = e%u[%s];\n", value_type(k, e), e->id,
                       k->line[e->id] - 1, k->nest->column.index->name);
        return;
    }
    for (int i = 0; i < e->count; i++)
        declare(k, e->args[i]);
    k->done[e->id] = true;
    indent(k);
    cr_text_printf(k->out, "const %s v%u = ", value_type(k, e), e->id);
    switch ((cr_expr_kind)e->kind) {
    case CR_EXPR_CONST: put_scalar(k->out, (cr_dtype)e->dtype, e->value); break;
    case CR_EXPR_PARAM: put_param(k, e); break;
    case CR_EXPR_LOAD: put_load(k, e); break;
    case CR_EXPR_INTEGER: put_number(k, e); break;
    case CR_EXPR_CALL: put_call(k, e); break;
    default: kernel_refuse(k, "such a value");
    }
    cr_text_put(k->out, ";\n");
}

/* --- reductions --- */

enum { FEW = 8, LINE = 1024 };

/* The sum of lanes that halves of `width` lanes leave in lane `at`, order P of few elements. */
static void put_tree(kernel_job *k, const cr_expr *e, int64_t at, int64_t width)
{
    bool pair = width < k->columns && at + width < k->columns;

    if (width >= k->columns) {
        cr_text_printf(k->out, "e%u[%lld]", e->id, (long long)at);
        return;
    }
    cr_text_put(k->out, pair ? "(" : "");
    put_tree(k, e, at, 2 * width);
    if (pair) {
        cr_text_put(k->out, !strcmp(cr_fn_infos[e->fn].name, "add") ? " + " : " * ");
        put_tree(k, e, at + width, 2 * width);
        cr_text_char(k->out, ')');
    }
}

/* Folds a row of a known length, up to LINE. */
static void put_line(kernel_job *k, const cr_expr *e)
{
    const char *i = e->axis.index->name, *type = value_type(k, e);
    char name[64];

    snprintf(name, sizeof name, "cv_line_%s_%s", cr_fn_infos[e->fn].name,
             suffix_of((cr_dtype)e->dtype));
    indent(k);
    cr_text_printf(k->out, "%s e%u[%lld];\n", type, e->id, (long long)k->columns);
    if (k->columns <= FEW) {
        (void)!cr_c_need(k->words, "CV_EACH");
        indent(k);
        cr_text_put(k->out, "CV_EACH\n");
    }
    open_loop(k, &e->axis);
    declare(k, e->args[0]);
    indent(k);
    cr_text_printf(k->out, "e%u[%s] = ", e->id, i);
    put_name(k, e->args[0]);
    cr_text_put(k->out, ";\n");
    close_loop(k);
    if (e->args[0]->kind == CR_EXPR_CALL && !strcmp(i, k->nest->column.index->name))
        k->line[e->args[0]->id] = e->id + 1;
    indent(k);
    cr_text_printf(k->out, "const %s r%u = ", type, e->id);
    if (k->columns <= FEW) {
        put_tree(k, e, 0, 1);
        cr_text_put(k->out, ";\n");
        return;
    }
    if (!cr_c_need(k->words, name))
        kernel_refuse(k, "such a reduction");
    cr_text_printf(k->out, "%s(e%u, %lld);\n", name, e->id, (long long)k->columns);
}

static void put_ordered(kernel_job *k, const cr_expr *e)
{
    const char *i = e->axis.index->name, *type = value_type(k, e);
    char name[64];

    if (k->columns && cr_expr_lies_along(e->args[0], e->axis.index) &&
        cr_same_name(e->axis.extent, k->nest->column.extent)) {
        put_line(k, e);
        return;
    }
    snprintf(name, sizeof name, "cv_fold_%s_%s_%s",
             cr_expr_lies_along(e->args[0], e->axis.index) ? "row" : "column",
             cr_fn_infos[e->fn].name, suffix_of((cr_dtype)e->dtype));
    if (!cr_c_need(k->words, name))
        kernel_refuse(k, "such a reduction");
    open_loop(k, &e->axis);
    declare(k, e->args[0]);
    indent(k);
    cr_text_printf(k->out, "((%s *)scratch)[%s] = ", type, i);
    put_name(k, e->args[0]);
    cr_text_put(k->out, ";\n");
    close_loop(k);
    indent(k);
    cr_text_printf(k->out, "const %s r%u = %s((%s *)scratch, ", type, e->id, name, type);
    cr_sym_print(k->out, e->axis.extent);
    cr_text_put(k->out, ");\n");
}

/* An extreme with its index: the first element that no other is beyond. */
static void put_indexed(kernel_job *k, const cr_expr *e)
{
    const char *i = e->axis.index->name;
    bool above = !strcmp(cr_fn_infos[e->fn].name, "above"),
         real = cr_dtype_is_float((cr_dtype)e->dtype);
    char test[128], v[16], r[16];

    snprintf(v, sizeof v, "v%u", e->args[0]->id);
    snprintf(r, sizeof r, "r%u", e->id);
    if (real)
        snprintf(test, sizeof test, "!(%s %s %s) && %s == %s", v, above ? "<=" : ">=", r, r, r);
    else
        snprintf(test, sizeof test, "%s %s %s", v, above ? ">" : "<", r);
    indent(k);
    cr_text_printf(k->out, "%s r%u = 0;\n", value_type(k, e), e->id);
    indent(k);
    cr_text_printf(k->out, "int64_t x%u = 0;\n", e->id);
    open_loop(k, &e->axis);
    declare(k, e->args[0]);
    indent(k);
    cr_text_printf(k->out, "if (%s == 0 || (%s)) {\n", i, test);
    indent(k);
    cr_text_printf(k->out, "    r%u = %s;\n", e->id, v);
    indent(k);
    cr_text_printf(k->out, "    x%u = %s;\n", e->id, i);
    indent(k);
    cr_text_put(k->out, "}\n");
    close_loop(k);
    indent(k);
    cr_text_printf(k->out, "(void)r%u;\n", e->id);
    indent(k);
    cr_text_printf(k->out, "(void)x%u;\n", e->id);
}

/* Folds that do not depend on the order. */
static void put_plain(kernel_job *k, const cr_expr *e)
{
    cr_dtype t = (cr_dtype)e->dtype;
    cr_expr step = *e, left = *e;
    const char *fn = cr_fn_infos[e->fn].name;
    bool extreme = !strcmp(fn, "maximum") || !strcmp(fn, "minimum");

    step.kind = CR_EXPR_CALL;
    step.count = 2;
    step.args[1] = e->args[0];
    step.args[0] = &left; /* r: the value so far */
    indent(k);
    cr_text_printf(k->out, "%s r%u = ", value_type(k, e), e->id);
    put_scalar(k->out, t, cr_fn_identity((cr_fn)e->fn, t));
    cr_text_put(k->out, ";\n");
    open_loop(k, &e->axis);
    declare(k, e->args[0]);
    indent(k);
    cr_text_printf(k->out, "r%u = ", e->id);
    put_call(k, &step);
    cr_text_put(k->out, ";\n");
    close_loop(k);
    if (extreme && cr_dtype_is_float(t)) {
        indent(k);
        cr_text_printf(k->out, "r%u = r%u == 0 ? 0 : r%u;\n", e->id, e->id, e->id);
    }
}

static void put_reduction(kernel_job *k, const cr_expr *e)
{
    bool *was = cr_session_copy(k->s, k->done, k->l->nodes + 1);

    if (cr_expr_keeps_index(e))
        put_indexed(k, e);
    else if (cr_fn_has_order((cr_fn)e->fn, (cr_dtype)e->dtype))
        put_ordered(k, e);
    else
        put_plain(k, e);
    memcpy(k->done, was, k->l->nodes + 1);
    k->done[e->id] = true;
}

typedef CR_VEC(const cr_expr *) expr_list;

/* The reductions in an expression that have no value yet, inner ones first. */
static void find_reductions(kernel_job *k, expr_list *found, const cr_expr *e)
{
    for (int i = 0; i < e->count; i++)
        find_reductions(k, found, e->args[i]);
    if (e->kind != CR_EXPR_REDUCE || k->done[e->id])
        return;
    for (size_t i = 0; i < found->len; i++)
        if (found->at[i] == e)
            return;
    CR_PUSH(k->s, found, e);
}

/* --- definitions --- */

static void put_reductions(kernel_job *k, const cr_def *def, int level)
{
    expr_list found = {0};

    find_reductions(k, &found, def->value);
    for (size_t i = 0; i < found.len; i++)
        if (cr_def_level(def, found.at[i]) <= level && !k->done[found.at[i]->id])
            put_reduction(k, found.at[i]);
}

/* Whether a value is the same for all rows and columns and needs no computation. */
static bool is_single(const kernel_job *k, const cr_expr *e)
{
    if (e->kind != CR_EXPR_LOAD)
        return e->kind == CR_EXPR_PARAM || e->kind == CR_EXPR_CONST;
    int n = operand_number(k, e->buffer);
    return e->buffer->role != CR_BUFFER_OUTPUT && !cr_expr_is_indexed(e) && !k->stride[2 * n] &&
           !k->stride[2 * n + 1];
}

static void declare_single(kernel_job *k, const cr_expr *e)
{
    for (int i = 0; i < e->count; i++)
        declare_single(k, e->args[i]);
    if (is_single(k, e))
        declare(k, e);
}

/* The value of the definition, stored at the place `index`. */
static void put_result(kernel_job *k, const cr_def *def, const cr_sym *const *index)
{
    declare(k, def->value);
    indent(k);
    put_place(k, def->target, index, "");
    cr_text_printf(k->out, " = (%s)", cr_c_type((cr_dtype)def->target->dtype));
    put_name(k, def->value);
    cr_text_put(k->out, ";\n");
}

/* The scans in an expression, inner ones first. */
static void find_scans(kernel_job *k, expr_list *found, const cr_expr *e)
{
    for (int i = 0; i < e->count; i++)
        find_scans(k, found, e->args[i]);
    for (size_t i = 0; i < found->len; i++)
        if (found->at[i] == e)
            return;
    if (e->kind == CR_EXPR_SCAN)
        CR_PUSH(k->s, found, e);
}

/* A loop along the axis of scans, in their direction. */
static void open_scans(kernel_job *k, const expr_list *scans, const cr_axis *a)
{
    for (size_t i = 0; i < scans->len; i++)
        open_scan(k, scans->at[i]);
    if (!scans->at[0]->back) {
        open_loop(k, a);
        return;
    }
    indent(k);
    cr_text_put(k->out, "for (int64_t left = ");
    cr_sym_print(k->out, a->extent);
    cr_text_put(k->out, "; left > 0; left--) {\n");
    k->depth++;
    indent(k);
    cr_text_printf(k->out, "const int64_t %s = left - 1;\n", a->index->name);
}

/* A definition with scans: the last loop is along their axis. */
static void put_scanned(kernel_job *k, const cr_def *def, const expr_list *scans)
{
    const cr_sym *index[CR_LOOP_DIMS] = {0};
    expr_list folds = {0};
    int along = -1;

    for (int a = 0; a < def->axes; a++) {
        index[a] = def->axis[a].index;
        along = cr_same_name(index[a], scans->at[0]->axis.index) ? a : along;
    }
    for (size_t i = 0; i < scans->len; i++)
        if (along < 0 || !cr_same_name(scans->at[i]->axis.index, index[along]) ||
            scans->at[i]->back != scans->at[0]->back)
            kernel_refuse(k, "scans along several axes");
    find_reductions(k, &folds, def->value);
    if (folds.len && along != def->axes - 1)
        kernel_refuse(k, "a scan of rows with folds");
    for (int a = 0; a < def->axes; a++) {
        put_reductions(k, def, a);
        if (a != along)
            open_loop(k, &def->axis[a]);
    }
    open_scans(k, scans, &def->axis[along]);
    put_result(k, def, index);
    for (int a = 0; a < def->axes; a++)
        close_loop(k);
}

static bool reads_result(const cr_expr *e)
{
    bool found = e->kind == CR_EXPR_LOAD && e->buffer->role == CR_BUFFER_OUTPUT;

    for (int i = 0; i < e->count && !found; i++)
        found = reads_result(e->args[i]);
    return found;
}

static bool has_axis(const cr_def *def, int level, const cr_axis *a)
{
    return level < def->axes && cr_same_name(def->axis[level].index, a->index) &&
           cr_same_name(def->axis[level].extent, a->extent);
}

/* How many of the n definitions have the first one's loop at this level. */
static int count_alike(const cr_def *const *def, int n, int level)
{
    int count = 1;

    while (count < n && level < def[0]->axes &&
           has_axis(def[count], level, &def[0]->axis[level]))
        count++;
    return count;
}

/* Whether the body of the loop at this level has no loop. */
static bool is_innermost(kernel_job *k, const cr_def *const *def, int n, int level)
{
    expr_list found = {0};
    bool inner = false;

    for (int i = 0; i < n && !inner; i++) {
        find_reductions(k, &found, def[i]->value);
        inner = def[i]->axes > level + 1;
    }
    return !inner && !found.len;
}

/* Definitions that have the same loops outside of this level.  Values that several of them need
 * are computed once. */
static void put_definitions(kernel_job *k, const cr_def *const *def, int n, int level)
{
    const cr_sym *index[CR_LOOP_DIMS] = {0};

    for (int i = 0; i < n; i++)
        put_reductions(k, def[i], level);
    for (int i = 0, count; i < n; i += count) {
        count = count_alike(def + i, n - i, level);
        if (def[i]->axes == level) {
            count = 1;
            for (int a = 0; a < level; a++)
                index[a] = def[i]->axis[a].index;
            put_result(k, def[i], index);
            continue;
        }
        bool *done = cr_session_copy(k->s, k->done, k->l->nodes + 1);
        uint32_t *line = cr_session_copy(k->s, k->line, (k->l->nodes + 1) * sizeof *line);
        if (k->apart && is_innermost(k, def + i, count, level)) {
            (void)!cr_c_need(k->words, "CV_APART");
            indent(k);
            cr_text_put(k->out, "CV_APART\n");
        }
        open_loop(k, &def[i]->axis[level]);
        put_definitions(k, def + i, count, level + 1);
        close_loop(k);
        memcpy(k->done, done, k->l->nodes + 1);
        memcpy(k->line, line, (k->l->nodes + 1) * sizeof *line);
    }
}

/* --- folds of columns --- */

enum { PANEL = 16 };

static bool has_reduction(const cr_expr *e)
{
    bool found = e->kind == CR_EXPR_REDUCE;

    for (int i = 0; i < e->count && !found; i++)
        found = has_reduction(e->args[i]);
    return found;
}

/* Whether a reduction folds columns in order, and may fold a few of them at a time. */
static bool folds_columns(const kernel_job *k, const cr_expr *e)
{
    return e->kind == CR_EXPR_REDUCE && !cr_expr_keeps_index(e) &&
           cr_fn_has_order((cr_fn)e->fn, (cr_dtype)e->dtype) &&
           !cr_expr_lies_along(e->args[0], e->axis.index) && !has_reduction(e->args[0]) &&
           cr_same_name(e->axis.extent, k->nest->row.extent);
}

static bool folds_only_columns(const kernel_job *k, const cr_expr *e)
{
    if (e->kind == CR_EXPR_REDUCE || e->kind == CR_EXPR_INDEX_OF)
        return folds_columns(k, e);
    for (int i = 0; i < e->count; i++)
        if (!folds_only_columns(k, e->args[i]))
            return false;
    return true;
}

/* Whether a program of columns is printed for blocks of them: its launch has up to one part of
 * order P's rows, and no result shares memory with what other columns read. */
static bool has_blocks(const kernel_job *k, const cr_launch *l, bool apart)
{
    bool blocks = k->nest->kind == CR_NEST_COLUMNS && apart && l->size[1] &&
                  (l->stride[0] || l->size[0] <= CR_FOLD_COLUMN);

    for (size_t i = 0; i < k->l->defs.len && blocks; i++) {
        const cr_def *def = k->l->defs.at[i];
        blocks = def->target->role == CR_BUFFER_OUTPUT && def->axes == 1 &&
                 folds_only_columns(k, def->value);
    }
    return blocks;
}

/* A loop over `n` columns from `at` on. */
static void open_panel(kernel_job *k, const char *j, int64_t n)
{
    indent(k);
    cr_text_printf(k->out, "for (int64_t %s = at; %s < at + %lld; %s++) {\n", j, j,
                   (long long)n, j);
    k->depth++;
}

/* Folds `n` columns from `at` on: e has the results. */
static void put_panel(kernel_job *k, const cr_expr *e, const char *j, int64_t n)
{
    const char *i = e->axis.index->name, *type = value_type(k, e),
               *fn = cr_fn_infos[e->fn].name, *t = suffix_of((cr_dtype)e->dtype);
    bool *was = cr_session_copy(k->s, k->done, k->l->nodes + 1);
    char name[64];

    snprintf(name, sizeof name, "cv_columns_%s_%s", fn, t);
    if (!cr_c_need(k->words, name))
        kernel_refuse(k, "such a reduction");
    indent(k);
    cr_text_printf(k->out, "%s e%u[8][%d], a%u[4][%d];\n", type, e->id, PANEL, e->id, PANEL);
    put_line_of(k, "for (int64_t block = 0; 64 * block < R; block++) {");
    k->depth++;
    indent(k);
    cr_text_printf(k->out, "cv_open_%s_%s(a%u);\n", fn, t, e->id);
    indent(k);
    cr_text_printf(k->out,
                   "for (int64_t %s = 64 * block; %s < R && %s < 64 * block + 64; %s++) {\n", i,
                   i, i, i);
    k->depth++;
    open_panel(k, j, n);
    declare(k, e->args[0]);
    indent(k);
    cr_text_printf(k->out, "a%u[%s %% 4][%s - at] = a%u[%s %% 4][%s - at] %s ", e->id, i, j,
                   e->id, i, j, !strcmp(fn, "add") ? "+" : "*");
    put_name(k, e->args[0]);
    cr_text_put(k->out, ";\n");
    close_loop(k);
    close_loop(k);
    indent(k);
    cr_text_printf(k->out, "cv_close_%s_%s(a%u, e%u[block]);\n", fn, t, e->id, e->id);
    close_loop(k);
    indent(k);
    cr_text_printf(k->out, "cv_columns_%s_%s(e%u, (R + 63) / 64);\n", fn, t, e->id);
    memcpy(k->done, was, k->l->nodes + 1);
}

/* The values of a definition in `n` columns from `at` on. */
static void put_columns(kernel_job *k, const cr_def *def, const expr_list *folds, int64_t n)
{
    const cr_sym *index[CR_LOOP_DIMS] = {def->axis[0].index};
    const char *j = index[0]->name;
    bool *was = cr_session_copy(k->s, k->done, k->l->nodes + 1);

    for (size_t i = 0; i < folds->len; i++)
        put_panel(k, folds->at[i], j, n);
    open_panel(k, j, n);
    for (size_t i = 0; i < folds->len; i++) {
        const cr_expr *e = folds->at[i];
        indent(k);
        cr_text_printf(k->out, "const %s r%u = e%u[0][%s - at];\n", value_type(k, e), e->id,
                       e->id, j);
        k->done[e->id] = true;
    }
    put_result(k, def, index);
    close_loop(k);
    memcpy(k->done, was, k->l->nodes + 1);
}

static void put_blocks(kernel_job *k, const cr_def *def)
{
    int64_t whole = k->columns / PANEL * PANEL;
    expr_list folds = {0};

    memcpy(k->done, k->start, k->l->nodes + 1);
    find_reductions(k, &folds, def->value);
    if (whole) {
        indent(k);
        cr_text_printf(k->out, "for (int64_t at = 0; at < %lld; at += %d) {\n",
                       (long long)whole, PANEL);
        k->depth++;
        put_columns(k, def, &folds, PANEL);
        close_loop(k);
    }
    if (k->columns == whole)
        return;
    put_line_of(k, "{");
    k->depth++;
    indent(k);
    cr_text_printf(k->out, "const int64_t at = %lld;\n", (long long)whole);
    put_columns(k, def, &folds, k->columns - whole);
    close_loop(k);
}

static void put_extent(kernel_job *k, const cr_axis *a, const char *of)
{
    if (a->extent && a->extent->kind == CR_SYM_NAME && strcmp(a->extent->name, of))
        cr_text_printf(k->out, "    const int64_t %s = %s;\n", a->extent->name, of);
}

/* The operands' addresses; results do not share memory with others if they are apart. */
static void put_pointers(kernel_job *k, bool apart)
{
    for (int i = 0; i < k->operands; i++)
        cr_text_printf(k->out, "    %sunsigned char *%sconst p%d = p[%d];\n",
                       k->operand[i]->role == CR_BUFFER_OUTPUT ? "" : "const ",
                       apart && k->operand[i]->role == CR_BUFFER_OUTPUT ? "restrict " : "", i,
                       i);
    cr_text_char(k->out, '\n');
}

static bool is_output(const cr_def *def) { return def->target->role == CR_BUFFER_OUTPUT; }

static void put_body(kernel_job *k)
{
    const cr_def **def = CR_NEW_N(k->s, const cr_def *, k->l->defs.len + 1);
    int n = 0;

    for (size_t i = 0; i < k->l->defs.len; i++)
        if (is_output(k->l->defs.at[i]))
            declare_single(k, k->l->defs.at[i]->value);
    k->start = cr_session_copy(k->s, k->done, k->l->nodes + 1);
    for (size_t i = 0; i < k->l->defs.len; i++)
        if (is_output(k->l->defs.at[i])) {
            if (k->blocks)
                put_blocks(k, k->l->defs.at[i]);
            else
                def[n++] = k->l->defs.at[i];
        }
    for (int i = 0, count; i < n; i += count) {
        expr_list scans = {0}, next = {0};
        find_scans(k, &scans, def[i]->value);
        for (count = 1; i + count < n && k->apart && !scans.len; count++) {
            find_scans(k, &next, def[i + count]->value);
            if (next.len || reads_result(def[i + count]->value))
                break;
        }
        memcpy(k->done, k->start, k->l->nodes + 1);
        memset(k->line, 0, (k->l->nodes + 1) * sizeof *k->line);
        if (scans.len)
            put_scanned(k, def[i], &scans);
        else
            put_definitions(k, def + i, count, 0);
    }
}

/* Whether the values of columns depend on other columns, or on their own number. */
static bool is_by_itself(const cr_expr *e)
{
    if (e->kind == CR_EXPR_REDUCE || e->kind == CR_EXPR_SCAN || e->kind == CR_EXPR_INTEGER ||
        e->kind == CR_EXPR_INDEX_OF || cr_expr_is_indexed(e))
        return false;
    for (int i = 0; i < e->count; i++)
        if (!is_by_itself(e->args[i]))
            return false;
    return true;
}

/* Whether an expression has a sum or product of a row in order P. */
static bool folds_row(const cr_expr *e)
{
    bool found = e->kind == CR_EXPR_REDUCE && !cr_expr_keeps_index(e) &&
                 cr_fn_has_order((cr_fn)e->fn, (cr_dtype)e->dtype) &&
                 cr_expr_lies_along(e->args[0], e->axis.index);

    for (int i = 0; i < e->count && !found; i++)
        found = folds_row(e->args[i]);
    return found;
}

/* Kernels that fold rows of up to LINE columns, and those of a few columns, are printed for
 * that number.  split: a call may have a part of the columns. */
static int64_t fixed_columns(const kernel_job *k, const cr_launch *l, bool split)
{
    int64_t n = l->size[1];
    bool folds = n <= FEW && !split;

    for (size_t i = 0; i < k->l->defs.len; i++)
        folds = folds || folds_row(k->l->defs.at[i]->value);
    return folds && n <= LINE ? n : 0;
}

int cr_c_line_outputs(cr_session *s, const cr_launch *l)
{
    const cr_plan_kernel *source = l->code;
    cr_loop *loop = cr_loop_parse(s, source->program);
    cr_buffer *operand[MOST_OPERANDS];
    int n = cr_loop_operands(loop, operand, MOST_OPERANDS), outputs = 0;

    for (int i = 0; i < n; i++)
        outputs += operand[i]->role == CR_BUFFER_OUTPUT;
    cr_loop_fuse(loop);
    for (size_t i = 0; i < loop->defs.len; i++)
        if (!is_by_itself(loop->defs.at[i]->value))
            return 0;
    return cr_nest_schedule(loop)->kind == CR_NEST_ROWS ? outputs : 0;
}

static void note_forms(const kernel_job *k, cr_c_printed *of)
{
    of->outputs = 0;
    for (int i = 0; i < k->operands; i++)
        of->outputs += k->operand[i]->role == CR_BUFFER_OUTPUT;
    of->columns = k->nest->kind == CR_NEST_COLUMNS;
    of->whole = k->nest->scans.count && k->nest->scans_rows;
    of->splits = true;
    for (size_t i = 0; i < k->l->defs.len; i++)
        of->splits = of->splits && is_by_itself(k->l->defs.at[i]->value);
}

void cr_c_kernel(cr_session *s, cr_text *out, cr_c_words *w, cr_c_printed *of,
                 const char *symbol)
{
    const cr_launch *l = of->of;
    const cr_plan_kernel *source = l->code;
    kernel_job k = {.s = s,
                    .out = out,
                    .words = w,
                    .name = source->name,
                    .depth = 1,
                    .stride = l->stride,
                    .one_row = l->size[0] == 1};
    static const char *const arguments[] = {"R", "C", "first", "q", "scratch"};

    k.l = cr_loop_parse(s, source->program);
    cr_loop_fuse(k.l);
    k.nest = cr_nest_schedule(k.l);
    k.operands = cr_loop_operands(k.l, k.operand, MOST_OPERANDS);
    k.done = CR_NEW_N(s, bool, k.l->nodes + 1);
    k.line = CR_NEW_N(s, uint32_t, k.l->nodes + 1);
    note_forms(&k, of);
    if (!of->columns_vary && !of->columns)
        k.columns = fixed_columns(&k, l, of->varies && of->splits);
    k.blocks = !of->columns_vary && has_blocks(&k, l, of->apart);
    k.columns = k.blocks ? l->size[1] : k.columns;
    k.apart = of->apart;
    of->blocks = k.blocks;
    of->fixed = k.columns;
    cr_text_printf(out,
                   "/* %s */\nstatic void %s(unsigned char *const *p, int64_t R, int64_t %s, "
                   "int64_t first,\n    const unsigned char *q, void *scratch%s)\n{\n",
                   source->name, symbol, k.columns ? "given" : "C",
                   of->varies ? ", int64_t varying" : "");
    if (k.columns)
        cr_text_printf(out, "    const int64_t C = %lld;\n", (long long)k.columns);
    put_extent(&k, &k.nest->row, "R");
    put_extent(&k, &k.nest->column, "C");
    put_pointers(&k, of->apart);
    put_body(&k);
    for (size_t i = 0; i < CR_LEN(arguments); i++)
        cr_text_printf(out, "    (void)%s;\n", arguments[i]);
    cr_text_put(out, k.columns ? "    (void)given;\n" : "");
    cr_text_put(out, of->varies ? "    (void)varying;\n" : "");
    for (int i = 0; i < k.operands; i++)
        cr_text_printf(out, "    (void)p%d;\n", i);
    cr_text_put(out, "}\n\n");
}
