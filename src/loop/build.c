/* Building programs from rule trees.
 *
 * A rule is evaluated over loop expressions.  In scalar code (bodies, folds) calls are loop
 * functions; in compositions they are operators, whose own rules are evaluated in turn, so a
 * composition of any depth becomes one expression a result.  The dimensions of a row are one
 * opaque value (IS_DIMS) instead of numbers.  A fold over this value is a reduction over the
 * columns. */
#include "loop/build.h"
#include "ops/eval.h"
#include <math.h>
#include <string.h>

typedef enum {
    IS_NONE,
    IS_EXPR,   /* a tensor, or a number known at run time */
    IS_NUMBER, /* a literal: takes the type of its neighbours */
    IS_SIZE,   /* an integer expression */
    IS_TRUTH,
    IS_STRING,
    IS_DIMS, /* the dimensions of a row */
    IS_DTYPE
} kind_of;

typedef struct {
    kind_of kind;
    bool tensor; /* EXPR: made from a tensor operand */
    const cr_expr *e;
    cr_scalar number;
    const cr_sym *size;
    bool truth;
    const char *text;
    cr_dtype dtype;
} value;

/* One entry under evaluation. */
typedef struct {
    cr_loop *l;
    cr_session *s;
    const cr_op *op;
    cr_dtype t; /* compute type */
    bool scalar_code;
    bool *known; /* by slot: the value is set */
    value *slot;
    cr_axis row, column;
    int64_t columns; /* elements of a row, or 0 when unknown */
    bool rounds;     /* every operator's result is rounded to `half` */
    cr_dtype half;
    int depth;
} frame;

enum { DEEPEST = 24 };

CR_NORETURN static void refuse(frame *f, const cr_rule *r, const char *what)
{
    cr_text text = {0};

    if (r)
        cr_rule_print(&text, r);
    cr_bail(f->s, CR_VALUE, "%s:%d: %s: %s %s", f->op->text.file, f->op->text.line, f->op->name,
            what, cr_session_take_text(f->s, &text));
}

static cr_axis named_axis(cr_loop *l, const char *index, const char *extent)
{
    const cr_sym *n = cr_sym_name(l->syms, extent, 0, CR_SYM_HIGH);

    return (cr_axis){cr_sym_name(l->syms, index, 0, CR_SYM_HIGH), n};
}

static value value_of_expr(const cr_expr *e, bool tensor)
{
    return (value){.kind = IS_EXPR, .e = e, .tensor = tensor};
}

static value of_size(const cr_sym *size) { return (value){.kind = IS_SIZE, .size = size}; }
static value of_truth(bool b) { return (value){.kind = IS_TRUTH, .truth = b}; }

static value value_of_number(cr_scalar n) { return (value){.kind = IS_NUMBER, .number = n}; }

/* The value as an expression of type `t`. */
static const cr_expr *as_expr(frame *f, const cr_rule *r, value v, cr_dtype t)
{
    switch (v.kind) {
    case IS_EXPR: return cr_expr_cast(f->l, t, v.e);
    case IS_NUMBER: return cr_expr_const(f->l, t, v.number);
    case IS_SIZE: return cr_expr_integer(f->l, t, v.size);
    case IS_TRUTH: return cr_expr_const(f->l, t, cr_scalar_int(v.truth));
    default: refuse(f, r, "no value for a loop:");
    }
}

/* --- types --- */

static cr_dtype rule_type(frame *f, const cr_rule *r);

/* Promotion; CR_DTYPE_NONE stands for no operand. */
static cr_dtype common_type(frame *f, const cr_rule *r, cr_dtype a, cr_dtype b)
{
    if (a == CR_DTYPE_NONE || b == CR_DTYPE_NONE)
        return a == CR_DTYPE_NONE ? b : a;
    cr_dtype t = cr_promote(a, b);
    if (t == CR_DTYPE_NONE)
        refuse(f, r, "types without a common type:");
    return t;
}

static cr_dtype type_promote(frame *f, const cr_rule *r)
{
    cr_dtype t = CR_DTYPE_NONE;

    for (int i = 0; i < r->count; i++)
        t = common_type(f, r, t, rule_type(f, r->args[i]));
    return t;
}

static cr_dtype type_of_name(frame *f, const cr_rule *r)
{
    value *v = r->slot >= 0 ? &f->slot[r->slot] : NULL;

    if (!v)
        return cr_dtype_find(r->name);
    if (v->kind == IS_DTYPE)
        return v->dtype;
    return v->kind == IS_EXPR && v->tensor ? (cr_dtype)v->e->dtype : CR_DTYPE_NONE;
}

static cr_dtype type_of_call(frame *f, const cr_rule *r)
{
    cr_dtype t = rule_type(f, r->args[0]);

    if (r->builtin == CR_BUILTIN_promote)
        return type_promote(f, r);
    if (r->builtin == CR_BUILTIN_or)
        return t != CR_DTYPE_NONE ? t : rule_type(f, r->args[1]);
    if (t == CR_DTYPE_NONE)
        return t;
    if (r->builtin == CR_BUILTIN_float)
        return cr_dtype_category(t) <= CR_CAT_INT ? CR_F32 : t;
    if (r->builtin == CR_BUILTIN_accumulate)
        return cr_dtype_category(t) <= CR_CAT_INT ? CR_I64 : t;
    if (r->builtin == CR_BUILTIN_real)
        return cr_dtype_real(t);
    if (r->builtin == CR_BUILTIN_complex)
        return cr_dtype_complex(t);
    return t;
}

static value eval_rule(frame *f, const cr_rule *r);

static cr_dtype rule_type(frame *f, const cr_rule *r)
{
    if (r->kind == CR_RULE_NAME)
        return type_of_name(f, r);
    if (r->kind == CR_RULE_CHOOSE) {
        value when = eval_rule(f, r->args[0]);
        return rule_type(f, r->args[when.kind == IS_TRUTH && !when.truth ? 2 : 1]);
    }
    return r->kind == CR_RULE_CALL && r->count ? type_of_call(f, r) : CR_DTYPE_NONE;
}

static bool is_tensor_type(const cr_param *p) { return p->type == CR_T_TENSOR; }

/* The compute type of a call whose arguments are bound.  Without tensor arguments it is
 * `otherwise`. */
