"""Sums of windows whose blocks are not places of one dim (col2im) are the host's."""
import pytest
import cresset as torch


@pytest.mark.parametrize("kernel, dilation, padding, stride, size", [
    ((2, 2), (1, 1), (0, 0), (1, 1), (4, 4)), ((2, 2), (1, 1), (1, 1), (2, 2), (4, 4)), ((3, 2), (2, 1), (1, 0), (1, 2), (9, 7)),
    ((2, 3), (1, 2), (0, 2), (3, 1), (5, 8)), ((1, 1), (1, 1), (0, 0), (1, 1), (3, 5)), ((4, 4), (1, 1), (2, 2), (4, 4), (8, 8))])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_columns_become_an_image(kernel, dilation, padding, stride, size, dtype):
    blocks = 1
    for n, k, d, p, s in zip(size, kernel, dilation, padding, stride):
        blocks *= (n + 2 * p - d * (k - 1) - 1) // s + 1
    x = torch.randn(2, 3 * kernel[0] * kernel[1], blocks, dtype=torch.float64).to(dtype)
    more = dict(output_size=size, kernel_size=kernel, dilation=dilation, padding=padding, stride=stride)
    made = torch.nn.functional.fold(x.cuda(), **more)
    assert torch.equal(made.cpu(), torch.nn.functional.fold(x, **more))
