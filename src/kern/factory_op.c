/* Entries that make sequences and patterns. */
#include "kern/entries.h"
#include "kern/factory.h"

static cr_scalar number(const cr_value *v) { return v->number; }

/* (start, end, step, ...) */
cr_status cr_kern_arange(const cr_value *arg, cr_view *out)
{
    cr_fill_arange(out, number(&arg[0]), number(&arg[2]));
    return CR_OK;
}

/* (start, end, steps, ...) and (start, end, steps, base, ...) */
cr_status cr_kern_linspace(const cr_value *arg, cr_view *out)
{
    cr_fill_linspace(out, number(&arg[0]), number(&arg[1]));
    return CR_OK;
}

cr_status cr_kern_logspace(const cr_value *arg, cr_view *out)
{
    cr_fill_logspace(out, number(&arg[0]), number(&arg[1]), arg[3].d);
    return CR_OK;
}

cr_status cr_kern_eye(const cr_value *arg, cr_view *out)
{
    (void)arg;
    cr_fill_eye(out);
    return CR_OK;
}

/* (row, col, offset, ...) */
cr_status cr_kern_tril_indices(const cr_value *arg, cr_view *out)
{
    cr_fill_triangle_indices(out, arg[0].i, arg[1].i, arg[2].i, false);
    return CR_OK;
}

cr_status cr_kern_triu_indices(const cr_value *arg, cr_view *out)
{
    cr_fill_triangle_indices(out, arg[0].i, arg[1].i, arg[2].i, true);
    return CR_OK;
}
