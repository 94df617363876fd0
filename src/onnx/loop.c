/* Entries by their loop programs: pointwise bodies, reductions, rows and scans.
 *
 * The expression of a result (loop/build.h) becomes a node for each call (fn.def).  Operands
 * broadcast as ONNX's operators do, so an expression needs no axes; a reduction over the column
 * axis is one over the dims of a row, which stay as dims of size 1. */
#include "loop/build.h"
#include "onnx/lower.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
    ox *x;
    cr_loop *l;
    uint64_t row;            /* the dims of a row */
    cr_dtype compute;        /* the entry's compute type */
    int ndim;                /* of the operand with rows */
    const ox_value *operand; /* by slot of its buffer */
    ox_value *made;          /* by id of an expression */
} walk;

bool ox_is_loop(const cr_gnode *n)
{
    return n->op->does == CR_DOES_BODY || n->op->does == CR_DOES_FOLD ||
           n->op->does == CR_DOES_SCAN || n->op->fused;
}

/* --- functions --- */

static const struct {
    uint8_t fn;
    const char *kinds, *text;
} forms[] = {
#define CR_ONNX_FN(name, kinds, text) {CR_FN_##name, kinds, text},
#include "onnx/fn.def"
#undef CR_ONNX_FN
};

static const char *form_of(walk *w, cr_fn fn, cr_dtype t)
{
    char kind = cr_dtype_is_float(t)     ? 'F'
                : t == CR_BOOL           ? 'B'
                : cr_dtype_is_complex(t) ? 'C'
                                         : 'I';

    for (size_t i = 0; i < CR_LEN(forms); i++)
        if (forms[i].fn == fn && strchr(forms[i].kinds, kind))
            return forms[i].text;
    ox_refuse(w->x, "ONNX has no %s of %s", cr_fn_infos[fn].name, cr_dtype_name(t));
}

/* A node "Name.attribute=number=B:count" on the last values of the stack. */
static int put_form_node(walk *w, const char *token, ox_value *stack, int depth, cr_dtype t)
{
    const char *colon = strchr(token, ':'), *dot = strchr(token, '.'),
               *equals = strchr(token, '=');
    int count = atoi(colon + 1), first = depth - count;
    const char *end = dot ? dot : equals ? equals : colon;
    ox_attr attr = {.kind = OX_INT, .i = dot ? atoi(equals + 1) : 0};
    bool test = !dot && equals;

    if (dot)
        attr.name = cr_session_printf(w->x->s, "%.*s", (int)(equals - dot - 1), dot + 1);
    const char *op = cr_session_printf(w->x->s, "%.*s", (int)(end - token), token);
    if (!test && stack[first].dtype == CR_BOOL && count < 3)
        t = CR_BOOL;
    stack[first] = ox_call(w->x->m, op, stack + first, count, &attr, dot != NULL, 0,
                           test         ? CR_BOOL
                           : count == 3 ? stack[first + 1].dtype
                                        : t);
    return first + 1;
}

static ox_value put_form(walk *w, const char *text, const ox_value *arg, cr_dtype t)
{
    ox_value stack[8];
    int depth = 0;

    while (*text) {
        size_t len = strcspn(text, " ");
        const char *token = cr_session_printf(w->x->s, "%.*s", (int)len, text);
        if (*token == '$')
            stack[depth++] = arg[token[1] - '0'];
        else if (*token >= '0' && *token <= '9')
            stack[depth++] = ox_number(w->x->m, t, cr_scalar_float(strtod(token, NULL)));
        else
            depth = put_form_node(w, token, stack, depth, t);
        text += len + (text[len] == ' ');
    }
    return stack[0];
}

/* --- rows --- */

static ox_value row_axes(walk *w)
{
    int64_t axis[64];
    size_t n = 0;

    for (int d = 0; d < w->ndim; d++)
        if (w->row >> d & 1)
            axis[n++] = d;
    return ox_ints(w->x->m, axis, n);
}

static int one_axis(walk *w)
{
    int d = 0;

    while (d < w->ndim && !(w->row >> d & 1))
        d++;
    if (w->row != (uint64_t)1 << d)
        ox_refuse(w->x, "it needs one dim");
    return d;
}

