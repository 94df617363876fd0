/* operators.h - the schemas that programs may call: entries of the operator table, and the
 * builtins of builtins.def, which compute on numbers, strings, lists and dicts. */
#ifndef CR_SCRIPT_OPERATORS_H
#define CR_SCRIPT_OPERATORS_H

#include "script/unit.h"
#include <string.h>

/* The class of a range of a profile, which has one slot, the Capsule of the range: all units
 * share it. */
#define CR_SRANGE_CLASS "__torch__.torch.classes.profiler._RecordFunction"

typedef CR_VEC(const cr_sschema *) cr_sschemas;

/* The schemas of "aten::add" in the order in which they are tried; none when the name is
 * unknown.  They are made at first use and stay until the process ends.  Any thread may
 * call. */
CR_MUST cr_status cr_soperators(const cr_sschemas **out, const char *name);
/* Whether a function of library.def replaces an operator of this name, which the table
 * lacks. */
bool cr_slibrary_has(const char *name);
/* The first version of archives in which the operator means what it means today; 0: all. */
int cr_slibrary_version(const char *name);

/* The class of this name that all units have; NULL: there is none, or memory is short. */
cr_sclass *cr_soperators_class(const char *name);
/* Whether a call begins or ends a range of a profile: it runs whether or not its result is
 * read, as often as it is written. */
static inline bool cr_sschema_is_range(const cr_sschema *s)
{
    return !s->op && !strncmp(s->name, "profiler::", 10);
}

#endif
