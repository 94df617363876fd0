/* cuda.h - NVIDIA devices: functions that the table of operations does not have.
 *
 * Functions that return `const char *` follow cresset_backend.h: NULL, or the text of an error.
 * They may be called from any thread.  The first use of a device retains its primary context; a
 * process that was forked after the first use cannot use CUDA. */
#ifndef CR_DEVICE_CUDA_CUDA_H
#define CR_DEVICE_CUDA_CUDA_H

#include "device/device.h"

enum { CR_CUDA_DEVICES = 64 };
/* Host memory that the kept plans of one library for one kind of work may have. */
enum { CR_CUDA_PLAN_BYTES = 64 << 20 };

/* The table; NULL when there is no driver or no device.  The first call loads the driver. */
const cr_device_ops *cr_cuda_table(void);
/* The same whether there is one or not; rooms above add the functions that need kernels. */
extern cr_device_ops cr_cuda_ops;
/* Whether this process has a context. */
CR_API bool cr_cuda_is_initialized(void);

/* Binds the device's context to the thread.  Call it before any function of the driver that
 * uses a context. */
const char *cr_cuda_use(int index);
/* The error text of a result of the driver; NULL for success. */
const char *cr_cuda_check(int result);
/* The driver's result that the thread's last error of CUDA tells. */
CR_API int cr_cuda_last_failure(void);
/* The stream that the thread uses on the device; NULL is the default stream. */
void *cr_cuda_stream(int index);

/* Loads a cubin and returns one of its functions.  The code is never unloaded. */
const char *cr_cuda_load_code(void **function, int index, const void *image,
                              const char *symbol);
/* Sets what is called before the host waits for elements that it copies; NULL calls nothing.
 * The text that it returns, unless that is NULL, is the copy's error. */
CR_API void cr_cuda_on_wait(const char *(*hook)(void));
/* Launches a function, whose only parameter is at `argument`, on the thread's stream. */
typedef struct {
    void *function;
    unsigned grid[2], block[2];
    unsigned shared; /* bytes of shared memory beside those that the kernel declares */
    bool together;   /* blocks wait for each other: at most cr_cuda_together() of them */
} cr_cuda_grid;
const char *cr_cuda_launch(int index, const cr_cuda_grid *g, void *argument);
/* Fills n items of 1, 2 or 4 bytes with the item at `item`. */
const char *cr_cuda_fill(int index, void *to, const void *item, int bytes, size_t n);

/* --- errors that kernels find (late.c) --- */

/* A kernel stores `number | (index & (2^48 - 1))` at `word`, which is host memory. */
typedef struct {
    void *word;
    uint64_t number;
} cr_cuda_late;
const char *cr_cuda_late_begin(cr_cuda_late *out, int index, cr_status kind, const char *text);
/* The error of a kernel that has ended, once. */
const char *cr_cuda_late_end(int index);

/* --- captures (graph.c) --- */

/* Memory that belongs to graphs: its blocks are for captures alone. */
typedef struct cr_cuda_pool cr_cuda_pool;

/* Whether a capture of this process is underway; without one the next functions do nothing. */
bool cr_cuda_captures(void);
/* Whether work on the thread's stream of the device is captured. */
CR_API bool cr_cuda_is_capturing(int index);
/* The pool of the capture that the stream takes part in; NULL without one. */
cr_cuda_pool *cr_cuda_pool_of(int index, void *stream);
/* Page-locked memory with a copy of n bytes, which lasts as long as the graph that is captured
 * on the thread's stream; NULL without memory. */
const void *cr_cuda_capture_bytes(int index, const void *host, size_t n);
/* Between the two, a call of the thread that is no part of a capture is allowed. */
int cr_cuda_relax(void);
void cr_cuda_tighten(int mode);

/* --- properties --- */

/* Clock rates in kHz, and the width of the memory bus in bits. */
typedef struct {
    int clock_rate, memory_clock_rate, memory_bus_width;
} cr_cuda_clocks;

/* The place on the PCI bus. */
typedef struct {
    int pci_domain, pci_bus, pci_device;
} cr_cuda_pci;

/* What the driver says of a device.
 * Invariant: they are read once, when the device is first used, and do not change. */
typedef struct {
    char name[256], uuid[16];
    size_t total_memory;
    int major, minor, processors, l2_bytes, threads_of_processor, warp_size;
    bool together; /* blocks of a launch may wait for each other */
    int shared_of_block, shared_of_block_optin, shared_of_processor, registers_of_processor;
    cr_cuda_clocks clocks;
    int max_threads_of_block;
    cr_cuda_pci pci;
    bool integrated, multi_gpu_board;
} cr_cuda_properties;
CR_API const char *cr_cuda_property(cr_cuda_properties *out, int index);
/* The bytes of shared memory that a block of threads may have; asked once. */
int cr_cuda_shared_most(int index);
/* How many blocks of a launch run at once, with so many threads and bytes of shared memory
 * each: at least one and at most `most` of a multiprocessor, which has the registers for them;
 * 1 on devices that do not promise this. */
