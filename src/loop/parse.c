/* Programs from text; the grammar is loop.h's and print.c's.
 *
 *   input x: f64[R, C]    output y: f32[R]    param s: f32 @0     declarations, optional
 *   y[i<R, j<C] = x[i, j] * s + add[k<C](x[i, k])                 definitions
 *   k[i<R] = index(above[j<C](x[i, j]))                           a reduction's index
 *   y[i<R, j<C] = scan add[j<C](x[i, j])                          a scan; also scan_back
 *   y[i<R, j<C] = x[$ids[i], j] + w[$(ids[i] + i64(#j))]          computed indices
 *
 * A name that is read with indices and not defined before is a float32 input, whose sizes are
 * the extents of its indices; any other name is a float32 parameter.  A definition that a later
 * one reads is local, others are outputs.  A literal takes its neighbours' type. */
#include "loop/loop.h"
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_AXES = 16, MOST_ARGS = 3 };

typedef struct {
    cr_loop *l;
    cr_session *s;
    const char *at;
    int line;
    cr_axis axis[MOST_AXES]; /* in scope, innermost last */
    int axes;
} parser;

/* An operand; a bare literal has no type yet. */
typedef struct {
    const cr_expr *e; /* NULL: literal */
    cr_scalar number;
} operand;

CR_NORETURN static void parser_fail(parser *p, const char *what)
{
    cr_bail(p->s, CR_VALUE, "line %d: %s at '%.24s'", p->line, what, p->at);
}

static void parser_skip(parser *p)
{
    while (*p->at == ' ' || *p->at == '\t')
        p->at++;
}

static bool looking_at(parser *p, const char *sign)
{
    parser_skip(p);
    return !strncmp(p->at, sign, strlen(sign));
}

static bool parser_take(parser *p, const char *sign)
{
    if (!looking_at(p, sign))
        return false;
    p->at += strlen(sign);
    return true;
}

static void parser_expect(parser *p, const char *sign)
{
    if (!parser_take(p, sign))
        parser_fail(p, cr_session_printf(p->s, "expected '%s'", sign));
}

static bool is_name_char(char c) { return isalnum((unsigned char)c) || c == '_'; }

static const char *take_name(parser *p)
{
    const char *from;
    char *name;
    size_t n;

    parser_skip(p);
    from = p->at;
    if (!isalpha((unsigned char)*from) && *from != '_')
        parser_fail(p, "expected a name");
    while (is_name_char(*p->at))
        p->at++;
    n = (size_t)(p->at - from);
    name = CR_NEW_N(p->s, char, n + 1);
    memcpy(name, from, n);
    return name;
}

static bool take_word(parser *p, const char *word)
{
    parser_skip(p);
    if (strncmp(p->at, word, strlen(word)) || is_name_char(p->at[strlen(word)]))
        return false;
    p->at += strlen(word);
    return true;
}

static bool looking_at_name(parser *p)
{
    parser_skip(p);
    return isalpha((unsigned char)*p->at) != 0;
}

static const cr_sym *take_integer(parser *p) { return cr_sym_parse(p->l->syms, &p->at); }

static cr_axis take_axis(parser *p)
{
    const char *name = take_name(p);
    cr_axis a;

    parser_expect(p, "<");
    a.extent = take_integer(p);
    a.index = cr_sym_name(p->l->syms, name, 0, CR_SYM_HIGH);
    return a;
}

static void parser_add_axis(parser *p, cr_axis a)
{
    if (p->axes == MOST_AXES)
        parser_fail(p, "too many axes");
    p->axis[p->axes++] = a;
}

/* --- values --- */

static operand operand_of_expr(const cr_expr *e) { return (operand){.e = e}; }
static operand operand_of_number(cr_scalar n) { return (operand){.number = n}; }

static const cr_expr *typed(parser *p, operand v, cr_dtype t)
{
    return v.e ? v.e : cr_expr_const(p->l, t, v.number);
}

static const cr_expr *any_type(parser *p, operand v)
{
    return typed(p, v, v.number.category == CR_CAT_COMPLEX ? CR_C64 : CR_F32);
}

static operand parse_expr(parser *p);

/* The type that literals among the arguments take. */
static cr_dtype shared_type(const operand *v, int first, int n)
{
    for (int i = first; i < n; i++)
        if (v[i].e)
            return (cr_dtype)v[i].e->dtype;
    for (int i = first; i < n; i++)
        if (v[i].number.category == CR_CAT_COMPLEX)
            return CR_C64;
    return CR_F32;
}

