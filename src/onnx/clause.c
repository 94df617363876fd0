/* The clause `onnx`: results as calls of ONNX's operators.
 *
 *     onnx  Conv(input, weight, bias, strides=stride, pads=padding + padding)
 *
 * In a call whose name begins with a capital, arguments by position are inputs of the node,
 * those by keyword its attributes; None is left out, and a list of tensors is several inputs.
 * Call[k] is result k.  A number is an input of no dims: an integer of dtype int64, another one
 * of the dtype of the node's first tensor; a list of integers has one dim.  Arithmetic and
 * comparisons with a tensor are nodes, whose numbers have the tensor's dtype.  Other calls are
 * built-in functions of rules, or entries with a clause. */
#include "onnx/lower.h"
#include "ops/eval.h"
#include <math.h>
#include <string.h>

typedef struct {
    ox *x;
    const cr_op *op;
    const ox_arg *arg; /* by parameter */
    ox_arg slot[CR_MAX_SLOTS];
    bool known[CR_MAX_SLOTS];
} scope;

static ox_arg eval(scope *f, const cr_rule *r);

CR_NORETURN static void refuse_rule(scope *f, const cr_rule *r, const char *what)
{
    ox_refuse(f->x, "%s:%d: %s%s%s", f->op->text.file, f->op->text.line, what,
              r->name ? " " : "", r->name ? r->name : "");
}

static ox_arg of_truth(bool b) { return (ox_arg){.tag = CR_TRUTH, .i = b}; }
static ox_arg of_float(double d) { return (ox_arg){.tag = CR_FLOAT, .d = d}; }
static ox_arg of_value(ox_value v) { return (ox_arg){.tag = CR_TENSOR, .v = v}; }

static bool is_number(const ox_arg *a)
{
    return a->tag == CR_INT || a->tag == CR_FLOAT || a->tag == CR_TRUTH;
}

static double real_of(const ox_arg *a) { return a->tag == CR_FLOAT ? a->d : (double)a->i; }

static bool truth(scope *f, const cr_rule *r, const ox_arg *a)
{
    if (a->at)
        refuse_rule(f, r, "a choice depends on a size:");
    switch (a->tag) {
    case CR_NONE: return false;
    case CR_INT:
    case CR_TRUTH: return a->i != 0;
    case CR_FLOAT: return a->d != 0;
    case CR_TENSORS: return a->len != 0;
    default: return true;
    }
}

static const cr_gvalue *graph_value(scope *f, const cr_rule *r, const ox_arg *a)
{
    if (a->tag != CR_TENSOR || !a->of)
        refuse_rule(f, r, "a tensor of the graph expected in");
    return a->of;
}

/* --- nodes --- */

static ox_value number_value(scope *f, const ox_arg *a, cr_dtype t)
{
    int64_t none = 0;

    if (a->at) {
        ox_value v =
            ox_op2(f->x->m, "Reshape", ox_int_value(f->x, a), ox_ints(f->x->m, &none, 0));
        return ox_cast(f->x->m, v, t);
    }
    return ox_number(f->x->m, t,
                     a->tag == CR_FLOAT ? cr_scalar_float(a->d) : cr_scalar_int(a->i));
}

static ox_value floats_value(scope *f, const ox_arg *list)
{
    float *at = CR_NEW_N(f->x->s, float, list->len + 1);
    int64_t n = list->len;

    for (uint32_t i = 0; i < list->len; i++)
        at[i] = (float)real_of(&list->list[i]);
    return ox_constant(f->x->m, CR_F32, 1, &n, at);
}

static ox_value list_value(scope *f, const cr_rule *r, const ox_arg *list)
{
    bool floats = false;

    for (uint32_t i = 0; i < list->len; i++) {
        if (!is_number(&list->list[i]))
            refuse_rule(f, r, "a list of numbers expected in");
        floats = floats || list->list[i].tag == CR_FLOAT;
    }
    return floats ? floats_value(f, list) : ox_list_value(f->x, list->list, list->len);
}

static ox_value input_value(scope *f, const cr_rule *r, const ox_arg *a, cr_dtype t)
{
    switch (a->tag) {
    case CR_TENSOR:
        if (!a->v.name)
            refuse_rule(f, r, "a result that has no value in ONNX goes into");
        return a->v;
    case CR_NONE: return (ox_value){NULL, t};
    case CR_INT: return number_value(f, a, CR_I64);
    case CR_TRUTH: return number_value(f, a, CR_BOOL);
    case CR_FLOAT: return number_value(f, a, t);
    case CR_TENSORS: return list_value(f, r, a);
    default: refuse_rule(f, r, "no input of a node:");
    }
}

