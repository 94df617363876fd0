/* loss.h - kernels of losses, for the operator table (`extern` functions, num/view.h). */
#ifndef CR_KERN_LOSS_H
#define CR_KERN_LOSS_H

#include "num/view.h"

/* nll_loss_forward: self [N, C] or [C], target, weight [C] or None, reduction, ignore_index
 * to output and total weight.  CR_INDEX for a class out of range, CR_RUNTIME for its dtype. */
CR_MUST cr_status cr_kern_nll_loss(const cr_value *arg, cr_view *out);
/* nll_loss_backward: grad_output, then nll_loss_forward's arguments and the total weight. */
CR_MUST cr_status cr_kern_nll_loss_backward(const cr_value *arg, cr_view *out);
/* _ctc_loss: log_probs [T, N, C], targets [N, S] or one after another, input lengths, target
 * lengths, blank to losses [N] and log_alpha [N, T, 2S + 1].  CR_INDEX for a label out of range. */
CR_MUST cr_status cr_kern_ctc_loss(const cr_value *arg, cr_view *out);
/* _ctc_loss_backward: grad, these arguments, the losses, zero_infinity. */
CR_MUST cr_status cr_kern_ctc_loss_backward(const cr_value *arg, cr_view *out);

#endif
