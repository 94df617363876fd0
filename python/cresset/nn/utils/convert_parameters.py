"""Parameters as one vector."""
import cresset
from ... import Tensor
from ..._utils import typename


def _check_device(param, device):
    """The index of the parameters' common GPU, or -1 for the CPU."""
    index = param.get_device() if param.device.type == "cuda" else -1
    if device is not None and device != index:
        raise TypeError("Found two parameters on different devices, this is currently not "
                        "supported.")
    return index


def parameters_to_vector(parameters):
    """All parameters, one after another, as a vector."""
    device, parts = None, []
    for param in parameters:
        device = _check_device(param, device)
        parts.append(param.view(-1))
    return cresset.cat(parts)


def vector_to_parameters(vec, parameters):
    """Makes parts of `vec` the data of the parameters, one after another."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {typename(vec)}")
    device, start = None, 0
    for param in parameters:
        device = _check_device(param, device)
        count = param.numel()
        param.data = vec[start:start + count].view_as(param).data
        start += count
