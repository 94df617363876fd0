/* Loading system libraries. */
#include "kern/cpu/library/library.h"
#include "base/log.h"
#include <dlfcn.h>
#include <string.h>
#include <sys/mman.h>

static bool fill(void *handle, const cr_symbol *symbols, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        void *found = dlsym(handle, symbols[i].name);

        if (!found)
            return false;
        memcpy(symbols[i].slot, &found, sizeof found);
    }
    return true;
}

bool cr_library_has_room(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (p != MAP_FAILED)
        munmap(p, bytes);
    return p != MAP_FAILED;
}

bool cr_library_load(const char *const *names, const cr_symbol *symbols, size_t n)
{
    for (; *names; names++) {
        void *handle = dlopen(*names, RTLD_NOW | RTLD_LOCAL);

        if (!handle)
            continue;
        if (fill(handle, symbols, n)) {
            cr_log_line("kern", 1, "loaded %s", *names);
            return true;
        }
        dlclose(handle);
    }
    return false;
}
