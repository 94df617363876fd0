"""Sequences of different lengths: padding and packing."""
from collections import namedtuple
from typing import Optional

import cresset
from ... import Tensor
from ..._ops import ops
from ..._traced import one_call

__all__ = ["PackedSequence", "invert_permutation", "pack_padded_sequence",
           "pad_packed_sequence", "pad_sequence", "unpad_sequence", "pack_sequence",
           "unpack_sequence"]

PackedSequence_ = namedtuple("PackedSequence_", [
    "data", "batch_sizes", "sorted_indices", "unsorted_indices"])
PackedSequence_.__annotations__ = {
    "data": Tensor, "batch_sizes": Tensor, "sorted_indices": Optional[Tensor], "unsorted_indices": Optional[Tensor]}


def _map(function, value):
    return None if value is None else function(value)


class PackedSequence(PackedSequence_):
    """Sequences interleaved by steps; `batch_sizes` is the number of sequences that have each
    step.

    Sequences are sorted by length, longest first.  The two index tensors sort and unsort them.
    """

    def __new__(cls, data, batch_sizes=None, sorted_indices=None, unsorted_indices=None):
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is None:
            if not (isinstance(data, (list, tuple)) and len(data) == 2):
                raise AssertionError("Expected data to be a list or tuple of length 2")
            data, batch_sizes = data
        elif batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never "
                "be created manually. They should be instantiated by functions like "
                "pack_sequence and pack_padded_sequences in nn.utils.rnn. https://pytorch.org/"
                "docs/stable/nn.html#torch.nn.utils.rnn.pack_sequence")
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args, **kwargs):
        """Moves or casts the data; the indices follow its device."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        move = lambda t: t.to(data.device)
        return type(self)(data, self.batch_sizes, _map(move, self.sorted_indices),
                          _map(move, self.unsorted_indices))

    def pin_memory(self):
        """The same in page-locked memory."""
        pin = lambda t: t.pin_memory()
        return type(self)(self.data.pin_memory(), self.batch_sizes,
                          _map(pin, self.sorted_indices), _map(pin, self.unsorted_indices))

    def cuda(self, *args, **kwargs):
        """Moves to a GPU."""
        return self.to(*args, **kwargs) if args else self.to(**{"device": "cuda", **kwargs})

    def cpu(self, *args, **kwargs):
        """Moves to the CPU."""
        return self.to(*args, **kwargs) if args else self.to(**{"device": "cpu", **kwargs})

    def double(self):
        """Casts the data to float64."""
        return self.to(dtype=cresset.double)

    def float(self):
        """Casts the data to float32."""
        return self.to(dtype=cresset.float)

    def half(self):
        """Casts the data to float16."""
        return self.to(dtype=cresset.half)

    def long(self):
        """Casts the data to int64."""
        return self.to(dtype=cresset.long)

    def int(self):
        """Casts the data to int32."""
        return self.to(dtype=cresset.int)

    def short(self):
        """Casts the data to int16."""
        return self.to(dtype=cresset.short)

    def char(self):
        """Casts the data to int8."""
        return self.to(dtype=cresset.int8)

    def byte(self):
        """Casts the data to uint8."""
        return self.to(dtype=cresset.uint8)

    @property
    def is_cuda(self):
        """Whether the data is on a GPU."""
        return self.data.is_cuda

    def is_pinned(self):
        """Whether the data is in page-locked memory."""
        return self.data.is_pinned()


def invert_permutation(permutation):
    """Returns the inverse of `permutation`; None for None."""
    if permutation is None:
        return None
    output = cresset.empty_like(permutation, memory_format=cresset.contiguous_format)
    numbers = cresset.arange(0, permutation.numel(), device=permutation.device)
    return output.scatter_(0, permutation, numbers)


def _check_lengths(lengths, batch):
    if len(lengths) != batch:
        raise RuntimeError("Expected `len(lengths)` to be equal to batch_size, but got "
                           f"{len(lengths)} (batch_size={batch})")
    if any(n <= 0 for n in lengths):
        raise RuntimeError("Length of all samples has to be greater than 0, but found an element "
                           "in 'lengths' that is <= 0")
    if any(a < b for a, b in zip(lengths, lengths[1:])):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. "
            "You can pass `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to "
            "sidestep this requirement if you do not need ONNX exportability.")


def _runs(sizes):
    """(first step, steps, batch size) of every run of steps with the same batch size."""
    start = 0
    for i in range(1, len(sizes) + 1):
        if i == len(sizes) or sizes[i] != sizes[start]:
            yield start, i - start, sizes[start]
            start = i


def _pack(input, lengths, batch_first):
    """(data, batch sizes) of a padded batch, longest sequence first."""
    input, lengths = input.transpose(0, 1) if batch_first else input, lengths.tolist()
    _check_lengths(lengths, input.size(1))
    sizes = [sum(n > t for n in lengths) for t in range(lengths[0])] if lengths else []
    parts = [input[start:start + steps, :size].flatten(0, 1)
             for start, steps, size in _runs(sizes)]
    return cresset.cat(parts), cresset.tensor(sizes, dtype=cresset.int64)


def pack_padded_sequence(input, lengths, batch_first=False, enforce_sorted=True):
    """Packs a padded batch; without `enforce_sorted` it is sorted by length first."""
    if isinstance(lengths, Tensor):
        lengths = lengths.to(dtype=cresset.int64)
    else:
        lengths = cresset.as_tensor(lengths, dtype=cresset.int64, device="cpu")
    if lengths.device.type != "cpu":
        raise RuntimeError("'lengths' argument should be a 1D CPU int64 tensor, but got "
                           f"{lengths.dim()}D {lengths.device} Long tensor")
    sorted_indices = None
    if not enforce_sorted:
        lengths, sorted_indices = cresset.sort(lengths, descending=True)
        sorted_indices = sorted_indices.to(input.device)
        input = input.index_select(0 if batch_first else 1, sorted_indices)
    data, sizes = one_call("_pack_padded_sequence", _pack, input, lengths, batch_first)
    return PackedSequence(data, sizes, sorted_indices, None)


def _pad(data, batch_sizes, batch_first, padding_value, length):
    """The padded batch of a packed one, longest sequence first, and the lengths."""
    sizes = batch_sizes.tolist()
    shape = (length, sizes[0], *data.shape[1:])
    output = cresset.full(shape, padding_value, dtype=data.dtype, device=data.device)
    offset = 0
    for start, steps, size in _runs(sizes):
        part = data.narrow(0, offset, steps * size)
        output[start:start + steps, :size] = part.unflatten(0, (steps, size))
        offset += steps * size
    lengths = [sum(size > row for size in sizes) for row in range(sizes[0])]
    return output.transpose(0, 1) if batch_first else output, cresset.tensor(lengths, dtype=cresset.int64)


def pad_packed_sequence(sequence, batch_first=False, padding_value=0.0, total_length=None):
    """The padded batch and the lengths of a packed one."""
    length = sequence.batch_sizes.size(0)
    if total_length is not None:
        if total_length < length:
            raise ValueError(
                "Expected total_length to be at least the length of the longest sequence in "
                f"input, but got total_length={total_length} and max sequence length being "
                f"{length}")
        length = total_length
    output, lengths = one_call("_pad_packed_sequence", _pad, sequence.data, sequence.batch_sizes, batch_first,
                               float(padding_value), length)
    order = sequence.unsorted_indices
    if order is not None:
        return output.index_select(0 if batch_first else 1, order), lengths[order.cpu()]
    return output, lengths


def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    """Stacks tensors of different lengths, padded to the longest.

    Shape:
        N tensors (L_i, *) -> (longest, N, *), or (N, longest, *) with `batch_first`

    Example::

        >>> parts = [torch.ones(3), torch.ones(1)]
        >>> torch.nn.utils.rnn.pad_sequence(parts, batch_first=True)
        tensor([[1., 1., 1.],
                [1., 0., 0.]])
    """
    if not hasattr(sequences, "__iter__"):
        raise RuntimeError("pad_sequence: Expected iterable for input sequences, but got arg of "
                           f"type: {type(sequences)}")
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    sequences = list(sequences)
    if not sequences:
        raise RuntimeError("received an empty list of sequences")
    longest = max(s.size(0) for s in sequences)
    padded = []
    for s in sequences:
        gap = [longest - s.size(0), 0] if padding_side == "left" else [0, longest - s.size(0)]
        padded.append(ops.constant_pad_nd(s, [0, 0] * (s.dim() - 1) + gap, padding_value))
    return ops.stack(padded, 0 if batch_first else 1)


def unpad_sequence(padded_sequences, lengths, batch_first=False):
    """Returns copies of the tensors that pad_sequence padded, as a list."""
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    return [row[:length].clone(memory_format=cresset.contiguous_format)
            for row, length in zip(padded_sequences, lengths.tolist())]


def pack_sequence(sequences, enforce_sorted=True):
    """Packs a list of tensors of different lengths."""
    lengths = cresset.as_tensor([s.size(0) for s in sequences])
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences):
    """The list of tensors in a packed sequence."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
