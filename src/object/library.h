/* library.h - libraries that models call (abi.h). */
#ifndef CR_OBJECT_LIBRARY_H
#define CR_OBJECT_LIBRARY_H

#include "base/error.h"
#include "object/abi.h"

/* Fills in the functions for the file `path`.  Fails with CR_RUNTIME if the host lacks a
 * library. */
CR_MUST cr_status cr_object_library(cr_object_libraries *out, const char *path);

/* How many calls of libraries have failed in the process.  Models then compute the product by
 * loops, which have other bits, so a call during which the number grew is an error. */
uint64_t cr_object_failures(void);

#endif