static cr_dtype callee_type(frame *f, cr_dtype otherwise)
{
    cr_dtype t = CR_DTYPE_NONE;

    if (f->op->type)
        t = rule_type(f, f->op->type);
    else
        for (int i = 0; i < f->op->param_count && t == CR_DTYPE_NONE; i++)
            if (is_tensor_type(&f->op->param[i]) && f->slot[i].kind == IS_EXPR)
                t = (cr_dtype)f->slot[i].e->dtype;
    return t == CR_DTYPE_NONE ? otherwise : t;
}

/* The type of tensor operand `i` of `op` when it computes in `t`. */
static cr_dtype operand_type(const cr_op *op, int i, cr_dtype t)
{
    return op->mask_params >> i & 1 ? CR_BOOL : t;
}

/* --- evaluation --- */

static value eval_constant(frame *f, const cr_rule *r)
{
    static const struct {
        const char *name;
        double number;
    } known[] = {{"inf", (double)INFINITY}, {"nan", (double)NAN}, {"pi", M_PI}, {"ln2", M_LN2}};
    cr_dtype t = cr_dtype_find(r->name);

    for (size_t i = 0; i < CR_LEN(known); i++)
        if (!strcmp(known[i].name, r->name))
            return value_of_number(cr_scalar_float(known[i].number));
    if (t == CR_DTYPE_NONE)
        refuse(f, r, "unknown name");
    return (value){.kind = IS_DTYPE, .dtype = t};
}

static value eval_name(frame *f, const cr_rule *r)
{
    int let = r->slot - f->op->slots.let;

    if (r->slot < 0)
        return eval_constant(f, r);
    if (!f->known[r->slot]) {
        if (let < 0 || let >= f->op->let_count)
            refuse(f, r, "no value here:");
        f->slot[r->slot] = eval_rule(f, f->op->lets[let].rule);
        f->known[r->slot] = true;
    }
    return f->slot[r->slot];
}

/* The common type of a call's arguments: of its tensors, or else of its run-time numbers, or
 * else the compute type. */
static cr_dtype args_type(frame *f, const cr_rule *r, const value *v, int first, int n)
{
    cr_dtype t = CR_DTYPE_NONE, all = CR_DTYPE_NONE;

    for (int i = first; i < n; i++)
        if (v[i].kind == IS_EXPR) {
            cr_dtype a = (cr_dtype)v[i].e->dtype;
            all = common_type(f, r, all, a);
            if (v[i].tensor)
                t = common_type(f, r, t, a);
        }
    for (int i = first; i < n && t == CR_BOOL; i++)
        if (v[i].kind == IS_NUMBER || v[i].kind == IS_SIZE)
            t = f->t;
    return t != CR_DTYPE_NONE ? t : all != CR_DTYPE_NONE ? all : f->t;
}

static bool any_tensor(const value *v, int n)
{
    for (int i = 0; i < n; i++)
        if (v[i].tensor)
            return true;
    return false;
}

/* `and`, `or` and `not` between values are logic, whatever the type. */
static value eval_logic(frame *f, const cr_rule *r, cr_fn fn, const value *v)
{
    const cr_expr *args[3];

    for (int i = 0; i < r->count; i++)
        args[i] = as_expr(f, r, v[i], CR_BOOL);
    return value_of_expr(cr_expr_call(f->l, fn, r->count, args), any_tensor(v, r->count));
}

static value apply_fn(frame *f, const cr_rule *r, cr_fn fn, const value *v)
{
    int first = cr_fn_infos[fn].kind == CR_FN_SELECT ? 1 : 0;
    const cr_expr *args[3];
    cr_dtype t = args_type(f, r, v, first, r->count);

    if (r->count != cr_fn_infos[fn].args || r->count > 3)
        refuse(f, r, "wrong number of arguments in");
    if (cr_rule_is_logic(r))
        return eval_logic(f, r, fn, v);
    for (int i = 0; i < r->count; i++)
        args[i] = as_expr(f, r, v[i], i < first ? CR_BOOL : t);
    return value_of_expr(cr_expr_call(f->l, fn, r->count, args), any_tensor(v, r->count));
}

static bool value_is_literal(const value *v)
{
    return v->kind == IS_NUMBER || v->kind == IS_TRUTH;
}

/* Arithmetic on two literals, so that 1 / 3 or -0.5 * ln2 is one constant. */
static bool fold_numbers(const cr_rule *r, const value *v, value *out)
{
    double a = cr_scalar_as_double(v[0].number), b = 0, d;
    bool whole = v[0].number.category <= CR_CAT_INT;

    if (r->count > 1) {
        b = cr_scalar_as_double(v[1].number);
        whole = whole && v[1].number.category <= CR_CAT_INT;
    }
    switch (cr_fn_find(r->name)) {
    case CR_FN_neg: d = -a; break;
    case CR_FN_sqrt: d = sqrt(a); break;
    case CR_FN_log: d = log(a); break;
    case CR_FN_add: d = a + b; break;
    case CR_FN_sub: d = a - b; break;
    case CR_FN_mul: d = a * b; break;
    case CR_FN_div: d = a / b; break;
    case CR_FN_pow: d = pow(a, b); break;
    default: return false;
    }
    whole = whole && d == floor(d) && fabs(d) < 0x1p53 && r->builtin != CR_BUILTIN_div;
    *out = value_of_number(whole ? cr_scalar_int((int64_t)d) : cr_scalar_float(d));
    return true;
}

/* Truncated division.  For integers trunc changes nothing. */
static value eval_divtrunc(frame *f, const cr_rule *r)
{
    value v[3], q;

    if (r->count != 2)
        refuse(f, r, "wrong number of arguments in");
    v[0] = eval_rule(f, r->args[0]);
    v[1] = eval_rule(f, r->args[1]);
    q = apply_fn(f, r, CR_FN_div, v);
    return value_of_expr(cr_expr_call1(f->l, CR_FN_trunc, q.e), q.tensor);
}

static value eval_loop_call(frame *f, const cr_rule *r)
{
    int fn = cr_fn_find(r->name);
    value v[8], folded;
    bool literal = r->count > 0;

    if (!strcmp(r->name, "divtrunc"))
        return eval_divtrunc(f, r);
    if (fn < 0)
        refuse(f, r, "no loop function in");
    if (r->count > 3)
        refuse(f, r, "too many arguments in");
    for (int i = 0; i < r->count; i++) {
        v[i] = eval_rule(f, r->args[i]);
        literal = literal && value_is_literal(&v[i]);
    }
    if (literal && fold_numbers(r, v, &folded))
        return folded;
    return apply_fn(f, r, (cr_fn)fn, v);
}

