/* Evaluating rule trees.
 *
 * Values are tagged, so one evaluator serves types, sizes, checks, compositions and
 * derivatives.  Arithmetic with a tensor is a call of the operator, other arithmetic is on
 * numbers.  The frame owns tensors made during evaluation. */
#include "base/integer.h"
#include "entry.h"
#include "ops/eval.h"
#include "tensor/decide.h"
#include "tensor/internal.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

void cr_frame_init(cr_frame *f, const cr_op *op, const cr_value *arg)
{
    f->op = f->called = op;
    f->arg = arg;
    f->known = 0;
    f->tensor_count = 0;
    f->more_tensors.at = NULL;
    f->more_tensors.len = f->more_tensors.cap = 0;
    f->used = 0;
    f->more_bytes = (cr_arena){0};
}

void cr_frame_drop(cr_frame *f)
{
    for (int i = 0; i < f->tensor_count; i++)
        cr_drop(f->tensors[i]);
    for (size_t i = 0; i < f->more_tensors.len; i++)
        cr_drop(f->more_tensors.at[i]);
    if (CR_UNLIKELY(f->more_tensors.at != NULL))
        cr_vec_drop(&f->more_tensors);
    if (CR_UNLIKELY(f->more_bytes.last != NULL))
        cr_arena_drop(&f->more_bytes);
}

void *cr_frame_get(cr_frame *f, size_t size)
{
    size_t need = (size + 15) & ~(size_t)15;

    if (sizeof f->bytes - f->used < need)
        return cr_arena_get(&f->more_bytes, size);
    void *p = f->bytes + f->used;
    f->used += need;
    return p;
}

cr_status cr_frame_own(cr_frame *f, cr_tensor *t)
{
    if (CR_LIKELY(f->tensor_count < CR_FRAME_TENSORS)) {
        f->tensors[f->tensor_count++] = t;
        return CR_OK;
    }
    cr_status st = cr_vec_reserve(&f->more_tensors, 1);
    if (st)
        cr_drop(t);
    else
        cr_vec_put(&f->more_tensors, t);
    return st;
}

/* The frame takes the tensors of a result, and the array of a list. */
static cr_status frame_own_value(cr_frame *f, cr_value *v)
{
    if (v->tag == CR_TENSOR)
        return cr_frame_own(f, v->t);
    if (v->tag != CR_TENSORS)
        return CR_OK;
    cr_value *mine = cr_frame_get(f, v->len * sizeof *mine + 1);
    if (!mine) {
        cr_drop_values(v, 1);
        return CR_MEMORY;
    }
    memcpy(mine, v->list, v->len * sizeof *mine);
    cr_free((cr_value *)v->list);
    v->list = mine;
    cr_status st = CR_OK;
    for (uint32_t i = 0; i < v->len; i++)
        if (mine[i].tag == CR_TENSOR) {
            cr_status one = cr_frame_own(f, mine[i].t);
            st = st ? st : one;
        }
    return st;
}

static cr_status refuse_rule(const cr_frame *f, const cr_rule *r, const char *what)
{
    return cr_fail(CR_RUNTIME, "%s:%d: in %s: %s%s%s", f->op->text.file, f->op->text.line,
                   f->op->name, r->name ? r->name : "", r->name ? ": " : "", what);
}

/* --- the log of comparisons --- */

static CR_THREAD cr_decisions *decided;

cr_decisions *cr_decisions_into(cr_decisions *log)
{
    cr_decisions *was = decided;

    decided = log;
    return was;
}

void cr_decisions_drop(cr_decisions *log)
{
    cr_vec_drop(log);
    *log = (cr_decisions){0};
}

static CR_NOINLINE void decide(cr_decide_test test, int64_t a, int64_t b, bool holds)
{
    cr_status st = cr_vec_reserve(decided, 1);

    if (st)
        decided->status = st;
    else
        cr_vec_put(decided, ((cr_decision){(uint8_t)test, holds, a, b}));
}

static CR_NOINLINE void decide_by(int builtin, int64_t a, int64_t b)
{
    switch (builtin) {
    case CR_BUILTIN_eq:
    case CR_BUILTIN_ne: decide(CR_DECIDE_EQ, a, b, a == b); break;
    case CR_BUILTIN_lt: decide(CR_DECIDE_LT, a, b, a < b); break;
    case CR_BUILTIN_ge: decide(CR_DECIDE_LT, a, b, a < b); break;
    default: decide(CR_DECIDE_LE, a, b, a <= b); /* also the lesser and the greater one */
    }
}

/* The items up to the first ones that differ. */
static CR_NOINLINE void decide_by_lists(const cr_value *a, const cr_value *b)
{
    for (uint32_t i = 0; a->len == b->len && i < a->len; i++) {
        decide(CR_DECIDE_EQ, a->ints[i], b->ints[i], a->ints[i] == b->ints[i]);
        if (a->ints[i] != b->ints[i])
            return;
    }
}

/* --- numbers --- */

static bool value_is_tensor(const cr_value *v)
{
    return v->tag == CR_TENSOR || v->tag == CR_VIEW;
}

static bool value_is_number(const cr_value *v)
{
    return v->tag == CR_INT || v->tag == CR_FLOAT || v->tag == CR_TRUTH || v->tag == CR_NUMBER;
}

static cr_scalar value_scalar(const cr_value *v)
{
    switch (v->tag) {
    case CR_NUMBER: return v->number;
    case CR_FLOAT: return cr_scalar_float(v->d);
    case CR_TRUTH: return (cr_scalar){.category = CR_CAT_BOOL, .i = v->i};
    default: return cr_scalar_int(v->i);
    }
}

static double real_of(const cr_value *v) { return cr_scalar_as_double(value_scalar(v)); }

static bool is_whole(const cr_value *v) { return value_scalar(v).category <= CR_CAT_INT; }

static bool truth_of(const cr_value *v)
{
    switch (v->tag) {
    case CR_NONE: return false;
    case CR_INT:
    case CR_TRUTH: return v->i != 0;
    case CR_FLOAT: return v->d != 0;
    case CR_NUMBER: return cr_scalar_as_double(v->number) != 0;
    case CR_INTS:
    case CR_TENSORS: return v->len != 0;
    default: return true;
    }
}

static cr_status int_overflow(const cr_frame *f, int64_t a, int64_t b)
{
    return cr_fail(CR_RUNTIME, "%s(): integer overflow with %lld and %lld", f->called->name,
                   (long long)a, (long long)b);
}

/* a - b * floor(a / b), whose product may be below INT64_MIN. */
static int64_t floor_rest(int64_t a, int64_t b)
{
    int64_t rest = a % b;

    return rest && (rest < 0) != (b < 0) ? rest + b : rest;
}

static cr_status int_arithmetic(const cr_frame *f, const cr_rule *r, int64_t a, int64_t b,
                                cr_value *out)
{
    int64_t n = 0;
    bool overflow = false;

    if (CR_UNLIKELY(decided) &&
        (r->builtin == CR_BUILTIN_least || r->builtin == CR_BUILTIN_most))
        decide_by(r->builtin, a, b);
    switch (r->builtin) {
    case CR_BUILTIN_add: overflow = CR_ADD_OVERFLOW(a, b, &n), *out = cr_of_int(n); break;
    case CR_BUILTIN_sub: overflow = CR_SUB_OVERFLOW(a, b, &n), *out = cr_of_int(n); break;
    case CR_BUILTIN_mul: overflow = CR_MUL_OVERFLOW(a, b, &n), *out = cr_of_int(n); break;
    case CR_BUILTIN_div: *out = cr_of_float((double)a / (double)b); break;
    case CR_BUILTIN_pow: *out = cr_of_float(pow((double)a, (double)b)); break;
    case CR_BUILTIN_least: *out = cr_of_int(a < b ? a : b); break;
    case CR_BUILTIN_most: *out = cr_of_int(a > b ? a : b); break;
    default:
        if (!b)
            return refuse_rule(f, r, "division by zero");
        if (b == -1) /* the negative of INT64_MIN overflows */
            *out =
                cr_of_int(r->builtin == CR_BUILTIN_floordiv ? (int64_t)(0 - (uint64_t)a) : 0);
        else
            *out = cr_of_int(r->builtin == CR_BUILTIN_floordiv ? cr_floor_div(a, b)
                                                               : floor_rest(a, b));
    }
    return overflow ? int_overflow(f, a, b) : CR_OK;
}

