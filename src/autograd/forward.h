/* forward.h - forward mode: tangents of results by those of inputs.
 *
 * Tangents go along the recorded graph, from the inputs to the results.  How a derivative of
 * the table gives a tangent is a property of its rule, which is linear in the cotangent:
 * element by element the Jacobian is its own transpose; an entry that is affine in an operand
 * is called with the tangent; what remains is differentiated by the cotangent. */
#ifndef CR_AUTOGRAD_FORWARD_H
#define CR_AUTOGRAD_FORWARD_H

#include "autograd/autograd_impl.h"

typedef enum {
    CR_PUSH_NONE,       /* the derivative is zero */
    CR_PUSH_DIAGONAL,   /* the rule takes each element of the cotangent times a number */
    CR_PUSH_APPLIED,    /* the entry is affine in the operand */
    CR_PUSH_TRANSPOSED, /* the rule is one call, of whose entry there is a derivative */
    CR_PUSH_PULLED      /* the node is applied to a cotangent, by which it is differentiated */
} cr_push_how;

typedef struct {
    uint8_t how;     /* cr_push_how */
    bool analytic;   /* DIAGONAL: also of complex numbers, with conjugates */
    uint8_t result;  /* DIAGONAL, TRANSPOSED: the result whose cotangent the rule reads */
    uint32_t beside; /* bits of derivatives whose operands multiply this one */
} cr_push_need;

/* How the derivatives of an entry give tangents. */
typedef struct {
    uint64_t lets;    /* slots of lets that read a cotangent */
    uint32_t zeroed;  /* Scalar parameters that are added, not multiplied: 0 of tangents */
    uint64_t further; /* parameters that an affine entry's call reads besides its operands */
    _Atomic uint64_t pulled; /* nodes that were pulled */
    cr_push_need need[];     /* by derivative */
} cr_push_plan;

/* For TRANSPOSED: the derivative, by parameter `param`, of `op`, the entry that the rule calls;
 * NULL if that derivative is no transpose.  cr_cotangent_argument is the number of the call's
 * argument that is the cotangent in `slot`, or -1. */
const cr_need *cr_transpose_of(const cr_op *op, int param);
int cr_cotangent_argument(const cr_op *op, const cr_rule *call, int slot);

/* Made once, at the first use; NULL without memory. */
cr_push_plan *cr_push_plan_of(const cr_derivative_plan *p);

/* cr_node_kind.push of any node: applies it to cotangents and differentiates by them. */
CR_MUST cr_status cr_node_pull(cr_node *n, cr_tensor *const *tangents, cr_tensor **out);
/* engine.c: cr_backward() by inputs that this thread made after all nodes that do not lead to
 * them. */
CR_MUST cr_status cr_backward_by_new(const cr_backward_call *call, cr_tensor **results);
/* engine.c: the gradients of those edges that have a tangent. */
CR_MUST cr_status cr_node_apply_for(cr_node *n, cr_tensor *const *tangents,
                                    cr_tensor *const *grads, cr_tensor **out);

#endif
