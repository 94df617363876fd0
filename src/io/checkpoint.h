/* checkpoint.h - files that torch.save writes: a pickle and the storages that it names.
 *
 * Two layouts are read: archives (zip.h; torch 1.6 and later), and the older layout, which is
 * pickles followed by the storages.  Opening a checkpoint checks the pickle, and that the
 * source contains each storage with the size that the pickle states.  It creates no object.
 * Messages are torch's. */
#ifndef CR_IO_CHECKPOINT_H
#define CR_IO_CHECKPOINT_H

#include "io/pickle.h"
#include "io/source.h"
#include "io/zip.h"
#include "tensor/tensor.h"

typedef struct cr_checkpoint cr_checkpoint;

typedef struct {
    cr_pickle_rules rules;
    /* Archives: a storage uses the source's memory, without a copy, where the source is memory
     * and the storage is aligned. */
    bool share;
    /* Archives without a byte order record: their byte order is not this machine's. */
    bool swapped;
} cr_checkpoint_options;

/* The caller owns *out, which holds a reference on `source`.  Fails with CR_UNPICKLING when the
 * pickle is not allowed or malformed. */
CR_MUST cr_status cr_checkpoint_open(cr_checkpoint **out, cr_source *source,
                                     const cr_checkpoint_options *options);
/* The pickle NAME.pkl of an open archive, whose storages are the records NAME/KEY.  `zip` and
 * `name` are borrowed until the checkpoint is dropped.  The caller has checked the version. */
CR_MUST cr_status cr_checkpoint_open_record(cr_checkpoint **out, cr_zip *zip, const char *name,
                                            const cr_checkpoint_options *options);
/* The number in an archive's record `version`, 1 to 10; else a failure in torch's words. */
CR_MUST cr_status cr_archive_version(int *out, const cr_zip *zip);
void cr_checkpoint_drop(cr_checkpoint *c);
/* Calls `ask` for each name in an archive's pickle that is not allowed by default.  Reads no
 * storage.  Fails with CR_VALUE when the source is not an archive. */
CR_MUST cr_status cr_checkpoint_list(cr_source *source,
                                     cr_status (*ask)(void *who, const char *module,
                                                      const char *name, bool *allowed),
                                     void *who);

/* The pickle, borrowed from `c`.  Its storage numbers are those of cr_checkpoint_storage. */
const cr_pickle *cr_checkpoint_pickle(const cr_checkpoint *c);
/* The position after the checkpoint in the source.  For an archive, the source's size. */
uint64_t cr_checkpoint_end(const cr_checkpoint *c);
/* Reads storage i into a new storage, which the caller owns.  A part of another storage uses
 * the memory of `root`, which the caller has read before. */
CR_MUST cr_status cr_checkpoint_storage(cr_storage **out, const cr_checkpoint *c, size_t i,
                                        cr_storage *root);

/* Makes a tensor over `storage` and holds a reference on it.  Fails with torch's errors when
 * the tensor is not inside the storage. */
CR_MUST cr_status cr_checkpoint_tensor(cr_tensor **out, cr_storage *storage, cr_dtype dtype,
                                       int64_t offset, int ndim, const int64_t *size,
                                       const int64_t *stride);

/* For C programs: the tensors of a checkpoint file by name.  A name is the path through the
 * dicts ("model.a" for {"model": {"a": tensor}}).  Other objects are ignored.  The caller owns
 * *out. */
typedef struct cr_named_tensors cr_named_tensors;
CR_API CR_MUST cr_status cr_checkpoint_load(cr_named_tensors **out, const char *path);
CR_MUST cr_status cr_checkpoint_named(cr_named_tensors **out, const cr_checkpoint *c);
CR_API void cr_named_tensors_drop(cr_named_tensors *n);
CR_API int cr_named_tensors_count(const cr_named_tensors *n);
CR_API const char *cr_named_tensors_name(const cr_named_tensors *n, int i);
/* The tensor i, borrowed from `n`. */
CR_API cr_tensor *cr_named_tensors_at(const cr_named_tensors *n, int i);

#endif
