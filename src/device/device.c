/* Device kinds and their text. */
#include "device/device.h"
#include "device/cpu/cpu.h"
#include "device/meta/meta.h"
#include <stdlib.h>
#include <string.h>

static const char *const names[CR_DEVICE_COUNT] = {
    [CR_CPU] = "cpu", [CR_META] = "meta", [CR_CUDA] = "cuda"};

const cr_device_ops *cr_device_of(cr_device_kind kind)
{
    switch (kind) {
    case CR_CPU: return &cr_cpu_ops;
    case CR_META: return &cr_meta_ops;
    default: return NULL;
    }
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