/* of bools: the extremes of integers. */
static ox_value put_reduce(walk *w, const cr_expr *e, ox_value of)
{
    const char *op;
    bool truth = of.dtype == CR_BOOL;

    switch ((cr_fn)e->fn) {
    case CR_FN_add: op = "ReduceSum"; break;
    case CR_FN_mul: op = "ReduceProd"; break;
    case CR_FN_maximum:
    case CR_FN_above:
    case CR_FN_or: op = "ReduceMax"; break;
    case CR_FN_minimum:
    case CR_FN_below:
    case CR_FN_and: op = "ReduceMin"; break;
    default: ox_refuse(w->x, "ONNX has no reduction by %s", cr_fn_infos[e->fn].name);
    }
    if (!w->row)
        return of;
    ox_value in = truth ? ox_cast(w->x->m, of, CR_I32) : of;
    in = ox_op2(w->x->m, op, in, row_axes(w));
    return truth ? ox_cast(w->x->m, in, CR_BOOL) : in;
}

/* The index of an extreme; of all elements, that in row-major order. */
static ox_value put_index(walk *w, const cr_expr *reduce, ox_value of)
{
    ox_model *m = w->x->m;
    bool all = w->row == (w->ndim ? ~(uint64_t)0 >> (64 - w->ndim) : 0);
    ox_attr attr[2] = {{.name = "axis", .kind = OX_INT},
                       {.name = "keepdims", .kind = OX_INT, .i = 1}};
    int64_t flat = -1;

    if (reduce->kind != CR_EXPR_REDUCE)
        ox_refuse(w->x, "ONNX has no index of a running extreme");
    if (of.dtype == CR_BOOL)
        of = ox_cast(m, of, CR_I32);
    if (!all || w->ndim == 1)
        attr[0].i = one_axis(w);
    else
        of = ox_op2(m, "Reshape", of, ox_ints(m, &flat, 1));
    return ox_call(m, reduce->fn == CR_FN_above ? "ArgMax" : "ArgMin", &of, 1, attr, 2, 0,
                   CR_I64);
}

static ox_value put_scan(walk *w, const cr_expr *e, ox_value of)
{
    ox_attr attr = {.name = "reverse", .kind = OX_INT, .i = e->back};
    int64_t axis = one_axis(w);

    if (e->fn != CR_FN_add)
        ox_refuse(w->x, "ONNX has no running %s", cr_fn_infos[e->fn].name);
    ox_value in[2] = {of, ox_constant(w->x->m, CR_I64, 0, NULL, &axis)};
    return ox_call(w->x->m, "CumSum", in, 2, &attr, 1, 0, of.dtype);
}

/* The number of elements of a row in a sample. */
static int64_t row_size(const walk *w, int p)
{
    const cr_gvalue *v = w->x->node[0]->arg[0].value;
    int64_t n = 1;

    for (int d = 0; d < w->ndim; d++)
        n *= w->row >> d & 1 ? w->x->twin[p][v->id]->type.size[d] : 1;
    return n;
}

static int64_t row_size_for(void *context, const cr_sym *name)
{
    (void)name;
    return *(const int64_t *)context;
}

/* An expression over the number of elements of a row. */
static ox_value put_row_size(walk *w, const cr_expr *e)
{
    int64_t at[OX_SAMPLES];
    int64_t none = 0;
    bool wrong = false;

    for (int p = 0; p < w->x->samples; p++) {
        int64_t n = row_size(w, p);
        at[p] = cr_sym_eval(e->index[0], row_size_for, &n, &wrong);
    }
    if (wrong)
        ox_refuse(w->x, "a number of elements is too large");
    ox_arg n = ox_varying(w->x, at);
    if (!n.at)
        return ox_number(w->x->m, (cr_dtype)e->dtype, cr_scalar_int(n.i));
    ox_value one =
        ox_op2(w->x->m, "Reshape", ox_int_value(w->x, &n), ox_ints(w->x->m, &none, 0));
    return ox_cast(w->x->m, one, (cr_dtype)e->dtype);
}

/* --- expressions --- */

static ox_value put_expr(walk *w, const cr_expr *e);

static ox_value put_call(walk *w, const cr_expr *e)
{
    ox_value arg[3];

    for (int i = 0; i < e->count; i++)
        arg[i] = put_expr(w, e->args[i]);
    for (int i = 0; i < 2 && e->fn == CR_FN_mul; i++) /* x * 1 is x */
        if (e->args[i]->kind == CR_EXPR_CONST && cr_scalar_as_double(e->args[i]->value) == 1)
            return arg[1 - i];
    if (e->fn == CR_FN_cast)
        return ox_cast(w->x->m, arg[0], (cr_dtype)e->dtype);
    cr_dtype t = arg[e->count - 1].dtype;
    return put_form(w, form_of(w, (cr_fn)e->fn, t), arg, t);
}

