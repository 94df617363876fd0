/* optim.h - `whole` functions of the optimizer entries (ops/table/optim.op). */
#ifndef CR_TENSOR_OPTIM_H
#define CR_TENSOR_OPTIM_H

#include "num/view.h"

CR_MUST cr_status cr_fused_sgd(const cr_value *arg, cr_value *result);
CR_MUST cr_status cr_fused_adam(const cr_value *arg, cr_value *result);
CR_MUST cr_status cr_fused_adamw(const cr_value *arg, cr_value *result);
CR_MUST cr_status cr_fused_adagrad(const cr_value *arg, cr_value *result);
/* These count the steps up as well. */
CR_MUST cr_status cr_counted_adam(const cr_value *arg, cr_value *result);
CR_MUST cr_status cr_counted_adagrad(const cr_value *arg, cr_value *result);
CR_MUST cr_status cr_counted_rmsprop(const cr_value *arg, cr_value *result);
CR_MUST cr_status cr_counted_adadelta(const cr_value *arg, cr_value *result);

#endif
