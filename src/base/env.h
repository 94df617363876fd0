/* env.h - environment variables.  env.def lists them; only env.c calls getenv. */
#ifndef CR_BASE_ENV_H
#define CR_BASE_ENV_H

#include "base/text.h"

typedef enum {
#define CR_ENV(name, preset, help) CR_ENV_##name,
#include "base/env.def"
#undef CR_ENV
    CR_ENV_COUNT
} cr_env_name;

/* The variable's text, or its default; borrowed from the environment. */
const char *cr_env(cr_env_name which);
/* cr_env_keep() copies all variables; call it from a thread of the program, one call at a
 * time.  A thread that has called cr_env_read_kept() reads these copies instead of the
 * environment. */
void cr_env_keep(void);
void cr_env_read_kept(void);
/* Calls `call` while the environment has the variables of `more` (NULL-terminated,
 * "NAME=VALUE"), for libraries that read variables when they are loaded.  Other threads may
 * read the environment meanwhile.  The environment is as before where memory is short. */
void cr_env_with(const char *const *more, void (*call)(void *), void *context);
/* The variable as an integer, or its default when the text is not an integer up to 2^40, which
 * is said once. */
int64_t cr_env_int(cr_env_name which);
/* Says on stderr, once for a variable, that its text is not used because it is `why`. */
void cr_env_refuse(cr_env_name which, const char *why);
/* Appends the list of variables that `crc env` prints. */
void cr_env_describe(cr_text *out);

#endif
