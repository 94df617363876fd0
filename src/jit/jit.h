/* jit.h - kernels compiled while the program runs: source in, function out.
 *
 * Compilation happens in background threads and never holds up its caller: until a
 * kernel is ready (and if it never is) the caller uses another way.  Finished kernels
 * are kept on disk, by content (cache.h); several processes may share the folder.  A failure is
 * an event in the log (CR_LOG=jit,cache), never an error for the user.
 *
 *   CR_CC            the compiler; a path or a name looked for in PATH
 *   CR_CACHE         the folder
 *   CR_CACHE_LIMIT   megabytes that it may hold */
#ifndef CR_JIT_JIT_H
#define CR_JIT_JIT_H

#include "emit/emit.h"

typedef enum { CR_JIT_WAITING, CR_JIT_READY, CR_JIT_FAILED } cr_jit_state;

/* A kernel asked for; lives until the process ends, equal requests are one. */
typedef struct cr_jit_kernel cr_jit_kernel;

/* What is compiled first: what somebody waits for, then what gains the most. */
typedef enum {
    CR_JIT_AWAITED,
    CR_JIT_CHEAP,
    CR_JIT_COSTLY,
    CR_JIT_SPARE, /* may turn out to be of no use */
    CR_JIT_URGENCIES
} cr_jit_urgency;

/* Asks for the function `symbol` (as given to cr_emit_c) of a unit that holds it alone.  Fails with
 * CR_MEMORY. */
CR_MUST cr_status cr_jit_request(cr_jit_kernel **out, const cr_unit *u, const char *symbol, cr_jit_urgency urgency);

/* The function, or NULL while there is none. */
cr_kernel cr_jit_function(const cr_jit_kernel *k);
cr_jit_state cr_jit_state_of(const cr_jit_kernel *k);
/* Waits until the kernel is ready or has failed, or `seconds` have passed; it then comes first. */
cr_jit_state cr_jit_wait(cr_jit_kernel *k, double seconds);
/* Waits until nothing is waited for, or `seconds` have passed; what is left then. */
int64_t cr_jit_wait_all(double seconds);
/* Seconds from the request to the function, once ready; and whether it came from disk. */
/* CR_CACHE_KEY characters that tell the kernel from all others; borrowed. */
const char *cr_jit_key(const cr_jit_kernel *k);
double cr_jit_seconds(const cr_jit_kernel *k);
bool cr_jit_from_disk(const cr_jit_kernel *k);

typedef struct {
    int64_t requested, compiled, from_memory, from_disk, failed;
    int64_t waiting; /* asked for, and neither there nor failed */
} cr_jit_counts;
cr_jit_counts cr_jit_count(void);

#endif
