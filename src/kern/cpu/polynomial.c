/* Orthogonal polynomials by their recurrences, in torch's order of operations, which torch's
 * compiler contracts to fused multiply-adds.  Chebyshev
 * polynomials of higher degree are computed by their trigonometric forms between -1 and 1. */
#include "base/parallel.h"
#include "kern/cpu/entries.h"
#include "kern/cpu/pack.h"
#include "kern/cpu/walk.h"
#include <math.h>
#include <stdbool.h>
#include <string.h>

/* clang-format off */
#define POLYNOMIALS(EACH)                                                                      \
    EACH(chebyshev_t) EACH(chebyshev_u) EACH(chebyshev_v) EACH(chebyshev_w)                    \
    EACH(shifted_t) EACH(shifted_u) EACH(shifted_v) EACH(shifted_w)                            \
    EACH(hermite_h) EACH(hermite_he) EACH(laguerre) EACH(legendre)
/* clang-format on */

/* The largest degree of recurrences: rounding errors grow with the degree, so polynomials of
 * higher degrees are NaN. */
enum { MOST_DEGREE = 1 << 22 };

/* T is the type, F(f) the function f of the type, LIMIT the largest degree of Hermite
 * polynomials. */
#define FUNCTIONS(T, F, LIMIT)                                                                 \
    /* p(k) = step * p(k - 1) - p(k - 2), from p(0) = 1 and p(1) = first */                    \
    static T polynomial_##T##_chebyshev(T first, T step, int64_t n)                            \
    {                                                                                          \
        T before = 1, last = first;                                                            \
        if (n == 0)                                                                            \
            return 1;                                                                          \
        if (n > MOST_DEGREE)                                                                   \
            return (T)NAN;                                                                     \
        for (int64_t k = 2; k <= n && last == last; k++) {                                     \
            T next = F(fma)(step, last, -before);                                              \
            before = last;                                                                     \
            last = next;                                                                       \
        }                                                                                      \
        return last;                                                                           \
    }                                                                                          \
    static T polynomial_##T##_sign(int64_t n) { return n % 2 == 0 ? (T)1 : (T)-1; }            \
    static T polynomial_##T##_t(T x, int64_t n, bool up, bool down, int64_t least)             \
    {                                                                                          \
        if (up || down)                                                                        \
            return up ? (T)1 : polynomial_##T##_sign(n);                                       \
        if (n > least && F(fabs)(x) < 1)                                                       \
            return F(cos)((T)n * F(acos)(x));                                                  \
        return polynomial_##T##_chebyshev(x, x + x, n);                                        \
    }                                                                                          \
    static T polynomial_##T##_u(T x, int64_t n, bool up, bool down, int64_t least)             \
    {                                                                                          \
        T a = F(acos)(x), m = (T)(n + 1);                                                      \
        if (up || down)                                                                        \
            return up ? m : m * polynomial_##T##_sign(n);                                      \
        if (n > least && F(fabs)(x) < 1)                                                       \
            return F(sin)(a) != 0 ? F(sin)(m * a) / F(sin)(a) : m * F(cos)(m * a) / x;         \
        return polynomial_##T##_chebyshev(x + x, x + x, n);                                    \
    }                                                                                          \
    static T polynomial_##T##_v(T x, int64_t n, bool up, bool down, int64_t least)             \
    {                                                                                          \
        T a = F(acos)(x), m = (T)(n + n + 1);                                                  \
        if (up || down)                                                                        \
            return up ? (T)1 : m * polynomial_##T##_sign(n);                                   \
        if (n > least && F(fabs)(x) < 1)                                                       \
            return F(sin)(a / 2) != 1 ? F(cos)(((T)n + (T)0.5) * a) / F(cos)(a / 2)            \
                                      : m * polynomial_##T##_sign(n);                          \
        return polynomial_##T##_chebyshev(x + x - 1, x + x, n);                                \
    }                                                                                          \
    static T polynomial_##T##_w_at_end(T x, T m, int64_t n)                                    \
    {                                                                                          \
        return x > 0 ? m : polynomial_##T##_sign(n);                                           \
    }                                                                                          \
    static T polynomial_##T##_w(T x, int64_t n, bool up, bool down, int64_t least)             \
    {                                                                                          \
        T a = F(acos)(x), m = (T)(n + n + 1);                                                  \
        if (up || down)                                                                        \
            return up ? m : polynomial_##T##_sign(n);                                          \
        if (n > least && F(fabs)(x) < 1)                                                       \
            return F(cos)(a / 2) != 1 ? F(sin)(((T)n + (T)0.5) * a) / F(sin)(a / 2)            \
                                      : polynomial_##T##_w_at_end(x, m, n);                    \
        return polynomial_##T##_chebyshev(x + x + 1, x + x, n);                                \
    }                                                                                          \
    static T T##_chebyshev_t(T x, int64_t n)                                                   \
    {                                                                                          \
        return polynomial_##T##_t(x, n, x == 1, x == -1, 6);                                   \
    }                                                                                          \
    static T T##_chebyshev_u(T x, int64_t n)                                                   \
    {                                                                                          \
        return polynomial_##T##_u(x, n, x == 1, x == -1, 8);                                   \
    }                                                                                          \
    static T T##_chebyshev_v(T x, int64_t n)                                                   \
    {                                                                                          \
        return polynomial_##T##_v(x, n, x == 1, x == -1, 8);                                   \
    }                                                                                          \
    static T T##_chebyshev_w(T x, int64_t n)                                                   \
    {                                                                                          \
        return polynomial_##T##_w(x, n, x == 1, x == -1, 8);                                   \
    }                                                                                          \
    static T T##_shifted_t(T x, int64_t n)                                                     \
    {                                                                                          \
        return polynomial_##T##_t(x + x - 1, n, x == 1, x == 0, 6);                            \
    }                                                                                          \
    static T T##_shifted_u(T x, int64_t n)                                                     \
    {                                                                                          \
        return polynomial_##T##_u(x + x - 1, n, x == 1, x == 0, 6);                            \
    }                                                                                          \
    static T T##_shifted_v(T x, int64_t n)                                                     \
    {                                                                                          \
        return polynomial_##T##_v(x + x - 1, n, x == 1, x == 0, 6);                            \
    }                                                                                          \
    static T T##_shifted_w(T x, int64_t n)                                                     \
    {                                                                                          \
        return polynomial_##T##_w(x + x - 1, n, x == 1, x == 0, 4);                            \
    }                                                                                          \
    static T T##_hermite_h(T x, int64_t n)                                                     \
    {                                                                                          \
        T before = 1, last = n ? x + x : 1;                                                    \
        if (n > LIMIT)                                                                         \
            return (T)NAN;                                                                     \
        for (int64_t k = 2; k < n + n; k += 2) {                                               \
            T next = F(fma)(x + x, last, -((T)k * before));                                    \
            before = last;                                                                     \
            last = next;                                                                       \
        }                                                                                      \
        return last;                                                                           \
    }                                                                                          \
    static T T##_hermite_he(T x, int64_t n)                                                    \
    {                                                                                          \
        T before = 1, last = n ? x : 1;                                                        \
        if (n > LIMIT)                                                                         \
            return (T)NAN;                                                                     \
        for (int64_t k = 1; k < n; k++) {                                                      \
            T next = F(fma)(x, last, -((T)k * before));                                        \
            before = last;                                                                     \
            last = next;                                                                       \
        }                                                                                      \
        return last;                                                                           \
    }                                                                                          \
    static T T##_laguerre(T x, int64_t n)                                                      \
    {                                                                                          \
        T before = 1, last = n ? 1 - x : 1;                                                    \
        if (x == 0)                                                                            \
            return 1;                                                                          \
        if (n > MOST_DEGREE)                                                                   \
            return (T)NAN;                                                                     \
        for (int64_t k = 1; k < n && last == last; k++) {                                      \
            T next = F(fma)((T)(k + k) + (1 - x), last, -((T)k * before)) / (T)(k + 1);        \
            before = last;                                                                     \
            last = next;                                                                       \
        }                                                                                      \
        return last;                                                                           \
    }                                                                                          \
    static T T##_legendre(T x, int64_t n)                                                      \
    {                                                                                          \
        T before = 1, last = n ? x : 1;                                                        \
        if (F(fabs)(x) == 1)                                                                   \
            return x > 0 ? (T)1 : polynomial_##T##_sign(n);                                    \
        if (n > MOST_DEGREE)                                                                   \
            return (T)NAN;                                                                     \
        for (int64_t k = 1; k < n && last == last; k++) {                                      \
            T next = F(fma)((T)(k + k + 1) * x, last, -((T)k * before)) / (T)(k + 1);          \
            before = last;                                                                     \
            last = next;                                                                       \
        }                                                                                      \
        return last;                                                                           \
    }

