/* Start-up: the table, its kernels and functions, the stages below autograd. */
#include "base/env.h"
#include "base/memory.h"
#include "jit/generated.h"
#include "kern/cuda/commands.h"
#include "kern/devices.h"
#include "tensor/internal.h"
#include "tensor/remote.h"
#include <pthread.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static cr_status started;

static void install_tables(void)
{
    started = cr_generated_install();
    if (started)
        return;
    cr_install_calls();
    cr_kern_install_devices();
    cr_kern_install_cuda();
    cr_library_install();
    started = cr_remote_install();
    cr_fail_alloc_after((uint64_t)cr_env_int(CR_ENV_CR_FAIL_ALLOC));
}

cr_status cr_tensor_start(void)
{
    pthread_once(&once, install_tables);
    return started;
}
