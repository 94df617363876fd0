/* Kernels of other devices than the host.
 *
 * They are kept by (device, entry, dtype, form).  At the first call the device builds the
 * kernel from the entry's C text. */
#include "base/log.h"
#include "base/map.h"
#include "emit/dialect.h"
#include "jit/cache.h"
#include "jit/entry.h"
#include "loop/build.h"
#include "tensor/internal.h"
#include "tensor/plain.h"
#include "tensor/remote.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    uint16_t op;
    uint8_t kind, index, dtype, form;
    uint8_t stored[CR_MAX_OPERANDS];
} kernel_key;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cr_map
    kernels; /* kernel_key, or the key of a fused kernel -> the kernel that the device built */

static void *known_code(const void *key, size_t len)
{
    pthread_mutex_lock(&lock);
    void *code = cr_map_get(&kernels, key, len);
    pthread_mutex_unlock(&lock);
    return code;
}

static cr_status remember_code(const void *key, size_t len, void *code)
{
    pthread_mutex_lock(&lock);
    cr_status st = cr_map_set(&kernels, key, len, code);
    pthread_mutex_unlock(&lock);
    return st;
}

/* The dialect of the texts that the device builds. */
static const cr_dialect *dialect_of(cr_device device)
{
    return cr_dialect_named(cr_kind_facts(device)->dialect);
}

bool cr_kernel_accepts(cr_device device, cr_dtype memory, cr_dtype value)
{
    return memory == value || (value == CR_F32 && (memory == CR_F16 || memory == CR_BF16) &&
                               cr_kind_facts(device)->reads_halves);
}

cr_status cr_cast_for_kernel(cr_tensor **out, cr_tensor *t, cr_dtype want)
{
    if (t->dtype == want || cr_is_lazy(t) ||
        !cr_kernel_accepts(t->device, (cr_dtype)t->dtype, want))
        return cr_cast_plain(out, t, want);
    *out = cr_keep(t);
    return CR_OK;
}

void cr_stored_note(cr_stored *s, int operand, cr_dtype memory, cr_dtype value)
{
    s->dtype[operand] = memory != value ? (uint8_t)memory : 0;
    s->any = s->any || memory != value;
}

bool cr_has_scans(cr_device device) { return dialect_of(device)->some_columns != NULL; }

/* Drops the source. */
static cr_status build_code(void **code, cr_device device, cr_kernel_source *source)
{
    cr_status st = cr_device_status(cr_table_of(device)->build(device.index, source, code));
    cr_kernel_source_drop(source);
    return st;
}

static cr_status find_code(void **code, cr_device device, const cr_op *op, cr_dtype dtype,
                           cr_form form, const cr_stored *stored)
{
    cr_kernel_source *source;
    kernel_key key;

    memset(&key, 0, sizeof key);
    key.op = op->index;
    key.kind = device.kind;
    key.index = device.index;
    key.dtype = (uint8_t)dtype;
    key.form = (uint8_t)form;
    if (stored)
        memcpy(key.stored, stored->dtype, sizeof key.stored);
    *code = known_code(&key, sizeof key);
    if (*code)
        return CR_OK;
    CR_TRY(cr_entry_source(&source, dialect_of(device), op, dtype, form,
                           stored && stored->any ? stored->dtype : NULL));
    CR_TRY(build_code(code, device, source));
    return remember_code(&key, sizeof key, *code);
}

/* With halves, a kernel that reduces rows keeps values in registers (source_emit in
 * entry.c). */
static cr_status fused_source(cr_kernel_source **out, const cr_dialect *d, const cr_fused *f,
                              const uint8_t *stored)
{
    const cr_loop *l = cr_fused_nest(f)->loop;
    bool rows = stored && cr_nest_fits_registers(cr_fused_nest(f));
    cr_emit_choice choice = {.steps = rows, .stored = stored};
    cr_unit unit = {.launch.params = 0};

    if (d == &cr_dialect_c)
        return cr_unit_source(out, d, cr_fused_unit(f), l, NULL);
    cr_status st = cr_fused_print(&unit, f, rows ? &cr_dialect_cuda_rows : d, &choice);
    if (!st)
        st = cr_unit_source(out, d, &unit, l, stored);
    cr_unit_drop(&unit);
    return st;
}

