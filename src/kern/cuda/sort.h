/* sort.h - stable sorts of keys on NVIDIA devices. */
#ifndef CR_KERN_CUDA_SORT_H
#define CR_KERN_CUDA_SORT_H

#include <stdint.h>

enum { CR_CUDA_SORT_MOST = (1 << 30) - 1 }; /* keys */

/* Sorts n keys by `bits` of their bits from bit `low` on.  Keys that are equal there stay in
 * order.  *room has as many keys; the two change places where the result is there. */
const char *cr_cuda_sort(int device, uint64_t **keys, uint64_t **room, int64_t n, int low,
                         int bits);
/* Up to so many keys are sorted by one launch. */
enum { CR_CUDA_SORT_FEW = 2048 };

/* cs_call of emit/sort.cuh */
typedef struct {
    const uint64_t *from;
    uint64_t *to;
    int *count, *next, *tile, *cleared;
    int64_t n, tiles;
    int shift, end;
} cr_cuda_sort_call;
/* For a launch of another text that sorts, CR_CUDA_SORT_ROUNDS keys of a thread.  The first
 * function sets all but addresses, and returns how many ints the launch needs; these begin as
 * zeros. */
enum { CR_CUDA_SORT_ROUNDS = 8 };
int64_t cr_cuda_sort_begin(cr_cuda_sort_call *c, int64_t n, int low, int bits);
void cr_cuda_sort_set_room(cr_cuda_sort_call *c, int *at);

#endif
