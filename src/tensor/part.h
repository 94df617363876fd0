/* part.h - parts of a result without the result.
 *
 * If the result of an entry consists of elements of its arguments (clause `loop`, or word
 * `join`), any range of the result can be read, and the whole result is never stored. */
#ifndef CR_TENSOR_PART_H
#define CR_TENSOR_PART_H

#include "tensor/tensor.h"

enum { CR_PART_TENSORS = 16 };

typedef struct cr_part cr_part;

/* True if the entry has parts for some arguments. */
bool cr_op_has_parts(const cr_op *op);
/* The parts of a call.  Tensors of `arg` are views without bytes; the row-major result has the
 * given dtype and sizes.  Fails with CR_VALUE if the call has no parts, or too many tensors or
 * pieces. */
CR_MUST cr_status cr_part_new(cr_part **out, const cr_op *op, const cr_value *arg,
                              const cr_view *result);
void cr_part_drop(cr_part *p);
/* Copies elements [at, at + n) of the result, counted in row-major order, to `to`.  data[k] is
 * the first element of the k-th tensor among the arguments.  False if an index is outside. */
bool cr_part_read(const cr_part *p, char *const *data, int64_t at, int64_t n, char *to);
/* The address of element `at`, if the next n elements are its neighbours in one tensor; else
 * NULL. */
const char *cr_part_place(const cr_part *p, char *const *data, int64_t at, int64_t n);
/* The error of the call if an index is outside. */
CR_MUST cr_status cr_part_check(const cr_part *p, char *const *data);

#endif