static ox_value put_any(walk *w, const cr_expr *e)
{
    switch ((cr_expr_kind)e->kind) {
    case CR_EXPR_CONST: return ox_number(w->x->m, (cr_dtype)e->dtype, e->value);
    case CR_EXPR_LOAD: return w->operand[e->buffer->slot];
    case CR_EXPR_INTEGER: return put_row_size(w, e);
    case CR_EXPR_CALL: return put_call(w, e);
    case CR_EXPR_REDUCE: return put_reduce(w, e, put_expr(w, e->args[0]));
    case CR_EXPR_SCAN: return put_scan(w, e, put_expr(w, e->args[0]));
    case CR_EXPR_INDEX_OF: return put_index(w, e->args[0], put_expr(w, e->args[0]->args[0]));
    default: ox_refuse(w->x, "its loop has no form in ONNX");
    }
}

static ox_value put_expr(walk *w, const cr_expr *e)
{
    if (!w->made[e->id].name)
        w->made[e->id] = put_any(w, e);
    return w->made[e->id];
}

/* --- the node --- */

static int row_param(const cr_op *op)
{
    return op->fused ? op->rows.dim : cr_op_find_param(op, "dim");
}

/* The dims of a row: those that a parameter `dim` names, none of which is all, or the last
 * ones. */
static void find_row(walk *w, const cr_gnode *n)
{
    int at = row_param(n->op);
    uint32_t count;

    if (n->op->does == CR_DOES_BODY)
        return;
    w->ndim = n->arg[0].value->type.ndim;
    const cr_garg *a = at < 0 ? NULL : &n->arg[at];
    if (!a || a->tag == CR_NONE || (a->tag == CR_INTS && !a->len)) {
        w->row = w->ndim ? ~(uint64_t)0 >> (64 - w->ndim) : 0;
        return;
    }
    count = a->tag == CR_INTS ? a->len : 1;
    for (uint32_t i = 0; i < count; i++) {
        int64_t d = a->tag == CR_INTS ? a->ints[i] : a->i;
        if (!strcmp(n->op->param[at].name, "normalized_shape"))
            d = w->ndim - 1 - (int64_t)i;
        w->row |= w->ndim ? (uint64_t)1 << (d < 0 ? d + w->ndim : d) : 0;
    }
}

static cr_loop_arg loop_tensor(walk *w, const cr_gvalue *v, int i, ox_value *operand)
{
    cr_loop *l = w->l;
    cr_dtype t = cr_dtype_compute((cr_dtype)v->type.dtype); /* halves are computed in float32 */
    ox_value now = w->x->now[v->id];

    if (cr_dtype_is_float(now.dtype))
        now = ox_cast(w->x->m, now, t);
    else
        t = now.dtype;
    cr_buffer *b =
        cr_loop_buffer(l, CR_BUFFER_INPUT, cr_session_printf(w->x->s, "a%d", i), t, 0, NULL);
    b->slot = i;
    operand[i] = now;
    return (cr_loop_arg){.kind = CR_LOOP_TENSOR, .e = cr_expr_load(l, b, NULL)};
}

/* A number that varies is read when the file runs. */
static cr_loop_arg loop_size(walk *w, const ox_arg *a, int i, ox_value *operand)
{
    ox_model *m = w->x->m;
    ox_value one = ox_op2(m, "Reshape", ox_int_value(w->x, a), ox_ints(m, NULL, 0));
    const char *name = cr_session_printf(w->x->s, "a%d", i);
    cr_buffer *b = cr_loop_buffer(w->l, CR_BUFFER_INPUT, name, w->compute, 0, NULL);

    if (w->x->node[0]->op->does != CR_DOES_BODY)
        ox_refuse(w->x, "its argument '%s' depends on a size",
                  w->x->node[0]->op->param[i].name);
    b->slot = i;
    operand[i] = ox_cast(m, one, w->compute);
    return (cr_loop_arg){.kind = CR_LOOP_PARAM, .e = cr_expr_load(w->l, b, NULL)};
}

