/* Copies of commands for backends (cresset_backend.h): blocks that free() releases. */
#include "plan/plan.h"
#include <stdlib.h>
#include <string.h>

static char *by_distance(void *context, char *address)
{
    return address + *(const ptrdiff_t *)context;
}

static void *by_malloc(void *from, size_t size)
{
    (void)from;
    return malloc(size);
}

static cr_keeping far_away(ptrdiff_t *distance)
{
    return (cr_keeping){.map = by_distance, .context = distance, .get = by_malloc};
}

cr_array *cr_array_keep(const cr_array *a, ptrdiff_t distance)
{
    cr_keeping how = far_away(&distance);

    return cr_array_keep_by(a, &how);
}

/* The member of a copy of a command is where the copy begins, but for the kind. */
static void *member_keep(cr_command *c, ptrdiff_t distance, size_t at, size_t n)
{
    cr_keeping how = far_away(&distance);
    char *made = (char *)cr_command_keep(c, &how);

    return made ? memmove(made, made + at, n) : NULL;
}

cr_launch *cr_launch_keep(const cr_launch *l, ptrdiff_t distance)
{
    cr_command c = {.kind = CR_COMMAND_KERNEL, .kernel = *l};

    return member_keep(&c, distance, offsetof(cr_command, kernel), sizeof *l);
}

cr_indexed *cr_indexed_keep(const cr_indexed *i, ptrdiff_t distance)
{
    cr_command c = {.kind = CR_COMMAND_INDEXED, .indexed = *i};

    return member_keep(&c, distance, offsetof(cr_command, indexed), sizeof *i);
}

cr_windows *cr_windows_keep(const cr_windows *w, ptrdiff_t distance)
{
    cr_command c = {.kind = CR_COMMAND_WINDOWS, .windows = *w};

    return member_keep(&c, distance, offsetof(cr_command, windows), sizeof *w);
}
