"""Batch norms of convolutions, as a part of the convolutions' weights."""
import copy

from .. import no_grad, ops
from ..export._c_file import _Input
from ..fx import GraphModule

_CONVOLUTIONS = tuple(getattr(ops.aten, name).default for name in ("conv1d", "conv2d"))


def _pairs(graph):
    """(convolution, batch norm) of those that may be joined: the norm has given statistics and is the only reader."""
    for node in graph.nodes:
        if node.op != "call_function" or node.target is not ops.aten.batch_norm.default:
            continue
        before, training = node.args[0], node.args[5]
        if not training and before.op == "call_function" and before.target in _CONVOLUTIONS and len(before.users) == 1 and not node.kwargs:
            yield before, node


def _joined(weight, bias, scale, shift, mean, var, eps):
    """Weight and bias of a convolution that includes a batch norm."""
    with no_grad():
        factor = (var.double() + eps).rsqrt()
        factor = factor * scale.double() if scale is not None else factor
        new = (weight.double() * factor.view(-1, *[1] * (weight.ndim - 1))).to(weight.dtype)
        offset = ((bias.double() if bias is not None else 0) - mean.double()) * factor
        return new, (offset + shift.double() if shift is not None else offset).to(weight.dtype)


def folded(program, inputs):
    """The program's graph and its inputs with batch norms in convolutions.  Values differ by rounding."""
    if not any(True for _ in _pairs(program.graph)):
        return program.graph_module, inputs
    graph, inputs = copy.deepcopy(program.graph), list(inputs)
    holders = [n for n in graph.nodes if n.op == "placeholder"]
    value = {n: x for n, x in zip(holders, inputs)}
    last = holders[-1]
    for number, (conv, norm) in enumerate(list(_pairs(graph))):
        operands = [conv.args[1], conv.args[2] if len(conv.args) > 2 else None, *norm.args[1:5]]
        if conv.kwargs or any(n is not None and (n not in value or value[n].kind == "argument") for n in operands):
            continue
        pair = _joined(*(None if n is None else value[n].value for n in operands), norm.args[7])
        made = []
        for name, x in zip(("weight", "bias"), pair):
            with graph.inserting_after(last):
                last = graph.placeholder(f"folded_{number}_{name}")
            inputs.append(_Input(last.name, x, "parameter"))
            inputs[-1].target = last.name
            made.append(last)
        conv.args = (conv.args[0], *made, *conv.args[3:])
        norm.replace_all_uses_with(conv)
        graph.erase_node(norm)
    unused = [i for i, n in enumerate(holders) if not n.users and inputs[i].kind != "argument"]
    for i in reversed(unused):
        graph.erase_node(holders[i])
        del inputs[i]
    return GraphModule(program.graph_module, graph), inputs