static operand parser_call(parser *p, cr_fn fn, operand *v, int n)
{
    int first = cr_fn_infos[fn].kind == CR_FN_SELECT ? 1 : 0;
    cr_dtype t = shared_type(v, first, n);
    const cr_expr *args[MOST_ARGS];

    if (n != cr_fn_infos[fn].args)
        parser_fail(p, cr_session_printf(p->s, "wrong number of arguments for %s",
                                         cr_fn_infos[fn].name));
    for (int i = 0; i < n; i++)
        args[i] = typed(p, v[i], i < first ? CR_BOOL : t);
    return operand_of_expr(cr_expr_call(p->l, fn, n, args));
}

static int parse_args(parser *p, operand *v)
{
    int n = 0;

    parser_expect(p, "(");
    if (parser_take(p, ")"))
        return 0;
    do {
        if (n == MOST_ARGS)
            parser_fail(p, "too many arguments");
        v[n++] = parse_expr(p);
    } while (parser_take(p, ","));
    parser_expect(p, ")");
    return n;
}

/* combine[axis](expression); the axis is in scope inside only. */
static operand parse_reduce(parser *p, cr_fn fn)
{
    operand v[MOST_ARGS];
    cr_axis a;

    parser_expect(p, "[");
    a = take_axis(p);
    parser_expect(p, "]");
    parser_add_axis(p, a);
    if (parse_args(p, v) != 1)
        parser_fail(p, "a reduction has one argument");
    p->axes--;
    return operand_of_expr(cr_expr_reduce(p->l, fn, a, any_type(p, v[0])));
}

/* scan combine[axis](expression), along an axis in scope */
static operand parse_scan(parser *p, bool back)
{
    const char *name = take_name(p);
    int fn = cr_fn_find(name);
    operand v[MOST_ARGS];
    cr_axis a;

    if (fn < 0)
        parser_fail(p, cr_session_printf(p->s, "no function is called '%s'", name));
    parser_expect(p, "[");
    a = take_axis(p);
    parser_expect(p, "]");
    if (parse_args(p, v) != 1)
        parser_fail(p, "a scan has one argument");
    return operand_of_expr(cr_expr_scan(p->l, (cr_fn)fn, back, a, any_type(p, v[0])));
}

static const cr_sym *extent_of(parser *p, const cr_sym *index)
{
    for (int i = p->axes - 1; i >= 0; i--)
        if (p->axis[i].index == index)
            return p->axis[i].extent;
    parser_fail(p, "declare the input: its sizes do not follow from its indices,");
}

static operand parse_operand(parser *p);

/* Sizes of an input that is not declared: the extents of its indices. */
static cr_buffer *parse_new_input(parser *p, const char *name, const cr_sym *const *index,
                                  int n)
{
    const cr_sym *size[CR_LOOP_DIMS];

    for (int i = 0; i < n; i++)
        size[i] = extent_of(p, index[i]);
    return cr_loop_buffer(p->l, CR_BUFFER_INPUT, name, CR_F32, n, size);
}

static operand parse_load(parser *p, const char *name)
{
    const cr_sym *index[CR_LOOP_DIMS];
    const cr_expr *at[CR_LOOP_DIMS];
    cr_buffer *b = cr_loop_find_buffer(p->l, name);
    int n = 0, computed = 0;

    parser_expect(p, "[");
    do {
        if (n == CR_LOOP_DIMS)
            parser_fail(p, "too many indices");
        if (parser_take(p, "$")) {
            at[computed++] = typed(p, parse_operand(p), CR_I64);
            index[n++] = NULL;
        } else {
            index[n++] = take_integer(p);
        }
    } while (parser_take(p, ","));
    parser_expect(p, "]");
    if (!b)
        b = parse_new_input(p, name, index, n);
    if (b->ndim != n)
        parser_fail(p, cr_session_printf(p->s, "'%s' has %d dimensions", name, b->ndim));
    if (b->role == CR_BUFFER_OUTPUT)
        b->role = CR_BUFFER_LOCAL;
    return operand_of_expr(cr_expr_load_at(p->l, b, index, at));
}

static operand parse_run_param(parser *p, const char *name)
{
    const cr_loop_param *q = cr_loop_find_param(p->l, name);

    if (!q)
        q = cr_loop_param_new(p->l, name, CR_F32, (int)p->l->params.len);
    return operand_of_expr(cr_expr_param(p->l, q));
}

static bool parse_constant(const char *name, operand *out)
{
    if (!strcmp(name, "inf"))
        *out = operand_of_number(cr_scalar_float((double)INFINITY));
    else if (!strcmp(name, "nan"))
        *out = operand_of_number(cr_scalar_float((double)NAN));
    else
        return false;
    return true;
}

/* A dtype's name makes a cast, a typed literal, or a number of an integer expression. */
static operand parse_cast(parser *p, cr_dtype t)
{
    operand v;

    parser_expect(p, "(");
    if (parser_take(p, "#"))
        v = operand_of_expr(cr_expr_integer(p->l, t, take_integer(p)));
    else
        v = parse_expr(p);
    parser_expect(p, ")");
    return operand_of_expr(v.e ? cr_expr_cast(p->l, t, v.e) : cr_expr_const(p->l, t, v.number));
}

