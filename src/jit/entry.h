/* entry.h - the text of one kernel, of an entry or a group, for devices other than the host. */
#ifndef CR_JIT_ENTRY_H
#define CR_JIT_ENTRY_H

#include "cresset_backend.h"
#include "jit/jit.h"
#include "ops/ops.h"

/* The kernel of an entry in a dialect.  Fails with CR_TYPE or CR_VALUE when the entry has no
 * kernel of this type and form.  `stored` is that of cr_emit_choice.  The caller owns *out. */
CR_MUST cr_status cr_entry_source(cr_kernel_source **out, const cr_dialect *d, const cr_op *op,
                                  cr_dtype dtype, cr_form form, const uint8_t *stored);
/* The kernel of a program's text.  CR_VALUE when it is no program, or no nest. */
CR_MUST cr_status cr_group_source(cr_kernel_source **out, const char *program);
/* The only kernel of a unit, which was printed in the dialect from `l`, with operands `stored`.
 * The unit is copied. */
CR_MUST cr_status cr_unit_source(cr_kernel_source **out, const cr_dialect *d, const cr_unit *u,
                                 const cr_loop *l, const uint8_t *stored);
/* The kernel of a program that cr_kernel_program() printed, in CUDA C++: by cr_dialect_cuda,
 * or, with a number of steps, by cr_dialect_cuda_rows.  Bit k of `flexible`: operand k may be a
 * number, or have one value a row. */
CR_MUST cr_status cr_cuda_source(cr_kernel_source **out, const char *program,
                                 const cr_emit_choice *choice, uint32_t flexible);
/* How a kernel in CUDA C++ is launched. */
const cr_emit_launch *cr_kernel_launch(const cr_kernel_source *s);
/* The dtypes of its operands in memory, as in cr_emit_choice, for CR_EMIT_OPERANDS operands;
 * NULL: those of its values. */
const uint8_t *cr_kernel_stored(const cr_kernel_source *s);

#endif
