/* Programs compared with their graphs run node by node; reuse of memory; failing
 * allocations. */
#include "autograd/autograd.h"
#include "base/parallel.h"
#include "base/test.h"
#include "compile/program.h"
#include "jit/jit.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void start(void)
{
    setenv("CR_CC", "false", 1); /* tiles only: nothing is compiled or cached */
    OK(cr_tensor_start());
    OK(cr_autograd_start());
}

typedef struct {
    cr_session s;
    const char *text;
    cr_graph *g;
} graph_text;

static void parse(cr_session *s, void *context)
{
    graph_text *t = context;

    t->g = cr_graph_parse(s, t->text);
    cr_graph_verify(t->g);
}

static cr_status read_graph(graph_text *t, const char *text)
{
    *t = (graph_text){.text = text};
    return cr_session_run(&t->s, parse, t);
}

static void drop_graph(graph_text *t)
{
    cr_graph_drop(t->g);
    cr_session_drop(&t->s);
}

static cr_program *program_of(graph_text *t, const char *text)
{
    cr_program *p = NULL;

    start();
    OK(read_graph(t, text));
    OK(cr_program_new(&p, t->g, 0));
    return p;
}

static cr_tensor *ramp(int rows, int columns, float from)
{
    cr_tensor *t = NULL;

    OK(cr_tensor_new(&t, CR_F32, CR_HOST, 2, (int64_t[]){rows, columns}));
    for (int i = 0; i < rows * columns; i++)
        ((float *)(void *)t->address)[i] = from + 0.25f * (float)i;
    return t;
}

static void equal(const cr_tensor *a, const cr_tensor *b)
{
    EQ(a->numel, b->numel);
    CHECK(a->contiguous && b->contiguous && a->dtype == b->dtype);
    CHECK(
        !memcmp(a->address, b->address, (size_t)a->numel * cr_dtype_size((cr_dtype)a->dtype)));
}

#define CHAIN                                                                                  \
    "graph(%x: float32[3, 4], %y: float32[3, 4]) {\n"                                          \
    "  %a: float32[3, 4] = logcumsumexp(%x, 1)\n"                                              \
    "  %b: float32[3, 4] = exp(%a)\n"                                                          \
    "  %c: float32[3, 4] = mul(%b, %y)\n"                                                      \
    "  %d: float32[3, 4] = logcumsumexp(%c, 1)\n"                                              \
    "  return %d, %c, %d\n"                                                                    \
    "}\n"

TEST(a_program_gives_the_bits_of_its_graph)
{
    graph_text t;
    cr_program *p = program_of(&t, CHAIN);

    for (int threads = 1; threads < 3; threads++) {
        cr_tensor *in[2] = {ramp(3, 4, -1), ramp(3, 4, (float)threads)}, *want[3], *got[3];
        OK(cr_set_threads(threads));
        OK(cr_graph_run(t.g, in, want));
        OK(cr_program_run(p, in, NULL, got));
        CHECK(got[0] == got[2]);
        for (int k = 0; k < 3; k++) {
            equal(want[k], got[k]);
            cr_drop(want[k]);
            cr_drop(got[k]);
        }
        cr_drop(in[0]);
        cr_drop(in[1]);
    }
    cr_program_drop(p);
    drop_graph(&t);
}

static void prints(const char *graph, const char *plan)
{
    graph_text t;
    cr_program *p = program_of(&t, graph);
    cr_text text = {0};

    cr_program_print(&text, p);
    EQ_STR(cr_text_str(&text), plan);
    cr_text_drop(&text);
    cr_program_drop(p);
    drop_graph(&t);
}

TEST(the_plan_is_readable)
{
    prints(CHAIN,
           "program(%x, %y) {\n"
           "  0: %a = logcumsumexp(%x) | 48\n"
           "  1: %c_1 = group[exp mul](%a, %y) in %a frees %a | 48\n"
           "  2: %d = logcumsumexp(%c_1) | 96\n"
           "  return %d, %c_1, %d\n"
           "}\n"
           "4 slots, 1 results in the bytes of others, at most 96 bytes alive (step 2)\n");
}

TEST(a_program_tells_its_inputs_outputs_and_peak)
{
    graph_text t;
    cr_program *p = program_of(&t, CHAIN);

    EQ(cr_program_peak(p), 96);
    EQ(cr_program_inputs(p), 2);
    EQ(cr_program_outputs(p), 3);
    cr_program_drop(p);
    drop_graph(&t);
}

/* resolve_neg returns its argument when that has no bit, whatever its strides; the plan knows
 * it and keeps the argument's bytes. */
TEST(a_node_that_returns_its_argument_is_planned_as_a_view)
{
    graph_text t;
    cr_program *p = program_of(&t, "graph(%x: float32[3, 4] by [1, 3]) {\n"
                                   "  %same: float32[3, 4] by [1, 3] = resolve_neg(%x)\n"
                                   "  %a: float32[3, 4] by [1, 3] = pow(0.5, %same)\n"
                                   "  return %same, %a\n"
                                   "}\n");
    cr_tensor *in = NULL, *out[2];

    OK(cr_tensor_new_strided(&in, CR_F32, CR_HOST, 2, (int64_t[]){3, 4}, (int64_t[]){1, 3}));
    memset(in->address, 0, 12 * sizeof(float));
    OK(cr_program_run(p, &in, NULL, out));
    CHECK(out[0]->storage == in->storage);
    CHECK(out[1]->storage != in->storage);
    for (int k = 0; k < 2; k++)
        cr_drop(out[k]);
    cr_drop(in);
    cr_program_drop(p);
    drop_graph(&t);
}

