/* Axes of bodies, folds, scans, views and words. */
#include "dist/axes.h"
#include "ops/eval.h"
#include "ops/ops.h"
#include <string.h>

int cr_axes_add(cr_axes_maker *m, cr_axes *a, cr_axis_how how)
{
    if (!a->axis)
        a->axis = CR_NEW_N(m->session, cr_axis, CR_AXES_MOST);
    if (a->count == CR_AXES_MOST)
        cr_bail(m->session, CR_VALUE, "%s has more than %d axes", a->op->name, CR_AXES_MOST);
    a->axis[a->count] = (cr_axis){.how = (uint8_t)how};
    return a->count++;
}

void cr_axes_put(cr_axes *a, cr_axes_tensor *t, int dim, int axis)
{
    (void)a;
    t->axis[dim] = (int16_t)axis;
}

int cr_axes_operand(const cr_axes *a, int param)
{
    for (int i = 0; i < a->operands; i++)
        if (a->operand[i].param == param)
            return i;
    return -1;
}

static void check_size(cr_axes *a, const cr_axes_tensor *t, int64_t *size)
{
    for (int d = 0; d < t->t->ndim; d++) {
        int k = t->axis[d];
        if (k < 0)
            continue;
        a->axis[k].whole |= size[k] >= 0 && size[k] != t->t->size[d];
        size[k] = t->t->size[d];
    }
}

/* Axes along dims of several sizes become whole. */
static void check_sizes(cr_axes *a)
{
    int64_t size[CR_AXES_MOST];

    for (int k = 0; k < a->count; k++)
        size[k] = -1;
    for (int i = 0; i < a->operands; i++)
        check_size(a, &a->operand[i], size);
    for (int k = 0; k < a->results; k++)
        check_size(a, &a->result[k], size);
}

/* An axis along each dim of a tensor. */
static void axes_all_free(cr_axes_maker *m, cr_axes *a, cr_axes_tensor *t)
{
    for (int d = 0; d < t->t->ndim; d++)
        cr_axes_put(a, t, d, cr_axes_add(m, a, CR_AXIS_ALONG));
}

/* --- expressions --- */

static bool reads_sizes(const cr_op *op, const cr_rule *r)
{
    if (!r)
        return false;
    if (r->kind == CR_RULE_CALL)
        switch (r->builtin) {
        case CR_BUILTIN_size:
        case CR_BUILTIN_numel:
        case CR_BUILTIN_dims:
        case CR_BUILTIN_reduced_count:
        case CR_BUILTIN_result_size: return true;
        default: break;
        }
    for (int i = 0; i < op->let_count && r->kind == CR_RULE_NAME; i++)
        if (op->lets[i].slot == r->slot && reads_sizes(op, op->lets[i].rule))
            return true;
    for (unsigned i = 0; i < r->count; i++)
        if (reads_sizes(op, r->args[i]))
            return true;
    return false;
}

static bool is_zero(const cr_value *v)
{
    switch ((cr_tag)v->tag) {
    case CR_NUMBER:
        return v->number.category == CR_CAT_FLOAT ? v->number.d == 0
               : v->number.category <= CR_CAT_INT ? v->number.i == 0
                                                  : false;
    case CR_FLOAT: return v->d == 0;
    default: return false;
    }
}

static int degree_of_name(const cr_axes *a, const cr_rule *r, uint32_t partial)
{
    unsigned of = 0, all = 0;

    for (int i = 0; i < a->op->let_count; i++)
        if (a->op->lets[i].slot == r->slot)
            return cr_axes_degree(a, a->op->lets[i].rule, partial);
    /* The tensors of a list are partial together. */
    for (int i = 0; i < a->operands; i++)
        if (a->operand[i].param == r->slot) {
            of += partial >> i & 1;
            all++;
        }
    if (!all && r->slot >= 0 && r->slot < a->op->param_count && is_zero(&a->arg[r->slot]))
        return CR_DEGREE_ZERO;
    return !of ? 0 : of == all ? 1 : CR_DEGREE_NONE;
}

/* Whether an expression of this degree has another value for other partial operands. */
static bool depends(int degree) { return degree == 1 || degree == CR_DEGREE_NONE; }

/* The degree of terms that are added. */
static int degree_of_terms(int x, int y)
{
    if (x == CR_DEGREE_ZERO || y == CR_DEGREE_ZERO)
        return x == CR_DEGREE_ZERO ? y : x;
    return x == y ? x : CR_DEGREE_NONE;
}

