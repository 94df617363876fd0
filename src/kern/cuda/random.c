/* Random numbers on NVIDIA devices; the kernels are in emit/random.cuh.
 *
 * A kernel fills elements in the order of their memory by a grid of torch's size: blocks of 256
 * threads, as many as the device runs at once.  The generator's offset grows by the words that
 * a thread draws.  Arguments that the host's function refuses are declined, and it raises the
 * error. */
#include "kern/random.h"
#include "device/cuda/cuda.h"
#include "device/generators.h"
#include "jit/cuda.h"
#include "kern/cuda/entries.h"
#include "num/dtype.h"
#include "space/space.h"
#include <math.h>
#include <stdio.h>

/* As in emit/random.cuh. */
enum { RANDOM_DIMS = 8, RANDOM_THREADS = 256, RANDOM_WORDS = 4, RANDOM_BYTES = 16 };
/* How often a thread draws such bytes, so that it begins less often. */
enum { RANDOM_TURNS = 2 };
typedef enum {
    UNIFORM,
    NORMAL,
    LOG_NORMAL,
    CAUCHY,
    EXPONENTIAL,
    GEOMETRIC,
    BERNOULLI,
    INTEGERS,
    KEPT,
    CHANCES
} random_form;

/* cx_call of emit/random.cuh.
 * Invariant: the members are those of the kernels' struct, in the same order. Sizes and
 * steps are of ndim dims, whose sizes have the product n. */
typedef struct {
    char *to;
    const char *chance;
    void *late;
    uint64_t number, seed, block, range;
    const uint64_t *state; /* of a captured generator (num/generator.h) */
    int64_t from, n, ndim, size[RANDOM_DIMS], step[RANDOM_DIMS], chance_step[RANDOM_DIMS];
    double a, b;
} random_call;

typedef struct {
    random_call call;
    cr_cuda_text text; /* a: form; b: dtype; c: numbers of 64 bits, or the dtype of chances;
                          d: several dims */
} random_job;

static void random_print(cr_text *out, char symbol[32], const cr_cuda_text *k)
{
    cr_text_printf(out, "#define CX_FORM %d\n#define CX_ITEM cm_%s\n", k->a,
                   cr_dtype_infos[k->b].suffix);
    if (k->a == CHANCES)
        cr_text_printf(out, "#define CX_CHANCE cm_%s\n", cr_dtype_infos[k->c].suffix);
    else
        cr_text_printf(out, "#define CX_WIDE %d\n#define CX_REAL %s\n", k->c,
                       k->c ? "double" : "float");
    snprintf(symbol, 32, k->a >= KEPT ? "cx_each" : k->d ? "cx_fill_dims" : "cx_fill");
}

static void random_start(random_job *j, int device, random_form form, int dtype, bool wide)
{
    j->text = (cr_cuda_text){.print = random_print,
                             .device = device,
                             .part = CR_VEC_CUDA_RANDOM,
                             .a = (int)form,
                             .b = dtype,
                             .c = wide};
}

static void random_reserve(random_job *j, const cr_given *generator, uint64_t blocks)
{
    cr_device d = {.kind = CR_CUDA, .index = (uint8_t)j->text.device};
    cr_generator *g = generator && generator->kind == CR_GIVEN_OTHER && generator->object
                          ? generator->object
                          : cr_device_generator(d);
    uint64_t offset;

    cr_generator_reserve_on(g, RANDOM_WORDS * blocks, &j->call.seed, &offset, &j->call.state);
    j->call.block = offset / RANDOM_WORDS;
}

/* The dims in the order of memory, or row-major with those of the chances. */
static bool random_set_dims(random_call *c, const cr_array *to, int64_t item,
                            const int64_t *chance_step)
{
    cr_space s;

    cr_space_start(&s, 2);
    for (int d = 0; d < to->ndim; d++) {
        int64_t *step = cr_space_add(&s, to->size[d], d);
        step[0] = to->stride[d] * item;
        step[1] = chance_step ? chance_step[d] : 0;
    }
    if (!chance_step)
        cr_space_order(&s);
    cr_space_merge(&s, 0);
    c->to = to->data;
    c->n = cr_space_count(&s, s.ndim);
    c->ndim = s.ndim;
    for (int d = 0; d < s.ndim && d < RANDOM_DIMS; d++) {
        c->size[d] = s.dim[d].size;
        c->step[d] = s.dim[d].step[0];
        c->chance_step[d] = s.dim[d].step[1];
    }
    return s.ndim <= RANDOM_DIMS;
}

/* --- grids of torch's size --- */

static const char *random_most(int64_t *out, int device)
{
    static _Atomic int64_t known[CR_CUDA_DEVICES]; /* 0: not asked */
    cr_cuda_properties p;

    *out = known[device];
    if (*out)
        return NULL;
    const char *error = cr_cuda_property(&p, device);
    if (error)
        return error;
    *out = (int64_t)p.processors * (p.threads_of_processor / RANDOM_THREADS);
    known[device] = *out;
    return *out > 0 ? NULL : "the device runs too few threads for random numbers";
}