static bool is_tensor_list(const ox_arg *a)
{
    return a->tag == CR_TENSORS && a->len && a->list[0].tag == CR_TENSOR;
}

static ox_attr list_attr(scope *f, const cr_rule *r, const char *name, const ox_arg *a)
{
    int64_t *ints = CR_NEW_N(f->x->s, int64_t, a->len + 1);
    double *floats = CR_NEW_N(f->x->s, double, a->len + 1);
    bool whole = true;

    for (uint32_t i = 0; i < a->len; i++) {
        if (!is_number(&a->list[i]) || a->list[i].at)
            refuse_rule(f, r, "an attribute depends on a size:");
        whole = whole && a->list[i].tag != CR_FLOAT;
        ints[i] = a->list[i].i;
        floats[i] = real_of(&a->list[i]);
    }
    return (ox_attr){.name = name,
                     .kind = whole ? OX_INTS : OX_FLOATS,
                     .len = a->len,
                     .ints = whole ? ints : NULL,
                     .floats = floats};
}

static ox_attr attr_of(scope *f, const cr_rule *r, const char *name, const ox_arg *a)
{
    if (a->at)
        refuse_rule(f, r, "an attribute depends on a size:");
    switch (a->tag) {
    case CR_INT:
    case CR_TRUTH: return (ox_attr){.name = name, .kind = OX_INT, .i = a->i};
    case CR_DTYPE_VAL:
        return (ox_attr){.name = name, .kind = OX_INT, .i = ox_dtype((cr_dtype)a->i)};
    case CR_FLOAT: return (ox_attr){.name = name, .kind = OX_FLOAT, .d = a->d};
    case CR_STRING: return (ox_attr){.name = name, .kind = OX_TEXT, .text = a->text};
    case CR_TENSORS: return list_attr(f, r, name, a);
    default: refuse_rule(f, r, "no attribute of a node:");
    }
}

/* The dtype of result `out`, where it is not that of the first input. */
static cr_dtype node_dtype(const char *op, const ox_value *in, int inputs, int out,
                           const ox_arg *to)
{
    static const char *const ints[] = {"Shape", "Size", "NonZero", "ArgMax", "ArgMin"},
                             *const truths[] = {"Equal", "Greater",     "GreaterOrEqual",
                                                "Less",  "LessOrEqual", "IsNaN",
                                                "IsInf"},
                             *const seconds[] = {"Where", "CastLike"};

    if (to)
        return (cr_dtype)to->i;
    for (size_t i = 0; i < CR_LEN(ints); i++)
        if (!strcmp(op, ints[i]))
            return CR_I64;
    for (size_t i = 0; i < CR_LEN(truths); i++)
        if (!strcmp(op, truths[i]))
            return CR_BOOL;
    for (size_t i = 0; i < CR_LEN(seconds); i++)
        if (!strcmp(op, seconds[i]) && inputs > 1)
            return in[1].dtype;
    if (!strcmp(op, "OneHot"))
        return in[2].dtype;
    return !strcmp(op, "TopK") && out ? CR_I64 : inputs ? in[0].dtype : CR_F32;
}

enum { MOST_INPUTS = 256 };

static ox_arg eval_node(scope *f, const cr_rule *r, int out)
{
    ox_value *in = CR_NEW_N(f->x->s, ox_value, MOST_INPUTS);
    ox_attr attr[CR_MAX_ARGS];
    int inputs = 0, attrs = 0;
    cr_dtype first = CR_F32;
    ox_arg to = {.tag = CR_NONE};

    for (int i = 0; i < r->count; i++) {
        ox_arg a = eval(f, r->args[i]);
        if (r->keyword[i] && a.tag != CR_NONE && !(a.tag == CR_TENSORS && !a.len)) {
            attr[attrs++] = attr_of(f, r, r->keyword[i], &a);
            to = a.tag == CR_DTYPE_VAL ? a : to;
        }
        if (r->keyword[i])
            continue;
        uint32_t count = is_tensor_list(&a) ? a.len : 1;
        if (inputs + count > MOST_INPUTS)
            refuse_rule(f, r, "too many inputs of");
        for (uint32_t k = 0; k < count; k++) {
            ox_arg *one = is_tensor_list(&a) ? &a.list[k] : &a;
            first = one->tag == CR_TENSOR && !inputs ? one->v.dtype : first;
            in[inputs++] = input_value(f, r, one, first);
        }
    }
    cr_dtype t = node_dtype(r->name, in, inputs, out, to.tag == CR_NONE ? NULL : &to);
    return of_value(ox_call(f->x->m, r->name, in, inputs, attr, attrs, out, t));
}