static int degree_of_call(const cr_axes *a, const cr_rule *r, uint32_t partial)
{
    int d[4] = {0}, most = 0;
    const char *f = r->name;

    for (unsigned i = 0; i < r->count; i++) {
        int one = cr_axes_degree(a, r->args[i], partial);
        d[i < 4 ? i : 3] = one;
        most = one == CR_DEGREE_NONE                ? CR_DEGREE_NONE
               : one == 1 && most != CR_DEGREE_NONE ? 1
                                                    : most;
    }
    if (most == 0 || most == CR_DEGREE_NONE)
        return most;
    if (!strcmp(f, "add") || !strcmp(f, "sub"))
        return degree_of_terms(d[0], d[1]);
    if (!strcmp(f, "mul"))
        return d[0] == 1 && d[1] == 1 ? CR_DEGREE_NONE : 1;
    if (!strcmp(f, "div"))
        return depends(d[1]) ? CR_DEGREE_NONE : d[0];
    if (!strcmp(f, "neg"))
        return d[0];
    if (!strcmp(f, "where"))
        return depends(d[0]) ? CR_DEGREE_NONE : degree_of_terms(d[1], d[2]);
    return CR_DEGREE_NONE;
}

/* --- the domain: degrees in the partial operands --- */

typedef struct {
    const cr_axes *a;
    uint32_t partial; /* operands, as bits */
} degrees;

static int degree_of(const degrees *d, const cr_rule *r)
{
    return cr_axes_degree(d->a, r, d->partial);
}

static cr_status degree_constant(void *in, cr_value v, void *out)
{
    (void)in;
    *(int *)out = v.tag == CR_INT && !v.i ? CR_DEGREE_ZERO : 0;
    return CR_OK;
}

static int name_degree(const degrees *d, const cr_rule *r)
{
    return degree_of_name(d->a, r, d->partial);
}

static int call_degree(const degrees *d, const cr_rule *r)
{
    return degree_of_call(d->a, r, d->partial);
}

/* Whether one of the parts from `first` depends on partial operands. */
static bool parts_depend(const degrees *d, const cr_rule *r, int first)
{
    for (int i = first; i < r->count; i++)
        if (depends(degree_of(d, r->args[i])))
            return true;
    return false;
}

static int list_degree(const degrees *d, const cr_rule *r)
{
    return parts_depend(d, r, 0) ? CR_DEGREE_NONE : 0;
}

static int item_degree(const degrees *d, const cr_rule *r)
{
    return parts_depend(d, r, 1) ? CR_DEGREE_NONE : degree_of(d, r->args[0]);
}

static cr_status degree_either(void *in, const cr_rule *r, void *out)
{
    int *degree = out;

    *degree = depends(*degree)
                  ? CR_DEGREE_NONE
                  : degree_of_terms(degree_of(in, r->args[1]), degree_of(in, r->args[2]));
    return CR_OK;
}

CR_RULE_PART(degree_part, int, degree_of)
CR_RULE_PART(degree_name_part, int, name_degree)
CR_RULE_PART(degree_call_part, int, call_degree)
CR_RULE_PART(degree_list_part, int, list_degree)
CR_RULE_PART(degree_item_part, int, item_degree)

static const cr_rule_domain degree_domain = {.eval = degree_part,
                                             .constant = degree_constant,
                                             .name = degree_name_part,
                                             .call = degree_call_part,
                                             .list = degree_list_part,
                                             .each = degree_list_part,
                                             .index = degree_item_part,
                                             .either = degree_either};

int cr_axes_degree(const cr_axes *a, const cr_rule *r, uint32_t partial)
{
    degrees d = {a, partial};
    int degree = 0;

    cr_rule_eval(&degree_domain, &d, r, &degree);
    return degree;
}

/* --- bodies --- */

/* Dims of operands are those of the result at the same distance from the end. */
static void broadcast_from(cr_axes *a, cr_axes_tensor *t)
{
    const cr_axes_tensor *out = &a->result[0];
    int shift = out->t->ndim - t->t->ndim;

    for (int d = 0; d < t->t->ndim; d++)
        cr_axes_put(a, t, d,
                    shift + d >= 0 && t->t->size[d] == out->t->size[shift + d]
                        ? out->axis[shift + d]
                        : -1);
}

