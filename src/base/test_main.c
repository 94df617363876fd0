/* Runs the registered tests of the linked files.  Prints failures and a count. */
#include "base/test.h"
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

enum { MOST = 512 };
static struct {
    const char *name;
    cr_test_fn fn;
} tests[MOST];
static int count, failures, failed_now;
static atomic_llong compared;

void cr_test_add(const char *name, cr_test_fn fn)
{
    CR_ASSERT(count < MOST);
    tests[count].name = name;
    tests[count++].fn = fn;
}

void cr_test_failed(const char *file, int line, const char *fmt, ...)
{
    va_list args;

    failed_now = 1;
    fprintf(stderr, "%s:%d: ", file, line);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
}

void cr_test_compared(void) { atomic_fetch_add_explicit(&compared, 1, memory_order_relaxed); }

static void test_run(int i)
{
    failed_now = 0;
    atomic_store(&compared, 0);
    tests[i].fn();
    if (!failed_now && !atomic_load(&compared))
        cr_test_failed(__FILE__, __LINE__, "%s compares nothing", tests[i].name);
    failures += failed_now;
    if (failed_now)
        fprintf(stderr, "FAILED %s\n", tests[i].name);
}

int main(int argc, char **argv)
{
    for (int i = 0; i < count; i++) {
        if (argc > 1 && strcmp(argv[1], tests[i].name))
            continue;
        test_run(i);
    }
    printf("%d passed, %d failed\n", count - failures, failures);
    return failures != 0;
}
