/* checkpoint.h - files that torch.save writes: a pickle and the storages it names.
 *
 * Two layouts are read: archives (zip.h; since torch 1.6) and the one before, pickles followed
 * by the storages.  Opening checks everything - the pickle, that each storage is in the file
 * with the size the pickle says - and makes nothing.  Messages are torch's. */
#ifndef CR_IO_CHECKPOINT_H
#define CR_IO_CHECKPOINT_H

#include "io/pickle.h"
#include "io/source.h"
#include "tensor/tensor.h"

typedef struct cr_checkpoint cr_checkpoint;

typedef struct {
    cr_pickle_rules rules;
    /* Archives: storages share the source's memory where it is memory and lies aligned. */
    bool share;
    /* Archives without a byte order: they hold the other one than this machine's. */
    bool swapped;
} cr_checkpoint_options;

/* Counts `source`; the caller owns *out.  CR_UNPICKLING when the pickle is refused. */
CR_MUST cr_status cr_checkpoint_open(cr_checkpoint **out, cr_source *source,
                                     const cr_checkpoint_options *options);
void cr_checkpoint_drop(cr_checkpoint *c);
/* The names that the pickle of an archive asks for beyond the default ones go to `ask`; nothing
 * else is read.  CR_VALUE when it is not an archive. */
CR_MUST cr_status cr_checkpoint_list(cr_source *source,
                                     cr_status (*ask)(void *who, const char *module,
                                                      const char *name, bool *allowed),
                                     void *who);

/* Borrowed.  Its storages are numbered as cr_checkpoint_storage takes them. */
const cr_pickle *cr_checkpoint_pickle(const cr_checkpoint *c);
/* Bytes of the source up to the end of the checkpoint; of an archive, all. */
uint64_t cr_checkpoint_end(const cr_checkpoint *c);
/* Reads storage i: owned, each call another one (a part shares its root, *root, which the
 * caller gives). */
CR_MUST cr_status cr_checkpoint_storage(cr_storage **out, const cr_checkpoint *c, size_t i,
                                        cr_storage *root);

/* A tensor over `storage`, which is counted; torch's errors when it is not inside. */
CR_MUST cr_status cr_checkpoint_tensor(cr_tensor **out, cr_storage *storage, cr_dtype dtype,
                                       int64_t offset, int ndim, const int64_t *size,
                                       const int64_t *stride);

/* For C programs: the tensors of a checkpoint whose names are paths through its dicts
 * ("model.a" for {"model": {"a": tensor}}).  What else is in it is passed over.  A file of
 * `path`; the caller owns *out. */
typedef struct cr_named_tensors cr_named_tensors;
CR_API CR_MUST cr_status cr_checkpoint_load(cr_named_tensors **out, const char *path);
CR_MUST cr_status cr_checkpoint_named(cr_named_tensors **out, const cr_checkpoint *c);
CR_API void cr_named_tensors_drop(cr_named_tensors *n);
CR_API int cr_named_tensors_count(const cr_named_tensors *n);
CR_API const char *cr_named_tensors_name(const cr_named_tensors *n, int i);
/* Borrowed from `n`. */
CR_API cr_tensor *cr_named_tensors_at(const cr_named_tensors *n, int i);

#endif
