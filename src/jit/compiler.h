/* compiler.h - running the system's C compiler. */
#ifndef CR_JIT_COMPILER_H
#define CR_JIT_COMPILER_H

#include "jit/cache.h"

/* The compiler's path, or NULL when there is none.  Searched once for each value of CR_CC. */
const char *cr_compiler_path(void);
/* What a cached file depends on besides its source: the compiler's path, size, modification
 * time and flags.  Empty when there is no compiler. */
void cr_compiler_identity(cr_text *out);

/* Copies the environment for later compiler runs.  Call it in a thread of the program: other
 * threads must not read the environment while the program may change it. */
void cr_compiler_keep_environment(void);
/* Compiles the C file into a shared object and waits at most `seconds`.  `source` and `object`
 * are names in `folder`, which is the compiler's working directory and holds its temporary
 * files and log.  When this process ends meanwhile, the folder is removed.  Fails with
 * CR_RUNTIME and the compiler's first complaint or the reason why it could not run.  After one
 * run that took too long, nothing more is compiled. */
CR_MUST cr_status cr_compiler_run(const cr_cache_folder *folder, const char *source,
                                  const char *object, double seconds);

/* For jit.c's fork handlers: a child must not hold the pipes that its parent's compilers wait
 * for. */
void cr_compiler_before_fork(void);
void cr_compiler_after_fork_in_parent(void);
void cr_compiler_after_fork_in_child(void);

#endif
