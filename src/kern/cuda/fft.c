/* Fourier transforms by cuFFT.
 *
 * The dims of a transform are moved behind the others, which are its batch.  One plan
 * transforms up to three of them; a transform between real and complex numbers is one of a
 * single dim. A device has plans for each stream, the last used first, up to a number that the
 * program sets and to CR_CUDA_PLAN_BYTES.  A graph refers to the tables of the plans that it
 * captured, so these stay. */
#include "base/memory.h"
#include "device/cuda/cuda.h"
#include "device/cuda/driver.h"
#include "device/device.h"
#include "kern/cpu/each_job.h"
#include "kern/cuda/entries.h"
#include "kern/cuda/product.h"
#include "num/dtype.h"
#include "space/space.h"
#include <math.h>
#include <pthread.h>
#include <string.h>

enum { FFT_RANK = 3, FFT_PLANS = 4096 };
/* Values of the library's enumerations; those of double precision are FFT_DOUBLE higher. */
enum { FFT_C2C = 0x29, FFT_R2C = 0x2a, FFT_C2R = 0x2c, FFT_DOUBLE = 0x40 };

typedef struct {
#define CR_CUFFT_CALL(name, symbol, arguments) int(*name) arguments;
#include "kern/cuda/cufft.def"
#undef CR_CUFFT_CALL
} cufft_table;

static const char *const cufft_names[] = {
#define CR_CUFFT_CALL(name, symbol, arguments) #symbol,
#include "kern/cuda/cufft.def"
#undef CR_CUFFT_CALL
};

typedef struct {
    int64_t index, type, rank, n[FFT_RANK], batch;
    void *stream;
} fft_key;

typedef struct fft_plan {
    struct fft_plan *next;
    fft_key key;
    int plan;
    bool captured;
    size_t room, bytes; /* of the device's memory in a call; of the host's */
} fft_plan;

typedef struct {
    fft_plan *first;
    int64_t count, most; /* without captured plans */
    size_t bytes;        /* of these */
} fft_cache;

static cufft_table cufft;
static bool cufft_works;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static fft_cache caches[CR_CUDA_DEVICES];

static void cufft_load(void)
{
    static const cr_cuda_library list[] = {
        {"libcufft.so.12", "cu13", NULL},
        {"libcufft.so.11", "cufft", NULL},
        {"libcufft.so", NULL, NULL},
    };
    void *library = cr_cuda_open(list, (int)CR_LEN(list));

    for (int i = 0; i < CR_CUDA_DEVICES; i++)
        caches[i].most = FFT_PLANS;
    cufft_works =
        library && cr_cuda_symbols(library, &cufft, cufft_names, (int)CR_LEN(cufft_names));
}

static bool cufft_is_there(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, cufft_load);
    return cufft_works;
}

/* --- plans --- */

static void fft_leave(fft_cache *c, const fft_plan *p)
{
    c->count--;
    c->bytes -= p->bytes;
}

/* Drops the least recently used plans; captured ones stay.  The caller holds the lock. */
static void fft_trim(fft_cache *c)
{
    int64_t kept = 0;
    size_t bytes = 0;

    if (c->count <= c->most && c->bytes <= CR_CUDA_PLAN_BYTES)
        return;
    for (fft_plan **at = &c->first, *p; (p = *at);) {
        if (!p->captured) {
            kept++;
            bytes += p->bytes;
        }
        if (p->captured || (kept <= c->most && (kept == 1 || bytes <= CR_CUDA_PLAN_BYTES))) {
            at = &p->next;
            continue;
        }
        *at = p->next;
        cufft.drop_plan(p->plan);
        fft_leave(c, p);
        cr_free(p);
    }
}

/* The kept plan of a key, which becomes the first, or NULL. */
static fft_plan *fft_kept(fft_cache *c, const fft_key *k)
{
    for (fft_plan **at = &c->first, *p; (p = *at); at = &p->next) {
        if (memcmp(&p->key, k, sizeof *k))
            continue;
        *at = p->next;
        p->next = c->first;
        return c->first = p;
    }
    return NULL;
}