/* The key of a fused kernel; returns its length. */
static size_t fused_key(char key[static CR_CACHE_KEY + 32 + CR_EMIT_OPERANDS], cr_device device,
                        const cr_fused *f, const cr_stored *stored)
{
    int n = snprintf(key, CR_CACHE_KEY + 32, "%d:%d:%s:", device.kind, device.index,
                     cr_jit_key(cr_fused_kernel(f)));

    if (!stored->any)
        return (size_t)n;
    memcpy(key + n, stored->dtype, sizeof stored->dtype);
    return (size_t)n + sizeof stored->dtype;
}

/* In the place of the code of a kernel that a device could not build. */
static char refused_kernel;

cr_status cr_place_fused(cr_placed_kernel *out, cr_device device, const cr_fused *f,
                         const cr_stored *stored)
{
    cr_kernel_source *source;
    char key[CR_CACHE_KEY + 32 + CR_EMIT_OPERANDS];
    size_t n = fused_key(key, device, f, stored);

    *out = (cr_placed_kernel){.device = device, .code = known_code(key, n)};
    if (out->code == &refused_kernel)
        return cr_fail(CR_RUNTIME, "the device has refused this kernel before");
    if (out->code)
        return CR_OK;
    cr_status st =
        fused_source(&source, dialect_of(device), f, stored->any ? stored->dtype : NULL);
    if (!st)
        st = build_code(&out->code, device, source);
    if (!st)
        return remember_code(key, n, out->code);
    cr_log_line("fusion", 1, "%s has no kernel on %s: %s", cr_fused_nest(f)->loop->name,
                cr_device_kind_name((cr_device_kind)device.kind), cr_error_message());
    if (st == CR_RUNTIME && remember_code(key, n, &refused_kernel))
        return CR_MEMORY;
    return st;
}

cr_status cr_place_kernel(cr_placed_kernel *out, cr_device device, const cr_op *op,
                          cr_dtype dtype, cr_form form)
{
    return cr_place_stored(out, device, op, dtype, form, NULL);
}

cr_status cr_place_stored(cr_placed_kernel *out, cr_device device, const cr_op *op,
                          cr_dtype dtype, cr_form form, const cr_stored *stored)
{
    *out = (cr_placed_kernel){.device = device};
    /* The host has no kernel for both results of a fold that keeps its index. */
    bool both = form >= CR_FORM_JOIN && cr_op_keeps_index(op);
    CR_TRY(cr_find_kernel(&out->fn, op, dtype, both ? CR_FORM_MAIN : form));
    if (cr_is_host(device) || !cr_has_bytes(device)) {
        out->cut.columns = form == CR_FORM_COLUMNS || form == CR_FORM_JOIN_COLUMNS;
        if (out->cut.columns && op->does == CR_DOES_FOLD && !cr_op_keeps_index(op))
            out->cut.block = CR_FOLD_COLUMN;
        return CR_OK;
    }
    out->fn = NULL;
    return find_code(&out->code, device, op, cr_dtype_compute(dtype), form, stored);
}

cr_status cr_launch_kernel(const cr_placed_kernel *k, const cr_launch *how)
{
    cr_launch l = *how;

    l.code = k->code;
    return cr_device_status(cr_table_of(k->device)->launch(k->device.index, &l));
}

cr_status cr_launch_list(const cr_placed_kernel *k, cr_launch *l, int n)
{
    const cr_device_ops *ops = cr_table_of(k->device);
    const char *error = NULL;

    for (int i = 0; i < n; i++)
        l[i].code = k->code;
    if (ops->launch_list)
        error = n ? ops->launch_list(k->device.index, l, n) : NULL;
    else
        for (int i = 0; i < n && !error; i++)
            error = ops->launch(k->device.index, &l[i]);
    return cr_device_status(error);
}

cr_status cr_launch_space(const cr_placed_kernel *k, const cr_launch *how, const cr_space *s,
                          int outer)
{
    int64_t size[CR_MAX_DIMS], stride[CR_SPACE_OPERANDS * CR_MAX_DIMS];
    cr_launch l = *how;

    if (k->fn)
        return cr_host_launch(k->fn, &k->cut, how, s, outer);
    for (int d = 0; d < outer; d++) {
        size[d] = s->dim[d].size;
        for (int i = 0; i < s->operands; i++)
            stride[i * outer + d] = s->dim[d].step[i];
    }
    l.operands = s->operands;
    l.outer = outer;
    l.outer_size = size;
    l.outer_stride = stride;
    return cr_launch_kernel(k, &l);
}