static cr_loop_arg loop_arg(walk *w, int i, ox_value *operand)
{
    const cr_gnode *n = w->x->node[0];
    ox_arg a = ox_argument(w->x, i);

    if (n->op->does != CR_DOES_BODY && i == row_param(n->op))
        return (cr_loop_arg){.kind = CR_LOOP_ROW_DIMS};
    if (n->op->does != CR_DOES_BODY && !strcmp(n->op->param[i].name, "keepdim"))
        return (cr_loop_arg){.kind = CR_LOOP_TRUTH, .number = cr_scalar_int(1)};
    switch (a.tag) {
    case CR_TENSOR: return loop_tensor(w, a.of, i, operand);
    case CR_INT:
        return a.at ? loop_size(w, &a, i, operand)
                    : (cr_loop_arg){.kind = CR_LOOP_NUMBER, .number = cr_scalar_int(a.i)};
    case CR_FLOAT: return (cr_loop_arg){.kind = CR_LOOP_NUMBER, .number = cr_scalar_float(a.d)};
    case CR_TRUTH:
        return (cr_loop_arg){.kind =
                                 n->arg[i].tag == CR_NUMBER ? CR_LOOP_NUMBER : CR_LOOP_TRUTH,
                             .number = {.category = CR_CAT_BOOL, .i = a.i}};
    case CR_STRING: return (cr_loop_arg){.kind = CR_LOOP_STRING, .text = a.text};
    case CR_DTYPE_VAL: return (cr_loop_arg){.kind = CR_LOOP_DTYPE, .dtype = (cr_dtype)a.i};
    case CR_TENSORS: return (cr_loop_arg){.kind = CR_LOOP_ROW_DIMS};
    default: return (cr_loop_arg){.kind = CR_LOOP_NONE};
    }
}

/* Without keepdim the dims of size 1 go. */
static ox_value without_dims(walk *w, ox_value v, const cr_gvalue *result)
{
    int64_t flat = 0;

    if (result->type.ndim == w->ndim || !w->row)
        return v;
    if (!result->type.ndim)
        return ox_op2(w->x->m, "Reshape", v, ox_ints(w->x->m, &flat, 0));
    return ox_op2(w->x->m, "Squeeze", v, row_axes(w));
}

static cr_dtype compute_type(ox *x)
{
    const cr_gnode *n = x->node[0];
    cr_dtype t, results[CR_MAX_RESULTS];
    cr_value arg[CR_MAX_ARGS];
    cr_status st = CR_OK;
    cr_tensor *fake[CR_MAX_ARGS] = {NULL};

    for (int i = 0; i < n->arg_count; i++) {
        arg[i] = (cr_value){.tag = n->arg[i].tag, .len = n->arg[i].len};
        memcpy(&arg[i].number, &n->arg[i].number,
               sizeof arg[i].number); /* the largest member */
        if (arg[i].tag == CR_TENSOR && !st) {
            st = cr_gtype_fake(&fake[i], &n->arg[i].value->type);
            arg[i] = cr_of_tensor(fake[i]);
        }
    }
    st = st ? st : cr_decide_types(n->op, arg, &t, results);
    for (int i = 0; i < n->arg_count; i++)
        cr_drop(fake[i]);
    cr_session_check(x->s, st);
    return t;
}

typedef struct {
    walk *w;
    cr_loop_call call;
    const cr_loop_arg *arg;
    const cr_expr *result[CR_MAX_RESULTS];
} apply_job;

static void apply_loop(cr_session *s, void *context)
{
    apply_job *j = context;

    (void)s;
    cr_loop_apply(j->w->l, &j->call, j->arg, j->result);
}

void ox_by_loop(ox *x, ox_value *out)
{
    const cr_gnode *n = x->node[0];
    ox_value operand[CR_MAX_ARGS];
    cr_loop_arg arg[CR_MAX_ARGS];
    walk w = {.x = x, .l = cr_loop_new(x->s), .operand = operand};

    for (int i = 0; i < n->arg_count; i++)
        if (n->arg[i].tag == CR_TENSORS)
            ox_refuse(x, "no form in ONNX is known");
    find_row(&w, n);
    w.compute = cr_dtype_compute(compute_type(x));
    for (int i = 0; i < n->arg_count; i++)
        arg[i] = loop_arg(&w, i, operand);
    apply_job job = {.w = &w, .call = {n->op, w.compute, CR_DTYPE_NONE, 0}, .arg = arg};
    if (n->op->does != CR_DOES_BODY)
        job.call.columns = row_size(&w, 0) > 0 ? row_size(&w, 0) : 1;
    if (cr_session_run(x->s, apply_loop, &job))
        ox_refuse(x, "%s", cr_error_message());
    w.made = CR_NEW_N(x->s, ox_value, w.l->nodes + 1);
    for (int k = 0; k < n->result_count; k++)
        out[k] = without_dims(&w, put_expr(&w, job.result[k]), n->result[k]);
}