int cr_cuda_together(int index, int most, int threads, int bytes);
CR_API const char *cr_cuda_driver_version(int *out);
CR_API const char *cr_cuda_can_access_peer(bool *can, int index, int peer);

/* --- streams and events beyond the table --- */

/* The next stream of the priority's pool; -1 is high.  Streams are never destroyed. */
CR_API const char *cr_cuda_stream_new(int index, int priority, void **stream);
CR_API const char *cr_cuda_stream_synchronize(int index, void *stream);
CR_API const char *cr_cuda_stream_done(int index, void *stream, bool *done);
CR_API const char *cr_cuda_event_new(int index, bool timed, bool blocking, void **event);
CR_API const char *cr_cuda_event_elapsed(int index, void *start, void *end, double *ms);

/* --- memory --- */

/* A pool of a device, whose uses are counted; a number that no pool has makes one.  NULL
 * without memory.  A pool without uses is dropped when its blocks are free and their segments
 * go back to the driver. */
cr_cuda_pool *cr_cuda_pool_use(int index, uint64_t first, uint64_t second);
void cr_cuda_pool_leave(cr_cuda_pool *pool);

/* Reads whether released memory is kept; once, before the first request. */
void cr_cuda_memory_start(void);
/* A block for the thread's stream; NULL when there is no memory.  *block is its number.  After
 * its release, later work of the same stream may reuse it at once. */
void *cr_cuda_memory_get(int index, size_t size, uint32_t *block);
void cr_cuda_memory_release(int index, void *p, uint32_t block);
/* A block for constants, which is in no statistics; NULL when there is no memory. */
void *cr_cuda_block(int index, size_t bytes);
/* Releases a block that did not get its constants; waits for the device's work. */
void cr_cuda_block_drop(int index, void *at);
/* Says that work on `stream` uses the block.  After its release, the block is reused only when
 * this work has ended. */
CR_API const char *cr_cuda_memory_record(uint32_t block, void *stream);
/* Page-locked host memory, which devices copy faster; NULL when there is none.  Released blocks
 * are kept for later requests. */
CR_API void *cr_cuda_pinned_get(int index, size_t size);
CR_API void cr_cuda_pinned_release(void *p);
/* True for an address of page-locked memory. */
CR_API bool cr_cuda_is_pinned(const void *host);
/* The device whose memory has an address. */
CR_API const char *cr_cuda_device_of(int *index, const void *p);
/* Returns cached segments to the driver. */
CR_API const char *cr_cuda_memory_trim(void);
CR_API const char *cr_cuda_memory_info(int index, size_t *free, size_t *total);
/* Limits the segments of a device to this part of its memory. */
CR_API const char *cr_cuda_memory_limit(int index, double part);
/* Writes torch's text for a request of `size` bytes that failed. */
void cr_cuda_describe_shortage(char *out, size_t room, int index, size_t size);

/* The allocator's counters.  Each has three rows: all, small_pool and large_pool. */
/* clang-format off */
#define CR_CUDA_COUNTERS(X)                                                                    \
    X(allocation) X(segment) X(active) X(inactive_split) X(allocated_bytes) X(reserved_bytes)  \
    X(active_bytes) X(inactive_split_bytes) X(requested_bytes)
/* clang-format on */
typedef struct {
    int64_t current, peak, allocated, freed;
} cr_cuda_counter;
typedef struct {
#define CR_CUDA_COUNTER(name) cr_cuda_counter name[3];
    CR_CUDA_COUNTERS(CR_CUDA_COUNTER)
#undef CR_CUDA_COUNTER
    int64_t retries, shortages, gets, frees;
} cr_cuda_memory_stats;
/* A block of a segment.  `begins`: it is the segment's first one; the others follow it. */
typedef enum {
    CR_CUDA_BLOCK_FREE,
    CR_CUDA_BLOCK_USED,
    CR_CUDA_BLOCK_WAITS
} cr_cuda_block_state;
typedef struct {
    uintptr_t at;
    size_t size, requested;
    void *stream;
    uint64_t pool[2]; /* the pool's number, or zeros */
    int device;
    cr_cuda_block_state state;
    bool begins, large;
} cr_cuda_block_facts;
/* All blocks of all devices, segments in the order of their addresses.  The caller frees *out
 * with cr_free.  Fails with CR_MEMORY. */
CR_API cr_status cr_cuda_memory_blocks(cr_cuda_block_facts **out, size_t *count);
CR_API void cr_cuda_memory_statistics(cr_cuda_memory_stats *out, int index);
CR_API void cr_cuda_memory_reset(int index, bool peaks);

#endif
