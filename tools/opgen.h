/* opgen.h - shared by the files of opgen. */
#ifndef CR_OPGEN_H
#define CR_OPGEN_H

#include "ops/ops.h"

/* Appends a string of C. */
void opgen_quote(cr_text *out, const char *s, size_t n);
/* Reserves memory for the records, before the table is read; writes ops_image.c, the records
 * after cr_ops_resolve.  CR_VALUE for a record with an address that the image cannot have. */
CR_MUST cr_status opgen_image_start(void);
CR_MUST cr_status opgen_image(const char *folder);
/* Writes `text` to FOLDER/NAME. */
CR_MUST cr_status opgen_save(const char *folder, const char *name, const cr_text *text);

/* Writes rules.c: conditions of checks and rules of sizes as C. */
CR_MUST cr_status opgen_rules(const char *folder);
/* Writes cresset_ops.h and ops_api.c: every operator as a C function.  Call after
 * cr_ops_resolve. */
CR_MUST cr_status opgen_api(const char *folder);
/* Writes cresset_easy_ops.h: every operator as a macro of the easy layer. */
CR_MUST cr_status opgen_easy(const char *folder);
/* True when C programs have a function for the entry: it is public and C can make its argument
 * types. */
bool opgen_has_c_function(const cr_op *op);

#endif
