/* plain.h - copies and conversions without stages: no autograd, no capture.  Results are
 * counted. */
#ifndef CR_TENSOR_PLAIN_H
#define CR_TENSOR_PLAIN_H

#include "tensor/tensor.h"

/* An uninitialised tensor with the sizes of `like`, laid out by a memory format; preserve keeps
 * the order of like's dims. */
CR_MUST cr_status cr_new_like(cr_tensor **out, const cr_tensor *like, cr_dtype dtype,
                              cr_device device, int64_t format);
/* CR_NOT_IMPLEMENTED when the elements of a meta tensor would be read. */
CR_MUST cr_status cr_check_copy(const cr_tensor *to, const cr_tensor *from);
/* The elements of `t` in another dtype and layout. */
CR_MUST cr_status cr_copy_as(cr_tensor **out, const cr_tensor *t, cr_dtype dtype,
                             cr_device device, int64_t format);
/* A row-major copy. */
CR_MUST cr_status cr_copy_plain(cr_tensor **out, const cr_tensor *t);
/* The same, or `t` itself when it is row-major. */
CR_MUST cr_status cr_contiguous_plain(cr_tensor **out, cr_tensor *t);
/* `t` converted to `dtype`; `t` itself when it has that dtype. */
CR_MUST cr_status cr_cast_plain(cr_tensor **out, cr_tensor *t, cr_dtype dtype);
/* A tensor for a value that may be a number: a 0-d tensor then. */
CR_MUST cr_status cr_as_tensor(cr_tensor **out, const cr_value *v);

#endif
