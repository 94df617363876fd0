"""Recurrent networks: modules that hold the weights of the operators lstm, gru, rnn_tanh and rnn_relu."""
import math
import warnings

import cresset
from ..._ops import ops
from ..._traced import whole_number
from .. import init
from ..parameter import Parameter
from ..utils.rnn import PackedSequence
from .module import Module

__all__ = ["RNNBase", "RNN", "LSTM", "GRU", "RNNCellBase", "RNNCell", "LSTMCell", "GRUCell"]

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def _apply_permutation(tensor, permutation, dim=1):
    return tensor.index_select(dim, permutation)


def apply_permutation(tensor, permutation, dim=1):
    """Superseded by tensor.index_select(dim, permutation)."""
    warnings.warn("`apply_permutation` is deprecated, please use `tensor.index_select(dim, "
                  "permutation)` instead", FutureWarning, stacklevel=2)
    return _apply_permutation(tensor, permutation, dim)


def _casts_by_itself():
    """Returns whether autocast is on, as far as this build supports it."""
    enabled = getattr(cresset, "is_autocast_enabled", None)
    return enabled is not None and enabled()


def _check_size(name, value):
    if not isinstance(value, int):
        raise TypeError(f"{name} should be of type int, got: {type(value).__name__}")
    if value <= 0:
        raise ValueError(f"{name} must be greater than zero")


def _check_flag(name, value):
    if not isinstance(value, bool):
        raise TypeError(f"{name} should be of type bool, got: {type(value).__name__}")


