/* The interpreter.
 *
 * A value is a long-lived scalar of its node's type; float32 arithmetic is done in
 * float.  Reductions fold 32 virtual lanes a chunk when they run along the last index of
 * what they read, and 4 accumulators a block of rows when they do not, as the kernels do. */
#include "loop/interp.h"
#include "num/philox.h"
#include <float.h>
#include <math.h>
#include <string.h>

typedef union {
    int64_t i;
    float f;
    double d;
    cr_complex c;
} scalar;

typedef struct {
    cr_loop *l;
    const cr_loop_run *run;
    char **memory; /* by position in l->buffers */
    struct {
        const cr_sym *index;
        int64_t value;
    } axis[CR_LOOP_DIMS + 32];
    int axes;
} machine;

/* --- integers --- */

static int64_t value_of_name(void *context, const cr_sym *name)
{
    machine *m = context;

    for (int i = m->axes - 1; i >= 0; i--)
        if (m->axis[i].index == name)
            return m->axis[i].value;
    for (int i = 0; i < m->run->size_count; i++)
        if (m->run->sizes[i].name == name)
            return m->run->sizes[i].value;
    cr_bail(m->l->session, CR_VALUE, "the size '%s' has no value", name->name);
}

static int64_t integer(machine *m, const cr_sym *e)
{
    bool wrong = false;
    int64_t v = cr_sym_eval(e, value_of_name, m, &wrong);

    if (wrong)
        cr_bail(m->l->session, CR_ARITHMETIC, "an index overflows or divides by zero");
    return v;
}

/* --- memory --- */

static scalar load_element(cr_dtype t, const void *p)
{
    scalar v = {0};
    cr_scalar s;

    if (t == CR_F32) {
        memcpy(&v.f, p, sizeof v.f);
        return v;
    }
    s = cr_scalar_load(t, p);
    if (s.category <= CR_CAT_INT)
        v.i = t == CR_BOOL ? s.i != 0 : s.i;
    else if (s.category == CR_CAT_FLOAT)
        v.d = s.d;
    else
        v.c = s.c;
    return v;
}

static cr_scalar as_scalar(cr_dtype t, scalar v)
{
    cr_scalar s = {.category = cr_dtype_category(t)};

    if (s.category <= CR_CAT_INT)
        s.i = v.i;
    else if (s.category == CR_CAT_FLOAT)
        s.d = t == CR_F32 ? (double)v.f : v.d;
    else
        s.c = v.c;
    return s;
}

static void store_element(cr_dtype t, void *p, scalar v)
{
    if (t == CR_F32)
        memcpy(p, &v.f, sizeof v.f);
    else
        cr_scalar_store(as_scalar(t, v), t, p);
}

static scalar of_scalar(cr_dtype t, cr_scalar s)
{
    char bytes[CR_PARAM_BYTES];

    cr_scalar_store(s, t, bytes);
    return load_element(t, bytes);
}

static char *place(machine *m, const cr_buffer *b, const cr_sym *const *index)
{
    int64_t at = 0;
    size_t k = 0;

    for (int i = 0; i < b->ndim; i++) {
        int64_t n = integer(m, b->size[i]), v = integer(m, index[i]);
        if (v < 0 || v >= n)
            cr_bail(m->l->session, CR_INDEX, "index %lld of '%s' is outside [0, %lld)",
                    (long long)v, b->name, (long long)n);
        at = at * n + v;
    }
    while (m->l->buffers.at[k] != b)
        k++;
    return m->memory[k] + at * (int64_t)cr_dtype_size((cr_dtype)b->dtype);
}

/* --- functions --- */

#define REAL_FUNCTIONS(F)                                                                          \
    F(sqrt) F(exp) F(exp2) F(expm1) F(log) F(log2) F(log10) F(log1p) F(sin) F(cos) F(tan) F(asin)  \
    F(acos) F(atan) F(sinh) F(cosh) F(tanh) F(asinh) F(acosh) F(atanh) F(erf) F(erfc) F(floor)     \
    F(ceil) F(trunc)

static double real_function(cr_fn fn, double x, bool *known)
{
    switch (fn) {
#define F(name) case CR_FN_##name: return name(x);
        REAL_FUNCTIONS(F)
#undef F
    case CR_FN_neg: return -x;
    case CR_FN_abs: return fabs(x);
    case CR_FN_square: return x * x;
    case CR_FN_reciprocal: return 1 / x;
    case CR_FN_rsqrt: return 1 / sqrt(x);
    case CR_FN_round: return nearbyint(x);
    case CR_FN_roundhalf: return (double)cr_half_to_float(cr_float_to_half((float)x));
    case CR_FN_roundbfloat: return (double)cr_bfloat_to_float(cr_float_to_bfloat((float)x));
    case CR_FN_sgn: return (x > 0) - (x < 0);
    case CR_FN_sigmoid: return 1 / (1 + exp(-x));
    case CR_FN_lgamma: return lgamma(x);
    default: *known = false; return 0;
    }
}

