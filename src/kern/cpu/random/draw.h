/* draw.h - what kernels that draw elements one by one share. */
#ifndef CR_KERN_RANDOM_DRAW_H
#define CR_KERN_RANDOM_DRAW_H

#include "kern/cpu/element.h"
#include "kern/cpu/walk.h"
#include "num/generator.h"

/* The source of the numbers of binomial.h, gamma.h and poisson.h. */
typedef cr_generator cr_draw;
#define cr_draw_double cr_generator_double
#define cr_draw_normal cr_generator_normal
/* A loop that devices have (emit/draws.cuh). */
#define CR_DRAW_LOOPS(name)                                                                    \
    {                                                                                          \
        CR_LOOPS_DRAWS, #name, NULL, NULL, sizeof(cr_each)                                     \
    }

/* The generator that the user gave, or the default one. */
static inline cr_generator *cr_generator_of(const cr_value *v)
{
    bool given = v->tag == CR_GENERATOR && v->generator;

    return given ? v->generator : cr_generator_default();
}

static inline double cr_real_load(cr_dtype t, const char *p)
{
    return cr_scalar_as_double(cr_scalar_load(t, p));
}

#endif
