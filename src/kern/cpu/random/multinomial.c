/* Draws categories by weight.
 *
 * Without replacement (and for a single draw) the weight of every category is divided by an
 * exponential number, and the categories with the largest quotients are drawn.  With
 * replacement, uniform numbers are searched in the cumulative sums of the weights. */
#include "base/memory.h"
#include "kern/cpu/entries.h"
#include "kern/cpu/order/sort_line.h"
#include "kern/cpu/random/draw.h"

typedef struct {
    const cr_view *weights; /* dense: rows of n */
    char *data;
    int64_t rows, n, draws;
    cr_dtype dtype;
    cr_generator *g;
    int64_t *out;
} drawing;

static double weight_at(const drawing *d, int64_t i)
{
    return cr_scalar_as_double(
        cr_scalar_load(d->dtype, d->data + i * (int64_t)cr_dtype_size(d->dtype)));
}

/* Checks that every row has a positive weight.  Without replacement torch checks all weights
 * together. */
static cr_status check_weights(const drawing *d, bool replacement)
{
    for (int64_t r = 0; r < d->rows; r++) {
        double sum = 0;
        for (int64_t i = 0; i < d->n; i++) {
            double w = weight_at(d, r * d->n + i);
            if (!(w >= 0) || isinf(w))
                return cr_fail(CR_RUNTIME,
                               replacement
                                   ? "invalid multinomial distribution (encountering "
                                     "probability entry < 0, infinity or NaN)"
                                   : "probability tensor contains either `inf`, `nan` or "
                                     "element < 0");
            sum += w;
        }
        if (!(sum > 0))
            return cr_fail(CR_RUNTIME,
                           "invalid multinomial distribution (sum of probabilities <= 0)");
    }
    return CR_OK;
}

/* Divides the weights by exponential numbers.  Both are rounded to the dtype. */
static void divide_by_exponentials(const drawing *d)
{
    int64_t item = (int64_t)cr_dtype_size(d->dtype);

    for (int64_t i = 0; i < d->rows * d->n; i++) {
        char room[sizeof(double)];
        double w = weight_at(d, i), e = -log1p(-cr_generator_double(d->g));
        cr_scalar_store(cr_scalar_float(e), d->dtype, room);
        e = cr_scalar_as_double(cr_scalar_load(d->dtype, room));
        cr_scalar_store(cr_scalar_float(w / e), d->dtype, d->data + i * item);
    }
}

static cr_status draw_apart(const drawing *d)
{
    int64_t item = (int64_t)cr_dtype_size(d->dtype);
    void *room = cr_alloc(cr_line_room(d->dtype, d->n));

    CR_NEED(room);
    divide_by_exponentials(d);
    for (int64_t r = 0; r < d->rows; r++) {
        cr_line line = {d->data + r * d->n * item, item, d->n, d->dtype, true};
        cr_line_top(&line, d->draws, d->out + r * d->draws, room);
    }
    cr_free(room);
    return CR_OK;
}

/* Cumulative sums; rounded to float for every type but double.  The last one is set to 1. */
static void running_sums(const drawing *d, int64_t row, double *sum)
{
    double total = 0;

    for (int64_t i = 0; i < d->n; i++) {
        total += weight_at(d, row * d->n + i);
        total = d->dtype == CR_F64 ? total : (double)(float)total;
        sum[i] = total;
    }
    for (int64_t i = 0; i < d->n; i++)
        sum[i] = d->dtype == CR_F64 ? sum[i] / total : (double)(float)(sum[i] / total);
    sum[d->n - 1] = 1;
}

static int64_t search_sums(const double *sum, int64_t n, double x)
{
    int64_t low = 0, high = n;

    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        if (sum[mid] < x)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static cr_status draw_again(const drawing *d)
{
    double *sum = cr_alloc((size_t)d->n * sizeof *sum);

    CR_NEED(sum);
    for (int64_t r = 0; r < d->rows; r++) {
        running_sums(d, r, sum);
        for (int64_t k = 0; k < d->draws; k++)
            d->out[r * d->draws + k] = search_sums(sum, d->n, cr_generator_double(d->g));
    }
    cr_free(sum);
    return CR_OK;
}

/* (self, num_samples, replacement, *, generator) */
cr_status cr_kern_multinomial(const cr_value *arg, cr_view *out)
{
    const cr_view *self = arg[0].view;
    bool apart = !arg[2].i || arg[1].i == 1;
    int64_t n = self->size[self->ndim - 1];
    drawing d = {.weights = self,
                 .rows = self->ndim == 2 ? self->size[0] : 1,
                 .n = n,
                 .draws = arg[1].i,
                 .dtype = (cr_dtype)self->dtype,
                 .out = (int64_t *)(void *)out->data};
    cr_status st;

    d.g = cr_generator_of(&arg[3]);
    d.data = cr_dense_copy(self);
    st = d.data ? check_weights(&d, !apart) : CR_MEMORY;
    if (!st) {
        cr_generator_lock(d.g);
        st = apart ? draw_apart(&d) : draw_again(&d);
        cr_generator_unlock(d.g);
    }
    cr_free(d.data);
    return st;
}