class RNNBase(Module):
    """Layers and directions of a recurrent network; `mode` chooses the cell.

    Shape: see RNN, LSTM and GRU.

    Example::

        >>> nn.RNNBase("GRU", 3, 4).all_weights[0][0].shape
        torch.Size([12, 3])
    """

    __constants__ = ["mode", "input_size", "hidden_size", "num_layers", "bias", "batch_first",
                     "dropout", "bidirectional", "proj_size"]
    __jit_unused_properties__ = ["all_weights"]

    def __init__(self, mode, input_size, hidden_size, num_layers=1, bias=True,
                 batch_first=False, dropout=0.0, bidirectional=False, proj_size=0, device=None,
                 dtype=None):
        super().__init__()
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._check_arguments(dropout)
        self._flat_weights_names = []
        self._all_weights = []
        for layer in range(num_layers):
            for direction in range(2 if bidirectional else 1):
                self._make_weights(layer, direction, {"device": device, "dtype": dtype})
        self.reset_parameters()

    def _check_arguments(self, dropout):
        if (isinstance(dropout, bool) or not isinstance(dropout, (int, float))
                or not 0 <= dropout <= 1):
            raise ValueError("dropout should be a number in range [0, 1] representing the "
                             "probability of an element being zeroed")
        if dropout > 0 and self.num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero "
                f"dropout expects num_layers greater than 1, but got dropout={dropout} and "
                f"num_layers={self.num_layers}", stacklevel=4)
        _check_flag("bias", self.bias)
        _check_flag("batch_first", self.batch_first)
        _check_size("input_size", self.input_size)
        _check_size("hidden_size", self.hidden_size)
        if self.num_layers <= 0:
            raise ValueError("num_layers must be greater than zero")
        if self.proj_size < 0:
            raise ValueError(
                "proj_size should be a positive integer or zero to disable projections")
        if self.proj_size >= self.hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")
        if self.mode not in _GATES:
            raise ValueError("Unrecognized RNN mode: " + self.mode)

    def _make_weights(self, layer, direction, factory_kwargs):
        rows = _GATES[self.mode] * self.hidden_size
        out = self.proj_size or self.hidden_size
        inputs = self.input_size if layer == 0 else out * self._directions()
        shapes = {"weight_ih": (rows, inputs), "weight_hh": (rows, out)}
        if self.bias:
            shapes.update(bias_ih=(rows,), bias_hh=(rows,))
        if self.proj_size > 0:
            shapes["weight_hr"] = (self.proj_size, self.hidden_size)
        suffix = f"_l{layer}" + ("_reverse" if direction else "")
        names = [name + suffix for name in shapes]
        for name, shape in zip(names, shapes.values()):
            setattr(self, name, Parameter(cresset.empty(shape, **factory_kwargs)))
        self._flat_weights_names.extend(names)
        self._all_weights.append(names)

    def _directions(self):
        return 2 if self.bidirectional else 1

    @property
    def _flat_weights(self):
        """The tensors that forward computes with.  Assigning them leaves the parameters."""
        given = self.__dict__.get("_given_weights", ())
        return [given[name] if name in given else getattr(self, name, None)
                for name in self._flat_weights_names]

    @_flat_weights.setter
    def _flat_weights(self, weights):
        self._given_weights = {name: weight for name, weight
                               in zip(self._flat_weights_names, weights)
                               if weight is not getattr(self, name, None)}

    def __setattr__(self, name, value):
        self.__dict__.get("_given_weights", {}).pop(name, None)
        super().__setattr__(name, value)

    def _apply(self, fn, recurse=True):
        self.__dict__.pop("_given_weights", None)
        return super()._apply(fn, recurse)

    @property
    def all_weights(self):
        """The weights of every layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def flatten_parameters(self):
        """Does nothing: the weights need no flattening."""

    def reset_parameters(self):
        bound = 1.0 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def check_input(self, input, batch_sizes):
        """Raises for an input with a wrong dtype, number of dims or size."""
        dtype = self._flat_weights[0].dtype
        if input.dtype != dtype and not _casts_by_itself():
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({dtype}). Convert "
                f"input: input.to({dtype}), or convert model: model.to({input.dtype})")
        expected = 2 if batch_sizes is not None else 3
        if input.dim() != expected:
            raise RuntimeError(f"input must have {expected} dimensions, got {input.dim()}")
        if self.input_size != input.size(-1):
            raise RuntimeError("input.size(-1) must be equal to input_size. Expected "
                               f"{self.input_size}, got {input.size(-1)}")

    def _state_size(self, input, batch_sizes, size):
        if batch_sizes is not None:
            batch = whole_number(batch_sizes[0])
        else:
            batch = input.size(0 if self.batch_first else 1)
        return self.num_layers * self._directions(), batch, size

    def get_expected_hidden_size(self, input, batch_sizes):
        """The size that the hidden state must have."""
        return self._state_size(input, batch_sizes, self.proj_size or self.hidden_size)

    def check_hidden_size(self, hx, expected_hidden_size,
                          msg="Expected hidden size {}, got {}"):
        """Raises for a state of another size."""
        if tuple(hx.size()) != expected_hidden_size:
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.size())))

    def check_forward_args(self, input, hidden, batch_sizes):
        """Raises for inputs and states that do not match."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx, permutation):
        """The state with its batch reordered."""
        return hx if permutation is None else _apply_permutation(hx, permutation)

    def extra_repr(self):
        s = "{input_size}, {hidden_size}"
        if self.proj_size != 0:
            s += ", proj_size={proj_size}"
        if self.num_layers != 1:
            s += ", num_layers={num_layers}"
        if self.bias is not True:
            s += ", bias={bias}"
        if self.batch_first is not False:
            s += ", batch_first={batch_first}"
        if self.dropout != 0:
            s += ", dropout={dropout}"
        if self.bidirectional is not False:
            s += ", bidirectional={bidirectional}"
        return s.format(**self.__dict__)

    def __getstate__(self):
        return {**self.__dict__, "_flat_weights": self._flat_weights}  # torch expects it

    def __setstate__(self, state):
        super().__setstate__({k: v for k, v in state.items() if k != "_flat_weights"})
        self.__dict__.setdefault("proj_size", 0)

    # Computing.  `states` below is a tuple: (hidden,) or (hidden, cell).

    def _state_sizes(self):
        return (self.proj_size or self.hidden_size,)

    def _zeros(self, input, batch_sizes):
        batch = input.size(0 if self.batch_first else 1) if batch_sizes is None else whole_number(batch_sizes[0])
        layers = self.num_layers * self._directions()
        return tuple(cresset.zeros(layers, batch, size, dtype=input.dtype, device=input.device) for size in self._state_sizes())

    def _weights(self):
        """All weights, by layer and direction."""
        given = self.__dict__.get("_given_weights", ())
        return [given[name] if name in given else getattr(self, name) for names in self._all_weights for name in names]

    def _layers(self, input, states, batch_sizes):
        """All layers; input is (length, batch, size), or packed when `batch_sizes` is given."""
        compute = getattr(ops, self.mode.lower())
        states = list(states) if self.mode == "LSTM" else states[0]
        given = (self._weights(), self.bias, self.num_layers, float(self.dropout), self.training, self.bidirectional)
        if batch_sizes is None:
            output, *states = compute(input, states, *given, False)
        else:
            output, *states = compute(input, batch_sizes, states, *given)
        return output, tuple(states)

    def _forward_packed(self, packed, states):
        data, batch_sizes, sorted_indices, unsorted_indices = packed
        if states is None:
            states = self._zeros(data, batch_sizes)
        elif sorted_indices is not None:
            states = tuple(_apply_permutation(s, sorted_indices) for s in states)
        self._check_states(data, states, batch_sizes)
        output, states = self._layers(data, states, batch_sizes)
        if unsorted_indices is not None:
            states = tuple(_apply_permutation(s, unsorted_indices) for s in states)
        return PackedSequence(output, batch_sizes, sorted_indices, unsorted_indices), states

    def _forward_padded(self, input, states):
        batched = input.dim() == 3
        if not batched:
            input = input.unsqueeze(0 if self.batch_first else 1)
            states = None if states is None else tuple(s.unsqueeze(1) for s in states)
        if states is None:
            states = self._zeros(input, None)
        self._check_states(input, states, None)
        output, states = self._layers(input.transpose(0, 1) if self.batch_first else input,
                                      states, None)
        output = output.transpose(0, 1) if self.batch_first else output
        if not batched:
            output = output.squeeze(0 if self.batch_first else 1)
            states = tuple(s.squeeze(1) for s in states)
        return output, states

    def _check_states(self, input, states, batch_sizes):
        self.check_forward_args(input, states[0], batch_sizes)