static void axes_body(cr_axes_maker *m, cr_axes *a, const cr_op *op)
{
    for (int k = 0; k < op->body_count; k++)
        if (op->body[k] && reads_sizes(op, op->body[k]))
            return;
    axes_all_free(m, a, &a->result[0]);
    for (int k = 1; k < a->results; k++) {
        if (a->result[k].t->ndim != a->result[0].t->ndim)
            return;
        memcpy(a->result[k].axis, a->result[0].axis, sizeof a->result[0].axis);
    }
    for (int i = 0; i < a->operands; i++)
        broadcast_from(a, &a->operand[i]);
    a->rule = "body";
}

/* --- folds and scans --- */

/* The dims that parameter `param` names, as bits: all for None and an empty list. */
static uint64_t dims_named(const cr_axes *a, int param, int ndim)
{
    const cr_value *v = param < 0 ? NULL : &a->arg[param];
    uint64_t bits = 0;

    if (v && v->tag == CR_INT)
        bits = (uint64_t)1 << (v->i < 0 ? v->i + ndim : v->i);
    for (uint32_t i = 0; v && v->tag == CR_INTS && i < v->len; i++)
        bits |= (uint64_t)1 << (v->ints[i] < 0 ? v->ints[i] + ndim : v->ints[i]);
    return bits ? bits : ~(uint64_t)0;
}

static cr_axis_how fold_how(const cr_rule *r)
{
    static const struct {
        const char *name;
        cr_axis_how how;
    } hows[] = {{"add", CR_AXIS_SUM},     {"mul", CR_AXIS_PRODUCT}, {"minimum", CR_AXIS_MIN},
                {"maximum", CR_AXIS_MAX}, {"and", CR_AXIS_MIN},     {"or", CR_AXIS_MAX}};

    for (size_t i = 0; i < CR_LEN(hows); i++)
        if (!strcmp(hows[i].name, r->name))
            return hows[i].how;
    return CR_AXIS_ALONG;
}

/* Dims of the first operand become those of the results, but for those of bits `gone`. */
static void axes_fold_dims(cr_axes_maker *m, cr_axes *a, uint64_t gone, cr_axis_how how)
{
    cr_axes_tensor *x = &a->operand[0];
    bool kept = a->result[0].t->ndim == x->t->ndim;

    for (int d = 0, to = 0; d < x->t->ndim; d++) {
        bool folded = gone >> d & 1;
        int k = folded && how == CR_AXIS_ALONG
                    ? -1
                    : cr_axes_add(m, a, folded ? how : CR_AXIS_ALONG);
        cr_axes_put(a, x, d, k);
        for (int r = 0; r < a->results && !folded; r++)
            if (to < a->result[r].t->ndim)
                cr_axes_put(a, &a->result[r], to, k);
        to += kept || !folded;
    }
}

static void axes_fold(cr_axes_maker *m, cr_axes *a, const cr_op *op)
{
    cr_axis_how how = a->results == 1 && !op->fold.index ? fold_how(op->fold.rule) : 0;

    if (a->operands != 1)
        return;
    axes_fold_dims(m, a, dims_named(a, op->fold.dim, a->operand[0].t->ndim), how);
    a->rule = "fold";
}

static void axes_scan(cr_axes_maker *m, cr_axes *a)
{
    int dim = cr_op_find_param(a->op, "dim");

    if (a->operands != 1 || dim < 0)
        return;
    axes_fold_dims(m, a, dims_named(a, dim, a->operand[0].t->ndim), CR_AXIS_ALONG);
    a->rule = "scan";
}

/* --- views --- */

/* Gives dims of a result the axes of self's dims whose strides they have: strides of self are
 * numbers that no sum of a few others equals. */
static void axes_map(cr_axes_maker *m, cr_axes *a, const cr_op *op)
{
    cr_axes_tensor *x = &a->operand[0], *y = &a->result[0];
    int64_t stride[CR_AXES_DIMS] = {0}, mark = 1000003;
    cr_view view = {.size = x->t->size,
                    .stride = stride,
                    .ndim = x->t->ndim,
                    .dtype = x->t->dtype,
                    .device = x->t->device};
    cr_geometry g;

    for (int d = 0; d < x->t->ndim; d++, mark = (mark * 48271) % 2147483647)
        stride[d] = mark * 1024 + 2 * d + 1;
    if (op->words & CR_WORD_ABSOLUTE || op->fn.on_geometry(a->arg, &view, &g) ||
        g.ndim != y->t->ndim)
        return;
    for (int e = 0; e < g.ndim; e++)
        if (!g.stride[e] && g.size[e] > 1)
            cr_axes_put(a, y, e, cr_axes_add(m, a, CR_AXIS_ALONG));
    /* A new dim of 1 has the stride of the dim of 1 that follows it: the last one counts. */
    for (int d = 0; d < x->t->ndim; d++)
        for (int e = g.ndim - 1; e >= 0; e--)
            if (g.stride[e] == stride[d] && g.size[e] == x->t->size[d] && g.size[e]) {
                int k = cr_axes_add(m, a, CR_AXIS_ALONG);
                cr_axes_put(a, x, d, k);
                cr_axes_put(a, y, e, k);
                if (g.size[e] == 1)
                    break;
            }
    a->rule = "map";
}

