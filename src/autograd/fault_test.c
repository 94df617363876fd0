/* Every allocation of a scenario fails in turn: the call fails with CR_MEMORY, no memory leaks,
 * and the next attempt succeeds. */
#include "autograd/helpers.h"
#include "base/memory.h"

enum { MOST = 32 };
typedef struct {
    cr_tensor *made[MOST];
    int count;
} bag;

static cr_status put(bag *b, cr_tensor **out, const char *name, int n, const cr_value *arg)
{
    CR_TRY(try_op(out, name, n, arg));
    b->made[b->count++] = *out;
    return CR_OK;
}
#define PUT(out, name, ...)                                                                    \
    CR_TRY(put(b, out, name, (int)CR_LEN(((cr_value[]){__VA_ARGS__})),                         \
               (cr_value[]){__VA_ARGS__}))

static cr_status keep_gradient(void *context, cr_tensor **grads, int n, cr_tensor *const *given,
                               int m)
{
    (void)context, (void)grads, (void)n, (void)given, (void)m;
    return CR_OK;
}

static cr_status new_leaf(bag *b, cr_tensor **out)
{
    CR_TRY(cr_tensor_new(out, CR_F64, CR_HOST, 1, (int64_t[]){3}));
    b->made[b->count++] = *out;
    for (int i = 0; i < 3; i++)
        ((double *)(void *)(*out)->address)[i] = i + 1;
    return cr_set_requires_grad(*out, true);
}

static cr_status all_of_it(bag *b)
{
    cr_tensor *a, *x, *v, *y, *s, *g[2] = {NULL, NULL};
    cr_hook *h;

    CR_TRY(new_leaf(b, &a));
    PUT(&x, "mul", T(a), T(a));
    CR_TRY(cr_retain_grad(x));
    CR_TRY(cr_hook_tensor(&h, x, &(cr_hook_call){.fn = keep_gradient}));
    cr_hook_drop(h);
    PUT(&v, "select", T(x), cr_of_int(0), cr_of_int(1));
    CR_TRY(INPLACE("mul", T(v), T(v)));
    CR_TRY(INPLACE("square", T(x)));
    PUT(&y, "exp", T(x));
    PUT(&s, "sum", T(y));
    cr_tensor *inputs[2] = {a, x};
    cr_backward_call c = {.roots = &s,
                          .root_count = 1,
                          .inputs = inputs,
                          .input_count = 2,
                          .create_graph = true,
                          .retain_graph = true};
    CR_TRY(cr_backward(&c, g));
    b->made[b->count++] = g[0];
    b->made[b->count++] = g[1];
    PUT(&y, "sum", T(g[0]));
    return backward_from(y, false, false);
}

static int64_t used(void)
{
    cr_memory_stats stats;

    cr_cpu_memory_stats(&stats);
    return stats.used;
}

static cr_status attempt(void)
{
    bag b = {.count = 0};
    cr_status st = all_of_it(&b);

    while (b.count)
        cr_drop(b.made[--b.count]);
    cr_thread.no_grad = false;
    return st;
}

TEST(every_allocation_may_fail)
{
    uint64_t n = 0;
    cr_status st;

    start_autograd();
    OK(attempt());
    int64_t before = used();
    do {
        cr_fail_alloc_after(++n);
        st = attempt();
        cr_fail_alloc_after(0);
        if (st && st != CR_MEMORY)
            cr_test_failed(__FILE__, __LINE__, "allocation %llu: %s", (unsigned long long)n,
                           cr_error_message());
        EQ(used(), before);
        EQ(cr_thread.exclude, 0);
    } while (st == CR_MEMORY);
    OK(st);
    CHECK(n > 20);
}
