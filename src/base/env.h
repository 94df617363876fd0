/* env.h - environment variables; env.def lists them.  Nothing else calls getenv. */
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
/* In a thread of the program's: keeps all variables as they are for threads of our own, which after
 * cr_env_read_kept() read nothing else.  One call at a time. */
void cr_env_keep(void);
void cr_env_read_kept(void);
/* As an integer; the default where the text is no integer. */
int64_t cr_env_int(cr_env_name which);
/* The list that `crc env` prints. */
void cr_env_describe(cr_text *out);

#endif
