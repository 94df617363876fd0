/* globals.h - the names that pickles may use: what they stand for. */
#ifndef CR_IO_GLOBALS_H
#define CR_IO_GLOBALS_H

#include "num/dtype.h"

typedef enum {
    CR_USE_NONE, /* not a name that is allowed by default */
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
    CR_GLOBAL_OTHER, /* of the user, or one without a row in globals.def */
#define CR_GLOBAL(NAME, module, name, use) CR_GLOBAL_##NAME,
#include "io/globals.def"
#undef CR_GLOBAL
} cr_global_id;

typedef struct {
    cr_global_use use;
    cr_global_id id;
    cr_dtype dtype; /* of a dtype, storage or class */
    bool untyped;   /* a storage of bytes */
} cr_global;

/* `module` and `name` as they stand in a pickle, after cr_global_rename. */
cr_global cr_global_find(const char *module, const char *name);
/* Python 2's names become Python 3's, and "cresset" becomes "torch"; both are static, the
 * given, or inside the given string.  `buffer` holds a name that had to be made. */
void cr_global_rename(const char **module, const char **name, char *buffer, size_t buffer_len);
/* The default list, in turn: false past the last.  For messages and lists of names. */
bool cr_global_at(int i, const char **module, const char **name);

#endif
