/* Every allocation of a C program's training fails in turn.  The program gets one CR_MEMORY
 * error, no memory leaks, and the next attempt succeeds. */
#include "base/test.h"
#include "io/png.h"
#include "io/safetensors.h"
#include "nn/nn.h"
#include <stdlib.h>
#include <unistd.h>

#define cr_view cr_view_operator
#include "cresset.h"
#undef cr_view
#include "cresset_easy.h"
#include "cresset_easy_ops.h"

static char path[] = "/tmp/cresset_fault_test_XXXXXX";

static cr_status kind;
static int errors;
static void note(const ct_error *e, void *context)
{
    (void)context;
    kind = e->kind;
    errors++;
}

static void train(void)
{
    cr_tensor *x = ct_randn(6, 2), *y = ct_randint(0, 3, CT_LIST(6)), *a, *b, *where = NULL;
    cr_module *net =
        ct_Sequential(ct_Linear(2, 4), ct_BatchNorm1d(4), ct_ReLU(), ct_Linear(4, 3));
    cr_loader *data = ct_loader(CT_TENSORS(x, y), CT(batch_size, 3), CT(shuffle, true));
    cr_optim *adam = ct_Adam(ct_parameters(net)), *sgd = ct_SGD(ct_parameters(net), 0.1, 0.9);
    ct_for_batches(data, &a, &b)
    {
        ct_zero_grad(adam);
        ct_backward(ct_cross_entropy_loss(ct_forward(net, a), b));
        ct_step(adam);
        ct_step(sgd);
    }
    ct_topk(ct_forward(net, x), 2, &where);
    ct_owned(where);
    ct_split(x, 2);
    ct_scope { ct_keep(ct_tensor(CT_FLOATS(1, 2))); }
    ct_save(net, path);
    ct_load(net, path);
    ct_read_text(path, CT(skiprows, 100000));
}

static int64_t used(void)
{
    cr_memory_stats m;

    cr_cpu_memory_stats(&m);
    return m.used;
}

/* Runs the training; the n-th allocation fails.  False when there were fewer allocations. */
static bool attempt(uint64_t n)
{
    errors = 0;
    cr_fail_alloc_after(n);
    ct_scope { train(); }
    bool reached = errors != 0;
    cr_fail_alloc_after(0);
    ct_clear_error();
    return reached;
}

TEST(every_allocation_of_a_training_program_fails_in_turn)
{
    int file = mkstemp(path);
    uint64_t n = 1;

    close(file);
    CHECK(!attempt(0)); /* process-wide caches are allocated here */
    CHECK(!attempt(0));
    ct_set_handler(note, NULL);
    int64_t before = used();
    for (; attempt(n); n++) {
        EQ(errors, 1);
        EQ(kind, CR_MEMORY);
        if (used() != before)
            cr_test_failed(__FILE__, __LINE__, "allocation %d: %lld bytes are left", (int)n,
                           (long long)(used() - before));
        before = used();
    }
    CHECK(n > 300);
    CHECK(!attempt(0));
    ct_set_handler(NULL, NULL);
    unlink(path);
}