/* The dtype of a value.  With `rounds`, every float32 value stands for one of the half type. */
static value of_dtype(const frame *f, cr_dtype t)
{
    return (value){.kind = IS_DTYPE, .dtype = f->rounds && t == CR_F32 ? f->half : t};
}

static int64_t known_size(void *context, const cr_sym *name)
{
    const frame *f = context;

    return name == f->column.extent ? f->columns : 0;
}

/* most(n, 0) when the known sizes decide that it is n. */
static value greater_size(frame *f, const cr_rule *r)
{
    value n = eval_rule(f, r->args[0]), least = eval_rule(f, r->args[1]);
    bool wrong = false;

    if (n.kind != IS_SIZE || least.kind != IS_NUMBER || least.number.category > CR_CAT_INT ||
        !f->columns || cr_sym_eval(n.size, known_size, f, &wrong) < least.number.i || wrong)
        refuse(f, r, "not known inside a fused kernel:");
    return n;
}

/* Built-ins of compositions.  Every question for a size is answered by the row's length. */
static value eval_builtin(frame *f, const cr_rule *r)
{
    value v;

    switch ((cr_builtin)r->builtin) {
    case CR_BUILTIN_is_tensor:
        v = eval_rule(f, r->args[0]);
        return of_truth(v.kind == IS_EXPR && v.tensor);
    case CR_BUILTIN_is_float:
        v = eval_rule(f, r->args[0]);
        if (v.kind != IS_EXPR)
            break;
        return of_truth(cr_dtype_category((cr_dtype)v.e->dtype) == CR_CAT_FLOAT);
    case CR_BUILTIN_is_complex:
        v = eval_rule(f, r->args[0]);
        if (v.kind != IS_EXPR)
            break;
        return of_truth(cr_dtype_is_complex((cr_dtype)v.e->dtype));
    case CR_BUILTIN_dtype:
        v = eval_rule(f, r->args[0]);
        if (v.kind != IS_EXPR)
            break;
        return of_dtype(f, (cr_dtype)v.e->dtype);
    case CR_BUILTIN_float: return of_dtype(f, rule_type(f, r));
    default: break;
    }
    if (!f->column.extent) /* the group has no rows */
        refuse(f, r, "not known inside a group:");
    switch ((cr_builtin)r->builtin) {
    case CR_BUILTIN_size:
        if (r->count == 2 && eval_rule(f, r->args[1]).kind == IS_DIMS)
            return of_size(f->column.extent);
        break;
    case CR_BUILTIN_reduced_count:
    case CR_BUILTIN_product: return of_size(f->column.extent);
    case CR_BUILTIN_most: return greater_size(f, r);
    case CR_BUILTIN_wrap:
    case CR_BUILTIN_wraps:
    case CR_BUILTIN_reduced:
    case CR_BUILTIN_dims: return (value){.kind = IS_DIMS};
    default: break;
    }
    refuse(f, r, "not known inside a fused kernel:");
}

static bool arithmetic_on_sizes(frame *f, const cr_rule *r, value *out)
{
    value a, b;

    if (r->count != 2)
        return false;
    a = eval_rule(f, r->args[0]);
    b = eval_rule(f, r->args[1]);
    if (a.kind == IS_NUMBER && a.number.category <= CR_CAT_INT)
        a = of_size(cr_sym_int(f->l->syms, a.number.i));
    if (b.kind == IS_NUMBER && b.number.category <= CR_CAT_INT)
        b = of_size(cr_sym_int(f->l->syms, b.number.i));
    if (a.kind != IS_SIZE || b.kind != IS_SIZE)
        return false;
    switch (r->builtin) {
    case CR_BUILTIN_add: *out = of_size(cr_sym_add(f->l->syms, a.size, b.size)); return true;
    case CR_BUILTIN_sub: *out = of_size(cr_sym_sub(f->l->syms, a.size, b.size)); return true;
    case CR_BUILTIN_mul: *out = of_size(cr_sym_mul(f->l->syms, a.size, b.size)); return true;
    default: return false;
    }
}

/* Computes arithmetic on literals, because compositions choose by its result. */
static bool arithmetic_on_numbers(frame *f, const cr_rule *r, value *out)
{
    value v[2] = {{.kind = IS_NONE}, {.kind = IS_NONE}};

    if (r->count < 1 || r->count > 2 || cr_fn_find(r->name) < 0)
        return false;
    for (int i = 0; i < r->count; i++)
        if ((v[i] = eval_rule(f, r->args[i])).kind != IS_NUMBER)
            return false;
    return fold_numbers(r, v, out);
}

static value call_op(frame *f, const cr_rule *r, int item);
static value eval_item(frame *f, const cr_rule *r);

/* Compares values that are known while building: None, texts, types. */
static bool known_equality(frame *f, const cr_rule *r, value *out)
{
    bool equal;
    value a, b;

    if (r->count != 2 || (r->builtin != CR_BUILTIN_eq && r->builtin != CR_BUILTIN_ne))
        return false;
    a = eval_rule(f, r->args[0]);
    b = eval_rule(f, r->args[1]);
    if (a.kind == IS_STRING && b.kind == IS_STRING)
        equal = !strcmp(a.text, b.text);
    else if (a.kind == IS_NONE || b.kind == IS_NONE)
        equal = a.kind == b.kind;
    else if (a.kind == IS_DTYPE && b.kind == IS_DTYPE)
        equal = a.dtype == b.dtype;
    else
        return false;
    *out = of_truth(equal == (r->builtin == CR_BUILTIN_eq));
    return true;
}

/* Compares literals in a composition. */
static bool known_comparison(frame *f, const cr_rule *r, value *out)
{
    value v[2];
    int k = r->builtin - CR_BUILTIN_eq; /* eq ne lt le gt ge, as builtin.def has them */

    if (f->scalar_code || r->count != 2 || k < 0 || k > CR_BUILTIN_ge - CR_BUILTIN_eq)
        return false;
    for (int i = 0; i < 2; i++)
        if ((v[i] = eval_rule(f, r->args[i])).kind != IS_NUMBER)
            return false;
    double a = cr_scalar_as_double(v[0].number), b = cr_scalar_as_double(v[1].number);
    bool holds[] = {a == b, a != b, a<b, a <= b, a> b, a >= b};
    *out = of_truth(holds[k]);
    return true;
}

