/* simt.h - CUDA kernels on a processor, to check them without a GPU.
 *
 * Blocks run one after the other; the threads of a block are fibers.  A fiber gives way where
 * it waits for others: at a barrier, and at a shuffle for the lanes of its mask.  When all
 * fibers wait, the kernel would hang on a GPU, and the process aborts. */
#ifndef SIMT_H
#define SIMT_H

#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <ucontext.h>
#include <vector>

/* Defines a kernel, <name>_simt, which runs it with a grid, and <name>_bytes, the size of its
 * parameter. */
#define CK_KERNEL(name, ...) CK_KERNEL_(name, __VA_ARGS__)
#define CK_KERNEL_(name, ...)                                                                  \
    static void name(const __VA_ARGS__ call);                                                  \
    extern "C" const int name##_bytes = sizeof(__VA_ARGS__);                                   \
    extern "C" void name##_simt(const void *argument, int gx, int gy, int bx, int by)          \
    {                                                                                          \
        const __VA_ARGS__ call = *(const __VA_ARGS__ *)argument;                               \
        simt::launch([&] { name(call); }, gx, gy, bx, by);                                     \
    }                                                                                          \
    static void name(const __VA_ARGS__ call)
#define CK_KERNEL_OF(threads, name, ...) CK_KERNEL_(name, __VA_ARGS__)
#define CK_SHARED                        static

