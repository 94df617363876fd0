/* freeze.h - modules whose attributes are constants of their program. */
#ifndef CR_SCRIPT_FREEZE_H
#define CR_SCRIPT_FREEZE_H

#include "script/value.h"

/* Makes a module of a class of its own with the methods `forward` and those of `kept`, in which
 * calls are in place, attributes that no method changes are constants, and branches that are
 * not taken are gone.  Attributes that are still read, changed or named in `kept` remain, as
 * they are in `module`; those of a module that trains, and with `parameters`, also the
 * parameters and buffers that are read.  Fails for a name that the module lacks.  One thread
 * may add to the module's unit. */
CR_MUST cr_status cr_sobject_freeze(cr_ivalue *out, const cr_ivalue *module,
                                    const char *const *kept, int count, bool parameters);

/* Changes the methods of a module that is frozen and has not run: dropouts that do nothing go,
 * and batch norms, sums and products behind layers become part of their weights, which changes
 * rounding.
 * One thread may change the module's unit. */
CR_MUST cr_status cr_sobject_optimize(const cr_ivalue *frozen);

#endif
