/* Random numbers of the default CPU stream, in torch's order and arithmetic.
 *
 * An operator holds the generator's lock from its first number to its last.  A tensor is filled
 * in the order of its memory.  Distributions are computed in double precision from one or two
 * words for each element; uniform and normal numbers have float versions. */
#include "kern/random.h"
#include "base/memory.h"
#include "kern/cpu/each.h"
#include "kern/cpu/entries.h"
#include "kern/cpu/random/draw.h"
#include "kern/cpu/random/normal.h"
#include "kern/cpu/random/poisson.h"
#include "space/shape_text.h"

static const double PI = 3.14159265358979323846;

/* One number per element. */

typedef struct draw draw;
typedef double (*draw_fn)(const draw *d);

struct draw {
    cr_generator *g;
    draw_fn fn;
    double a, b; /* the distribution's parameters */
    cr_dtype dtype;
};

static void store_double(cr_dtype t, char *to, double x)
{
    switch (t) {
    case CR_F16: store_f16(to, (float)x); return;
    case CR_BF16: store_bf16(to, (float)x); return;
    case CR_F32: store_f32(to, (float)x); return;
    case CR_F64: store_f64(to, x); return;
    default: cr_scalar_store(cr_scalar_float(x), t, to); return;
    }
}

static void draw_number_row(void *context, char *const *at, const int64_t *step, int64_t n)
{
    const draw *d = context;

    for (int64_t i = 0; i < n; i++)
        store_double(d->dtype, at[0] + i * step[0], d->fn(d));
}

/* The real and imaginary parts as one view of real numbers. */
static cr_view real_parts(const cr_view *v, int64_t *size, int64_t *stride)
{
    cr_view r = *v;

    if (!cr_dtype_is_complex((cr_dtype)v->dtype))
        return r;
    r.dtype = v->dtype == CR_C64 ? CR_F32 : CR_F64;
    for (int d = 0; d < v->ndim; d++) {
        size[d] = v->size[d];
        stride[d] = CR_WRAP_MUL(2, v->stride[d]);
    }
    size[v->ndim] = 2;
    stride[v->ndim] = 1;
    r.ndim++;
    r.size = size;
    r.stride = stride;
    return r;
}

/* Visits `out` in the order of its memory, in this thread; the caller holds the lock. */
static void fill_in_order(const cr_view *out, cr_generator *g, cr_row_fn row, void *context)
{
    cr_walk w;

    cr_walk_start(&w, out->ndim, out->size, -1);
    cr_walk_add(&w, out);
    cr_walk_sort(&w);
    cr_walk_merge(&w);
    cr_generator_lock(g);
    cr_walk_all(&w, row, context);
    cr_generator_unlock(g);
}

static cr_status fill_drawn(const cr_view *out, const cr_value *generator, draw_fn fn, double a,
                            double b)
{
    draw d = {cr_generator_of(generator), fn, a, b, (cr_dtype)out->dtype};

    fill_in_order(out, d.g, draw_number_row, &d);
    return CR_OK;
}

static double draw_normal(const draw *d) { return fma(cr_generator_normal(d->g), d->b, d->a); }
static double draw_log_normal(const draw *d) { return exp(draw_normal(d)); }
static double draw_exponential(const draw *d)
{
    return -1 / d->a * log1p(-cr_generator_double(d->g));
}
static double draw_bernoulli(const draw *d) { return cr_generator_double(d->g) < d->a; }
static double draw_geometric(const draw *d)
{
    return ceil(log(cr_generator_double(d->g)) / log1p(-d->a));
}

static double draw_cauchy(const draw *d)
{
    return fma(d->b, tan(PI * (cr_generator_double(d->g) - 0.5)), d->a);
}

/* Uniform numbers.  A number that rounding moved to the end becomes the start. */

enum { AT_ONCE = 512 };

#define UNIT_FLOAT(word, k) cr_unit_float((word)[k])
#define UNIT_DOUBLE(word, k)                                                                   \
    cr_unit_double((uint64_t)(word)[2 * (k)] << 32 | (word)[2 * (k) + 1])
