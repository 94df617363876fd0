/* Orthogonal polynomials by their recurrences, in torch's order of operations, which torch's
 * compiler contracts to fused multiply-adds.  Chebyshev
 * polynomials of higher degree are computed by their trigonometric forms between -1 and 1. */
#include "kern/cpu/each.h"
#include "kern/cpu/entries.h"
#include <math.h>
#include <string.h>

#define T       float
#define NAME(x) f32_##x
#define F(g)    g##f
#include "kern/cpu/polynomial_loops.inc"
#define T       double
#define NAME(x) f64_##x
#define F(g)    g
#include "kern/cpu/polynomial_loops.inc"

/* (x, n, name); x and n have the result's sizes. */
cr_status cr_kern_polynomial(const cr_value *arg, cr_view *out)
{
    static const cr_loops loops = CR_LOOPS(CR_LOOPS_EACH, cr_each, polynomial);
    static const char *const names[] = {
#define NAMED(name, number) [number] = #name,
        POLYNOMIALS(NAMED)
#undef NAMED
    };

    for (size_t i = 0; i < CR_LEN(names); i++)
        if (strlen(names[i]) == arg[2].len && !memcmp(names[i], arg[2].s, arg[2].len))
            return cr_each_run(&loops, (int64_t)i, arg, 2, out, 1024);
    return cr_fail(CR_VALUE, "no polynomial is called '%.*s'", (int)arg[2].len, arg[2].s);
}
