/* test.h - unit tests beside the code: TEST(a_promise_as_a_name) { EQ(1, 1); }
 *
 * Each *_test.c is one program.  base/test_main.c has its main(). */
#ifndef CR_BASE_TEST_H
#define CR_BASE_TEST_H

#include "base/error.h"
#include <string.h>

typedef void (*cr_test_fn)(void);
void cr_test_add(const char *name, cr_test_fn fn);
void cr_test_failed(const char *file, int line, const char *fmt, ...) CR_PRINTF(3, 4);
/* Counts a comparison; any thread may call it.  A test without one fails. */
void cr_test_compared(void);

#define TEST(name)                                                                             \
    static void name(void);                                                                    \
    __attribute__((constructor)) static void add_##name(void) { cr_test_add(#name, name); }    \
    static void name(void)

#define CHECK(what)                                                                            \
    do {                                                                                       \
        cr_test_compared();                                                                    \
        if (!(what))                                                                           \
            cr_test_failed(__FILE__, __LINE__, "%s", #what);                                   \
    } while (0)

/* Compares integers or pointers. */
#define EQ(a, b)                                                                               \
    do {                                                                                       \
        cr_test_compared();                                                                    \
        long long a_ = (long long)(a), b_ = (long long)(b);                                    \
        if (a_ != b_)                                                                          \
            cr_test_failed(__FILE__, __LINE__, "%s is %lld, not %lld", #a, a_, b_);            \
    } while (0)

#define EQ_STR(a, b)                                                                           \
    do {                                                                                       \
        cr_test_compared();                                                                    \
        const char *a_ = (a), *b_ = (b);                                                       \
        if (strcmp(a_, b_))                                                                    \
            cr_test_failed(__FILE__, __LINE__, "%s is\n%s\nnot\n%s", #a, a_, b_);              \
    } while (0)

#define NEAR(a, b, tolerance)                                                                  \
    do {                                                                                       \
        cr_test_compared();                                                                    \
        double a_ = (double)(a), b_ = (double)(b);                                             \
        if (!(a_ - b_ <= (tolerance) && b_ - a_ <= (tolerance)))                               \
            cr_test_failed(__FILE__, __LINE__, "%s is %.17g, not %.17g", #a, a_, b_);          \
    } while (0)

#define OK(call)                                                                               \
    do {                                                                                       \
        if (call)                                                                              \
            cr_test_failed(__FILE__, __LINE__, "%s: %s", #call, cr_error_message());           \
    } while (0)

#define FAILS(kind, call) EQ(call, kind)

#endif
