/* code.h - graphs as source text, in torch's form: letter for letter what torch prints. */
#ifndef CR_SCRIPT_CODE_H
#define CR_SCRIPT_CODE_H

#include "script/unit.h"

/* The tensors that texts call CONSTANTS.c0 and so on, borrowed. */
typedef CR_VEC(cr_tensor *) cr_scode_tensors;

/* What an archive's text needs besides the functions themselves. */
typedef struct {
    cr_scode_tensors *tensors; /* collects tensors; NULL: numbered in each function */
    bool self_type;            /* self has its type, as in archives */
    const cr_map *names;       /* of classes and functions, by address; NULL: their own */
} cr_scode;

/* Appends the text of a compiled function, "def NAME(...". `how` may be NULL. */
CR_MUST cr_status cr_scode_function(cr_text *out, const cr_sfunction *f, const cr_scode *how);

/* Whether no variable has this name. */
bool cr_scode_is_reserved(const char *name);

/* Appends a constant as source text.  `how` has `tensors`. */
void cr_scode_constant(cr_text *out, const cr_sconstant *c, const cr_scode *how);

#endif
