"""Instance normalization."""
import warnings

from .. import functional as F
from .batchnorm import _NormBase

__all__ = ["InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"]


class _InstanceNorm(_NormBase):
    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=False,
                 track_running_stats=False, device=None, dtype=None, *, bias=True):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype,
                         bias=bias)

    def _get_no_batch_dim(self):
        return self._dims[0]

    def _handle_no_batch_input(self, input):
        return self._apply_instance_norm(input.unsqueeze(0)).squeeze(0)

    def _apply_instance_norm(self, input):
        return F.instance_norm(
            input, self.running_mean, self.running_var, self.weight, self.bias,
            self.training or not self.track_running_stats,
            self.momentum if self.momentum is not None else 0.0, self.eps)

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys,
                              unexpected_keys, error_msgs):
        if local_metadata.get("version", None) is None and not self.track_running_stats:
            keys = [prefix + name for name in ("running_mean", "running_var")
                    if prefix + name in state_dict]
            if keys:
                error_msgs.append(self._old_checkpoint_message(keys))
            for key in keys:
                state_dict.pop(key)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys,
                                      unexpected_keys, error_msgs)

    def _old_checkpoint_message(self, keys):
        names, klass = " and ".join(f'"{k}"' for k in keys), type(self).__name__
        return (
            f"Unexpected running stats buffer(s) {names} for {klass} with "
            "track_running_stats=False. If state_dict is a checkpoint saved before 0.4.0, this "
            f"may be expected because {klass} does not track running stats by default since "
            "0.4.0. Please remove these keys from state_dict. If the running stats are actually "
            f"needed, instead set track_running_stats=True in {klass} to enable them. See the "
            f"documentation of {klass} for details.")

    def forward(self, input):
        self._check_input_dim(input)
        unbatched = self._get_no_batch_dim()
        dim = input.dim() - unbatched
        if input.size(dim) != self.num_features:
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={dim} to match num_features "
                    f"({self.num_features}), but got: {input.size(dim)}.")
            warnings.warn(
                f"input's size at dim={dim} does not match num_features. You can silence this "
                "warning by not passing in num_features, which is not used because affine=False",
                stacklevel=2)
        if input.dim() == unbatched:
            return self._handle_no_batch_input(input)
        return self._apply_instance_norm(input)


class InstanceNorm1d(_InstanceNorm):
    """Instance normalization of (C, L) or (N, C, L).

    Shape: input (N, C, L) or (C, L); output the same. C is num_features.

    Example::

        >>> nn.InstanceNorm1d(3)(torch.randn(2, 3, 8)).shape
        torch.Size([2, 3, 8])
    """

    _dims = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Instance normalization of images (C, H, W) or (N, C, H, W).

    Shape: input (N, C, H, W) or (C, H, W); output the same. C is num_features.

    Example::

        >>> nn.InstanceNorm2d(3)(torch.randn(2, 3, 8, 8)).shape
        torch.Size([2, 3, 8, 8])
    """

    _dims = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Instance normalization of volumes (C, D, H, W) or (N, C, D, H, W).

    Shape: input (N, C, D, H, W) or (C, D, H, W); output the same. C is num_features.

    Example::

        >>> nn.InstanceNorm3d(3)(torch.randn(2, 3, 8, 8, 8)).shape
        torch.Size([2, 3, 8, 8, 8])
    """

    _dims = (4, 5)