static cr_dtype dtype_by_suffix(const char *name)
{
    for (int t = 0; t < CR_DTYPE_COUNT; t++)
        if (!strcmp(cr_dtype_infos[t].suffix, name))
            return (cr_dtype)t;
    return CR_DTYPE_NONE;
}

/* index(reduction) */
static operand parse_index_of(parser *p)
{
    operand v[MOST_ARGS];

    if (parse_args(p, v) != 1 || !v[0].e)
        parser_fail(p, "index() takes a reduction or scan by above or below");
    return operand_of_expr(cr_expr_index_of(p->l, v[0].e));
}

/* complex(re, im) of literals takes its type from other arguments, as they do. */
static bool is_complex_literal(cr_fn fn, const operand *v, int n)
{
    return fn == CR_FN_complex && n == 2 && !v[0].e && !v[1].e;
}

static operand complex_literal(const operand *v)
{
    cr_complex c = {cr_scalar_as_double(v[0].number), cr_scalar_as_double(v[1].number)};

    return operand_of_number((cr_scalar){.category = CR_CAT_COMPLEX, .c = c});
}

static operand parse_word(parser *p)
{
    const char *name = take_name(p);
    cr_dtype t = dtype_by_suffix(name);
    int fn = cr_fn_find(name);
    operand v[MOST_ARGS];

    if (!strcmp(name, "True") || !strcmp(name, "False"))
        return operand_of_expr(cr_expr_const(p->l, CR_BOOL, cr_scalar_int(*name == 'T')));
    if ((!strcmp(name, "scan") || !strcmp(name, "scan_back")) && looking_at_name(p))
        return parse_scan(p, name[4] != 0);
    if (looking_at(p, "(")) {
        if (t != CR_DTYPE_NONE)
            return parse_cast(p, t);
        if (!strcmp(name, "index"))
            return parse_index_of(p);
        if (fn < 0)
            parser_fail(p, cr_session_printf(p->s, "no function is called '%s'", name));
        int n = parse_args(p, v);
        return is_complex_literal((cr_fn)fn, v, n) ? complex_literal(v)
                                                   : parser_call(p, (cr_fn)fn, v, n);
    }
    if (looking_at(p, "["))
        return fn >= 0 && !cr_loop_find_buffer(p->l, name) ? parse_reduce(p, (cr_fn)fn)
                                                           : parse_load(p, name);
    return parse_constant(name, &v[0]) ? v[0] : parse_run_param(p, name);
}

static operand parse_literal(parser *p)
{
    char *end, *whole_end;
    double d = strtod(p->at, &end);
    long long i = strtoll(p->at, &whole_end, 10);
    bool whole = whole_end == end;

    p->at = end;
    return operand_of_number(whole ? cr_scalar_int(i) : cr_scalar_float(d));
}

static operand negated(parser *p, operand v)
{
    if (v.e)
        return parser_call(p, CR_FN_neg, &v, 1);
    if (v.number.category == CR_CAT_INT)
        return operand_of_number(v.number.i ? cr_scalar_int(-v.number.i)
                                            : cr_scalar_float(-0.0));
    if (v.number.category == CR_CAT_COMPLEX)
        return operand_of_number(
            (cr_scalar){.category = CR_CAT_COMPLEX, .c = {-v.number.c.re, -v.number.c.im}});
    return operand_of_number(cr_scalar_float(-v.number.d));
}

static operand parse_operand(parser *p)
{
    operand v;

    parser_skip(p);
    if (parser_take(p, "-"))
        return negated(p, parse_operand(p));
    if (parser_take(p, "(")) {
        v = parse_expr(p);
        parser_expect(p, ")");
        return v;
    }
    if (isdigit((unsigned char)*p->at) || *p->at == '.')
        return parse_literal(p);
    return parse_word(p);
}

/* Operands of `part` with signs between them, the left ones first. */
static operand parse_chain(parser *p, operand (*part)(parser *p), const char *const sign[2],
                           const cr_fn fn[2])
{
    operand v[2] = {part(p)};

    for (;;) {
        int k = parser_take(p, sign[0]) ? 0 : parser_take(p, sign[1]) ? 1 : 2;
        if (k == 2)
            return v[0];
        v[1] = part(p);
        v[0] = parser_call(p, fn[k], v, 2);
    }
}

static operand parse_factors(parser *p)
{
    return parse_chain(p, parse_operand, (const char *const[]){"*", "/"},
                       (const cr_fn[]){CR_FN_mul, CR_FN_div});
}

