/* Kernels for NVIDIA devices: NVRTC compiles CUDA C++, and the kernel cache keeps the images.
 *
 * A kernel's key is the hash of its text, the compiler's version and the device's architecture.
 * This file also has the copies and fills of elements; their kernels are in emit/move.cuh. */
#include "jit/cuda.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/memory.h"
#include "device/cuda/cuda.h"
#include "device/cuda/driver.h"
#include "jit/cache.h"
#include "jit/entry.h"
#include "jit/vocabulary.h"
#include "num/convert.h"
#include "num/dtype.h"
#include "num/order.h"
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum {
    CUDA_CALL_BYTES = 4096, /* the largest kernel argument that every device accepts */
    CUDA_BLOCK = 256,       /* threads of a block */
    CUDA_MOST_X = 1 << 30,
    CUDA_MOST_Y = 65535,
    CUDA_CHUNKS = 8,
    CUDA_ROWS = 4 /* rows of a block when a row is one chunk */
};

/* --- the compiler --- */

/* The device's architecture: "sm_90". */
static const char *cuda_architecture(char out[16], int index)
{
    static int known[CR_CUDA_DEVICES];
    cr_cuda_properties p;

    if (!known[index]) {
        const char *error = cr_cuda_property(&p, index);
        if (error)
            return error;
        known[index] = 10 * p.major + p.minor;
    }
    snprintf(out, 16, "sm_%d", known[index]);
    return NULL;
}

static void cuda_key(char key[CR_CACHE_KEY + 1], const cr_nvrtc *nvrtc, const char *text,
                     const char *arch)
{
    int major = 0, minor = 0;
    char identity[64];

    nvrtc->version(&major, &minor);
    int n = snprintf(identity, sizeof identity, "nvrtc %d.%d %s", major, minor, arch);
    uint64_t a = cr_hash(text, strlen(text)), b = cr_hash(identity, (size_t)n);
    for (const char *p = text; *p; p++)
        b = (b ^ (uint8_t)*p) * 0xC2B2AE3D27D4EB4Fu;
    snprintf(key, CR_CACHE_KEY + 1, "%016" PRIx64 "%016" PRIx64, a ^ b >> 7, b);
}

static cr_status cuda_fail_compile(const cr_nvrtc *nvrtc, void *program, const char *symbol)
{
    size_t n = 0;
    char *log = NULL;
    cr_status st;

    if (!nvrtc->log_size(program, &n) && (log = cr_alloc(n + 1)) && !nvrtc->log(program, log))
        log[n] = 0;
    cr_log_line("cuda", 1, "%s: %s", symbol, log ? log : "");
    st = cr_fail(CR_RUNTIME, "NVRTC could not compile %s: %.400s", symbol, log ? log : "");
    cr_free(log);
    return st;
}

/* Compiles a text and appends the image to *out. */
static cr_status cuda_compile(cr_text *out, const cr_nvrtc *nvrtc, const char *text,
                              const char *arch, const char *symbol)
{
    char target[32];
    const char *option[] = {target,           "-std=c++17", "-fmad=false", "-default-device",
                            "-device-int128", "-w"};
    double start = cr_seconds();
    void *program = NULL;
    size_t n = 0;
    cr_status st = CR_OK;

    snprintf(target, sizeof target, "-arch=%s", arch);
    if (nvrtc->new_program(&program, text, "kernel.cu", 0, NULL, NULL))
        return cr_fail(CR_RUNTIME, "NVRTC could not read %s", symbol);
    if (nvrtc->compile(program, (int)CR_LEN(option), option) || nvrtc->image_size(program, &n))
        st = cuda_fail_compile(nvrtc, program, symbol);
    char *image = st ? NULL : cr_alloc(n);
    if (!st && (!image || nvrtc->image(program, image)))
        st = CR_MEMORY;
    if (!st) {
        cr_text_put_n(out, image, n);
        st = cr_text_status(out);
        cr_log_line("cuda", 1, "%s: %zu bytes, %.0f ms", symbol, n,
                    1e3 * (cr_seconds() - start));
    }
    cr_free(image);
    nvrtc->drop_program(&program);
    return st;
}

/* Appends the image of a text, which comes from the cache or the compiler, to *out. */
static cr_status cuda_image(cr_text *out, const char *text, const char *arch,
                            const char *symbol)
{
    const cr_nvrtc *nvrtc;
    char key[CR_CACHE_KEY + 1];

    CR_TRY(cr_cuda_load_nvrtc(&nvrtc));
    cuda_key(key, nvrtc, text, arch);
    if (cr_cache_read_note(out, key))
        return CR_OK;
    out->len = 0;
    CR_TRY(cuda_compile(out, nvrtc, text, arch, symbol));
    if (cr_cache_write_note(key, out->at, out->len))
        cr_log_line("cache", 1, "%s is not kept: %s", symbol, cr_error_message());
    return CR_OK;
}