/* `not`, and `and` and `or` whose left side is known. */
static bool known_logic(frame *f, const cr_rule *r, value *out)
{
    bool either = r->builtin == CR_BUILTIN_or;
    value a;

    if (f->scalar_code || !cr_rule_is_logic(r))
        return false;
    a = eval_rule(f, r->args[0]);
    if (a.kind != IS_TRUTH)
        return false;
    *out = r->count == 1       ? of_truth(!a.truth)
           : a.truth == either ? a
                               : eval_rule(f, r->args[1]);
    return true;
}

/* real(dtype(x)): here the built-in is meant, not the operator of the same name. */
static bool of_type(frame *f, const cr_rule *r, value *out)
{
    value v;

    if (!r->op || r->count != 1 ||
        (r->builtin != CR_BUILTIN_real && r->builtin != CR_BUILTIN_complex))
        return false;
    v = eval_rule(f, r->args[0]);
    if (v.kind != IS_DTYPE)
        return false;
    v.dtype =
        r->builtin == CR_BUILTIN_real ? cr_dtype_real(v.dtype) : cr_dtype_complex(v.dtype);
    *out = v;
    return true;
}

static value eval_callee(frame *f, const cr_rule *r)
{
    value v;

    if (known_equality(f, r, &v) || known_comparison(f, r, &v) || known_logic(f, r, &v))
        return v;
    if (f->scalar_code && r->builtin != CR_BUILTIN_is_complex)
        return eval_loop_call(f, r);
    if (r->builtin >= 0 && (!r->op || f->scalar_code))
        return eval_builtin(f, r);
    if (arithmetic_on_numbers(f, r, &v) || arithmetic_on_sizes(f, r, &v))
        return v;
    if (of_type(f, r, &v))
        return v;
    if (r->op && !cr_rule_is_logic(r))
        return call_op(f, r, 0);
    return eval_loop_call(f, r);
}

/* --- the domain: expressions of loops --- */

static cr_status loop_part(void *in, const cr_rule *r, void *out);

static cr_status loop_constant(void *in, cr_value v, void *out)
{
    (void)in;
    *(value *)out = v.tag == CR_INT      ? value_of_number(cr_scalar_int(v.i))
                    : v.tag == CR_FLOAT  ? value_of_number(cr_scalar_float(v.d))
                    : v.tag == CR_TRUTH  ? of_truth(v.i)
                    : v.tag == CR_STRING ? (value){.kind = IS_STRING, .text = v.s}
                                         : (value){.kind = IS_NONE};
    return CR_OK;
}

/* Lists in compositions are of the row's dims. */
static value row_dims(frame *f, const cr_rule *r)
{
    (void)f, (void)r;
    return (value){.kind = IS_DIMS};
}

/* Decides while building when the condition is known. */
static cr_rule_truth loop_truth(void *in, const cr_rule *r, const void *condition)
{
    const value *v = condition;

    (void)in, (void)r;
    if (!value_is_literal(v))
        return CR_RULE_UNDECIDED;
    return (v->kind == IS_TRUTH ? v->truth : v->number.i != 0) ? CR_RULE_TRUE : CR_RULE_FALSE;
}

/* Another condition is an argument of `where`. */
static cr_status loop_where(void *in, const cr_rule *r, void *out)
{
    value v[3] = {*(value *)out, eval_rule(in, r->args[1]), eval_rule(in, r->args[2])};

    *(value *)out = apply_fn(
        in, &(cr_rule){.name = cr_fn_infos[CR_FN_where].name, .builtin = -1, .count = 3},
        CR_FN_where, v);
    return CR_OK;
}

CR_RULE_PART(loop_name_part, value, eval_name)
CR_RULE_PART(loop_call_part, value, eval_callee)
CR_RULE_PART(loop_dims_part, value, row_dims)
CR_RULE_PART(loop_item_part, value, eval_item)

static const cr_rule_domain loops = {.eval = loop_part,
                                     .constant = loop_constant,
                                     .name = loop_name_part,
                                     .call = loop_call_part,
                                     .list = loop_dims_part,
                                     .each = loop_dims_part,
                                     .index = loop_item_part,
                                     .truth = loop_truth,
                                     .either = loop_where};

static cr_status loop_part(void *in, const cr_rule *r, void *out)
{
    return cr_rule_eval(&loops, in, r, out);
}

static value eval_rule(frame *f, const cr_rule *r)
{
    value v = {.kind = IS_NONE};

    loop_part(f, r, &v);
    return v;
}

/* --- calls of operators inside a composition --- */

static value preset_value(frame *f, const cr_param *p)
{
    const cr_value *v = &p->preset;

    if (!p->has_default)
        return (value){.kind = IS_NONE};
    switch ((cr_tag)v->tag) {
    case CR_NUMBER: return value_of_number(v->number);
    case CR_INT: return value_of_number(cr_scalar_int(v->i));
    case CR_FLOAT: return value_of_number(cr_scalar_float(v->d));
    case CR_TRUTH: return of_truth(v->i);
    case CR_STRING: return (value){.kind = IS_STRING, .text = cr_session_text(f->s, v->s)};
    default: return (value){.kind = IS_NONE};
    }
}

/* Binds the call's arguments to the callee's parameters. */
static void bind_args(frame *f, frame *callee, const cr_rule *r)
{
    const cr_op *op = callee->op;

    for (int i = 0; i < op->param_count; i++) {
        callee->slot[i] = preset_value(f, &op->param[i]);
        callee->known[i] = true;
    }
    for (int i = 0; i < r->count; i++) {
        int p = r->keyword[i] ? cr_op_find_param(op, r->keyword[i]) : i;
        if (p < 0 || p >= op->param_count)
            refuse(f, r, "wrong arguments in");
        callee->slot[p] = eval_rule(f, r->args[i]);
    }
}

/* Rounds an operator's result to the half type when `rounds` is set. */
static value round_value(frame *f, value v)
{
    cr_fn fn = f->half == CR_F16 ? CR_FN_roundhalf : CR_FN_roundbfloat;

    if (f->rounds && v.kind == IS_EXPR && v.e->dtype == CR_F32)
        v.e = cr_expr_call1(f->l, fn, v.e);
    return v;
}

/* An argument of clause `rounds`.  Tensors of a composition that rounds are of the half
 * type. */
static value round_number(frame *f, value v)
{
    char element[2];

    if (f->rounds && v.kind == IS_NUMBER) {
        cr_scalar_store(v.number, f->half, element);
        v.number = cr_scalar_load(f->half, element);
    }
    return v.tensor ? v : round_value(f, v);
}

