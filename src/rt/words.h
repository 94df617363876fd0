/* words.h - the vocabulary of kernels, compiled. */
#ifndef CR_RT_WORDS_H
#define CR_RT_WORDS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* A file uses a part of the words. */
#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wunused-function"
#endif
#define CV_INLINE static inline
#include "compile/file/words.inc"

#endif
