/* safetensors_impl.h - for the reader and the writer. */
#ifndef CR_IO_SAFETENSORS_IMPL_H
#define CR_IO_SAFETENSORS_IMPL_H

#include "num/dtype.h"

/* The format's name of a dtype, as in "F32"; NULL when the format has none. */
const char *cr_safetensors_dtype(cr_dtype t);

#endif