static const char *random_blocks(int64_t *out, int device, int64_t n)
{
    int64_t most, blocks = (n + RANDOM_THREADS - 1) / RANDOM_THREADS;
    const char *error = random_most(&most, device);

    if (!error)
        *out = blocks < most ? blocks : most;
    return error;
}

static const char *random_fill(random_job *j, const cr_given *generator)
{
    cr_cuda_grid g = {.block = {RANDOM_THREADS, 1}};
    int64_t n = j->call.n, blocks = 0, numbers = j->text.c ? 2 : 4;
    const char *error = n ? random_blocks(&blocks, j->text.device, n) : NULL;

    if (error || !n)
        return error;
    j->text.d = j->call.ndim > 1;
    error = cr_cuda_find(&g.function, &j->text);
    if (error)
        return error;
    g.grid[0] = (unsigned)blocks;
    g.grid[1] = 1;
    random_reserve(j, generator, (uint64_t)((n - 1) / (RANDOM_THREADS * blocks * numbers) + 1));
    return cr_cuda_launch(j->text.device, &g, &j->call);
}

/* Real parts and imaginary parts of complex numbers are elements. */
static const char *random_fill_parts(random_job *j, const cr_given *generator,
                                     const cr_array *to)
{
    int64_t size[CR_MAX_DIMS + 1], stride[CR_MAX_DIMS + 1];
    bool both = cr_dtype_is_complex((cr_dtype)to->dtype);
    int64_t item = (int64_t)cr_dtype_size((cr_dtype)to->dtype) / (both ? 2 : 1);

    if (to->ndim + both > CR_MAX_DIMS)
        return cr_command_declines;
    for (int d = 0; d < to->ndim; d++) {
        size[d] = to->size[d];
        stride[d] = (both ? 2 : 1) * to->stride[d];
    }
    size[to->ndim] = 2;
    stride[to->ndim] = 1;
    cr_array parts = {to->data, j->text.b, to->ndim + both, size, stride};
    return random_set_dims(&j->call, &parts, item, NULL) ? random_fill(j, generator)
                                                         : cr_command_declines;
}

static bool random_number(double *out, const cr_given *g)
{
    *out = g->kind == CR_GIVEN_INT ? (double)g->i : g->d;
    return g->kind == CR_GIVEN_INT || g->kind == CR_GIVEN_FLOAT;
}

/* Parameters a and b; the generator follows. */
static const char *random_real(int device, random_form form, const cr_given *generator,
                               const cr_array *to, double a, double b)
{
    cr_dtype t = (cr_dtype)to->dtype, part = t == CR_C64 ? CR_F32 : t == CR_C128 ? CR_F64 : t;
    random_job j = {.call = {.a = a, .b = b}};

    if (t >= CR_DTYPE_KERNELS)
        return cr_command_declines;
    random_start(&j, device, form, (int)part, part == CR_F64);
    return random_fill_parts(&j, generator, to);
}

/* --- entries: (self, parameters..., generator) --- */

const char *cr_cuda_uniform(int device, const cr_given *arg, const cr_array *result)
{
    double a, b;

    return random_number(&a, &arg[1]) && random_number(&b, &arg[2]) && a <= b
               ? random_real(device, UNIFORM, &arg[3], result, a, b)
               : cr_command_declines;
}

const char *cr_cuda_normal(int device, const cr_given *arg, const cr_array *result)
{
    bool both = cr_dtype_is_complex((cr_dtype)result->dtype);
    double a, b;

    return random_number(&a, &arg[1]) && random_number(&b, &arg[2]) && b >= 0
               ? random_real(device, NORMAL, &arg[3], result, a, both ? b / sqrt(2) : b)
               : cr_command_declines;
}

const char *cr_cuda_log_normal(int device, const cr_given *arg, const cr_array *result)
{
    double a, b;

    return random_number(&a, &arg[1]) && random_number(&b, &arg[2]) && b > 0
               ? random_real(device, LOG_NORMAL, &arg[3], result, a, b)
               : cr_command_declines;
}

const char *cr_cuda_cauchy(int device, const cr_given *arg, const cr_array *result)
{
    double a, b;

    return random_number(&a, &arg[1]) && random_number(&b, &arg[2]) && b > 0
               ? random_real(device, CAUCHY, &arg[3], result, a, b)
               : cr_command_declines;
}

const char *cr_cuda_exponential(int device, const cr_given *arg, const cr_array *result)
{
    double a;

    return random_number(&a, &arg[1]) && a > 0
               ? random_real(device, EXPONENTIAL, &arg[2], result, a, 0)
               : cr_command_declines;
}

const char *cr_cuda_geometric(int device, const cr_given *arg, const cr_array *result)
{
    double a;

    return random_number(&a, &arg[1]) && a > 0 && a < 1
               ? random_real(device, GEOMETRIC, &arg[2], result, a, 0)
               : cr_command_declines;
}

