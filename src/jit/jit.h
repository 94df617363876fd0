/* jit.h - kernels compiled while the program runs: source in, function out.
 *
 * Compilation happens in one background thread and never holds up its caller: until a
 * kernel is ready (and if it never is) the caller uses another way.  Finished kernels
 * are kept on disk, by content; several processes may share the folder.  A failure is an
 * event in the log (CR_LOG=jit), never an error for the user.
 *
 *   CR_CC      the compiler; a path or a name looked for in PATH
 *   CR_CACHE   the folder */
#ifndef CR_JIT_JIT_H
#define CR_JIT_JIT_H

#include "emit/emit.h"

typedef enum { CR_JIT_WAITING, CR_JIT_READY, CR_JIT_FAILED } cr_jit_state;

/* A kernel asked for; lives until the process ends, equal requests are one. */
typedef struct cr_jit_kernel cr_jit_kernel;

/* Asks for the function `symbol` (as given to cr_emit_c) of a unit.  Fails with CR_MEMORY. */
CR_MUST cr_status cr_jit_request(cr_jit_kernel **out, const cr_unit *u, const char *symbol);

/* The function, or NULL while there is none. */
cr_kernel cr_jit_function(const cr_jit_kernel *k);
cr_jit_state cr_jit_state_of(const cr_jit_kernel *k);
/* Waits until the kernel is ready or has failed, or `seconds` have passed. */
cr_jit_state cr_jit_wait(cr_jit_kernel *k, double seconds);
/* Seconds from the request to the function, once ready; and whether it came from disk. */
double cr_jit_seconds(const cr_jit_kernel *k);
bool cr_jit_from_disk(const cr_jit_kernel *k);

/* The whole C text that a unit is compiled as. */
void cr_jit_source(cr_text *out, const cr_unit *u);

typedef struct {
    int64_t requested, compiled, from_memory, from_disk, failed;
} cr_jit_counts;
cr_jit_counts cr_jit_count(void);

#endif
