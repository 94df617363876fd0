"""Activation functions and attention as modules."""
import warnings

import cresset
from .. import functional as F
from .. import init as _init
from ..parameter import Parameter
from .linear import NonDynamicallyQuantizableLinear
from .module import Module

__all__ = [
    "Threshold", "ReLU", "Hardtanh", "ReLU6", "Sigmoid", "Hardsigmoid", "Tanh", "SiLU",
    "Mish", "Hardswish", "ELU", "CELU", "SELU", "GLU", "GELU", "Hardshrink", "LeakyReLU",
    "LogSigmoid", "Softplus", "Softshrink", "MultiheadAttention", "PReLU", "Softsign",
    "RReLU", "Tanhshrink", "Softmin", "Softmax", "Softmax2d", "LogSoftmax"]


class _Inplace(Module):
    """An activation whose only argument is `inplace`."""

    __constants__ = ["inplace"]

    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = inplace

    def extra_repr(self):
        return "inplace=True" if self.inplace else ""


class RReLU(Module):
    """x where positive, else x times a number, which is random in training.

    Shape: input (*), any sizes; output the same.

    Example::

        >>> nn.RReLU()(torch.tensor([-2., 0., 2.])).shape
        torch.Size([3])
    """

    __constants__ = ["lower", "upper", "inplace"]

    def __init__(self, lower=1.0 / 8, upper=1.0 / 3, inplace=False):
        super().__init__()
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, input):
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self):
        inplace = ", inplace=True" if self.inplace else ""
        return f"lower={self.lower}, upper={self.upper}{inplace}"


class _Alpha(Module):
    """An activation with `alpha` and `inplace`."""

    __constants__ = ["alpha", "inplace"]

    def __init__(self, alpha=1.0, inplace=False):
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def extra_repr(self):
        return f"alpha={self.alpha}{_also_inplace(self)}"


def _also_inplace(module):
    return ", inplace=True" if module.inplace else ""


class Threshold(Module):
    """x where x > threshold, else value.

    Shape: input (*), any sizes; output the same.

    Example::

        >>> nn.Threshold(0.1, 20)(torch.tensor([-2., 0., 2.]))
        tensor([20., 20.,  2.])
    """

    __constants__ = ["threshold", "value", "inplace"]

    def __init__(self, threshold, value, inplace=False):
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input):
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self):
        return f"threshold={self.threshold}, value={self.value}{_also_inplace(self)}"


class ReLU(_Inplace):
    """max(0, x).

    Shape: input (*), any sizes; output the same.

    Example::

        >>> nn.ReLU()(torch.tensor([-2., 0., 2.]))
        tensor([0., 0., 2.])
    """

    def forward(self, input):
        return F.relu(input, self.inplace)


class Hardtanh(Module):
    """x limited to [min_val, max_val].

    Shape: input (*), any sizes; output the same.

    Example::

        >>> nn.Hardtanh()(torch.tensor([-2., 0., 2.]))
        tensor([-1.,  0.,  1.])
    """

    __constants__ = ["min_val", "max_val", "inplace"]

    def __init__(self, min_val=-1.0, max_val=1.0, inplace=False, min_value=None,
                 max_value=None):
        super().__init__()
        if min_value is not None:
            warnings.warn("keyword argument `min_value` is deprecated and renamed to `min_val`",
                          FutureWarning, stacklevel=2)
            min_val = min_value
        if max_value is not None:
            warnings.warn("keyword argument `max_value` is deprecated and renamed to `max_val`",
                          FutureWarning, stacklevel=2)
            max_val = max_value
        self.min_val = min_val
        self.max_val = max_val
        self.inplace = inplace
        if max_val <= min_val:
            raise AssertionError(f"max_val ({max_val}) must be greater than min_val ({min_val})")

    def forward(self, input):
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self):
        return f"min_val={self.min_val}, max_val={self.max_val}{_also_inplace(self)}"


class ReLU6(Hardtanh):
    """min(max(0, x), 6).

    Shape: input (*), any sizes; output the same.

    Example::

        >>> nn.ReLU6()(torch.tensor([-2., 3., 9.]))
        tensor([0., 3., 6.])
    """

    def __init__(self, inplace=False):
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self):
        return "inplace=True" if self.inplace else ""


class Sigmoid(Module):
    """1 / (1 + exp(-x)).

    Shape: input (*), any sizes; output the same.

    Example::

        >>> nn.Sigmoid()(torch.tensor([-2., 0., 2.]))
        tensor([0.1192, 0.5000, 0.8808])
    """

    def forward(self, input):
        return cresset.sigmoid(input)


