/* LAPACK: loading, scratch memory, copies of matrices to and from column-major order. */
#include "kern/cpu/library/lapack.h"
#include "base/library.h"
#include "device/device.h"
#include "kern/cpu/library/blas.h"
#include "kern/cpu/pack.h"
#include "kern/cpu/walk.h"
#include <pthread.h>
#include <string.h>

static cr_lapack_table table;
static bool found;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const char *const names[] = {"libopenblas.so.0", "liblapack.so.3", NULL};
static const cr_symbol symbols[] = {
#define CR_LAPACK(field, s, d, c, z, args)                                                     \
    {#s, &table.field[0]}, {#d, &table.field[1]}, {#c, &table.field[2]}, {#z, &table.field[3]},
#define CR_LAPACK_REAL(field, s, d, args) {#s, &table.field[0]}, {#d, &table.field[1]},
#include "kern/cpu/library/lapack.def"
#undef CR_LAPACK
#undef CR_LAPACK_REAL
};

static void lapack_load(void)
{
    found = cr_blas() && /* sets the number of threads */
            cr_library_load(names, symbols, CR_LEN(symbols));
}

/* NULL when the system has no LAPACK. */
static const cr_lapack_table *lapack_functions(void)
{
    pthread_once(&once, lapack_load);
    return found && cr_blas() ? &table : NULL;
}

static cr_lapack_find finds[CR_DEVICE_COUNT];
static cr_lapack_error errors[CR_DEVICE_COUNT];

void cr_lapack_set_device(cr_device_kind kind, cr_lapack_find find, cr_lapack_error error)
{
    finds[kind] = find;
    errors[kind] = error;
}

cr_status cr_lapack_counts(const char *name, const cr_view *v, int last)
{
    for (int d = v->ndim - last; d < v->ndim; d++)
        if (v->size[d] > INT_MAX && cr_view_numel(v))
            return cr_fail(CR_RUNTIME,
                           "%s: LAPACK takes matrices of at most %d rows and columns, but got "
                           "%lld",
                           name, INT_MAX, (long long)v->size[d]);
    return CR_OK;
}

/* The functions of the device that has the matrices. */
static cr_status lapack_of(cr_lapack_job *j, const char *name)
{
    if (!cr_is_host(j->device))
        return finds[j->device.kind]
                   ? finds[j->device.kind](&j->l, j->device.index, name)
                   : cr_fail(CR_NOT_IMPLEMENTED, "%s is not implemented for the device", name);
    j->l = lapack_functions();
    if (!j->l && !cr_library_has_room((size_t)1 << 29))
        return cr_fail(CR_MEMORY,
                       "not enough memory: %s needs the address space that LAPACK maps", name);
    if (!j->l)
        return cr_fail(CR_RUNTIME,
                       "Calling %s on a CPU tensor requires LAPACK, and neither %s nor %s "
                       "was found.",
                       name, names[0], names[1]);
    return CR_OK;
}

cr_status cr_lapack_begin(cr_lapack_job *j, const char *name, const cr_view *like, int last)
{
    *j = (cr_lapack_job){.dtype = (cr_dtype)like->dtype,
                         .batch = 1,
                         .batch_dims = like->ndim - last,
                         .batch_size = like->size,
                         .device = like->device};
    CR_TRY(lapack_of(j, name));
    CR_TRY(cr_lapack_counts(name, like, last));
    j->complex = cr_dtype_is_complex(j->dtype);
    /* entries refuse other dtypes before; here their element size would be wrong */
    if (j->dtype != CR_F32 && j->dtype != CR_F64 && j->dtype != CR_C64 && j->dtype != CR_C128)
        return cr_fail(CR_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", name,
                       cr_dtype_infos[j->dtype].legacy);
    j->pair = j->dtype == CR_F64 || j->dtype == CR_C128;
    j->type = j->pair + 2 * j->complex;
    j->item = cr_dtype_size(j->dtype);
    j->real = cr_dtype_size(cr_dtype_real(j->dtype));
    for (int d = 0; d < j->batch_dims; d++)
        j->batch *= like->size[d];
    return CR_OK;
}

void *cr_lapack_take(cr_lapack_job *j, int64_t count, size_t item)
{
    CR_ASSERT(j->scratch_count < CR_LAPACK_SCRATCH);
    cr_dense *d = &j->scratch[j->scratch_count];
    if (cr_dense_take(d, j->device, (size_t)(count > 0 ? count : 1) * item))
        return NULL;
    j->scratch_count++;
    return d->data;
}

cr_status cr_lapack_end(cr_lapack_job *j, cr_status st)
{
    while (j->scratch_count)
        cr_dense_drop(&j->scratch[--j->scratch_count]);
    return st;
}

/* The error of the job's functions. */
static cr_status lapack_failed(const cr_lapack_job *j)
{
    cr_lapack_error error = errors[j->device.kind];

    return cr_is_host(j->device) || !error ? CR_OK : cr_device_status(error());
}

cr_status cr_lapack_copy(const cr_lapack_job *j, void *to, const void *from, size_t n)
{
    CR_TRY(lapack_failed(j));
    if (!cr_is_host(j->device))
        return cr_device_status(
            cr_device_of((cr_device_kind)j->device.kind)->copy(j->device.index, to, from, n));
    memcpy(to, from, n);
    return CR_OK;
}

cr_status cr_lapack_clear(const cr_lapack_job *j, void *p, size_t n)
{
    cr_dense d = {.data = p, .device = j->device};

    return n ? cr_dense_clear(&d, n) : CR_OK;
}

char *cr_lapack_at(const cr_lapack_job *j, const cr_view *v, int last, int64_t i)
{
    int64_t at = cr_broadcast_offset(v->ndim - last, v->size, v->stride, j->batch_dims,
                                     j->batch_size, i);

    return cr_moved(v->data, at, cr_dtype_size((cr_dtype)v->dtype));
}

typedef struct {
    cr_view matrix, columns;
    int64_t stride[2];
} both_orders;

static void in_both_orders(both_orders *b, const cr_lapack_job *j, const cr_view *v, int64_t i,
                           void *columns, int64_t ld)
{
    b->matrix = *v;
    b->matrix.data = cr_lapack_at(j, v, 2, i);
    b->matrix.size += v->ndim - 2;
    b->matrix.stride += v->ndim - 2;
    b->matrix.ndim = 2;
    b->columns = b->matrix;
    b->columns.data = columns;
    b->columns.dtype = (uint8_t)j->dtype;
    b->stride[0] = 1;
    b->stride[1] = ld;
    b->columns.stride = b->stride;
}

/* Between two views of one device. */
static cr_status copy_matrix(const cr_view *to, const cr_view *from)
{
    cr_array a = cr_array_of(to), b = cr_array_of(from);

    if (!cr_is_host(to->device))
        return cr_device_status(
            cr_device_of((cr_device_kind)to->device.kind)->move(to->device.index, &a, &b));
    cr_copy_view(to, from);
    return CR_OK;
}

cr_status cr_lapack_load(const cr_lapack_job *j, const cr_view *v, int64_t i, void *columns,
                         int64_t ld)
{
    both_orders b;

    in_both_orders(&b, j, v, i, columns, ld);
    return copy_matrix(&b.columns, &b.matrix);
}

cr_status cr_lapack_store(const cr_lapack_job *j, const cr_view *v, int64_t i,
                          const void *columns, int64_t ld)
{
    both_orders b;

    CR_TRY(lapack_failed(j));
    in_both_orders(&b, j, v, i, (void *)(uintptr_t)columns, ld);
    return copy_matrix(&b.matrix, &b.columns);
}

int cr_lapack_answer(const cr_lapack_job *j, const void *work)
{
    double d;
    float f;

    if (j->real == sizeof d) {
        memcpy(&d, work, sizeof d);
        return d > 1 ? (int)d : 1;
    }
    memcpy(&f, work, sizeof f);
    return f > 1 ? (int)f : 1;
}