static int fft_make(fft_plan *p)
{
    const fft_key *k = &p->key;
    int64_t n[FFT_RANK] = {k->n[0], k->n[1], k->n[2]};
    int failed = cufft.new_plan(&p->plan);

    if (failed)
        return failed;
    failed = cufft.allocates(p->plan, 0);
    if (!failed)
        failed = cufft.make_plan(p->plan, (int)k->rank, n, NULL, 1, 0, NULL, 1, 0, (int)k->type,
                                 k->batch, &p->room);
    if (failed)
        cufft.drop_plan(p->plan);
    return failed;
}

/* The plan of a key; the caller holds the lock. */
static const char *fft_plan_of(fft_plan **out, const fft_key *k)
{
    fft_cache *c = &caches[k->index];
    fft_plan *p = *out = fft_kept(c, k);

    if (p)
        return NULL;
    p = cr_alloc_zero(sizeof *p);
    if (!p)
        return cr_error_message();
    memcpy(&p->key, k, sizeof *k);
    size_t before = cr_heap_bytes();
    if (fft_make(p)) {
        cr_free(p);
        return "cuFFT error: CUFFT_INTERNAL_ERROR";
    }
    p->bytes = cr_heap_since(before);
    p->next = c->first;
    c->first = *out = p;
    c->count++;
    c->bytes += p->bytes;
    return NULL;
}

int64_t cr_cuda_fft_plans(int device, int64_t *most)
{
    fft_cache *c = &caches[device];

    cufft_is_there();
    pthread_mutex_lock(&lock);
    if (*most >= 0) {
        c->most = *most;
        fft_trim(c);
    }
    *most = c->most;
    int64_t count = c->count;
    pthread_mutex_unlock(&lock);
    return count;
}

static const char *fft_start(const fft_key *k, const fft_plan *p, void *from, void *to,
                             void *room, bool forward)
{
    int failed = cufft.stream(p->plan, cr_cuda_stream((int)k->index));

    if (!failed && p->room)
        failed = cufft.room(p->plan, room);
    if (!failed)
        failed = cufft.run(p->plan, from, to, forward ? -1 : 1);
    return failed ? "cuFFT error: CUFFT_EXEC_FAILED" : NULL;
}

static const char *fft_run(const fft_key *k, void *from, void *to, bool forward)
{
    uint32_t block = 0;
    void *room = NULL;
    fft_plan *p;
    const char *error = cr_cuda_use((int)k->index);

    if (error)
        return error;
    pthread_mutex_lock(&lock);
    error = fft_plan_of(&p, k);
    if (!error && p->room && !(room = cr_cuda_ops.get((int)k->index, p->room, &block)))
        error = cr_cuda_no_memory((int)k->index, p->room);
    if (!error && !p->captured && cr_cuda_is_capturing((int)k->index)) {
        p->captured = true;
        fft_leave(&caches[k->index], p);
    }
    if (!error)
        error = fft_start(k, p, from, to, room, forward);
    fft_trim(&caches[k->index]);
    pthread_mutex_unlock(&lock);
    if (room)
        cr_cuda_ops.release((int)k->index, room, block);
    return error;
}

/* --- arrays --- */

/* A dense array of the device whose last dims are those that are transformed. */
typedef struct {
    int device, dtype, ndim;
    int64_t size[CR_MAX_DIMS], stride[CR_MAX_DIMS];
    char *data;
    uint32_t block;
} fft_array;

static cr_array fft_view(const fft_array *a)
{
    return (cr_array){a->data, a->dtype, a->ndim, a->size, a->stride};
}

static const char *fft_take(fft_array *a)
{
    size_t bytes = (size_t)cr_dense_strides(a->stride, a->ndim, a->size) *
                   cr_dtype_size((cr_dtype)a->dtype);

    a->data = cr_cuda_ops.get(a->device, bytes, &a->block);
    return a->data ? NULL : cr_cuda_no_memory(a->device, bytes);
}

static void fft_drop(fft_array *a)
{
    if (a->data)
        cr_cuda_ops.release(a->device, a->data, a->block);
    a->data = NULL;
}