#define FLOAT_FUNCTION(name)  name##f
#define DOUBLE_FUNCTION(name) name
FUNCTIONS(float, FLOAT_FUNCTION, 128)
FUNCTIONS(double, DOUBLE_FUNCTION, 512)

typedef struct {
    const char *name;
    float (*f32)(float x, int64_t n);
    double (*f64)(double x, int64_t n);
} polynomial;

static const polynomial polynomials[] = {
#define ENTRY(p) {#p, float_##p, double_##p},
    POLYNOMIALS(ENTRY)
#undef ENTRY
};

typedef struct {
    const polynomial *p;
    cr_dtype dtype;
    const char *x, *n;
    char *out;
} polynomial_call;

/* The degree is cut towards zero; the polynomials of negative degree are 0. */
static void polynomial_span(void *context, int64_t begin, int64_t end)
{
    const polynomial_call *c = context;
    bool single = c->dtype == CR_F32;
    const float *x32 = (const float *)(const void *)c->x,
                *n32 = (const float *)(const void *)c->n;
    const double *x64 = (const double *)(const void *)c->x,
                 *n64 = (const double *)(const void *)c->n;

    for (int64_t i = begin; i < end; i++) {
        double degree = single ? (double)n32[i] : n64[i];
        int64_t n = degree >= 0x1p61 ? (int64_t)1 << 61 : degree > -1 ? (int64_t)degree : -1;
        if (single)
            ((float *)(void *)c->out)[i] = n < 0 ? 0 : c->p->f32(x32[i], n);
        else
            ((double *)(void *)c->out)[i] = n < 0 ? 0 : c->p->f64(x64[i], n);
    }
}