static operand parse_sum(parser *p)
{
    return parse_chain(p, parse_factors, (const char *const[]){"+", "-"},
                       (const cr_fn[]){CR_FN_add, CR_FN_sub});
}

static operand parse_expr(parser *p)
{
    static const struct {
        const char *sign;
        cr_fn fn;
    } tests[] = {{"==", CR_FN_eq}, {"!=", CR_FN_ne}, {"<=", CR_FN_le},
                 {">=", CR_FN_ge}, {"<", CR_FN_lt},  {">", CR_FN_gt}};
    operand v[2] = {parse_sum(p)};

    for (size_t i = 0; i < CR_LEN(tests); i++)
        if (parser_take(p, tests[i].sign)) {
            v[1] = parse_sum(p);
            return parser_call(p, tests[i].fn, v, 2);
        }
    return v[0];
}

/* --- lines --- */

static cr_dtype take_dtype(parser *p)
{
    const char *name;
    cr_dtype t;

    parser_expect(p, ":");
    name = take_name(p);
    t = dtype_by_suffix(name);
    if (t == CR_DTYPE_NONE)
        parser_fail(p, cr_session_printf(p->s, "no dtype is called '%s'", name));
    return t;
}

static void parse_buffer(parser *p, cr_buffer_role role)
{
    const cr_sym *size[CR_LOOP_DIMS];
    const char *name = take_name(p);
    cr_dtype t = take_dtype(p);
    int n = 0;

    parser_expect(p, "[");
    while (!looking_at(p, "]")) {
        if (n == CR_LOOP_DIMS)
            parser_fail(p, "too many sizes");
        size[n++] = take_integer(p);
        if (!parser_take(p, ","))
            break;
    }
    parser_expect(p, "]");
    cr_loop_buffer(p->l, role, name, t, n, size);
}

static void parse_param_line(parser *p)
{
    const char *name = take_name(p);
    cr_dtype t = take_dtype(p);
    int slot = (int)p->l->params.len;

    if (parser_take(p, "@")) {
        char *end;
        slot = (int)strtol(p->at, &end, 10);
        p->at = end;
    }
    cr_loop_param_new(p->l, name, t, slot);
}

static void parse_def(parser *p)
{
    const char *name = take_name(p);
    const cr_sym *size[CR_LOOP_DIMS];
    const cr_expr *value;
    cr_buffer *b;

    p->axes = 0;
    parser_expect(p, "[");
    while (!looking_at(p, "]")) {
        if (p->axes == CR_LOOP_DIMS)
            parser_fail(p, "too many axes");
        parser_add_axis(p, take_axis(p));
        if (!parser_take(p, ","))
            break;
    }
    parser_expect(p, "]");
    parser_expect(p, "=");
    int axes = p->axes;
    for (int i = 0; i < axes; i++)
        size[i] = p->axis[i].extent;
    value = any_type(p, parse_expr(p));
    b = cr_loop_find_buffer(p->l, name);
    if (b && b->role == CR_BUFFER_INPUT)
        parser_fail(p, cr_session_printf(p->s, "the input '%s' is defined", name));
    if (!b)
        b = cr_loop_buffer(p->l, CR_BUFFER_OUTPUT, name, (cr_dtype)value->dtype, axes, size);
    if (b->dtype != value->dtype)
        value = cr_expr_cast(p->l, (cr_dtype)b->dtype, value);
    cr_loop_define(p->l, b, axes, p->axis, value);
}

static void parse_line(parser *p)
{
    if (take_word(p, "input"))
        parse_buffer(p, CR_BUFFER_INPUT);
    else if (take_word(p, "output"))
        parse_buffer(p, CR_BUFFER_OUTPUT);
    else if (take_word(p, "local"))
        parse_buffer(p, CR_BUFFER_LOCAL);
    else if (take_word(p, "param"))
        parse_param_line(p);
    else
        parse_def(p);
    parser_skip(p);
    if (*p->at && *p->at != '\n' && *p->at != '#')
        parser_fail(p, "unexpected text");
}

/* Roles changed while reading, so operands are numbered at the end. */
static void number_operands(cr_loop *l)
{
    int next[3] = {0};

    for (size_t i = 0; i < l->buffers.len; i++)
        l->buffers.at[i]->slot = next[l->buffers.at[i]->role]++;
}

cr_loop *cr_loop_parse(cr_session *s, const char *text)
{
    parser p = {.l = cr_loop_new(s), .s = s, .at = text, .line = 1};

    while (*p.at) {
        parser_skip(&p);
        if (*p.at && *p.at != '\n' && *p.at != '#')
            parse_line(&p);
        while (*p.at && *p.at != '\n')
            p.at++;
        if (*p.at == '\n') {
            p.at++;
            p.line++;
        }
    }
    number_operands(p.l);
    return p.l;
}