/* Dims of a tensor from `at` whose product is that of the other's dims from `to`. */
static void reshape_group(cr_axes_maker *m, cr_axes *a, int first, int from, int first_out,
                          int to)
{
    cr_axes_tensor *x = &a->operand[0], *y = &a->result[0];
    int k;

    while (first < from - 1 && x->t->size[first] == 1)
        first++;
    while (first_out < to - 1 && y->t->size[first_out] == 1)
        first_out++;
    k = cr_axes_add(m, a, CR_AXIS_ALONG);
    a->axis[k].divided = x->t->size[first] != y->t->size[first_out];
    cr_axes_put(a, x, first, k);
    cr_axes_put(a, y, first_out, k);
}

static void axes_reshape(cr_axes_maker *m, cr_axes *a)
{
    const cr_tensor *x = a->operand[0].t, *y = a->result[0].t;
    int d = 0, e = 0;

    if (!x->numel)
        return;
    while (d < x->ndim && e < y->ndim) {
        int first = d, first_out = e;
        int64_t n = x->size[d++], o = y->size[e++];
        while (n != o)
            if (n < o)
                n *= x->size[d++];
            else
                o *= y->size[e++];
        reshape_group(m, a, first, d, first_out, e);
    }
    a->rule = "word";
}

/* The result has the operand's elements, at the same places. */
static void axes_identity(cr_axes_maker *m, cr_axes *a)
{
    if (a->operand[0].t->ndim != a->result[0].t->ndim)
        return;
    axes_all_free(m, a, &a->operand[0]);
    memcpy(a->result[0].axis, a->operand[0].axis, sizeof a->operand[0].axis);
    a->rule = "word";
}

/* Elements that do not depend on those of the operands. */
static void axes_filled(cr_axes_maker *m, cr_axes *a)
{
    for (int k = 0; k < a->results; k++)
        axes_all_free(m, a, &a->result[k]);
    for (int i = 0; i < a->operands; i++) {
        cr_axes_tensor *x = &a->operand[i];
        bool same =
            a->results == 1 && x->t->ndim == a->result[0].t->ndim &&
            !memcmp(x->t->size, a->result[0].t->size, (size_t)x->t->ndim * sizeof *x->t->size);
        if (same)
            memcpy(x->axis, a->result[0].axis, sizeof x->axis);
        else
            axes_all_free(m, a, x);
    }
    a->rule = "word";
}

void cr_axes_by_rule(cr_axes_maker *m, cr_axes *a)
{
    const cr_op *op = a->op;
    enum { IDENTITY = CR_WORD_IDENTITY | CR_WORD_CAST };

    if (op->words & (CR_WORD_RANDOM | CR_WORD_SIZED_BY_VALUES | CR_WORD_SPARSE))
        return;
    if (!a->results)
        return;
    if (op->filled || op->words & CR_WORD_UNDEFINED)
        axes_filled(m, a);
    else if (!a->operands)
        return;
    else if (op->text.axes.len)
        cr_axes_by_clause(m, a);
    else if (op->words & IDENTITY && a->operands == 1)
        axes_identity(m, a);
    else if (op->words & CR_WORD_RESHAPE && a->results == 1)
        axes_reshape(m, a);
    else if (op->does == CR_DOES_MAP)
        axes_map(m, a, op);
    else if (op->does == CR_DOES_BODY)
        axes_body(m, a, op);
    else if (op->does == CR_DOES_FOLD)
        axes_fold(m, a, op);
    else if (op->does == CR_DOES_SCAN)
        axes_scan(m, a);
    else if (op->does == CR_DOES_LOOP)
        cr_axes_by_loop(m, a);
    if (a->rule && !(op->words & CR_WORD_RESHAPE))
        check_sizes(a);
}