static double greater(double a, double b) { return isnan(a) ? a : a > b ? a : b; }
static double lesser(double a, double b) { return isnan(a) ? a : a < b ? a : b; }

static double real_pair(cr_fn fn, double a, double b, bool *known)
{
    switch (fn) {
    case CR_FN_add: return a + b;
    case CR_FN_sub: return a - b;
    case CR_FN_mul: return a * b;
    case CR_FN_div: return a / b;
    case CR_FN_maximum: return greater(a, b);
    case CR_FN_minimum: return lesser(a, b);
    case CR_FN_fmax: return isnan(b) ? a : a > b ? a : b;
    case CR_FN_fmin: return isnan(b) ? a : a < b ? a : b;
    case CR_FN_pow: return pow(a, b);
    case CR_FN_fmod: return fmod(a, b);
    case CR_FN_remainder: return a - b * floor(a / b);
    case CR_FN_floordiv: return floor(a / b);
    case CR_FN_atan2: return atan2(a, b);
    case CR_FN_hypot: return hypot(a, b);
    case CR_FN_copysign: return copysign(a, b);
    default: *known = false; return 0;
    }
}

static int64_t floor_division(int64_t a, int64_t b)
{
    int64_t q = b ? a / b : 0;

    return b && a % b && (a < 0) != (b < 0) ? q - 1 : q;
}

/* Wraps as the vectors do; the caller cuts to the type's width. */
static int64_t whole_pair(cr_fn fn, int64_t a, int64_t b, bool *known)
{
    uint64_t x = (uint64_t)a, y = (uint64_t)b;

    switch (fn) {
    case CR_FN_add: return (int64_t)(x + y);
    case CR_FN_sub: return (int64_t)(x - y);
    case CR_FN_mul: return (int64_t)(x * y);
    case CR_FN_div: return b == -1 ? (int64_t)(0 - x) : b ? a / b : 0;
    case CR_FN_floordiv: return b == -1 ? (int64_t)(0 - x) : floor_division(a, b);
    case CR_FN_remainder: return b == -1 || !b ? 0 : a - b * floor_division(a, b);
    case CR_FN_fmod: return b == -1 || !b ? 0 : a % b;
    case CR_FN_maximum: return a > b ? a : b;
    case CR_FN_minimum: return a < b ? a : b;
    case CR_FN_and: return a & b;
    case CR_FN_or: return a | b;
    case CR_FN_xor: return a ^ b;
    default: *known = false; return 0;
    }
}

static int64_t whole_function(cr_fn fn, int64_t a, cr_dtype t, bool *known)
{
    switch (fn) {
    case CR_FN_neg: return (int64_t)(0 - (uint64_t)a);
    case CR_FN_abs: return a < 0 ? (int64_t)(0 - (uint64_t)a) : a;
    case CR_FN_square: return (int64_t)((uint64_t)a * (uint64_t)a);
    case CR_FN_sgn: return (a > 0) - (a < 0);
    case CR_FN_not: return t == CR_BOOL ? !a : ~a;
    default: *known = false; return 0;
    }
}

static bool test(cr_fn fn, double a, double b)
{
    switch (fn) {
    case CR_FN_eq: return a == b;
    case CR_FN_ne: return a != b;
    case CR_FN_lt: return a < b;
    case CR_FN_le: return a <= b;
    case CR_FN_gt: return a > b;
    case CR_FN_ge: return a >= b;
    case CR_FN_isnan: return isnan(a);
    case CR_FN_isinf: return isinf(a);
    case CR_FN_isfinite: return isfinite(a);
    default: return signbit(a);
    }
}

static double as_double(cr_dtype t, scalar v)
{
    return cr_scalar_as_double(as_scalar(t, v));
}

CR_NORETURN static void unknown(machine *m, const cr_expr *e)
{
    cr_bail(m->l->session, CR_VALUE, "%s of %s is not interpreted", cr_fn_infos[e->fn].name,
            cr_dtype_name((cr_dtype)e->dtype));
}

/* One operation in float rounds as float arithmetic does, because doubles hold more than
 * twice its digits; the functions of libm are rounded once more. */
