/* Dropout's masks.
 *
 * The eager mask takes two words of torch's stream for each element, in the order of the
 * input's memory.  The counter-based mask, for fused code, does not depend on the thread or
 * tier: element i (row-major) is kept when word i%4 of Philox block offset + i/4, as a float in
 * [0, 1), is at least p. */
#include "kern/cpu/element.h"
#include "kern/cpu/entries.h"
#include "kern/cpu/walk.h"
#include "num/generator.h"
#include "num/philox.h"

/* One thread draws: the stream has an order. */

enum { AHEAD = 512 };

typedef struct {
    cr_mt19937 *mt;
    uint64_t below; /* the first of the 2^53 numbers that is too large */
} drawing;

CR_WIDE static void keep_below(uint8_t *kept, const uint32_t *word, int64_t n, uint64_t below)
{
    for (int64_t i = 0; i < n; i++) {
        uint64_t x = (uint64_t)(word[2 * i] & 0x1fffffu) << 32 | word[2 * i + 1];
        kept[i] = x < below;
    }
}

static void draw_mask_row(void *context, char *const *at, const int64_t *step, int64_t n)
{
    const drawing *d = context;
    uint32_t word[2 * AHEAD];
    uint8_t kept[AHEAD];

    for (int64_t i = 0; i < n; i += AHEAD) {
        int64_t some = n - i < AHEAD ? n - i : AHEAD;
        bool dense = step[1] == 1;
        uint8_t *to = dense ? (uint8_t *)at[1] + i : kept;
        cr_mt_fill(d->mt, word, 2 * some);
        keep_below(to, word, some, d->below);
        for (int64_t k = 0; k < some && !dense; k++)
            at[1][(i + k) * step[1]] = (char)kept[k];
    }
}

/* (input, p): true with probability p. */
cr_status cr_kern_dropout_mask(const cr_value *arg, cr_view *out)
{
    cr_generator *g = cr_generator_default();
    drawing d = {cr_generator_words(g), (uint64_t)ceil(arg[1].d * 0x1p53)};
    const cr_view *input = arg[0].view;
    cr_walk w;

    cr_walk_start(&w, input->ndim, input->size, -1);
    cr_walk_add(&w, input);
    cr_walk_add(&w, out);
    cr_walk_sort(&w);
    cr_walk_merge(&w);
    cr_generator_lock(g);
    cr_walk_all(&w, draw_mask_row, &d);
    cr_generator_unlock(g);
    return CR_OK;
}

/* Counter-based: any thread computes any element. */

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

static const cr_row_fn keep_rows[CR_DTYPE_COUNT] = {
    [CR_F16] = keep_f16, [CR_BF16] = keep_bf16, [CR_F32] = keep_f32,
    [CR_F64] = keep_f64, [CR_C64] = keep_c64,   [CR_C128] = keep_c128};

/* (input, p, seed, offset) -> output, mask.  The caller reserved the numbers from `offset`. */
cr_status cr_kern_philox_dropout(const cr_value *arg, cr_view *out)
{
    const cr_view *input = arg[0].view;
    double p = arg[1].d;
    dropout d = {.seed = (uint64_t)arg[2].i, .offset = (uint64_t)arg[3].i};
    cr_walk w;

    d.n = cr_view_numel(&out[0]);
    d.p = p;
    d.scale = p < 1 ? 1 / (1 - p) : 0;
    d.kept = (bool *)out[1].data;
    cr_parallel_for((d.n + 3) / 4, CR_WALK_GRAIN / 32, mask_blocks, &d);
    cr_walk_start(&w, input->ndim, input->size, -1);
    cr_walk_add(&w, &out[0]);
    cr_walk_add(&w, input);
    cr_walk_add(&w, &out[1]);
    cr_walk_merge(&w);
    cr_walk_run(&w, CR_WALK_GRAIN, keep_rows[input->dtype], &d);
    return CR_OK;
}