/* Converts tensors and numbers to the callee's compute type.  Literals beside tensors stay
 * literals in a composition, because it may choose by them. */
static void enter_callee(frame *f, frame *callee, const cr_rule *r)
{
    const cr_op *op = callee->op;
    bool tensor = any_tensor(callee->slot, op->param_count);

    for (int i = 0; i < op->param_count; i++) {
        value *v = &callee->slot[i];
        cr_dtype t = operand_type(op, i, callee->t);
        if (op->rounds >> i & 1)
            *v = round_number(f, *v);
        bool literal = v->kind == IS_NUMBER && (callee->scalar_code || !tensor);
        bool number = literal || v->kind == IS_SIZE || v->kind == IS_EXPR;
        if (is_tensor_type(&op->param[i]) && number)
            *v = value_of_expr(as_expr(f, r, *v, t), v->tensor || !tensor);
    }
}

static bool value_is_true(const value *v)
{
    return (v->kind == IS_TRUTH && v->truth) || (v->kind == IS_NUMBER && v->number.i);
}

/* Result `item` of a fold: its value, or the index that it keeps. */
static const cr_expr *fold_result(frame *f, int item, const cr_expr *e)
{
    bool index = item == 1 || f->op->fold.index;

    return index ? cr_expr_index_of(f->l, e) : e;
}

static value reduce(frame *f, const cr_rule *r, int item)
{
    const cr_rule *fold = f->op->fold.rule;
    int dim = cr_op_find_param(f->op, "dim"), keep = cr_op_find_param(f->op, "keepdim");
    int fn = cr_fn_find(fold->name);
    value v;

    if (dim < 0 || f->slot[dim].kind != IS_DIMS || keep < 0 || !value_is_true(&f->slot[keep]) ||
        !f->column.extent)
        refuse(f, r, "only reductions over the row's dimensions with keepdim=True fuse, not");
    if (fn < 0 || fold->count != 1)
        refuse(f, fold, "no fold:");
    v = eval_rule(f, fold->args[0]);
    if (fn == CR_FN_and || fn == CR_FN_or)
        v.e = as_expr(f, r, v, CR_BOOL);
    v.e = cr_expr_reduce(f->l, (cr_fn)fn, f->column, as_expr(f, r, v, v.e->dtype));
    return value_of_expr(fold_result(f, item, v.e), true);
}

/* The type of result k: that of the clause `returns`, or else the compute type.  CR_DTYPE_NONE:
 * the expression's type. */
static cr_dtype returned(frame *f, int k)
{
    const cr_rule *r = f->op->returns[k];

    if (!r)
        return f->t;
    if (r->kind == CR_RULE_CALL && r->builtin == CR_BUILTIN_real)
        return cr_dtype_real(f->t);
    if (r->kind == CR_RULE_CALL && r->builtin == CR_BUILTIN_complex)
        return cr_dtype_complex(f->t);
    return r->kind == CR_RULE_NAME && r->slot < 0 ? cr_dtype_find(r->name) : CR_DTYPE_NONE;
}

static const cr_expr *result_expr(frame *f, int k, const cr_rule *r, value v)
{
    cr_dtype t = returned(f, k);

    if (t == CR_DTYPE_NONE)
        return v.kind == IS_EXPR ? v.e : as_expr(f, r, v, f->t);
    return as_expr(f, r, v, t);
}

/* The dtype argument of a cast, or CR_DTYPE_NONE. */
static cr_dtype cast_to(const frame *callee)
{
    for (int i = 1; i < callee->op->param_count; i++)
        if (callee->slot[i].kind == IS_DTYPE)
            return callee->slot[i].dtype;
    return CR_DTYPE_NONE;
}

/* A call that computes nothing: a fill with a number, an identity, a reshape of the row or a
 * cast. */
static value call_plain(frame *callee, const cr_rule *r)
{
    const cr_rule *filled = callee->op->filled;
    unsigned words = callee->op->words;
    cr_dtype to = cast_to(callee);

    if (filled && filled->kind == CR_RULE_INT)
        return value_of_expr(cr_expr_number(callee->l, callee->t, (double)filled->integer),
                             true);
    if (callee->slot[0].kind != IS_EXPR)
        refuse(callee, r, "not a composition of loops:");
    if ((words & CR_WORD_IDENTITY) ||
        ((words & CR_WORD_RESHAPE) && callee->slot[1].kind == IS_DIMS && callee->column.extent))
        return callee->slot[0];
    if ((words & CR_WORD_CAST) && callee->rounds && to != CR_DTYPE_NONE && to == callee->half)
        return callee->slot[0];
    if ((words & CR_WORD_CAST) && !callee->rounds && to != CR_DTYPE_NONE)
        return value_of_expr(cr_expr_cast(callee->l, to, callee->slot[0].e), true);
    refuse(callee, r, "not a composition of loops:");
}

static frame *callee_of(frame *f, const cr_rule *r)
{
    frame *callee = CR_NEW(f->s, frame);

    *callee = (frame){.known = CR_NEW_N(f->s, bool, r->op->slots.count),
                      .slot = CR_NEW_N(f->s, value, r->op->slots.count),
                      .l = f->l,
                      .s = f->s,
                      .op = r->op,
                      .row = f->row,
                      .column = f->column,
                      .columns = f->columns,
                      .rounds = f->rounds && !r->op->fused,
                      .half = f->half,
                      .depth = f->depth + 1};
    if (callee->depth > DEEPEST)
        refuse(f, r, "the composition calls itself:");
    bind_args(f, callee, r);
    callee->t = callee_type(callee, f->t);
    callee->scalar_code = r->op->does == CR_DOES_BODY || r->op->does == CR_DOES_FOLD;
    return callee;
}

/* Result `item` of the call. */
static value call_op(frame *f, const cr_rule *r, int item)
{
    frame *callee = callee_of(f, r);
    value v;

    switch ((cr_does)r->op->does) {
    case CR_DOES_FOLD:
        enter_callee(f, callee, r);
        v = reduce(callee, r, item);
        return cast_to(callee) == CR_F32 ? v : round_value(f, v); /* a sum in float32 stays */
    case CR_DOES_BODY:
    case CR_DOES_IS:
        enter_callee(f, callee, r);
        if (item >= r->op->body_count)
            refuse(f, r, "no such result of");
        v = eval_rule(callee, r->op->body[item]);
        if (v.kind != IS_EXPR && !callee->scalar_code)
            return v;
        v = value_of_expr(result_expr(callee, item, r, v), true);
        return callee->scalar_code || r->op->fused ? round_value(f, v) : v;
    default: return call_plain(callee, r);
    }
}