def _no_projection(kwargs):
    if "proj_size" in kwargs:
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")


class _OneState(RNNBase):
    """A network whose state is one tensor."""

    def forward(self, input, hx=None):
        states = None if hx is None else (hx,)
        if isinstance(input, PackedSequence):
            output, states = self._forward_packed(input, states)
            return output, states[0]
        if input.dim() not in (2, 3):
            raise ValueError(f"{self._title}: Expected input to be 2D or 3D, got {input.dim()}D "
                             f"{self._title_end}")
        if hx is not None and hx.dim() != input.dim():
            kind = "batched 3-D" if input.dim() == 3 else "unbatched 2-D"
            raise RuntimeError(f"For {kind} input, hx should also be {input.dim()}-D but got "
                               f"{hx.dim()}-D tensor")
        output, states = self._forward_padded(input, states)
        return output, states[0]


class RNN(_OneState):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu instead of tanh.

    Shape: input (L, N, input_size), (N, L, input_size) with batch_first, or (L, input_size); output (L, N, D
    hidden_size), last state (D num_layers, N, hidden_size); D is 2 if bidirectional, else 1.

    Example::

        >>> nn.RNN(3, 4, num_layers=2)(torch.randn(5, 1, 3))[0].shape
        torch.Size([5, 1, 4])
    """

    _title, _title_end = "RNN", "tensor instead"

    def __init__(self, *args, **kwargs):
        _no_projection(kwargs)
        if len(args) > 3:
            self.nonlinearity = args[3]
            args = args[:3] + args[4:]
        else:
            self.nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if self.nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{self.nonlinearity}'. "
                             "Select from 'tanh' or 'relu'.")
        super().__init__("RNN_" + self.nonlinearity.upper(), *args, **kwargs)


class GRU(_OneState):
    """Gated recurrent units.

    Shape: input (L, N, input_size), (N, L, input_size) with batch_first, or (L, input_size); output (L, N, D
    hidden_size), last state (D num_layers, N, hidden_size); D is 2 if bidirectional, else 1.

    Example::

        >>> nn.GRU(3, 4, num_layers=2)(torch.randn(5, 1, 3))[0].shape
        torch.Size([5, 1, 4])
    """

    _title, _title_end = "GRU", "instead"

    def __init__(self, *args, **kwargs):
        _no_projection(kwargs)
        super().__init__("GRU", *args, **kwargs)


class LSTM(RNNBase):
    """Long short-term memory.

    Shape: input (L, N, input_size), (N, L, input_size) with batch_first, or (L, input_size); output (L, N, D
    hidden_size), last state (D num_layers, N, hidden_size) and the cells' state of the same sizes; D is 2 if
    bidirectional, else 1.

    Example::

        >>> [x.shape for x in nn.LSTM(3, 4)(torch.randn(5, 1, 3))[1]]
        [torch.Size([1, 1, 4]), torch.Size([1, 1, 4])]
    """

    def __init__(self, *args, **kwargs):
        super().__init__("LSTM", *args, **kwargs)

    def get_expected_cell_size(self, input, batch_sizes):
        """The size that the cell state must have."""
        return self._state_size(input, batch_sizes, self.hidden_size)

    def check_forward_args(self, input, hidden, batch_sizes):
        """Raises for inputs and states that do not match."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden[0], self.get_expected_hidden_size(input, batch_sizes),
                               "Expected hidden[0] size {}, got {}")
        self.check_hidden_size(hidden[1], self.get_expected_cell_size(input, batch_sizes),
                               "Expected hidden[1] size {}, got {}")

    def permute_hidden(self, hx, permutation):
        """The states with their batch reordered."""
        if permutation is None:
            return hx
        return tuple(_apply_permutation(h, permutation) for h in hx)

    def _state_sizes(self):
        return (*super()._state_sizes(), self.hidden_size)

    def _check_states(self, input, states, batch_sizes):
        self.check_forward_args(input, states, batch_sizes)

    def forward(self, input, hx=None):
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        if input.dim() not in (2, 3):
            raise ValueError(f"LSTM: Expected input to be 2D or 3D, got {input.dim()}D instead")
        if hx is not None and any(h.dim() != input.dim() for h in hx[:2]):
            kind = "batched 3-D" if input.dim() == 3 else "unbatched 2-D"
            raise RuntimeError(
                f"For {kind} input, hx and cx should also be {input.dim()}-D but got "
                f"({hx[0].dim()}-D, {hx[1].dim()}-D) tensors")
        return self._forward_padded(input, hx)


