"""Passes batches between processes without copying them through a pipe.

A message is a pickle in which every plain CPU tensor is replaced by the position of its bytes.
The bytes of all tensors of a message are one block: at the end of the message when it is small,
otherwise a file in shared memory, which the receiver maps and unlinks.  The receiver's tensors
share this mapping and keep it alive.

A file's name contains the sending process's id, so that files of a dead process can be found.
"""
import io
import mmap
import os
import pickle
import struct

import cresset
from .... import Tensor
from ....nn.parameter import Parameter

_FOLDER = "/dev/shm"
_SMALL = 1 << 16  # below this size a file costs more than a copy
_ALIGN = 64
_HEAD = struct.Struct("<QQQ")  # length of the pickle, size of the block, number of the file
_count = 0


def _path(pid, number):
    return f"{_FOLDER}/cresset_{pid}_{number}"


class _Packer(pickle.Pickler):
    """A pickler that replaces plain tensors by their future offset."""

    def __init__(self, file):
        super().__init__(file, protocol=5)
        self.tensors = []
        self.size = 0

    def reducer_override(self, obj):
        if type(obj) not in (Tensor, Parameter) or obj.is_sparse or obj.device.type != "cpu":
            return NotImplemented
        if obj.requires_grad and not obj.is_leaf:
            raise RuntimeError(
                "Cowardly refusing to serialize non-leaf tensor which requires_grad, since "
                "autograd does not support crossing process boundaries.  If you just want to "
                "transfer the data, call detach() on the tensor before serializing (e.g., "
                "putting it on the queue).")
        offset = self.size
        self.tensors.append((offset, obj.detach()))
        self.size += -(-obj.numel() * obj.element_size() // _ALIGN) * _ALIGN
        return _take, (offset, obj.dtype, tuple(obj.shape), obj.requires_grad,
                       type(obj) is Parameter)


def _take(offset, dtype, shape, requires_grad, is_parameter):
    raise RuntimeError("a batch was unpickled outside of its block")


def _view(block, offset, dtype, shape):
    """Returns the tensor whose bytes are in `block` from `offset` on."""
    count = 1
    for n in shape:
        count *= n
    if count == 0:
        return cresset.empty(shape, dtype=dtype)
    return cresset.frombuffer(block, dtype=dtype, count=count, offset=offset).view(shape)


class _Unpacker(pickle.Unpickler):
    def __init__(self, file, block):
        super().__init__(file)
        self.block = block

    def find_class(self, module, name):
        if name == "_take" and module == __name__:
            return self._take
        return super().find_class(module, name)

    def _take(self, offset, dtype, shape, requires_grad, is_parameter):
        tensor = _view(self.block, offset, dtype, shape)
        if is_parameter:
            return Parameter(tensor, requires_grad)
        return tensor.requires_grad_(requires_grad)


def _new_file(size):
    """Returns a mapped file of shared memory and its number; (None, 0) when there is no room."""
    global _count
    _count += 1
    path = _path(os.getpid(), _count)
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError:
        return None, 0
    try:
        # Reserves the pages: a write to a full file system would kill the process.
        os.posix_fallocate(fd, 0, size)
        return mmap.mmap(fd, size), _count
    except OSError:
        os.unlink(path)
        return None, 0
    finally:
        os.close(fd)


def pack(obj):
    """Returns the bytes of a message with `obj`.  May make a file, which `unpack` removes."""
    body = io.BytesIO()
    packer = _Packer(body)
    packer.dump(obj)
    size, number, block = packer.size, 0, None
    if size > _SMALL:
        block, number = _new_file(size)
    if block is None:
        block = bytearray(size)
    for offset, tensor in packer.tensors:
        _view(block, offset, tensor.dtype, tuple(tensor.shape)).copy_(tensor)
    tail = b"" if number else block
    return b"".join((_HEAD.pack(body.tell(), size, number), body.getbuffer(), tail))


def unpack(message, pid):
    """Returns the object of a message that process `pid` sent."""
    length, size, number = _HEAD.unpack_from(message)
    if number:
        block = _open_file(_path(pid, number), size)
    else:
        block = bytearray(memoryview(message)[_HEAD.size + length:])
    body = io.BytesIO(memoryview(message)[_HEAD.size:_HEAD.size + length])
    return _Unpacker(body, block).load()


def _open_file(path, size):
    fd = os.open(path, os.O_RDWR)
    try:
        os.unlink(path)
        return mmap.mmap(fd, size)
    finally:
        os.close(fd)


def discard(message, pid):
    """Removes the file of a message that will not be read."""
    number = _HEAD.unpack_from(message)[2]
    if number:
        _unlink(_path(pid, number))


def sweep(pid):
    """Removes all files of a process that has ended."""
    try:
        names = os.listdir(_FOLDER)
    except OSError:
        return
    for name in names:
        if name.startswith(f"cresset_{pid}_"):
            _unlink(f"{_FOLDER}/{name}")


def _unlink(path):
    try:
        os.unlink(path)
    except OSError:
        pass
