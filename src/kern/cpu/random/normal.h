/* normal.h - normal numbers in blocks of 16, in torch's order and bits. */
#ifndef CR_KERN_RANDOM_NORMAL_H
#define CR_KERN_RANDOM_NORMAL_H

#include "num/generator.h"
#include "num/view.h"

/* True for dense tensors of 16 or more floats: these are filled in blocks, others one number
 * after the other. */
bool cr_fills_blocks(const cr_view *out);

/* Fills such a tensor.  Takes the generator's lock. */
void cr_fill_blocks(const cr_view *out, cr_generator *g, double mean, double std);

#endif