TEST(inputs_of_another_type_are_refused_without_a_leak)
{
    graph_text t;
    cr_program *p = program_of(&t, CHAIN);
    cr_tensor *in[2] = {ramp(3, 4, 0), ramp(4, 3, 0)}, *out[3] = {NULL, NULL, NULL};

    FAILS(CR_RUNTIME, cr_program_run(p, in, NULL, out));
    EQ_STR(cr_error_message(),
           "%y is not what the program was made for: a tensor of [4, 3] and dtype float32");
    EQ(out[0], NULL);
    EQ(cr_thread.exclude, 0);
    cr_drop(in[0]);
    cr_drop(in[1]);
    cr_program_drop(p);
    drop_graph(&t);
}

/* A tensor with another reference is not overwritten: here, the item of the outer list. */
TEST(a_tensor_with_another_owner_is_not_written_over)
{
    graph_text t;
    cr_program *p = NULL;
    cr_tensor *in[1] = {ramp(3, 4, 1)}, *out[1];

    start();
    OK(read_graph(&t,
                  "graph(%x: float32[3, 4]) {\n"
                  "  %a: float32[3, 4] = dropout(%x, 0.5, False)\n" /* returns its argument */
                  "  %b: float32[3, 4] = neg(%a)\n"
                  "  return %b\n"
                  "}\n"));
    OK(cr_program_new(&p, t.g, 0));
    OK(cr_program_run(p, in, NULL, out));
    EQ(((float *)(void *)in[0]->address)[1], 1.25f);
    EQ(((float *)(void *)out[0]->address)[1], -1.25f);
    cr_drop(out[0]);
    cr_drop(in[0]);
    cr_program_drop(p);
    drop_graph(&t);
}

/* --- threads --- */

typedef struct {
    cr_program *p;
    const cr_graph *g;
    int wrong;
} worker;

static void *work(void *context)
{
    worker *w = context;

    for (int i = 0; i < 200; i++) {
        cr_tensor *in[2] = {ramp(3, 4, (float)i), ramp(3, 4, -1)}, *want[3], *got[3];
        if (cr_graph_run(w->g, in, want) || cr_program_run(w->p, in, NULL, got))
            w->wrong++;
        for (int k = 0; k < 3 && !w->wrong; k++) {
            w->wrong += memcmp(want[k]->address, got[k]->address, 48) != 0;
            cr_drop(want[k]);
            cr_drop(got[k]);
        }
        cr_drop(in[0]);
        cr_drop(in[1]);
    }
    return NULL;
}

TEST(several_threads_run_one_program)
{
    graph_text t;
    worker w[4];
    pthread_t thread[4];
    cr_program *p = NULL;

    start();
    OK(read_graph(&t, CHAIN));
    OK(cr_program_new(&p, t.g, 0));
    for (int i = 0; i < 4; i++) {
        w[i] = (worker){p, t.g, 0};
        EQ(pthread_create(&thread[i], NULL, work, &w[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(thread[i], NULL);
        EQ(w[i].wrong, 0);
    }
    cr_program_drop(p);
    drop_graph(&t);
}

/* --- failing allocations --- */

static int64_t used(void)
{
    cr_memory_stats stats;

    cr_cpu_memory_stats(&stats);
    return stats.used;
}

static const char faulty[] =
    "graph(%x: float32[3, 4], %y: float32[3, 4]) {\n"
    "  %a: float32[3, 4] = logcumsumexp(%x, 1)\n"
    "  %k: float32[4] = constant(1, 2, 3, 4)\n"
    "  %v: float32[4, 3] by [1, 4] = t(%a)\n"
    "  %b: float32[3, 4] = exp(%a)\n"
    "  %c: float32[3, 4] = mul(%b, %k)\n"
    "  %s: float32[1, 4], %u: float32[2, 4] = split_with_sizes(%c, [1, 2])\n"
    "  %j: float32[3, 4] = cat([%u, %s])\n"
    "  %p: bool[] = any(%y)\n"
    "  %r: float32[3, 4] = if %p {\n"
    "    %d: float32[3, 4] = neg(%j)\n"
    "    return %d\n"
    "  } else {\n"
    "    return %j\n"
    "  }\n"
    "  return %r, %v\n"
    "}\n";

static cr_status make_and_run(cr_graph *g, cr_tensor *const *in, uint64_t fail_at)
{
    cr_program *p = NULL;
    cr_tensor *out[2] = {NULL, NULL};
    cr_status st;

    cr_fail_alloc_after(fail_at);
    st = cr_program_new(&p, g, 0);
    if (!st)
        st = cr_program_run(p, in, NULL, out);
    cr_fail_alloc_after(0);
    cr_drop(out[0]);
    cr_drop(out[1]);
    cr_program_drop(p);
    return st;
}

static void fail_everywhere(const char *text, cr_tensor *const *in)
{
    graph_text t;
    uint64_t n = 0;
    int successes = 0; /* a group can run without code, a cache without memory */
    int64_t before;

    start();
    OK(read_graph(&t, text));
    OK(make_and_run(t.g, in, 0));
    before = used();
    while (successes < 60) {
        cr_status st = make_and_run(t.g, in, ++n);
        if (st && st != CR_MEMORY)
            cr_test_failed(__FILE__, __LINE__, "allocation %llu: %s", (unsigned long long)n,
                           cr_error_message());
        successes = st ? 0 : successes + 1;
        EQ(cr_thread.exclude, 0);
        CHECK(!cr_thread.no_grad);
    }
    OK(make_and_run(t.g, in, 0));
    CHECK(used() - before < 4096);
    CHECK(n > 80);
    drop_graph(&t);
}

TEST(every_allocation_may_fail)
{
    cr_tensor *in[2] = {ramp(3, 4, 0), ramp(3, 4, 1)};

    fail_everywhere(faulty, in);
    cr_drop(in[0]);
    cr_drop(in[1]);
}
