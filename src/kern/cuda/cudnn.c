/* cuDNN's functions, and a handle for each device. */
#include "device/cuda/cuda.h"
#include "device/cuda/driver.h"
#include "device/facts.h"
#include "kern/cuda/cudnn_graph.h"
#include "kern/cuda/product.h"
#include <pthread.h>

static const char *const cudnn_names[] = {
#define CR_CUDNN_CALL(type, name, symbol, arguments) #symbol,
#include "kern/cuda/cudnn.def"
#undef CR_CUDNN_CALL
};

cr_cudnn cr_cudnn_table;
static bool cudnn_works;
/* A handle has one stream at a time, so a call holds the lock until its work is queued. */
static struct {
    void *handle, *stream;
    bool has_stream;
} devices[CR_CUDA_DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void cudnn_load(void)
{
    static const cr_cuda_library list[] = {
        {"libcudnn.so.9", "cudnn", NULL},
        {"libcudnn.so", NULL, NULL},
    };
    void *library = cr_cuda_open(list, (int)CR_LEN(list));

    cudnn_works = library && cr_cuda_symbols(library, &cr_cudnn_table, cudnn_names,
                                             (int)CR_LEN(cudnn_names));
}

bool cr_cudnn_is_there(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, cudnn_load);
    return cudnn_works;
}

int cr_cuda_cudnn_version(void) { return cr_cudnn_is_there() ? cr_cudnn_table.version() : 0; }

void cr_cudnn_lock(void) { pthread_mutex_lock(&lock); }
void cr_cudnn_unlock(void) { pthread_mutex_unlock(&lock); }

void *cr_cudnn_handle(int index)
{
    void *made = NULL;

    if (!devices[index].handle && !cr_cudnn_table.new_handle(&made))
        devices[index].handle = made;
    return devices[index].handle;
}

/* The handle keeps its stream from call to call. */
int cr_cudnn_set_stream(int index)
{
    void *stream = cr_cuda_table()->stream(index);

    if (devices[index].has_stream && devices[index].stream == stream)
        return 0;
    int failed = cr_cudnn_table.set_stream(devices[index].handle, stream);
    devices[index].has_stream = !failed;
    devices[index].stream = stream;
    return failed;
}
