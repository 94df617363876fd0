/* upsample_loops.h - resampling for one element type, included once per type.
 *
 * Before inclusion: T the element type, NAME(x) the suffixed name.  Arrays are
 * [outer, n, inner]; one dimension is resampled at a time. */

/* Index and share of a source position, computed in T as torch does. */
static T NAME(source)(int64_t i, T scale, bool align, bool cubic)
{
    T at;

    if (align)
        return scale * (T)i;
    at = scale * ((T)i + (T)0.5) - (T)0.5;
    return at < 0 && !cubic ? 0 : at;
}

static T NAME(scale_of)(const axis *a, bool align)
{
    if (align)
        return a->out > 1 ? (T)(a->in - 1) / (T)(a->out - 1) : 0;
    return a->scale > 0 ? (T)(1.0 / a->scale) : (T)a->in / (T)a->out;
}

static void NAME(linear_taps)(const axis *a, bool align, T *weight)
{
    T scale = NAME(scale_of)(a, align);

    for (int64_t o = 0; o < a->out; o++) {
        T at = NAME(source)(o, scale, align, false), part;
        int64_t i = (int64_t)at;

        i = i < a->in - 1 ? i : a->in - 1;
        part = at - (T)i;
        part = part < 0 ? 0 : part > 1 ? 1 : part;
        a->index[2 * o] = i;
        a->index[2 * o + 1] = i + (i < a->in - 1);
        weight[2 * o] = 1 - part;
        weight[2 * o + 1] = part;
    }
}

/* Keys' cubic with parameter c. */
static T NAME(cubic_near)(T x, T c) { return ((c + 2) * x - (c + 3)) * x * x + 1; }
static T NAME(cubic_far)(T x, T c) { return ((c * x - 5 * c) * x + 8 * c) * x - 4 * c; }

static void NAME(cubic_taps)(const axis *a, bool align, T *weight)
{
    T scale = NAME(scale_of)(a, align), c = (T)-0.75;

    for (int64_t o = 0; o < a->out; o++) {
        T at = NAME(source)(o, scale, align, true), part;
        int64_t i = (int64_t)floor((double)at);

        part = at - (T)i;
        for (int64_t t = 0; t < 4; t++) {
            int64_t k = i - 1 + t;
            a->index[4 * o + t] = k < 0 ? 0 : k >= a->in ? a->in - 1 : k;
        }
        weight[4 * o] = NAME(cubic_far)(part + 1, c);
        weight[4 * o + 1] = NAME(cubic_near)(part, c);
        weight[4 * o + 2] = NAME(cubic_near)(1 - part, c);
        weight[4 * o + 3] = NAME(cubic_far)(2 - part, c);
    }
}

static T NAME(filter)(T x, bool cubic)
{
    x = x < 0 ? -x : x;
    if (!cubic)
        return x < 1 ? 1 - x : 0;
    return x < 1 ? NAME(cubic_near)(x, (T)-0.5) : x < 2 ? NAME(cubic_far)(x, (T)-0.5) : 0;
}

static void NAME(smooth_taps)(const axis *a, bool align, bool cubic, T *weight)
{
    T scale = NAME(scale_of)(a, align), inverse = scale >= 1 ? 1 / scale : 1;
    T support = (scale >= 1 ? scale : 1) * (T)(cubic ? 2 : 1);

    for (int64_t o = 0; o < a->out; o++) {
        T center = scale * ((T)o + (T)0.5), sum = 0;
        int64_t first = (int64_t)(center - support + (T)0.5), last = (int64_t)(center + support + (T)0.5);

        first = first > 0 ? first : 0;
        last = last < a->in ? last : a->in;
        for (int64_t t = 0; t < a->taps; t++) {
            bool used = t < last - first;
            T w = used ? NAME(filter)(((T)(t + first) - center + (T)0.5) * inverse, cubic) : 0;
            a->index[a->taps * o + t] = used ? first + t : first;
            weight[a->taps * o + t] = w;
            sum += w;
        }
        for (int64_t t = 0; t < a->taps && sum != 0; t++)
            weight[a->taps * o + t] /= sum;
    }
}