/* --- arithmetic --- */

static ox_arg tensor_arithmetic(scope *f, const cr_rule *r, const ox_arg *a)
{
    static const struct {
        uint8_t builtin;
        const char *op;
        bool test;
    } ops[] = {{CR_BUILTIN_add, "Add", false},       {CR_BUILTIN_sub, "Sub", false},
               {CR_BUILTIN_mul, "Mul", false},       {CR_BUILTIN_div, "Div", false},
               {CR_BUILTIN_pow, "Pow", false},       {CR_BUILTIN_neg, "Neg", false},
               {CR_BUILTIN_remainder, "Mod", false}, {CR_BUILTIN_eq, "Equal", true},
               {CR_BUILTIN_lt, "Less", true},        {CR_BUILTIN_le, "LessOrEqual", true},
               {CR_BUILTIN_gt, "Greater", true},     {CR_BUILTIN_ge, "GreaterOrEqual", true}};
    cr_dtype t = a[0].tag == CR_TENSOR ? a[0].v.dtype : a[1].v.dtype;
    ox_value in[2];

    for (int i = 0; i < r->count; i++)
        in[i] = is_number(&a[i]) ? number_value(f, &a[i], t) : input_value(f, r, &a[i], t);
    for (size_t i = 0; i < CR_LEN(ops); i++)
        if (ops[i].builtin == r->builtin)
            return of_value(ox_call(f->x->m, ops[i].op, in, r->count, NULL, 0, 0,
                                    ops[i].test ? CR_BOOL : t));
    refuse_rule(f, r, "no node for");
}

static bool int_result(int builtin, int64_t a, int64_t b, int64_t *out)
{
    switch (builtin) {
    case CR_BUILTIN_add: *out = a + b; return true;
    case CR_BUILTIN_sub: *out = a - b; return true;
    case CR_BUILTIN_mul: *out = a * b; return true;
    case CR_BUILTIN_least: *out = a < b ? a : b; return true;
    case CR_BUILTIN_most: *out = a > b ? a : b; return true;
    case CR_BUILTIN_floordiv: *out = b ? (a - ((a % b) + b) % b) / b : 0; return b != 0;
    case CR_BUILTIN_remainder: *out = b ? ((a % b) + b) % b : 0; return b != 0;
    default: return false;
    }
}

static double float_result(scope *f, const cr_rule *r, double a, double b)
{
    switch (r->builtin) {
    case CR_BUILTIN_add: return a + b;
    case CR_BUILTIN_sub: return a - b;
    case CR_BUILTIN_mul: return a * b;
    case CR_BUILTIN_div: return a / b;
    case CR_BUILTIN_pow: return pow(a, b);
    case CR_BUILTIN_least: return a < b ? a : b;
    case CR_BUILTIN_most: return a > b ? a : b;
    default: refuse_rule(f, r, "no arithmetic of numbers:");
    }
}

static ox_arg number_arithmetic(scope *f, const cr_rule *r, const ox_arg *a)
{
    int64_t at[OX_SAMPLES];
    bool whole = a[0].tag != CR_FLOAT && a[1].tag != CR_FLOAT;

    if (!is_number(&a[0]) || !is_number(&a[1]))
        refuse_rule(f, r, "numbers expected in");
    for (int p = 0; p < f->x->samples && whole; p++)
        whole = int_result(r->builtin, a[0].at ? a[0].at[p] : a[0].i,
                           a[1].at ? a[1].at[p] : a[1].i, &at[p]);
    if (whole)
        return ox_varying(f->x, at);
    if (a[0].at || a[1].at)
        refuse_rule(f, r, "a number depends on a size:");
    return of_float(float_result(f, r, real_of(&a[0]), real_of(&a[1])));
}

/* a - b is negative, zero or positive, or NaN: in sample p. */
static double difference(const ox_arg *a, const ox_arg *b, int p)
{
    return (a->at ? (double)a->at[p] : real_of(a)) - (b->at ? (double)b->at[p] : real_of(b));
}

