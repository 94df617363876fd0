/* jit.h - kernels compiled while the program runs: source in, function out.
 *
 * Background threads compile; a caller never waits.  Until a kernel is ready, or when it never
 * is, the caller uses another way.  Finished kernels are kept on disk under a hash of their
 * content (cache.h); several processes may share the folder.  A failure is logged
 * (CR_LOG=jit,cache) and never an error for the user.
 *
 *   CR_CC            the compiler: a path, or a name to be found in PATH
 *   CR_CACHE         the folder
 *   CR_CACHE_LIMIT   the folder's limit in megabytes */
#ifndef CR_JIT_JIT_H
#define CR_JIT_JIT_H

#include "emit/emit.h"

typedef enum { CR_JIT_WAITING, CR_JIT_READY, CR_JIT_FAILED } cr_jit_state;

/* A requested kernel.  It lives until the process ends; equal requests get the same kernel. */
typedef struct cr_jit_kernel cr_jit_kernel;

/* The order of compilation: kernels that a caller waits for, then those that save the most
 * time. */
typedef enum {
    CR_JIT_AWAITED,
    CR_JIT_CHEAP,
    CR_JIT_COSTLY,
    CR_JIT_SPARE, /* possibly never used */
    CR_JIT_URGENCIES
} cr_jit_urgency;

/* Registers the handlers that hold the compiler's locks while the process forks; requests do
 * so, too.  Callers that request kernels under a lock register their handlers later, so that
 * theirs is taken first. */
void cr_jit_watch_forks(void);

/* Requests the function `symbol` (as given to cr_emit) of a unit that holds only this
 * function.  Fails with CR_MEMORY. */
CR_MUST cr_status cr_jit_request(cr_jit_kernel **out, const cr_unit *u, const char *symbol,
                                 cr_jit_urgency urgency);

/* The function, or NULL until the kernel is ready. */
cr_kernel cr_jit_function(const cr_jit_kernel *k);
cr_jit_state cr_jit_state_of(const cr_jit_kernel *k);
/* Waits until the kernel is ready or failed, or until `seconds` have passed.  The kernel
 * becomes the most urgent. */
cr_jit_state cr_jit_wait(cr_jit_kernel *k, double seconds);
/* Waits until no request is waiting, or until `seconds` have passed.  Returns how many are
 * still waiting. */
int64_t cr_jit_wait_all(double seconds);
/* The CR_CACHE_KEY characters of the kernel's key; borrowed. */
const char *cr_jit_key(const cr_jit_kernel *k);
double cr_jit_seconds(const cr_jit_kernel *k);
bool cr_jit_from_disk(const cr_jit_kernel *k);

/* The complete text of a unit that was printed in a dialect, as it is compiled. */
void cr_jit_source(cr_text *out, const cr_unit *u);

typedef struct {
    int64_t requested, compiled, from_memory, from_disk, failed;
    int64_t waiting; /* requested, and neither ready nor failed */
} cr_jit_counts;
cr_jit_counts cr_jit_count(void);

#endif
