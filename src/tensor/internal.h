/* internal.h - shared between the files of tensor/ only. */
#ifndef CR_TENSOR_INTERNAL_H
#define CR_TENSOR_INTERNAL_H

#include "tensor/defer.h"
#include "tensor/kernel.h"
#include "tensor/plain.h"

/* --- storages (storage.c) --- */
/* Drops a storage that a tensor leaves, now or after all calls in progress (cr_calls_apart). */
void cr_storage_leave(cr_storage *s);
/* Gives an alias the bytes and the size that the storage behind it has now. */
void cr_storage_follow(cr_storage *s);

/* --- tensors (tensor.c) --- */
/* A tensor like the header `t`, at the start of a new storage of so many bytes, which has no
 * block, as that of a fake. */
CR_MUST cr_status cr_tensor_without_bytes(cr_tensor **out, const cr_tensor *t, size_t bytes);

/* --- deferred calls (defer.c) --- */
CR_MUST cr_status cr_defer_stage(const cr_op *op, const cr_value *arg, cr_value *result);

/* --- evaluation of rules (rule.c) --- */
/* Memory that lives as long as the frame; NULL when there is none. */
void *cr_frame_get(cr_frame *f, size_t size);
/* The frame takes the reference to `t`, also on failure. */
CR_MUST cr_status cr_frame_own(cr_frame *f, cr_tensor *t);
/* `len` of a value that is a part of a sparse tensor, borrowed from it. */
enum { CR_BORROWED_PART = 0x70617274 };
/* A built-in function of sparse tensors (sparse_rule.c). */
CR_MUST cr_status cr_rule_sparse(cr_frame *f, const cr_rule *r, const cr_value *v,
                                 cr_value *out);

/* --- types (type.c) --- */
/* The dtype of a value that is a tensor, a number or a dtype. */
cr_dtype cr_value_dtype(const cr_value *v);
/* Compute type of a call, and the type of result k.  Errors are the entry's checks and
 * "not implemented for". */
CR_MUST cr_status cr_compute_type(cr_dtype *out, const cr_op *op, const cr_value *arg,
                                  cr_frame *f);
CR_MUST cr_status cr_result_type(cr_dtype *out, const cr_op *op, int k, cr_dtype compute,
                                 cr_frame *f);
/* Raises the first check that holds. */
CR_MUST cr_status cr_run_checks(const cr_op *op, cr_frame *f);
/* The error of a check whose condition holds. */
CR_MUST cr_status cr_raise_check(const cr_check *c, cr_frame *f);
/* Decide op->typing.kind and op->typing.steady once. */
void cr_classify_type(cr_op *op);
void cr_classify_steady(cr_op *op);

/* The dims of a reduction as bits; None and the empty list mean all. */
CR_MUST cr_status cr_dim_mask(uint64_t *out, const cr_value *dim, int ndim);
/* Sizes without the dims of the mask, or (`keep`) with 1 for them; their number. */
int cr_reduced_sizes(int64_t *out, int ndim, const int64_t *size, uint64_t mask, bool keep);

enum { CR_MAX_OPERANDS = 16 };

/* --- results --- */
/* A result tensor for an elementwise call of `op` (NULL: a copy of v[0]): strides follow the
 * operands', as torch's do. */
CR_MUST cr_status cr_result_like(cr_tensor **out, cr_dtype dtype, cr_device device,
                                 const cr_shape *shape, const cr_op *op, const cr_value *v);
/* Strides of a result of `op` (NULL: a copy of v[0]) by its clause `format` and the operands;
 * false: it is row-major. */
bool cr_body_strides(int64_t *stride, const cr_shape *shape, const cr_op *op,
                     const cr_value *v);
/* Strides of a result of indexing; false: it is row-major. */
bool cr_picked_strides(int64_t *stride, const cr_view *self, const cr_value *indices);
/* Strides without gaps in the order of the tensor's; false: these are row-major, or it has
 * other sizes. */
