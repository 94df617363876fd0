"""Batch normalization."""
import cresset
from .. import functional as F
from .. import init
from ..parameter import Parameter
from .module import Module

__all__ = ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm"]


class _NormBase(Module):
    """Scale, shift and running statistics of batch and instance normalization."""

    _version = 2
    __constants__ = ["track_running_stats", "momentum", "eps", "num_features", "affine"]

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True,
                 track_running_stats=True, device=None, dtype=None, *, bias=True):
        factory_kwargs = {"device": device, "dtype": dtype}
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            param = Parameter(cresset.empty(num_features, **factory_kwargs)) if wanted else None
            self.register_parameter(name, param)
        stats = (None, None, None)
        if track_running_stats:
            stats = (cresset.zeros(num_features, **factory_kwargs),
                     cresset.ones(num_features, **factory_kwargs),
                     cresset.tensor(0, dtype=cresset.long, device=device))
        for name, value in zip(("running_mean", "running_var", "num_batches_tracked"), stats):
            self.register_buffer(name, value)
        self.reset_parameters()

    def reset_running_stats(self):
        """Resets the running statistics."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self):
        self.reset_running_stats()
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def _check_input_dim(self, input):
        dims = self._dims
        if input.dim() not in dims:
            names = " or ".join(f"{n}D" for n in dims)
            raise ValueError(f"expected {names} input (got {input.dim()}D input)")

    def extra_repr(self):
        return ("{num_features}, eps={eps}, momentum={momentum}, affine={affine}, "
                "bias={use_bias}, track_running_stats={track_running_stats}").format(
                    **self.__dict__, use_bias=self.bias is not None)

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys,
                              unexpected_keys, error_msgs):
        version = local_metadata.get("version", None)
        key = prefix + "num_batches_tracked"
        if (version is None or version < 2) and self.track_running_stats:
            # State dicts of version 1 have no count.
            if key not in state_dict:
                count = self.num_batches_tracked
                usable = count is not None and not count.is_meta
                state_dict[key] = count if usable else cresset.tensor(0, dtype=cresset.long)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys,
                                      unexpected_keys, error_msgs)


class _BatchNorm(_NormBase):
    def forward(self, input):
        self._check_input_dim(input)
        training = self.training
        factor = 0.0 if self.momentum is None else self.momentum
        mean, var = self.running_mean, self.running_var
        if not training:
            # Without running statistics those of the batch are used.
            return F.batch_norm(input, mean, var, self.weight, self.bias,
                                mean is None and var is None, factor, self.eps)
        if not self.track_running_stats:
            mean = var = None
        elif self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # a cumulative average
                factor = 1.0 / float(self.num_batches_tracked)
        return F.batch_norm(input, mean, var, self.weight, self.bias, True, factor, self.eps)


class BatchNorm1d(_BatchNorm):
    """Batch normalization of (N, C) or (N, C, L).

    Shape: input (N, C, L) or (N, C); output the same. C is num_features.

    Example::

        >>> nn.BatchNorm1d(3)(torch.randn(2, 3, 8)).shape
        torch.Size([2, 3, 8])
    """

    _dims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalization of images (N, C, H, W).

    Shape: input (N, C, H, W); output the same. C is num_features.

    Example::

        >>> nn.BatchNorm2d(3)(torch.randn(2, 3, 8, 8)).shape
        torch.Size([2, 3, 8, 8])
    """

    _dims = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch normalization of volumes (N, C, D, H, W).

    Shape: input (N, C, D, H, W); output the same. C is num_features.

    Example::

        >>> nn.BatchNorm3d(3)(torch.randn(2, 3, 8, 8, 8)).shape
        torch.Size([2, 3, 8, 8, 8])
    """

    _dims = (5,)


class SyncBatchNorm(_BatchNorm):
    """Batch normalization over the batches of all processes; without other processes, of one.

    Shape: input (N, C, *); output the same. C is num_features.

    Example::

        >>> nn.SyncBatchNorm(3).eval()(torch.randn(2, 3, 4)).shape
        torch.Size([2, 3, 4])
    """

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True,
                 process_group=None, device=None, dtype=None, *, bias=True):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _check_input_dim(self, input):
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")
        if input.size(1) == 0:
            raise ValueError("SyncBatchNorm number of input channels should be non-zero")

    @classmethod
    def convert_sync_batchnorm(cls, module, process_group=None):
        """Replaces the batch normalizations in `module`, which share their tensors with the old ones."""
        converted = module
        if isinstance(module, _BatchNorm):
            converted = cls(module.num_features, module.eps, module.momentum, module.affine,
                            module.track_running_stats, process_group, bias=module.bias is not None)
            converted._parameters.update(module._parameters)
            converted._buffers.update(module._buffers)
            converted.training = module.training
        for name, child in module.named_children():
            converted.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return converted
