/* driver.h - the CUDA libraries, which are loaded at run time.
 *
 * No header of CUDA is needed: the declarations here are those of NVIDIA's documentation.  A
 * library is found in the folder CR_CUDA, beside the interpreter (cr_cuda_look_in), in
 * CUDA_HOME, or in the loader's path, in this order. */
#ifndef CR_DEVICE_CUDA_DRIVER_H
#define CR_DEVICE_CUDA_DRIVER_H

#include "base/error.h"

/* Results of the driver that are not failures of a call, or that have other texts. */
typedef enum {
    CR_CUDA_SUCCESS = 0,
    CR_CUDA_NO_MEMORY = 2,
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
    CR_CUDA_SHARED_OF_BLOCK_OPTIN = 97
} cr_cuda_attribute;

enum {
    CR_CUDA_EVENT_BLOCKING = 1, /* the host sleeps while it waits */
    CR_CUDA_EVENT_NO_TIME = 2,  /* no time is recorded */
    CR_CUDA_STREAM_APART = 1,   /* does not wait for the default stream */
    CR_CUDA_HOST_PORTABLE = 1,  /* pinned for all devices */
    CR_CUDA_POINTER_MEMORY = 2, /* the attribute "kind of memory" of an address */
    CR_CUDA_POINTER_HOST_MEMORY = 1
};

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

/* The driver, initialized; NULL without a driver or a device (CR_LOG=cuda says why). */
const cr_cuda_driver *cr_cuda_load_driver(void);
/* The compiler.  CR_RUNTIME names the library that is missing. */
CR_MUST cr_status cr_cuda_load_nvrtc(const cr_nvrtc **out);

/* Adds a folder that contains folders of libraries as NVIDIA's wheels install them. */
void cr_cuda_look_in(const char *folder);

/* Opens the first of the libraries (NULL ends the list) that exists.  *path is its address in
 * the file system where it was found in a folder, or its name. */
typedef struct {
    const char *name;  /* "libnvrtc.so.13" */
    const char *wheel; /* the folder of its wheel: "cu13" */
    const char *first; /* a library to be loaded before, from the same folder; or NULL */
} cr_cuda_library;
void *cr_cuda_open(const cr_cuda_library *list, int n);
/* Reads `n` functions with the given names to `table`.  False when one is missing. */
bool cr_cuda_symbols(void *library, void *table, const char *const *name, int n);

#endif
