#include "autograd/helpers.h"
#include <pthread.h>

enum { THREADS = 4, RUNS = 500 };

/* Builds a small graph over a shared leaf and runs it, repeatedly. */
static void *worker(void *p)
{
    cr_tensor *shared = p;

    for (int i = 0; i < RUNS; i++) {
        cr_tensor *y = NULL, *s = NULL;
        cr_status st = try_op(&y, "mul", 2, (cr_value[]){T(shared), T(shared)});
        if (!st)
            st = try_op(&s, "sum", 1, (cr_value[]){T(y)});
        if (!st)
            st = backward_from(s, false, false);
        cr_drop(s);
        cr_drop(y);
        if (st)
            return "failed";
    }
    return NULL;
}

TEST(threads_may_share_a_leaf)
{
    cr_tensor *shared = keep_tensor(LEAF(1, 2));
    pthread_t thread[THREADS];
    void *failed;

    for (int i = 0; i < THREADS; i++)
        EQ(pthread_create(&thread[i], NULL, worker, shared), 0);
    for (int i = 0; i < THREADS; i++) {
        EQ(pthread_join(thread[i], &failed), 0);
        EQ(failed, NULL);
    }
    SAME(cr_grad_of(shared), 2.0 * THREADS * RUNS, 4.0 * THREADS * RUNS);
    drop_kept();
}

static void *drop_graph(void *p)
{
    cr_drop(p);
    return NULL;
}

TEST(a_graph_may_be_freed_by_another_thread)
{
    cr_tensor *a = keep_tensor(LEAF(1)), *y = cr_keep(a);
    pthread_t thread;

    for (int i = 0; i < 1000; i++) {
        cr_tensor *next;
        OK(try_op(&next, "mul", 2, (cr_value[]){T(y), T(a)}));
        cr_drop(y);
        y = next;
    }
    EQ(pthread_create(&thread, NULL, drop_graph, y), 0);
    EQ(pthread_join(thread, NULL), 0);
    drop_kept();
}
