/* The device without bytes: a block of any size is NULL. */
#include "device/meta/meta.h"

static void *get(size_t size, uint32_t *size_class)
{
    (void)size;
    *size_class = 0;
    return NULL;
}

static void release(void *p, uint32_t size_class)
{
    (void)p;
    (void)size_class;
}

const cr_device_ops cr_meta_ops = {.name = "meta", .get = get, .release = release};