#define UNIFORM(suffix, unit, words, fused)                                                    \
    CR_WIDE_FMA static void uniform_##suffix(void *context, char *const *at,                   \
                                             const int64_t *step, int64_t n)                   \
    {                                                                                          \
        const draw *d = context;                                                               \
        wide_##suffix low = (wide_##suffix)d->a, high = (wide_##suffix)d->b, x;                \
        item_##suffix first, end;                                                              \
        uint32_t word[AT_ONCE * (words)];                                                      \
        char *p = at[0];                                                                       \
        store_##suffix(&first, low);                                                           \
        store_##suffix(&end, high);                                                            \
        for (int64_t i = 0; i < n; i += AT_ONCE) {                                             \
            int64_t some = n - i < AT_ONCE ? n - i : AT_ONCE;                                  \
            cr_mt_fill(cr_generator_words(d->g), word, some *(words));                         \
            for (int64_t k = 0; k < some; k++, p += step[0]) {                                 \
                x = fused(unit(word, k), high - low, low);                                     \
                store_##suffix(p, x);                                                          \
                if (load_##suffix(p) == load_##suffix(&end))                                   \
                    memcpy(p, &first, sizeof first);                                           \
            }                                                                                  \
        }                                                                                      \
    }
UNIFORM(f16, UNIT_FLOAT, 1, fmaf)
UNIFORM(bf16, UNIT_FLOAT, 1, fmaf)
UNIFORM(f32, UNIT_FLOAT, 1, fmaf)
UNIFORM(f64, UNIT_DOUBLE, 2, fma)

static cr_status fill_uniform(const cr_view *out, const cr_value *generator, double from,
                              double to)
{
    static const cr_row_fn rows[CR_DTYPE_COUNT] = {[CR_F16] = uniform_f16,
                                                   [CR_BF16] = uniform_bf16,
                                                   [CR_F32] = uniform_f32,
                                                   [CR_F64] = uniform_f64};
    int64_t size[CR_MAX_DIMS + 1], stride[CR_MAX_DIMS + 1];
    cr_view parts = real_parts(out, size, stride);
    draw d = {.g = cr_generator_of(generator), .a = from, .b = to};

    fill_in_order(&parts, d.g, rows[parts.dtype], &d);
    return CR_OK;
}

/* The real and the imaginary part each have half the variance. */
static cr_status fill_normal(const cr_view *out, const cr_value *generator, double mean,
                             double std)
{
    int64_t size[CR_MAX_DIMS + 1], stride[CR_MAX_DIMS + 1];
    cr_view parts = real_parts(out, size, stride);

    if (cr_dtype_is_complex((cr_dtype)out->dtype))
        std /= sqrt(2);
    if (cr_fills_blocks(&parts)) {
        cr_fill_blocks(&parts, cr_generator_of(generator), mean, std);
        return CR_OK;
    }
    return fill_drawn(&parts, generator, draw_normal, mean, std);
}

/* --- integers --- */

typedef struct {
    cr_generator *g;
    cr_random_integers among;
} integers;

enum { NARROW_RANGE = 1 << 28 }; /* from this range on, torch draws two words */

#define INTEGERS(suffix)                                                                       \
    static void integers_##suffix(void *context, char *const *at, const int64_t *step,         \
                                  int64_t n)                                                   \
    {                                                                                          \
        const integers *c = context;                                                           \
        cr_mt19937 *mt = cr_generator_words(c->g);                                             \
        for (int64_t i = 0; i < n; i++) {                                                      \
            const cr_random_integers *r = &c->among;                                           \
            uint64_t x = r->wide ? cr_mt_next64(mt) : cr_mt_next(mt);                          \
            int64_t value = (int64_t)((r->range ? x % r->range : x) + (uint64_t)r->from);      \
            store_##suffix(at[0] + i * step[0], PUT(value));                                   \
        }                                                                                      \
    }
#define PUT(x) (x)
CR_INT_TYPES(INTEGERS)
#undef PUT
#define PUT(x) ((double)(x))
CR_FLOAT_TYPES(INTEGERS)

static const cr_row_fn integer_rows[CR_DTYPE_COUNT] = {CR_TYPE_TABLE(integers, CR_AND_FLOATS)};

static cr_status refuse_complex(const char *kernel, cr_dtype t)
{
    if (!cr_dtype_is_complex(t))
        return CR_OK;
    return cr_fail(CR_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", kernel,
                   cr_dtype_infos[t].legacy);
}

/* The name of a dtype's C type in messages. */
static const char *c_name(cr_dtype t)
{
    static const char *const names[] = {[CR_BOOL] = "bool",      [CR_U8] = "unsigned char",
                                        [CR_I8] = "signed char", [CR_I16] = "short",
                                        [CR_I32] = "int",        [CR_I64] = "long",
                                        [CR_F16] = "c10::Half",  [CR_BF16] = "c10::BFloat16",
                                        [CR_F32] = "float",      [CR_F64] = "double"};

    return names[t];
}

