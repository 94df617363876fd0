/* Loops of the host (kern/loops.h) on NVIDIA devices: a thread runs a unit at a time. */
#include "kern/loops.h"
#include "base/memory.h"
#include "device/cuda/cuda.h"
#include "jit/cuda.h"
#include "kern/cuda/commands.h"
#include "kern/cuda/sort.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { LOOPS_ROOM = 3072 };

/* cl_call of emit/loops_run.cuh */
typedef struct {
    int64_t n;
    char job[LOOPS_ROOM];
} loops_call;

/* The loops that were run, each once: b of a cr_cuda_text is a place of this list.  (Addresses
 * do not name loops, because a caller may have its cr_loops on the stack.) */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CR_VEC(cr_loops) known;

static bool loops_are_same(const cr_loops *a, const cr_loops *b)
{
    return a->text == b->text && a->job == b->job &&
           (a->name == b->name || !strcmp(a->name, b->name));
}

static cr_status loops_number(int *out, const cr_loops *l)
{
    cr_status st = CR_OK;
    size_t n = 0;

    pthread_mutex_lock(&lock);
    while (n < known.len && !loops_are_same(&known.at[n], l))
        n++;
    if (n == known.len && !(st = cr_vec_reserve(&known, 1)))
        cr_vec_put(&known, *l);
    pthread_mutex_unlock(&lock);
    *out = (int)n;
    return st;
}

static cr_loops loops_known(int number)
{
    pthread_mutex_lock(&lock);
    cr_loops l = known.at[number];
    pthread_mutex_unlock(&lock);
    return l;
}

static void loops_print(cr_text *out, char symbol[32], const cr_cuda_text *k)
{
    cr_loops l = loops_known(k->b);

    cr_text_printf(out, "#define CL_REAL %s\n#define CL_DOUBLE %d\n#define CL_FN cl_%s\n",
                   k->a == CR_F32 ? "float" : "double", k->a != CR_F32, l.name);
    cr_text_printf(out, "#define CL_JOB %zu\n", l.job);
    snprintf(symbol, 32, "cl_run");
}

static const char *loops_run(int index, const cr_loops *l, cr_dtype t, int64_t n,
                             const void *job)
{
    cr_cuda_text k = {.print = loops_print,
                      .device = index,
                      .part = CR_VEC_CUDA_LOOPS + (int)l->text,
                      .a = (int)t};
    loops_call c = {.n = n};
    void *function;

    if (loops_number(&k.b, l))
        return cr_error_message();
    if (l->job > sizeof c.job)
        return "CUDA: a job of a loop is longer than an argument";
    memcpy(c.job, job, l->job);
    const char *error = cr_cuda_find(&function, &k);
    return error ? error : cr_cuda_launch_each(index, function, n, &c);
}

static const char *loops_error(cr_loops_error *out, int index, cr_status kind, const char *text)
{
    cr_cuda_late late;
    const char *error = cr_cuda_late_begin(&late, index, kind, text);

    if (!error)
        *out = (cr_loops_error){late.word, late.number};
    return error;
}

void cr_cuda_install_loops(void)
{
    static const cr_loops_device device = {loops_run, loops_error, cr_cuda_sort};

    cr_loops_set_device(CR_CUDA, &device);
}
