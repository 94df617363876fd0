/* Programs as modules, called by several threads: `make test-tsan` finds what they write. */
#include "base/test.h"
#include "io/safetensors.h"
#include "io/source.h"
#include "nn/nn.h"
#include "script/archive.h"
#include "script/execute.h"
#include <pthread.h>

#define cr_view cr_view_operator
#include "cresset.h"
#undef cr_view
#include "cresset_script.h"

static cr_module *as;

static void *call(void *context)
{
    const int64_t size[] = {2, 3};
    cr_tensor *x = NULL, *y = NULL;
    bool *good = context;

    *good = !cr_ones(&x, size, 2, CR_F32);
    for (int i = 0; i < 500 && *good; i++) {
        *good = !cr_module_forward(&y, as, x);
        cr_drop(y);
        y = NULL;
    }
    cr_drop(x);
    return NULL;
}

TEST(threads_call_one_module)
{
    pthread_t thread[2];
    cr_script *m = NULL;
    bool good[2] = {false, false};

    OK(cr_init());
    OK(cr_script_load(&m, "tests/data/script/hooks.pt"));
    OK(cr_script_as_module(&as, m));
    for (int i = 0; i < 2; i++)
        EQ(pthread_create(&thread[i], NULL, call, &good[i]), 0);
    for (int i = 0; i < 2; i++)
        EQ(pthread_join(thread[i], NULL), 0);
    CHECK(good[0] && good[1]);
    cr_module_drop(as);
    cr_script_drop(m);
}