static scalar same(machine *m, const cr_expr *e, const scalar *v)
{
    cr_dtype t = (cr_dtype)e->dtype;
    bool known = true;
    scalar r = {0};

    if (cr_dtype_category(t) <= CR_CAT_INT) {
        r.i = e->count == 2 ? whole_pair((cr_fn)e->fn, v[0].i, v[1].i, &known)
                            : whole_function((cr_fn)e->fn, v[0].i, t, &known);
        r = of_scalar(t, cr_scalar_int(r.i));
    } else if (cr_dtype_is_float(t) && e->fn == CR_FN_fma) {
        if (t == CR_F32)
            r.f = fmaf(v[0].f, v[1].f, v[2].f);
        else
            r.d = fma(v[0].d, v[1].d, v[2].d);
    } else if (cr_dtype_is_float(t)) {
        double a = as_double(t, v[0]);
        double d = e->count == 2
                       ? real_pair((cr_fn)e->fn, a, as_double(t, v[1]), &known)
                       : real_function((cr_fn)e->fn, a, &known);
        r = of_scalar(t, cr_scalar_float(d));
    } else {
        known = false;
    }
    if (!known)
        unknown(m, e);
    return r;
}

static scalar compare(const cr_expr *e, const scalar *v)
{
    cr_dtype t = (cr_dtype)e->args[0]->dtype;
    int64_t a = v[0].i, b = e->count > 1 ? v[1].i : 0;

    if (cr_dtype_category(t) <= CR_CAT_INT) /* exact beyond 2^53 */
        return (scalar){.i = test((cr_fn)e->fn, a < b ? -1 : a > b, 0)};
    return (scalar){.i = test((cr_fn)e->fn, as_double(t, v[0]),
                              e->count > 1 ? as_double(t, v[1]) : 0)};
}

static scalar eval(machine *m, const cr_expr *e);

static scalar eval_call(machine *m, const cr_expr *e)
{
    scalar v[3] = {{0}};

    for (int i = 0; i < e->count; i++)
        v[i] = eval(m, e->args[i]);
    switch ((cr_fn_kind)cr_fn_infos[e->fn].kind) {
    case CR_FN_SAME: return same(m, e, v);
    case CR_FN_TEST: return compare(e, v);
    case CR_FN_SELECT: return v[0].i ? v[1] : v[2];
    case CR_FN_CAST:
        return of_scalar((cr_dtype)e->dtype, as_scalar((cr_dtype)e->args[0]->dtype, v[0]));
    case CR_FN_RANDOM:
        return (scalar){.f = cr_philox_float(cr_philox_word((uint64_t)v[0].i, (uint64_t)v[1].i,
                                                            (uint64_t)v[2].i))};
    case CR_FN_PARTS:
    case CR_FN_JOIN: break;
    }
    unknown(m, e);
}

/* --- reductions --- */

static scalar combine(machine *m, const cr_expr *e, scalar a, scalar b)
{
    cr_expr pair = {.kind = CR_EXPR_CALL, .dtype = e->dtype, .fn = e->fn, .count = 2};
    scalar v[2] = {a, b};

    if (e->dtype == CR_BOOL)
        return (scalar){.i = e->fn == CR_FN_and ? a.i && b.i : a.i || b.i};
    return same(m, &pair, v);
}

typedef struct {
    scalar *at;
    int64_t n;
} values;

/* Elements along a row: 32 lanes a chunk, chunks by the same rule. */
static scalar fold_row(machine *m, const cr_expr *e, values v)
{
    scalar start = of_scalar((cr_dtype)e->dtype, cr_fn_identity((cr_fn)e->fn, (cr_dtype)e->dtype));
    scalar lane[CR_FOLD_LANES];
    values parts = {NULL, (v.n + CR_FOLD_CHUNK - 1) / CR_FOLD_CHUNK};

    if (v.n > CR_FOLD_CHUNK) {
        parts.at = CR_NEW_N(m->l->session, scalar, parts.n);
        for (int64_t k = 0; k < parts.n; k++) {
            int64_t left = v.n - k * CR_FOLD_CHUNK;
            parts.at[k] = fold_row(m, e, (values){v.at + k * CR_FOLD_CHUNK,
                                                  left < CR_FOLD_CHUNK ? left : CR_FOLD_CHUNK});
        }
        return fold_row(m, e, parts);
    }
    for (int k = 0; k < CR_FOLD_LANES; k++)
        lane[k] = start;
    for (int64_t i = 0; i < v.n; i++)
        lane[i % CR_FOLD_LANES] = combine(m, e, lane[i % CR_FOLD_LANES], v.at[i]);
    for (int half = CR_FOLD_LANES / 2; half; half /= 2)
        for (int k = 0; k < half; k++)
            lane[k] = combine(m, e, lane[k], lane[k + half]);
    return lane[0];
}

