"""Copies of a module on several devices."""
from . import comm

__all__ = ["replicate"]


def replicate(network, devices, detach=False):
    """Returns a copy of the module for each device.

    The parameters of the copies are plain tensors, computed from the module's, so that gradients
    reach the module's parameters; with detach=True they are not.
    """
    devices = list(devices)
    modules = list(network.modules())
    copies = []
    for device in devices:
        made = {module: module._replicate_for_data_parallel() for module in modules}
        for module, copy in made.items():
            _fill(module, copy, made, device, detach)
        copies.append(made[network])
    return copies


def _fill(module, copy, made, device, detach):
    """Gives a copy its children and its tensors on the device."""
    for name, child in module._modules.items():
        copy._modules[name] = None if child is None else made[child]
    copy._former_parameters = {}
    for name, param in module._parameters.items():
        if param is None:
            copy._parameters[name] = None
            continue
        moved = (param.detach() if detach else param).to(comm.device_of(device))
        moved = moved if moved is not param else param.view_as(param)
        object.__setattr__(copy, name, moved)
        copy._former_parameters[name] = moved
    for name, buffer in module._buffers.items():
        copy._buffers[name] = None if buffer is None else buffer.to(comm.device_of(device))
