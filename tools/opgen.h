/* opgen.h - shared by the files of opgen. */
#ifndef CR_OPGEN_H
#define CR_OPGEN_H

#include "ops/ops.h"

/* Writes `text` to FOLDER/NAME. */
CR_MUST cr_status opgen_save(const char *folder, const char *name, const cr_text *text);

/* Writes cresset_ops.h and ops_api.c: every operator as a C function.  Call after
 * cr_ops_resolve. */
CR_MUST cr_status opgen_api(const char *folder);
/* Writes cresset_easy_ops.h: every operator as a macro of the easy layer. */
CR_MUST cr_status opgen_easy(const char *folder);
/* True when C programs have a function for the entry: it is public and C can make its argument
 * types. */
bool opgen_has_c_function(const cr_op *op);

#endif
