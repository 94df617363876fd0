/* compiler.h - compiler extensions.  No other file uses them directly. */
#ifndef CR_BASE_COMPILER_H
#define CR_BASE_COMPILER_H

#include <stddef.h>
#include <stdint.h>

#define CR_API                __attribute__((visibility("default")))
#define CR_MUST               __attribute__((warn_unused_result))
#define CR_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#define CR_NORETURN           __attribute__((noreturn))
#define CR_NOINLINE           __attribute__((noinline))
#define CR_ALWAYS_INLINE      static inline __attribute__((always_inline))
#define CR_LIKELY(x)          __builtin_expect(!!(x), 1)
#define CR_UNLIKELY(x)        __builtin_expect(!!(x), 0)
#define CR_UNUSED             __attribute__((unused))
/* The loader reserves about 1.5 KB of initial-exec storage for all libraries that are loaded
 * late, so only hot variables are CR_THREAD. */
#define CR_THREAD      __thread __attribute__((tls_model("initial-exec")))
#define CR_THREAD_COLD __thread
#define CR_LEN(array)  (sizeof(array) / sizeof((array)[0]))
/* In a loop that waits for another thread: the processor may slow down. */
#if defined(__x86_64__)
#define CR_RELAX() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define CR_RELAX() __asm__ volatile("yield")
#else
#define CR_RELAX() ((void)0)
#endif
#define CR_CTZ(x)        ((unsigned)__builtin_ctz(x))
#define CR_CTZ64(x)      ((unsigned)__builtin_ctzll(x))
#define CR_CLZ64(x)      ((unsigned)__builtin_clzll(x))
#define CR_POPCOUNT64(x) ((unsigned)__builtin_popcountll(x))
/* Stores the wrapped result in *out.  True when the result overflowed. */
#define CR_ADD_OVERFLOW(a, b, out) __builtin_add_overflow(a, b, out)
#define CR_SUB_OVERFLOW(a, b, out) __builtin_sub_overflow(a, b, out)
#define CR_MUL_OVERFLOW(a, b, out) __builtin_mul_overflow(a, b, out)
/* Sums and products that wrap around.  For offsets: a dimension of size 1, and any dimension of
 * a tensor without elements, may have any stride, and no element is read with it. */
#define CR_WRAP_ADD(a, b) ((int64_t)((uint64_t)(a) + (uint64_t)(b)))
#define CR_WRAP_SUB(a, b) ((int64_t)((uint64_t)(a) - (uint64_t)(b)))
#define CR_WRAP_MUL(a, b) ((int64_t)((uint64_t)(a) * (uint64_t)(b)))
/* The address of an element; `base` is NULL where there are no elements. */
static inline void *cr_moved(const void *base, int64_t elements, size_t item)
{
    return (void *)((uintptr_t)base + (uintptr_t)elements * item);
}
/* The iterations of the next loop are independent: gcc then makes vectors of it at -O2, too.
 * clang does so in any case, and would warn where it cannot. */
#ifdef __clang__
#define CR_SIMD
#else
#define CR_SIMD _Pragma("omp simd")
#endif
/* The next loop, whose count is a constant, becomes straight code. */
#ifdef __clang__
#define CR_UNROLL _Pragma("clang loop unroll(full)")
#else
#define CR_UNROLL _Pragma("GCC unroll 16")
#endif
/* Defines `name`: `bytes` of numbers that one operation computes together.  A pointer to it may
 * point to any such numbers. */
#define CR_VECTOR(type, name, bytes)                                                           \
    typedef type name __attribute__((vector_size(bytes), aligned(sizeof(type)), may_alias))
/* The vector of the numbered elements of two vectors, those of the second after those of the
 * first. */
#define CR_SHUFFLE __builtin_shufflevector
/* The function is compiled for several instruction sets and the loader picks one.  Only for
 * loops whose result does not depend on the instruction set. */
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__SANITIZE_ADDRESS__) &&         \
    !defined(__SANITIZE_THREAD__)
#define CR_WIDE __attribute__((target_clones("default", "avx2")))
/* With an instruction for fma() and fmaf(), which elsewhere are slow functions with the same
 * results. */
#ifdef __clang__
#define CR_WIDE_FMA __attribute__((target_clones("default", "fma")))
#else
#define CR_WIDE_FMA __attribute__((target_clones("default", "arch=x86-64-v3")))
#endif
#else
#define CR_WIDE
#define CR_WIDE_FMA
#endif

#endif