static bool holds(int builtin, double d)
{
    switch (builtin) {
    case CR_BUILTIN_eq: return d == 0;
    case CR_BUILTIN_ne: return d != 0;
    case CR_BUILTIN_lt: return d < 0;
    case CR_BUILTIN_le: return d <= 0;
    case CR_BUILTIN_gt: return d > 0;
    default: return d >= 0;
    }
}

/* The answer, which must be the same in all samples. */
static bool compare_numbers(scope *f, const cr_rule *r, int builtin, const ox_arg *a,
                            const ox_arg *b)
{
    bool first = !a->at && !b->at && a->tag == CR_FLOAT && real_of(a) == real_of(b)
                     ? holds(builtin, 0) /* infinities */
                     : holds(builtin, difference(a, b, 0));

    for (int p = 1; p < f->x->samples && (a->at || b->at); p++)
        if (holds(builtin, difference(a, b, p)) != first)
            refuse_rule(f, r, "a comparison depends on a size:");
    return first;
}

static bool same_arg(scope *f, const cr_rule *r, const ox_arg *a, const ox_arg *b)
{
    if (is_number(a) && is_number(b))
        return compare_numbers(f, r, CR_BUILTIN_eq, a, b);
    if (a->tag != b->tag)
        return false;
    switch (a->tag) {
    case CR_NONE: return true;
    case CR_STRING: return !strcmp(a->text, b->text);
    case CR_DTYPE_VAL: return a->i == b->i;
    case CR_TENSORS:
        for (uint32_t i = 0; a->len == b->len && i < a->len; i++)
            if (!same_arg(f, r, &a->list[i], &b->list[i]))
                return false;
        return a->len == b->len;
    default: return false;
    }
}

static ox_arg compare(scope *f, const cr_rule *r, const ox_arg *a)
{
    if (is_number(&a[0]) && is_number(&a[1]))
        return of_truth(compare_numbers(f, r, r->builtin, &a[0], &a[1]));
    if (r->builtin != CR_BUILTIN_eq && r->builtin != CR_BUILTIN_ne)
        refuse_rule(f, r, "numbers expected in");
    return of_truth(same_arg(f, r, &a[0], &a[1]) == (r->builtin == CR_BUILTIN_eq));
}

/* Lists are joined by `+`. */
static ox_arg joined_lists(scope *f, const ox_arg *a, const ox_arg *b)
{
    ox_arg out = {.tag = CR_TENSORS, .len = a->len + b->len};

    out.list = CR_NEW_N(f->x->s, ox_arg, out.len + 1);
    if (a->len)
        memcpy(out.list, a->list, a->len * sizeof *a->list);
    if (b->len)
        memcpy(out.list + a->len, b->list, b->len * sizeof *b->list);
    return out;
}

/* --- built-in functions --- */

static ox_arg ints_to(scope *f, int64_t n)
{
    ox_arg out = {.tag = CR_TENSORS, .len = (uint32_t)(n > 0 ? n : 0)};

    out.list = CR_NEW_N(f->x->s, ox_arg, out.len + 1);
    for (uint32_t i = 0; i < out.len; i++)
        out.list[i] = ox_int(i);
    return out;
}

static ox_arg sizes_of(scope *f, const cr_rule *r, const ox_arg *a)
{
    const cr_gvalue *v = graph_value(f, r, &a[0]);

    if (r->count == 2) {
        int64_t d = a[1].i < 0 ? a[1].i + v->type.ndim : a[1].i;
        if (d < 0 || d >= v->type.ndim)
            refuse_rule(f, r, "no such dim in");
        return ox_size(f->x, v, (int)d);
    }
    ox_arg out = ints_to(f, v->type.ndim);
    for (uint32_t d = 0; d < out.len; d++)
        out.list[d] = ox_size(f->x, v, (int)d);
    return out;
}

static cr_dtype dtype_of(const ox_arg *a)
{
    switch (a->tag) {
    case CR_TENSOR: return a->v.name ? a->v.dtype : (cr_dtype)a->of->type.dtype;
    case CR_DTYPE_VAL: return (cr_dtype)a->i;
    case CR_INT: return CR_I64;
    case CR_FLOAT: return CR_F32;
    case CR_TRUTH: return CR_BOOL;
    default: return CR_DTYPE_NONE;
    }
}

