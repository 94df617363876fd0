/* Environment variables. */
#include "base/env.h"
#include <stdlib.h>

static const struct {
    const char *name, *preset, *help;
} variables[] = {
#define CR_ENV(name, preset, help) {#name, preset, help},
#include "base/env.def"
#undef CR_ENV
};

const char *cr_env(cr_env_name which)
{
    const char *s = getenv(variables[which].name);

    return s && *s ? s : variables[which].preset;
}

int64_t cr_env_int(cr_env_name which)
{
    const char *s = cr_env(which);
    char *end;
    long long v = strtoll(s, &end, 10);

    return *s && !*end ? v : strtoll(variables[which].preset, NULL, 10);
}

void cr_env_describe(cr_text *out)
{
    for (size_t i = 0; i < CR_LEN(variables); i++)
        cr_text_printf(out, "%-16s default '%s': %s\n", variables[i].name, variables[i].preset,
                       variables[i].help);
}