static void float_arithmetic(const cr_rule *r, double a, double b, cr_value *out)
{
    double v;

    switch (r->builtin) {
    case CR_BUILTIN_add: v = a + b; break;
    case CR_BUILTIN_sub: v = a - b; break;
    case CR_BUILTIN_mul: v = a * b; break;
    case CR_BUILTIN_div: v = a / b; break;
    case CR_BUILTIN_pow: v = pow(a, b); break;
    case CR_BUILTIN_least: v = a < b ? a : b; break;
    case CR_BUILTIN_most: v = a > b ? a : b; break;
    case CR_BUILTIN_floordiv: v = floor(a / b); break;
    default: v = a - b * floor(a / b);
    }
    *out = cr_of_float(v);
}

static bool is_complex_number(const cr_value *v)
{
    return v->tag == CR_NUMBER && v->number.category == CR_CAT_COMPLEX;
}

/* torch reads a complex number without an imaginary part as a real one. */
static cr_status real_arithmetic(const cr_frame *f, const cr_rule *r, cr_complex a,
                                 cr_complex b, cr_value *out)
{
    if (r->builtin != CR_BUILTIN_least && r->builtin != CR_BUILTIN_most)
        return refuse_rule(f, r, "not defined for complex numbers");
    if (a.im != 0 || b.im != 0)
        return cr_fail(CR_RUNTIME, "value cannot be converted to type double without overflow");
    float_arithmetic(r, a.re, b.re, out);
    return CR_OK;
}

