/* The functions of cresset_backend.h, which backends outside the library call. */
#include "base/object.h"
#include "device/ordered.h"
#include "jit/entry.h"
#include "num/convert.h"
#include "plan/plan.h"
#include "tensor/remote.h"
#include <dlfcn.h>
#include <string.h>

const int cr_backend_kind = CR_PRIVATEUSE1;

static const char *text_of(cr_status st) { return st ? cr_error_message() : NULL; }

const char *cr_backend_register(int abi, const char *name, const cr_device_ops *table)
{
    static cr_device_ops complete;

    if (abi != CR_BACKEND_ABI)
        return text_of(cr_fail(CR_RUNTIME,
                               "the backend '%s' was built for version %d of the interface of "
                               "backends, and this library has version %d",
                               name, abi, (int)CR_BACKEND_ABI));
    if (cr_device_of(CR_PRIVATEUSE1) || !table || table->bytes != sizeof complete)
        return text_of(cr_device_register(name, table)); /* refuses it */
    complete = *table;
    cr_device_complete(&complete);
    cr_plan_complete(&complete);
    return text_of(cr_device_register(name, &complete));
}

const cr_device_ops *cr_backend_table(void) { return cr_device_of(CR_PRIVATEUSE1); }

void cr_backend_fallback(bool on) { cr_remote_allow_fallback(on); }

const char *cr_kernel_register(const char *entry, int kind, cr_entry_kernel kernel)
{
    if (kind < 0 || kind >= CR_DEVICE_COUNT || cr_is_host((cr_device){.kind = (uint8_t)kind}))
        return text_of(
            cr_fail(CR_RUNTIME, "%d is not a kind of device that takes kernels", kind));
    return text_of(cr_remote_register(entry, (cr_device_kind)kind, kernel));
}

const char *cr_emit_entry(const cr_kernel_source **out, const char *entry, int dtype, int form)
{
    const cr_op *op = cr_ops_find(entry);
    cr_kernel_source *made;

    if (!op)
        return text_of(cr_fail(CR_RUNTIME, "no operator is called '%s'", entry));
    if (dtype < 0 || dtype >= CR_DTYPE_KERNELS || form < 0 || form >= CR_FORM_COUNT)
        return text_of(cr_fail(CR_RUNTIME, "there is no dtype %d or no form %d", dtype, form));
    cr_status st =
        cr_entry_source(&made, &cr_dialect_c, op, (cr_dtype)dtype, (cr_form)form, NULL);
    if (!st)
        *out = made;
    return text_of(st);
}

const char *cr_emit_group(const cr_kernel_source **out, const char *program)
{
    cr_kernel_source *made;
    cr_status st = cr_group_source(&made, program);

    if (!st)
        *out = made;
    return text_of(st);
}

void cr_convert_elements(int to_dtype, void *to, int64_t to_step, int from_dtype,
                         const void *from, int64_t from_step, int64_t n)
{
    cr_convert_row((cr_dtype)to_dtype, (cr_dtype)from_dtype)(to, to_step, from, from_step, n);
}

/* --- loading --- */

/* Makes the functions above visible to backends: Python loaded the object with this library
 * without exporting its symbols. */
static void offer_symbols(void)
{
    Dl_info info;

    if (dladdr((void *)(uintptr_t)cr_backend_register, &info) && info.dli_fname)
        dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
}

const char *cr_backend_load(const char *path)
{
    const char *(*start)(void);

    offer_symbols();
    void *object = cr_object_open(path, RTLD_NOW | RTLD_LOCAL);
    if (!object)
        return text_of(cr_fail(CR_RUNTIME, "%s", cr_object_error()));
    void *symbol = dlsym(object, "cresset_backend");
    if (!symbol)
        return text_of(cr_fail(CR_RUNTIME, "%s has no function cresset_backend", path));
    memcpy(&start, &symbol, sizeof start);
    return start();
}
