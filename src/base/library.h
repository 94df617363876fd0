/* library.h - loads system libraries at first use.
 *
 * Importing Cresset must not load forty megabytes of BLAS, so the functions are looked up when
 * an operator needs them for the first time. */
#ifndef CR_BASE_LIBRARY_H
#define CR_BASE_LIBRARY_H

#include "base/error.h"

/* One function to look up; the pointer is written to *slot. */
typedef struct {
    const char *name;
    void *slot;
} cr_symbol;

/* Opens the first of `names` (NULL-terminated) that exists and has all symbols, and sets every
 * slot.  False when no library has all symbols; the slots are then undefined.  The library
 * stays loaded until the process ends. */
bool cr_library_load(const char *const *names, const cr_symbol *symbols, size_t n);

/* True when this process could map `bytes` bytes now (ulimit -v).  Libraries that retry or
 * crash without address space are not called when it is false. */
bool cr_library_has_room(size_t bytes);

#endif