/* The dims of a transform: `first` of the list, and those of `v` in the order that has them
 * last. */
typedef struct {
    int count, order[CR_MAX_DIMS];
} fft_dims;

static fft_dims fft_order(const cr_array *v, const cr_given *dims)
{
    bool moved[CR_MAX_DIMS] = {false};
    fft_dims d = {.count = (int)dims->count};
    int at = 0;

    for (int i = 0; i < d.count; i++) {
        int64_t k = dims->ints[i] < 0 ? dims->ints[i] + v->ndim : dims->ints[i];
        moved[k] = true;
        d.order[v->ndim - d.count + i] = (int)k;
    }
    for (int k = 0; k < v->ndim; k++)
        if (!moved[k])
            d.order[at++] = k;
    return d;
}

/* `v` with its dims in the order. */
static cr_array fft_turned(const cr_array *v, const fft_dims *d, int64_t *size, int64_t *stride)
{
    for (int k = 0; k < v->ndim; k++) {
        size[k] = v->size[d->order[k]];
        stride[k] = v->stride[d->order[k]];
    }
    return (cr_array){v->data, v->dtype, v->ndim, size, stride};
}

/* True if the library may work on `v` as it is: its dims are in the order, dense, and
 * aligned. */
static bool fft_is_plain(const cr_array *v, const fft_dims *d)
{
    for (int k = 0; k < v->ndim; k++)
        if (d->order[k] != k)
            return false;
    return cr_is_contiguous(v->ndim, v->size, v->stride) &&
           (uintptr_t)v->data % sizeof(double[2]) == 0;
}

/* `v` itself; fft_drop must not get it. */
static fft_array fft_lent(int device, const cr_array *v)
{
    fft_array a = {.device = device, .dtype = v->dtype, .ndim = v->ndim, .data = v->data};

    memcpy(a.size, v->size, (size_t)a.ndim * sizeof *a.size);
    memcpy(a.stride, v->stride, (size_t)a.ndim * sizeof *a.stride);
    return a;
}

/* A dense copy of `v` with its dims in the order, in another dtype. */
static const char *fft_load(fft_array *a, int device, const cr_array *v, const fft_dims *d,
                            int dtype)
{
    int64_t stride[CR_MAX_DIMS];
    cr_array from = fft_turned(v, d, a->size, stride);

    a->device = device;
    a->dtype = dtype;
    a->ndim = v->ndim;
    const char *error = fft_take(a);
    cr_array to = fft_view(a);
    return error ? error : cr_cuda_ops.move(device, &to, &from);
}

/* Transforms the last `rank` dims but `left` of `a`, in place where from is to. */
static const char *fft_last(const fft_array *a, int rank, int type, char *to, bool forward)
{
    fft_key k;

    memset(&k, 0, sizeof k);
    k.index = a->device;
    k.stream = cr_cuda_stream(a->device);
    k.type = type;
    k.rank = rank;
    k.batch = 1;
    for (int d = 0; d < a->ndim; d++) {
        if (d < a->ndim - rank)
            k.batch *= a->size[d];
        else
            k.n[d - (a->ndim - rank)] = a->size[d];
    }
    return fft_run(&k, a->data, to, forward);
}

static int fft_type(int type, int dtype)
{
    return dtype == CR_C128 || dtype == CR_F64 ? type + FFT_DOUBLE : type;
}

/* Transforms the listed dims of a complex array: turns of up to three dims. */
static const char *fft_complex(fft_array *a, int device, const int64_t *dims, int count,
                               bool forward)
{
    const char *error = NULL;

    for (int done = 0; done < count && !error; done += FFT_RANK) {
        int rank = count - done < FFT_RANK ? count - done : FFT_RANK;
        cr_given some = {.kind = CR_GIVEN_INTS, .count = (size_t)rank, .ints = dims + done};
        cr_array v = fft_view(a), to;
        int64_t size[CR_MAX_DIMS], stride[CR_MAX_DIMS];
        fft_dims d = fft_order(&v, &some);
        fft_array turned = {.data = NULL};
        if (fft_is_plain(&v, &d)) {
            error = fft_last(a, rank, fft_type(FFT_C2C, a->dtype), a->data, forward);
            continue;
        }
        error = fft_load(&turned, device, &v, &d, a->dtype);
        if (!error)
            error = fft_last(&turned, rank, fft_type(FFT_C2C, a->dtype), turned.data, forward);
        to = fft_turned(&v, &d, size, stride);
        cr_array from = fft_view(&turned);
        if (!error)
            error = cr_cuda_ops.move(device, &to, &from);
        fft_drop(&turned);
    }
    return error;
}

