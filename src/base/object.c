/* Shared objects: opened by dlopen unless the program is linked statically. */
#include "base/object.h"
#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>

/* The program itself is the first object; it names its dynamic linker if it has one. */
static int object_find_linker(struct dl_phdr_info *info, size_t size, void *found)
{
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++)
        *(bool *)found |= info->dlpi_phdr[i].p_type == PT_INTERP;
    return 1;
}

static bool object_program_is_static(void)
{
    bool found = false;

    dl_iterate_phdr(object_find_linker, &found);
    return !found;
}

void *cr_object_open(const char *path, int flags)
{
    return object_program_is_static() ? NULL : dlopen(path, flags);
}

const char *cr_object_error(void)
{
    const char *why = object_program_is_static() ? NULL : dlerror();

    return why ? why : "a statically linked program opens no shared objects";
}