/* Rows down a column: 4 accumulators a block, blocks by the same rule. */
static scalar fold_column(machine *m, const cr_expr *e, values v)
{
    scalar start = of_scalar((cr_dtype)e->dtype, cr_fn_identity((cr_fn)e->fn, (cr_dtype)e->dtype));
    scalar acc[4] = {start, start, start, start};
    values parts = {NULL, (v.n + CR_FOLD_BLOCK - 1) / CR_FOLD_BLOCK};

    if (v.n > CR_FOLD_BLOCK) {
        parts.at = CR_NEW_N(m->l->session, scalar, parts.n);
        for (int64_t k = 0; k < parts.n; k++) {
            int64_t left = v.n - k * CR_FOLD_BLOCK;
            parts.at[k] = fold_column(m, e, (values){v.at + k * CR_FOLD_BLOCK,
                                                     left < CR_FOLD_BLOCK ? left : CR_FOLD_BLOCK});
        }
        return fold_column(m, e, parts);
    }
    for (int64_t i = 0; i < v.n; i++)
        acc[i % 4] = combine(m, e, acc[i % 4], v.at[i]);
    return combine(m, e, combine(m, e, acc[0], acc[1]), combine(m, e, acc[2], acc[3]));
}

static bool along_last(const cr_expr *e, const cr_sym *axis)
{
    if (e->kind == CR_EXPR_LOAD)
        return e->buffer->ndim && cr_sym_uses(e->index[e->buffer->ndim - 1], axis);
    for (int i = 0; i < e->count; i++)
        if (along_last(e->args[i], axis))
            return true;
    return false;
}

static scalar eval_reduce(machine *m, const cr_expr *e)
{
    values v = {NULL, integer(m, e->axis.extent)};
    int k = m->axes++;

    v.at = CR_NEW_N(m->l->session, scalar, v.n);
    m->axis[k].index = e->axis.index;
    for (int64_t i = 0; i < v.n; i++) {
        m->axis[k].value = i;
        v.at[i] = eval(m, e->args[0]);
    }
    m->axes--;
    return along_last(e->args[0], e->axis.index) ? fold_row(m, e, v) : fold_column(m, e, v);
}

static scalar eval(machine *m, const cr_expr *e)
{
    cr_dtype t = (cr_dtype)e->dtype;

    switch ((cr_expr_kind)e->kind) {
    case CR_EXPR_CONST: return of_scalar(t, e->value);
    case CR_EXPR_PARAM:
        return load_element(t, (const char *)m->run->param + e->param->slot * CR_PARAM_BYTES);
    case CR_EXPR_LOAD: return load_element(t, place(m, e->buffer, e->index));
    case CR_EXPR_INTEGER: return of_scalar(t, cr_scalar_int(integer(m, e->index[0])));
    case CR_EXPR_CALL: return eval_call(m, e);
    case CR_EXPR_REDUCE: break;
    }
    return eval_reduce(m, e);
}

/* --- definitions --- */

static void run_def(machine *m, const cr_def *d, int k)
{
    const cr_sym *index[CR_LOOP_DIMS];
    int64_t n;

    if (k == d->axes) {
        for (int i = 0; i < d->axes; i++)
            index[i] = d->axis[i].index;
        store_element((cr_dtype)d->target->dtype, place(m, d->target, index), eval(m, d->value));
        return;
    }
    n = integer(m, d->axis[k].extent);
    m->axes = k + 1;
    m->axis[k].index = d->axis[k].index;
    for (int64_t i = 0; i < n; i++) {
        m->axis[k].value = i;
        m->axes = k + 1;
        run_def(m, d, k + 1);
    }
}

static char *local_memory(machine *m, const cr_buffer *b)
{
    int64_t n = 1;

    for (int i = 0; i < b->ndim; i++)
        n *= integer(m, b->size[i]);
    return cr_session_get(m->l->session, (size_t)n * cr_dtype_size((cr_dtype)b->dtype));
}

void cr_loop_interpret(cr_loop *l, const cr_loop_run *run)
{
    machine m = {.l = l, .run = run};
    cr_buffer *order[64];
    int n = cr_loop_operands(l, order, (int)CR_LEN(order));

    m.memory = CR_NEW_N(l->session, char *, l->buffers.len);
    for (size_t i = 0; i < l->buffers.len; i++) {
        if (l->buffers.at[i]->role == CR_BUFFER_LOCAL)
            m.memory[i] = local_memory(&m, l->buffers.at[i]);
        for (int k = 0; k < n; k++)
            if (order[k] == l->buffers.at[i])
                m.memory[i] = run->operand[k];
    }
    for (size_t i = 0; i < l->defs.len; i++)
        run_def(&m, l->defs.at[i], 0);
}
