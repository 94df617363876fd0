/* Calls of compiled models: inputs are checked, memory is provided. */
#include "base/workers.h"
#include "object/library.h"
#include "object/model.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool cr_object_size(int64_t *out, const int64_t *size, int64_t n)
{
    int64_t square, rest;

    return !__builtin_mul_overflow(n, n, &square) &&
           !__builtin_mul_overflow(square, size[2], &square) &&
           !__builtin_mul_overflow(n, size[1], &rest) &&
           !__builtin_add_overflow(square, rest, &rest) &&
           !__builtin_add_overflow(rest, size[0], out) && *out >= 0;
}

/* --- checks --- */

/* "2 * batch + 1" */
static const char *size_text(const cr_object_model *model, const int64_t *size)
{
    char *out = cr_error_scratch();
    size_t at = 0;

    if (size[1] != 1)
        at += (size_t)snprintf(out, CR_SCRATCH_BYTES, "%" PRId64 " * ", size[1]);
    at += (size_t)snprintf(out + at, CR_SCRATCH_BYTES - at, "%.100s", model->symbol);
    if (size[0])
        snprintf(out + at, CR_SCRATCH_BYTES - at, size[0] < 0 ? " - %" PRIu64 : " + %" PRIu64,
                 size[0] < 0 ? 0 - (uint64_t)size[0] : (uint64_t)size[0]);
    return out;
}

static cr_status check_kind(const cr_object_array *a, const cr_aot_value *x)
{
    if (!x->dtype || strcmp(a->dtype, x->dtype))
        return cr_fail(CR_VALUE, "input %s must have the dtype %s, not %s", a->name, a->dtype,
                       x->dtype ? x->dtype : "NULL");
    if (a->ndim != x->ndim)
        return cr_fail(CR_VALUE, "input %s must have %d dims, not %d", a->name, a->ndim,
                       x->ndim);
    return CR_OK;
}

/* Finds n, or checks it, by a dim that varies. */
static cr_status check_varying(const cr_object_model *model, const cr_object_array *a, int d,
                               int64_t given, int64_t *n)
{
    const int64_t *size = a->size + 3 * d;
    int64_t found = given >= 0 && size[1] ? (given - size[0]) / size[1] : 0, back;

    if (!cr_object_size(&back, size, found) || back != given)
        return cr_fail(CR_VALUE, "input %s: the size of dim %d must be %s, not %" PRId64,
                       a->name, d, size_text(model, size), given);
    if (found < model->least || found > model->most)
        return cr_fail(
            CR_VALUE, "input %s: the size of dim %d is %" PRId64 ", but %s must be %s %" PRId64,
            a->name, d, given, size_text(model, size),
            found < model->least ? "at least" : "at most",
            cr_object_size(&back, size, found < model->least ? model->least : model->most)
                ? back
                : 0);
    if (*n >= 0 && *n != found)
        return cr_fail(CR_VALUE,
                       "input %s: the size of dim %d must be %s with %s = %" PRId64
                       ", as in the inputs before, not %" PRId64,
                       a->name, d, size_text(model, size), model->symbol, *n, given);
    *n = found;
    return CR_OK;
}

static cr_status check_input(const cr_object_model *model, const cr_object_array *a,
                             const cr_aot_value *x, int64_t *n)
{
    CR_TRY(check_kind(a, x));
    for (int d = 0; d < a->ndim; d++) {
        const int64_t *size = a->size + 3 * d;
        if (size[1] || size[2])
            CR_TRY(check_varying(model, a, d, x->size[d], n));
        else if (x->size[d] != size[0])
            return cr_fail(CR_VALUE,
                           "input %s: the size of dim %d must be %" PRId64 ", not %" PRId64,
                           a->name, d, size[0], x->size[d]);
    }
    return CR_OK;
}

static cr_status check_inputs(const cr_aot *m, const cr_aot_value *in, int inputs, int64_t *n)
{
    const cr_object_model *model = m->model;

    if (inputs != model->inputs)
        return cr_fail(CR_VALUE, "the model takes %d inputs, not %d", model->inputs, inputs);
    if (!in && inputs)
        return cr_fail(CR_TYPE, "the inputs must be a list of cr_aot_value, not NULL");
    *n = -1;
    for (int k = 0; k < inputs; k++)
        CR_TRY(check_input(model, &model->input[k], &in[k], n));
    *n = *n < 0 ? model->least : *n;
    return CR_OK;
}

