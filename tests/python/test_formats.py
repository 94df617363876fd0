"""Strides of dims of one element, and of no element, as torch gives them."""
import pytest

import cresset as torch


@pytest.mark.parametrize("sizes, strides", [((3, 1, 5), (5, 5, 1)), ((1, 3, 1, 4), (12, 4, 4, 1)), ((0, 3), (3, 1)), ((1,), (1,))])
def test_dlpack_keeps_strides(sizes, strides):
    x = torch.zeros(*sizes)
    assert torch.from_dlpack(x).stride() == strides
    assert torch.from_dlpack(x.transpose(0, -1)).stride() == x.transpose(0, -1).stride()


@pytest.mark.parametrize("sizes, strides", [((1, 3, 1, 1), (3, 1, 3, 3)), ((2, 1, 4, 5), (20, 1, 5, 1)), ((2, 3, 1, 5), (15, 1, 15, 3)),
                                            ((2, 3, 4, 5), (60, 1, 15, 3))])
def test_conversion_to_channels_last(sizes, strides):
    x = torch.zeros(*sizes)
    y = x.to(memory_format=torch.channels_last)
    assert y.stride() == strides and y.is_contiguous(memory_format=torch.channels_last)
    assert y.to(memory_format=torch.channels_last) is y
    assert torch.nn.Conv2d(3, 2, 1).to(memory_format=torch.channels_last).weight.stride() == (3, 1, 3, 3)
    z = torch.zeros(*sizes, 2).to(memory_format=torch.channels_last_3d)
    assert z.stride() == torch.empty(*sizes, 2, memory_format=torch.channels_last_3d).stride()
