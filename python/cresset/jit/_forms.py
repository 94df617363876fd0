"""Functions of torch.nn.functional, and methods of its modules, as the compiler reads them.

The functions that run eagerly take shortcuts that TorchScript has no words for.  These say the
same in TorchScript.  `form_of(f)` gives the form of a function, `method_of(cls, name)` that of a
method.
"""
import functools
import inspect
import warnings
import weakref
from typing import Any, List, Optional, Tuple

import cresset as torch
from cresset import Tensor

from .._classes import RANGE
from .annotations import BroadcastingList1, BroadcastingList2, BroadcastingList3


class Form:
    """A function as the compiler reads it, under the name of another one."""

    def __init__(self, name, module, source, line, file=__file__, globals=None):
        self.__name__, self.__module__, self.source, self.line, self.file = name, module, source, line, file
        self.globals = globals  # names that it sees; None: those of this module


_forms = {}
_methods = {}


def _text(fn):
    lines, line = inspect.getsourcelines(fn)
    while lines[0].startswith("@"):
        lines, line = lines[1:], line + 1
    return "".join(lines), line


def _of(fn):
    """Makes `fn` the form of the function of nn.functional with its name."""
    source, line = _text(fn)
    _forms[fn.__name__] = Form(fn.__name__, "torch.nn.functional", source, line, fn.__code__.co_filename, fn.__globals__)
    return fn


def form_of_text(name, source, file, globals):
    """Makes a text the form of a function of nn.functional, or of a method `Class.method`."""
    own = source[len("def "):source.index("(")]
    method = "." in name
    (_methods if method else _forms)[name] = Form(own, "torch.nn" if method else "torch.nn.functional", source, 1, file, globals)


def _of_module(module):
    """Makes a function the form of the one of its name in this module of torch."""
    def mark(fn):
        _of(fn).__module__ = module
        _forms[fn.__name__].__module__ = module
        return fn
    return mark


def _named(name):
    """Makes a function the form of one whose compiled form has another name."""
    def mark(fn):
        _of(fn)
        form = _forms[fn.__name__]
        form.__name__ = name
        form.source = form.source.replace(f"def {fn.__name__}(", f"def {name}(", 1)
        return fn
    return mark


def _method(*names):
    """Makes `fn` the form of methods: `Class.method` in torch.nn."""
    def mark(fn):
        source, line = _text(fn)
        name = names[0].rpartition(".")[2]
        source = source.replace(f"def {fn.__name__}(", f"def {name}(", 1)
        for full in names:
            _methods[full] = Form(name, "torch.nn", source, line, fn.__code__.co_filename, fn.__globals__)
        return fn
    return mark


def named(name):
    """The function whose form has this name: the first module that has the name owns it."""
    homes = torch.nn.functional, torch.nn._reduction, torch.nn._losses, torch.nn._resampling, torch, torch.nn.utils.rnn
    return next((getattr(home, name) for home in homes if hasattr(home, name)), None)


def form_of(obj):
    """The form of a function of nn.functional, or None."""
    name = getattr(obj, "__name__", None)
    form = _forms.get(name) if isinstance(name, str) else None
    return form if form is not None and named(name) is obj else None


_overloaded = {}


def overload(name, module, *functions):
    """Makes functions the overloads of the one with this name: a call means the first that takes its arguments."""
    _overloaded[name] = []
    for fn in functions:
        source, line = _text(fn)
        source = source.replace(f"def {fn.__name__}(", f"def {name}(", 1)
        _overloaded[name].append(Form(name, module, source, line, fn.__code__.co_filename, fn.__globals__))


def overloads_of(obj):
    """The forms of a function's overloads; none for functions with one form."""
    name = getattr(obj, "__name__", None)
    known = _overloaded.get(name) if isinstance(name, str) else None
    return known if known and named(name) is obj else []


class Choice:
    """Two functions, one of which a call means: a boolean argument, constant when it is compiled, chooses."""

    def __init__(self, arg_name, index, default, if_true, if_false):
        self.arg_name, self.index, self.default = arg_name, index, default
        self.if_true, self.if_false = if_true, if_false


_choices = {}
boolean_dispatched = weakref.WeakKeyDictionary()  # functions that `boolean_dispatch` made -> their parts


def form_of_choice(name, arg_name, index, if_true):
    """Calls of the function of nn.functional mean the one with the name `if_true` where the argument is True."""
    def made():
        return Choice(arg_name, index, False, named(if_true), _forms[name])
    _choices[name] = functools.cache(made)