class RNNCellBase(Module):
    """The weights of one step.

    Shape: see RNNCell, LSTMCell and GRUCell.

    Example::

        >>> nn.RNNCellBase(3, 4, True, num_chunks=1).weight_ih.shape
        torch.Size([4, 3])
    """

    __constants__ = ["input_size", "hidden_size", "bias"]

    def __init__(self, input_size, hidden_size, bias, num_chunks, device=None, dtype=None):
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        for name, shape in (("weight_ih", (rows, input_size)), ("weight_hh", (rows, hidden_size)),
                            ("bias_ih", (rows,)), ("bias_hh", (rows,))):
            param = None
            if bias or name.startswith("weight"):
                param = Parameter(cresset.empty(shape, device=device, dtype=dtype))
            self.register_parameter(name, param)
        self.reset_parameters()

    def extra_repr(self):
        s = "{input_size}, {hidden_size}"
        if self.__dict__.get("bias", True) is not True:
            s += ", bias={bias}"
        if self.__dict__.get("nonlinearity", "tanh") != "tanh":
            s += ", nonlinearity={nonlinearity}"
        return s.format(**self.__dict__)

    def reset_parameters(self):
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _check_dims(self, name, value):
        if value.dim() not in (1, 2):
            raise ValueError(f"{type(self).__name__}: Expected {name} to be 1D or 2D, got "
                             f"{value.dim()}D instead")

    def _step(self, cell, input, states):
        """One step of a batch or of one sample; missing states are zero."""
        batched = input.dim() == 2
        input = input if batched else input.unsqueeze(0)
        if not batched:
            states = [s if s is None else s.unsqueeze(0) for s in states]
        if states[0] is None:
            size = (input.size(0), self.hidden_size)
            states = [cresset.zeros(size, dtype=input.dtype, device=input.device)] * len(states)
        self._check_sizes(input, states)
        hx = states if len(states) == 2 else states[0]
        out = cell(input, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        out = out if len(states) == 2 else (out,)
        return out if batched else tuple(s.squeeze(0) for s in out)

    def _check_sizes(self, input, states):
        if input.size(1) != self.input_size:
            raise RuntimeError(f"input has inconsistent input_size: got {input.size(1)} expected "
                               f"{self.input_size}")
        for i, state in enumerate(states):
            if input.size(0) != state.size(0):
                raise RuntimeError(f"Input batch size {input.size(0)} doesn't match hidden{i} "
                                   f"batch size {state.size(0)}")
            if state.size(1) != self.hidden_size:
                raise RuntimeError(f"hidden{i} has inconsistent hidden_size: got "
                                   f"{state.size(1)}, expected {self.hidden_size}")


class RNNCell(RNNCellBase):
    """One step of RNN.

    Shape: input (N, input_size) or (input_size); state (N, hidden_size), zeros if missing; output the new state.

    Example::

        >>> nn.RNNCell(3, 4)(torch.randn(2, 3)).shape
        torch.Size([2, 4])
    """

    __constants__ = ["input_size", "hidden_size", "bias", "nonlinearity"]

    def __init__(self, input_size, hidden_size, bias=True, nonlinearity="tanh", device=None,
                 dtype=None):
        super().__init__(input_size, hidden_size, bias, 1, device=device, dtype=dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input, hx=None):
        self._check_dims("input", input)
        if hx is not None:
            self._check_dims("hidden", hx)
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return self._step(ops.rnn_tanh_cell if self.nonlinearity == "tanh" else ops.rnn_relu_cell, input, [hx])[0]


class LSTMCell(RNNCellBase):
    """One step of LSTM; returns (hidden, cell).

    Shape: input (N, input_size) or (input_size); state and cells (N, hidden_size), zeros if missing; output the new
    ones.

    Example::

        >>> nn.LSTMCell(3, 4)(torch.randn(2, 3))[1].shape
        torch.Size([2, 4])
    """

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, 4, device=device, dtype=dtype)

    def forward(self, input, hx=None):
        self._check_dims("input", input)
        for i, value in enumerate(hx or ()):
            self._check_dims(f"hx[{i}]", value)
        return self._step(ops.lstm_cell, input, [None, None] if hx is None else list(hx))


class GRUCell(RNNCellBase):
    """One step of GRU.

    Shape: input (N, input_size) or (input_size); state (N, hidden_size), zeros if missing; output the new state.

    Example::

        >>> nn.GRUCell(3, 4)(torch.randn(2, 3)).shape
        torch.Size([2, 4])
    """

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, 3, device=device, dtype=dtype)

    def forward(self, input, hx=None):
        self._check_dims("input", input)
        if hx is not None:
            self._check_dims("hidden", hx)
        return self._step(ops.gru_cell, input, [hx])[0]