static value eval_item(frame *f, const cr_rule *r)
{
    const cr_rule *call = r->args[0];

    if (call->kind != CR_RULE_CALL || !call->op || r->args[1]->kind != CR_RULE_INT)
        refuse(f, r, "no loop for");
    return call_op(f, call, (int)r->args[1]->integer);
}

/* --- whole entries --- */

static bool takes_slot(const cr_param *p)
{
    return p->type == CR_T_SCALAR || p->type == CR_T_INT || p->type == CR_T_FLOAT ||
           p->type == CR_T_BOOL;
}

static value operand(frame *f, int p, cr_operand kind)
{
    const cr_param *param = &f->op->param[p];
    const cr_sym *size[2] = {f->row.extent, f->column.extent};
    const cr_sym *index[2] = {f->row.index, f->column.index};
    int from = kind == CR_OPERAND_COLUMN, n = kind == CR_OPERAND_FULL ? 2 : 1;
    cr_buffer *b = cr_loop_buffer(f->l, CR_BUFFER_INPUT, param->name,
                                  operand_type(f->op, p, f->t), n, size + from);

    b->flexible = f->op->does == CR_DOES_BODY;
    return value_of_expr(cr_expr_load(f->l, b, index + from), true);
}

static void declare_params(frame *f)
{
    const cr_op *op = f->op;
    int slot = 0;

    for (int i = 0; i < op->param_count; i++) {
        const cr_param *p = &op->param[i];
        bool dims = (op->does == CR_DOES_FOLD || op->does == CR_DOES_SCAN) &&
                    (!strcmp(p->name, "dim") || !strcmp(p->name, "keepdim"));
        f->known[i] = true;
        if (is_tensor_type(p))
            f->slot[i] =
                operand(f, i, op->fused ? (cr_operand)op->rows.operand[i] : CR_OPERAND_FULL);
        if (takes_slot(p) && op->does != CR_DOES_SCAN) {
            f->slot[i] = value_of_expr(
                cr_expr_param(f->l, cr_loop_param_new(f->l, p->name, f->t, slot++)), false);
        }
        if (dims || (op->fused && op->rows.dim == i))
            f->slot[i] = (value){.kind = IS_DIMS};
    }
}

static const char *result_buffer_name(frame *f, int k)
{
    const char *name = k < f->op->result_count ? f->op->result[k].name : "";

    if (!*name)
        name = k || f->op->result_count > 1 ? cr_session_printf(f->s, "out%d", k) : "out";
    while (cr_loop_find_buffer(f->l, name))
        name = cr_session_printf(f->s, "%s_", name);
    return name;
}

/* Defines result k as an operand of the given kind: full, one value a row, or one a column. */
static void define(frame *f, int k, cr_operand kind, const cr_expr *e)
{
    cr_axis both[2] = {f->row, f->column};
    const cr_sym *size[2] = {f->row.extent, f->column.extent};
    int from = kind == CR_OPERAND_COLUMN, n = kind == CR_OPERAND_FULL ? 2 : 1;
    cr_buffer *b = cr_loop_buffer(f->l, CR_BUFFER_OUTPUT, result_buffer_name(f, k),
                                  (cr_dtype)e->dtype, n, size + from);

    cr_loop_define(f->l, b, n, both + from, e);
}

static void build_body(frame *f)
{
    const cr_op *op = f->op;
    const cr_expr *e[CR_MAX_RESULTS];

    for (int k = 0; k < op->body_count; k++)
        e[k] = result_expr(f, k, op->body[k], eval_rule(f, op->body[k]));
    for (int k = 0; k < op->body_count; k++)
        define(f, k, op->fused ? (cr_operand)op->rows.result[k] : CR_OPERAND_FULL, e[k]);
}

static void build_fold(frame *f, cr_form form)
{
    const cr_rule *fold = f->op->fold.rule;
    int fn = cr_fn_find(fold->name);
    bool columns = form == CR_FORM_COLUMNS || form == CR_FORM_JOIN_COLUMNS;
    value v;

    if (fn < 0 || fold->count != 1)
        refuse(f, fold, "no fold:");
    v = eval_rule(f, fold->args[0]);
    if (fn == CR_FN_and || fn == CR_FN_or)
        v = value_of_expr(as_expr(f, fold, v, CR_BOOL), true);
    if (form >= CR_FORM_JOIN && !cr_fn_keeps_index((cr_fn)fn))
        v.e =
            cr_expr_load(f->l,
                         cr_loop_buffer(f->l, CR_BUFFER_INPUT, "part", (cr_dtype)v.e->dtype, 2,
                                        (const cr_sym *[]){f->row.extent, f->column.extent}),
                         (const cr_sym *[]){f->row.index, f->column.index});
    v.e = cr_expr_reduce(f->l, (cr_fn)fn, columns ? f->row : f->column, v.e);
    cr_operand kept = columns ? CR_OPERAND_COLUMN : CR_OPERAND_ROW;
    if (form >= CR_FORM_JOIN && cr_fn_keeps_index((cr_fn)fn)) {
        define(f, 0, kept, v.e);
        define(f, 1, kept, cr_expr_index_of(f->l, v.e));
        return;
    }
    for (int k = 0; k < f->op->result_count; k++)
        define(f, k, kept, fold_result(f, k, v.e));
}

/* The value of a scan's operand scanned along an axis. */
static const cr_expr *scanned(frame *f, cr_axis axis)
{
    const cr_rule *scan = f->op->scan.rule;
    int fn = cr_fn_find(scan->name);

    if (fn < 0 || scan->count != 1)
        refuse(f, scan, "no scan:");
    return cr_expr_scan(f->l, (cr_fn)fn, f->op->scan.back, axis,
                        as_expr(f, scan, eval_rule(f, scan->args[0]), f->t));
}

static void build_scan(frame *f, cr_form form)
{
    const cr_expr *e = scanned(f, form == CR_FORM_COLUMNS ? f->row : f->column);

    for (int k = 0; k < f->op->result_count; k++)
        define(f, k, CR_OPERAND_FULL, k ? cr_expr_index_of(f->l, e) : e);
}