/* True when the dtype represents the integer without loss (floats: without overflow). */
static bool dtype_has_integer(cr_dtype t, int64_t x)
{
    if (t == CR_F16)
        return x >= -65504 && x <= 65504;
    return cr_dtype_is_float(t) || cr_scalar_fits(cr_scalar_int(x), t);
}

static cr_status check_random_range(cr_dtype t, int64_t from, int64_t to)
{
    if (from >= to)
        return cr_fail(
            CR_RUNTIME,
            "random_ expects 'from' to be less than 'to', but got from=%lld >= to=%lld",
            (long long)from, (long long)to);
    if (!dtype_has_integer(t, from))
        return cr_fail(CR_RUNTIME, "from is out of bounds for %s", c_name(t));
    if (!dtype_has_integer(t, to - 1))
        return cr_fail(CR_RUNTIME, "to - 1 is out of bounds for %s", c_name(t));
    return CR_OK;
}

/* The whole range of the dtype: all its integers, or those that a float type represents
 * exactly. */
static uint64_t full_range(cr_dtype t)
{
    static const uint64_t range[] = {[CR_BOOL] = 2,
                                     [CR_U8] = 1ull << 8,
                                     [CR_I8] = 1ull << 7,
                                     [CR_I16] = 1ull << 15,
                                     [CR_I32] = 1ull << 31,
                                     [CR_I64] = 1ull << 63,
                                     [CR_F16] = (1ull << 11) + 1,
                                     [CR_BF16] = (1ull << 8) + 1,
                                     [CR_F32] = (1ull << 24) + 1,
                                     [CR_F64] = (1ull << 53) + 1};

    return range[t];
}

/* Without an end: up to the largest number; for a float type up to the largest integer that the
 * type counts exactly. */
static cr_status range_from(cr_random_integers *out, cr_dtype t, int64_t from)
{
    uint64_t top;

    if (!dtype_has_integer(t, from))
        return cr_fail(CR_RUNTIME, "from is out of bounds for %s", c_name(t));
    *out = (cr_random_integers){.from = 0};
    if (t == CR_I64 && from == INT64_MIN)
        return CR_OK;
    top = full_range(t) - 1;
    out->from = from;
    out->range = top - (uint64_t)from + 1;
    return CR_OK;
}

cr_status cr_random_range(cr_random_integers *out, cr_dtype t, const int64_t *from,
                          const int64_t *to)
{
    CR_TRY(refuse_complex(from ? "random_from_to_kernel_cpu" : "random_kernel_cpu", t));
    if (!from) {
        *out = (cr_random_integers){0, full_range(t), t == CR_I64 || t == CR_F64};
        return CR_OK;
    }
    if (to) {
        CR_TRY(check_random_range(t, *from, *to));
        *out = (cr_random_integers){.from = *from, .range = (uint64_t)*to - (uint64_t)*from};
    } else {
        CR_TRY(range_from(out, t, *from));
    }
    out->wide = !out->range || out->range >= NARROW_RANGE;
    return CR_OK;
}

static cr_status fill_integers(const cr_view *out, const cr_value *generator,
                               const int64_t *from, const int64_t *to)
{
    integers c = {.g = cr_generator_of(generator)};

    CR_TRY(cr_random_range(&c.among, (cr_dtype)out->dtype, from, to));
    fill_in_order(out, c.g, integer_rows[out->dtype], &c);
    return CR_OK;
}

static cr_status fill_between(const cr_view *out, const cr_value *generator, int64_t from,
                              int64_t to)
{
    return fill_integers(out, generator, &from, &to);
}

/* (self, *, generator) */
cr_status cr_kern_random(const cr_value *arg, cr_view *out)
{
    return fill_integers(out, &arg[1], NULL, NULL);
}

/* (self, from, to, *, generator) */
cr_status cr_kern_random_from(const cr_value *arg, cr_view *out)
{
    return fill_integers(out, &arg[3], &arg[1].i, arg[2].tag == CR_NONE ? NULL : &arg[2].i);
}

/* (self, to, *, generator) */
cr_status cr_kern_random_to(const cr_value *arg, cr_view *out)
{
    return fill_between(out, &arg[2], 0, arg[1].i);
}

/* --- in-place distributions: (self, parameters..., *, generator) --- */

cr_status cr_kern_uniform(const cr_value *arg, cr_view *out)
{
    if (arg[1].d > arg[2].d)
        return cr_fail(
            CR_RUNTIME,
            "uniform_ expects to return a [from, to) range, but found from=%g > to=%g",
            arg[1].d, arg[2].d);
    return fill_uniform(out, &arg[3], arg[1].d, arg[2].d);
}

static cr_status check_std(double std)
{
    if (std >= 0)
        return CR_OK;
    return cr_fail(CR_RUNTIME, "normal expects std >= 0.0, but found std %g", std);
}

