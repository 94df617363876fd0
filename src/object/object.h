/* object.h - compiled models in archives (include/cresset_aot.h).
 *
 * An archive has, beside torch's records,
 *
 *     data/aotinductor/model/model.so        the shared object, which exports
 *                                            const cr_object_model cresset_aot_model
 *     data/aotinductor/model/model.weights   its weights, mapped from the file
 *     data/aotinductor/model/model.spec      text for the Python package
 *     data/aotinductor/model/model.seal      sizes and sums of the others, and the instruction
 *                                            set of the object
 *
 * The seal is compared before the object is loaded: it finds damage, but is no signature, so a
 * file must come from someone whose programs one would run. */
#ifndef CR_OBJECT_OBJECT_H
#define CR_OBJECT_OBJECT_H

#include "base/error.h"
#include "cresset_aot.h"
#include "object/abi.h"
#include "object/seal.h"

/* --- for the Python package --- */

/* The record model.spec, borrowed. */
const char *cr_aot_spec(const cr_aot *m, size_t *n);
/* The weights, borrowed; and others of the same size and layout, which are copied. */
const void *cr_aot_weights(const cr_aot *m, size_t *n);
CR_MUST cr_status cr_aot_set_weights(cr_aot *m, const void *bytes, size_t n);

#endif
