/* device.h - devices as values: a kind and an index.
 *
 * Views, tensors and graphs store these values.  The operations of a device are in
 * device/device.h. */
#ifndef CR_NUM_DEVICE_H
#define CR_NUM_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

typedef enum {
#define CR_DEVICE_KIND(NAME, name) CR_##NAME,
#include "num/device.def"
#undef CR_DEVICE_KIND
    CR_DEVICE_COUNT
} cr_device_kind;

/* A fake tensor has the device of the tensor it replaces, with `fake` set, and no bytes: graphs
 * are replayed on fakes to find types.  All fields are zero for the host. */
typedef struct {
    uint8_t kind;  /* cr_device_kind */
    uint8_t index; /* among devices of the kind; 0 for cpu and meta */
    bool fake;
    uint8_t unused; /* 0; with it the record is passed and copied as one 32-bit word */
} cr_device;

/* The device of memory that this process can access, such as sizes, files and Python's
 * buffers. */
#define CR_HOST        ((cr_device){0})
#define CR_META_DEVICE ((cr_device){.kind = CR_META})

static inline bool cr_is_host(cr_device d) { return d.kind == CR_CPU; }
static inline bool cr_is_meta(cr_device d) { return d.kind == CR_META; }
/* Compares kind and index; `fake` may differ. */
static inline bool cr_same_device(cr_device a, cr_device b)
{
    return a.kind == b.kind && a.index == b.index;
}
/* True when tensors on the device have bytes. */
static inline bool cr_has_bytes(cr_device d) { return !d.fake && d.kind != CR_META; }
/* True when tensors on the device have bytes that the host can access. */
static inline bool cr_is_host_memory(cr_device d) { return !d.fake && d.kind == CR_CPU; }
static inline cr_device cr_as_fake(cr_device d)
{
    d.fake = true;
    return d;
}

/* Values of tag CR_DEVICE_VAL: kind | index << 8; the index is CR_NO_INDEX when none was
 * given. */
enum { CR_NO_INDEX = 0xff };
static inline int cr_device_pack(int kind, int index)
{
    return kind | (index < 0 ? CR_NO_INDEX : index) << 8;
}
static inline cr_device_kind cr_packed_kind(int64_t v) { return (cr_device_kind)(v & 0xff); }
/* The index, or -1 when none was given. */
static inline int cr_packed_index(int64_t v)
{
    int index = (int)(v >> 8 & 0xff);

    return index == CR_NO_INDEX ? -1 : index;
}
static inline int cr_packed_device(cr_device d) { return cr_device_pack(d.kind, d.index); }

#endif