bool cr_strides_like(int64_t *stride, const cr_shape *shape, const cr_tensor *t);
/* The device of the tensors in a call.  CR_RUNTIME when they differ. */
CR_MUST cr_status cr_common_device(cr_device *out, const cr_op *op, const cr_value *arg);
/* CR_RUNTIME in torch's words: a call has tensors on both devices. */
CR_MUST cr_status cr_refuse_devices(cr_device a, cr_device b);

/* --- kernels by kind of entry; each is a cr_call_fn --- */
cr_status cr_run_body(const cr_op *op, const cr_value *arg, cr_value *result);
/* The same on any device, without the fast path for small tensors on the host. */
cr_status cr_run_body_planned(const cr_op *op, const cr_value *arg, cr_value *result);
cr_status cr_run_fold(const cr_op *op, const cr_value *arg, cr_value *result);
cr_status cr_run_fused(const cr_op *op, const cr_value *arg, cr_value *result);
/* An entry stated as loops: arguments and results as of a cr_extern_fn (stated.c).  *declined
 * if the device does not take its commands; never on the host. */
CR_MUST cr_status cr_run_stated(const cr_op *op, const cr_value *arg, cr_view *out,
                                bool *declined);
/* An entry with a list of index tensors, on another device; *declined for masks. */
CR_MUST cr_status cr_run_index_list(const cr_op *op, const cr_value *arg, cr_view *out,
                                    bool *declined);
/* A reduction that keeps the index of its value, on any device: arguments and results as of a
 * cr_extern_fn; results are row-major (fold_index.c). */
CR_MUST cr_status cr_run_scan(const cr_op *op, const cr_value *arg, cr_view *out);
CR_MUST cr_status cr_run_fold_index(const cr_op *op, const cr_value *arg, cr_view *out);
/* An entry's kernel, or its loops when it has none. */
CR_MUST cr_status cr_run_on_views(const cr_op *op, const cr_value *arg, cr_view *out);
cr_status cr_run_extern(const cr_op *op, const cr_value *arg, cr_value *result);
void cr_extern_start(void);
/* The same for each of `size` examples: `whole` has the batches in the places of the examples
 * among `arg`, and each result is a batch.  No argument is written, and sizes of results do not
 * depend on elements. */
CR_MUST cr_status cr_run_extern_batch(const cr_op *op, const cr_value *arg,
                                      const cr_value *whole, int64_t size, cr_value *result);
/* True where that function can make the call. */
bool cr_extern_takes_batch(const cr_op *op, const cr_value *whole);
/* The same with `out` as the only result.  It has the size and dtype that the rules give. */
cr_status cr_run_extern_into(const cr_op *op, const cr_value *arg, cr_tensor *out);
cr_status cr_run_inplace(const cr_op *op, const cr_value *arg, cr_value *result);

/* True when writing `a` may change elements of `b` that are read later: they share memory and
 * are not exactly the same elements. */
bool cr_meets(const cr_tensor *a, const cr_tensor *b);
/* The memory of the first argument after the in-place form, by clause `expanded`. */
CR_MUST cr_status cr_run_expanded(const cr_op *op, const cr_value *arg, cr_value *result);
/* The new self of an entry that writes it, by clause `functional`. */
CR_MUST cr_status cr_run_functional(const cr_op *op, const cr_value *arg, cr_value *result);
/* Refuses a target whose elements share memory. */
CR_MUST cr_status cr_check_target(const cr_tensor *out);

/* The stage of calls with tensors that have the bit conj or neg (lazy.c). */
cr_status cr_conj_stage(const cr_op *op, const cr_value *arg, cr_value *result);

/* The stage of calls with tensors of sparse layouts (sparse.c). */
cr_status cr_sparse_stage(const cr_op *op, const cr_value *arg, cr_value *result);

/* Points every record at its kernel stage; once, at start-up. */
void cr_install_calls(void);

#endif
