/* vocabulary.h - the texts of emit/vec*.h and emit/kernel.h as opgen embeds them: without their
 * #include lines, in the order that a kernel needs. */
#ifndef CR_JIT_VOCABULARY_H
#define CR_JIT_VOCABULARY_H

#include <stddef.h>

typedef enum {
    CR_VEC_CUDA, /* vec.cuh: CUDA C++ */
    CR_VEC_BASE, /* num/order.h, vec.h, vec_float.h, vec_f32.h: always */
    CR_VEC_F64,
    CR_VEC_INT,
    CR_VEC_MIXED,
    CR_VEC_COMPLEX,
    CR_VEC_SPECIAL,
    CR_VEC_RANDOM,
    CR_VEC_KERNEL,         /* kernel.h: always */
    CR_VEC_SCAN,           /* scan.h */
    CR_VEC_CUDA_HALF,      /* half.cuh: half types in memory */
    CR_VEC_CUDA_KERNEL,    /* kernel.cuh: CUDA C++ */
    CR_VEC_CUDA_MOVE,      /* move.cuh: copies and fills, with vec.cuh and half.cuh only */
    CR_VEC_CUDA_PLACE,     /* sort.cuh and place.cuh, after move.cuh */
    CR_VEC_CUDA_WINDOW,    /* window.cuh, after move.cuh */
    CR_VEC_CUDA_SEQUENCE,  /* sequence.cuh, after move.cuh */
    CR_VEC_CUDA_RESAMPLE,  /* resample.cuh, after move.cuh */
    CR_VEC_CUDA_BAG,       /* bag.cuh, after move.cuh */
    CR_VEC_CUDA_ATTENTION, /* matrix.cuh, scores.cuh and attention.cuh, after move.cuh */
    CR_VEC_CUDA_HEADS_F32, /* matrix.cuh, scores.cuh and attention_f32.cuh, after move.cuh */
    CR_VEC_CUDA_SORT,      /* sort.cuh, after move.cuh */
    CR_VEC_CUDA_SCAN,      /* scan.cuh, after move.cuh */
    CR_VEC_CUDA_RANDOM,    /* random.cuh, after move.cuh */
    CR_VEC_CUDA_NORM,      /* norm.cuh, after move.cuh */
    CR_VEC_CUDA_ENTROPY,   /* entropy.cuh, after move.cuh */
    CR_VEC_CUDA_ORDER,     /* sort.cuh and order.cuh, after move.cuh */
    CR_VEC_CUDA_SELECT,    /* select.cuh, after move.cuh */
    CR_VEC_CUDA_RECURRENT, /* recurrent.cuh, after move.cuh */
    CR_VEC_CUDA_INTEGER,   /* integer.cuh, after move.cuh */
    CR_VEC_CUDA_PRODUCT,   /* matrix.cuh and product_f32.cuh, after move.cuh */
    CR_VEC_CUDA_TABLE,     /* table.cuh, after move.cuh */
    CR_VEC_CUDA_BINS,      /* bins.cuh, after move.cuh */
    CR_VEC_CUDA_CONVOLVE,  /* convolve.cuh, after move.cuh */
    CR_VEC_CUDA_LAYER,     /* layer_norm.cuh, after move.cuh */
    CR_VEC_CUDA_LOOPS,     /* loops.cuh and the loops of kern/loops.h, one part for each of
                              cr_loops_text, after move.cuh */
    CR_VEC_CUDA_LOOPS_END = CR_VEC_CUDA_LOOPS + 13,
    CR_VEC_COUNT
} cr_vec_part;

extern const char *const cr_vec_texts[CR_VEC_COUNT];

#endif
