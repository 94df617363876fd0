/* print.h - tensors as text, as Python's repr shows them. */
#ifndef CR_AUTOGRAD_PRINT_H
#define CR_AUTOGRAD_PRINT_H

#include "base/text.h"
#include "tensor/tensor.h"

/* How numbers are printed (torch.set_printoptions). */
typedef struct {
    int precision;      /* digits after the point */
    double threshold;   /* tensors with more elements are summarized; may be infinite */
    int64_t edge_items; /* elements at each end of a summarized dim */
    int64_t line_width; /* characters */
    int scientific;     /* 1: always, 0: never, -1: when the magnitudes require it */
} cr_print_options;

/* The options of the process; Python's set_printoptions changes them. */
extern cr_print_options cr_printing;

/* Appends the elements of a strided tensor that has some, as "[1., 2.]"; lines after the first
 * are indented.  Fails with CR_MEMORY, or as a copy to the host does. */
CR_MUST cr_status cr_print_elements(cr_text *out, cr_tensor *t, int64_t indent);

/* Appends the text of a tensor, as "tensor([1., 2.], dtype=torch.float64)".  Fails with
 * CR_NOT_IMPLEMENTED for a sparse tensor. */
CR_MUST cr_status cr_print_tensor(cr_text *out, cr_tensor *t);

#endif
