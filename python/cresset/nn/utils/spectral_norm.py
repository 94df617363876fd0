"""Spectral normalization of the old kind, which a hook recomputes before every call."""
import cresset
from .. import functional as F
from ..modules.conv import _ConvTransposeNd
from ..parameter import Parameter

__all__ = ["SpectralNorm", "spectral_norm", "remove_spectral_norm"]


class SpectralNorm:
    """A hook that divides the weight by its largest singular value."""

    _version = 1

    def __init__(self, name="weight", n_power_iterations=1, dim=0, eps=1e-12):
        if n_power_iterations <= 0:
            raise ValueError("Expected n_power_iterations to be positive, but got "
                             f"n_power_iterations={n_power_iterations}")
        self.name = name
        self.dim = dim
        self.n_power_iterations = n_power_iterations
        self.eps = eps

    def reshape_weight_to_matrix(self, weight):
        """Returns the weight as a matrix with `dim` first."""
        weight = weight.movedim(self.dim, 0) if self.dim != 0 else weight
        return weight.reshape(weight.size(0), -1)

    def compute_weight(self, module, do_power_iteration):
        """The normalized weight."""
        weight, u, v = (getattr(module, self.name + suffix) for suffix in ("_orig", "_u", "_v"))
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            with cresset.no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(F.normalize(cresset.mv(matrix.t(), u), dim=0, eps=self.eps))
                    u.copy_(F.normalize(cresset.mv(matrix, v), dim=0, eps=self.eps))
                # Copies, because backward needs these values after the next iteration.
                u, v = u.clone(), v.clone()
        return weight / cresset.dot(u, cresset.mv(matrix, v))

    def remove(self, module):
        """Makes the weight an ordinary parameter."""
        with cresset.no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        for suffix in ("", "_u", "_v", "_orig"):
            delattr(module, self.name + suffix)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module, inputs):
        setattr(module, self.name, self.compute_weight(module, module.training))

    @staticmethod
    def apply(module, name, n_power_iterations, dim, eps):
        """Replaces the weight and adds the hooks."""
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, SpectralNorm) and hook.name == name:
                raise RuntimeError("Cannot register two spectral_norm hooks on the same "
                                   f"parameter {name}")
        hook, weight = SpectralNorm(name, n_power_iterations, dim, eps), module._parameters[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        with cresset.no_grad():
            rows, columns = hook.reshape_weight_to_matrix(weight).size()
            u = F.normalize(weight.new_empty(rows).normal_(0, 1), dim=0, eps=eps)
            v = F.normalize(weight.new_empty(columns).normal_(0, 1), dim=0, eps=eps)
        delattr(module, name)
        module.register_parameter(name + "_orig", weight)
        setattr(module, name, weight.data)
        module.register_buffer(name + "_u", u)
        module.register_buffer(name + "_v", v)
        module.register_forward_pre_hook(hook)
        module._register_state_dict_hook(_add_version(hook))
        return hook


def _add_version(hook):
    def add(module, state_dict, prefix, local_metadata):
        versions = local_metadata.setdefault("spectral_norm", {})
        versions[hook.name + ".version"] = hook._version

    return add


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """Keeps a weight's largest singular value at one."""
    if dim is None:
        dim = 1 if isinstance(module, _ConvTransposeNd) else 0
    SpectralNorm.apply(module, name, n_power_iterations, dim, eps)
    return module


def remove_spectral_norm(module, name="weight"):
    """Undoes spectral_norm; the weight keeps its normalized value."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"spectral_norm of '{name}' not found in {module}")
