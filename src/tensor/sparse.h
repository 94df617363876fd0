/* sparse.h - tensors of sparse layouts.
 *
 * A sparse tensor has sizes and a dtype, but its storage has no bytes: the storage owns the
 * parts, which are dense tensors without history.  Aliases of the tensor share the parts.
 *
 *   sparse_coo    indices [sparse dims, n], values [n, dense dims...]; an index may be there
 *                 more than once (its values are added) unless the tensor is coalesced
 *   sparse_csr    compressed [rows + 1], indices [n] (columns), values [n, dense dims...]
 *   sparse_csc    the same with rows and columns exchanged
 *   sparse_bsr    as sparse_csr for rows and columns of blocks: values [n, height, width,
 *                 dense dims...]
 *   sparse_bsc    the same with rows and columns of blocks exchanged
 *
 * The sizes of a compressed tensor may begin with those of a batch: a matrix for each place of
 * it, all with n values.  Each part begins with these sizes, too.
 *
 * Every call with such a tensor goes through the stage SPARSE, which no caller can skip.  Thus
 * code behind it, which reads the bytes of its arguments, sees dense tensors only. */
#ifndef CR_TENSOR_SPARSE_H
#define CR_TENSOR_SPARSE_H

#include "tensor/tensor.h"

typedef struct cr_sparse {
    cr_tensor *compressed; /* NULL for sparse_coo */
    cr_tensor *indices, *values;
    bool coalesced; /* sparse_coo: the indices are sorted and distinct */
} cr_sparse;

static inline bool cr_is_sparse(const cr_tensor *t) { return t->layout != CR_LAYOUT_STRIDED; }
static inline bool cr_is_coo(const cr_tensor *t) { return t->layout == CR_LAYOUT_COO; }
static inline bool cr_is_compressed(const cr_tensor *t)
{
    return t->layout == CR_LAYOUT_CSR || t->layout == CR_LAYOUT_CSC;
}
static inline bool cr_is_blocked(const cr_tensor *t)
{
    return t->layout == CR_LAYOUT_BSR || t->layout == CR_LAYOUT_BSC;
}
/* Whether the compressed part of a layout has the starts of rows, not of columns. */
static inline bool cr_by_rows(int layout)
{
    return layout == CR_LAYOUT_CSR || layout == CR_LAYOUT_BSR;
}
/* The parts of a sparse tensor, borrowed from it. */
static inline cr_sparse *cr_sparse_of(const cr_tensor *t) { return t->storage->owner; }
/* The number of dims of the batch; 0 of sparse_coo. */
static inline int cr_sparse_batch(const cr_tensor *t)
{
    return cr_is_coo(t) ? 0 : cr_sparse_of(t)->compressed->ndim - 1;
}
/* The number of stored values, of each matrix of a batch. */
static inline int64_t cr_sparse_count(const cr_tensor *t)
{
    return cr_sparse_of(t)->values->size[cr_sparse_batch(t)];
}
/* The dims that indices address; the others are dims of the values. */
static inline int cr_sparse_dims(const cr_tensor *t)
{
    return cr_is_coo(t) ? (int)cr_sparse_of(t)->indices->size[0] : 2;
}

/* Whether the batch and each value have the sizes of those of `t`. */
bool cr_values_fit(const cr_tensor *t, const cr_tensor *values);
/* A tensor of these parts, which fit the sizes; it keeps aliases of them without history.
 * CR_RUNTIME for a negative size or a part that has a sparse layout. */
CR_MUST cr_status cr_sparse_new(cr_tensor **out, cr_layout_kind layout, int ndim,
                                const int64_t *size, const cr_sparse *parts);
/* Gives `t` the parts and the sizes of `from`, which has its layout and dtype. */
CR_MUST cr_status cr_sparse_assign(cr_tensor *t, const cr_tensor *from);
/* CR_RUNTIME: only a matrix is taken, not a batch. */
CR_MUST cr_status cr_sparse_refuse_batch(void);
/* torch's words: the entry has no form for the layouts of the arguments. */
void cr_sparse_refusal(cr_text *out, const cr_op *op, const cr_value *arg);
/* "Strided", "Sparse", "SparseCsr": layouts in messages. */
const char *cr_layout_text(int layout);

#endif