static ox_arg total_of(scope *f, const cr_rule *r, const ox_arg *list)
{
    bool product = r->builtin == CR_BUILTIN_product;
    int64_t at[OX_SAMPLES];

    for (int p = 0; p < f->x->samples; p++) {
        at[p] = product;
        for (uint32_t i = 0; i < list->len; i++) {
            int64_t n = list->list[i].at ? list->list[i].at[p] : list->list[i].i;
            at[p] = product ? at[p] * n : at[p] + n;
        }
    }
    return ox_varying(f->x, at);
}

static ox_arg wrapped(scope *f, const ox_arg *dims, int64_t ndim)
{
    ox_arg out = ints_to(f, dims->tag == CR_TENSORS && dims->len ? dims->len : ndim);

    for (uint32_t i = 0; dims->tag == CR_TENSORS && i < dims->len; i++)
        out.list[i] = ox_int(dims->list[i].i < 0 ? dims->list[i].i + ndim : dims->list[i].i);
    return out;
}

static ox_arg list_builtin(scope *f, const cr_rule *r, const ox_arg *a)
{
    int64_t n;

    switch ((cr_builtin)r->builtin) {
    case CR_BUILTIN_len: return ox_int(a[0].len);
    case CR_BUILTIN_range:
        if (a[0].at)
            refuse_rule(f, r, "a count depends on a size:");
        return ints_to(f, a[0].i);
    case CR_BUILTIN_product:
    case CR_BUILTIN_total: return total_of(f, r, &a[0]);
    case CR_BUILTIN_wrap: n = a[0].i < 0 ? a[0].i + a[1].i : a[0].i; return ox_int(n);
    case CR_BUILTIN_wraps: return wrapped(f, &a[0], a[1].i);
    case CR_BUILTIN_first:
    case CR_BUILTIN_has:
        n = -1;
        for (uint32_t i = a[0].len; i-- > 0;)
            n = same_arg(f, r, &a[0].list[i], &a[1]) ? i : n;
        return r->builtin == CR_BUILTIN_has ? of_truth(n >= 0) : ox_int(n);
    default: refuse_rule(f, r, "no function of clauses `onnx`:");
    }
}

static ox_arg builtin(scope *f, const cr_rule *r, const ox_arg *a)
{
    cr_dtype t = dtype_of(a);

    switch ((cr_builtin)r->builtin) {
    case CR_BUILTIN_size: return sizes_of(f, r, a);
    case CR_BUILTIN_ndim: return ox_int(graph_value(f, r, a)->type.ndim);
    case CR_BUILTIN_dims: return ints_to(f, graph_value(f, r, a)->type.ndim);
    case CR_BUILTIN_dtype: return (ox_arg){.tag = CR_DTYPE_VAL, .i = t};
    case CR_BUILTIN_is_float: return of_truth(t != CR_DTYPE_NONE && cr_dtype_is_float(t));
    case CR_BUILTIN_is_complex: return of_truth(t != CR_DTYPE_NONE && cr_dtype_is_complex(t));
    case CR_BUILTIN_is_integral:
        return of_truth(t != CR_DTYPE_NONE && cr_dtype_category(t) < CR_CAT_FLOAT);
    case CR_BUILTIN_is_tensor: return of_truth(a->tag == CR_TENSOR);
    default: return list_builtin(f, r, a);
    }
}

/* --- calls --- */

static ox_arg eval_logic(scope *f, const cr_rule *r);

static bool any_tensor(const ox_arg *a, int n)
{
    for (int i = 0; i < n; i++)
        if (a[i].tag == CR_TENSOR)
            return true;
    return false;
}

static ox_arg eval_operator(scope *f, const cr_rule *r, const ox_arg *a)
{
    bool none = a[0].tag == CR_NONE || (r->count > 1 && a[1].tag == CR_NONE);

    if (any_tensor(a, r->count) && !none)
        return tensor_arithmetic(f, r, a);
    if (r->builtin == CR_BUILTIN_neg && a[0].tag == CR_FLOAT)
        return of_float(-a[0].d);
    if (r->builtin == CR_BUILTIN_neg) {
        ox_arg two[2] = {ox_int(0), a[0]};
        cr_rule minus = *r;
        minus.builtin = CR_BUILTIN_sub;
        minus.count = 2;
        return number_arithmetic(f, &minus, two);
    }
    if (r->builtin >= CR_BUILTIN_eq && r->builtin <= CR_BUILTIN_ge)
        return compare(f, r, a);
    if (r->builtin == CR_BUILTIN_add && a[0].tag == CR_TENSORS && a[1].tag == CR_TENSORS)
        return joined_lists(f, &a[0], &a[1]);
    return number_arithmetic(f, r, a);
}

