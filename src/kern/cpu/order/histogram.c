/* Histograms over given bin edges, in one or several dimensions. */
#include "base/memory.h"
#include "kern/cpu/element.h"
#include "kern/cpu/entries.h"
#include "kern/cpu/walk.h"

static double bin_value(const cr_view *v, const char *p)
{
    return v->dtype == CR_F32 ? (double)*(const float *)p : *(const double *)p;
}

/* The bin of x, or -1.  A bin includes its lower edge; the last bin includes both edges.  A bin
 * of equal edges is empty. */
static int64_t bin_of(const cr_view *edges, double x)
{
    int64_t n = edges->size[0], step = cr_view_step(edges, 0), low = 0, high = n;

    if (n < 2 || !(x >= bin_value(edges, edges->data)) ||
        !(x <= bin_value(edges, edges->data + (n - 1) * step)))
        return -1;
    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        if (bin_value(edges, edges->data + mid * step) <= x)
            low = mid + 1;
        else
            high = mid;
    }
    return low - 1 < n - 2 ? low - 1 : n - 2;
}

/* The product of the widths of a bin. */
static double bin_volume(const cr_value *edges, uint32_t dims, int64_t bin)
{
    double volume = 1;

    for (uint32_t d = dims; d-- > 0;) {
        const cr_view *e = edges[d].view;
        int64_t n = e->size[0] - 1, k = bin % n;
        const char *p = e->data + k * cr_view_step(e, 0);
        volume *= bin_value(e, p + cr_view_step(e, 0)) - bin_value(e, p);
        bin /= n;
    }
    return volume;
}

static void store_counts(cr_view *out, const double *count, const cr_value *edges,
                         uint32_t dims, bool density)
{
    int64_t n = cr_view_numel(out);
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += count[i];
    for (int64_t i = 0; i < n; i++) {
        double x = density ? count[i] / sum / bin_volume(edges, dims, i) : count[i];
        if (out->dtype == CR_F32)
            ((float *)(void *)out->data)[i] = (float)x;
        else
            ((double *)(void *)out->data)[i] = x;
    }
}

/* points: dense rows of `dims` coordinates. */
static void count_points(double *count, const cr_view *like, const char *points, int64_t n,
                         const cr_value *edges, uint32_t dims, const char *weight)
{
    int64_t item = (int64_t)cr_view_item(like);

    for (int64_t i = 0; i < n; i++) {
        int64_t bin = 0;
        for (uint32_t d = 0; d < dims && bin >= 0; d++) {
            int64_t k =
                bin_of(edges[d].view, bin_value(like, points + (i * (int64_t)dims + d) * item));
            bin = k < 0 ? -1 : bin * (edges[d].view->size[0] - 1) + k;
        }
        if (bin >= 0)
            count[bin] += weight ? bin_value(like, weight + i * item) : 1;
    }
}

/* (self, edges, weight, density) -> counts.  The last dimension of self holds the
 * coordinates.  The entry's checks ensure vectors of at least two edges, of self's dtype. */
cr_status cr_kern_histogramdd(const cr_value *arg, cr_view *out)
{
    const cr_view *self = arg[0].view;
    uint32_t dims = arg[1].len;

    char *points = cr_dense_copy(self);
    char *weight = arg[2].tag == CR_NONE ? NULL : cr_dense_copy(arg[2].view);
    double *count = cr_alloc_zero((size_t)cr_view_numel(out) * sizeof *count);
    bool good = points && count && (weight || arg[2].tag == CR_NONE);

    if (good) {
        count_points(count, self, points, dims ? cr_view_numel(self) / dims : 0, arg[1].list,
                     dims, weight);
        store_counts(out, count, arg[1].list, dims, arg[3].i);
    }
    cr_free(count);
    cr_free(weight);
    cr_free(points);
    return good ? CR_OK : CR_MEMORY;
}

/* (self, bins, range, axis) -> the edges of equal bins along one coordinate: over the given
 * range, or from the smallest to the largest value. */
cr_status cr_kern_histogram_edges(const cr_value *arg, cr_view *out)
{
    const cr_view *self = arg[0].view;
    int64_t n = cr_view_numel(self), bins = arg[1].i, axis = arg[3].i;
    char *data = cr_dense_copy(self);
    double low = 0, high = 0;

    CR_NEED(data);
    if (arg[2].tag != CR_NONE && arg[2].len >= 2 * (uint32_t)axis + 2) {
        low = arg[2].floats[2 * axis];
        high = arg[2].floats[2 * axis + 1];
    } else if (n) {
        low = high = bin_value(self, data);
        for (int64_t i = 0; i < n; i++) {
            double x = bin_value(self, data + i * (int64_t)cr_view_item(self));
            low = x < low ? x : low;
            high = x > high ? x : high;
        }
    }
    cr_free(data);
    if (!isfinite(low) || !isfinite(high))
        return cr_fail(CR_RUNTIME, "torch.histogram: range [%g, %g] is not finite", low, high);
    if (low > high)
        return cr_fail(CR_RUNTIME,
                       "torch.histogram: min should not exceed max, but got min %g max %g", low,
                       high);
    if (low == high) {
        low -= 0.5;
        high += 0.5;
    }
    for (int64_t i = 0; i <= bins; i++) {
        double step = (high - low) / (double)bins;
        double x = i <= bins / 2 ? low + step * (double)i : high - step * (double)(bins - i);
        if (out->dtype == CR_F32)
            ((float *)(void *)out->data)[i] = (float)x;
        else
            ((double *)(void *)out->data)[i] = x;
    }
    return CR_OK;
}
