/* sparse_impl.h - helpers of the entries on sparse tensors.
 *
 * These entries compute on the parts by calls of other entries, so they run on every device. */
#ifndef CR_WHOLE_SPARSE_IMPL_H
#define CR_WHOLE_SPARSE_IMPL_H

#include "tensor/sparse.h"
#include "whole/steps.h"

/* A COO tensor of the parts with these sizes. */
cr_tensor *cr_step_coo(cr_steps *s, int ndim, const int64_t *size, cr_tensor *indices,
                       cr_tensor *values, bool coalesced);
/* The same with the sizes of `like`. */
cr_tensor *cr_step_coo_like(cr_steps *s, const cr_tensor *like, cr_tensor *indices,
                            cr_tensor *values, bool coalesced);
/* A COO tensor without items, whose first `sparse` dims are addressed by indices. */
cr_tensor *cr_step_empty_coo(cr_steps *s, cr_dtype dtype, cr_device device, int ndim,
                             const int64_t *size, int sparse);
/* The numbers of the items that a condition, [n], holds for. */
cr_tensor *cr_step_places(cr_steps *s, cr_tensor *holds);
/* Each number i as often as `counts`, [n], says; they are zeros if `items` is 0. */
cr_tensor *cr_step_repeat(cr_steps *s, cr_tensor *counts, int64_t items);
/* The sorted distinct positions of `flat`; *place: for each position its place among them. */
cr_tensor *cr_step_distinct(cr_steps *s, cr_tensor *flat, cr_tensor **place);
/* The number of row starts of a compressed tensor: rows + 1.  Fails where an int64 cannot hold
 * it. */
int64_t cr_step_starts(cr_steps *s, int64_t rows);
/* Row r of the indices. */
cr_tensor *cr_step_row(cr_steps *s, cr_tensor *indices, int64_t r);
/* The positions, row-major, that the indices of the first `dims` dims address. */
cr_tensor *cr_step_flat(cr_steps *s, cr_tensor *indices, int dims, const int64_t *size);
/* The indices of such positions. */
cr_tensor *cr_step_unflat(cr_steps *s, cr_tensor *flat, int dims, const int64_t *size);
/* Whether such positions increase, by reading them. */
bool cr_step_increases(cr_steps *s, cr_tensor *flat);
/* The coalesced form of a COO tensor. */
cr_tensor *cr_step_coalesced(cr_steps *s, cr_tensor *t);
/* The COO form of a sparse tensor, coalesced if it was compressed. */
cr_tensor *cr_step_as_coo(cr_steps *s, cr_tensor *t);
/* The COO form with the values in the order in which they are stored; of blocks, each element
 * is a value. */
cr_tensor *cr_step_indexed(cr_steps *s, cr_tensor *t);
/* The places of the positions `flat` in a coalesced tensor, and whether it has them. */
cr_tensor *cr_step_find(cr_steps *s, cr_tensor *coo, cr_tensor *flat, cr_tensor **found);
/* Zeros with `rows` added to those that `index` names. */
cr_tensor *cr_step_add_rows(cr_steps *s, cr_tensor *values, cr_tensor *index, int64_t rows);
/* The elements of a dense tensor at the indices of a COO tensor: [n, dense dims...]. */
cr_tensor *cr_step_at(cr_steps *s, cr_tensor *dense, const cr_tensor *coo);
/* The integers 0 ... n - 1 on the device of `like`. */
cr_tensor *cr_step_arange(cr_steps *s, int64_t n, const cr_tensor *like);
/* A list of tensors concatenated. */
cr_tensor *cr_step_cat(cr_steps *s, const cr_value *list, uint32_t n, int64_t dim);

/* `made` in the layout of `like`, which is compressed, with blocks of its sizes. */
cr_tensor *cr_step_as_layout(cr_steps *s, cr_tensor *made, const cr_tensor *like);

/* The product of n sizes.  Steps fail when it does not fit int64. */
int64_t cr_step_product(cr_steps *s, int n, const int64_t *size);
/* Whether two sparse tensors of one layout have the same tensor of indices. */
bool cr_same_indices(const cr_tensor *a, const cr_tensor *b);
/* Ends the steps; the result of the entry is a tensor of these parts. */
CR_MUST cr_status cr_steps_give_sparse(cr_steps *s, cr_value *result, int layout, int ndim,
                                       const int64_t *size, const cr_sparse *parts);
/* CR_RUNTIME unless `t` has a sparse layout; `name` is that of the entry. */
CR_MUST cr_status cr_expect_sparse(const char *name, const cr_tensor *t);
/* CR_RUNTIME in torch's words unless `t` is a COO tensor. */
CR_MUST cr_status cr_expect_coo(const char *name, const cr_tensor *t);
/* CR_RUNTIME in torch's words unless each value has these sizes. */
CR_MUST cr_status cr_expect_value_sizes(const cr_tensor *values, int dims, const int64_t *size);

#endif
