/* entropy.cuh - the cross entropy of rows of scores and a class each, on an NVIDIA GPU.
 *
 * Follows move.cuh.  CE_ITEM is the type of the scores; sums are of ce_real.  CE_LANES threads,
 * a power of two up to CE_THREADS, have a row, which is read once: a thread keeps a maximum and
 * the sum of exponentials of differences to it.  A vector has CE_VECTOR elements, and a thread
 * loads CE_AT_ONCE vectors before it uses the first. */
#ifndef CR_EMIT_ENTROPY_CUH
#define CR_EMIT_ENTROPY_CUH

#include "emit/move.cuh"

typedef decltype(cm_real(CE_ITEM())) ce_real;

/* Row r, column c is at (r / inner) * outer_step + r % inner * inner_step + c * step, in
 * elements. */
struct ce_call {
    const CE_ITEM *x;
    CE_ITEM *out; /* the gradient of x */
    const cm_i64 *target;
    ce_real *lse, *term;
    const CE_ITEM *grad;
    CE_ITEM *loss;
    ce_real *total;
    cm_i64 rows, classes, inner, outer_step, inner_step, step, ignored;
    int reduction, unused;
    unsigned long long *late, wrong;
};

enum {
    CE_THREADS = 256,
    CE_ADDERS = 1024, /* threads that add up the terms */
    CE_TERMS = 8,     /* terms that one of them loads at once */
    CE_AT_ONCE = 4,
    CE_NONE = 0,
    CE_MEAN
};

struct alignas(CE_VECTOR * sizeof(CE_ITEM)) ce_vector {
    CE_ITEM item[CE_VECTOR];
};

CV_FN float ce_exp(float x) { return __builtin_expf(x); }
CV_FN double ce_exp(double x) { return __builtin_exp(x); }
/* For sums of exponentials of differences: the error of a float grows with the difference, and
 * the exponential, its share of the sum, falls faster. */