def choose(name, choice):
    """Calls of the function of this name mean one of the choice's."""
    _choices[name] = lambda: choice


def choice_of(obj):
    """The functions that a call of this one chooses from, or None."""
    if obj in boolean_dispatched:
        return _dispatch_of(obj)
    name = getattr(obj, "__name__", None)
    made = _choices.get(name) if isinstance(name, str) else None
    return made() if made is not None and named(name) is obj else None


@functools.cache
def _dispatch_of(fn):
    return Choice(**boolean_dispatched[fn])


def method_of(cls, name):
    """The form of a method of a module's class, or None."""
    for base in cls.__mro__:
        form = _methods.get(f"{base.__name__}.{name}")
        if form is not None and (base.__module__ or "").startswith(("cresset.nn", "torch.nn")):
            return form
        if name in vars(base):
            return None
    return None


def unused(fn):
    """A function with the parameters of `fn`, of any type, that raises."""
    import ast
    import textwrap
    lines, line = inspect.getsourcelines(fn)
    node = ast.parse(textwrap.dedent("".join(lines))).body[0]
    node.args.vararg = node.args.kwarg = None
    for arg in node.args.args[1:] + node.args.kwonlyargs:
        arg.annotation = ast.Name("Any")
    node.body = ast.parse("raise RuntimeError('Cannot call @unused methods')").body
    line += node.lineno - 1
    node.decorator_list = []
    names = {**fn.__globals__, **inspect.getclosurevars(fn).nonlocals, "Any": Any}
    return Form(fn.__name__, fn.__module__, ast.unparse(node) + "\n", line, inspect.getsourcefile(fn), names)


class ClassForm:
    """A class as the compiler reads it."""

    def __init__(self, name, attributes, methods):
        self.name, self.attributes, self.methods = name, attributes, methods


_classes = {}


def class_of(cls):
    """The form of a class, or None."""
    return _classes.get(cls)


def _class(cls, name, attributes, *methods):
    forms = []
    for fn in methods:
        source, line = _text(fn)
        short = fn.__name__.partition("_of_")[0]
        forms.append(Form(short, "torch", source.replace(f"def {fn.__name__}(", f"def {short}(", 1), line))
    _classes[cls] = ClassForm(name, attributes, forms)


# --- names of reductions, and torch's old arguments for them ---

@_of_module("torch.nn._reduction")
def get_enum(reduction: str) -> int:
    if reduction == "none":
        ret = 0
    elif reduction == "mean":
        ret = 1
    elif reduction == "elementwise_mean":
        warnings.warn("reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.")
        ret = 1
    elif reduction == "sum":
        ret = 2
    else:
        ret = -1
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return ret


@_of_module("torch.nn._reduction")
def legacy_get_string(size_average: Optional[bool], reduce: Optional[bool], emit_warning: bool = True) -> str:
    warning = "size_average and reduce args will be deprecated, please use reduction='{}' instead."
    if size_average is None:
        size_average = True
    if reduce is None:
        reduce = True
    if size_average and reduce:
        ret = "mean"
    elif reduce:
        ret = "sum"
    else:
        ret = "none"
    if emit_warning:
        warnings.warn(warning.format(ret))
    return ret


# --- functions ---

@_of
def relu(input: Tensor, inplace: bool = False) -> Tensor:
    if inplace:
        result = torch.relu_(input)
    else:
        result = torch.relu(input)
    return result


@_of
def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    if inplace:
        result = torch.ops.aten.hardtanh_(input, 0.0, 6.0)
    else:
        result = torch.ops.aten.relu6(input)
    return result


@_of
def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    if inplace:
        result = torch.ops.aten.elu_(input, alpha)
    else:
        result = torch.ops.aten.elu(input, alpha)
    return result


@_of
def selu(input: Tensor, inplace: bool = False) -> Tensor:
    if inplace:
        result = torch.selu_(input)
    else:
        result = torch.selu(input)
    return result


@_of
def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    if inplace:
        result = torch.celu_(input, alpha)
    else:
        result = torch.celu(input, alpha)
    return result


@_of
def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    if inplace:
        result = torch.ops.aten.leaky_relu_(input, negative_slope)
    else:
        result = torch.ops.aten.leaky_relu(input, negative_slope)
    return result


