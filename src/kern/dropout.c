/* Dropout: counter-based, so that any thread or tier makes the same mask.
 *
 * Element i (row-major) is kept when word i%4 of Philox block offset + i/4, as a float
 * in [0, 1), is at least p.  A call takes ceil(n/4) blocks of the default generator. */
#include "kern/element.h"
#include "kern/entries.h"
#include "kern/walk.h"
#include "num/generator.h"
#include "num/philox.h"

typedef struct {
    uint64_t seed, offset;
    int64_t n;
    double p, scale;
    bool *kept; /* dense, in row-major order */
} dropout;

static void mask_blocks(void *context, int64_t begin, int64_t end)
{
    const dropout *d = context;
    float p = (float)d->p;

    for (int64_t b = begin; b < end; b++) {
        uint32_t word[4];
        cr_philox(d->seed, d->offset + (uint64_t)b, word);
        for (int64_t i = 4 * b; i < 4 * b + 4 && i < d->n; i++)
            d->kept[i] = cr_philox_float(word[i % 4]) >= p;
    }
}

enum { OUT, INPUT, MASK };

#define KEEP(suffix)                                                                           \
    static void keep_##suffix(void *context, char *const *at, const int64_t *step, int64_t n)  \
    {                                                                                          \
        wide_##suffix scale = (wide_##suffix)((const dropout *)context)->scale;                \
        for (int64_t i = 0; i < n; i++) {                                                      \
            wide_##suffix x = load_##suffix(at[INPUT] + i * step[INPUT]);                      \
            wide_##suffix kept = at[MASK][i * step[MASK]] ? x * scale : 0;                     \
            store_##suffix(at[OUT] + i * step[OUT], kept);                                     \
        }                                                                                      \
    }
CR_FLOAT_TYPES(KEEP)
CR_COMPLEX_TYPES(KEEP)

static const cr_row_fn keep_rows[CR_DTYPE_COUNT] = {[CR_F16] = keep_f16, [CR_BF16] = keep_bf16,
                                                    [CR_F32] = keep_f32, [CR_F64] = keep_f64,
                                                    [CR_C64] = keep_c64, [CR_C128] = keep_c128};

/* Fills the mask out[1] from the stream and out[0] from it. */
static void apply(dropout *d, const cr_view *input, cr_view *out)
{
    cr_walk w;

    cr_parallel_for((d->n + 3) / 4, CR_WALK_GRAIN / 32, mask_blocks, d);
    cr_walk_start(&w, input->ndim, input->size, -1);
    cr_walk_add(&w, &out[0]);
    cr_walk_add(&w, input);
    cr_walk_add(&w, &out[1]);
    cr_walk_merge(&w);
    cr_walk_run(&w, CR_WALK_GRAIN, keep_rows[input->dtype], d);
}

static dropout dropout_of(cr_view *out, double p)
{
    return (dropout){.n = cr_view_numel(&out[0]),
                     .p = p,
                     .scale = p < 1 ? 1 / (1 - p) : 0,
                     .kept = (bool *)out[1].data};
}

/* (input, p, train) -> output, mask */
cr_status cr_kern_native_dropout(const cr_value *arg, cr_view *out)
{
    bool train = arg[2].tag == CR_NONE || arg[2].i;
    dropout d = dropout_of(out, arg[1].d);

    if (!train) {
        cr_copy_view(&out[0], arg[0].view);
        memset(out[1].data, 1, (size_t)d.n);
        return CR_OK;
    }
    cr_generator_reserve(cr_generator_default(), (uint64_t)(d.n + 3) / 4, &d.seed, &d.offset);
    apply(&d, arg[0].view, out);
    return CR_OK;
}

/* (input, p, seed, offset) -> output, mask: the same with a reservation made before. */
cr_status cr_kern_philox_dropout(const cr_value *arg, cr_view *out)
{
    dropout d = dropout_of(out, arg[1].d);

    d.seed = (uint64_t)arg[2].i;
    d.offset = (uint64_t)arg[3].i;
    apply(&d, arg[0].view, out);
    return CR_OK;
}
