"""torch.onnx without an exporter: names that libraries register their operators with."""
import pytest

import cresset as torch
from cresset.onnx import symbolic_helper, symbolic_opset11


class Node:
    """A node Constant of a graph."""

    def __init__(self, tensor):
        self.tensor = tensor

    def node(self):
        return self

    def kind(self):
        return "onnx::Constant"

    def t(self, name):
        return {"value": self.tensor}[name]


class Graph:
    def op(self, name, *inputs, **attributes):
        return name, inputs, attributes


def test_arguments_are_converted_by_their_descriptors():
    @symbolic_helper.parse_args("v", "i", "f", "is", "t", "s", "b")
    def function(g, *args):
        return args

    x, t = object(), torch.tensor([1, 2])
    got = function(None, x, Node(torch.tensor(3)), Node(torch.tensor(0.5)), Node(t), Node(t), 7, 1)
    assert got[:4] == (x, 3, 0.5, [1, 2]) and got[4] is t and got[5:] == ("7", True)
    assert type(got[1]) is int and function.__name__ == "function"
    with pytest.raises(AssertionError, match="number of arguments \\(8\\) and their descriptors"):
        function(None, *range(8))


def test_operators_as_nodes():
    g = Graph()
    assert symbolic_opset11.unsqueeze(g, "x", 1) == ("Unsqueeze", ("x",), {"axes_i": [1]})
    assert symbolic_opset11.squeeze(g, "x") == ("Squeeze", ("x",), {})
    assert symbolic_opset11.squeeze(g, "x", 0) == ("Squeeze", ("x",), {"axes_i": [0]})
    assert symbolic_opset11.select(g, "x", 1, "i") == ("Gather", ("x", "i"), {"axis_i": 1})


def test_operators_are_registered_by_name():
    torch.onnx.register_custom_op_symbolic("mine::op", len, 11)
    assert torch.onnx._custom["mine::op", 11] is len
    torch.onnx.unregister_custom_op_symbolic("mine::op", 11)
    assert ("mine::op", 11) not in torch.onnx._custom
    with pytest.raises(torch.onnx.OnnxExporterError, match="Failed to register operator foo."):
        torch.onnx.register_custom_op_symbolic("foo", len, 11)
    assert torch.onnx.TensorProtoDataType.INT64 == 7
