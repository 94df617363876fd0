/* simt.h - CUDA kernels on a processor, to check them without a GPU.
 *
 * Blocks run one after the other; the threads of a block are fibers.  A fiber gives way where
 * it waits for others: at a barrier, and at a shuffle for the lanes of its mask.  When all
 * fibers wait, the kernel would hang on a GPU, and the process aborts.
 *
 * Every kernel's text includes this header, so it includes no header that is slow to
 * compile. */
#ifndef SIMT_H
#define SIMT_H

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

/* Defines a kernel, <name>_simt, which runs it with a grid, and <name>_bytes, the size of its
 * parameter. */
#define CK_KERNEL(name, ...) CK_KERNEL_(name, __VA_ARGS__)
#define CK_KERNEL_(name, ...)                                                                  \
    static void name(const __VA_ARGS__ call);                                                  \
    extern "C" const int name##_bytes = sizeof(__VA_ARGS__);                                   \
    static void name##_thread(const void *argument) { name(*(const __VA_ARGS__ *)argument); }  \
    extern "C" void name##_simt(const void *argument, int gx, int gy, int bx, int by)          \
    {                                                                                          \
        simt::launch(name##_thread, argument, gx, gy, bx, by);                                 \
    }                                                                                          \
    static void name(const __VA_ARGS__ call)
#define CK_KERNEL_OF(threads, name, ...) CK_KERNEL_(name, __VA_ARGS__)
#define CK_SHARED                        static
#define CK_DYNAMIC                       alignas(16) static char ck_dynamic[1 << 17]

namespace simt
{

enum { STACK = 1 << 18, WARP = 32, MOST_THREADS = 1024, MOST_WARPS = MOST_THREADS / WARP };

/* What a lane offers to others.  A lane may come to its next shuffle before the others have
 * read its word of this one, so there are two places.  Lanes run in turn: all of them have read
 * their words before one of them comes to the shuffle after the next. */
struct offer {
    int word;
    unsigned of[6]; /* in a product of matrices */
    const void *row;
};

struct fiber {
    jmp_buf at;
    char *stack;
    int arrived; /* shuffles that it has come to */
    offer offers[2];
};

static fiber fibers[MOST_THREADS];
static unsigned ready[MOST_WARPS]; /* lanes that can run */
static jmp_buf scheduler;
static void (*body)(const void *);
static const void *argument;
static int current, threads, ended, waiting, grid[2], block[2], at[2];

static void enter();

static void start(fiber &f)
{
    ucontext_t context;

    /* Every kernel's library keeps its stacks.  Memory that is not reserved does not count when
     * the process forks. */
    void *made = mmap(nullptr, STACK, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made == MAP_FAILED) {
        fprintf(stderr, "there is no memory for a fiber\n");
        abort();
    }
    f.stack = (char *)made;
    getcontext(&context);
    context.uc_stack.ss_sp = f.stack;
    context.uc_stack.ss_size = STACK;
    context.uc_link = nullptr;
    makecontext(&context, enter, 0);
    setcontext(&context);
}

/* The next lane in turn, of those that can run. */
static int next_lane(unsigned lanes)
{
    unsigned later = lanes & ~1u << current % WARP;

    return __builtin_ctz(later ? later : lanes);
}

/* Runs the next fiber that can run: of this warp, or else of another one. */
static void run_next()
{
    const int warps = (threads + WARP - 1) / WARP;
    int w = current / WARP;

    if (ended == threads)
        _longjmp(scheduler, 1);
    for (int i = 0; i < warps && !ready[w]; i++)
        w = w + 1 < warps ? w + 1 : 0;
    if (!ready[w]) {
        fprintf(stderr, "all threads of a block wait\n");
        abort();
    }
    current = w * WARP + next_lane(ready[w]);
    ready[w] &= ~(1u << current % WARP);
    if (!fibers[current].stack)
        start(fibers[current]);
    _longjmp(fibers[current].at, 1);
}

static void give_way()
{
    if (!_setjmp(fibers[current].at))
        run_next();
}

/* A fiber runs one thread of each block. */
static void enter()
{
    for (;;) {
        body(argument);
        ended++;
        give_way();
    }
}

static void all_ready()
{
    for (int w = 0; w * WARP < threads; w++)
        ready[w] = threads - w * WARP >= WARP ? ~0u : (1u << (threads - w * WARP)) - 1;
}

static void run_block()
{
    for (int i = 0; i < (threads + WARP - 1) / WARP * WARP; i++)
        fibers[i].arrived = 0;
    current = ended = waiting = 0;
    all_ready();
    if (!_setjmp(scheduler))
        run_next();
}

static void launch(void (*kernel)(const void *), const void *call, int gx, int gy, int bx,
                   int by)
{
    body = kernel;
    argument = call;
    threads = bx * by;
    grid[0] = gx, grid[1] = gy, block[0] = bx, block[1] = by;
    for (at[1] = 0; at[1] < gy; at[1]++)
        for (at[0] = 0; at[0] < gx; at[0]++)
            run_block();
}

/* Every thread of a block comes to every barrier; one that has ended never will. */
static void barrier()
{
    if (++waiting < threads) {
        give_way();
        return;
    }
    waiting = 0;
    all_ready();
    ready[current / WARP] &= ~(1u << current % WARP);
}

static fiber *warp_of_current() { return fibers + current / WARP * WARP; }

/* This lane's place for what it offers to its next shuffle. */
static offer &next_offer() { return fibers[current].offers[(fibers[current].arrived + 1) & 1]; }

/* True when all lanes of the mask have come to the shuffle n. */
static bool have_come(const fiber *warp, unsigned mask, int n)
{
    for (; mask; mask &= mask - 1)
        if (warp[__builtin_ctz(mask)].arrived < n)
            return false;
    return true;
}

/* Waits until all lanes of the mask have come to this shuffle; returns its place. */
static int meet(unsigned mask)
{
    fiber *warp = warp_of_current();
    int n = ++fibers[current].arrived;

    if (have_come(warp, mask, n))
        ready[current / WARP] |= mask;
    give_way();
    return n & 1;
}

/* The word that lane `from` of the warp offers; all lanes of the mask take part. */
static int shuffle(unsigned mask, int word, int from)
{
    next_offer().word = word;
    return warp_of_current()[from].offers[meet(mask)].word;
}

/* As PTX has it: lanes of segments that `clamp` tells; beyond its segment a lane reads
 * itself. */
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

    next_offer().word = truth;
    int place = meet(~0u);
    for (int i = 0; i < WARP; i++)
        bits |= (unsigned)warp_of_current()[i].offers[place].word << i;
    return bits;
}

/* ldmatrix.m8n8.x4: lane 8 * j + i has the address of row i of matrix j, lane l gets two
 * neighbours of row l / 4, or of column l / 4 where it is turned. */
static void load_matrices(unsigned *r, const void *row, bool turned)
{
    const fiber *warp = warp_of_current();
    int lane = current % WARP;

    next_offer().row = row;
    int place = meet(~0u);
    for (int j = 0; j < 4; j++) {
        unsigned two[2];
        for (int e = 0; e < 2; e++) {
            int a = lane / 4, b = lane % 4 * 2 + e;
            two[e] = ((const unsigned short *)warp[8 * j + (turned ? b : a)]
                          .offers[place]
                          .row)[turned ? a : b];
        }
        r[j] = two[0] | two[1] << 16;
    }
    meet(~0u); /* the rows are read before they change */
}

/* mma.m16n8k16.row.col: c += a * b.  `widen` makes a float of a half. */
template <class F> static void multiply(float *c, const unsigned *a, const unsigned *b, F widen)
{
    const fiber *warp = warp_of_current();
    int lane = current % WARP;
    offer &mine = next_offer();

    for (int i = 0; i < 4; i++)
        mine.of[i] = a[i];
    mine.of[4] = b[0];
    mine.of[5] = b[1];
    int place = meet(~0u);
    for (int i = 0; i < 4; i++) {
        int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
        float sum = 0;
        for (int k = 0; k < 16; k++) {
            unsigned x = warp[row % 8 * 4 + k % 8 / 2].offers[place].of[row / 8 + k / 8 * 2];
            unsigned y = warp[column * 4 + k % 8 / 2].offers[place].of[4 + k / 8];
            sum += widen((unsigned short)(x >> k % 2 * 16)) *
                   widen((unsigned short)(y >> k % 2 * 16));
        }
        c[i] += sum;
    }
}

template <class T> static T add(T *p, T x)
{
    T was = *p;
    __builtin_add_overflow(was, x, p); /* wraps around */
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
#define __nvvm_atom_add_gen_i(p, x)              simt::add<int>(p, x)
#define __nvvm_atom_add_gen_ll(p, x)             simt::add<__INT64_TYPE__>(p, x)
#define __nvvm_vote_ballot_sync(m, truth)        simt::ballot(truth)
#define __nvvm_bar_warp_sync(m)                  simt::shuffle(m, 0, simt::current % simt::WARP)
#define __syncthreads()                          simt::barrier()

#endif
