/* Device kinds and their text. */
#include "device/facts.h"
#include <ctype.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CR_DEVICE_NAME = 32 };

static const char *names[CR_DEVICE_COUNT] = {
#define CR_DEVICE_KIND(NAME, name) [CR_##NAME] = name,
#include "num/device.def"
#undef CR_DEVICE_KIND
};

/* --- facts --- */

const char cr_command_declines[] = "the device declines";
const char cr_index_outside[] = "an index is out of range";

const char *cr_index_error(const cr_indexed *c, int64_t index)
{
    const char *at = c->outside ? strchr(c->outside, CR_INDEX_MARK) : NULL;

    if (!c->outside)
        return cr_index_outside;
    (void)(at ? cr_fail((cr_status)c->outside_kind, "%.*s%lld%s", (int)(at - c->outside),
                        c->outside, (long long)index, at + 1)
              : cr_fail((cr_status)c->outside_kind, "%s", c->outside));
    return cr_error_message();
}

static const char *const host_types[] = {
#define CR_DTYPE(NAME, suffix, ctype, bytes, category, torch, legacy, alias)                   \
    [CR_##NAME] = "torch." legacy "Tensor",
#include "num/dtype.def"
#undef CR_DTYPE
};

static const cr_device_facts facts_outside = {.dialect = "c", .low_precision = CR_BF16};
static const cr_device_facts *const facts[CR_DEVICE_COUNT] = {
#define CR_DEVICE_FACTS(NAME, name) [CR_##NAME] = &cr_##name##_facts,
#include "device/facts.def"
#undef CR_DEVICE_FACTS
};
static struct {
    const cr_device_entry *entry;
    int count;
} entries[CR_DEVICE_COUNT];

const cr_device_facts *cr_device_facts_of(cr_device_kind kind)
{
    return facts[kind] ? facts[kind] : &facts_outside;
}

cr_device_kind cr_device_pinning(void)
{
    for (int i = 0; i < CR_DEVICE_COUNT; i++) {
        const cr_device_ops *ops =
            facts[i] && facts[i]->pinned_get ? cr_device_of((cr_device_kind)i) : NULL;
        if (ops && ops->count())
            return (cr_device_kind)i;
    }
    return CR_CPU;
}

const char *cr_device_type_name(cr_device_kind kind, cr_dtype t)
{
    const char *const *own = cr_device_facts_of(kind)->type_name;

    return (own ? own : host_types)[t];
}

void cr_device_set_entries(cr_device_kind kind, const cr_device_entry *entry, int count)
{
    entries[kind].entry = entry;
    entries[kind].count = count;
}

const char *cr_device_runs_on_views(int index, const cr_given *arg, const cr_array *result)
{
    (void)index, (void)arg, (void)result;
    return cr_command_declines;
}

const cr_device_entry *cr_device_entries(cr_device_kind kind, int *count)
{
    *count = entries[kind].count;
    return entries[kind].entry;
}

/* --- tables --- */

const cr_device_ops *_Atomic cr_device_tables[CR_DEVICE_COUNT];
static char own_name[CR_DEVICE_NAME]; /* the name given to privateuseone; empty before */

const cr_device_ops *cr_device_find(cr_device_kind kind)
{
    const cr_device_facts *f = cr_device_facts_of(kind);
    const cr_device_ops *ops = f->find ? f->find() : f->ops;

    if (ops)
        atomic_store_explicit(&cr_device_tables[kind], ops, memory_order_release);
    return ops;
}

cr_status cr_device_no_memory(cr_device d, size_t size)
{
    const cr_device_facts *f = cr_device_facts_of((cr_device_kind)d.kind);

    return f->no_memory ? f->no_memory(d.index, size)
                        : cr_fail(CR_MEMORY, "%s out of memory. Tried to allocate %zu bytes.",
                                  cr_device_print(d).text, size);
}

/* --- tables from outside --- */

cr_status cr_device_failed(const char *error)
{
    return error == cr_error_message() ? cr_error_kind() : cr_fail(CR_RUNTIME, "%s", error);
}

cr_status cr_device_copy_in(cr_device to, void *p, const void *host, size_t n)
{
    return n ? cr_device_status(cr_device_of(to.kind)->copy_in(to.index, p, host, n)) : CR_OK;
}

cr_status cr_device_copy_out(void *host, cr_device from, const void *p, size_t n)
{
    return n ? cr_device_status(cr_device_of(from.kind)->copy_out(from.index, host, p, n))
             : CR_OK;
}

static bool is_device_name(const char *name)
{
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_");

    return n > 0 && !name[n] && n < CR_DEVICE_NAME;
}

cr_status cr_device_rename(const char *name)
{
    if (*own_name && !strcmp(own_name, name))
        return CR_OK;
    if (*own_name)
        return cr_fail(
            CR_RUNTIME,
            "torch.register_privateuse1_backend() has already been set! Current backend: %s",
            own_name);
    for (int i = 0; i < CR_DEVICE_COUNT; i++)
        if (i != CR_PRIVATEUSE1 && !strcmp(names[i], name))
            return cr_fail(CR_RUNTIME,
                           "Cannot register privateuse1 backend with in-tree device name: %s",
                           name);
    if (!is_device_name(name))
        return cr_fail(CR_RUNTIME, "'%s' cannot be the name of a device", name);
    strcpy(own_name, name);
    names[CR_PRIVATEUSE1] = own_name;
    return CR_OK;
}

/* True when no function is NULL that the table must have.  All members after `bytes` are
 * pointers to functions. */
static bool is_complete(const cr_device_ops *ops)
{
    void (*const *fn)(void) = (void (*const *)(void))(
        const void *)((const char *)ops + offsetof(cr_device_ops, count));
    size_t n = (offsetof(cr_device_ops, indexed) - offsetof(cr_device_ops, count)) / sizeof *fn;

    while (n && fn[n - 1])
        n--;
    return n == 0;
}

cr_status cr_device_register(const char *name, const cr_device_ops *ops)
{
    if (cr_device_tables[CR_PRIVATEUSE1])
        return cr_fail(CR_RUNTIME, "the backend '%s' is loaded already", names[CR_PRIVATEUSE1]);
    if (!ops || ops->bytes != sizeof *ops || !is_complete(ops))
        return cr_fail(CR_RUNTIME, "the backend '%s' has not filled its table of operations",
                       name);
    CR_TRY(cr_device_rename(name));
    cr_device_tables[CR_PRIVATEUSE1] = ops;
    return CR_OK;
}

/* --- names --- */

const char *cr_device_kind_name(cr_device_kind kind) { return names[kind]; }

cr_device_text cr_device_print(cr_device d)
{
    cr_device_text out;

    if (cr_is_host(d) || cr_is_meta(d))
        snprintf(out.text, sizeof out.text, "%s", names[d.kind]);
    else
        snprintf(out.text, sizeof out.text, "%.32s:%d", names[d.kind], d.index);
    return out;
}

cr_device_kind cr_device_accelerator(void)
{
    /* a program's backend is the last kind */
    for (int i = CR_DEVICE_COUNT - 1; i > CR_CPU; i--) {
        const cr_device_ops *ops = cr_device_of((cr_device_kind)i);
        if (ops && ops->count && ops->count())
            return (cr_device_kind)i;
    }
    return CR_CPU;
}

static int find_kind(const char *text, size_t len)
{
    for (int i = 0; i < CR_DEVICE_COUNT; i++)
        if (strlen(names[i]) == len && !memcmp(names[i], text, len))
            return i;
    return len == strlen("privateuseone") && !memcmp("privateuseone", text, len)
               ? CR_PRIVATEUSE1
               : -1;
}

/* Decimal digits without a leading zero. */
static bool is_index(const char *s)
{
    size_t n = strspn(s, "0123456789");

    return n > 0 && !s[n] && (n == 1 || s[0] != '0');
}

cr_status cr_device_parse(const char *text, int *kind, int *index)
{
    const char *colon = strchr(text, ':');
    size_t len = colon ? (size_t)(colon - text) : strlen(text);

    if (!*text)
        return cr_fail(CR_RUNTIME, "Device string must not be empty");
    if (len == 0 ||
        len != strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_") ||
        (colon && !is_index(colon + 1)))
        return cr_fail(CR_RUNTIME, "Invalid device string: '%s'", text);
    if (find_kind(text, len) < 0)
        return cr_fail(CR_RUNTIME,
                       "Expected one of cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, "
                       "hip, ve, fpga, maia, xla, lazy, vulkan, mps, meta, hpu, mtia, "
                       "privateuseone device type at start of device string: %.*s",
                       (int)len, text);
    if (colon && strlen(colon + 1) > 3)
        return cr_fail(CR_RUNTIME, "Could not parse device index '%s' in device string '%s'",
                       colon + 1, text);
    *kind = find_kind(text, len);
    *index = colon ? atoi(colon + 1) : -1;
    return CR_OK;
}

/* --- available devices --- */

/* torch's errors for kinds whose module is not in its build. */
static cr_status refuse_module(cr_device_kind kind)
{
    if (cr_device_facts_of(kind)->missing)
        return cr_device_facts_of(kind)->missing();
    switch (kind) {
    case CR_XPU: return cr_fail(CR_ASSERTION, "Torch not compiled with XPU enabled");
    case CR_MTIA:
        return cr_fail(
            CR_ASSERTION,
            "Torch not compiled with MTIA enabled. Ensure you have `import "
            "mtia.host_runtime.torch_mtia.dynamic_library` in your python src file and "
            "include `//mtia/host_runtime/torch_mtia:torch_mtia` as your target dependency!");
    case CR_HPU:
    case CR_PRIVATEUSE1: return cr_fail(CR_MODULE, "No module named 'torch.%s'", names[kind]);
    default: return CR_OK;
    }
}

cr_device_text cr_device_backend(cr_device_kind kind)
{
    bool word = kind == CR_VULKAN || kind == CR_LAZY || kind == CR_META;
    cr_device_text out;

    snprintf(out.text, sizeof out.text, "%s", names[kind]);
    for (size_t i = 0; out.text[i]; i++)
        out.text[i] = (char)(word && i ? tolower(out.text[i]) : toupper(out.text[i]));
    return out;
}

static cr_status refuse_new(cr_device_kind kind)
{
    return cr_fail(
        CR_NOT_IMPLEMENTED,
        "Could not run 'aten::empty.memory_format' with arguments from the '%s' backend. "
        "This could be because the operator doesn't exist for this backend, or was omitted "
        "during the selective/custom build process (if using custom build).",
        cr_device_backend(kind).text);
}

/* The host and meta are one device for any index. */
static cr_status name_device(cr_device *out, cr_device_kind kind, int index)
{
    const cr_device_ops *ops = cr_device_of(kind);

    *out = (cr_device){.kind = (uint8_t)kind};
    if (!ops->count)
        return CR_OK;
    if (index >= ops->count() && cr_device_facts_of(kind)->no_index)
        return cr_device_facts_of(kind)->no_index();
    if (index >= ops->count())
        return cr_fail(CR_RUNTIME, "%s error: invalid device ordinal", names[kind]);
    out->index = (uint8_t)(index < 0 ? ops->current() : index);
    return CR_OK;
}

/* A device that has a table.  The one that collects commands is there while this thread
 * collects. */
static bool may_be_named(cr_device_kind kind)
{
    const cr_device_ops *ops = cr_device_of(kind);

    return ops && (kind != CR_LAZY || ops->count() > 0);
}

cr_status cr_device_named(cr_device *out, int64_t packed)
{
    cr_device_kind kind = cr_packed_kind(packed);

    if (may_be_named(kind))
        return name_device(out, kind, cr_packed_index(packed));
    CR_TRY(refuse_module(kind));
    return refuse_new(kind);
}

cr_status cr_device_to_copy_to(cr_device *out, int64_t packed)
{
    cr_device_kind kind = cr_packed_kind(packed);

    if (may_be_named(kind))
        return name_device(out, kind, cr_packed_index(packed));
    CR_TRY(refuse_module(kind));
    return cr_fail(CR_RUNTIME, "PyTorch is not linked with support for %s devices",
                   names[kind]);
}