const char *cr_cuda_bernoulli_float(int device, const cr_given *arg, const cr_array *result)
{
    double a;

    return random_number(&a, &arg[1]) && a >= 0 && a <= 1 &&
                   !cr_dtype_is_complex((cr_dtype)result->dtype)
               ? random_real(device, BERNOULLI, &arg[2], result, a, 0)
               : cr_command_declines;
}

static const char *random_between(int device, const cr_given *generator, const cr_array *to,
                                  const int64_t *first, const int64_t *end)
{
    cr_random_integers among;
    random_job j = {.call = {.a = 0}};

    if (to->dtype >= CR_DTYPE_KERNELS || cr_dtype_is_complex((cr_dtype)to->dtype) ||
        cr_random_range(&among, (cr_dtype)to->dtype, first, end))
        return cr_command_declines;
    j.call.from = among.from;
    j.call.range = among.range;
    random_start(&j, device, INTEGERS, to->dtype, among.wide);
    return random_fill_parts(&j, generator, to);
}

const char *cr_cuda_random(int device, const cr_given *arg, const cr_array *result)
{
    return random_between(device, &arg[1], result, NULL, NULL);
}

const char *cr_cuda_random_from(int device, const cr_given *arg, const cr_array *result)
{
    return random_between(device, &arg[3], result, &arg[1].i,
                          arg[2].kind == CR_GIVEN_NONE ? NULL : &arg[2].i);
}

const char *cr_cuda_random_to(int device, const cr_given *arg, const cr_array *result)
{
    const int64_t first = 0;

    return random_between(device, &arg[2], result, &first, &arg[1].i);
}

/* --- truths: an element has its own word --- */

static const char *random_each(random_job *j, const cr_given *generator)
{
    int64_t blocks = (j->call.n + RANDOM_WORDS - 1) / RANDOM_WORDS;
    void *function;
    const char *error = blocks ? cr_cuda_find(&function, &j->text) : NULL;

    if (error || !blocks)
        return error;
    random_reserve(j, generator, (uint64_t)blocks);
    int64_t words = j->text.a == KEPT ? RANDOM_TURNS * RANDOM_BYTES / RANDOM_WORDS : 1;
    return cr_cuda_launch_each(j->text.device, function, (blocks + words - 1) / words,
                               &j->call);
}

/* (input, probability to stay) */
const char *cr_cuda_dropout_mask(int device, const cr_given *arg, const cr_array *result)
{
    random_job j = {.call = {.to = result->data, .n = 1}};
    double kept;

    if (!random_number(&kept, &arg[1]) || !cr_is_dense_array(result))
        return cr_command_declines;
    for (int d = 0; d < result->ndim; d++)
        j.call.n *= result->size[d];
    j.call.a = 1 - kept;
    random_start(&j, device, KEPT, CR_BOOL, false);
    return random_each(&j, NULL);
}

static const char *random_chances(int device, const cr_array *chance, const cr_given *generator,
                                  const cr_array *to)
{
    int64_t step[CR_MAX_DIMS], item = (int64_t)cr_dtype_size((cr_dtype)chance->dtype);
    random_job j = {.call = {.chance = chance->data}};
    cr_cuda_late late;

    if (to->dtype >= CR_DTYPE_KERNELS || chance->dtype >= CR_DTYPE_KERNELS ||
        !cr_dtype_is_float((cr_dtype)chance->dtype) || chance->ndim > to->ndim)
        return cr_command_declines;
    for (int d = 0; d < to->ndim; d++) {
        int k = d - (to->ndim - chance->ndim);
        if (k >= 0 && chance->size[k] != 1 && chance->size[k] != to->size[d])
            return cr_command_declines;
        step[d] =
            item * cr_broadcast_step(chance->ndim, chance->size, chance->stride, to->ndim, d);
    }
    if (!random_set_dims(&j.call, to, (int64_t)cr_dtype_size((cr_dtype)to->dtype), step))
        return cr_command_declines;
    const char *error =
        cr_cuda_late_begin(&late, device, CR_RUNTIME,
                           "Expected p_in >= 0 && p_in <= 1 to be true, but got false.  (Could "
                           "this error message be improved?  If so, please report an "
                           "enhancement request to PyTorch.)");
    if (error)
        return error;
    j.call.late = late.word;
    j.call.number = late.number;
    random_start(&j, device, CHANCES, to->dtype, false);
    j.text.c = chance->dtype;
    return random_each(&j, generator);
}

const char *cr_cuda_bernoulli_tensor(int device, const cr_given *arg, const cr_array *result)
{
    return arg[1].kind == CR_GIVEN_ARRAY
               ? random_chances(device, &arg[1].array, &arg[2], result)
               : cr_command_declines;
}

const char *cr_cuda_bernoulli(int device, const cr_given *arg, const cr_array *result)
{
    return random_chances(device, &arg[0].array, &arg[1], result);
}