/* --- results --- */

static double fft_scale(int64_t mode, const cr_array *v, const cr_given *dims)
{
    double n = 1;

    for (size_t i = 0; i < dims->count; i++)
        n *= (double)v->size[dims->ints[i] < 0 ? dims->ints[i] + v->ndim : dims->ints[i]];
    return mode == 0 ? 1 : mode == 1 ? 1 / sqrt(n) : 1 / n;
}

/* Multiplies the dense result, whose real and imaginary parts are elements. */
static const char *fft_multiply(int device, const cr_array *v, double scale)
{
    static const cr_loops loops = {CR_LOOPS_SCALE, "scaled", NULL, NULL, sizeof(cr_each)};
    bool both = cr_dtype_is_complex((cr_dtype)v->dtype);
    cr_dtype t = v->dtype == CR_C128 || v->dtype == CR_F64 ? CR_F64 : CR_F32;
    cr_each job = {.in = {v->data}, .out = v->data, .number = scale};
    int64_t n = (both ? 2 : 1) * cr_numel(v->ndim, v->size);

    cr_device there = {.kind = CR_CUDA, .index = (uint8_t)device};
    return scale == 1 || !cr_loops_run(there, &loops, t, n, 1, &job) ? NULL
                                                                     : cr_error_message();
}

static bool fft_takes(const cr_array *v, const cr_array *result)
{
    int t = cr_dtype_is_complex((cr_dtype)v->dtype) ? v->dtype : result->dtype;

    return t == CR_C64 || t == CR_C128;
}

#define FFT_MISSING CR_LACKS("It needs cuFFT, and libcufft.so was not found.")

static bool fft_is_empty(const cr_array *v)
{
    for (int d = 0; d < v->ndim; d++)
        if (!v->size[d])
            return true;
    return false;
}

/* (self, dim, normalization, forward) */
const char *cr_cuda_fft_c2c(int device, const cr_given *arg, const cr_array *result)
{
    fft_array a = fft_lent(device, result), from = fft_lent(device, &arg[0].array);
    fft_dims d = fft_order(result, &arg[1]);
    const char *error;

    if (!fft_takes(&arg[0].array, result))
        return cr_command_declines;
    if (fft_is_empty(result))
        return NULL;
    if (!cufft_is_there())
        return FFT_MISSING;
    /* A result is dense. */
    bool direct = arg[0].array.dtype == result->dtype && d.count > 0 && d.count <= FFT_RANK &&
                  fft_is_plain(&arg[0].array, &d) && fft_is_plain(result, &d);
    if (direct)
        error = fft_last(&from, d.count, fft_type(FFT_C2C, a.dtype), a.data, arg[3].i);
    else
        error = cr_cuda_ops.move(device, result, &arg[0].array);
    if (!error && !direct)
        error = fft_complex(&a, device, arg[1].ints, (int)arg[1].count, arg[3].i);
    return error ? error : fft_multiply(device, result, fft_scale(arg[2].i, result, &arg[1]));
}

/* One dim, between `from` and `to`, of other dtype and size.  Transforms to real numbers
 * destroy their source, of which a copy is made unless it is `spare`. */
