/* Entries of the functions of slopes.h. */
#include "kern/cpu/each.h"
#include "kern/cpu/entries.h"
#include "kern/cpu/random/slopes.h"

enum { SLOPE_GRAIN = 512 };

#define T       float
#define NAME(x) f32_##x
#include "kern/cpu/random/slopes_loops.inc"
#define T       double
#define NAME(x) f64_##x
#include "kern/cpu/random/slopes_loops.inc"

/* (self, output) */
cr_status cr_kern_standard_gamma_grad(const cr_value *arg, cr_view *out)
{
    static const cr_loops loops = CR_LOOPS(CR_LOOPS_SLOPES, cr_each, gamma_slopes);

    return cr_each_run(&loops, 0, arg, 2, out, SLOPE_GRAIN);
}

/* (x, alpha, total) */
cr_status cr_kern_dirichlet_grad(const cr_value *arg, cr_view *out)
{
    static const cr_loops loops = CR_LOOPS(CR_LOOPS_SLOPES, cr_each, dirichlet_slopes);

    return cr_each_run(&loops, 0, arg, 3, out, SLOPE_GRAIN);
}