@_of
def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    if inplace:
        result = torch.ops.aten.hardtanh_(input, min_val, max_val)
    else:
        result = torch.ops.aten.hardtanh(input, min_val, max_val)
    return result


@_of
def silu(input: Tensor, inplace: bool = False) -> Tensor:
    if inplace:
        return torch.ops.aten.silu_(input)
    return torch.ops.aten.silu(input)


@_of
def mish(input: Tensor, inplace: bool = False) -> Tensor:
    if inplace:
        return torch.ops.aten.mish_(input)
    return torch.ops.aten.mish(input)


@_of
def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    if inplace:
        return torch.ops.aten.hardswish_(input)
    return torch.ops.aten.hardswish(input)


@_of
def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    if inplace:
        return torch.ops.aten.hardsigmoid_(input)
    return torch.ops.aten.hardsigmoid(input)


@_of
def tanhshrink(input):
    return input - input.tanh()


@_of
def softsign(input):
    return input / (input.abs() + 1)


@_of
def tanh(input):
    return input.tanh()


@_of
def sigmoid(input):
    return input.sigmoid()


@_of
def glu(input: Tensor, dim: int = -1) -> Tensor:
    if input.dim() == 0:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    return torch.ops.aten.glu(input, dim)


@_of
def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if inplace:
        result = torch.dropout_(input, p, training)
    else:
        result = torch.dropout(input, p, training)
    return result


@_of
def softmax(input: Tensor, dim: Optional[int] = None, _stacklevel: int = 3, dtype: Optional[int] = None) -> Tensor:
    if dim is None:
        dim = 0 if input.dim() == 0 or input.dim() == 1 or input.dim() == 3 else 1
    if dtype is None:
        ret = input.softmax(dim)
    else:
        ret = input.softmax(dim, dtype=dtype)
    return ret


@_of
def log_softmax(input: Tensor, dim: Optional[int] = None, _stacklevel: int = 3, dtype: Optional[int] = None) -> Tensor:
    if dim is None:
        dim = 0 if input.dim() == 0 or input.dim() == 1 or input.dim() == 3 else 1
    if dtype is None:
        ret = input.log_softmax(dim)
    else:
        ret = input.log_softmax(dim, dtype=dtype)
    return ret


@_of
def batch_norm(input: Tensor, running_mean: Optional[Tensor], running_var: Optional[Tensor],
               weight: Optional[Tensor] = None, bias: Optional[Tensor] = None, training: bool = False,
               momentum: float = 0.1, eps: float = 1e-5) -> Tensor:
    if training:
        size = input.size()
        count = size[0]
        for i in range(len(size) - 2):
            count *= size[i + 2]
        if count == 1:
            raise ValueError(f"Expected more than 1 value per channel when training, got input size {size}")
    return torch.batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, True)


@_of
def layer_norm(input: Tensor, normalized_shape: List[int], weight: Optional[Tensor] = None,
               bias: Optional[Tensor] = None, eps: float = 1e-5) -> Tensor:
    return torch.layer_norm(input, normalized_shape, weight, bias, eps, True)


@_of
def group_norm(input: Tensor, num_groups: int, weight: Optional[Tensor] = None, bias: Optional[Tensor] = None,
               eps: float = 1e-5) -> Tensor:
    return torch.group_norm(input, num_groups, weight, bias, eps, True)


@_of
def _limit_rows(weight: Tensor, input: Tensor, max_norm: float, norm_type: float):
    rows = input.reshape(-1)
    table = weight.detach()
    table.index_copy_(0, rows, torch.renorm(table.index_select(0, rows), norm_type, 0, max_norm))


@_of
def embedding(input: Tensor, weight: Tensor, padding_idx: Optional[int] = None, max_norm: Optional[float] = None,
              norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False) -> Tensor:
    if padding_idx is not None:
        if padding_idx > 0:
            assert padding_idx < weight.size(0), "Padding_idx must be within num_embeddings"
        elif padding_idx < 0:
            assert padding_idx >= -weight.size(0), "Padding_idx must be within num_embeddings"
            padding_idx = weight.size(0) + padding_idx
    else:
        padding_idx = -1
    if max_norm is not None:
        input = input.contiguous()
        torch.nn.functional._limit_rows(weight, input, max_norm, norm_type)
    return torch.embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)


