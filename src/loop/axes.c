/* The axes that a value depends on. */
#include "loop/nest.h"
#include <string.h>

bool cr_same_name(const cr_sym *a, const cr_sym *b)
{
    return a && b &&
           (a == b ||
            (a->kind == CR_SYM_NAME && b->kind == CR_SYM_NAME && !strcmp(a->name, b->name)));
}

bool cr_expr_uses_axis(const cr_expr *e, const cr_sym *axis)
{
    if (e->kind == CR_EXPR_REDUCE && cr_same_name(e->axis.index, axis))
        return false;
    if (e->kind == CR_EXPR_INTEGER)
        return cr_sym_uses(e->index[0], axis);
    for (int d = 0; e->kind == CR_EXPR_LOAD && d < e->buffer->ndim; d++)
        if (e->index[d] && cr_sym_uses(e->index[d], axis))
            return true;
    for (int i = 0; i < e->count; i++)
        if (cr_expr_uses_axis(e->args[i], axis))
            return true;
    return false;
}

int cr_def_level(const cr_def *def, const cr_expr *e)
{
    int level = 0;

    for (int a = 0; a < def->axes; a++)
        if (cr_expr_uses_axis(e, def->axis[a].index))
            level = a + 1;
    return level;
}

bool cr_expr_lies_along(const cr_expr *e, const cr_sym *axis)
{
    if (e->kind == CR_EXPR_LOAD)
        return e->buffer->ndim && cr_sym_uses(e->index[e->buffer->ndim - 1], axis);
    for (int i = 0; i < e->count; i++)
        if (cr_expr_lies_along(e->args[i], axis))
            return true;
    return false;
}
