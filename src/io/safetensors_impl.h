/* safetensors_impl.h - shared by the reader and the writer. */
#ifndef CR_IO_SAFETENSORS_IMPL_H
#define CR_IO_SAFETENSORS_IMPL_H

#include "num/dtype.h"

/* "F32"; NULL when the format has no name for it. */
const char *cr_safetensors_dtype(cr_dtype t);

#endif