#ifdef __CUDA_ARCH__
CV_FN float ce_weight(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.44269504088896340736f));
    return y;
}
/* The greater number: the other one where one is NaN. */
CV_FN float ce_most(float x, float y)
{
    float z;
    asm("max.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
    return z;
}
#else
CV_FN float ce_weight(float x) { return __builtin_expf(x); }
CV_FN float ce_most(float x, float y) { return y > x || x != x ? y : x; }
#endif
CV_FN double ce_most(double x, double y) { return y > x || x != x ? y : x; }
CV_FN double ce_weight(double x) { return __builtin_exp(x); }
CV_FN float ce_log(float x) { return __builtin_logf(x); }
CV_FN double ce_log(double x) { return __builtin_log(x); }

CV_FN cm_i64 ce_row(const ce_call &c, cm_i64 r)
{
    const cm_i64 outer = r / c.inner;

    return outer * c.outer_step + (r - outer * c.inner) * c.inner_step;
}

/* The greatest element that is a number, and the sum of exponentials of differences to it: NaN
 * where an element is NaN or infinity, 0 where all are minus infinity. */
struct ce_sum {
    ce_real most, sum;
};

/* A sum of differences to a.most, as one of differences to `most`. */
CV_FN ce_real ce_from(const ce_sum &a, ce_real most)
{
    return a.sum != 0 ? a.sum * ce_weight(a.most - most) : 0;
}

CV_FN ce_sum ce_join(const ce_sum &a, const ce_sum &b)
{
    const ce_real most = ce_most(a.most, b.most);

    return ce_sum{most, ce_from(a, most) + ce_from(b, most)};
}

/* The elements of the vectors have one maximum: most of them do not change the thread's. */
template <int n> CV_FN void ce_add(ce_sum *s, const ce_vector (&v)[n])
{
    ce_real most = s->most, sum = 0;

    CV_ALL
    for (int q = 0; q < n; q++)
        CV_ALL
    for (int l = 0; l < CE_VECTOR; l++)
        most = ce_most(most, cm_real(v[q].item[l]));
    const ce_real base = most == -(ce_real)__builtin_inf() ? 0 : most;
    CV_ALL
    for (int q = 0; q < n; q++)
        CV_ALL
    for (int l = 0; l < CE_VECTOR; l++)
        sum += ce_weight(cm_real(v[q].item[l]) - base);
    s->sum = ce_from(*s, most) + sum;
    s->most = most;
}

CV_FN ce_vector ce_load(const ce_call &c, const CE_ITEM *row, cm_i64 at)
{
    ce_vector one;

    if (CE_VECTOR > 1)
        return *(const ce_vector *)(row + at);
    one.item[0] = row[at * c.step];
    return one;
}

/* The sum of a row; every thread of the row has it. */
CV_FN ce_sum ce_fold(ce_sum s)
{
    CK_SHARED ce_sum kept[CE_THREADS];

    for (int half = CE_LANES / 2; half > 0; half /= 2) {
        kept[ck_thread()] = s;
        __syncthreads();
        s = ce_join(s, kept[ck_thread() ^ half]);
        __syncthreads();
    }
    return s;
}

/* The class of a row; -1 where it is ignored or wrong. */
CV_FN cm_i64 ce_class(const ce_call &c, cm_i64 r, bool report)
{
    const cm_i64 t = c.target[r];

    if (t == c.ignored)
        return -1;
    if (t >= 0 && t < c.classes)
        return t;
    if (report)
        *c.late = c.wrong | ((unsigned long long)t & 0xffffffffffffULL);
    return -1;
}

CV_FN cm_i64 ce_first_row(void)
{
    return (cm_i64)CK_BLOCK_(x) * (CE_THREADS / CE_LANES) + ck_x() / CE_LANES;
}

/* Logarithms of the sums of exponentials, and terms of the loss. */
CK_KERNEL_OF(CE_THREADS, ce_forward, ce_call)
{
    const cm_i64 r = ce_first_row();
    const int lane = ck_x() % CE_LANES;
    const CE_ITEM *const row = call.x + (r < call.rows ? ce_row(call, r) : 0);
    ce_sum s = {-(ce_real)__builtin_inf(), 0};

    const cm_i64 step = CE_LANES * CE_VECTOR, end = r < call.rows ? call.classes : 0;
    cm_i64 i = (cm_i64)lane * CE_VECTOR;
    for (; i + (CE_AT_ONCE - 1) * step < end; i += CE_AT_ONCE * step) {
        ce_vector v[CE_AT_ONCE];
        CV_ALL
        for (int q = 0; q < CE_AT_ONCE; q++)
            v[q] = ce_load(call, row, i + q * step);
        ce_add(&s, v);
    }
    for (; i < end; i += step) {
        const ce_vector v[1] = {ce_load(call, row, i)};
        ce_add(&s, v);
    }
    s = ce_fold(s);
    if (lane == 0 && r < call.rows) {
        const cm_i64 t = ce_class(call, r, true);
        const ce_real lse = s.most + ce_log(s.sum),
                      term = t < 0 ? 0 : lse - cm_real(row[t * call.step]);
        call.lse[r] = lse;
        call.term[r] = term;
        if (call.reduction == CE_NONE)
            call.loss[r] = cm_to<CE_ITEM>::of(term);
    }
}

/* The loss: one block adds up the terms, in double. */
CK_KERNEL_OF(CE_ADDERS, ce_reduce, ce_call)
{
    CK_SHARED double sums[2][CE_ADDERS];
    double sum = 0, n = 0;
    const int me = ck_x();

    for (cm_i64 r = me; r < call.rows; r += CE_ADDERS * CE_TERMS) {
        ce_real term[CE_TERMS];
        bool counts[CE_TERMS];
        CV_ALL
        for (int q = 0; q < CE_TERMS; q++) {
            const cm_i64 at = r + q * CE_ADDERS;
            term[q] = at < call.rows ? call.term[at] : 0;
            counts[q] = at < call.rows && ce_class(call, at, false) >= 0;
        }
        CV_ALL
        for (int q = 0; q < CE_TERMS; q++) {
            sum += term[q];
            n += counts[q];
        }
    }
    for (int half = CE_ADDERS / 2; half > 0; half /= 2) {
        sums[0][me] = sum, sums[1][me] = n;
        __syncthreads();
        sum += sums[0][me ^ half], n += sums[1][me ^ half];
        __syncthreads();
    }
    if (me == 0) {
        *call.total = (ce_real)n;
        if (call.reduction != CE_NONE)
            *call.loss = cm_to<CE_ITEM>::of(call.reduction == CE_MEAN ? sum / n : sum);
    }
}

/* (softmax - 1 at the class) * gradient of the row's term.  A row without a sum has NaN, also
 * where it is ignored: 0 * NaN. */
CK_KERNEL_OF(CE_THREADS, ce_backward, ce_call)
{
    const cm_i64 r = ce_first_row();

    if (r >= call.rows)
        return;
    const cm_i64 t = ce_class(call, r, false), place = ce_row(call, r);
    const ce_real lse = call.lse[r], g = cm_real(call.grad[call.reduction == CE_NONE ? r : 0]);
    const ce_real share = t < 0 ? 0 : call.reduction == CE_MEAN ? g / *call.total : g;

    for (cm_i64 i = (cm_i64)(ck_x() % CE_LANES) * CE_VECTOR; i < call.classes;
         i += CE_LANES * CE_VECTOR) {
        const ce_vector v = ce_load(call, call.x + place, i);
        ce_vector y;
        CV_ALL
        for (int l = 0; l < CE_VECTOR; l++) {
            const ce_real p = ce_exp(cm_real(v.item[l]) - lse); /* NaN where a row has no sum */
            y.item[l] = cm_to<CE_ITEM>::of((p - (i + l == t)) * share);
        }
        if (CE_VECTOR > 1)
            cm_store<sizeof y>(call.out + place + i, &y);
        else
            call.out[place + i * call.step] = y.item[0];
    }
}

#endif