static const char *fft_real(int device, const cr_array *from, const cr_array *to, int64_t dim,
                            int type, bool spare)
{
    cr_given one = {.kind = CR_GIVEN_INTS, .count = 1, .ints = &dim};
    fft_dims d = fft_order(from, &one);
    fft_array in = {.data = NULL}, out = {.data = NULL};
    int64_t stride[CR_MAX_DIMS], size[CR_MAX_DIMS];
    cr_array read = *from;

    memcpy(size, from->size, (size_t)from->ndim * sizeof *size);
    read.size = size;
    int64_t *last = &size[d.order[from->ndim - 1]], half = to->size[d.order[to->ndim - 1]] / 2;
    if (type == FFT_C2R && *last > half + 1)
        *last = half + 1; /* the transform reads no other elements of a line */
    bool reads = (type == FFT_R2C || spare) && fft_is_plain(&read, &d);
    bool writes = fft_is_plain(to, &d);
    const char *error = NULL;

    if (reads)
        in = fft_lent(device, &read);
    else
        error = fft_load(&in, device, &read, &d, from->dtype);
    cr_array turned = fft_turned(to, &d, out.size, stride);

    out.device = device, out.dtype = to->dtype, out.ndim = to->ndim;
    if (writes)
        out = fft_lent(device, to);
    else if (!error)
        error = fft_take(&out);
    if (type == FFT_C2R)
        in.size[in.ndim - 1] = out.size[out.ndim - 1];
    if (!error)
        error = fft_last(&in, 1, fft_type(type, from->dtype), out.data, type == FFT_R2C);
    cr_array made = fft_view(&out);
    if (!error && !writes)
        error = cr_cuda_ops.move(device, &turned, &made);
    if (!reads)
        fft_drop(&in);
    if (!writes)
        fft_drop(&out);
    return error;
}

/* (self, dim, normalization, onesided); both sides are a transform of complex numbers. */
const char *cr_cuda_fft_r2c(int device, const cr_given *arg, const cr_array *result)
{
    const cr_array *self = &arg[0].array;
    int count = (int)arg[1].count;
    int64_t last = count ? arg[1].ints[count - 1] : 0;
    fft_array a = fft_lent(device, result);
    cr_array real = *self;

    if (!fft_takes(self, result) || !count)
        return cr_command_declines;
    if (fft_is_empty(result) || fft_is_empty(self))
        return fft_is_empty(result) ? NULL : cr_command_declines;
    if (!cufft_is_there())
        return FFT_MISSING;
    if (real.dtype != (result->dtype == CR_C64 ? CR_F32 : CR_F64))
        return cr_command_declines;
    const char *error = arg[3].i ? fft_real(device, self, result, last, FFT_R2C, false)
                                 : cr_cuda_ops.move(device, result, self);
    if (!error)
        error = fft_complex(&a, device, arg[1].ints, arg[3].i ? count - 1 : count, true);
    return error ? error : fft_multiply(device, result, fft_scale(arg[2].i, self, &arg[1]));
}

/* (self, dim, normalization, last_dim_size) */
const char *cr_cuda_fft_c2r(int device, const cr_given *arg, const cr_array *result)
{
    const cr_array *self = &arg[0].array;
    int count = (int)arg[1].count;
    fft_dims same = {.count = 0};
    fft_array a = {.data = NULL};

    if (!fft_takes(self, result) || !count)
        return cr_command_declines;
    if (fft_is_empty(result) || fft_is_empty(self))
        return fft_is_empty(result) ? NULL : cr_command_declines;
    int64_t last = arg[1].ints[count - 1] + (arg[1].ints[count - 1] < 0 ? self->ndim : 0);
    if (self->size[last] < result->size[last] / 2 + 1)
        return cr_command_declines; /* whose error names the sizes */
    if (!cufft_is_there())
        return FFT_MISSING;
    for (int k = 0; k < self->ndim; k++)
        same.order[k] = k;
    const char *error = fft_load(&a, device, self, &same, self->dtype);
    if (!error)
        error = fft_complex(&a, device, arg[1].ints, count - 1, false);
    cr_array half = fft_view(&a);
    if (!error)
        error = fft_real(device, &half, result, arg[1].ints[count - 1], FFT_C2R, true);
    fft_drop(&a);
    return error ? error : fft_multiply(device, result, fft_scale(arg[2].i, result, &arg[1]));
}
