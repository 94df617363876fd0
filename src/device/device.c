/* Device kinds and their text. */
#include "device/device.h"
#include "device/cpu/cpu.h"
#include "device/meta/meta.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *names[CR_DEVICE_COUNT] = {
#define CR_DEVICE_KIND(NAME, name) [CR_##NAME] = name,
#include "num/device.def"
#undef CR_DEVICE_KIND
};

const cr_device_ops *cr_device_of(cr_device_kind kind)
{
    switch (kind) {
    case CR_CPU: return &cr_cpu_ops;
    case CR_META: return &cr_meta_ops;
    default: return NULL;
    }
}

/* --- names --- */

const char *cr_device_kind_name(cr_device_kind kind)
{
    return names[kind];
}

cr_device_text cr_device_print(cr_device d)
{
    cr_device_text out;

    if (cr_is_host(d) || cr_is_meta(d))
        snprintf(out.text, sizeof out.text, "%s", names[d.kind]);
    else
        snprintf(out.text, sizeof out.text, "%.32s:%d", names[d.kind], d.index);
    return out;
}

static int find_kind(const char *text, size_t len)
{
    for (int i = 0; i < CR_DEVICE_COUNT; i++)
        if (strlen(names[i]) == len && !memcmp(names[i], text, len))
            return i;
    return -1;
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

/* --- devices that there are --- */

/* torch is built with modules for these kinds, which say that they were left out. */
static cr_status refuse_module(cr_device_kind kind)
{
    switch (kind) {
    case CR_CUDA: return cr_fail(CR_ASSERTION, "Torch not compiled with CUDA enabled");
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

/* The name of torch's backend for a kind: MPS, Vulkan. */
static void print_backend(char *out, size_t room, cr_device_kind kind)
{
    bool word = kind == CR_VULKAN || kind == CR_LAZY;

    snprintf(out, room, "%s", names[kind]);
    for (size_t i = 0; out[i]; i++)
        out[i] = (char)(word && i ? tolower(out[i]) : toupper(out[i]));
}

static cr_status refuse_new(cr_device_kind kind)
{
    char backend[40];

    print_backend(backend, sizeof backend, kind);
    return cr_fail(
        CR_NOT_IMPLEMENTED,
        "Could not run 'aten::empty.memory_format' with arguments from the '%s' backend. "
        "This could be because the operator doesn't exist for this backend, or was omitted "
        "during the selective/custom build process (if using custom build).",
        backend);
}

/* The number counts from 0; only the host and meta have one device whatever is asked for. */
static cr_status name_device(cr_device *out, cr_device_kind kind, int index)
{
    (void)index;
    *out = (cr_device){.kind = (uint8_t)kind};
    return CR_OK;
}

cr_status cr_device_named(cr_device *out, int64_t packed)
{
    cr_device_kind kind = cr_packed_kind(packed);

    if (cr_device_of(kind))
        return name_device(out, kind, cr_packed_index(packed));
    CR_TRY(refuse_module(kind));
    return refuse_new(kind);
}

cr_status cr_device_to_copy_to(cr_device *out, int64_t packed)
{
    cr_device_kind kind = cr_packed_kind(packed);

    if (cr_device_of(kind))
        return name_device(out, kind, cr_packed_index(packed));
    CR_TRY(refuse_module(kind));
    return cr_fail(CR_RUNTIME, "PyTorch is not linked with support for %s devices",
                   names[kind]);
}