static void NAME(taps)(const axis *a, cr_upsample_mode mode, bool align)
{
    T *weight = a->weight;

    if (mode == CR_UPSAMPLE_LINEAR)
        NAME(linear_taps)(a, align, weight);
    else if (mode == CR_UPSAMPLE_CUBIC)
        NAME(cubic_taps)(a, align, weight);
    else if (mode >= CR_UPSAMPLE_LINEAR_AA)
        NAME(smooth_taps)(a, align, mode == CR_UPSAMPLE_CUBIC_AA, weight);
    else {
        nearest_taps(a, mode == CR_UPSAMPLE_NEAREST_EXACT);
        for (int64_t o = 0; o < a->out; o++)
            weight[o] = 1;
    }
}

/* y[outer, out, inner] from x[outer, in, inner]. */
static void NAME(stretch)(const axis *a, int64_t outer, int64_t inner, const T *x, T *y)
{
    const T *weight = a->weight;

    for (int64_t i = 0; i < outer; i++, x += a->in * inner)
        for (int64_t o = 0; o < a->out; o++, y += inner) {
            const T *first = x + a->index[o * a->taps] * inner;
            T w = weight[o * a->taps];
            for (int64_t j = 0; j < inner; j++)
                y[j] = w * first[j];
            for (int64_t t = 1; t < a->taps; t++) {
                const T *from = x + a->index[o * a->taps + t] * inner;
                w = weight[o * a->taps + t];
                for (int64_t j = 0; j < inner; j++)
                    y[j] += w * from[j];
            }
        }
}

static void NAME(squeeze)(const axis *a, int64_t outer, int64_t inner, const T *y, T *x)
{
    const T *weight = a->weight;

    memset(x, 0, (size_t)(outer * a->in * inner) * sizeof *x);
    for (int64_t i = 0; i < outer; i++, x += a->in * inner)
        for (int64_t o = 0; o < a->out; o++, y += inner)
            for (int64_t t = 0; t < a->taps; t++) {
                T *to = x + a->index[o * a->taps + t] * inner;
                T w = weight[o * a->taps + t];
                for (int64_t j = 0; j < inner; j++)
                    to[j] += w * y[j];
            }
}

/* One plane, last dimension first; `one` and `two` are scratch. */
static void NAME(plane)(const upsample_job *w, const T *x, T *y, T *one, T *two)
{
    const cr_upsample *u = w->u;

    NAME(stretch)(&w->axis[2], u->in[0] * u->in[1], 1, x, one);
    NAME(stretch)(&w->axis[1], u->in[0], u->out[2], one, two);
    NAME(stretch)(&w->axis[0], 1, u->out[1] * u->out[2], two, y);
}

static void NAME(plane_back)(const upsample_job *w, const T *y, T *x, T *one, T *two)
{
    const cr_upsample *u = w->u;

    NAME(squeeze)(&w->axis[0], 1, u->out[1] * u->out[2], y, two);
    NAME(squeeze)(&w->axis[1], u->in[0], u->out[2], two, one);
    NAME(squeeze)(&w->axis[2], u->in[0] * u->in[1], 1, one, x);
}

static void NAME(range)(upsample_job *w, int64_t begin, int64_t end, void *scratch)
{
    T *one = scratch, *two = one + w->u->in[0] * w->u->in[1] * w->u->out[2];

    for (int64_t i = begin; i < end; i++) {
        if (w->back)
            NAME(plane_back)(w, (const T *)w->from + i * w->out, (T *)w->to + i * w->in, one, two);
        else
            NAME(plane)(w, (const T *)w->from + i * w->in, (T *)w->to + i * w->out, one, two);
    }
}

#undef T
#undef NAME
