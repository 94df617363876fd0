/* safetensors.h - tensors in files of the safetensors format.
 *
 * A file is checked as a whole before a tensor is made: the header's syntax, names, dtypes and
 * shapes, and that the tensors fill the data exactly, in order, without gaps or overlap.
 * Failures are CR_VALUE with a message that begins "Error while deserializing header: ".
 *
 * An opened file is mapped privately.  The tensors share the mapping and keep it alive.
 * Writing to a tensor does not change the file.  Other programs must not shorten the file
 * meanwhile. */
#ifndef CR_IO_SAFETENSORS_H
#define CR_IO_SAFETENSORS_H

#include "tensor/tensor.h"

typedef struct cr_safetensors cr_safetensors;

/* One tensor of a file.  Strings and sizes are borrowed from the file. */
typedef struct {
    const char *name;
    cr_dtype dtype;
    int ndim;
    const int64_t *size;
    uint64_t begin, end; /* bytes from the start of the data */
} cr_safetensors_entry;

/* Opens a file.  The caller owns *out.  Fails with CR_IO when the file cannot be read. */
CR_API CR_MUST cr_status cr_safetensors_open(cr_safetensors **out, const char *path);
/* Reads a file's contents from memory, which is copied. */
CR_API CR_MUST cr_status cr_safetensors_parse(cr_safetensors **out, const void *bytes,
                                              size_t len);
CR_API void cr_safetensors_drop(cr_safetensors *s);

/* The tensors, in the order of their data. */
CR_API int cr_safetensors_count(const cr_safetensors *s);
CR_API const cr_safetensors_entry *cr_safetensors_at(const cr_safetensors *s, int i);
/* The index of a tensor; -1 when the name is not in the file. */
CR_API int cr_safetensors_find(const cr_safetensors *s, const char *name);
/* Entry i of "__metadata__", in the file's order; false after the last entry. */
CR_API bool cr_safetensors_metadata(const cr_safetensors *s, int i, const char **key,
                                    const char **value);
/* Tensor i, owned by the caller.  It shares the file's memory when that is aligned; else it is
 * a copy. */
CR_API CR_MUST cr_status cr_safetensors_tensor(cr_tensor **out, const cr_safetensors *s, int i);

/* Writes the tensors (any strides, CPU) to a file that becomes visible when complete
 * (output.h).  Order and padding are those of the reference implementation.  `metadata` is
 * pairs of key and value, ended by NULL; or NULL. */
CR_API CR_MUST cr_status cr_safetensors_write(const char *path, const char *const *names,
                                              cr_tensor *const *tensors, int count,
                                              const char *const *metadata);

#endif
