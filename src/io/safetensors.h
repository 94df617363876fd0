/* safetensors.h - tensors in files of the safetensors format.
 *
 * A file is checked as a whole before anything is made from it: its header's
 * syntax, names, dtypes, shapes, and that the tensors fill the data exactly, in
 * order, without holes or overlap.  Every refusal is CR_VALUE with a message
 * that begins "Error while deserializing header: ".
 *
 * An opened file is mapped privately: its tensors share the mapping, which lives
 * as long as any of them, and may be changed without changing the file.  The
 * file must not be shortened by others meanwhile. */
#ifndef CR_IO_SAFETENSORS_H
#define CR_IO_SAFETENSORS_H

#include "tensor/tensor.h"

typedef struct cr_safetensors cr_safetensors;

/* One tensor of a file; the strings and sizes are borrowed from it. */
typedef struct {
    const char *name;
    cr_dtype dtype;
    int ndim;
    const int64_t *size;
    uint64_t begin, end; /* bytes from the start of the data */
} cr_safetensors_entry;

/* The caller owns *out.  CR_IO when the file cannot be read. */
CR_API CR_MUST cr_status cr_safetensors_open(cr_safetensors **out, const char *path);
/* From memory, which is copied. */
CR_API CR_MUST cr_status cr_safetensors_parse(cr_safetensors **out, const void *bytes,
                                              size_t len);
CR_API void cr_safetensors_drop(cr_safetensors *s);

/* In the order of their data. */
CR_API int cr_safetensors_count(const cr_safetensors *s);
CR_API const cr_safetensors_entry *cr_safetensors_at(const cr_safetensors *s, int i);
/* -1 when there is none. */
CR_API int cr_safetensors_find(const cr_safetensors *s, const char *name);
/* The strings of "__metadata__", in the file's order; false past the last. */
CR_API bool cr_safetensors_metadata(const cr_safetensors *s, int i, const char **key,
                                    const char **value);
/* The tensor (owned): over the file's memory when it is aligned, else copied. */
CR_API CR_MUST cr_status cr_safetensors_tensor(cr_tensor **out, const cr_safetensors *s, int i);

/* Writes the tensors (any strides, CPU) beside `path` and renames, so that readers see the
 * old file or the new.  Order and padding are those of the reference implementation.
 * `metadata` is pairs of key and value, NULL at the end; or NULL. */
CR_API CR_MUST cr_status cr_safetensors_write(const char *path, const char *const *names,
                                              cr_tensor *const *tensors, int count,
                                              const char *const *metadata);

#endif