static const char *cuda_function(void **out, int index, const char *text, const char *symbol)
{
    char arch[16];
    cr_text image = {0};
    const char *error = cuda_architecture(arch, index);

    if (!error && cuda_image(&image, text, arch, symbol))
        error = cr_error_message();
    if (!error)
        error = cr_cuda_load_code(out, index, image.at, symbol);
    cr_text_drop(&image);
    return error;
}

/* --- kernels of entries and groups --- */

typedef struct {
    void *function;
    cr_emit_launch how;
} cuda_kernel;

static const char *cuda_build(int index, const cr_kernel_source *source, void **code)
{
    cuda_kernel *k = cr_alloc(sizeof *k);
    const char *error =
        k ? cuda_function(&k->function, index, cr_kernel_text(source), cr_kernel_symbol(source))
          : "CUDA: no host memory";

    if (error) {
        cr_free(k);
        return error;
    }
    k->how = *cr_kernel_launch(source);
    *code = k;
    return NULL;
}

static int64_t cuda_least(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t cuda_parts(int64_t n, int64_t by) { return (n + by - 1) / by; }

/* The least power of two that is at least n, but no more than `most`, a power of two. */
static unsigned cuda_power(int64_t n, unsigned most)
{
    unsigned p = 1;

    while (p < most && (int64_t)p < n)
        p *= 2;
    return p;
}

/* The grid of a reduction of rows: a block has all chunks of one row, or CUDA_ROWS rows of one
 * chunk. */
static void cuda_grid_rows(cr_cuda_grid *g, const cr_emit_launch *how, const int64_t *size)
{
    unsigned chunks = cuda_power(cuda_parts(size[1], CR_FOLD_CHUNK), CUDA_CHUNKS);

    g->block[0] = chunks * (unsigned)how->threads;
    g->block[1] = chunks == 1 ? CUDA_ROWS : 1;
    g->grid[0] = (unsigned)cuda_least(CUDA_MOST_X, cuda_parts(size[0], g->block[1]));
    g->grid[1] = 1;
}

static void cuda_grid_vectors(cr_cuda_grid *g, const cr_emit_launch *how, const int64_t *size)
{
    int64_t vectors = cuda_parts(size[1], how->lanes);
    bool columns = how->kind == CR_LAUNCH_COLUMNS;
    int64_t rows = columns ? cuda_parts(size[0], CR_FOLD_COLUMN) : size[0];

    g->block[0] = cuda_power(vectors, columns ? CUDA_BLOCK / 4 : CUDA_BLOCK);
    g->block[1] = columns ? 1 : cuda_power(rows, CUDA_BLOCK / g->block[0]);
    g->grid[0] = (unsigned)cuda_least(CUDA_MOST_X, cuda_parts(vectors, g->block[0]));
    g->grid[1] = (unsigned)cuda_least(CUDA_MOST_Y, cuda_parts(rows, g->block[1]));
}

/* Appends n bytes at the next address that is a multiple of `align`. */
static char *cuda_put(char *begin, char *at, size_t align, const void *bytes, size_t n)
{
    at = begin + (size_t)cuda_parts(at - begin, (int64_t)align) * align;
    if (n)
        memcpy(at, bytes, n);
    return at + n;
}

/* Writes the kernel's ck_call.  An operand that is a number has the address NULL, and its value
 * is stored in the place of its strides. */
static void cuda_fill_call(char *call, const cr_emit_launch *how, const cr_launch *l)
{
    size_t n = (size_t)l->operands, room = 16 * (size_t)how->params;
    void **pointer = (void **)(void *)call;
    int64_t *stride = (int64_t *)(void *)(call + n * sizeof *pointer);
    char *at = cuda_put(call, call, 8, l->pointer, n * sizeof *pointer);

    at = cuda_put(call, at, 8, l->stride, (2 * n + (size_t)how->computed) * sizeof *l->stride);
    for (uint64_t mask = l->numbers; mask; mask &= mask - 1) {
        unsigned k = CR_CTZ64(mask);
        memcpy(&stride[2 * k], l->pointer[k], 2 * sizeof *stride);
        pointer[k] = NULL;
    }
    at = cuda_put(call, at, 8, l->size, 3 * sizeof *l->size);
    cuda_put(call, at, 16, l->param, room < l->param_bytes ? room : l->param_bytes);
}

static const char *cuda_launch(int index, const cr_launch *l)
{
    _Alignas(16) char call[CUDA_CALL_BYTES];
    const cuda_kernel *k = l->code;
    cr_cuda_grid g = {.function = k->function};

    if (k->how.operands != l->operands || k->how.computed ||
        (l->numbers & ~(uint64_t)k->how.flexible))
        return "CUDA: a kernel was called with other operands than it has";
    if (!l->size[0])
        return NULL;
    if (k->how.kind == CR_LAUNCH_ROWS)
        cuda_grid_rows(&g, &k->how, l->size);
    else
        cuda_grid_vectors(&g, &k->how, l->size);
    if (!g.grid[0])
        return NULL;
    cuda_fill_call(call, &k->how, l);
    return cr_cuda_launch(index, &g, call);
}

/* --- copies and fills --- */

enum { MOVE_DIMS = 8 };

/* cm_call of emit/move.cuh */
typedef struct {
    char *to;
    const char *from;
    int64_t n, ndim, size[MOVE_DIMS], to_step[MOVE_DIMS], from_step[MOVE_DIMS];
    _Alignas(16) char item[16];
} move_call;

typedef struct {
    int index;    /* the device */
    int to, from; /* dtypes; or bytes of an element, and MOVE_COPY or MOVE_FILL */
} move_key;

enum { MOVE_COPY = -1, MOVE_FILL = -2 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cr_map moves; /* move_key -> function */

static void move_text(cr_text *out, char symbol[32], const move_key *k)
{
    if (k->from >= 0) {
        cr_text_printf(out, "#define CM_TO cm_%s\n#define CM_FROM cm_%s\n",
                       cr_dtype_infos[k->to].suffix, cr_dtype_infos[k->from].suffix);
        snprintf(symbol, 32, "cm_convert");
    } else {
        snprintf(symbol, 32, "cm_%s%d", k->from == MOVE_COPY ? "copy" : "fill", k->to);
    }
    cr_text_put(out, cr_vec_texts[CR_VEC_CUDA]);
    cr_text_put(out, cr_vec_texts[CR_VEC_CUDA_MOVE]);
}

static const char *move_find(void **out, const move_key *k)
{
    char symbol[32];
    cr_text text = {0};
    const char *error = NULL;

    pthread_mutex_lock(&lock);
    *out = cr_map_get(&moves, (const char *)k, sizeof *k);
    if (!*out) {
        move_text(&text, symbol, k);
        error = cr_text_status(&text)
                    ? cr_error_message()
                    : cuda_function(out, k->index, cr_text_str(&text), symbol);
        if (!error && cr_map_set(&moves, (const char *)k, sizeof *k, *out))
            error = cr_error_message();
        cr_text_drop(&text);
    }
    pthread_mutex_unlock(&lock);
    return error;
}

/* A dim of a copy: its size, and its steps in bytes. */
typedef struct {
    int64_t size, to, from;
} move_dim;

/* Removes dims of size 1, and merges neighbours that one step covers.  Returns the number of
 * dims that remain, at least 1. */
static int move_merge(move_dim *out, const cr_array *to, const int64_t *from_stride,
                      int64_t to_item, int64_t from_item)
{
    int n = 0;

    for (int d = 0; d < to->ndim; d++) {
        move_dim next = {to->size[d], to->stride[d] * to_item,
                         from_stride ? from_stride[d] * from_item : 0};
        if (next.size == 1)
            continue;
        move_dim *last = n ? &out[n - 1] : NULL;
        if (last && last->to == next.size * next.to && last->from == next.size * next.from)
            *last = (move_dim){last->size * next.size, next.to, next.from};
        else
            out[n++] = next;
    }
    if (!n)
        out[n++] = (move_dim){1, to_item, from_item};
    return n;
}

static const char *move_launch(int index, void *function, move_call *c)
{
    cr_cuda_grid g = {.function = function, .grid = {1, 1}, .block = {CUDA_BLOCK, 1}};

    g.grid[0] = (unsigned)cuda_least(CUDA_MOST_X, cuda_parts(c->n, CUDA_BLOCK));
    return cr_cuda_launch(index, &g, c);
}

/* Runs the kernel once, or, beyond MOVE_DIMS dims, once for each index of the outer dims. */
static const char *move_dims(int index, void *function, move_call *c, const move_dim *dim,
                             int n)
{
    const char *error = NULL;

    if (n > MOVE_DIMS) {
        for (int64_t i = 0; i < dim->size && !error; i++) {
            move_call inner = *c;
            inner.to += i * dim->to;
            inner.from += i * dim->from;
            error = move_dims(index, function, &inner, dim + 1, n - 1);
        }
        return error;
    }
    c->n = 1;
    c->ndim = n;
    for (int d = 0; d < n; d++) {
        c->size[d] = dim[d].size;
        c->to_step[d] = dim[d].to;
        c->from_step[d] = dim[d].from;
        c->n *= dim[d].size;
    }
    return c->n ? move_launch(index, function, c) : NULL;
}

static int64_t item_bytes(const cr_array *a)
{
    return (int64_t)cr_dtype_size((cr_dtype)a->dtype);
}

enum { MOVE_MOST_DIMS = 64 };

static const char *move_elements(int index, const cr_array *to, const cr_array *from)
{
    move_dim dim[MOVE_MOST_DIMS];
    int64_t to_item = item_bytes(to), from_item = item_bytes(from);
    int n = move_merge(dim, to, from->stride, to_item, from_item);
    bool same = to->dtype == from->dtype;
    move_key key = {index, same ? (int)to_item : to->dtype, same ? MOVE_COPY : from->dtype};
    move_call c = {.to = to->data, .from = from->data};
    void *function;

    if (same && n == 1 && dim->to == to_item && dim->from == from_item)
        return cr_cuda_table()->copy(index, to->data, from->data,
                                     (size_t)(dim->size * to_item));
    const char *error = move_find(&function, &key);
    return error ? error : move_dims(index, function, &c, dim, n);
}

/* --- conversions on the host, for dtypes without kernels --- */

static int64_t move_count(const cr_array *a)
{
    int64_t n = 1;

    for (int d = 0; d < a->ndim; d++)
        n *= a->size[d];
    return n;
}

/* A dense array at `data` with the sizes of `like`; the caller owns `stride`. */
static cr_array move_dense(const cr_array *like, int dtype, char *data, int64_t *stride)
{
    int64_t step = 1;

    for (int d = like->ndim - 1; d >= 0; d--) {
        stride[d] = step;
        step *= like->size[d];
    }
    return (cr_array){data, dtype, like->ndim, like->size, stride};
}

static const char *move_through_host(int index, const cr_array *to, const cr_array *from)
{
    const cr_device_ops *ops = cr_cuda_table();
    int64_t stride[MOVE_MOST_DIMS], n = move_count(to);
    int64_t to_item = item_bytes(to), from_item = item_bytes(from);
    size_t most = (size_t)(n * (to_item > from_item ? to_item : from_item));
    char *host = cr_alloc((size_t)(n * (to_item + from_item)) + 1);
    uint32_t block;
    char *there = host ? ops->get(index, most, &block) : NULL;
    const char *error = there ? NULL : "CUDA: no memory for a conversion";

    if (!error) {
        cr_array dense = move_dense(to, from->dtype, there, stride);
        error = move_elements(index, &dense, from);
    }
    if (!error)
        error = ops->copy_out(index, host, there, (size_t)(n * from_item));
    if (!error) {
        char *made = host + n * from_item;
        cr_array dense = move_dense(to, to->dtype, there, stride);
        cr_convert_row((cr_dtype)to->dtype, (cr_dtype)from->dtype)(made, to_item, host,
                                                                   from_item, n);
        error = ops->copy_in(index, there, made, (size_t)(n * to_item));
        if (!error)
            error = move_elements(index, to, &dense);
    }
    if (there)
        ops->release(index, there, block);
    cr_free(host);
    return error;
}

static const char *cuda_move(int index, const cr_array *to, const cr_array *from)
{
    bool stored =
        cr_dtype_is_stored((cr_dtype)to->dtype) || cr_dtype_is_stored((cr_dtype)from->dtype);

    if (!move_count(to))
        return NULL;
    return stored && to->dtype != from->dtype ? move_through_host(index, to, from)
                                              : move_elements(index, to, from);
}

static const char *cuda_fill(int index, const cr_array *to, const void *element)
{
    move_dim dim[MOVE_MOST_DIMS];
    int64_t item = item_bytes(to);
    int n = move_merge(dim, to, NULL, item, 0);
    move_key key = {index, (int)item, MOVE_FILL};
    move_call c = {.to = to->data};
    void *function;

    if (!move_count(to))
        return NULL;
    if (n == 1 && dim->to == item && item <= 4)
        return cr_cuda_fill(index, to->data, element, (int)item, (size_t)dim->size);
    memcpy(c.item, element, (size_t)item);
    const char *error = move_find(&function, &key);
    return error ? error : move_dims(index, function, &c, dim, n);
}

void cr_cuda_install(void)
{
    cr_cuda_set_kernels(cuda_build, cuda_launch, cuda_move, cuda_fill);
}