/* Removes the inputs of a join but `part`; the others were declared to evaluate the fold. */
static void keep_only_parts(cr_loop *l)
{
    size_t n = 0;

    for (size_t i = 0; i < l->buffers.len; i++) {
        cr_buffer *b = l->buffers.at[i];
        if (b->role == CR_BUFFER_INPUT && strcmp(b->name, "part"))
            continue;
        b->slot = 0;
        l->buffers.at[n++] = b;
    }
    l->buffers.len = n;
}

bool cr_op_keeps_index(const cr_op *op)
{
    return op->does == CR_DOES_FOLD &&
           cr_fn_keeps_index((cr_fn)cr_fn_find(op->fold.rule->name));
}

static bool plain_fold(const cr_op *op)
{
    const cr_rule *arg = op->fold.rule->args[0];

    return arg->kind == CR_RULE_NAME && arg->slot == 0 &&
           op->fold.rule->builtin != CR_BUILTIN_and && op->fold.rule->builtin != CR_BUILTIN_or;
}

bool cr_loop_has_form(const cr_op *op, cr_form form)
{
    if (op->does == CR_DOES_LOOP)
        return op->loop.index_count == 1 && !op->loop.start &&
               (form == CR_FORM_MAIN || form == CR_FORM_INT32);
    if (op->does == CR_DOES_SCAN)
        return form < CR_FORM_JOIN;
    if (cr_op_keeps_index(op))
        return form < CR_FORM_JOIN;
    if (op->does == CR_DOES_FOLD)
        return form < CR_FORM_JOIN || (form <= CR_FORM_JOIN_COLUMNS && !plain_fold(op));
    return form == CR_FORM_MAIN &&
           (op->does == CR_DOES_BODY || (op->does == CR_DOES_IS && op->fused));
}

bool cr_loop_has_across(const cr_op *op)
{
    if (op->does != CR_DOES_IS || !op->fused)
        return false;
    for (int i = 0; i < op->param_count; i++)
        if (op->param[i].type == CR_T_TENSOR && op->rows.operand[i] == CR_OPERAND_COLUMN)
            return false;
    for (int k = 0; k < op->result_count; k++)
        if (op->rows.result[k] == CR_OPERAND_COLUMN)
            return false;
    return true;
}

cr_dtype cr_loop_moved_as(cr_dtype t)
{
    switch (cr_dtype_size(t)) {
    case 1: return CR_U8;
    case 2: return CR_I16;
    case 4: return CR_I32;
    case 8: return CR_I64;
    default: return CR_C128;
    }
}

bool cr_loop_wants(const cr_op *op, cr_dtype t)
{
    const cr_rule *r = op->type;
    cr_category c = cr_dtype_category(t);

    if (op->does == CR_DOES_LOOP)
        return !op->loop.start && t == cr_loop_moved_as(t);
    if (op->dtypes && !(op->dtypes >> t & 1))
        return false;
    if (r && r->kind == CR_RULE_CALL && r->builtin == CR_BUILTIN_float && c <= CR_CAT_INT)
        return false;
    if (r && r->kind == CR_RULE_CALL && r->builtin == CR_BUILTIN_accumulate && c <= CR_CAT_INT)
        return t == CR_I64;
    if (r && r->kind == CR_RULE_NAME && r->slot < 0)
        return cr_dtype_find(r->name) == t;
    return true;
}

/* out[i, j] = table[i, j, $index[i, j]]: what tensor/stated.c makes of a loop that reads at the
 * elements of one index tensor.  Strides decide which axes each operand has. */
static void build_move(frame *f, cr_form form)
{
    const cr_sym *size[3] = {f->row.extent, f->column.extent,
                             cr_sym_name(f->l->syms, "L", 0, CR_SYM_HIGH)};
    const cr_sym *at[3] = {f->row.index, f->column.index, NULL};
    const cr_buffer *table = cr_loop_buffer(f->l, CR_BUFFER_INPUT, "table", f->t, 3, size);
    const cr_buffer *index = cr_loop_buffer(f->l, CR_BUFFER_INPUT, "index",
                                            form == CR_FORM_INT32 ? CR_I32 : CR_I64, 2, size);
    const cr_expr *computed = cr_expr_load(f->l, index, at);

    define(f, 0, CR_OPERAND_FULL, cr_expr_load_at(f->l, table, at, &computed));
}

cr_loop *cr_loop_of_op(cr_session *s, const cr_op *op, cr_dtype t, cr_form form)
{
    cr_loop *l = cr_loop_new(s);
    frame *f = CR_NEW(s, frame);

    *f = (frame){.known = CR_NEW_N(s, bool, op->slots.count),
                 .slot = CR_NEW_N(s, value, op->slots.count),
                 .l = l,
                 .s = s,
                 .op = op,
                 .t = t,
                 .scalar_code = op->does != CR_DOES_IS,
                 .row = named_axis(l, "i", "R"),
                 .column = named_axis(l, "j", "C")};
    l->name = *op->overload ? cr_session_printf(s, "%s_%s", op->name, op->overload)
                            : cr_session_text(s, op->name);
    l->origin = cr_session_printf(s, "%s:%d %s", op->text.file, op->text.line, l->name);
    if (op->does == CR_DOES_LOOP) {
        build_move(f, form);
        return l;
    }
    declare_params(f);
    if (op->does == CR_DOES_FOLD)
        build_fold(f, form);
    else if (op->does == CR_DOES_SCAN)
        build_scan(f, form);
    else
        build_body(f);
    if (op->does == CR_DOES_FOLD && form >= CR_FORM_JOIN && !cr_op_keeps_index(op))
        keep_only_parts(l);
    return l;
}

/* --- entries inside a larger program --- */

static value given(frame *f, int i, const cr_loop_arg *a)
{
    switch ((cr_loop_arg_kind)a->kind) {
    case CR_LOOP_TENSOR:
        return value_of_expr(
            as_expr(f, NULL, value_of_expr(a->e, true), operand_type(f->op, i, f->t)), true);
    case CR_LOOP_PARAM: return value_of_expr(a->e, is_tensor_type(&f->op->param[i]));
    case CR_LOOP_NUMBER:
        if (is_tensor_type(&f->op->param[i]) && f->scalar_code)
            return value_of_expr(
                as_expr(f, NULL, value_of_number(a->number), operand_type(f->op, i, f->t)),
                true);
        return value_of_number(a->number);
    case CR_LOOP_TRUTH: return of_truth(a->number.i != 0);
    case CR_LOOP_STRING: return (value){.kind = IS_STRING, .text = a->text};
    case CR_LOOP_ROW_DIMS: return (value){.kind = IS_DIMS};
    case CR_LOOP_DTYPE: return (value){.kind = IS_DTYPE, .dtype = a->dtype};
    case CR_LOOP_NONE: break;
    }
    return (value){.kind = IS_NONE};
}

