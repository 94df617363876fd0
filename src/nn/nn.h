/* nn.h - modules, optimizers and data for C programs: includes the public header. */
#ifndef CR_NN_NN_H
#define CR_NN_NN_H

#include "autograd/autograd.h"
#include "num/generator.h"
#include "tensor/arg.h"

#ifndef CR_INSIDE
#define CR_INSIDE
#endif
#include "cresset_nn.h"

#endif
