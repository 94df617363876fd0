/* opgen.h - what the files of opgen share. */
#ifndef CR_OPGEN_H
#define CR_OPGEN_H

#include "ops/ops.h"

/* Writes `text` as FOLDER/NAME. */
CR_MUST cr_status opgen_save(const char *folder, const char *name, const cr_text *text);

/* Writes cresset_ops.h and ops_api.c: every operator as a C function.  After cr_ops_resolve. */
CR_MUST cr_status opgen_api(const char *folder);
/* Writes cresset_easy_ops.h: every operator as a macro of the easy layer. */
CR_MUST cr_status opgen_easy(const char *folder);
/* Whether C programs have the entry: one for users, whose argument types they can make. */
bool opgen_has_c_function(const cr_op *op);

#endif