@_named("_max_pool2d")
def max_pool2d(input: Tensor, kernel_size: BroadcastingList2[int], stride: Optional[BroadcastingList2[int]] = None,
               padding: BroadcastingList2[int] = 0, dilation: BroadcastingList2[int] = 1, ceil_mode: bool = False,
               return_indices: bool = False) -> Tensor:
    if stride is None:
        stride = torch.jit.annotate(List[int], [])
    return torch.max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode)


@_of
def adaptive_avg_pool2d(input: Tensor, output_size: BroadcastingList2[int]) -> Tensor:
    return torch.ops.aten.adaptive_avg_pool2d(input, output_size)


@_of
def cross_entropy(input: Tensor, target: Tensor, weight: Optional[Tensor] = None, size_average: Optional[bool] = None,
                  ignore_index: int = -100, reduce: Optional[bool] = None, reduction: str = "mean",
                  label_smoothing: float = 0.0) -> Tensor:
    if size_average is not None or reduce is not None:
        reduction = torch.nn._reduction.legacy_get_string(size_average, reduce)
    number = torch.nn._reduction.get_enum(reduction)
    return torch.ops.aten.cross_entropy_loss(input, target, weight, number, ignore_index, label_smoothing)


@_of
def nll_loss(input: Tensor, target: Tensor, weight: Optional[Tensor] = None, size_average: Optional[bool] = None,
             ignore_index: int = -100, reduce: Optional[bool] = None, reduction: str = "mean") -> Tensor:
    if size_average is not None or reduce is not None:
        reduction = torch.nn._reduction.legacy_get_string(size_average, reduce)
    number = torch.nn._reduction.get_enum(reduction)
    return torch.ops.aten.nll_loss_nd(input, target, weight, number, ignore_index)


@_of
def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Optional[Tensor] = None) -> Tensor:
    denom = input.norm(p, [dim], keepdim=True).clamp_min(eps).expand_as(input)
    if out is None:
        return input / denom
    return torch.div(input, denom, out=out)


# --- modules ---

@_method("Sequential.forward")
def sequential_forward(self, input):
    for module in self:
        input = module(input)
    return input


@_method("_ConvNd._conv_forward", "Conv2d._conv_forward")
def conv2d_forward(self, input: Tensor, weight: Tensor, bias: Optional[Tensor]):
    if self.padding_mode != "zeros":
        return torch.conv2d(
            torch.nn.functional.pad(input, self._reversed_padding_repeated_twice, self.padding_mode), weight, bias, self.stride,
            [0, 0], self.dilation, self.groups)
    return torch.conv2d(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)


@_method("Conv1d._conv_forward")
def conv1d_forward(self, input: Tensor, weight: Tensor, bias: Optional[Tensor]):
    if self.padding_mode != "zeros":
        return torch.conv1d(
            torch.nn.functional.pad(input, self._reversed_padding_repeated_twice, self.padding_mode), weight, bias, self.stride,
            [0], self.dilation, self.groups)
    return torch.conv1d(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)


@_method("_BatchNorm.forward")
def batch_norm_forward(self, input: Tensor) -> Tensor:
    self._check_input_dim(input)
    if self.momentum is None:
        exponential_average_factor = 0.0
    else:
        exponential_average_factor = self.momentum
    if self.training and self.track_running_stats:
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                exponential_average_factor = 1.0 / float(self.num_batches_tracked)
            else:
                exponential_average_factor = self.momentum
    if self.training:
        bn_training = True
    else:
        bn_training = (self.running_mean is None) and (self.running_var is None)
    return torch.nn.functional.batch_norm(
        input, self.running_mean if not self.training or self.track_running_stats else None,
        self.running_var if not self.training or self.track_running_stats else None, self.weight, self.bias,
        bn_training, exponential_average_factor, self.eps)


@_method("Flatten.forward")
def flatten_forward(self, input: Tensor) -> Tensor:
    return input.flatten(self.start_dim, self.end_dim)


@_method("BatchNorm1d._check_input_dim")
def check_dim_1(self, input):
    if input.dim() != 2 and input.dim() != 3:
        raise ValueError(f"expected 2D or 3D input (got {input.dim()}D input)")


@_method("BatchNorm2d._check_input_dim")
def check_dim_2(self, input):
    if input.dim() != 4:
        raise ValueError(f"expected 4D input (got {input.dim()}D input)")


@_method("BatchNorm3d._check_input_dim")
def check_dim_3(self, input):
    if input.dim() != 5:
        raise ValueError(f"expected 5D input (got {input.dim()}D input)")


