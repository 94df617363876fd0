/* operators.h - the schemas that programs may call: entries of the operator table, and the
 * builtins of builtins.def, which compute on numbers, strings, lists and dicts. */
#ifndef CR_SCRIPT_OPERATORS_H
#define CR_SCRIPT_OPERATORS_H

#include "script/unit.h"

typedef struct {
    size_t len, cap;
    const cr_sschema **at;
} cr_sschemas;

/* The schemas of "aten::add" in the order in which they are tried; none when the name is
 * unknown.  They are made at first use and stay until the process ends.  Any thread may call.
 */
CR_MUST cr_status cr_soperators(const cr_sschemas **out, const char *name);
/* Whether a function of library.def replaces an operator of this name, which the table lacks.
 */
bool cr_slibrary_has(const char *name);
/* The first version of archives in which the operator means what it means today; 0: all. */
int cr_slibrary_version(const char *name);

#endif
