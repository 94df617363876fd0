/* Kernels for NVIDIA devices: NVRTC compiles CUDA C++, and the kernel cache keeps the images.
 *
 * A kernel's key is the hash of its text, the compiler's version and the device's
 * architecture. */
#include "jit/cuda.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/memory.h"
#include "device/cuda/cuda.h"
#include "device/cuda/driver.h"
#include "jit/cache.h"
#include "jit/cuda_table.h"
#include "jit/entry.h"
#include "jit/vocabulary.h"
#include "num/dtype.h"
#include "num/order.h"
#include "space/space.h"
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum {
    CUDA_BLOCK = 256, /* threads of a block */
    CUDA_MOST_X = 1 << 30,
    CUDA_MOST_Y = 65535,
    CUDA_CHUNKS = 8,
    CUDA_COLUMNS = 32, /* vectors of a block that reduces columns (kernel.cuh) */
    CUDA_ROWS = 4,     /* rows of a block when a row is one chunk */
    CUDA_VECTORS = 4,  /* vectors of a thread of a large pointwise launch, which has at least */
    CUDA_LARGE = 4096, /* so many blocks: a thread finds its place once for all of them */
    CUDA_SHORT = 256, /* columns up to which a block has CUDA_BLOCK threads of one-chunk rows */
};

/* --- the compiler --- */

