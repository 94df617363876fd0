/* sort.h - stable sorts of keys on NVIDIA devices. */
#ifndef CR_KERN_CUDA_SORT_H
#define CR_KERN_CUDA_SORT_H

#include <stdint.h>

enum { CR_CUDA_SORT_MOST = (1 << 30) - 1 }; /* keys */

/* Sorts n keys by `bits` of their bits from bit `low` on.  Keys that are equal there stay in
 * order.  *room has as many keys; the two change places where the result is there. */
const char *cr_cuda_sort(int device, uint64_t **keys, uint64_t **room, int64_t n, int low,
                         int bits);
/* The same for more than CR_CUDA_SORT_FEW keys, if the word of the device at `only_if` is not
 * zero; NULL: in any case. */
enum { CR_CUDA_SORT_FEW = 2048 };
const char *cr_cuda_sort_if(const int *only_if, int device, uint64_t **keys, uint64_t **room,
                            int64_t n, int low, int bits);

#endif
