/* library.h - system libraries loaded at first use.
 *
 * Importing Cresset must not load forty megabytes of BLAS, so the functions are
 * found by name when an operator first wants them. */
#ifndef CR_KERN_LIBRARY_H
#define CR_KERN_LIBRARY_H

#include "base/error.h"

/* One function to find: `slot` is where its pointer goes. */
typedef struct {
    const char *name;
    void *slot;
} cr_symbol;

/* Opens the first of `names` (NULL-terminated) that there is and fills every slot.
 * False when no library has them all; slots are then undefined.  The library stays
 * loaded for the life of the process. */
bool cr_library_load(const char *const *names, const cr_symbol *symbols, size_t n);

/* Whether this process could map so many bytes now (ulimit -v).  Libraries that retry or crash
 * when they cannot are not called without. */
bool cr_library_has_room(size_t bytes);

#endif