class Hardsigmoid(Module):
    """relu6(x + 3) / 6.

    Shape: input (*), any sizes; output the same.

    Example::

        >>> nn.Hardsigmoid()(torch.tensor([-2., 0., 2.])).shape
        torch.Size([3])
    """

    __constants__ = ["inplace"]

    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = inplace

    def forward(self, input):
        return F.hardsigmoid(input, self.inplace)


class Tanh(Module):
    """The hyperbolic tangent.

    Shape: input (*), any sizes; output the same.

    Example::

        >>> nn.Tanh()(torch.tensor([-2., 0., 2.]))
        tensor([-0.9640,  0.0000,  0.9640])
    """

    def forward(self, input):
        return cresset.tanh(input)


class SiLU(_Inplace):
    """x * sigmoid(x).

    Shape: input (*), any sizes; output the same.

    Example::

        >>> nn.SiLU()(torch.tensor([-2., 0., 2.]))
        tensor([-0.2384,  0.0000,  1.7616])
    """

    def forward(self, input):
        return F.silu(input, self.inplace)


class Mish(_Inplace):
    """x * tanh(softplus(x)).

    Shape: input (*), any sizes; output the same.

    Example::

        >>> nn.Mish()(torch.tensor([-2., 0., 2.])).shape
        torch.Size([3])
    """

    def forward(self, input):
        return F.mish(input, self.inplace)


class Hardswish(_Inplace):
    """x * relu6(x + 3) / 6.

    Shape: input (*), any sizes; output the same.

    Example::

        >>> nn.Hardswish()(torch.tensor([-2., 0., 2.])).shape
        torch.Size([3])
    """

    def forward(self, input):
        return F.hardswish(input, self.inplace)


class ELU(_Alpha):
    """x where positive, else alpha * (exp(x) - 1).

    Shape: input (*), any sizes; output the same.

    Example::

        >>> nn.ELU()(torch.tensor([-2., 0., 2.]))
        tensor([-0.8647,  0.0000,  2.0000])
    """

    def forward(self, input):
        return F.elu(input, self.alpha, self.inplace)