static ox_arg preset_arg(const cr_value *v)
{
    switch (v->tag) {
    case CR_INT:
    case CR_TRUTH:
    case CR_DTYPE_VAL: return (ox_arg){.tag = v->tag, .i = v->i};
    case CR_FLOAT: return of_float(v->d);
    case CR_NUMBER:
        return v->number.category == CR_CAT_FLOAT ? of_float(v->number.d) : ox_int(v->number.i);
    case CR_STRING: return (ox_arg){.tag = CR_STRING, .text = v->s};
    case CR_INTS: return (ox_arg){.tag = CR_TENSORS};
    default: return (ox_arg){.tag = CR_NONE};
    }
}

static ox_arg eval_entry(scope *f, const cr_rule *r, const ox_arg *a)
{
    scope *inner = CR_NEW(f->x->s, scope);
    ox_arg *arg = CR_NEW_N(f->x->s, ox_arg, CR_MAX_ARGS);

    if (!r->op || !r->op->onnx || r->count > r->op->param_count)
        refuse_rule(f, r, "no clause `onnx` of");
    for (int p = 0; p < r->op->param_count; p++)
        arg[p] = preset_arg(&r->op->param[p].preset);
    for (int i = 0; i < r->count; i++)
        arg[r->keyword[i] ? cr_op_find_param(r->op, r->keyword[i]) : i] = a[i];
    *inner = (scope){.x = f->x, .op = r->op, .arg = arg};
    return eval(inner, r->op->onnx[0]);
}

static ox_arg eval_call(scope *f, const cr_rule *r)
{
    ox_arg a[CR_MAX_ARGS];

    if (*r->name >= 'A' && *r->name <= 'Z')
        return eval_node(f, r, 0);
    if (cr_rule_is_logic(r))
        return eval_logic(f, r);
    if (r->count > CR_MAX_ARGS)
        refuse_rule(f, r, "too many arguments of");
    for (int i = 0; i < r->count; i++)
        a[i] = eval(f, r->args[i]);
    if (r->builtin >= CR_BUILTIN_add || r->builtin == CR_BUILTIN_least ||
        r->builtin == CR_BUILTIN_most)
        return eval_operator(f, r, a);
    return r->builtin >= 0 ? builtin(f, r, a) : eval_entry(f, r, a);
}

/* --- other expressions --- */

static ox_arg eval_name(scope *f, const cr_rule *r)
{
    int let = r->slot - f->op->slots.let;

    if (r->slot < 0 && r->integer > 0)
        return (ox_arg){.tag = CR_DTYPE_VAL, .i = r->integer - 1};
    if (r->slot < 0)
        return of_float(!strcmp(r->name, "inf")   ? (double)INFINITY
                        : !strcmp(r->name, "nan") ? (double)NAN
                        : !strcmp(r->name, "pi")  ? M_PI
                                                  : M_LN2);
    if (r->slot < f->op->param_count)
        return f->arg[r->slot];
    if (f->op == f->x->node[0]->op && r->slot >= f->op->slots.result &&
        r->slot < f->op->slots.grad) /* for its sizes */
        return (ox_arg){.tag = CR_TENSOR,
                        .of = f->x->node[0]->result[r->slot - f->op->slots.result]};
    if (!f->known[r->slot]) {
        if (let < 0 || let >= f->op->let_count)
            refuse_rule(f, r, "no value is called");
        f->slot[r->slot] = eval(f, f->op->lets[let].rule);
        f->known[r->slot] = true;
    }
    return f->slot[r->slot];
}

static ox_arg eval_each(scope *f, const cr_rule *r)
{
    ox_arg over = eval(f, r->args[0]), out = {.tag = CR_TENSORS, .len = over.len};
    uint32_t n = 0;

    if (over.tag != CR_TENSORS)
        refuse_rule(f, r, "a list expected for");
    out.list = CR_NEW_N(f->x->s, ox_arg, out.len + 1);
    for (uint32_t i = 0; i < over.len; i++) {
        f->slot[r->slot] = over.list[i];
        f->known[r->slot] = true;
        if (r->count > 2) {
            ox_arg holds = eval(f, r->args[2]);
            if (!truth(f, r, &holds))
                continue;
        }
        out.list[n++] = eval(f, r->args[1]);
    }
    f->known[r->slot] = false;
    out.len = n;
    return out;
}

