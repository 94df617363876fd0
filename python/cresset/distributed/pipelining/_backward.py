"""Backward of a stage by itself: as a whole, and in two halves."""
import cresset

from ... import autograd

__all__ = ["stage_backward", "stage_backward_input", "stage_backward_weight"]


def _tensors(values):
    """Yields the tensors in tuples, lists and dicts."""
    if isinstance(values, cresset.Tensor):
        yield values
    elif isinstance(values, (tuple, list, dict)):
        for value in values.values() if isinstance(values, dict) else values:
            yield from _tensors(value)


def _pairs(outputs, grads):
    """Yields each tensor of a stage's outputs that requires a gradient, with its gradient; None: of a loss."""
    if isinstance(outputs, cresset.Tensor):
        if outputs.requires_grad:
            yield outputs, grads
        elif grads is not None and not isinstance(grads, cresset.Tensor):
            raise AssertionError(f"Expected Tensor or None gradient, got {type(grads)}")
    elif isinstance(outputs, (tuple, list, dict)):
        if grads is None:
            return
        if type(outputs) is not type(grads) and isinstance(outputs, dict):
            raise AssertionError(f"grad_values expected to have type {type(outputs)} but got {type(grads)}")
        keys = outputs if isinstance(outputs, dict) else range(len(outputs))
        if len(outputs) != len(grads):
            raise AssertionError(f"len(output_val) {len(outputs)} != len(grad_val) {len(grads)}")
        for k in keys:
            yield from _pairs(outputs[k], grads[k])


def stage_backward(stage_output, output_grads, input_values, outputs_with_grads_idxs=None):
    """Accumulates the gradients of the stage's parameters.  Returns those of its inputs: None for one that is no tensor."""
    if outputs_with_grads_idxs is not None:
        stage_output = [stage_output[k] for k in outputs_with_grads_idxs]
        output_grads = [output_grads[k] for k in outputs_with_grads_idxs]
    pairs = list(_pairs(stage_output, output_grads))
    for x in _tensors(input_values):
        if x.requires_grad and not x.is_leaf:
            x.retain_grad()
    autograd.backward([x for x, _ in pairs], [g for _, g in pairs])
    return tuple(x.grad if isinstance(x, cresset.Tensor) else None for x in input_values)


def stage_backward_input(stage_outputs_or_loss, output_grads, input_values, weights):
    """Accumulates the gradients of the inputs alone.  Returns them, and what stage_backward_weight() needs."""
    grads = [cresset.ones_like(x) for x in stage_outputs_or_loss] if output_grads is None else list(output_grads)
    inputs = [x for x in input_values if isinstance(x, cresset.Tensor) and x.requires_grad]
    found = iter(autograd.grad(stage_outputs_or_loss, inputs, grads, retain_graph=True) if inputs else ())
    made = [next(found) if any(x is y for y in inputs) else None for x in input_values]
    for x, g in zip(input_values, made):
        if g is not None:
            x.grad = g if x.grad is None else x.grad + g
    return tuple(made), [{"params": list(weights), "outputs": list(stage_outputs_or_loss), "grads": grads}]


def stage_backward_weight(weights, param_groups, retain_graph=False):
    """Accumulates the gradients of the parameters, after those of the inputs.  Returns them."""
    weights = list(weights)
    for group in param_groups:
        params = [p for p in group["params"] if p.requires_grad]
        if params:
            autograd.backward(group["outputs"], group["grads"], inputs=params, retain_graph=retain_graph)
        if not retain_graph:
            group["outputs"] = group["grads"] = ()
    return tuple(p.grad for p in weights)
