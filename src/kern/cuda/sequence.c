/* Ranges of numbers on NVIDIA devices; the kernels are in emit/sequence.cuh. */
#include "jit/cuda.h"
#include "kern/cuda/entries.h"
#include "num/dtype.h"
#include <stdio.h>

/* CQ_ARANGE ... of emit/sequence.cuh */
typedef enum {
    SEQUENCE_ARANGE,
    SEQUENCE_RANGE,
    SEQUENCE_LINSPACE,
    SEQUENCE_LOGSPACE
} sequence_form;

/* cq_call of emit/sequence.cuh */
typedef struct {
    char *to;
    int64_t n, step, int_start, int_by;
    double start, end, by, base;
} sequence_call;

static void sequence_print(cr_text *out, char symbol[32], const cr_cuda_text *k)
{
    cr_text_printf(out, "#define CQ_FORM %d\n#define CQ_ITEM cm_%s\n", k->a,
                   cr_dtype_infos[k->b].suffix);
    snprintf(symbol, 32, "cq_fill");
}

static bool sequence_number(double *number, int64_t *integer, const cr_given *g)
{
    bool whole = g->kind == CR_GIVEN_INT;
    cr_scalar s = whole ? cr_scalar_int(g->i) : cr_scalar_float(g->d);

    *number = cr_scalar_as_double(s);
    *integer = cr_scalar_as_int(s);
    return whole || g->kind == CR_GIVEN_FLOAT;
}

static double round_to(int dtype, double x)
{
    _Alignas(16) char room[16];

    cr_scalar_store(cr_scalar_float(x), (cr_dtype)dtype, room);
    return cr_scalar_as_double(cr_scalar_load((cr_dtype)dtype, room));
}

static const char *sequence_run(int device, sequence_call *c, const cr_array *to,
                                sequence_form form)
{
    cr_cuda_text k = {.print = sequence_print,
                      .device = device,
                      .part = CR_VEC_CUDA_SEQUENCE,
                      .a = (int)form,
                      .b = to->dtype};
    void *function;

    c->to = to->data;
    c->n = to->ndim ? to->size[0] : 1;
    c->step = to->ndim ? to->stride[0] * (int64_t)cr_dtype_size((cr_dtype)to->dtype) : 0;
    if (!c->n)
        return NULL;
    const char *error = cr_cuda_find(&function, &k);
    return error ? error : cr_cuda_launch_each(device, function, c->n, c);
}

/* start, end, step */
static bool sequence_steps(sequence_call *c, const cr_given *arg, const cr_array *to)
{
    return to->dtype < CR_DTYPE_KERNELS && !cr_dtype_is_complex((cr_dtype)to->dtype) &&
           sequence_number(&c->start, &c->int_start, &arg[0]) &&
           sequence_number(&c->by, &c->int_by, &arg[2]);
}

const char *cr_cuda_arange(int device, const cr_given *arg, const cr_array *result)
{
    sequence_call c = {.n = 0};

    return sequence_steps(&c, arg, result) ? sequence_run(device, &c, result, SEQUENCE_ARANGE)
                                           : cr_command_declines;
}

const char *cr_cuda_range(int device, const cr_given *arg, const cr_array *result)
{
    bool whole = cr_dtype_category((cr_dtype)result->dtype) <= CR_CAT_INT;
    sequence_call c = {.n = 0};

    return sequence_steps(&c, arg, result)
               ? sequence_run(device, &c, result, whole ? SEQUENCE_ARANGE : SEQUENCE_RANGE)
               : cr_command_declines;
}

/* The step has the dtype's precision; in integers, and among exponents, that of double. */
static double sequence_step(int t, double distance, double n, bool exponents)
{
    bool whole = cr_dtype_category((cr_dtype)t) <= CR_CAT_INT;

    distance = whole ? distance : round_to(t, distance);
    return whole || exponents ? distance / n : round_to(t, distance / round_to(t, n));
}

/* (start, end, steps): the ends have the dtype's precision. */
static const char *sequence_spaced(int device, sequence_call *c, const cr_given *arg,
                                   const cr_array *result, sequence_form form)
{
    int t = result->dtype;
    int64_t n = result->ndim ? result->size[0] : 1, unused;

    if (t >= CR_DTYPE_KERNELS || !sequence_number(&c->start, &unused, &arg[0]) ||
        !sequence_number(&c->end, &unused, &arg[1]))
        return cr_command_declines;
    if (n > 1 || form == SEQUENCE_LINSPACE)
        c->start = round_to(t, c->start);
    c->end = n == 1 ? c->start : round_to(t, c->end);
    c->by = sequence_step(t, c->end - c->start, n > 1 ? (double)(n - 1) : 1,
                          form == SEQUENCE_LOGSPACE);
    return sequence_run(device, c, result, form);
}

const char *cr_cuda_linspace(int device, const cr_given *arg, const cr_array *result)
{
    sequence_call c = {.n = 0};

    return sequence_spaced(device, &c, arg, result, SEQUENCE_LINSPACE);
}

/* (start, end, steps, base): complex powers have no kernel. */
const char *cr_cuda_logspace(int device, const cr_given *arg, const cr_array *result)
{
    sequence_call c = {.base = arg[3].kind == CR_GIVEN_INT ? (double)arg[3].i : arg[3].d};

    return cr_dtype_is_complex((cr_dtype)result->dtype)
               ? cr_command_declines
               : sequence_spaced(device, &c, arg, result, SEQUENCE_LOGSPACE);
}