@_of
def _assert(condition: bool, message: str):
    assert condition, message


# --- recurrent layers and their cells ---

@_method("RNNCell.forward")
def rnn_cell_forward(self, input: Tensor, hx: Optional[Tensor] = None) -> Tensor:
    if input.dim() != 1 and input.dim() != 2:
        raise ValueError(f"RNNCell: Expected input to be 1D or 2D, got {input.dim()}D instead")
    batched = input.dim() == 2
    x = input if batched else input.unsqueeze(0)
    if hx is None:
        h = torch.zeros(x.size(0), self.hidden_size, dtype=input.dtype, device=input.device)
    else:
        if hx.dim() != 1 and hx.dim() != 2:
            raise ValueError(f"RNNCell: Expected hidden to be 1D or 2D, got {hx.dim()}D instead")
        h = hx if batched else hx.unsqueeze(0)
    if self.nonlinearity == "tanh":
        h = torch.rnn_tanh_cell(x, h, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
    else:
        h = torch.rnn_relu_cell(x, h, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
    return h if batched else h.squeeze(0)


@_method("GRUCell.forward")
def gru_cell_forward(self, input: Tensor, hx: Optional[Tensor] = None) -> Tensor:
    if input.dim() != 1 and input.dim() != 2:
        raise ValueError(f"GRUCell: Expected input to be 1D or 2D, got {input.dim()}D instead")
    batched = input.dim() == 2
    x = input if batched else input.unsqueeze(0)
    if hx is None:
        h = torch.zeros(x.size(0), self.hidden_size, dtype=input.dtype, device=input.device)
    else:
        if hx.dim() != 1 and hx.dim() != 2:
            raise ValueError(f"GRUCell: Expected hidden to be 1D or 2D, got {hx.dim()}D instead")
        h = hx if batched else hx.unsqueeze(0)
    h = torch.gru_cell(x, h, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
    return h if batched else h.squeeze(0)


@_method("LSTMCell.forward")
def lstm_cell_forward(self, input: Tensor, hx: Optional[Tuple[Tensor, Tensor]] = None) -> Tuple[Tensor, Tensor]:
    batched = input.dim() == 2
    if not batched and input.dim() != 1:
        raise ValueError(f"LSTMCell: Expected input to be 1D or 2D, got {input.dim()}D instead")
    x = input if batched else input.unsqueeze(0)
    if hx is None:
        h = torch.zeros(x.size(0), self.hidden_size, dtype=input.dtype, device=input.device)
        c = h
    else:
        h, c = hx
        if h.dim() != 2 and h.dim() != 1:
            raise ValueError(f"LSTMCell: Expected hx[0] to be 1D or 2D, got {h.dim()}D instead")
        if c.dim() != 2 and c.dim() != 1:
            raise ValueError(f"LSTMCell: Expected hx[1] to be 1D or 2D, got {c.dim()}D instead")
        if not batched:
            h, c = h.unsqueeze(0), c.unsqueeze(0)
    h, c = torch.lstm_cell(x, [h, c], self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
    if not batched:
        h, c = h.squeeze(0), c.squeeze(0)
    return h, c


@_method("_OneState.forward")
def one_state_forward(self, input: Tensor, hx: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
    if input.dim() != 2 and input.dim() != 3:
        raise ValueError(f"{self.mode[:3]}: Expected input to be 2D or 3D, got {input.dim()}D instead")
    batched = input.dim() == 3
    batch_dim = 0 if self.batch_first else 1
    x = input if batched else input.unsqueeze(batch_dim)
    if hx is None:
        h = torch.zeros(self.num_layers * (2 if self.bidirectional else 1), x.size(batch_dim), self.hidden_size,
                        dtype=input.dtype, device=input.device)
    else:
        if hx.dim() != input.dim():
            kind = "batched 3-D" if batched else "unbatched 2-D"
            raise RuntimeError(f"For {kind} input, hx should also be {input.dim()}-D but got {hx.dim()}-D tensor")
        h = hx if batched else hx.unsqueeze(1)
    if self.mode == "GRU":
        output, h = torch.gru(x, h, self._flat_weights, self.bias, self.num_layers, float(self.dropout), self.training,
                              self.bidirectional, self.batch_first)
    elif self.mode == "RNN_TANH":
        output, h = torch.rnn_tanh(x, h, self._flat_weights, self.bias, self.num_layers, float(self.dropout), self.training,
                                   self.bidirectional, self.batch_first)
    else:
        output, h = torch.rnn_relu(x, h, self._flat_weights, self.bias, self.num_layers, float(self.dropout), self.training,
                                   self.bidirectional, self.batch_first)
    if not batched:
        output, h = output.squeeze(batch_dim), h.squeeze(1)
    return output, h


@_method("LSTM.forward")
def lstm_forward(self, input: Tensor, hx: Optional[Tuple[Tensor, Tensor]] = None) -> Tuple[Tensor, Tuple[Tensor, Tensor]]:
    if input.dim() != 2 and input.dim() != 3:
        raise ValueError(f"LSTM: Expected input to be 2D or 3D, got {input.dim()}D instead")
    batched = input.dim() == 3
    batch_dim = 0 if self.batch_first else 1
    x = input if batched else input.unsqueeze(batch_dim)
    if hx is None:
        rows = self.num_layers * (2 if self.bidirectional else 1)
        c = torch.zeros(rows, x.size(batch_dim), self.hidden_size, dtype=input.dtype, device=input.device)
        h = torch.zeros(rows, x.size(batch_dim), self.proj_size if self.proj_size > 0 else self.hidden_size,
                        dtype=input.dtype, device=input.device)
    else:
        if hx[0].dim() != input.dim() or hx[1].dim() != input.dim():
            kind = "batched 3-D" if batched else "unbatched 2-D"
            raise RuntimeError(f"For {kind} input, hx and cx should also be {input.dim()}-D but got ({hx[0].dim()}-D, "
                               f"{hx[1].dim()}-D) tensors")
        h = hx[0] if batched else hx[0].unsqueeze(1)
        c = hx[1] if batched else hx[1].unsqueeze(1)
    output, h, c = torch.lstm(x, [h, c], self._flat_weights, self.bias, self.num_layers, float(self.dropout), self.training,
                              self.bidirectional, self.batch_first)
    if not batched:
        output, h, c = output.squeeze(batch_dim), h.squeeze(1), c.squeeze(1)
    return output, (h, c)


# --- classes ---

def __init___of_no_grad(self):
    self.prev = False


def __enter___of_no_grad(self) -> None:
    self.prev = torch.is_grad_enabled()
    torch.set_grad_enabled(False)


def __exit___of_no_grad(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
    torch.set_grad_enabled(self.prev)


_class(torch.no_grad, "__torch__.torch.autograd.grad_mode.no_grad", [("prev", "bool")], __init___of_no_grad,
       __enter___of_no_grad, __exit___of_no_grad)


def __enter___of_record_function(self):
    self.record = torch.ops.profiler._record_function_enter_new(self.name, self.args)
    return self


def __exit___of_record_function(self, exc_type: Any, exc_value: Any, traceback: Any):
    if not self.run_callbacks_on_exit:
        return
    record = self.record
    if record is None:
        raise AssertionError("Expected record to be set")
    torch.ops.profiler._record_function_exit(record)


def __init___of_record_function(self, name: str, args: Optional[str] = None):
    self.name = name
    self.args = args
    self.run_callbacks_on_exit = True
    self.record = torch.jit.annotate(Optional["torch.classes.profiler._RecordFunction"], None)
    self._cupti_monitor_external_id = None


def _call_end_callbacks_on_future_of_record_function(self, fut: torch.jit.Future[Any]) -> torch.jit.Future[Any]:
    if not self.run_callbacks_on_exit:
        raise RuntimeError("_call_end_callbacks_on_future can only be called once.")
    self.run_callbacks_on_exit = False
    record = self.record
    if record is None:
        raise AssertionError("Expected record to be set")
    profiled_future = torch.ops.profiler._call_end_callbacks_on_jit_fut(record, fut)
    return profiled_future



_class(torch.autograd.profiler.record_function, "__torch__.torch.autograd.profiler.record_function",
       [("name", "str"), ("args", "Optional[str]"), ("run_callbacks_on_exit", "bool"), ("record", f"Optional[{RANGE}]"),
        ("_cupti_monitor_external_id", "NoneType")],
       __enter___of_record_function, __exit___of_record_function, __init___of_record_function,
       _call_end_callbacks_on_future_of_record_function)


from . import (_forms_of_attention, _forms_of_functional, _forms_of_layers, _forms_of_losses,  # noqa: E402 (they use this module)
               _forms_of_sequences)
