/* rt.h - the parts of the runtime, inside the room.
 *
 * check.c checks a file, so that the other parts need no tests: addresses, sizes and registers
 * of all commands are in range.  run.c runs commands, kernel.c the instructions of kernels,
 * product.c products and convolutions. */
#ifndef CR_RT_RT_H
#define CR_RT_RT_H

#include "cresset_rt.h"
#include "rt/format.h"

/* A build for given programs (make rt OPS=...) says by this header what they use. */
#ifdef RT_USE_FILE
#include RT_USE_FILE
#define RT_USE(x) RT_USE_##x
#else
#define RT_USE(x) 1
#endif

/* On x86-64 the library has kernel.c and product.c twice (tools/rt.mk, RT_FAST): the second
 * build is for processors with AVX2 and fused multiply-adds.  Its results have the same
 * bits. */
#ifdef RT_FAST_PART
#define rt_item            rt_item_fast
#define rt_load            rt_load_fast
#define rt_store           rt_store_fast
#define rt_cast            rt_cast_fast
#define rt_arguments       rt_arguments_fast
#define rt_run_kernel      rt_run_kernel_fast
#define rt_run_product     rt_run_product_fast
#define rt_run_convolution rt_run_convolution_fast
#endif

/* Memory of a call: the addresses of the spaces. */
typedef struct {
    const int64_t *word;
    unsigned char *work;
    void *const *array;
    int lanes;
} rt_memory;

unsigned char *rt_reach(const rt_memory *m, int64_t address);

/* Bytes of an element; 0: no such dtype. */
int rt_item(int64_t dtype);

/* --- kernel.c --- */

/* n elements to or from a register: floats, doubles, or int64 for integers and truths. */
void rt_load(int dtype, void *to, const unsigned char *from, int64_t step, int64_t n);
void rt_store(int dtype, unsigned char *to, int64_t step, const void *from, int64_t n);
void rt_cast(int to_dtype, void *to, int from_dtype, const void *from, int64_t n);
/* The number of arguments of an operation of ops.def; 0: there is none, or this build lacks it.
 * *tests: its results are truths. */
int rt_arguments(int operation, int dtype, int *tests);
void rt_run_kernel(const rt_memory *m, const int64_t *c);

/* --- product.c: the second function takes a command with its kind --- */

void rt_run_product(const rt_memory *m, const int64_t *c);
void rt_run_convolution(const rt_memory *m, const int64_t *c);

#if defined(RT_FAST) && !defined(RT_FAST_PART)
void rt_run_kernel_fast(const rt_memory *m, const int64_t *c);
void rt_run_product_fast(const rt_memory *m, const int64_t *c);
void rt_run_convolution_fast(const rt_memory *m, const int64_t *c);
#endif
#endif