namespace simt
{

enum { STACK = 1 << 18, WARP = 32, MOST_THREADS = 1024 };

struct fiber {
    ucontext_t start;
    jmp_buf at;
    char *stack;
    bool begun, ended;
    int barriers;        /* that it has come to */
    int arrived, left;   /* shuffles */
    int word;            /* what it offers in a shuffle */
    unsigned offered[6]; /* the same in a product of matrices */
    const void *row;
};

static fiber fibers[MOST_THREADS];
static jmp_buf scheduler;
static const std::function<void()> *body;
static int current, threads, grid[2], block[2], at[2];
static bool moved; /* some fiber did something since the last round */

static void give_way()
{
    if (!_setjmp(fibers[current].at))
        _longjmp(scheduler, 1);
}

static void enter()
{
    (*body)();
    fibers[current].ended = true;
    moved = true;
    _longjmp(scheduler, 1);
}

static void resume(fiber &f)
{
    if (_setjmp(scheduler))
        return;
    if (f.begun)
        _longjmp(f.at, 1);
    f.begun = true;
    getcontext(&f.start);
    f.start.uc_stack.ss_sp = f.stack;
    f.start.uc_stack.ss_size = STACK;
    f.start.uc_link = nullptr;
    makecontext(&f.start, enter, 0);
    setcontext(&f.start);
}

static void run_block()
{
    for (int i = 0; i < threads; i++) {
        fiber &f = fibers[i];
        if (!f.stack)
            f.stack = (char *)malloc(STACK);
        f.begun = f.ended = false;
        f.barriers = f.arrived = f.left = 0;
    }
    for (int ended = 0; ended < threads;) {
        moved = false;
        ended = 0;
        for (int i = 0; i < threads; i++) {
            current = i;
            if (!fibers[i].ended)
                resume(fibers[i]);
            ended += fibers[i].ended;
        }
        if (!moved) {
            fprintf(stderr, "all threads of a block wait\n");
            abort();
        }
    }
}

static void launch(const std::function<void()> &f, int gx, int gy, int bx, int by)
{
    body = &f;
    threads = bx * by;
    grid[0] = gx, grid[1] = gy, block[0] = bx, block[1] = by;
    for (at[1] = 0; at[1] < gy; at[1]++)
        for (at[0] = 0; at[0] < gx; at[0]++)
            run_block();
}

/* Every thread of a block comes to every barrier; one that has ended never will. */
static void barrier()
{
    int n = ++fibers[current].barriers;

    moved = true;
    for (int i = 0; i < threads; i++)
        while (fibers[i].barriers < n)
            give_way();
}

/* The word that lane `from` of the warp offers; all lanes of the mask take part. */
static int shuffle(unsigned mask, int word, int from)
{
    fiber *warp = fibers + current / WARP * WARP, &me = fibers[current];
    int n = ++me.arrived, result;

    me.word = word;
    moved = true;
    for (int i = 0; i < WARP; i++)
        while (mask >> i & 1 && warp[i].arrived < n)
            give_way();
    result = warp[from].word;
    me.left = n;
    moved = true;
    for (int i = 0; i < WARP; i++)
        while (mask >> i & 1 && warp[i].left < n)
            give_way();
    return result;
}

/* As PTX has it: lanes of segments that `clamp` tells; beyond its segment a lane reads itself.
 */
static int down(unsigned mask, int word, int by, int clamp)
{
    int lane = current % WARP, segment = clamp >> 8 & 31;
    int last = (lane & segment) | (clamp & 31 & ~segment);

    return shuffle(mask, word, lane + by <= last ? lane + by : lane);
}

static int index(unsigned mask, int word, int which, int clamp)
{
    int lane = current % WARP, segment = clamp >> 8 & 31;

    return shuffle(mask, word, (lane & segment) | (which & ~segment));
}

/* --- operations of whole warps --- */

static unsigned ballot(bool truth)
{
    unsigned bits = 0;

    fibers[current].offered[0] = truth;
    shuffle(~0u, 0, current % WARP);
    for (int i = 0; i < WARP; i++)
        bits |= fibers[current / WARP * WARP + i].offered[0] << i;
    shuffle(~0u, 0, current % WARP);
    return bits;
}

/* ldmatrix.m8n8.x4: lane 8 * j + i has the address of row i of matrix j, lane l gets two
 * neighbours of row l / 4, or of column l / 4 where it is turned. */
static void load_matrices(unsigned *r, const void *row, bool turned)
{
    const fiber *warp = fibers + current / WARP * WARP;
    int lane = current % WARP;

    fibers[current].row = row;
    shuffle(~0u, 0, lane);
    for (int j = 0; j < 4; j++) {
        unsigned two[2];
        for (int e = 0; e < 2; e++) {
            int a = lane / 4, b = lane % 4 * 2 + e;
            two[e] =
                ((const unsigned short *)warp[8 * j + (turned ? b : a)].row)[turned ? a : b];
        }
        r[j] = two[0] | two[1] << 16;
    }
    shuffle(~0u, 0, lane);
}

/* mma.m16n8k16.row.col: c += a * b.  `widen` makes a float of a half. */
template <class F> static void multiply(float *c, const unsigned *a, const unsigned *b, F widen)
{
    fiber *warp = fibers + current / WARP * WARP;
    int lane = current % WARP;

    for (int i = 0; i < 4; i++)
        fibers[current].offered[i] = a[i];
    fibers[current].offered[4] = b[0];
    fibers[current].offered[5] = b[1];
    shuffle(~0u, 0, lane);
    for (int i = 0; i < 4; i++) {
        int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
        float sum = 0;
        for (int k = 0; k < 16; k++) {
            unsigned x = warp[row % 8 * 4 + k % 8 / 2].offered[row / 8 + k / 8 * 2];
            unsigned y = warp[column * 4 + k % 8 / 2].offered[4 + k / 8];
            sum += widen((unsigned short)(x >> k % 2 * 16)) *
                   widen((unsigned short)(y >> k % 2 * 16));
        }
        c[i] += sum;
    }
    shuffle(~0u, 0, lane);
}

static int add(int *p, int x)
{
    int was = *p;
    *p = was + x;
    return was;
}

/* Fibers change places only where they wait. */
static void most(unsigned long long *p, unsigned long long x) { *p = *p > x ? *p : x; }

} // namespace simt

#define __nvvm_read_ptx_sreg_tid_x()             (simt::current % simt::block[0])
#define __nvvm_read_ptx_sreg_tid_y()             (simt::current / simt::block[0])
#define __nvvm_read_ptx_sreg_ntid_x()            simt::block[0]
#define __nvvm_read_ptx_sreg_ntid_y()            simt::block[1]
#define __nvvm_read_ptx_sreg_ctaid_x()           simt::at[0]
#define __nvvm_read_ptx_sreg_ctaid_y()           simt::at[1]
#define __nvvm_read_ptx_sreg_nctaid_x()          simt::grid[0]
#define __nvvm_read_ptx_sreg_nctaid_y()          simt::grid[1]
#define __nvvm_shfl_sync_down_i32(m, w, by, c)   simt::down(m, w, by, c)
#define __nvvm_shfl_sync_idx_i32(m, w, which, c) simt::index(m, w, which, c)
#define __nvvm_atom_max_gen_ull(p, x)            simt::most(p, x)
#define __nvvm_atom_add_gen_i(p, x)              simt::add(p, x)
#define __nvvm_vote_ballot_sync(m, truth)        simt::ballot(truth)
#define __nvvm_bar_warp_sync(m)                  simt::shuffle(m, 0, simt::current % simt::WARP)
#define __syncthreads()                          simt::barrier()

#endif
