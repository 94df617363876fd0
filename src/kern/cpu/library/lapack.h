/* lapack.h - the system's LAPACK, loaded at first use, and column-major copies of matrices.
 *
 * LAPACK takes column-major matrices with int sizes.  A job copies one matrix of a batch at a
 * time to column-major scratch memory, and back. */
#ifndef CR_KERN_LAPACK_H
#define CR_KERN_LAPACK_H

#include "kern/cpu/pack.h"
#include "num/view.h"
#include <limits.h>

typedef struct {
#define CR_LAPACK(field, s, d, c, z, args) void(*field[4]) args;
#define CR_LAPACK_REAL(field, s, d, args)  void(*field[2]) args;
#include "kern/cpu/library/lapack.def"
#undef CR_LAPACK
#undef CR_LAPACK_REAL
} cr_lapack_table;

enum { CR_LAPACK_SCRATCH = 16 };

/* One call of an operator over a batch of matrices. */
typedef struct {
    const cr_lapack_table *l;
    cr_dtype dtype;
    int type; /* 0 to 3: float32, float64, complex64, complex128 */
    int pair; /* index in CR_LAPACK_REAL fields: 0, or 1 for float64 and complex128 */
    bool complex;
    size_t item, real; /* bytes of an element, and of its real part */
    int batch_dims;
    const int64_t *batch_size;
    int64_t batch;
    cr_device device; /* that has the matrices and the scratch memory */
    cr_dense scratch[CR_LAPACK_SCRATCH];
    int scratch_count;
} cr_lapack_job;

/* Gives a device's functions, which take LAPACK's arguments and arrays in the device's memory.
 * Only the thread that called cr_lapack_find may call them.  `info`, sizes, scalar factors and
 * the answers to queries are on the host.  The functions do not use the workspace that they are
 * given.  Fails when a library of the device is missing. */
typedef cr_status (*cr_lapack_find)(const cr_lapack_table **out, int index, const char *name);
/* Returns and clears the first error of the device's functions in this thread since
 * cr_lapack_find; NULL if there was none.  Until the error is cleared, the functions only set
 * `info` to 0. */
typedef const char *(*cr_lapack_error)(void);
void cr_lapack_set_device(cr_device_kind kind, cr_lapack_find find, cr_lapack_error error);

/* Sizes as int, LAPACK's type for sizes.  A size above INT_MAX becomes INT_MAX, which can
 * happen to an empty tensor only (cr_lapack_counts). */
static inline int cr_lapack_int(int64_t n) { return n < INT_MAX ? (int)n : INT_MAX; }
static inline int cr_lapack_rows(const cr_view *v) { return cr_lapack_int(cr_view_rows(v)); }
static inline int cr_lapack_cols(const cr_view *v) { return cr_lapack_int(cr_view_cols(v)); }
/* Fails with CR_RUNTIME when v has elements and one of its last `last` sizes is above
 * INT_MAX. */
CR_MUST cr_status cr_lapack_counts(const char *name, const cr_view *v, int last);
/* A job over the batch dimensions of `like` (all but its last `last`), in the dtype of `like`.
 * Fails with CR_RUNTIME when there is no LAPACK, and as cr_lapack_counts. */
CR_MUST cr_status cr_lapack_begin(cr_lapack_job *j, const char *name, const cr_view *like,
                                  int last);
/* `count` elements of `item` bytes, freed by cr_lapack_end.  NULL and an error when out of
 * memory. */
void *cr_lapack_take(cr_lapack_job *j, int64_t count, size_t item);
/* Fails if `info`, LAPACK's report on matrix `element` of a batch, is not 0.  The message names
 * the operator `name`; `family` ("inv", "solve", ...) chooses torch's text of the error. */
CR_MUST cr_status cr_lapack_refuse(const char *name, const char *family, int info,
                                   int64_t element, bool batched);
/* Frees the scratch memory.  Returns `st`. */
cr_status cr_lapack_end(cr_lapack_job *j, cr_status st);

/* The address of element i of the batch in `v`, whose last `last` dimensions are not batch
 * dimensions.  Missing dimensions and dimensions of size one broadcast. */
char *cr_lapack_at(const cr_lapack_job *j, const cr_view *v, int last, int64_t i);
/* cr_lapack_load copies matrix i of `v` to columns with leading dimension `ld`; cr_lapack_store
 * copies it back.  Both succeed on the host.  On a device the copy may fail; cr_lapack_store
 * and cr_lapack_copy also report the error that an earlier function of the device left. */
cr_status cr_lapack_load(const cr_lapack_job *j, const cr_view *v, int64_t i, void *columns,
                         int64_t ld);
cr_status cr_lapack_store(const cr_lapack_job *j, const cr_view *v, int64_t i,
                          const void *columns, int64_t ld);
/* cr_lapack_copy copies `n` bytes of the job's device; cr_lapack_clear sets `n` bytes there to
 * zero. */
CR_MUST cr_status cr_lapack_copy(const cr_lapack_job *j, void *to, const void *from, size_t n);
CR_MUST cr_status cr_lapack_clear(const cr_lapack_job *j, void *p, size_t n);
/* The size that a workspace query returned in `work`. */
int cr_lapack_answer(const cr_lapack_job *j, const void *work);

#endif
