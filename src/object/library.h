/* library.h - libraries that models call (abi.h). */
#ifndef CR_OBJECT_LIBRARY_H
#define CR_OBJECT_LIBRARY_H

#include "base/error.h"
#include "object/abi.h"

/* Fills in the functions for the file `path`.  Fails with CR_RUNTIME if the host lacks a
 * library. */
CR_MUST cr_status cr_object_library(cr_object_libraries *out, const char *path);

#endif
