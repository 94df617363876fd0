/* compiler.h - the only place that knows compiler extensions. */
#ifndef CR_BASE_COMPILER_H
#define CR_BASE_COMPILER_H

#define CR_API                __attribute__((visibility("default")))
#define CR_MUST               __attribute__((warn_unused_result))
#define CR_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#define CR_NORETURN           __attribute__((noreturn))
#define CR_NOINLINE           __attribute__((noinline))
#define CR_LIKELY(x)          __builtin_expect(!!(x), 1)
#define CR_UNLIKELY(x)        __builtin_expect(!!(x), 0)
#define CR_UNUSED             __attribute__((unused))
/* Hot thread-locals are few: the loader has about 1.5 KB of them for a library opened late. */
#define CR_THREAD             __thread __attribute__((tls_model("initial-exec")))
#define CR_THREAD_COLD        __thread
#define CR_LEN(array)         (sizeof(array) / sizeof((array)[0]))
#define CR_CTZ(x)             ((unsigned)__builtin_ctz(x))
#define CR_CTZ64(x)           ((unsigned)__builtin_ctzll(x))
#define CR_CLZ64(x)           ((unsigned)__builtin_clzll(x))
#define CR_POPCOUNT64(x)      ((unsigned)__builtin_popcountll(x))
/* *out is the result, wrapped; true when that is not the exact one. */
#define CR_ADD_OVERFLOW(a, b, out) __builtin_add_overflow(a, b, out)
#define CR_SUB_OVERFLOW(a, b, out) __builtin_sub_overflow(a, b, out)
#define CR_MUL_OVERFLOW(a, b, out) __builtin_mul_overflow(a, b, out)
/* A product that is used only where it is exact. */
#define CR_WRAP_MUL(a, b) ((int64_t)((uint64_t)(a) * (uint64_t)(b)))
/* Compiled for several instruction sets; the loader picks.  For loops without rounding choices. */
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define CR_WIDE __attribute__((target_clones("default", "avx2")))
#else
#define CR_WIDE
#endif

#endif
