/* Loops on the host, or on the device that has their arrays. */
#include "kern/loops.h"
#include "device/device.h"

static const cr_loops_device *devices[CR_DEVICE_COUNT];

void cr_loops_set_device(cr_device_kind kind, const cr_loops_device *d) { devices[kind] = d; }

static cr_status loops_device(const cr_loops_device **out, cr_device d)
{
    *out = devices[d.kind];
    return *out ? CR_OK
                : cr_fail(CR_NOT_IMPLEMENTED, "%s runs no loops of the host",
                          cr_device_kind_name((cr_device_kind)d.kind));
}

cr_status cr_loops_run(cr_device d, const cr_loops *l, cr_dtype t, int64_t n, int64_t grain,
                       void *job)
{
    const cr_loops_device *there;

    if (t != CR_F32 && t != CR_F64) /* other elements have another size */
        return cr_fail(CR_NOT_IMPLEMENTED, "loops \"%s\" not implemented for '%s'", l->name,
                       cr_dtype_name(t));
    if (!n)
        return CR_OK;
    if (cr_is_host(d)) {
        cr_parallel_for(n, grain, t == CR_F32 ? l->f32 : l->f64, job);
        return CR_OK;
    }
    CR_TRY(loops_device(&there, d));
    return cr_device_status(there->run(d.index, l, t, n, job));
}

cr_status cr_loops_error_begin(cr_loops_error *out, cr_device d, cr_status kind,
                               const char *text)
{
    const cr_loops_device *there;

    *out = (cr_loops_error){NULL, 0};
    if (cr_is_host(d))
        return CR_OK;
    CR_TRY(loops_device(&there, d));
    return cr_device_status(there->error_begin(out, d.index, kind, text));
}

cr_status cr_loops_sort(cr_device d, uint64_t **keys, uint64_t **room, int64_t n, int low,
                        int bits)
{
    const cr_loops_device *there;

    CR_TRY(loops_device(&there, d));
    return cr_device_status(there->sort(d.index, keys, room, n, low, bits));
}