static cr_status complex_arithmetic(const cr_frame *f, const cr_rule *r, cr_complex a,
                                    cr_complex b, cr_value *out)
{
    cr_complex c;
    double d = b.re * b.re + b.im * b.im;

    switch (r->builtin) {
    case CR_BUILTIN_add: c = (cr_complex){a.re + b.re, a.im + b.im}; break;
    case CR_BUILTIN_sub: c = (cr_complex){a.re - b.re, a.im - b.im}; break;
    case CR_BUILTIN_mul:
        c = (cr_complex){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
        break;
    case CR_BUILTIN_div:
        c = (cr_complex){(a.re * b.re + a.im * b.im) / d, (a.im * b.re - a.re * b.im) / d};
        break;
    default: return real_arithmetic(f, r, a, b, out);
    }
    *out = cr_of_number((cr_scalar){.category = CR_CAT_COMPLEX, .c = c});
    return CR_OK;
}

static bool same_value(const cr_value *a, const cr_value *b)
{
    if (a->tag == CR_NONE || b->tag == CR_NONE)
        return a->tag == b->tag;
    if (value_is_number(a) && value_is_number(b)) {
        cr_complex x = cr_scalar_as_complex(value_scalar(a)),
                   y = cr_scalar_as_complex(value_scalar(b));
        return x.re == y.re && x.im == y.im;
    }
    if (a->tag == CR_STRING && b->tag == CR_STRING)
        return a->len == b->len && !memcmp(a->s, b->s, a->len);
    if (CR_UNLIKELY(decided) && a->tag == CR_INTS && b->tag == CR_INTS)
        decide_by_lists(a, b);
    if (a->tag == CR_INTS && b->tag == CR_INTS)
        return a->len == b->len && !memcmp(a->ints, b->ints, a->len * sizeof *a->ints);
    return a->tag == b->tag && a->i == b->i && a->tag >= CR_DTYPE_VAL &&
           a->tag <= CR_FORMAT_VAL;
}

static cr_status eval_compare(const cr_frame *f, const cr_rule *r, const cr_value *v,
                              cr_value *out)
{
    if (r->builtin == CR_BUILTIN_eq || r->builtin == CR_BUILTIN_ne) {
        *out = cr_of_bool(same_value(&v[0], &v[1]) == (r->builtin == CR_BUILTIN_eq));
        return CR_OK;
    }
    if (!value_is_number(&v[0]) || !value_is_number(&v[1]))
        return refuse_rule(f, r, "numbers expected");
    double a = real_of(&v[0]), b = real_of(&v[1]);
    *out = cr_of_bool(r->builtin == CR_BUILTIN_lt   ? a < b
                      : r->builtin == CR_BUILTIN_le ? a <= b
                      : r->builtin == CR_BUILTIN_gt ? a > b
                                                    : a >= b);
    return CR_OK;
}

static cr_status eval_arithmetic(const cr_frame *f, const cr_rule *r, const cr_value *v,
                                 cr_value *out)
{
    if (r->builtin >= CR_BUILTIN_eq && r->builtin <= CR_BUILTIN_ge)
        return eval_compare(f, r, v, out);
    if (r->builtin == CR_BUILTIN_neg) {
        cr_scalar s = value_scalar(&v[0]);
        if (s.category == CR_CAT_COMPLEX)
            *out =
                cr_of_number((cr_scalar){.category = CR_CAT_COMPLEX, .c = {-s.c.re, -s.c.im}});
        else
            *out =
                is_whole(&v[0]) ? cr_of_int((int64_t)(0 - (uint64_t)s.i)) : cr_of_float(-s.d);
        return CR_OK;
    }
    if (!value_is_number(&v[0]) || !value_is_number(&v[1]))
        return refuse_rule(f, r, "numbers expected");
    if (is_complex_number(&v[0]) || is_complex_number(&v[1]))
        return complex_arithmetic(f, r, cr_scalar_as_complex(value_scalar(&v[0])),
                                  cr_scalar_as_complex(value_scalar(&v[1])), out);
    if (is_whole(&v[0]) && is_whole(&v[1]))
        return int_arithmetic(f, r, cr_scalar_as_int(value_scalar(&v[0])),
                              cr_scalar_as_int(value_scalar(&v[1])), out);
    float_arithmetic(r, real_of(&v[0]), real_of(&v[1]), out);
    return CR_OK;
}

/* --- geometry --- */

static int value_ndim(const cr_value *v)
{
    return v->tag == CR_VIEW ? v->view->ndim : v->t->ndim;
}

static const int64_t *value_sizes(const cr_value *v)
{
    return v->tag == CR_VIEW ? v->view->size : v->t->size;
}

static int64_t value_numel(const cr_value *v)
{
    return cr_numel(value_ndim(v), value_sizes(v));
}

enum { LONGEST_RANGE = 1 << 24 };

static cr_status make_range(cr_frame *f, int64_t n, cr_value *out)
{
    n = n > 0 ? n : 0;
    if (n > LONGEST_RANGE)
        return cr_fail(CR_RUNTIME, "%s(): a list of %lld numbers is too long", f->op->name,
                       (long long)n);
    int64_t *ints = cr_frame_get(f, (size_t)n * sizeof *ints);

    CR_NEED(ints);
    for (int64_t i = 0; i < n; i++)
        ints[i] = i;
    *out = cr_of_ints(ints, (size_t)n);
    return CR_OK;
}

cr_status cr_dim_mask(uint64_t *out, const cr_value *dim, int ndim)
{
    int64_t d;

    *out = 0;
    if (dim->tag == CR_INT) {
        CR_TRY(cr_wrap_dim(&d, dim->i, ndim));
        *out = (uint64_t)1 << d;
        return CR_OK;
    }
    if (dim->tag != CR_INTS || dim->len == 0) {
        *out = ndim ? ~(uint64_t)0 >> (64 - ndim) : 0;
        return CR_OK;
    }
    for (uint32_t i = 0; i < dim->len; i++) {
        CR_TRY(cr_wrap_dim(&d, dim->ints[i], ndim));
        if (*out >> d & 1)
            return cr_fail(CR_RUNTIME, "dim %lld appears multiple times in the list of dims",
                           (long long)d);
        *out |= (uint64_t)1 << d;
    }
    return CR_OK;
}

static cr_status wrapped_dims(cr_frame *f, const cr_value *dim, int ndim, cr_value *out)
{
    uint64_t mask;
    int64_t *ints = cr_frame_get(f, (size_t)(ndim ? ndim : 1) * sizeof *ints);
    size_t n = 0;

    CR_NEED(ints);
    CR_TRY(cr_dim_mask(&mask, dim, ndim));
    for (int d = 0; d < ndim; d++)
        if (mask >> d & 1)
            ints[n++] = d;
    *out = cr_of_ints(ints, n);
    return CR_OK;
}

int cr_reduced_sizes(int64_t *out, int ndim, const int64_t *size, uint64_t mask, bool keep)
{
    int n = 0;

    for (int d = 0; d < ndim; d++)
        if (!(mask >> d & 1))
            out[n++] = size[d];
        else if (keep)
            out[n++] = 1;
    return n;
}

static cr_status reduced_sizes(cr_frame *f, const cr_value *v, int count, cr_value *out)
{
    int ndim = value_ndim(&v[0]);
    bool keep = count > 2 && truth_of(&v[2]);
    int64_t *ints = cr_frame_get(f, (size_t)(ndim ? ndim : 1) * sizeof *ints);
    uint64_t mask;

    CR_NEED(ints);
    CR_TRY(cr_dim_mask(&mask, &v[1], ndim));
    *out = cr_of_ints(ints, (size_t)cr_reduced_sizes(ints, ndim, value_sizes(v), mask, keep));
    return CR_OK;
}

static cr_status reduced_count(const cr_value *v, cr_value *out)
{
    uint64_t mask;
    int64_t n = 1;

    CR_TRY(cr_dim_mask(&mask, &v[1], value_ndim(&v[0])));
    for (int d = 0; d < value_ndim(&v[0]); d++)
        if (mask >> d & 1 && CR_MUL_OVERFLOW(n, value_sizes(&v[0])[d], &n))
            n = INT64_MAX; /* of a tensor without elements: there is no result */
    *out = cr_of_int(n);
    return CR_OK;
}

static cr_status eval_size(const cr_value *v, int count, cr_value *out)
{
    int64_t d;

    if (count == 1) {
        *out = cr_of_ints(value_sizes(v), (size_t)value_ndim(v));
        return CR_OK;
    }
    CR_TRY(cr_wrap_dim(&d, v[1].i, value_ndim(v)));
    *out = cr_of_int(value_ndim(v) ? value_sizes(v)[d] : 1);
    return CR_OK;
}

/* --- built-in functions --- */

static cr_value dtype_value(cr_dtype t)
{
    return t == CR_DTYPE_NONE ? cr_of_none() : cr_of_dtype(t);
}

static cr_dtype type_function(int builtin, cr_dtype t)
{
    bool integral = t != CR_DTYPE_NONE && cr_dtype_category(t) < CR_CAT_FLOAT;

    switch (builtin) {
    case CR_BUILTIN_float: return integral ? cr_default_dtype() : t;
    case CR_BUILTIN_accumulate: return integral ? CR_I64 : t;
    case CR_BUILTIN_real: return cr_dtype_real(t);
    case CR_BUILTIN_complex: return cr_dtype_complex(t);
    default: return t;
    }
}

static cr_status pack_results(cr_frame *f, const cr_op *op, cr_value *results, cr_value *out);

/* Computes the conjugates: formulas read them at once, so a view would save nothing. */
static cr_status conjugate(cr_frame *f, const cr_value *v, cr_value *out)
{
    cr_value made;

    *out = v[0];
    if (v[0].tag == CR_TENSOR && cr_dtype_is_complex((cr_dtype)v[0].t->dtype)) {
        CR_TRY(cr_call(cr_entry._conj_physical, v, &made));
        return pack_results(f, cr_entry._conj_physical, &made, out);
    }
    if (is_complex_number(&v[0]))
        out->number.c.im = -out->number.c.im;
    return CR_OK;
}

static int64_t first_equal(const cr_value *list, int64_t x)
{
    for (uint32_t i = 0; i < list->len; i++)
        if (list->ints[i] == x)
            return i;
    return -1;
}

static cr_status sum_tensors(cr_frame *f, const cr_value *list, cr_value *out)
{
    *out = list->list[0];
    for (uint32_t i = 1; i < list->len; i++) {
        cr_value call[] = {*out, list->list[i], cr_of_number(cr_scalar_int(1))}, made;
        CR_TRY(cr_call(cr_entry.add, call, &made));
        CR_TRY(pack_results(f, cr_entry.add, &made, out));
    }
    return CR_OK;
}

/* Part of a list, whose items stay where they are. */
static cr_status some_items(const cr_frame *f, const cr_rule *r, const cr_value *v,
                            cr_value *out)
{
    int64_t from = v[1].i, to = v[2].i;

    if (v[0].tag < CR_INTS || from < 0 || to < from || to > v[0].len)
        return refuse_rule(f, r, "no such items");
    *out = v[0];
    out->len = (uint32_t)(to - from);
    if (v[0].tag == CR_TENSORS)
        out->list += from;
    else
        out->ints += from; /* floats have the same size */
    return CR_OK;
}

static cr_status pack_list(cr_frame *f, const cr_value *items, int n, cr_value *out);
static cr_value item_of(const cr_value *list, uint32_t i);

static cr_status join_lists(cr_frame *f, const cr_value *v, int count, cr_value *out)
{
    uint32_t n = 0, at = 0;

    for (int k = 0; k < count; k++)
        n += v[k].len;
    cr_value *items = cr_frame_get(f, (n ? n : 1) * sizeof *items);
    CR_NEED(items);
    for (int k = 0; k < count; k++)
        for (uint32_t i = 0; i < v[k].len; i++)
            items[at++] = item_of(&v[k], i);
    return pack_list(f, items, (int)n, out);
}

static cr_status splice_list(cr_frame *f, const cr_rule *r, const cr_value *v, cr_value *out)
{
    int64_t from = v[1].i, to = v[2].i;
    size_t n = v[0].len + v[3].len - (size_t)(to - from);

    if (v[0].tag != CR_INTS || v[3].tag != CR_INTS || from < 0 || to < from || to > v[0].len)
        return refuse_rule(f, r, "no such items");
    int64_t *ints = cr_frame_get(f, (n ? n : 1) * sizeof *ints);
    CR_NEED(ints);
    *out = cr_of_ints(ints, n);
    memcpy(ints, v[0].ints, (size_t)from * sizeof *ints);
    memcpy(ints + from, v[3].ints, v[3].len * sizeof *ints);
    memcpy(ints + from + v[3].len, v[0].ints + to, (v[0].len - (size_t)to) * sizeof *ints);
    return CR_OK;
}

static cr_status items_without(cr_frame *f, const cr_value *v, cr_value *out)
{
    int64_t *ints = cr_frame_get(f, (v->len ? v->len : 1) * sizeof *ints);
    size_t n = 0;

    CR_NEED(ints);
    for (uint32_t i = 0; i < v->len; i++)
        if (first_equal(&v[1], v->ints[i]) < 0)
            ints[n++] = v->ints[i];
    *out = cr_of_ints(ints, n);
    return CR_OK;
}

static cr_status builtin_list(cr_frame *f, const cr_rule *r, const cr_value *v, cr_value *out)
{
    int64_t n = 1;

    switch (r->builtin) {
    case CR_BUILTIN_len: *out = cr_of_int(v[0].len); return CR_OK;
    case CR_BUILTIN_has: *out = cr_of_bool(first_equal(&v[0], v[1].i) >= 0); return CR_OK;
    case CR_BUILTIN_first: *out = cr_of_int(first_equal(&v[0], v[1].i)); return CR_OK;
    case CR_BUILTIN_product:
        for (uint32_t i = 0; i < v[0].len; i++)
            if (CR_MUL_OVERFLOW(n, v[0].ints[i], &n))
                return int_overflow(f, n, v[0].ints[i]);
        *out = cr_of_int(n);
        return CR_OK;
    case CR_BUILTIN_total:
        if (v[0].tag == CR_TENSORS)
            return sum_tensors(f, &v[0], out);
        n = 0;
        for (uint32_t i = 0; i < v[0].len; i++)
            if (CR_ADD_OVERFLOW(n, v[0].ints[i], &n))
                return int_overflow(f, n, v[0].ints[i]);
        *out = cr_of_int(n);
        return CR_OK;
    case CR_BUILTIN_items: return some_items(f, r, v, out);
    case CR_BUILTIN_spliced: return splice_list(f, r, v, out);
    case CR_BUILTIN_without: return items_without(f, v, out);
    case CR_BUILTIN_joined: return join_lists(f, v, r->count, out);
    case CR_BUILTIN_greatest: *out = cr_of_int(cr_greatest(v[0].ints, v[0].len)); return CR_OK;
    case CR_BUILTIN_wrap:
        CR_TRY(cr_wrap_dim(&n, v[0].i, v[1].i));
        *out = cr_of_int(n);
        return CR_OK;
    case CR_BUILTIN_wraps: return wrapped_dims(f, &v[0], (int)v[1].i, out);
    default: return refuse_rule(f, r, "unknown function");
    }
}

/* All sizes, when there is such a dim. */
static cr_status sizes_along(const cr_value *v, cr_value *out)
{
    int64_t d;

    CR_TRY(cr_wrap_dim(&d, v[1].i, value_ndim(v)));
    return eval_size(v, 1, out);
}

/* The elements of a tensor with these sizes. */
static cr_status sizes_numel(const cr_value *v, cr_value *out)
{
    int64_t n = 1;

    for (uint32_t i = 0; i < v->len; i++)
        if (CR_MUL_OVERFLOW(n, v->ints[i], &n))
            return cr_fail(CR_RUNTIME, "numel: integer multiplication overflow");
    *out = cr_of_int(n);
    return CR_OK;
}

/* An example has the bits of its batch. */
static const cr_tensor *outermost(const cr_tensor *t)
{
    while (t->batch)
        t = t->batch;
    return t;
}

/* The builtins of rules that read a tensor's strides, offset, and bits conj and neg. */
static cr_status builtin_memory(const cr_frame *f, const cr_rule *r, const cr_value *v,
                                cr_value *out)
{
    const cr_tensor *t = v[0].t;

    if (v[0].tag != CR_TENSOR)
        return refuse_rule(f, r, "a tensor expected");
    switch (r->builtin) {
    case CR_BUILTIN_strides: *out = cr_of_ints(t->stride, t->ndim); return CR_OK;
    case CR_BUILTIN_offset: *out = cr_of_int(t->offset); return CR_OK;
    case CR_BUILTIN_is_conj: *out = cr_of_bool(outermost(t)->conj); return CR_OK;
    case CR_BUILTIN_is_neg: *out = cr_of_bool(outermost(t)->neg); return CR_OK;
    default: return refuse_rule(f, r, "unknown function");
    }
}

static cr_status builtin_tensor(cr_frame *f, const cr_rule *r, const cr_value *v, cr_value *out)
{
    if (r->builtin == CR_BUILTIN_numel && v[0].tag == CR_INTS)
        return sizes_numel(v, out);
    if (!value_is_tensor(&v[0]))
        return refuse_rule(f, r, "a tensor expected");
    switch (r->builtin) {
    case CR_BUILTIN_dims: return make_range(f, value_ndim(v), out);
    case CR_BUILTIN_numel: *out = cr_of_int(value_numel(v)); return CR_OK;
    case CR_BUILTIN_along: return sizes_along(v, out);
    case CR_BUILTIN_reduced: return reduced_sizes(f, v, r->count, out);
    case CR_BUILTIN_reduced_count: return reduced_count(v, out);
    default: return builtin_memory(f, r, v, out);
    }
}

/* The common sizes of a list, which may be empty. */
static cr_status broadcast_sizes(cr_frame *f, const cr_value *list, cr_value *out)
{
    cr_shape shape = {.ndim = 0};

    if (list->len)
        CR_TRY(cr_broadcast(&shape, list->list, (int)list->len));
    int64_t *ints = cr_frame_get(f, (size_t)(shape.ndim ? shape.ndim : 1) * sizeof *ints);
    CR_NEED(ints);
    memcpy(ints, shape.size, (size_t)shape.ndim * sizeof *ints);
    *out = cr_of_ints(ints, (size_t)shape.ndim);
    return CR_OK;
}

static cr_value device_value(const cr_value *v)
{
    if (v->tag != CR_TENSOR && v->tag != CR_VIEW)
        return cr_of_none();
    return (cr_value){.tag = CR_DEVICE_VAL,
                      .i =
                          cr_packed_device(v->tag == CR_VIEW ? v->view->device : v->t->device)};
}

/* Of a batch, and of tensors that another handler's tensor may wrap, too. */
static bool needs_grad(const cr_tensor *t)
{
    bool found = t->requires_grad;

    for (; t->batch; t = t->batch)
        found |= t->batch->requires_grad;
    return found || (cr_is_dispatched(t) && !cr_has_elements(t));
}

static cr_value category_test(int builtin, const cr_value *v)
{
    cr_dtype t = cr_value_dtype(v);

    if (t == CR_DTYPE_NONE)
        return cr_of_bool(false);
    switch (builtin) {
    case CR_BUILTIN_is_complex: return cr_of_bool(cr_dtype_is_complex(t));
    case CR_BUILTIN_is_float: return cr_of_bool(cr_dtype_is_float(t));
    case CR_BUILTIN_is_float8: return cr_of_bool(cr_dtype_is_float8(t));
    default: return cr_of_bool(cr_dtype_category(t) < CR_CAT_FLOAT);
    }
}

static double epsilon_of(cr_dtype t)
{
    switch (cr_dtype_real(t)) {
    case CR_F16: return 0x1p-10;
    case CR_BF16: return 0x1p-7;
    case CR_F64: return 0x1p-52;
    default: return 0x1p-23;
    }
}

static cr_value text_value(const char *s)
{
    return s ? (cr_value){.tag = CR_STRING, .len = (uint32_t)strlen(s), .s = s} : cr_of_none();
}

static cr_status joined_text(cr_frame *f, cr_value *out, const char *a, const char *b,
                             const char *c, const char *d)
{
    size_t size = strlen(a) + strlen(b) + strlen(c) + strlen(d) + 1;
    char *text = cr_frame_get(f, size);

    CR_NEED(text);
    snprintf(text, size, "%s%s%s%s", a, b, c, d);
    *out = text_value(text);
    return CR_OK;
}

/* A dtype that torch had no class for is named otherwise. */
static cr_status class_name(cr_frame *f, const cr_value *v, cr_value *out)
{
    cr_dtype t = cr_value_dtype(v);
    bool old = t <= CR_F64 && t != CR_BF16;

    return joined_text(f, out, old ? "torch." : "CPU", cr_dtype_infos[t].legacy,
                       old ? "Tensor" : "Type", "");
}

/* The first parameter decides whether dtypes are mixed, the others must have its dtype. */
static cr_status mixed_refusal(cr_frame *f, const cr_value *v, int n, cr_value *out)
{
    cr_dtype input = cr_value_dtype(&v[0]), first = CR_DTYPE_NONE, other = CR_DTYPE_NONE;

    for (int i = 1; i < n; i++) {
        cr_dtype t = cr_value_dtype(&v[i]);
        first = first == CR_DTYPE_NONE ? t : first;
        other = t != CR_DTYPE_NONE && t != first ? t : other;
    }
    *out = cr_of_none();
    if (first == CR_DTYPE_NONE || (first == input && other == CR_DTYPE_NONE))
        return CR_OK;
    if (first == input)
        return joined_text(f, out, "expected scalar type ", cr_dtype_infos[first].legacy,
                           " but found ", cr_dtype_infos[other].legacy);
    if (first != CR_F32 || other != CR_DTYPE_NONE)
        *out = text_value("mixed dtype (CPU): expect parameter to have scalar type of Float");
    else if (cr_dtype_size(input) != 2)
        *out = text_value("mixed dtype (CPU): all inputs must share same datatype.");
    return CR_OK;
}

/* The list v[0] with the text v[1] between its items; the names v[2..count-1] are those of the
 * last items. */
static cr_status listed(cr_frame *f, const cr_value *v, int count, cr_value *out)
{
    const char *between = count > 1 ? v[1].s : ", ";
    size_t item = 24 + strlen(between);
    char *text;
    int n = 0;

    for (int k = 2; k < count; k++)
        item += v[k].len;
    text = cr_frame_get(f, v->len * item + 1);
    CR_NEED(text);
    text[0] = 0;
    for (uint32_t i = 0; i < v->len; i++) {
        int name = count - (int)(v->len - i);
        n += snprintf(text + n, item, "%s%s%lld", i ? between : "", name < 2 ? "" : v[name].s,
                      (long long)v->ints[i]);
    }
    *out = (cr_value){.tag = CR_STRING, .len = (uint32_t)n, .s = text};
    return CR_OK;
}

static cr_status call_builtin(cr_frame *f, const cr_rule *r, const cr_value *v, cr_value *out)
{
    cr_dtype dtype;

    switch (r->builtin) {
    case CR_BUILTIN_promote:
        CR_TRY(cr_promote_values(&dtype, v, r->count));
        *out = dtype_value(dtype);
        return CR_OK;
    case CR_BUILTIN_float:
    case CR_BUILTIN_accumulate:
    case CR_BUILTIN_real:
    case CR_BUILTIN_complex:
    case CR_BUILTIN_type_of:
    case CR_BUILTIN_dtype:
        *out = dtype_value(type_function(r->builtin, cr_value_dtype(v)));
        return CR_OK;
    case CR_BUILTIN_device: *out = device_value(v); return CR_OK;
    case CR_BUILTIN_default_dtype: *out = cr_of_dtype(cr_default_dtype()); return CR_OK;
    case CR_BUILTIN_legacy:
        *out = text_value(cr_dtype_infos[cr_value_dtype(v)].legacy);
        return CR_OK;
    case CR_BUILTIN_c_name:
        *out = text_value(cr_dtype_cpp_name(cr_value_dtype(v)));
        return CR_OK;
    case CR_BUILTIN_class_name: return class_name(f, v, out);
    case CR_BUILTIN_mixed: return mixed_refusal(f, v, r->count, out);
    case CR_BUILTIN_listed: return listed(f, v, r->count, out);
    case CR_BUILTIN_epsilon: *out = cr_of_float(epsilon_of(cr_value_dtype(v))); return CR_OK;
    case CR_BUILTIN_is_complex:
    case CR_BUILTIN_is_float:
    case CR_BUILTIN_is_float8:
    case CR_BUILTIN_is_integral: *out = category_test(r->builtin, v); return CR_OK;
    case CR_BUILTIN_is_tensor: *out = cr_of_bool(value_is_tensor(v)); return CR_OK;
    case CR_BUILTIN_on_host:
        *out = cr_of_bool((v->tag == CR_TENSOR && cr_is_host(v->t->device)) ||
                          (v->tag == CR_VIEW && cr_is_host(v->view->device)));
        return CR_OK;
    case CR_BUILTIN_is_contiguous:
        *out = cr_of_bool(v->tag == CR_TENSOR && v->t->contiguous);
        return CR_OK;
    case CR_BUILTIN_same_memory:
        *out = cr_of_bool(v[0].t->storage == v[1].t->storage);
        return CR_OK;
    case CR_BUILTIN_can_cast:
        *out = cr_of_bool(cr_can_cast(cr_value_dtype(&v[0]), cr_value_dtype(&v[1])));
        return CR_OK;
    case CR_BUILTIN_type_name: *out = text_value(cr_tensor_type_name(v->t)); return CR_OK;
    case CR_BUILTIN_has_bytes:
        *out = cr_of_bool(v->tag == CR_TENSOR && cr_has_bytes(v->t->device));
        return CR_OK;
    case CR_BUILTIN_same_indices:
    case CR_BUILTIN_values_fit:
    case CR_BUILTIN_with_values:
    case CR_BUILTIN_sparse_of:
    case CR_BUILTIN_alias_of:
    case CR_BUILTIN_no_form: return cr_rule_sparse(f, r, v, out);
    case CR_BUILTIN_needs_grad:
        *out = cr_of_bool(v->tag == CR_TENSOR && needs_grad(v->t));
        return CR_OK;
    case CR_BUILTIN_conj: return conjugate(f, v, out);
    case CR_BUILTIN_range: return make_range(f, v[0].i, out);
    case CR_BUILTIN_len:
    case CR_BUILTIN_has:
    case CR_BUILTIN_first:
    case CR_BUILTIN_product:
    case CR_BUILTIN_total:
    case CR_BUILTIN_items:
    case CR_BUILTIN_joined:
    case CR_BUILTIN_spliced:
    case CR_BUILTIN_without:
    case CR_BUILTIN_greatest:
    case CR_BUILTIN_wrap:
    case CR_BUILTIN_wraps: return builtin_list(f, r, v, out);
    case CR_BUILTIN_integer: *out = cr_of_int(cr_integer_of(real_of(v))); return CR_OK;
    case CR_BUILTIN_dims:
    case CR_BUILTIN_along:
    case CR_BUILTIN_numel:
    case CR_BUILTIN_reduced:
    case CR_BUILTIN_reduced_count:
    case CR_BUILTIN_strides:
    case CR_BUILTIN_offset:
    case CR_BUILTIN_is_conj:
    case CR_BUILTIN_is_neg: return builtin_tensor(f, r, v, out);
    case CR_BUILTIN_broadcast: return broadcast_sizes(f, v, out);
    default: return eval_arithmetic(f, r, v, out);
    }
}

/* --- operator calls --- */

cr_status cr_rule_number(cr_value *out, const cr_rule *rule, cr_type type, cr_frame *f)
{
    cr_value v;

    CR_TRY(cr_frame_eval(f, rule, &v));
    if (!value_is_number(&v) || (type == CR_T_INT && !is_whole(&v)))
        return refuse_rule(f, rule, "a number expected");
    *out = type == CR_T_BOOL    ? cr_of_bool(truth_of(&v))
           : type == CR_T_INT   ? cr_of_int(cr_scalar_as_int(value_scalar(&v)))
           : type == CR_T_FLOAT ? cr_of_float(real_of(&v))
                                : cr_of_number(value_scalar(&v));
    return CR_OK;
}

/* Converts `v` to the type of parameter `p`; false when it does not fit. */
static bool fit(cr_frame *f, const cr_param *p, const cr_value *v, cr_value *out)
{
    *out = *v;
    if (v->tag == CR_NONE)
        return p->optional || (p->has_default && p->preset.tag == CR_NONE);
    switch (p->type) {
    case CR_T_TENSOR:
        if (value_is_tensor(v))
            return true;
        if (p->number && value_is_number(v))
            *out = cr_of_number(value_scalar(v));
        return p->number && value_is_number(v);
    case CR_T_TENSORS: return v->tag == CR_TENSORS || (v->tag == CR_INTS && v->len == 0);
    case CR_T_SCALAR:
        if (value_is_number(v))
            *out = cr_of_number(value_scalar(v));
        return value_is_number(v);
    case CR_T_FLOAT:
        if (value_is_number(v))
            *out = cr_of_float(real_of(v));
        return value_is_number(v);
    case CR_T_INT:
        if (v->tag == CR_NUMBER || v->tag == CR_TRUTH)
            *out = cr_of_int(cr_scalar_as_int(value_scalar(v)));
        return value_is_number(v) && is_whole(v);
    case CR_T_BOOL:
        if (value_is_number(v))
            *out = cr_of_bool(truth_of(v));
        return value_is_number(v);
    case CR_T_INTS:
        if (v->tag == CR_INT) {
            int64_t *one = cr_frame_get(f, sizeof *one);
            if (!one)
                return false;
            *one = v->i;
            *out = cr_of_ints(one, 1);
            return true;
        }
        return v->tag == CR_INTS;
    case CR_T_BOOLS: out->tag = CR_TRUTHS; return v->tag == CR_TRUTHS || v->tag == CR_INTS;
    case CR_T_DTYPE: return v->tag == CR_DTYPE_VAL;
    case CR_T_STRING: return v->tag == CR_STRING;
    default: return true;
    }
}

static int parameter_of(const cr_op *op, const cr_rule *r, int i)
{
    if (!r->keyword[i])
        return i < op->param_count && !op->param[i].keyword_only ? i : -1;
    for (int p = 0; p < op->param_count; p++)
        if (op->param[p].name == r->keyword[i])
            return p;
    for (int p = 0; p < op->param_count; p++)
        if (!strcmp(op->param[p].name, r->keyword[i]))
            return p;
    return -1;
}

/* Binds the arguments of a call to one overload; false when they do not fit. */
static bool bind_rule_call(cr_frame *f, const cr_op *op, const cr_rule *r, const cr_value *v,
                           cr_value *arg)
{
    uint32_t given = 0;

    for (int i = 0; i < r->count; i++) {
        int p = parameter_of(op, r, i);
        if (p < 0 || !fit(f, &op->param[p], &v[i], &arg[p]))
            return false;
        given |= 1u << p;
    }
    for (int p = 0; p < op->param_count; p++) {
        if (given >> p & 1)
            continue;
        if (!op->param[p].has_default && !op->param[p].optional)
            return false;
        arg[p] = op->param[p].preset;
    }
    return true;
}

/* Packs results as one value: a tensor, or a list of tensors. */
static cr_status pack_results(cr_frame *f, const cr_op *op, cr_value *results, cr_value *out)
{
    cr_status st = CR_OK;

    if (CR_LIKELY(op->result_count == 1 && results[0].tag == CR_TENSOR)) {
        *out = results[0];
        return cr_frame_own(f, results[0].t);
    }

    for (int i = 0; i < op->result_count; i++) {
        cr_status one = frame_own_value(f, &results[i]);
        st = st ? st : one;
    }
    if (st)
        return st;
    if (op->result_count == 1) {
        *out = results[0];
        return CR_OK;
    }
    cr_value *list = cr_frame_get(f, op->result_count * sizeof *list);
    CR_NEED(list);
    memcpy(list, results, op->result_count * sizeof *list);
    *out = (cr_value){.tag = CR_TENSORS, .len = op->result_count, .list = list};
    return CR_OK;
}

static const cr_tensor *frame_tensor(const cr_frame *f)
{
    for (int i = 0; i < f->op->param_count; i++) {
        const cr_value *v = &f->arg[i];
        if (v->tag == CR_TENSORS && v->len)
            v = &v->list[0];
        if (v->tag == CR_TENSOR)
            return v->t;
    }
    for (int i = f->op->param_count; i < f->op->slots.count; i++)
        if (f->known >> i & 1 && f->slot[i].tag == CR_TENSOR)
            return f->slot[i].t;
    return NULL;
}

/* Calls a factory in a rule.  Its tensor is on the device of the entry's arguments. */
static cr_status call_factory(const cr_frame *f, const cr_op *op, cr_value *arg,
                              cr_value *results)
{
    const cr_tensor *t = frame_tensor(f);
    cr_device was = cr_thread.device;

    if (!t || cr_is_host(t->device))
        return cr_call(op, arg, results);
    for (int p = 0; p < op->param_count; p++)
        if (op->param[p].type == CR_T_DEVICE && arg[p].tag == CR_NONE)
            arg[p] = (cr_value){.tag = CR_DEVICE_VAL, .i = cr_packed_device(t->device)};
    cr_thread.device = (cr_device){.kind = t->device.kind, .index = t->device.index};
    cr_status st = cr_call(op, arg, results);
    cr_thread.device = was;
    return st;
}

cr_status cr_frame_bind(cr_frame *f, const cr_rule *call, const cr_value *v, const cr_op **op,
                        cr_value *arg)
{
    for (*op = call->op; *op; *op = (*op)->next)
        if (bind_rule_call(f, *op, call, v, arg))
            return CR_OK;
    return refuse_rule(f, call, "no overload takes these arguments");
}

bool cr_value_is_true(const cr_value *v) { return truth_of(v); }

/* True for a call of `part` in a rule of `op` that turns elements into a number on which the
 * results of `op` depend. */
static bool is_number_of_tensors(const cr_op *part, const cr_op *op)
{
    return part->tensor_params && !cr_op_makes_tensors(part) && cr_op_makes_tensors(op);
}

/* Calls the first overload that takes the arguments: *called; the caller owns the results. */
static cr_status call_overload(cr_frame *f, const cr_rule *r, const cr_value *v,
                               const cr_op **called, cr_value *results)
{
    cr_value arg[CR_MAX_ARGS];
    const cr_op *op;

    CR_TRY(cr_frame_bind(f, r, v, &op, arg));
    CR_TRY(op->tensor_params ? cr_call(op, arg, results) : call_factory(f, op, arg, results));
    if (CR_UNLIKELY(is_number_of_tensors(op, f->op)))
        cr_numbers_were_elements();
    *called = op;
    return CR_OK;
}

static cr_status call_operator(cr_frame *f, const cr_rule *r, const cr_value *v, cr_value *out)
{
    cr_value results[CR_MAX_RESULTS];
    const cr_op *op;

    CR_TRY(call_overload(f, r, v, &op, results));
    return pack_results(f, op, results, out);
}

/* --- sizes of a result without a call --- */

/* Makes an argument of a shape rule.  A list of sizes stands for a tensor with the dtype of the
 * calling entry's first argument. */
static cr_status shape_argument(cr_frame *f, cr_type type, cr_value *v, cr_view *view)
{
    int64_t n = 1;

    if (type != CR_T_TENSOR || v->tag == CR_NONE || v->tag == CR_VIEW)
        return CR_OK;
    if (v->tag == CR_TENSOR) {
        *view = cr_view_of(v->t);
    } else {
        if (v->tag != CR_INTS || v->len > CR_MAX_DIMS)
            return cr_fail(CR_RUNTIME, "%s(): too many dimensions", f->op->name);
        for (uint32_t i = 0; i < v->len; i++)
            if (v->ints[i] < 0 || CR_MUL_OVERFLOW(n, v->ints[i] ? v->ints[i] : 1, &n))
                return cr_fail(CR_RUNTIME, "%s(): sizes are negative or too large",
                               f->op->name);
        *view = (cr_view){.size = v->ints,
                          .stride = v->ints,
                          .ndim = (uint8_t)v->len,
                          .dtype = (uint8_t)cr_value_dtype(&f->arg[0]),
                          .device = CR_META_DEVICE};
    }
    *v = (cr_value){.tag = CR_VIEW, .view = view};
    return CR_OK;
}

cr_status cr_rule_shape(cr_shape *out, const cr_rule *rule, cr_frame *f)
{
    cr_value v;

    CR_TRY(cr_frame_eval(f, rule, &v));
    if (v.tag != CR_INTS)
        return cr_fail(CR_RUNTIME, "%s(): the size rule gives no list of sizes", f->op->name);
    if (v.len > CR_MAX_DIMS)
        return cr_fail(CR_RUNTIME, "%s: more than %d dimensions", f->op->name, CR_MAX_DIMS);
    out->ndim = (int)v.len;
    memcpy(out->size, v.ints, v.len * sizeof *v.ints);
    return CR_OK;
}

/* The sizes of the first result by rules.  Arguments are views, and the checks may refuse
 * them. */
static cr_status rule_result_size(const cr_frame *caller, const cr_op *op, const cr_value *arg,
                                  cr_shape *out)
{
    cr_frame f;
    cr_status st;

    cr_frame_init(&f, op, arg);
    f.called = caller->called;
    CR_GO(cr_run_checks(op, &f));
    CR_GO(cr_rule_shape(out, op->sizes.rule[0], &f));
done:
    cr_frame_drop(&f);
    return st;
}

static cr_status eval_result_size(cr_frame *f, const cr_rule *call, cr_value *out)
{
    const cr_op *op = call->op;
    cr_value arg[CR_MAX_ARGS];
    cr_view view[CR_MAX_ARGS];
    cr_shape shape[CR_MAX_RESULTS];
    int64_t *ints;

    if (call->kind != CR_RULE_CALL || !op || !(op->sizes.fn || op->sizes.rule[0]) ||
        call->count > op->param_count)
        return refuse_rule(f, call, "no call of an entry with a shape rule");
    for (int i = 0; i < op->param_count; i++) {
        arg[i] = op->param[i].preset;
        if (i < call->count)
            CR_TRY(cr_frame_eval(f, call->args[i], &arg[i]));
        CR_TRY(shape_argument(f, (cr_type)op->param[i].type, &arg[i], &view[i]));
    }
    CR_TRY(op->sizes.fn ? op->sizes.fn(arg, shape) : rule_result_size(f, op, arg, shape));
    ints = cr_frame_get(f, (size_t)(shape->ndim ? shape->ndim : 1) * sizeof *ints);
    CR_NEED(ints);
    memcpy(ints, shape->size, (size_t)shape->ndim * sizeof *ints);
    *out = cr_of_ints(ints, (size_t)shape->ndim);
    return CR_OK;
}

static bool any_value_is_tensor(const cr_value *v, int n)
{
    for (int i = 0; i < n; i++)
        if (value_is_tensor(&v[i]))
            return true;
    return false;
}

static bool is_none_test(const cr_rule *r, const cr_value *v)
{
    return (r->builtin == CR_BUILTIN_eq || r->builtin == CR_BUILTIN_ne) &&
           (v[0].tag == CR_NONE || v[1].tag == CR_NONE);
}

/* The truth of a condition. */
static bool decide_truth(const cr_value *v)
{
    if (CR_UNLIKELY(decided) && v->tag == CR_INT)
        decide_by(CR_BUILTIN_ne, v->i, 0);
    return CR_LIKELY(v->tag == CR_TRUTH) ? v->i != 0 : truth_of(v);
}

static cr_status eval_rule_logic(cr_frame *f, const cr_rule *r, cr_value *out);

/* Evaluates names of parameters without a call of the evaluator, because most arguments are
 * such names. */
static inline cr_status eval_argument(cr_frame *f, const cr_rule *r, cr_value *out)
{
    if (CR_LIKELY(r->kind == CR_RULE_NAME && (unsigned)r->slot < f->op->param_count)) {
        *out = f->arg[r->slot];
        return CR_OK;
    }
    if (r->kind == CR_RULE_NAME && r->slot >= 0 && f->known >> r->slot & 1) {
        *out = f->slot[r->slot];
        return CR_OK;
    }
    if (r->kind == CR_RULE_NONE || r->kind == CR_RULE_INT) {
        *out = (cr_value){.tag = r->kind == CR_RULE_INT ? CR_INT : CR_NONE, .i = r->integer};
        return CR_OK;
    }
    return cr_frame_eval(f, r, out);
}

/* A built-in function or a call of an entry, whose arguments have been evaluated. */
static inline cr_status apply_call(cr_frame *f, const cr_rule *r, const cr_value *v,
                                   cr_value *out)
{
    if (r->builtin < 0)
        return call_operator(f, r, v, out);
    if (r->op && r->builtin >= CR_BUILTIN_add && any_value_is_tensor(v, r->count) &&
        !is_none_test(r, v))
        return call_operator(f, r, v, out);
    return call_builtin(f, r, v, out);
}

static bool ints_compare(int builtin, int64_t a, int64_t b)
{
    switch (builtin) {
    case CR_BUILTIN_eq: return a == b;
    case CR_BUILTIN_ne: return a != b;
    case CR_BUILTIN_lt: return a < b;
    case CR_BUILTIN_le: return a <= b;
    case CR_BUILTIN_gt: return a > b;
    default: return a >= b;
    }
}

static CR_NOINLINE cr_status compare_others(cr_frame *f, const cr_rule *r, const cr_value *v,
                                            cr_value *out)
{
    return apply_call(f, r, v, out);
}

/* Most comparisons of checks and types are of integers, of dtypes, or with None. */
static CR_NOINLINE cr_status eval_comparison(cr_frame *f, const cr_rule *r, cr_value *out)
{
    cr_value v[2];

    CR_TRY(eval_argument(f, r->args[0], &v[0]));
    if (r->builtin <= CR_BUILTIN_ne && r->args[1]->kind == CR_RULE_NONE) {
        *out = cr_of_bool((v[0].tag == CR_NONE) == (r->builtin == CR_BUILTIN_eq));
        return CR_OK;
    }
    CR_TRY(eval_argument(f, r->args[1], &v[1]));
    if (v[0].tag != v[1].tag ||
        (v[0].tag != CR_INT && ((v[0].tag != CR_DTYPE_VAL && v[0].tag != CR_LAYOUT_VAL) ||
                                r->builtin > CR_BUILTIN_ne)))
        return compare_others(f, r, v, out);
    if (CR_UNLIKELY(decided) && v[0].tag == CR_INT)
        decide_by(r->builtin, v[0].i, v[1].i);
    *out = cr_of_bool(ints_compare(r->builtin, v[0].i, v[1].i));
    return CR_OK;
}

/* A size or the number of dims, which most checks read. */
static CR_NOINLINE cr_status eval_measure(cr_frame *f, const cr_rule *r, cr_value *out)
{
    cr_value v[2];

    CR_TRY(eval_argument(f, r->args[0], &v[0]));
    if (!value_is_tensor(&v[0]))
        return refuse_rule(f, r, "a tensor expected");
    if (r->builtin == CR_BUILTIN_ndim) {
        *out = cr_of_int(value_ndim(&v[0]));
        return CR_OK;
    }
    if (r->count > 1)
        CR_TRY(eval_argument(f, r->args[1], &v[1]));
    return eval_size(v, r->count, out);
}

/* Most arithmetic is of two integers. */
static CR_NOINLINE cr_status eval_sum(cr_frame *f, const cr_rule *r, cr_value *out)
{
    cr_value v[2];

    CR_TRY(eval_argument(f, r->args[0], &v[0]));
    CR_TRY(eval_argument(f, r->args[1], &v[1]));
    return v[0].tag == CR_INT && v[1].tag == CR_INT ? int_arithmetic(f, r, v[0].i, v[1].i, out)
                                                    : apply_call(f, r, v, out);
}

static CR_NOINLINE cr_status eval_rule_call(cr_frame *f, const cr_rule *r, cr_value *out)
{
    cr_value v[CR_MAX_ARGS];

    if (r->builtin == CR_BUILTIN_result_size)
        return eval_result_size(f, r->args[0], out);
    if (r->count > CR_MAX_ARGS)
        return refuse_rule(f, r, "too many arguments");
    for (int i = 0; i < r->count; i++)
        CR_TRY(eval_argument(f, r->args[i], &v[i]));
    return apply_call(f, r, v, out);
}

/* What a rule reads of a sparse tensor. */
static CR_NOINLINE cr_status eval_sparse(cr_frame *f, const cr_rule *r, cr_value *out)
{
    cr_value v;

    CR_TRY(eval_argument(f, r->args[0], &v));
    if (r->builtin != CR_BUILTIN_is_sparse)
        return cr_rule_sparse(f, r, &v, out);
    *out = cr_of_bool(v.tag == CR_TENSOR && v.t->layout != CR_LAYOUT_STRIDED);
    return CR_OK;
}

static cr_status eval_any_call(void *in, const cr_rule *r, void *result)
{
    cr_frame *f = in;
    cr_value *out = result;

    switch (r->builtin) {
    case CR_BUILTIN_and:
    case CR_BUILTIN_or:
    case CR_BUILTIN_not: return eval_rule_logic(f, r, out);
    case CR_BUILTIN_eq:
    case CR_BUILTIN_ne:
    case CR_BUILTIN_lt:
    case CR_BUILTIN_le:
    case CR_BUILTIN_gt:
    case CR_BUILTIN_ge: return eval_comparison(f, r, out);
    case CR_BUILTIN_add:
    case CR_BUILTIN_sub:
    case CR_BUILTIN_mul:
    case CR_BUILTIN_floordiv:
    case CR_BUILTIN_remainder:
    case CR_BUILTIN_least:
    case CR_BUILTIN_most:
        return r->count == 2 ? eval_sum(f, r, out) : eval_rule_call(f, r, out);
    case CR_BUILTIN_size:
    case CR_BUILTIN_ndim: return eval_measure(f, r, out);
    case CR_BUILTIN_is_sparse:
    case CR_BUILTIN_layout:
    case CR_BUILTIN_is_coo:
    case CR_BUILTIN_is_blocked:
    case CR_BUILTIN_by_rows:
    case CR_BUILTIN_sparse_dims:
    case CR_BUILTIN_sparse_size:
    case CR_BUILTIN_dense_size:
    case CR_BUILTIN_batch_dims:
    case CR_BUILTIN_nnz:
    case CR_BUILTIN_coalesced:
    case CR_BUILTIN_values_of:
    case CR_BUILTIN_indices_of:
    case CR_BUILTIN_starts_of: return eval_sparse(f, r, out);
    default: return eval_rule_call(f, r, out);
    }
}

/* --- lists --- */

/* Most lists are of integers. */
static int leading_ints(const cr_value *items, int n)
{
    int i = 0;

    while (i < n && items[i].tag == CR_INT)
        i++;
    return i;
}

static cr_status pack_list(cr_frame *f, const cr_value *items, int n, cr_value *out)
{
    bool whole = true, numbers = true;

    for (int i = leading_ints(items, n); i < n; i++) {
        numbers &= value_is_number(&items[i]);
        whole &= items[i].tag == CR_INT || (numbers && is_whole(&items[i]));
    }
    size_t item = whole ? sizeof(int64_t) : numbers ? sizeof(double) : sizeof(cr_value);
    void *at = cr_frame_get(f, (size_t)(n ? n : 1) * item);
    CR_NEED(at);
    for (int i = 0; i < n; i++) {
        if (whole)
            ((int64_t *)at)[i] =
                items[i].tag == CR_INT ? items[i].i : cr_scalar_as_int(value_scalar(&items[i]));
        else if (numbers)
            ((double *)at)[i] = real_of(&items[i]);
        else
            ((cr_value *)at)[i] = items[i];
    }
    *out = (cr_value){.tag = whole     ? CR_INTS
                             : numbers ? CR_FLOATS
                                       : CR_TENSORS,
                      .len = (uint32_t)n};
    out->ints = at;
    return CR_OK;
}

static CR_NOINLINE cr_status eval_list(void *in, const cr_rule *r, void *result)
{
    cr_frame *f = in;
    cr_value *out = result;
    cr_value items[CR_MAX_ARGS];

    if (r->count > CR_MAX_ARGS)
        return refuse_rule(f, r, "too many items");
    for (int i = 0; i < r->count; i++)
        CR_TRY(eval_argument(f, r->args[i], &items[i]));
    return pack_list(f, items, r->count, out);
}

static cr_value item_of(const cr_value *list, uint32_t i)
{
    switch (list->tag) {
    case CR_INTS: return cr_of_int(list->ints[i]);
    case CR_TRUTHS: return cr_of_bool(list->ints[i] != 0);
    case CR_FLOATS: return cr_of_float(list->floats[i]);
    default: return list->list[i];
    }
}

static CR_NOINLINE cr_status eval_each(void *in, const cr_rule *r, void *result)
{
    cr_frame *f = in;
    cr_value *out = result;
    cr_value over, *items, holds;
    uint64_t was = f->known;
    int n = 0;

    CR_TRY(cr_frame_eval(f, r->args[0], &over));
    items = cr_frame_get(f, (over.len ? over.len : 1) * sizeof *items);
    CR_NEED(items);
    for (uint32_t i = 0; i < over.len; i++) {
        cr_frame_set(f, r->slot, item_of(&over, i));
        if (r->count > 2) {
            CR_TRY(cr_frame_eval(f, r->args[2], &holds));
            if (!decide_truth(&holds))
                continue;
        }
        CR_TRY(eval_argument(f, r->args[1], &items[n++]));
    }
    f->known = (f->known & ~((uint64_t)1 << r->slot)) | was;
    return pack_list(f, items, n, out);
}

static CR_NOINLINE cr_status eval_index(void *in, const cr_rule *r, void *result)
{
    cr_frame *f = in;
    cr_value *out = result;
    cr_value list, at;

    CR_TRY(eval_argument(f, r->args[0], &list));
    CR_TRY(eval_argument(f, r->args[1], &at));
    int64_t i = at.i < 0 ? at.i + list.len : at.i;
    if (list.tag < CR_INTS || i < 0 || i >= list.len)
        return refuse_rule(f, r, "index out of range");
    *out = item_of(&list, (uint32_t)i);
    return CR_OK;
}

/* --- names --- */

static cr_status eval_rule_constant(cr_frame *f, const cr_rule *r, cr_value *out)
{
    if (r->integer > 0)
        *out = cr_of_dtype((cr_dtype)(r->integer - 1));
    else if (r->integer < 0)
        *out = r->integer <= CR_RULE_FORMAT
                   ? (cr_value){.tag = CR_FORMAT_VAL, .i = CR_RULE_FORMAT - r->integer}
                   : (cr_value){.tag = CR_LAYOUT_VAL, .i = CR_RULE_LAYOUT - r->integer};
    else if (!strcmp(r->name, "inf"))
        *out = cr_of_float((double)INFINITY);
    else if (!strcmp(r->name, "nan"))
        *out = cr_of_float((double)NAN);
    else if (!strcmp(r->name, "pi"))
        *out = cr_of_float(3.141592653589793);
    else if (!strcmp(r->name, "ln2"))
        *out = cr_of_float(0.6931471805599453);
    else
        return refuse_rule(f, r, "unknown name");
    return CR_OK;
}

static CR_NOINLINE cr_status eval_rule_name(void *in, const cr_rule *r, void *result)
{
    cr_frame *f = in;
    cr_value *out = result;
    const cr_op *op = f->op;
    int slot = r->slot;

    if (slot < 0)
        return eval_rule_constant(f, r, out);
    if (slot < op->param_count) {
        *out = f->arg[slot];
        return CR_OK;
    }
    if (!(f->known >> slot & 1)) {
        int let = slot - op->slots.let;
        cr_value v;
        if (let < 0 || let >= op->let_count)
            return refuse_rule(f, r, "has no value here");
        cr_let_fn code = op->let_code ? op->let_code[let] : NULL;
        if (!code || CR_UNLIKELY(decided) || !code(f, f->arg, &v))
            CR_TRY(cr_frame_eval(f, op->lets[let].rule, &v));
        cr_frame_set(f, slot, v);
    }
    *out = f->slot[slot];
    return CR_OK;
}

/* --- the domain: numbers and tensors --- */

static cr_status eval_part(void *in, const cr_rule *r, void *out)
{
    return eval_argument(in, r, out);
}

static cr_rule_truth eval_truth(void *in, const cr_rule *r, const void *value)
{
    (void)in, (void)r;
    return decide_truth(value) ? CR_RULE_TRUE : CR_RULE_FALSE;
}

static const cr_rule_domain values = {.eval = eval_part,
                                      .name = eval_rule_name,
                                      .call = eval_any_call,
                                      .list = eval_list,
                                      .each = eval_each,
                                      .index = eval_index,
                                      .truth = eval_truth};

static CR_NOINLINE cr_status eval_rule_logic(cr_frame *f, const cr_rule *r, cr_value *out)
{
    return cr_rule_logic(&values, f, r, out);
}

cr_status cr_frame_eval(cr_frame *f, const cr_rule *r, cr_value *out)
{
    return cr_rule_eval(&values, f, r, out);
}

/* --- results of compositions --- */

/* The part of a rule that gives its value: a branch of a choice, the rule of a let that has no
 * value yet and that no other result reads. */
static cr_status last_part(cr_frame *f, const cr_rule **rule)
{
    const cr_rule *r = *rule;

    for (;;) {
        int let = r->slot - f->op->slots.let;
        cr_value holds;
        if (r->kind == CR_RULE_CHOOSE) {
            CR_TRY(cr_frame_eval(f, r->args[0], &holds));
            r = r->args[decide_truth(&holds) ? 1 : 2];
        } else if (r->kind == CR_RULE_NAME && let >= 0 && let < f->op->let_count &&
                   f->op->result_count == 1 && !(f->known >> r->slot & 1)) {
            r = f->op->lets[let].rule;
        } else {
            *rule = r;
            return CR_OK;
        }
    }
}

cr_status cr_rule_result(cr_frame *f, const cr_rule *rule, cr_value *out, bool *owned)
{
    cr_value v[CR_MAX_ARGS], results[CR_MAX_RESULTS];
    const cr_op *op;

    *owned = false;
    CR_TRY(last_part(f, &rule));
    if (rule->kind != CR_RULE_CALL || rule->builtin >= 0 || rule->count > CR_MAX_ARGS)
        return cr_frame_eval(f, rule, out);
    for (int i = 0; i < rule->count; i++)
        CR_TRY(eval_argument(f, rule->args[i], &v[i]));
    CR_TRY(call_overload(f, rule, v, &op, results));
    *owned = op->result_count == 1;
    if (!*owned)
        return pack_results(f, op, results, out);
    *out = results[0];
    return CR_OK;
}
