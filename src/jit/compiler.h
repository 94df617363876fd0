/* compiler.h - running the system's C compiler. */
#ifndef CR_JIT_COMPILER_H
#define CR_JIT_COMPILER_H

#include "jit/cache.h"

/* The compiler's path; NULL when there is none.  Looked for once a value of CR_CC. */
const char *cr_compiler_path(void);
/* What a cached file depends on beside its source: the compiler's path, size and time,
 * and the flags.  Empty when there is no compiler. */
void cr_compiler_identity(cr_text *out);

/* In a thread of the program's: keeps the environment as it is, for the compilers to come.  Other threads
 * cannot read it while the program may change it. */
void cr_compiler_keep_environment(void);
/* Compiles the C file into a shared object, waiting at most `seconds`.  Both are names in `folder`,
 * the compiler's working directory.  Temporary files, a log among them, are written there, too; the
 * folder is removed should this process end meanwhile.  CR_RUNTIME
 * with the compiler's first complaint, or the reason why it could not run; one that took too
 * long is not run again. */
CR_MUST cr_status cr_compiler_run(const cr_cache_folder *folder, const char *source, const char *object,
                                  double seconds);

/* For jit.c's fork handlers: a child must not hold what its parent's compilers wait on. */
void cr_compiler_before_fork(void);
void cr_compiler_after_fork_in_parent(void);
void cr_compiler_after_fork_in_child(void);

#endif