static const cr_expr *scan_result(frame *f, int k)
{
    int dim = f->op->fold.dim;

    if (dim < 0 || f->slot[dim].kind != IS_DIMS || !f->column.extent)
        refuse(f, f->op->scan.rule, "only scans along the row fuse, not");
    const cr_expr *e = scanned(f, f->column);
    return k ? cr_expr_index_of(f->l, e) : e;
}

/* A composition of one call with several results has the results of this call. */
static const cr_expr *result_of(frame *f, int k)
{
    const cr_op *op = f->op;
    const cr_rule *r = op->body[op->body_count > 1 ? k : 0];
    bool one_call = op->body_count == 1 && op->result_count > 1;

    if (op->does == CR_DOES_SCAN)
        return scan_result(f, k);
    if (op->does == CR_DOES_FOLD)
        return result_expr(f, k, op->fold.rule, reduce(f, op->fold.rule, k));
    if (one_call && (r->kind != CR_RULE_CALL || !r->op))
        refuse(f, r, "no loop for");
    return result_expr(f, k, r, one_call ? call_op(f, r, k) : eval_rule(f, r));
}

void cr_loop_apply(cr_loop *l, const cr_loop_call *c, const cr_loop_arg *arg,
                   const cr_expr **result)
{
    frame *f = CR_NEW(l->session, frame);
    const cr_op *op = c->op;

    *f = (frame){.known = CR_NEW_N(l->session, bool, op->slots.count),
                 .slot = CR_NEW_N(l->session, value, op->slots.count),
                 .l = l,
                 .s = l->session,
                 .op = op,
                 .t = c->t,
                 .columns = c->columns,
                 .half = c->half,
                 .scalar_code = op->does == CR_DOES_BODY || op->does == CR_DOES_FOLD ||
                                op->does == CR_DOES_SCAN};
    f->rounds =
        (c->half == CR_F16 || c->half == CR_BF16) && op->does == CR_DOES_IS && !op->fused;
    if (c->columns) {
        f->row = named_axis(l, "i", "R");
        f->column = named_axis(l, "j", "C");
    }
    for (int i = 0; i < op->param_count; i++) {
        f->slot[i] = given(f, i, &arg[i]);
        f->known[i] = true;
    }
    for (int k = 0; k < op->result_count; k++)
        result[k] = result_of(f, k);
}

/* --- single functions --- */

static const cr_expr *operand_of_fn(cr_loop *l, const cr_axis *both, int k, cr_dtype t)
{
    static const char *const name[] = {"a", "b", "c"};
    const cr_sym *size[2] = {both[0].extent, both[1].extent};
    const cr_sym *index[2] = {both[0].index, both[1].index};
    cr_buffer *b = cr_loop_buffer(l, CR_BUFFER_INPUT, name[k], t, 2, size);

    b->flexible = true;
    return cr_expr_load(l, b, index);
}

static const cr_expr *param_of_fn(cr_loop *l, const char *name)
{
    return cr_expr_param(l, cr_loop_param_new(l, name, CR_I64, (int)l->params.len));
}

static const cr_expr *random_of(cr_loop *l, const cr_axis *both)
{
    const cr_expr *seed = param_of_fn(l, "seed"), *offset = param_of_fn(l, "offset");
    const cr_expr *first = param_of_fn(l, "first"), *length = param_of_fn(l, "length");
    const cr_expr *i = cr_expr_integer(l, CR_I64, both[0].index);
    const cr_expr *j = cr_expr_integer(l, CR_I64, both[1].index);
    const cr_expr *row =
        cr_expr_call2(l, CR_FN_add, first, cr_expr_call2(l, CR_FN_mul, i, length));

    return cr_expr_call3(l, CR_FN_random, seed, offset, cr_expr_call2(l, CR_FN_add, row, j));
}

static const cr_expr *value_of_fn(cr_loop *l, cr_fn fn, cr_dtype t, const cr_axis *both)
{
    const cr_fn_info *info = &cr_fn_infos[fn];
    const cr_expr *args[3];

    if (info->kind == CR_FN_RANDOM)
        return random_of(l, both);
    if (info->kind == CR_FN_CAST)
        return cr_expr_cast(l, t, operand_of_fn(l, both, 0, CR_BOOL));
    for (int k = 0; k < info->args; k++)
        args[k] = operand_of_fn(l, both, k, info->kind == CR_FN_SELECT && !k ? CR_BOOL : t);
    return cr_expr_call(l, fn, info->args, args);
}

cr_loop *cr_loop_of_fn(cr_session *s, cr_fn fn, cr_dtype t, cr_form form)
{
    cr_loop *l = cr_loop_new(s);
    cr_axis both[2] = {named_axis(l, "i", "R"), named_axis(l, "j", "C")};
    const cr_sym *size[2] = {both[0].extent, both[1].extent};
    const cr_expr *e;
    int axes = form == CR_FORM_MAIN ? 2 : 1;

    if (cr_fn_infos[fn].kind != CR_FN_RANDOM && !cr_fn_has(fn, t))
        cr_bail(s, CR_TYPE, "%s does not exist for %s", cr_fn_infos[fn].name, cr_dtype_name(t));
    l->name = cr_session_printf(s, "fn_%s", cr_fn_infos[fn].name);
    l->origin = l->name;
    if (form == CR_FORM_MAIN)
        e = value_of_fn(l, fn, t, both);
    else if (cr_fn_keeps_index(fn))
        cr_bail(s, CR_TYPE, "%s has no kernel without an index", cr_fn_infos[fn].name);
    else
        e = cr_expr_reduce(l, fn, both[1], operand_of_fn(l, both, 0, t));
    for (size_t k = 0; k < l->buffers.len && form != CR_FORM_MAIN; k++)
        l->buffers.at[k]->flexible = false;
    cr_loop_define(l,
                   cr_loop_buffer(l, CR_BUFFER_OUTPUT, "out", (cr_dtype)e->dtype, axes, size),
                   axes, both, e);
    return l;
}