cr_status cr_kern_normal(const cr_value *arg, cr_view *out)
{
    CR_TRY(check_std(arg[2].d));
    return fill_normal(out, &arg[3], arg[1].d, arg[2].d);
}

cr_status cr_kern_log_normal(const cr_value *arg, cr_view *out)
{
    if (!(arg[2].d > 0))
        return cr_fail(CR_RUNTIME, "log_normal_ expects std > 0.0, but found std=%g", arg[2].d);
    return fill_drawn(out, &arg[3], draw_log_normal, arg[1].d, arg[2].d);
}

cr_status cr_kern_cauchy(const cr_value *arg, cr_view *out)
{
    if (!(arg[2].d > 0))
        return cr_fail(CR_RUNTIME, "cauchy_ expects sigma > 0.0, but found sigma=%g", arg[2].d);
    return fill_drawn(out, &arg[3], draw_cauchy, arg[1].d, arg[2].d);
}

cr_status cr_kern_exponential(const cr_value *arg, cr_view *out)
{
    if (!(arg[1].d > 0))
        return cr_fail(CR_RUNTIME, "exponential_ expects lambda > 0.0, but found lambda=%g",
                       arg[1].d);
    return fill_drawn(out, &arg[2], draw_exponential, arg[1].d, 0);
}

cr_status cr_kern_geometric(const cr_value *arg, cr_view *out)
{
    if (!(arg[1].d > 0 && arg[1].d < 1))
        return cr_fail(CR_RUNTIME, "geometric_ expects p to be in (0, 1), but got p=%g",
                       arg[1].d);
    return fill_drawn(out, &arg[2], draw_geometric, arg[1].d, 0);
}

/* (self, p, *, generator); also for the out-of-place form. */
cr_status cr_kern_bernoulli_float(const cr_value *arg, cr_view *out)
{
    if (!(arg[1].d >= 0 && arg[1].d <= 1))
        return cr_fail(CR_RUNTIME, "bernoulli_ expects p to be in [0, 1], but got p=%g",
                       arg[1].d);
    return fill_drawn(out, &arg[2], draw_bernoulli, arg[1].d, 0);
}

/* One probability per element: double draws for double probabilities, float draws for
 * others. */
typedef struct {
    cr_generator *g;
    cr_dtype p_type, dtype;
    bool wrong;
} bernoulli_context;

static void bernoulli_row(void *context, char *const *at, const int64_t *step, int64_t n)
{
    bernoulli_context *c = context;
    cr_mt19937 *mt = cr_generator_words(c->g);

    for (int64_t i = 0; i < n && !c->wrong; i++) {
        double p = cr_scalar_as_double(cr_scalar_load(c->p_type, at[1] + i * step[1]));
        c->wrong = !(p >= 0 && p <= 1);
        if (!c->wrong)
            store_double(c->dtype, at[0] + i * step[0],
                         c->p_type == CR_F64 ? cr_unit_double(cr_mt_next64(mt)) < p
                                             : cr_unit_float(cr_mt_next(mt)) < (float)p);
    }
}

static cr_status fill_bernoulli(const cr_view *out, const cr_view *p, const cr_value *generator)
{
    bernoulli_context c = {cr_generator_of(generator), (cr_dtype)p->dtype, (cr_dtype)out->dtype,
                           false};
    int64_t stride[CR_MAX_DIMS];
    cr_walk w;

    if (!cr_dtype_is_float(c.p_type))
        return cr_fail(CR_NOT_IMPLEMENTED,
                       "\"bernoulli_tensor_cpu_p_\" not implemented for '%s'",
                       cr_dtype_infos[p->dtype].legacy);
    CR_TRY(cr_check_expand(p, out->ndim, out->size));
    cr_broadcast_strides(stride, p, out->ndim, out->size);
    cr_walk_start(&w, out->ndim, out->size, -1);
    cr_walk_add(&w, out);
    cr_walk_add_strides(&w, p->data, stride, cr_view_item(p));
    cr_walk_sort(&w);
    cr_walk_merge(&w);
    cr_generator_lock(c.g);
    cr_walk_all(&w, bernoulli_row, &c);
    cr_generator_unlock(c.g);
    if (c.wrong)
        return cr_fail(CR_RUNTIME,
                       "Expected p_in >= 0 && p_in <= 1 to be true, but got false.  (Could "
                       "this error message be improved?  If so, please report an "
                       "enhancement request to PyTorch.)");
    return CR_OK;
}

