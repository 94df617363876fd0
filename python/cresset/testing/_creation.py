"""Tensors with random contents for tests."""
import math

from .. import _C

_INTEGERS = {_C.uint8: (0, 10), _C.int8: (-9, 10), _C.int16: (-9, 10), _C.int32: (-9, 10),
             _C.int64: (-9, 10)}


def make_tensor(*shape, dtype, device="cpu", low=None, high=None, requires_grad=False,
                noncontiguous=False, exclude_zero=False, memory_format=None):
    """Uniform values in [low, high): -9 to 9 for numbers, True and False for bool."""
    if len(shape) == 1 and not isinstance(shape[0], int):
        shape = tuple(shape[0])
    if noncontiguous and memory_format is not None:
        raise ValueError("The parameters `noncontiguous` and `memory_format` are mutually "
                         "exclusive")
    room = (*shape[:-1], shape[-1] * 2) if noncontiguous and shape else shape
    out = _fill(room, dtype, device, low, high)
    if noncontiguous and shape:
        out = out[..., ::2]
    if exclude_zero:
        out[out == 0] = 1
    if memory_format is not None:
        out = out.clone(memory_format=memory_format)
    return out.requires_grad_(requires_grad) if requires_grad else out


def _fill(shape, dtype, device, low, high):
    if dtype is _C.bool:
        return _C.randint(0, 2, shape, device=device).to(dtype)
    if dtype in _INTEGERS:
        default = _INTEGERS[dtype]
        low = default[0] if low is None else math.floor(low)
        high = default[1] if high is None else math.ceil(high)
        return _C.randint(low, high, shape, dtype=dtype, device=device)
    low, high = -9 if low is None else low, 9 if high is None else high
    if dtype.is_complex:
        real = dtype.to_real()
        parts = [_C.rand(shape, dtype=real, device=device) * (high - low) + low for _ in range(2)]
        return _C.complex(*parts)
    return (_C.rand(shape, dtype=_C.float32 if dtype.itemsize < 4 else dtype, device=device)
            * (high - low) + low).to(dtype)
