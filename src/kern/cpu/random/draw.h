/* draw.h - what kernels that draw elements one by one share. */
#ifndef CR_KERN_RANDOM_DRAW_H
#define CR_KERN_RANDOM_DRAW_H

#include "kern/cpu/element.h"
#include "kern/cpu/walk.h"
#include "num/generator.h"

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