static cr_status polynomial_run(const polynomial *p, const cr_value *arg, cr_view *out)
{
    cr_dtype t = (cr_dtype)out->dtype;
    cr_dense x = {0}, n = {0}, to = {0};
    cr_status st;

    CR_GO(cr_dense_in(&x, arg[0].view, t));
    CR_GO(cr_dense_in(&n, arg[1].view, t));
    CR_GO(cr_dense_out(&to, out, t));
    cr_parallel_for(cr_view_numel(out), 1024, polynomial_span,
                    &(polynomial_call){p, t, x.data, n.data, to.data});
    cr_dense_store(&to, out, t);
done:
    cr_dense_drop(&x);
    cr_dense_drop(&n);
    cr_dense_drop(&to);
    return st;
}

/* (x, n, name); x and n have the result's sizes. */
cr_status cr_kern_polynomial(const cr_value *arg, cr_view *out)
{
    for (size_t i = 0; i < CR_LEN(polynomials); i++)
        if (strlen(polynomials[i].name) == arg[2].len &&
            !memcmp(polynomials[i].name, arg[2].s, arg[2].len))
            return polynomial_run(&polynomials[i], arg, out);
    return cr_fail(CR_VALUE, "no polynomial is called '%.*s'", (int)arg[2].len, arg[2].s);
}
