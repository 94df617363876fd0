/* grid_loops.h - sampling for one element type, included once per type.
 *
 * Before inclusion: T the element type, NAME(x) the suffixed name.  A point has at
 * most four taps a dimension: a position (or -1 outside), a weight, and the weight's
 * slope in the grid coordinate. */

typedef struct {
    int64_t at[4];
    T weight[4], slope[4];
    int count;
} NAME(taps);

/* The coordinate in elements; *slope is its derivative. */
static T NAME(place)(T x, int64_t n, bool align, T *slope)
{
    *slope = align ? (T)(n - 1) / 2 : (T)n / 2;
    return align ? (x + 1) / 2 * (T)(n - 1) : ((x + 1) * (T)n - 1) / 2;
}

static T NAME(clip)(T x, int64_t n, T *slope)
{
    T last = (T)(n - 1);

    if (x > 0 && x < last)
        return x;
    *slope = 0;
    return x >= last ? last : 0; /* NaN goes to 0 */
}

static T NAME(reflect)(T x, int64_t n, bool align, T *slope)
{
    T low = align ? 0 : (T)-0.5, span = (T)(align ? n - 1 : n), extra;

    if (!(span > 0)) {
        *slope = 0;
        return 0;
    }
    x -= low;
    if (x < 0) {
        x = -x;
        *slope = -*slope;
    }
    extra = (T)fmod((double)x, (double)span);
    if (fmod(floor((double)(x / span)), 2.0) == 0.0)
        return extra + low;
    *slope = -*slope;
    return span - extra + low;
}

/* Applies the padding to a position in elements. */
static T NAME(pad)(const cr_grid *g, T x, int64_t n, T *slope)
{
    if (g->padding == CR_GRID_REFLECT)
        x = NAME(reflect)(x, n, g->align_corners, slope);
    if (g->padding != CR_GRID_ZEROS)
        x = NAME(clip)(x, n, slope);
    /* What no integer holds lies outside. */
    return x > (T)-1e18 && x < (T)1e18 ? x : -100;
}

static int64_t NAME(inside)(T x, int64_t n)
{
    return x >= 0 && x < (T)n ? (int64_t)x : -1;
}

static void NAME(cubic)(NAME(taps) *k, T t, T slope)
{
    const T a = (T)-0.75;
    T far0 = t + 1, far1 = 2 - t, near1 = 1 - t;

    k->weight[0] = ((a * far0 - 5 * a) * far0 + 8 * a) * far0 - 4 * a;
    k->weight[1] = ((a + 2) * t - (a + 3)) * t * t + 1;
    k->weight[2] = ((a + 2) * near1 - (a + 3)) * near1 * near1 + 1;
    k->weight[3] = ((a * far1 - 5 * a) * far1 + 8 * a) * far1 - 4 * a;
    k->slope[0] = slope * ((3 * a * far0 - 10 * a) * far0 + 8 * a);
    k->slope[1] = slope * ((3 * (a + 2) * t - 2 * (a + 3)) * t);
    k->slope[2] = -slope * ((3 * (a + 2) * near1 - 2 * (a + 3)) * near1);
    k->slope[3] = -slope * ((3 * a * far1 - 10 * a) * far1 + 8 * a);
}

static void NAME(cubic_taps)(const cr_grid *g, T x, int64_t n, NAME(taps) *k)
{
    T slope, ignored = 0, first;

    x = NAME(place)(x, n, g->align_corners, &slope);
    first = (T)floor((double)x);
    NAME(cubic)(k, x - first, slope);
    k->count = 4;
    for (int i = 0; i < 4; i++)
        k->at[i] = NAME(inside)((T)rint((double)NAME(pad)(g, first - 1 + (T)i, n, &ignored)), n);
}

static void NAME(taps_of)(const cr_grid *g, T x, int64_t n, NAME(taps) *k)
{
    T slope, first;

    if (g->mode == CR_GRID_CUBIC) {
        NAME(cubic_taps)(g, x, n, k);
        return;
    }
    x = NAME(pad)(g, NAME(place)(x, n, g->align_corners, &slope), n, &slope);
    if (g->mode == CR_GRID_NEAREST) {
        *k = (NAME(taps)){.at = {NAME(inside)((T)rint((double)x), n)}, .weight = {1}, .count = 1};
        return;
    }
    first = (T)floor((double)x);
    *k = (NAME(taps)){.at = {NAME(inside)(first, n), NAME(inside)(first + 1, n)},
                      .weight = {first + 1 - x, x - first}, .slope = {-slope, slope}, .count = 2};
}

