"""The memory order of convolution weights."""
from ..modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]


def _convert(module, kinds, memory_format):
    for part in module.modules():
        if isinstance(part, kinds):
            data = part.weight.detach()
            part.weight.data = data.clone(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module, memory_format):
    """Converts the weights of all 2-D convolutions to `memory_format`."""
    return _convert(module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module, memory_format):
    """Converts the weights of all 3-D convolutions to `memory_format`."""
    return _convert(module, (Conv3d, ConvTranspose3d), memory_format)
