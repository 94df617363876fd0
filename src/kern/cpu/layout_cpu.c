/* The layout hook of the CPU: oneDNN's primitives, and loops over blocks of channels. */
#include "base/parallel.h"
#include "kern/cpu/library/dnnl.h"
#include "kern/layout.h"

static cr_dnnl_primitive *layout_primitive(const cr_layout_kernel *k)
{
    return (cr_dnnl_primitive *)(uintptr_t)k;
}

static cr_layout_kernel *layout_convolution(const cr_conv *c, cr_dtype t, bool bias)
{
    return (cr_layout_kernel *)cr_conv_primitive(c, t, bias);
}

static void layout_release(cr_layout_kernel *k) { cr_dnnl_release(layout_primitive(k)); }

static size_t layout_bytes(const cr_layout_kernel *k, int i)
{
    return cr_dnnl_own_bytes(layout_primitive(k), i);
}

static bool layout_is_plain(const cr_layout_kernel *k, int i)
{
    return cr_dnnl_own_is_plain(layout_primitive(k), i);
}

static bool layout_is_same(const cr_layout_kernel *a, const cr_layout_kernel *b, int i)
{
    return cr_dnnl_own_is_same(layout_primitive(a), layout_primitive(b), i);
}

static int64_t layout_block(const cr_layout_kernel *k, int i)
{
    return cr_dnnl_own_block(layout_primitive(k), i);
}

static cr_status layout_pack(cr_layout_kernel *k, int i, void *plain, void *preferred)
{
    return cr_dnnl_pack(layout_primitive(k), i, plain, preferred);
}

static cr_status layout_run(cr_layout_kernel *k, void *const *data, unsigned preferred)
{
    return cr_dnnl_run_own(layout_primitive(k), data, preferred);
}

typedef struct {
    float *plain;
    const float *blocked;
    int64_t block, points;
} unblock_job;

static void layout_unblock_planes(void *context, int64_t begin, int64_t end)
{
    const unblock_job *j = context;
    int64_t block = j->block, points = j->points;

    for (int64_t i = begin; i < end; i++) {
        const float *from = j->blocked + i * block * points;
        float *to = j->plain + i * block * points;
        for (int64_t k = 0; k < block; k++)
            for (int64_t n = 0; n < points; n++)
                to[k * points + n] = from[n * block + k];
    }
}

static void layout_unblock(float *plain, const float *blocked, int64_t planes, int64_t block,
                           int64_t points)
{
    unblock_job j = {plain, blocked, block, points};

    cr_parallel_for(planes, 16384 / (block * points) + 1, layout_unblock_planes, &j);
}

const cr_layout_hook *cr_layout_hook_of(cr_device_kind kind)
{
    static const cr_layout_hook host = {
        .convolution = layout_convolution,
        .release = layout_release,
        .bytes = layout_bytes,
        .is_plain = layout_is_plain,
        .is_same = layout_is_same,
        .block = layout_block,
        .pack = layout_pack,
        .run = layout_run,
        .unblock = layout_unblock,
        .max_pool = cr_pool_max_blocked,
    };

    return kind == CR_CPU ? &host : NULL;
}