/* Every combination of taps inside the image: its position, weight, and the weight with
 * dimension d's slope instead. */
typedef struct {
    int count;
    int64_t at[64];
    T weight[64], slope[3][64];
} NAME(stencil);

static void NAME(add)(NAME(stencil) *s, const cr_grid *g, const NAME(taps) *k, const int *i)
{
    int64_t at = 0;
    T weight = 1;

    for (int d = 0; d < g->dims; d++) {
        if (k[d].at[i[d]] < 0)
            return;
        at = at * g->size[d] + k[d].at[i[d]];
        weight *= k[d].weight[i[d]];
    }
    s->at[s->count] = at;
    s->weight[s->count] = weight;
    for (int d = 0; d < g->dims; d++) {
        T slope = k[d].slope[i[d]];
        for (int e = 0; e < g->dims; e++)
            slope *= e == d ? 1 : k[e].weight[i[e]];
        s->slope[d][s->count] = slope;
    }
    s->count++;
}

static void NAME(stencil_of)(const cr_grid *g, const T *point, NAME(stencil) *s)
{
    NAME(taps) k[3];
    int i[3];

    for (int d = 0; d < 3; d++) {
        k[d].count = 1;
        if (d < g->dims)
            NAME(taps_of)(g, point[g->dims - 1 - d], g->size[d], &k[d]);
    }
    s->count = 0;
    for (i[0] = 0; i[0] < k[0].count; i[0]++)
        for (i[1] = 0; i[1] < k[1].count; i[1]++)
            for (i[2] = 0; i[2] < k[2].count; i[2]++)
                NAME(add)(s, g, k, i);
}

static void NAME(sample)(void *context, int64_t begin, int64_t end)
{
    const grid_job *w = context;
    const cr_grid *g = w->g;
    NAME(stencil) s;

    for (int64_t i = begin; i < end; i++) {
        int64_t b = i / g->points, p = i % g->points;
        NAME(stencil_of)(g, (const T *)w->grid + i * g->dims, &s);
        for (int64_t c = 0; c < g->channels; c++) {
            const T *x = (const T *)w->x + (b * g->channels + c) * w->plane;
            T sum = 0;
            for (int k = 0; k < s.count; k++)
                sum += s.weight[k] * x[s.at[k]];
            ((T *)w->out)[(b * g->channels + c) * g->points + p] = sum;
        }
    }
}

/* Images go to threads whole, so points of one image add up in order. */
static void NAME(spread)(void *context, int64_t begin, int64_t end)
{
    const grid_job *w = context;
    const cr_grid *g = w->g;
    NAME(stencil) s;

    memset((T *)w->out + begin * g->channels * w->plane, 0,
           (size_t)((end - begin) * g->channels * w->plane) * sizeof(T));
    for (int64_t i = begin * g->points; i < end * g->points; i++) {
        int64_t b = i / g->points, p = i % g->points;
        NAME(stencil_of)(g, (const T *)w->grid + i * g->dims, &s);
        for (int64_t c = 0; c < g->channels; c++) {
            T *x = (T *)w->out + (b * g->channels + c) * w->plane;
            T gy = ((const T *)w->gy)[(b * g->channels + c) * g->points + p];
            for (int k = 0; k < s.count; k++)
                x[s.at[k]] += s.weight[k] * gy;
        }
    }
}

static void NAME(slope)(void *context, int64_t begin, int64_t end)
{
    const grid_job *w = context;
    const cr_grid *g = w->g;
    NAME(stencil) s;

    for (int64_t i = begin; i < end; i++) {
        int64_t b = i / g->points, p = i % g->points;
        T *to = (T *)w->out + i * g->dims;
        NAME(stencil_of)(g, (const T *)w->grid + i * g->dims, &s);
        memset(to, 0, (size_t)g->dims * sizeof *to);
        for (int64_t c = 0; c < g->channels; c++) {
            const T *x = (const T *)w->x + (b * g->channels + c) * w->plane;
            T gy = ((const T *)w->gy)[(b * g->channels + c) * g->points + p];
            for (int d = 0; d < g->dims; d++)
                for (int k = 0; k < s.count; k++)
                    to[g->dims - 1 - d] += s.slope[d][k] * x[s.at[k]] * gy;
        }
    }
}

#undef T
#undef NAME