static ox_arg eval_index(scope *f, const cr_rule *r)
{
    const cr_rule *of = r->args[0];
    ox_arg at = eval(f, r->args[1]), list;

    if (of->kind == CR_RULE_CALL && *of->name >= 'A' && *of->name <= 'Z')
        return eval_node(f, of, (int)at.i);
    list = eval(f, of);
    if (list.tag != CR_TENSORS || at.tag != CR_INT)
        refuse_rule(f, r, "a list expected");
    at.i += at.i < 0 ? list.len : 0;
    if (at.i < 0 || at.i >= list.len)
        refuse_rule(f, r, "index out of range");
    return list.list[at.i];
}

static ox_arg eval_list(scope *f, const cr_rule *r)
{
    ox_arg out = {.tag = CR_TENSORS, .len = r->count};

    out.list = CR_NEW_N(f->x->s, ox_arg, out.len + 1);
    for (uint32_t i = 0; i < out.len; i++)
        out.list[i] = eval(f, r->args[i]);
    return out;
}

/* --- the domain: values of the file --- */

static cr_status file_part(void *in, const cr_rule *r, void *out);

static cr_status file_constant(void *in, cr_value v, void *out)
{
    (void)in;
    *(ox_arg *)out = preset_arg(&v);
    return CR_OK;
}

static cr_rule_truth file_truth(void *in, const cr_rule *r, const void *value)
{
    return truth(in, r, value) ? CR_RULE_TRUE : CR_RULE_FALSE;
}

CR_RULE_PART(file_name_part, ox_arg, eval_name)
CR_RULE_PART(file_call_part, ox_arg, eval_call)
CR_RULE_PART(file_list_part, ox_arg, eval_list)
CR_RULE_PART(file_each_part, ox_arg, eval_each)
CR_RULE_PART(file_index_part, ox_arg, eval_index)

static const cr_rule_domain file_values = {.eval = file_part,
                                           .constant = file_constant,
                                           .name = file_name_part,
                                           .call = file_call_part,
                                           .list = file_list_part,
                                           .each = file_each_part,
                                           .index = file_index_part,
                                           .truth = file_truth};

static cr_status file_part(void *in, const cr_rule *r, void *out)
{
    return cr_rule_eval(&file_values, in, r, out);
}

static ox_arg eval(scope *f, const cr_rule *r)
{
    ox_arg a = {.tag = CR_NONE};

    file_part(f, r, &a);
    return a;
}

static ox_arg eval_logic(scope *f, const cr_rule *r)
{
    ox_arg a = {.tag = CR_NONE};

    cr_rule_logic(&file_values, f, r, &a);
    return a;
}

/* --- the node --- */

static ox_value result_value(scope *f, const cr_rule *r, const ox_arg *a)
{
    if (a->tag == CR_NONE)
        refuse_rule(f, r, "no form in ONNX with these arguments");
    return input_value(f, r, a, CR_F32);
}

bool ox_by_clause(ox *x, ox_value *out)
{
    const cr_gnode *n = x->node[0];
    scope *f = CR_NEW(x->s, scope);
    ox_arg *arg = CR_NEW_N(x->s, ox_arg, CR_MAX_ARGS);

    if (!n->op->onnx)
        return false;
    for (int i = 0; i < n->arg_count; i++)
        arg[i] = ox_argument(x, i);
    *f = (scope){.x = x, .op = n->op, .arg = arg};
    for (int k = 0; k < n->op->onnx_count; k++) {
        const cr_rule *r = n->op->onnx[k];
        ox_arg a = eval(f, r);
        bool list = a.tag == CR_TENSORS &&
                    (n->op->result_count > 1 ? n->op->onnx_count == 1
                                             : n->op->result[0].type == CR_T_TENSORS);
        if (list && (int)a.len > n->result_count)
            refuse_rule(f, r, "another number of results");
        for (uint32_t i = 0; list && i < a.len; i++)
            out[i] = result_value(f, r, &a.list[i]);
        if (!list)
            out[k] = result_value(f, r, &a);
    }
    return true;
}