static bool has_elements(const cr_object_array *a, int64_t n)
{
    int64_t size;

    for (int d = 0; d < a->ndim; d++)
        if (cr_object_size(&size, a->size + 3 * d, n) && !size)
            return false;
    return true;
}

int cr_aot_output_size(const cr_aot *m, const cr_aot_value *in, int inputs, int k,
                       int64_t *size)
{
    int64_t n;

    if (k < 0 || k >= m->model->outputs)
        return cr_fail(CR_INDEX, "the model has %d outputs, and none has the number %d",
                       m->model->outputs, k);
    CR_TRY(check_inputs(m, in, inputs, &n));
    for (int d = 0; d < m->model->output[k].ndim; d++)
        if (!cr_object_size(&size[d], m->model->output[k].size + 3 * d, n))
            return cr_fail(CR_VALUE, "output %d is too large", k);
    return CR_OK;
}

/* Arrays without elements need no memory. */
static cr_status check_data(const cr_aot *m, int64_t n, const cr_aot_value *in,
                            void *const *out)
{
    const cr_object_model *model = m->model;

    for (int k = 0; k < model->inputs; k++)
        if (!in[k].data && has_elements(&model->input[k], n))
            return cr_fail(CR_TYPE, "input %s has no memory: data is NULL",
                           model->input[k].name);
    for (int k = 0; k < model->outputs; k++)
        if ((!out || !out[k]) && has_elements(&model->output[k], n))
            return cr_fail(CR_TYPE, "output %d has no memory: it is NULL", k);
    return CR_OK;
}

/* --- threads --- */

typedef struct {
    void (*part)(void *argument, int k);
    void *argument;
} shared_call;

static void call_parts(void *context, int64_t begin, int64_t end)
{
    const shared_call *c = context;

    for (int64_t k = begin; k < end; k++)
        c->part(c->argument, (int)k);
}

static void share(void *context, void (*part)(void *argument, int k), void *argument, int parts)
{
    shared_call c = {part, argument};

    (void)context;
    cr_workers_run(parts, parts, call_parts, &c);
}

/* --- calls --- */

static cr_status provide_work(cr_aot *m, size_t bytes)
{
    if (bytes <= m->work_bytes)
        return CR_OK;
    free(m->work);
    m->work_bytes = 0;
    m->work = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!m->work)
        return cr_fail(CR_MEMORY, "no memory for %zu bytes that a call of the model needs",
                       bytes);
    m->work_bytes = bytes;
    return CR_OK;
}

static cr_status run_locked(cr_aot *m, int64_t n, void **data, void *const *out)
{
    cr_object_threads threads = {.parts = m->threads > 0 ? m->threads : cr_threads(),
                                 .run = share};

    uint64_t failures = cr_object_failures();

    CR_TRY(provide_work(m, m->model->work_bytes(n, threads.parts)));
    if (m->model->run(n, m->weights, data, m->state, out, m->work,
                      threads.parts > 1 ? &threads : NULL))
        return cr_fail(CR_INDEX, "index out of range in the model");
    return cr_object_failures() == failures
               ? CR_OK
               : cr_fail(CR_RUNTIME, "oneDNN failed to compute a product of the model; it may "
                                     "have no memory");
}

int cr_aot_run(cr_aot *m, const cr_aot_value *in, int inputs, void *const *out, int outputs)
{
    int64_t n;
    void **data;
    cr_status st;

    if (outputs != m->model->outputs)
        return cr_fail(CR_VALUE, "the model has %d outputs, not %d", m->model->outputs,
                       outputs);
    CR_TRY(check_inputs(m, in, inputs, &n));
    CR_TRY(check_data(m, n, in, out));
    data = cr_alloc(((size_t)inputs + 1) * sizeof *data);
    if (!data)
        return CR_MEMORY;
    for (int k = 0; k < inputs; k++)
        data[k] = in[k].data;
    pthread_mutex_lock(&m->lock);
    st = run_locked(m, n, data, out);
    pthread_mutex_unlock(&m->lock);
    cr_free(data);
    return st;
}