/* The device's architecture: "sm_90". */
static const char *cuda_architecture(char out[16], int index)
{
    static _Atomic int known[CR_CUDA_DEVICES]; /* 0: not asked */
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

    if (!nvrtc->log_size(program, &n) && (log = cr_alloc_zero(n + 1)) &&
        nvrtc->log(program, log))
        log[0] = 0;
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

/* A function of a module, and how it is launched. */
typedef struct {
    void *function;
    cr_emit_launch how;
} cuda_variant;

/* Forms of a kernel: 0 is plain; form n holds rows of at most n steps in registers, form
 * CUDA_STEPS + n rows of at most CR_FOLD_LANES >> n columns (cr_emit_choice). */
enum {
    CUDA_STEPS = CR_FOLD_CHUNK / CR_FOLD_LANES,
    CUDA_NARROW = 4,
    CUDA_FORMS = 1 + CUDA_STEPS + CUDA_NARROW
};

/* A kernel of which cr_dialect_cuda_rows prints faster forms is compiled when it is launched,
 * in the form for the row's length.  The forms for outer dims are, too. */
typedef struct {
    cuda_variant plain; /* its function may be NULL until it is needed */
    char *program;
    bool halves; /* its operands in memory have the dtypes `stored` */
    uint8_t stored[CR_EMIT_OPERANDS];
    _Atomic(cuda_variant *) variant[2][2][CUDA_FORMS]; /* [outer][whole][form] */
    _Atomic(cuda_variant *) list;
    cr_cuda_tables tables;
} cuda_kernel;

static void cuda_kernel_drop(cuda_kernel *k)
{
    cr_free(k->program);
    cr_free(k);
}

static const char *cuda_build(int index, const cr_kernel_source *source, void **code)
{
    cuda_kernel *k = cr_alloc_zero(sizeof *k);
    const char *program = cr_kernel_program(source), *error = NULL;

    if (!k)
        return cr_error_message();
    k->plain.how = *cr_kernel_launch(source);
    k->halves = cr_kernel_stored(source) != NULL;
    if (k->halves)
        memcpy(k->stored, cr_kernel_stored(source), sizeof k->stored);
    k->program = cr_alloc(strlen(program) + 1);
    if (!k->program) {
        cuda_kernel_drop(k);
        return cr_error_message();
    }
    strcpy(k->program, program);
    if (!k->plain.how.rows_fit)
        error = cuda_function(&k->plain.function, index, cr_kernel_text(source),
                              cr_kernel_symbol(source));
    CR_GIVE(error, code, k, cuda_kernel_drop);
}

/* A form of a kernel. */
typedef struct {
    int form;
    bool whole, outer, list;
} cuda_form;

static const char *cuda_print_variant(cuda_variant *v, int index, const cuda_kernel *k,
                                      const cr_emit_choice *choice, uint32_t flexible)
{
    cr_kernel_source *source;

    if (cr_cuda_source(&source, k->program, choice, flexible))
        return cr_error_message();
    v->how = *cr_kernel_launch(source);
    const char *error =
        cuda_function(&v->function, index, cr_kernel_text(source), cr_kernel_symbol(source));
    cr_kernel_source_drop(source);
    return error;
}

static const char *cuda_make_variant(cuda_variant **out, int index, const cuda_kernel *k,
                                     cuda_form f)
{
    int narrow = f.form - CUDA_STEPS;
    cr_emit_choice choice = {.steps = (uint8_t)(narrow > 0 ? 1 : f.form),
                             .lanes = (uint8_t)(narrow > 0 ? CR_FOLD_LANES >> narrow : 0),
                             .whole = f.whole,
                             .outer = f.outer,
                             .list = f.list,
                             .stored = k->halves ? k->stored : NULL};
    cuda_variant *v = cr_alloc(sizeof *v);

    if (!v)
        return cr_error_message();
    const char *error = cuda_print_variant(v, index, k, &choice, k->plain.how.flexible);
    CR_GIVE(error, out, v, cr_free);
}

/* The kernel in a form.  Threads that need it at once may each build it; the first one is
 * kept. */
static const char *cuda_find_variant(cuda_variant **out, int index, cuda_kernel *k, cuda_form f)
{
    _Atomic(cuda_variant *) *at = f.list ? &k->list : &k->variant[f.outer][f.whole][f.form];
    cuda_variant *made = NULL, *none = NULL;

    *out = atomic_load_explicit(at, memory_order_acquire);
    if (CR_LIKELY(*out != NULL))
        return NULL;
    const char *error = cuda_make_variant(&made, index, k, f);
    if (error)
        return error;
    if (!atomic_compare_exchange_strong(at, &none, made)) {
        cr_free(made);
        made = none;
    }
    *out = made;
    return NULL;
}

/* --- launches --- */

/* A launch whose neighbouring outer dims are merged where one step covers both for all
 * operands.  The fastest dim comes first; it is the rows, except in a kernel of columns. */
typedef struct {
    const cr_launch *l;
    const char *pointer[CR_EMIT_OPERANDS];
    int64_t stride[2 * CR_EMIT_OPERANDS];
    int64_t first; /* the number of the first row */
    int dims;
    int64_t size[CR_EMIT_OUTER], step[CR_EMIT_OPERANDS][CR_EMIT_OUTER];
} cuda_call;

/* The step of an operand along outer dim d of the launch; along the rows for -1. */
static int64_t cuda_step(const cr_launch *l, int k, int d)
{
    if (l->numbers >> k & 1)
        return 0;
    return d < 0 ? l->stride[2 * k] : l->outer_stride[k * l->outer + d];
}

/* Adds outer dim d of the launch; for -1 the rows. */
static void cuda_add_dim(cr_space *s, const cr_launch *l, int d)
{
    int64_t *step = cr_space_add(s, d < 0 ? l->size[0] : l->outer_size[d], d);

    for (int k = 0; k < l->operands; k++)
        step[k] = cuda_step(l, k, d);
}

/* Sets the dims, the rows first if `rows` is set.  Returns the number of the launch's outer
 * dims that have no room: the slowest ones. */
static int cuda_set_dims(cuda_call *c, const cr_launch *l, bool rows)
{
    cr_space s;

    c->l = l;
    c->first = l->size[2];
    for (int k = 0; k < l->operands; k++)
        c->pointer[k] = l->pointer[k];
    memcpy(c->stride, l->stride, 2 * (size_t)l->operands * sizeof *c->stride);
    cr_space_start(&s, l->operands);
    for (int d = 0; d < l->outer; d++)
        cuda_add_dim(&s, l, d);
    if (rows)
        cuda_add_dim(&s, l, -1);
    cr_space_merge(&s, 0);
    c->dims = s.ndim < CR_EMIT_OUTER ? s.ndim : CR_EMIT_OUTER;
    for (int i = 0; i < c->dims; i++) {
        const cr_space_dim *dim = cr_space_last(&s, i);
        c->size[i] = dim->size;
        for (int k = 0; k < l->operands; k++)
            c->step[k][i] = dim->step[k];
    }
    return s.ndim > c->dims ? (int)cr_space_last(&s, c->dims)->number + 1 : 0;
}

/* True when all vectors of the rows are aligned. */
static bool cuda_rows_align(const cr_emit_launch *how, const cuda_call *c)
{
    for (int k = 0; k < how->operands; k++) {
        uintptr_t bits = (uintptr_t)c->pointer[k];
        for (int d = 0; d < c->dims; d++)
            bits |= (uintptr_t)c->step[k][d];
        if (how->align[k] && bits & (uintptr_t)(how->align[k] - 1))
            return false;
    }
    return true;
}

/* How often CR_FOLD_LANES may be halved so that a row has as many lanes. */
static int cuda_narrow(int64_t columns)
{
    int n = 0;

    while (n < CUDA_NARROW && columns <= CR_FOLD_LANES >> (n + 1))
        n++;
    return n;
}

/* The form for a row's length.  A row of one chunk that has whole vectors of all lanes, and a
 * row of whole chunks, need no tests of the row's end. */
static cuda_form cuda_rows_form(const cuda_kernel *k, const cuda_call *c)
{
    int64_t columns = c->l->size[1], groups = (columns + CR_FOLD_LANES - 1) / CR_FOLD_LANES;
    int narrow = columns ? cuda_narrow(columns) : 0;
    int64_t unit = columns > CR_FOLD_CHUNK ? CR_FOLD_CHUNK : CR_FOLD_LANES >> narrow;
    bool whole = columns && columns % unit == 0 && cuda_rows_align(&k->plain.how, c);
    int steps = groups > CUDA_STEPS ? CUDA_STEPS : (int)groups;

    if (narrow)
        return (cuda_form){.form = CUDA_STEPS + narrow,
                           .whole = whole && unit >= k->plain.how.lanes};
    if (!whole)
        steps = groups <= 1 ? 1 : groups <= 4 ? 4 : CUDA_STEPS;
    if (columns > CR_FOLD_ROW)
        steps = 0;
    return (cuda_form){.form = steps, .whole = steps && whole};
}

/* The form for a launch; the plain one without outer dims may have been built. */
static const char *cuda_choose(cuda_variant **out, int index, cuda_kernel *k,
                               const cuda_call *c)
{
    cuda_form f = {.form = 0};

    if (k->plain.how.rows_fit)
        f = cuda_rows_form(k, c);
    f.outer = c->dims > (k->plain.how.kind != CR_LAUNCH_COLUMNS);
    *out = &k->plain;
    return f.outer || k->plain.how.rows_fit ? cuda_find_variant(out, index, k, f) : NULL;
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

/* The grid of a reduction of rows: a block has all chunks of one row, or several rows of one
 * chunk. */
static void cuda_grid_rows(cr_cuda_grid *g, const cr_emit_launch *how, const int64_t *size)
{
    unsigned chunks = cuda_power(cuda_parts(size[1], CR_FOLD_CHUNK), CUDA_CHUNKS);

    g->block[0] = chunks * (unsigned)how->threads;
    g->block[1] = chunks > 1              ? 1
                  : size[1] <= CUDA_SHORT ? CUDA_BLOCK / (unsigned)how->threads
                                          : CUDA_ROWS;
    g->grid[0] = (unsigned)cuda_least(CUDA_MOST_X, cuda_parts(size[0], g->block[1]));
    g->grid[1] = 1;
}

static void cuda_grid_vectors(cr_cuda_grid *g, const cr_emit_launch *how, const int64_t *size)
{
    int64_t vectors = cuda_parts(size[1], how->lanes);

    g->block[0] = cuda_power(vectors, CUDA_BLOCK);
    g->block[1] = cuda_power(size[0], CUDA_BLOCK / g->block[0]);
    int64_t blocks = cuda_parts(vectors, g->block[0]);
    if (blocks >= CUDA_LARGE * CUDA_VECTORS)
        blocks = cuda_parts(blocks, CUDA_VECTORS);
    g->grid[0] = (unsigned)cuda_least(CUDA_MOST_X, blocks);
    g->grid[1] = (unsigned)cuda_least(CUDA_MOST_Y, cuda_parts(size[0], g->block[1]));
}

static void cuda_grid_columns(cr_cuda_grid *g, const cr_emit_launch *how, const int64_t *size,
                              int64_t planes)
{
    int64_t vectors = cuda_parts(size[1], how->lanes);
    int64_t parts = how->threads == 1 ? 1 : cuda_parts(size[0], CR_FOLD_COLUMN);

    g->block[0] = cuda_power(vectors, CUDA_COLUMNS);
    g->block[1] = (unsigned)how->threads;
    g->grid[0] = (unsigned)cuda_least(CUDA_MOST_X, cuda_parts(vectors, g->block[0]));
    g->grid[1] = (unsigned)cuda_least(CUDA_MOST_Y, parts * planes);
}

/* Appends n bytes at the next address that is a multiple of `align`. */
static char *cuda_put(char *begin, char *at, size_t align, const void *bytes, size_t n)
{
    at = begin + (size_t)cuda_parts(at - begin, (int64_t)align) * align;
    if (n)
        memcpy(at, bytes, n);
    return at + n;
}

/* The bytes of the kernel's argument: addresses, strides, sizes, outer dims and parameters. */
static size_t cuda_call_bytes(const cr_emit_launch *how, bool outer)
{
    size_t n = (size_t)how->operands, words = 3 * n + 2 * (size_t)how->computed + 3;

    words += outer ? 2 + CR_EMIT_OUTER * (n + 1) : 0;
    return (8 * words + 15) / 16 * 16 + 16 * (size_t)how->params;
}

/* Appends the outer dims. */
static char *cuda_put_outer(char *begin, char *at, const cuda_call *c)
{
    int64_t head[2] = {cr_numel(c->dims, c->size), c->dims};

    at = cuda_put(begin, at, 8, head, sizeof head);
    at = cuda_put(begin, at, 8, c->size, sizeof c->size);
    return cuda_put(begin, at, 8, c->step, (size_t)c->l->operands * sizeof c->step[0]);
}

/* Writes the kernel's ck_call or ck_outer_call.  An operand that is a number has the address
 * NULL, and its value is stored in the place of its strides. */
static void cuda_fill_call(char *call, const cr_emit_launch *how, const cuda_call *c,
                           const int64_t *size, bool outer)
{
    const cr_launch *l = c->l;
    size_t n = (size_t)l->operands, room = 16 * (size_t)how->params;
    void **pointer = (void **)(void *)call;
    int64_t *stride = (int64_t *)(void *)(call + n * sizeof *pointer);
    char *at = cuda_put(call, call, 8, c->pointer, n * sizeof *pointer);

    at = cuda_put(call, at, 8, c->stride, 2 * n * sizeof *c->stride);
    for (uint64_t mask = l->numbers; mask; mask &= mask - 1) {
        unsigned k = CR_CTZ64(mask);
        memcpy(&stride[2 * k], l->pointer[k], 2 * sizeof *stride);
        pointer[k] = NULL;
    }
    at = cuda_put(call, at, 8, size, 3 * sizeof *size);
    if (outer)
        at = cuda_put_outer(call, at, c);
    cuda_put(call, at, 16, l->param, room < l->param_bytes ? room : l->param_bytes);
}

/* One launch of the driver. */
static const char *cuda_launch_dims(int index, cuda_kernel *k, cuda_call *c)
{
    _Alignas(16) char call[CR_EMIT_CALL_BYTES];
    bool columns = k->plain.how.kind == CR_LAUNCH_COLUMNS;
    int64_t count = cr_numel(c->dims, c->size),
            size[3] = {columns ? c->l->size[0] : count, c->l->size[1], c->first};
    cuda_variant *v;
    const char *error = cuda_choose(&v, index, k, c);

    if (error)
        return error;
    bool outer = c->dims > !columns;
    cr_cuda_grid g = {.function = v->function};
    if (v->how.kind == CR_LAUNCH_ROWS)
        cuda_grid_rows(&g, &v->how, size);
    else if (columns)
        cuda_grid_columns(&g, &v->how, size, count);
    else
        cuda_grid_vectors(&g, &v->how, size);
    if (!g.grid[0] || !g.grid[1])
        return NULL;
    if (cuda_call_bytes(&v->how, outer) > sizeof call)
        return "CUDA: a kernel has more operands than an argument has room for";
    for (int i = 0; !columns && !outer && i < c->l->operands; i++)
        if (c->dims)
            c->stride[2 * i] = c->step[i][0];
    cuda_fill_call(call, &v->how, c, size, outer);
    return cr_cuda_launch(index, &g, call);
}

/* Launches for each index of the first `left` outer dims, for which there is no room; an index
 * of the last of them has `rows` rows. */
static const char *cuda_launch_slow(int index, cuda_kernel *k, cuda_call *c, int left,
                                    int64_t rows)
{
    const cr_launch *l = c->l;
    const char *error = NULL;

    if (!left)
        return cuda_launch_dims(index, k, c);
    for (int64_t i = 0; i < l->outer_size[left - 1] && !error; i++) {
        cuda_call part = *c;
        for (int j = 0; j < l->operands; j++)
            part.pointer[j] += i * cuda_step(l, j, left - 1);
        part.first += i * rows;
        error = cuda_launch_slow(index, k, &part, left - 1, rows * l->outer_size[left - 1]);
    }
    return error;
}

/* --- tables --- */

/* Whether the launch may read its values from a table. */
static bool cuda_can_table(int index, const cr_launch *l)
{
    const cuda_kernel *k = l->code;
    bool dense = true;

    for (int i = 0; i < l->operands && dense; i++)
        dense = l->stride[2 * i + 1] == 2 && (uintptr_t)l->pointer[i] % 16 == 0;
    return dense && k->plain.how.tabled && l->size[0] == 1 && l->size[1] >= CR_TABLE_LEAST &&
           !l->outer && !l->numbers && cr_cuda_table_fits(index);
}

/* Puts the values of all halves, as floats, in a block: those of the kernel whose result is not
 * rounded and whose factor is 1. */
static const char *cuda_fill_products(int index, const cr_launch *l, void *at, void *halves)
{
    const cuda_kernel *k = l->code;
    int factor = k->plain.how.factor;
    cuda_kernel exact = *k;
    cr_emit_choice choice = {.exact = true, .stored = exact.stored};
    float one[4] = {1};
    void *pointer[] = {at, halves, halves};
    int64_t stride[6] = {0, sizeof *one, 0, sizeof(uint16_t), 0, sizeof(uint16_t)};
    cr_launch values = *l;
    cuda_call c;

    exact.stored[0] = exact.stored[factor] = 0;
    const char *error = cuda_print_variant(&exact.plain, index, k, &choice,
                                           k->plain.how.flexible | 1u << factor);
    pointer[factor] = one;
    values.pointer = pointer;
    values.stride = stride;
    values.numbers = 1u << factor;
    values.size[1] = CR_HALF_VALUES;
    return error ? error
                 : cuda_launch_slow(index, &exact, &c, cuda_set_dims(&c, &values, true), 1);
}

/* Puts the kernel's values of all halves in a block of them. */
static const char *cuda_fill_table(int index, const cr_launch *l, void *at)
{
    cuda_kernel *k = l->code;
    void *pointer[2] = {at, at};
    cr_launch values = *l;
    cuda_call c;

    values.pointer = pointer;
    values.size[1] = CR_HALF_VALUES;
    return cuda_launch_slow(index, k, &c, cuda_set_dims(&c, &values, true), 1);
}

/* A block with the values of all halves; *at is NULL if there is no memory. */
static const char *cuda_values(void **at, int index, const cr_launch *l)
{
    bool products = ((cuda_kernel *)l->code)->plain.how.factor;
    void *halves = NULL;
    const char *error = cr_cuda_table_halves(&halves, index);

    *at = halves;
    if (error || !halves || !products)
        return error || !halves ? error : cuda_fill_table(index, l, halves);
    *at = cr_cuda_block(index, CR_HALF_VALUES * sizeof(float));
    if (*at)
        error = cuda_fill_products(index, l, *at, halves);
    cr_cuda_block_drop(index, halves);
    return error;
}

/* The kernel's table for the parameters, without an address if there is no memory for one;
 * *out is NULL if the kernel has as many as it may have. */
static const char *cuda_make_table(const cr_cuda_values **out, int index, const cr_launch *l)
{
    static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
    cuda_kernel *k = l->code;
    const char *error = NULL;
    void *at = NULL;

    if (cr_cuda_table_is_full(&k->tables) || cr_cuda_is_capturing(index))
        return NULL;
    pthread_mutex_lock(&one);
    *out = cr_cuda_table_find(&k->tables, l->param, l->param_bytes);
    if (!*out && !cr_cuda_table_is_full(&k->tables)) {
        error = cuda_values(&at, index, l);
        if (!error)
            error = cr_cuda_table_add(&k->tables, index, at, l->param, l->param_bytes);
        if (error)
            cr_cuda_block_drop(index, at);
        *out = cr_cuda_table_find(&k->tables, l->param, l->param_bytes);
    }
    pthread_mutex_unlock(&one);
    return error;
}

static const char *cuda_run_table(int index, const cr_launch *l, const cr_cuda_values *v)
{
    const cuda_kernel *k = l->code;
    int factor = k->plain.how.factor;

    if (!factor)
        return cr_cuda_table_run(index, v, l->pointer[0], l->pointer[1], l->size[1]);
    return cr_cuda_table_multiply(index, v, k->stored[0],
                                  &(cr_cuda_products){l->pointer[0], l->pointer[factor],
                                                      l->pointer[3 - factor], l->size[1]});
}

static const char *cuda_launch(int index, const cr_launch *l)
{
    cuda_kernel *k = l->code;
    const cr_emit_launch *how = &k->plain.how;
    cuda_call c;

    if (how->operands != l->operands || how->computed ||
        (l->numbers & ~(uint64_t)how->flexible))
        return "CUDA: a kernel was called with other operands than it has";
    if (!l->size[0])
        return NULL;
    if (cuda_can_table(index, l)) {
        const cr_cuda_values *v = cr_cuda_table_find(&k->tables, l->param, l->param_bytes);
        const char *error = v ? NULL : cuda_make_table(&v, index, l);
        if (error || (v && v->at))
            return error ? error : cuda_run_table(index, l, v);
    }
    bool columns = how->kind == CR_LAUNCH_COLUMNS;
    int left = cuda_set_dims(&c, l, !columns);
    return cuda_launch_slow(index, k, &c, left,
                            cr_numel(c.dims, c.size) * (columns ? l->size[0] : 1));
}

/* --- lists of launches --- */

/* Whether launches differ in addresses and sizes only, so that one kernel may have several. */
static bool cuda_can_list(const cr_launch *l, int n)
{
    const cr_emit_launch *how = &((const cuda_kernel *)l->code)->plain.how;
    size_t strides = 2 * (size_t)l->operands * sizeof *l->stride;
    bool same =
        how->kind != CR_LAUNCH_COLUMNS && !how->computed && how->operands == l->operands;

    for (int i = 0; i < n && same; i++)
        same = l[i].code == l->code && l[i].operands == l->operands && !l[i].numbers &&
               !l[i].outer && !l[i].size[2] &&
               (how->kind == CR_LAUNCH_ROWS || l[i].size[0] == 1) &&
               !memcmp(l[i].stride, l->stride, strides) && l[i].param_bytes == l->param_bytes &&
               !memcmp(l[i].param, l->param, l->param_bytes);
    return same;
}

/* A ck_list_call that is being filled. */
typedef struct {
    const cr_emit_launch *how;
    char *call;
    int64_t arrays, blocks;
} cuda_list;

/* The addresses, sizes and first block numbers of a ck_list_call. */
static char *cuda_list_addresses(const cuda_list *a)
{
    return a->call + 16 * (size_t)(a->how->params + a->how->operands) + 8;
}
static char *cuda_list_sizes(const cuda_list *a)
{
    return cuda_list_addresses(a) + 8 * (size_t)a->how->operands * (size_t)a->how->most;
}
static char *cuda_list_firsts(const cuda_list *a)
{
    return cuda_list_sizes(a) + 16 * (size_t)a->how->most;
}

static int64_t cuda_list_blocks(const cr_emit_launch *how, const cr_launch *l)
{
    if (how->kind == CR_LAUNCH_ROWS)
        return l->size[0];
    return cuda_parts(l->size[1], (int64_t)CR_EMIT_LIST_STEPS * CUDA_BLOCK * how->lanes);
}

/* False when there is no room. */
static bool cuda_list_add(cuda_list *a, const cr_launch *l)
{
    int64_t blocks = l->size[1] ? cuda_list_blocks(a->how, l) : 0, k = a->arrays;
    size_t pointers = 8 * (size_t)l->operands;
    int32_t first = (int32_t)a->blocks;

    if (!blocks)
        return true;
    if (k == a->how->most || a->blocks + blocks > CUDA_MOST_X)
        return false;
    memcpy(cuda_list_addresses(a) + (size_t)k * pointers, l->pointer, pointers);
    memcpy(cuda_list_sizes(a) + 16 * (size_t)k, l->size, 16);
    memcpy(cuda_list_firsts(a) + 4 * (size_t)k, &first, 4);
    a->arrays++;
    a->blocks += blocks;
    return true;
}

/* One launch of the driver; returns how many of the n it has. */
static const char *cuda_launch_some(int *taken, int index, const cuda_variant *v,
                                    const cr_launch *l, int n)
{
    _Alignas(16) char call[CR_EMIT_CALL_BYTES] = {0};
    cuda_list a = {.how = &v->how, .call = call};
    size_t room = 16 * (size_t)v->how.params;
    int threads = v->how.kind == CR_LAUNCH_ROWS ? CUDA_CHUNKS * v->how.threads : CUDA_BLOCK;

    memcpy(call, l->param, room < l->param_bytes ? room : l->param_bytes);
    memcpy(call + room, l->stride, 2 * (size_t)l->operands * sizeof *l->stride);
    for (*taken = 0; *taken < n && cuda_list_add(&a, &l[*taken]);)
        ++*taken;
    if (!a.arrays)
        return *taken ? NULL : "CUDA: an array is too long for a list of arrays";
    memcpy(cuda_list_addresses(&a) - 8, &a.arrays, 8);
    cr_cuda_grid g = {.function = v->function,
                      .grid = {(unsigned)a.blocks, 1},
                      .block = {(unsigned)threads, 1}};
    return cr_cuda_launch(index, &g, call);
}

static const char *cuda_launch_list(int index, const cr_launch *l, int n)
{
    const char *error = NULL;
    cuda_variant *v;
    int taken;

    if (n < 2 || !cuda_can_list(l, n)) {
        for (int i = 0; i < n && !error; i++)
            error = cuda_launch(index, &l[i]);
        return error;
    }
    error = cuda_find_variant(&v, index, l->code, (cuda_form){.list = true});
    for (int i = 0; i < n && !error; i += taken)
        error = cuda_launch_some(&taken, index, v, &l[i], n - i);
    return error;
}

/* --- texts of kern/cuda --- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cr_map texts; /* cr_cuda_text -> function */

static void text_print(cr_text *out, char symbol[32], const cr_cuda_text *k)
{
    if (k->part != CR_VEC_CUDA_MOVE)
        cr_text_put(out, "#define CM_NO_KERNELS\n");
    k->print(out, symbol, k);
    cr_text_put(out, cr_vec_texts[CR_VEC_CUDA]);
    cr_text_put(out, cr_vec_texts[CR_VEC_CUDA_HALF]);
    cr_text_put(out, cr_vec_texts[CR_VEC_CUDA_MOVE]);
    if (k->part != CR_VEC_CUDA_MOVE)
        cr_text_put(out, cr_vec_texts[k->part]);
}

/* Threads that need the same kernel at once may each build it. */
const char *cr_cuda_find(void **out, const cr_cuda_text *k)
{
    char symbol[32];
    cr_text text = {0};
    cr_status st = CR_OK;

    pthread_mutex_lock(&lock);
    *out = cr_map_get(&texts, (const char *)k, sizeof *k);
    pthread_mutex_unlock(&lock);
    if (*out)
        return NULL;
    text_print(&text, symbol, k);
    const char *error = cr_text_status(&text)
                            ? cr_error_message()
                            : cuda_function(out, k->device, cr_text_str(&text), symbol);
    cr_text_drop(&text);
    if (error)
        return error;
    pthread_mutex_lock(&lock);
    st = cr_map_set(&texts, (const char *)k, sizeof *k, *out);
    pthread_mutex_unlock(&lock);
    return st ? cr_error_message() : NULL;
}

const char *cr_cuda_launch_each(int device, void *function, int64_t n, void *call)
{
    cr_cuda_grid g = {.function = function, .grid = {1, 1}, .block = {CUDA_BLOCK, 1}};

    g.grid[0] = (unsigned)cuda_least(CUDA_MOST_X, cuda_parts(n, CUDA_BLOCK));
    return cr_cuda_launch(device, &g, call);
}

void cr_cuda_install(void)
{
    cr_cuda_ops.build = cuda_build;
    cr_cuda_ops.launch = cuda_launch;
    cr_cuda_ops.launch_list = cuda_launch_list;
}
