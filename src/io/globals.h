/* globals.h - the global names that pickles may use. */
#ifndef CR_IO_GLOBALS_H
#define CR_IO_GLOBALS_H

#include "num/dtype.h"

typedef enum {
    CR_USE_NONE, /* not allowed by default */
    CR_USE_CALL,
    CR_USE_NAMED,
    CR_USE_FULL,
    CR_USE_TYPE,
    CR_USE_ABSENT,
    CR_USE_DTYPE,   /* torch.float32 */
    CR_USE_STORAGE, /* torch.FloatStorage */
    CR_USE_CLASS,   /* torch.FloatTensor */
} cr_global_use;

typedef enum {
    CR_GLOBAL_OTHER, /* a user's name, or a name without a row in globals.def */
#define CR_GLOBAL(NAME, module, name, use) CR_GLOBAL_##NAME,
#include "io/globals.def"
#undef CR_GLOBAL
} cr_global_id;

typedef struct {
    cr_global_use use;
    cr_global_id id;
    cr_dtype dtype; /* for a dtype, storage or class */
    bool untyped;   /* the storage has no dtype */
} cr_global;

/* Looks up a name of a pickle, after cr_global_rename. */
cr_global cr_global_find(const char *module, const char *name);
/* Replaces names of Python 2 by those of Python 3, and "cresset" by "torch".  The results are
 * static strings, the given strings, or parts of them.  `buffer` receives a name that must be
 * built. */
void cr_global_rename(const char **module, const char **name, char *buffer, size_t buffer_len);
/* Row i of the default list; false after the last row.  For messages and lists of names. */
bool cr_global_at(int i, const char **module, const char **name);

#endif
