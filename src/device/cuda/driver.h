/* driver.h - the CUDA libraries, which are loaded at run time.
 *
 * No header of CUDA is needed: the declarations follow NVIDIA's documentation.  A library is
 * looked for in the folder CR_CUDA, in those of NVIDIA's wheels (cr_cuda_look_in), in
 * CUDA_HOME, and in the loader's path, in this order. */
#ifndef CR_DEVICE_CUDA_DRIVER_H
#define CR_DEVICE_CUDA_DRIVER_H

#include "base/error.h"

/* Results of the driver that the library distinguishes. */
typedef enum {
    CR_CUDA_SUCCESS = 0,
    CR_CUDA_NO_MEMORY = 2,
    CR_CUDA_NO_SUCH_DEVICE = 101,
    CR_CUDA_NOT_READY = 600
} cr_cuda_result;

/* Attributes of devices. */
typedef enum {
    CR_CUDA_MAX_THREADS_OF_BLOCK = 1,
    CR_CUDA_SHARED_OF_BLOCK = 8,
    CR_CUDA_WARP_SIZE = 10,
    CR_CUDA_REGISTERS_OF_BLOCK = 12,
    CR_CUDA_CLOCK_RATE = 13,
    CR_CUDA_PROCESSORS = 16,
    CR_CUDA_INTEGRATED = 18,
    CR_CUDA_PCI_BUS = 33,
    CR_CUDA_PCI_DEVICE = 34,
    CR_CUDA_MEMORY_CLOCK_RATE = 36,
    CR_CUDA_MEMORY_BUS_WIDTH = 37,
    CR_CUDA_L2_BYTES = 38,
    CR_CUDA_THREADS_OF_PROCESSOR = 39,
    CR_CUDA_PCI_DOMAIN = 50,
    CR_CUDA_MAJOR = 75,
    CR_CUDA_MINOR = 76,
    CR_CUDA_SHARED_OF_PROCESSOR = 81,
    CR_CUDA_REGISTERS_OF_PROCESSOR = 82,
    CR_CUDA_MULTI_GPU_BOARD = 84,
    CR_CUDA_TOGETHER = 95, /* launches whose blocks run at once */
    CR_CUDA_SHARED_OF_BLOCK_OPTIN = 97
} cr_cuda_attribute;

enum {
    CR_CUDA_EVENT_BLOCKING = 1,  /* the host sleeps while it waits */
    CR_CUDA_EVENT_NO_TIME = 2,   /* no time is recorded */
    CR_CUDA_STREAM_APART = 1,    /* the stream does not wait for the default stream */
    CR_CUDA_HOST_PORTABLE = 1,   /* memory is pinned for all devices */
    CR_CUDA_CAPTURE_RELAXED = 2, /* mode of a thread: its calls may be unsafe for captures */
    CR_CUDA_CAPTURE_ACTIVE = 1,  /* status of a stream */
    CR_CUDA_GRAPH_FREES = 1,     /* a launch frees what the graph allocated before */
    CR_CUDA_POINTER_MEMORY = 2,  /* attribute of an address: its kind of memory */
    CR_CUDA_POINTER_HOST_MEMORY = 1,
    CR_CUDA_POINTER_DEVICE = 9 /* the number of the memory's device */
};

/* CUlaunchAttribute and CUlaunchConfig */
typedef struct {
    int what;
    char unused[4];
    union {
        int on;
        char bytes[64];
    } value;
} cr_cuda_launch_attribute;
typedef struct {
    unsigned grid[3], block[3], shared;
    void *stream;
    cr_cuda_launch_attribute *attribute;
    unsigned attributes;
} cr_cuda_launching;

enum { CR_CUDA_LAUNCH_EARLY = 6 }; /* while the kernel before it in the stream still runs */

typedef struct {
#define CR_CUDA_CALL(name, symbol, arguments) cr_cuda_result(*name) arguments;
#include "device/cuda/driver.def"
#undef CR_CUDA_CALL
} cr_cuda_driver;

typedef struct {
#define CR_NVRTC_CALL(name, symbol, arguments) int(*name) arguments;
#include "device/cuda/nvrtc.def"
#undef CR_NVRTC_CALL
} cr_nvrtc;

/* The initialized driver; NULL without a driver or a device (CR_LOG=cuda logs the reason). */
const cr_cuda_driver *cr_cuda_load_driver(void);
/* Fails with the reason why there is no device, in torch's words: without a driver those of its
 * build for processors. */
CR_MUST cr_status cr_cuda_driver_missing(void);
/* The compiler.  Fails with CR_RUNTIME, and names the missing library. */
CR_MUST cr_status cr_cuda_load_nvrtc(const cr_nvrtc **out);

/* Adds a folder that has the folders of NVIDIA's wheels (site-packages/nvidia), to be searched
 * behind those that were added before; at most eight. */
void cr_cuda_look_in(const char *folder);

typedef struct {
    const char *name;  /* "libnvrtc.so.13" */
    const char *wheel; /* the folder of its wheel: "cu13"; NULL when no wheel has it */
    const char *first; /* the beginning of the name of a library in the same folder, which is
                        * loaded before it; or NULL */
} cr_cuda_library;
/* Opens the first of n libraries that exists; NULL when none does.  It stays open. */
void *cr_cuda_open(const cr_cuda_library *list, int n);
/* Stores the addresses of n named functions in `table`.  False when one is missing. */
bool cr_cuda_symbols(void *library, void *table, const char *const *name, int n);

#endif
