/* Functions of one half by tables; the kernel is in emit/table.cuh. */
#include "jit/cuda_table.h"
#include "base/memory.h"
#include "device/cuda/cuda.h"
#include "jit/cuda.h"
#include "num/dtype.h"
#include <stdio.h>
#include <string.h>

enum { TABLE_THREADS = 1024, TABLE_MOST = 16 /* tables of a kernel */ };
/* Products: the exponents whose values shared memory holds; those of others are read from the
 * table. */
typedef struct {
    int first, count, bits; /* exponents; the bits of a half below its exponent */
} table_near;
static const table_near near_bf16 = {127 - 24, 32, 7}, near_f16 = {5, 14, 10};

/* ct_call of emit/table.cuh */
typedef struct {
    const void *table;
    void *to;
    const void *from;
    int64_t n;
} table_call;

const cr_cuda_values *cr_cuda_table_find(cr_cuda_tables *list, const void *param, size_t bytes)
{
    const cr_cuda_values *v = atomic_load_explicit(list, memory_order_acquire);

    while (v && (v->bytes != bytes || (bytes && memcmp(v->param, param, bytes))))
        v = v->next;
    return v;
}

bool cr_cuda_table_is_full(cr_cuda_tables *list)
{
    int n = 0;

    for (const cr_cuda_values *v = atomic_load(list); v; v = v->next)
        n++;
    return n >= TABLE_MOST;
}

const char *cr_cuda_table_halves(void **at, int index)
{
    uint16_t *half = cr_alloc(CR_HALF_VALUES * sizeof *half);
    const char *error = NULL;

    *at = half ? cr_cuda_block(index, CR_HALF_VALUES * sizeof *half) : NULL;
    if (*at) {
        for (int i = 0; i < CR_HALF_VALUES; i++)
            half[i] = (uint16_t)i;
        error = cr_cuda_ops.copy_in(index, *at, half, CR_HALF_VALUES * sizeof *half);
    }
    cr_free(half);
    return error;
}

const char *cr_cuda_table_add(cr_cuda_tables *list, int index, void *at, const void *param,
                              size_t bytes)
{
    const char *error = at ? cr_cuda_stream_synchronize(index, cr_cuda_stream(index)) : NULL;
    cr_cuda_values *v = error ? NULL : cr_alloc(sizeof *v + bytes);

    if (!v)
        return error ? error : cr_error_message();
    *v = (cr_cuda_values){.at = at, .bytes = bytes, .next = atomic_load(list)};
    if (bytes)
        memcpy(v->param, param, bytes);
    while (!atomic_compare_exchange_weak(list, &v->next, v))
        ;
    return NULL;
}

/* --- launches --- */

static const table_near *table_near_of(int dtype)
{
    return dtype == CR_BF16 ? &near_bf16 : &near_f16;
}

/* a: the dtype of products, or 0 */
static void table_print(cr_text *out, char symbol[32], const cr_cuda_text *k)
{
    const table_near *near = table_near_of(k->a);

    if (k->a)
        cr_text_printf(out, "#define CT_HALF %s\n#define CT_FIRST %d\n#define CT_NEAR %d\n",
                       k->a == CR_BF16 ? "bf16" : "f16", near->first << near->bits,
                       near->count << near->bits);
    snprintf(symbol, 32, k->a ? "ct_products" : "ct_halves");
}

/* The multiprocessors of a device whose blocks have room for a table, else 0. */
int cr_cuda_table_fits(int index)
{
    static _Atomic int known[CR_CUDA_DEVICES]; /* and 1; 0: not asked */
    cr_cuda_properties p;

    if (!known[index])
        known[index] = cr_cuda_property(&p, index) ||
                               p.shared_of_block_optin < CR_HALF_VALUES * (int)sizeof(uint16_t)
                           ? 1
                           : p.processors + 1;
    return known[index] - 1;
}

const char *cr_cuda_table_run(int index, const cr_cuda_values *v, void *to, const void *from,
                              int64_t n)
{
    table_call call = {v->at, to, from, n};
    cr_cuda_text k = {.print = table_print, .device = index, .part = CR_VEC_CUDA_TABLE};
    cr_cuda_grid g = {.grid = {(unsigned)cr_cuda_table_fits(index), 1},
                      .block = {TABLE_THREADS, 1},
                      .shared = CR_HALF_VALUES * sizeof(uint16_t)};
    const char *error = cr_cuda_find(&g.function, &k);

    return error ? error : cr_cuda_launch(index, &g, &call);
}

/* ct_product_call of emit/table.cuh */
typedef struct {
    const void *table;
    cr_cuda_products of;
} product_call;

const char *cr_cuda_table_multiply(int index, const cr_cuda_values *v, int dtype,
                                   const cr_cuda_products *p)
{
    const table_near *near = table_near_of(dtype);
    product_call call = {v->at, *p};
    cr_cuda_text k = {
        .print = table_print, .device = index, .part = CR_VEC_CUDA_TABLE, .a = dtype};
    cr_cuda_grid g = {.grid = {(unsigned)cr_cuda_table_fits(index), 1},
                      .block = {TABLE_THREADS, 1},
                      .shared = (unsigned)(2 * sizeof(float) * near->count << near->bits)};
    const char *error = cr_cuda_find(&g.function, &k);

    return error ? error : cr_cuda_launch(index, &g, &call);
}
