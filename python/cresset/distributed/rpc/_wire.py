"""Tensors as parts of messages: what describes a tensor, and blocks of bytes that its receiver keeps without a copy."""
from ... import as_strided, frombuffer, sparse_coo, sparse_coo_tensor, strided, uint8

_COPY_FROM = 8192  # bytes


def _span(x):
    """Returns the elements of x's storage from its first to its last one, and their strides: of x itself, or of a copy where
    these bytes are many and mostly not x's."""
    if x.numel() == 0:
        return None, x.stride()
    length = 1 + sum((n - 1) * s for n, s in zip(x.size(), x.stride()))
    if length > 2 * x.numel() and length * x.element_size() > _COPY_FROM or x.is_conj() or x.is_neg():
        x = x.resolve_conj().resolve_neg().contiguous()
        length = x.numel()
    return as_strided(x, (length,), (1,), x.storage_offset()), x.stride()


def pack(x, parts, device_map):
    """Appends the bytes of a tensor to `parts`, and returns a description without values."""
    grad, x = x.requires_grad, x.detach()
    if x.layout == sparse_coo:
        two = [pack(part, parts, device_map) for part in (x._indices(), x._values())]
        return "sparse", tuple(x.shape), x.is_coalesced(), grad, two
    if x.layout != strided:
        raise RuntimeError(f"tensors of layout {x.layout} cannot be sent to other processes")
    device = None
    if x.device.type != "cpu":
        device = device_map.get(x.device)
        if device is None:
            raise RuntimeError(
                "TensorPipe RPC backend only supports CPU tensors by default, please move your tensors to CPU before sending "
                "them over RPC, or call `set_device_map` on `TensorPipeRpcBackendOptions` to explicitly configure device "
                f"mapping. Device mapping is not available for {x.device}")
        device, x = str(device), x.cpu()
    flat, stride = _span(x)
    parts.append(b"" if flat is None else memoryview(flat.view(uint8)))
    return "dense", x.dtype, tuple(x.shape), tuple(stride), grad, device


def unpack(described, parts):
    """Returns the tensor of a description; `parts` is an iterator over the blocks."""
    if described[0] == "sparse":
        _, shape, coalesced, grad, (indices, values) = described
        x = sparse_coo_tensor(unpack(indices, parts), unpack(values, parts), shape, is_coalesced=coalesced)
        return x.requires_grad_(grad)
    _, dtype, shape, stride, grad, device = described
    block = next(parts)
    if len(memoryview(block)) == 0:
        from ... import empty_strided
        x = empty_strided(shape, stride, dtype=dtype)
    else:
        x = as_strided(frombuffer(block, dtype=uint8).view(dtype), shape, stride)
    x = x if device is None else x.to(device)
    return x.requires_grad_(grad)
