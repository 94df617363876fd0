#include "base/memory.h"
#include "base/test.h"
#include "tensor/tensor.h"
#include <math.h>

enum { PARAMS = 3, LISTS = 5 }; /* parameters, gradients, means, squares, steps */

typedef struct {
    cr_tensor *t[LISTS][PARAMS];
    cr_value list[LISTS][PARAMS];
} problem;

static float *numbers(const cr_tensor *t) { return (float *)(void *)t->address; }

/* Parameters of 1, 300 and 90000 ones; steps are single numbers. */
static void begin(problem *p)
{
    static const int64_t size[PARAMS] = {1, 300, 90000};

    OK(cr_tensor_start());
    for (int k = 0; k < LISTS; k++)
        for (int i = 0; i < PARAMS; i++) {
            OK(cr_tensor_new(&p->t[k][i], CR_F32, CR_HOST, k < LISTS - 1, &size[i]));
            for (int64_t j = 0; j < p->t[k][i]->numel; j++)
                numbers(p->t[k][i])[j] = k < 2 ? 1 : 0;
            p->list[k][i] = cr_of_tensor(p->t[k][i]);
        }
}

static void end(problem *p)
{
    for (int k = 0; k < LISTS; k++)
        for (int i = 0; i < PARAMS; i++)
            cr_drop(p->t[k][i]);
}

static cr_status step(const problem *p, int steps)
{
    cr_value arg[16], result[1];

    for (int k = 0; k < 4; k++)
        arg[k] = (cr_value){.tag = CR_TENSORS, .len = PARAMS, .list = p->list[k]};
    arg[4] = (cr_value){.tag = CR_TENSORS};
    arg[5] = (cr_value){.tag = CR_TENSORS, .len = (uint32_t)steps, .list = p->list[4]};
    for (int i = 0; i < 5; i++)
        arg[6 + i] = cr_of_float(((double[]){0.5, 0.9, 0.99, 0, 0}[i]));
    arg[11] = arg[12] = arg[15] = cr_of_bool(false);
    arg[13] = arg[14] = cr_of_none();
    return cr_call_named("_counted_adam_", arg, 16, result);
}

TEST(one_call_steps_every_parameter_and_counts)
{
    problem p;

    begin(&p);
    OK(step(&p, PARAMS));
    for (int i = 0; i < PARAMS; i++) {
        EQ(numbers(p.t[4][i])[0], 1.0f);
        for (int64_t j = 0; j < p.t[0][i]->numel; j++)
            if (fabsf(numbers(p.t[0][i])[j] - 0.5f) > 1e-6f)
                cr_test_failed(__FILE__, __LINE__, "parameter %d, element %lld", i,
                               (long long)j);
    }
    end(&p);
}

TEST(a_step_that_fails_has_changed_nothing)
{
    problem p;

    begin(&p);
    FAILS(CR_RUNTIME, step(&p, PARAMS - 1));
    EQ_STR(cr_error_message(), "lists of 3 parameters and 2 steps");
    for (uint64_t n = 1; n <= 2; n++) {
        cr_fail_alloc_after(n);
        FAILS(CR_MEMORY, step(&p, PARAMS));
        cr_fail_alloc_after(0);
    }
    for (int i = 0; i < PARAMS; i++) {
        EQ(numbers(p.t[4][i])[0], 0.0f);
        EQ(numbers(p.t[0][i])[0], 1.0f);
        EQ(numbers(p.t[2][i])[0], 0.0f);
    }
    OK(step(&p, PARAMS));
    end(&p);
}
