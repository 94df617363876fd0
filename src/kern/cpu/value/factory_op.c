/* Entries that make sequences and patterns. */
#include "kern/cpu/element.h"
#include "kern/cpu/entries.h"
#include "kern/cpu/value/choices_job.h"
#include "kern/cpu/value/factory.h"
#include "kern/cpu/walk.h"

static cr_scalar scalar_arg(const cr_value *v) { return v->number; }

/* (start, end, step, ...) */
cr_status cr_kern_arange(const cr_value *arg, cr_view *out)
{
    cr_fill_arange(out, scalar_arg(&arg[0]), scalar_arg(&arg[2]));
    return CR_OK;
}

/* (start, end, step, ...) */
cr_status cr_kern_range(const cr_value *arg, cr_view *out)
{
    cr_fill_range(out, scalar_arg(&arg[0]), scalar_arg(&arg[2]));
    return CR_OK;
}

/* (start, end, steps, ...) and (start, end, steps, base, ...) */
cr_status cr_kern_linspace(const cr_value *arg, cr_view *out)
{
    cr_fill_linspace(out, scalar_arg(&arg[0]), scalar_arg(&arg[1]));
    return CR_OK;
}

cr_status cr_kern_logspace(const cr_value *arg, cr_view *out)
{
    cr_fill_logspace(out, scalar_arg(&arg[0]), scalar_arg(&arg[1]), arg[3].d);
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

#define T       float
#define NAME(x) f32_##x
#include "kern/cpu/value/choices_loops.inc"
#define T       double
#define NAME(x) f64_##x
#include "kern/cpu/value/choices_loops.inc"

/* (self, r, with_replacement) */
cr_status cr_kern_combinations(const cr_value *arg, cr_view *out)
{
    static const cr_loops loops = CR_LOOPS(CR_LOOPS_CHOICES, choices_job, choices);
    choices_job w = {(int64_t *)(void *)out->data, cr_view_numel(arg[0].view), arg[1].i,
                     arg[2].i};

    return cr_loops_run(out->device, &loops, CR_F32, out->size[0], 4096, &w);
}
