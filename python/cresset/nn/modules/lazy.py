"""Modules that infer the size of their input from the first input."""
import cresset
from ..parameter import UninitializedBuffer, UninitializedParameter, is_lazy
from .batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from .conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from .instancenorm import InstanceNorm1d, InstanceNorm2d, InstanceNorm3d
from .linear import Linear
from .module import Module

__all__ = ["LazyLinear", "LazyConv1d", "LazyConv2d", "LazyConv3d", "LazyConvTranspose1d",
           "LazyConvTranspose2d", "LazyConvTranspose3d", "LazyBatchNorm1d", "LazyBatchNorm2d",
           "LazyBatchNorm3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d", "LazyInstanceNorm3d"]


class LazyModuleMixin(Module.__base__):  # the same base, so that objects may change class
    """Precedes a module's class in the bases; initialize_parameters(input) sizes the parameters.

    The parameters are initialized in the first call or when a state dict is loaded.  After the
    first call the object has the class `cls_to_become`.
    """

    cls_to_become = None

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._infer_handle = self.register_forward_pre_hook(_infer, with_kwargs=True)

    def initialize_parameters(self, *args, **kwargs):
        raise NotImplementedError("initialize_parameters is not implemented for "
                                  f"{type(self).__name__}")

    def _sized_later(self):
        """(name, tensor) of the parameters and buffers whose size is not known yet."""
        return [(name, t) for tensors in (self._parameters, self._buffers) for name, t in tensors.items() if is_lazy(t)]

    def has_uninitialized_params(self):
        """Returns whether a parameter or a buffer has no size yet."""
        return bool(self._sized_later())

    def reset_parameters(self):
        if not self.has_uninitialized_params() and self._sized():
            super().reset_parameters()

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for name, tensor in self._sized_later():
            if name not in self._non_persistent_buffers_set:
                destination[prefix + name] = tensor

    def _load_from_state_dict(self, state_dict, prefix, *args, **kwargs):
        for name, tensor in self._sized_later():
            given = state_dict.get(prefix + name)
            if given is not None and not is_lazy(given):
                tensor.materialize(given.shape)
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)


def _infer(module, inputs, kwargs):
    module.initialize_parameters(*inputs, **kwargs)
    if module.has_uninitialized_params():
        raise RuntimeError(f"module {module._get_name()} has not been fully initialized")
    module._infer_handle.remove()
    del module._infer_handle
    if module.cls_to_become is not None:
        module.__class__ = module.cls_to_become


class LazyLinear(LazyModuleMixin, Linear):
    """A Linear whose in_features is the last size of its first input.

    Shape: input (*, in_features), where in_features is that of the first input; output (*, out_features).

    Example::

        >>> nn.LazyLinear(4)(torch.randn(2, 3)).shape
        torch.Size([2, 4])
    """

    cls_to_become = Linear

    def __init__(self, out_features, bias=True, device=None, dtype=None):
        super().__init__(0, 0, False, device, dtype)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def _sized(self):
        return self.in_features != 0

    def initialize_parameters(self, input):
        """Sets the sizes from `input`."""
        if self.has_uninitialized_params():
            self.in_features = input.shape[-1]
            self.weight.materialize((self.out_features, self.in_features))
            if self.bias is not None:
                self.bias.materialize((self.out_features,))
            self.reset_parameters()
        if self.in_features == 0:
            if input.shape[-1] != self.weight.shape[-1]:
                raise AssertionError("The in_features inferred from input: "
                                     f"{input.shape[-1]} is not equal to in_features from "
                                     f"self.weight: {self.weight.shape[-1]}")
            self.in_features = input.shape[-1]


class _LazyConv(LazyModuleMixin):
    _spatial = 0

    def __init__(self, out_channels, kernel_size, *args, bias=True, device=None, dtype=None,
                 **kwargs):
        super().__init__(0, 0, kernel_size, *args, bias=False, device=device, dtype=dtype,
                         **kwargs)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def _sized(self):
        return self.in_channels != 0

    def _channels(self, input):
        without = self._spatial + 1
        if input.dim() not in (without, without + 1):
            raise RuntimeError(
                f"Expected {without}D (unbatched) or {without + 1}D (batched) input to "
                f"{type(self).__name__}, but got input of size: {input.shape}")
        return input.shape[1] if input.dim() == without + 1 else input.shape[0]

    def initialize_parameters(self, input, *unused):
        """Sets the sizes from `input`."""
        if not self.has_uninitialized_params():
            return
        self.in_channels = self._channels(input)
        if self.in_channels % self.groups:
            raise ValueError("in_channels must be divisible by groups")
        first, second = self.out_channels, self.in_channels // self.groups
        if self.transposed:
            first, second = self.in_channels, self.out_channels // self.groups
        self.weight.materialize((first, second, *self.kernel_size))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()


class _LazyNorm(LazyModuleMixin):
    def __init__(self, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, device=None,
                 dtype=None, *, bias=True):
        super().__init__(0, eps, momentum, False, False, device, dtype)
        self.affine = affine
        self.track_running_stats = track_running_stats
        options = {"device": device, "dtype": dtype}
        if affine:
            self.weight = UninitializedParameter(**options)
            if bias:
                self.bias = UninitializedParameter(**options)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(**options)
            self.running_var = UninitializedBuffer(**options)
            self.num_batches_tracked = cresset.tensor(0, dtype=cresset.long, device=device)

    def _sized(self):
        return self.num_features != 0

    def initialize_parameters(self, input):
        """Sets the sizes from `input`."""
        if self.num_features:
            return
        self.num_features = input.shape[1]
        for _, tensor in self._sized_later():
            tensor.materialize((self.num_features,))
        self.reset_parameters()


def _family(base, kind, dims):
    """Makes LazyX from X."""
    name = "Lazy" + kind.__name__
    made_by = f"nn.{name}({'6, kernel_size=2' if 'Conv' in name else ''})"
    sizes = ", ".join(["2", "3", *["8"] * dims])
    doc = f"""A {kind.__name__} whose input size is that of its first input.

    Shape: as {kind.__name__}.

    Example::

        >>> layer = {made_by}
        >>> layer(torch.randn({sizes})).shape[0], type(layer).__name__
        (2, '{kind.__name__}')
    """
    made = type(name, (base, kind), {"cls_to_become": kind, "_spatial": dims, "__doc__": doc,
                                     "__module__": __name__})
    globals()[name] = made


for _dims, _kinds in enumerate(((Conv1d, ConvTranspose1d, BatchNorm1d, InstanceNorm1d),
                                (Conv2d, ConvTranspose2d, BatchNorm2d, InstanceNorm2d),
                                (Conv3d, ConvTranspose3d, BatchNorm3d, InstanceNorm3d)), 1):
    for _kind in _kinds:
        _family(_LazyNorm if "Norm" in _kind.__name__ else _LazyConv, _kind, _dims)