/* (self, p, *, generator) */
cr_status cr_kern_bernoulli_tensor(const cr_value *arg, cr_view *out)
{
    return fill_bernoulli(out, arg[1].view, &arg[2]);
}

/* (self, *, generator): self holds the probabilities. */
cr_status cr_kern_bernoulli(const cr_value *arg, cr_view *out)
{
    return fill_bernoulli(out, arg[0].view, &arg[1]);
}

/* --- factories: out is new and dense --- */

/* (size, *, generator, ...) */
cr_status cr_kern_rand(const cr_value *arg, cr_view *out)
{
    return fill_uniform(out, &arg[1], 0, 1);
}
cr_status cr_kern_randn(const cr_value *arg, cr_view *out)
{
    return fill_normal(out, &arg[1], 0, 1);
}

/* (high, size, *, generator, ...) and (low, high, size, *, generator, ...) */
cr_status cr_kern_randint(const cr_value *arg, cr_view *out)
{
    return fill_between(out, &arg[2], 0, arg[0].i);
}
cr_status cr_kern_randint_low(const cr_value *arg, cr_view *out)
{
    return fill_between(out, &arg[3], arg[0].i, arg[1].i);
}

/* Exchanges each position with a random later one or itself.  From UINT32_MAX / 20 positions
 * on, each choice takes two words. */
static void shuffle(cr_mt19937 *mt, int64_t *order, int64_t n)
{
    bool wide = n >= (int64_t)UINT32_MAX / 20;

    for (int64_t i = 0; i < n - 1; i++) {
        uint64_t left = (uint64_t)(n - i);
        int64_t k =
            i + (int64_t)(wide ? cr_mt_next64(mt) % left : cr_mt_next(mt) % (uint32_t)left);
        int64_t swap = order[i];
        order[i] = order[k];
        order[k] = swap;
    }
}

/* (n, *, generator, ...) */
cr_status cr_kern_randperm(const cr_value *arg, cr_view *out)
{
    int64_t n = arg[0].i, item = (int64_t)cr_view_item(out);
    bool direct = out->dtype == CR_I64 && cr_view_is_contiguous(out);
    int64_t *order =
        direct ? (int64_t *)(void *)out->data : cr_alloc((size_t)n * sizeof *order);
    cr_generator *g = cr_generator_of(&arg[1]);

    if (!order)
        return n ? CR_MEMORY : CR_OK;
    for (int64_t i = 0; i < n; i++)
        order[i] = i;
    cr_generator_lock(g);
    shuffle(cr_generator_words(g), order, n);
    cr_generator_unlock(g);
    if (direct)
        return CR_OK;
    for (int64_t i = 0; i < n; i++)
        cr_scalar_store(cr_scalar_int(order[i]), (cr_dtype)out->dtype, out->data + i * item);
    cr_free(order);
    return CR_OK;
}

/* (mean, std, size, *, generator, ...): numbers */
cr_status cr_kern_normal_sized(const cr_value *arg, cr_view *out)
{
    CR_TRY(check_std(arg[1].d));
    return fill_normal(out, &arg[3], arg[0].d, arg[1].d);
}

static void poisson_row(void *context, char *const *at, const int64_t *step, int64_t n)
{
    bernoulli_context *c = context;

    for (int64_t i = 0; i < n && !c->wrong; i++) {
        double rate = cr_scalar_as_double(cr_scalar_load(c->p_type, at[1] + i * step[1]));
        c->wrong = !(rate >= 0);
        if (!c->wrong)
            store_double(c->dtype, at[0] + i * step[0], poisson_number(c->g, rate));
    }
}

/* (self, generator) */
cr_status cr_kern_poisson(const cr_value *arg, cr_view *out)
{
    static const cr_loops loops = CR_DRAW_LOOPS(poisson);
    const cr_view *self = arg[0].view;

    if (!cr_is_host(out->device))
        return cr_each_draw(&loops, arg, 1, &arg[1],
                            "invalid Poisson rate, expected rate to be non-negative", out);
    bernoulli_context c = {cr_generator_of(&arg[1]), (cr_dtype)self->dtype,
                           (cr_dtype)out->dtype, false};
    cr_walk w;

    cr_walk_start(&w, out->ndim, out->size, -1);
    cr_walk_add(&w, out);
    cr_walk_add(&w, self);
    cr_walk_sort(&w);
    cr_walk_merge(&w);
    cr_generator_lock(c.g);
    cr_walk_all(&w, poisson_row, &c);
    cr_generator_unlock(c.g);
    if (c.wrong)
        return cr_fail(CR_RUNTIME, "invalid Poisson rate, expected rate to be non-negative");
    return CR_OK;
}