class CELU(_Alpha):
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1)).

    Shape: input (*), any sizes; output the same.

    Example::

        >>> nn.CELU()(torch.tensor([-2., 0., 2.])).shape
        torch.Size([3])
    """

    def forward(self, input):
        return F.celu(input, self.alpha, self.inplace)


class SELU(_Inplace):
    """ELU with the constants of self-normalizing networks.

    Shape: input (*), any sizes; output the same.

    Example::

        >>> nn.SELU()(torch.tensor([-2., 0., 2.])).shape
        torch.Size([3])
    """

    def forward(self, input):
        return F.selu(input, self.inplace)


class GLU(Module):
    """The first half along `dim` times the sigmoid of the second.

    Shape: input (*, 2 n, *); output (*, n, *), half as long along `dim`.

    Example::

        >>> nn.GLU()(torch.randn(2, 6)).shape
        torch.Size([2, 3])
    """

    __constants__ = ["dim"]

    def __init__(self, dim=-1):
        super().__init__()
        self.dim = dim

    def forward(self, input):
        return F.glu(input, self.dim)

    def extra_repr(self):
        return f"dim={self.dim}"


class GELU(Module):
    """x times the Gaussian distribution function of x.

    Shape: input (*), any sizes; output the same.

    Example::

        >>> nn.GELU()(torch.tensor([-2., 0., 2.]))
        tensor([-0.0455,  0.0000,  1.9545])
    """

    __constants__ = ["approximate"]

    def __init__(self, approximate="none"):
        super().__init__()
        self.approximate = approximate

    def forward(self, input):
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self):
        return f"approximate={self.approximate!r}"


class Hardshrink(Module):
    """x where |x| > lambd, else 0.

    Shape: input (*), any sizes; output the same.

    Example::

        >>> nn.Hardshrink()(torch.tensor([-2., 0., 2.])).shape
        torch.Size([3])
    """

    __constants__ = ["lambd"]

    def __init__(self, lambd=0.5):
        super().__init__()
        self.lambd = lambd

    def forward(self, input):
        return F.hardshrink(input, self.lambd)

    def extra_repr(self):
        return f"{self.lambd}"


class LeakyReLU(Module):
    """x where positive, else negative_slope * x.

    Shape: input (*), any sizes; output the same.

    Example::

        >>> nn.LeakyReLU(0.1)(torch.tensor([-2., 0., 2.]))
        tensor([-0.2000,  0.0000,  2.0000])
    """

    __constants__ = ["inplace", "negative_slope"]

    def __init__(self, negative_slope=0.01, inplace=False):
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input):
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self):
        return f"negative_slope={self.negative_slope}{_also_inplace(self)}"


class LogSigmoid(Module):
    """log(sigmoid(x)), computed without overflow.

    Shape: input (*), any sizes; output the same.

    Example::

        >>> nn.LogSigmoid()(torch.tensor([-2., 0., 2.])).shape
        torch.Size([3])
    """

    def forward(self, input):
        return F.logsigmoid(input)


class Softplus(Module):
    """log(1 + exp(beta * x)) / beta.

    Shape: input (*), any sizes; output the same.

    Example::

        >>> nn.Softplus()(torch.tensor([-2., 0., 2.]))
        tensor([0.1269, 0.6931, 2.1269])
    """

    __constants__ = ["beta", "threshold"]

    def __init__(self, beta=1.0, threshold=20.0):
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input):
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self):
        return f"beta={self.beta}, threshold={self.threshold}"


class Softshrink(Module):
    """x moved towards zero by lambd.

    Shape: input (*), any sizes; output the same.

    Example::

        >>> nn.Softshrink()(torch.tensor([-2., 0., 2.])).shape
        torch.Size([3])
    """

    __constants__ = ["lambd"]

    def __init__(self, lambd=0.5):
        super().__init__()
        self.lambd = lambd

    def forward(self, input):
        return F.softshrink(input, self.lambd)

    def extra_repr(self):
        return str(self.lambd)


class MultiheadAttention(Module):
    """Attention of several heads with learned projections.

    Shape: query (L, N, E), key (S, N, kdim), value (S, N, vdim), (N, L, E) and so on with batch_first, or without
    N; output (L, N, E) and weights (N, L, S); E is embed_dim.

    Example::

        >>> [x.shape for x in nn.MultiheadAttention(8, 2)(*[torch.randn(5, 1, 8)] * 3)]
        [torch.Size([5, 1, 8]), torch.Size([1, 5, 5])]
    """

    __constants__ = ["batch_first"]

    def __init__(self, embed_dim, num_heads, dropout=0.0, bias=True, add_bias_kv=False,
                 add_zero_attn=False, kdim=None, vdim=None, batch_first=False, device=None,
                 dtype=None):
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                "embed_dim and num_heads must be greater than 0, got "
                f"embed_dim={embed_dim} and num_heads={num_heads} instead")
        factory_kwargs = {"device": device, "dtype": dtype}
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = kdim if kdim is not None else embed_dim
        self.vdim = vdim if vdim is not None else embed_dim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")
        self._make_projections(bias, factory_kwargs)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias,
                                                        **factory_kwargs)
        if add_bias_kv:
            self.bias_k = Parameter(cresset.empty((1, 1, embed_dim), **factory_kwargs))
            self.bias_v = Parameter(cresset.empty((1, 1, embed_dim), **factory_kwargs))
        else:
            self.bias_k = self.bias_v = None
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _make_projections(self, bias, factory_kwargs):
        n = self.embed_dim
        separate = {"q_proj_weight": (n, n), "k_proj_weight": (n, self.kdim),
                    "v_proj_weight": (n, self.vdim)}
        if self._qkv_same_embed_dim:
            self.in_proj_weight = Parameter(cresset.empty((3 * n, n), **factory_kwargs))
            for name in separate:
                self.register_parameter(name, None)
        else:
            for name, shape in separate.items():
                setattr(self, name, Parameter(cresset.empty(shape, **factory_kwargs)))
            self.register_parameter("in_proj_weight", None)
        if bias:
            self.in_proj_bias = Parameter(cresset.empty(3 * n, **factory_kwargs))
        else:
            self.register_parameter("in_proj_bias", None)

    def _reset_parameters(self):
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight,
                       self.v_proj_weight):
            if weight is not None:
                _init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            _init.constant_(self.in_proj_bias, 0.0)
            _init.constant_(self.out_proj.bias, 0.0)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                _init.xavier_normal_(bias)

    def __setstate__(self, state):
        state.setdefault("_qkv_same_embed_dim", True)
        super().__setstate__(state)

    def forward(self, query, key, value, key_padding_mask=None, need_weights=True,
                attn_mask=None, average_attn_weights=True, is_causal=False):
        batched = query.dim() == 3
        key_padding_mask = F._canonical_mask(
            key_padding_mask, "key_padding_mask", F._none_or_dtype(attn_mask), "attn_mask",
            query.dtype)
        attn_mask = F._canonical_mask(attn_mask, "attn_mask", None, "", query.dtype, False)
        if self.batch_first and batched:
            query, key, value = self._length_first(query, key, value)
        separate = {}
        if not self._qkv_same_embed_dim:
            separate = {"use_separate_proj_weight": True, "q_proj_weight": self.q_proj_weight,
                        "k_proj_weight": self.k_proj_weight,
                        "v_proj_weight": self.v_proj_weight}
        out, weights = F.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight,
            self.in_proj_bias, self.bias_k, self.bias_v, self.add_zero_attn, self.dropout,
            self.out_proj.weight, self.out_proj.bias, training=self.training,
            key_padding_mask=key_padding_mask, need_weights=need_weights, attn_mask=attn_mask,
            average_attn_weights=average_attn_weights, is_causal=is_causal, **separate)
        if self.batch_first and batched:
            out = out.transpose(1, 0)
        return out, weights

    @staticmethod
    def _length_first(query, key, value):
        # Inputs that are the same object must remain so, because one product then projects
        # them.
        turned = {id(x): x.transpose(1, 0) for x in (query, key, value)}
        return turned[id(query)], turned[id(key)], turned[id(value)]

    def merge_masks(self, attn_mask, key_padding_mask, query):
        """Returns both masks as one mask with four dims, and its kind (0, 1, 2 or None)."""
        kind, merged = None, None
        if key_padding_mask is not None:
            kind, merged = 1, key_padding_mask
        if attn_mask is not None:
            batch, length, _ = query.shape
            kind = 2
            if attn_mask.dim() == 3:
                merged = attn_mask.view(batch, -1, length, length)
            else:
                merged = attn_mask.view(1, 1, length, length)
                merged = merged.expand(batch, self.num_heads, -1, -1)
            if key_padding_mask is not None:
                padding = key_padding_mask.view(batch, 1, 1, length)
                merged = merged + padding.expand(-1, self.num_heads, -1, -1)
        return merged, kind


class PReLU(Module):
    """x where positive, else weight * x with a learned weight.

    Shape: input (*) or (N, C, *), where C is num_parameters unless that is 1; output the same.

    Example::

        >>> nn.PReLU()(torch.tensor([-2., 2.])).detach()
        tensor([-0.5000,  2.0000])
    """

    __constants__ = ["num_parameters"]

    def __init__(self, num_parameters=1, init=0.25, device=None, dtype=None):
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(cresset.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self):
        _init.constant_(self.weight, self.init)

    def forward(self, input):
        return F.prelu(input, self.weight)

    def extra_repr(self):
        return f"num_parameters={self.num_parameters}"


class Softsign(Module):
    """x / (1 + |x|).

    Shape: input (*), any sizes; output the same.

    Example::

        >>> nn.Softsign()(torch.tensor([-2., 0., 2.])).shape
        torch.Size([3])
    """

    def forward(self, input):
        return F.softsign(input)


class Tanhshrink(Module):
    """x - tanh(x).

    Shape: input (*), any sizes; output the same.

    Example::

        >>> nn.Tanhshrink()(torch.tensor([-2., 0., 2.])).shape
        torch.Size([3])
    """

    def forward(self, input):
        return F.tanhshrink(input)


class _AlongDim(Module):
    __constants__ = ["dim"]

    def __init__(self, dim=None):
        super().__init__()
        self.dim = dim

    def __setstate__(self, state):
        super().__setstate__(state)
        self.__dict__.setdefault("dim", None)

    def extra_repr(self):
        return f"dim={self.dim}"


class Softmin(_AlongDim):
    """softmax(-x).

    Shape: input (*), any sizes; output the same.

    Example::

        >>> nn.Softmin(dim=1)(torch.zeros(2, 4)).shape
        torch.Size([2, 4])
    """

    def forward(self, input):
        return F.softmin(input, self.dim, _stacklevel=5)


class Softmax(_AlongDim):
    """exp(x) divided by its sum along `dim`.

    Shape: input (*), any sizes; output the same.

    Example::

        >>> nn.Softmax(dim=1)(torch.tensor([[0., 0.], [0., 100.]]))
        tensor([[5.0000e-01, 5.0000e-01],
                [3.7835e-44, 1.0000e+00]])
    """

    def forward(self, input):
        return F.softmax(input, self.dim, _stacklevel=5)


class Softmax2d(Module):
    """Softmax over the channels of images.

    Shape: input (N, C, H, W) or (C, H, W); output the same.

    Example::

        >>> nn.Softmax2d()(torch.zeros(1, 2, 3, 3)).shape
        torch.Size([1, 2, 3, 3])
    """

    def forward(self, input):
        if input.dim() not in (3, 4):
            raise ValueError(
                f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
        return F.softmax(input, -3, _stacklevel=5)


class LogSoftmax(_AlongDim):
    """log(softmax(x)), computed without overflow.

    Shape: input (*), any sizes; output the same.

    Example::

        >>> nn.LogSoftmax(dim=1)(torch.zeros(2, 4)).shape
        torch.Size([2, 4])
    """

    def forward(self, input):
        return F.log_softmax(input, self.dim, _stacklevel=5)
