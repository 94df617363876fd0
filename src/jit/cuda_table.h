/* cuda_table.h - functions of one half on NVIDIA devices, by tables of their values. */
#ifndef CR_JIT_CUDA_TABLE_H
#define CR_JIT_CUDA_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CR_HALF_VALUES = 65536,
    /* Elements of a call from which it is worth while to copy a table to each block. */
    CR_TABLE_LEAST = 16 * CR_HALF_VALUES
};

/* The table of a kernel with certain parameters.  A kernel has a list of them, the latest
 * first; none is ever dropped. */
typedef struct cr_cuda_values {
    struct cr_cuda_values *next;
    void *at; /* on the device: the function's values of the halves 0, 1, 2 ..., halves or, of
               * products, floats; NULL if there was no memory for them, and then the kernel
               * computes them */
    size_t bytes;
    char param[];
} cr_cuda_values;
typedef _Atomic(cr_cuda_values *) cr_cuda_tables;

/* NULL if the list has none with these parameters. */
const cr_cuda_values *cr_cuda_table_find(cr_cuda_tables *list, const void *param, size_t bytes);
/* A kernel whose parameters change from call to call gets no more tables. */
bool cr_cuda_table_is_full(cr_cuda_tables *list);
/* A block with the halves 0, 1, 2 ..., in which the kernel puts its values.  *at is NULL if
 * there is no memory. */
const char *cr_cuda_table_halves(void **at, int index);
/* Waits for the block's values, and puts it in the list, which keeps it.  `at` may be NULL. */
const char *cr_cuda_table_add(cr_cuda_tables *list, int index, void *at, const void *param,
                              size_t bytes);
/* The device's multiprocessors; 0 if blocks have no room for a table. */
int cr_cuda_table_fits(int index);
/* to[i] = table[from[i]]; both are at multiples of 16 bytes. */
const char *cr_cuda_table_run(int index, const cr_cuda_values *v, void *to, const void *from,
                              int64_t n);

/* Products of elements and of values of others, all at multiples of 16 bytes. */
typedef struct {
    void *to;
    const void *by, *from;
    int64_t n;
} cr_cuda_products;
/* to[i] = by[i] * table[from[i]], rounded to halves of the dtype. */
const char *cr_cuda_table_multiply(int index, const cr_cuda_values *v, int dtype,
                                   const cr_cuda_products *p);

#endif
