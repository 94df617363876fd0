"""Packed sequences, and recurrent layers that take them, as the compiler reads them (_forms.py)."""
from typing import List, Optional, Tuple, Union

import cresset as torch
from cresset import Tensor
from cresset.nn.utils.rnn import PackedSequence

from ._forms import _method, _of_module

_rnn = "torch.nn.utils.rnn"


@_of_module(_rnn)
def invert_permutation(permutation: Optional[Tensor]) -> Optional[Tensor]:
    if permutation is None:
        return None
    output = torch.empty_like(permutation, memory_format=torch.contiguous_format)
    output.scatter_(0, permutation, torch.arange(0, permutation.numel(), device=permutation.device))
    return output


@_of_module(_rnn)
def pack_padded_sequence(input: Tensor, lengths: Union[Tensor, List[int]], batch_first: bool = False,
                         enforce_sorted: bool = True) -> PackedSequence:
    if not isinstance(lengths, Tensor):
        lengths = torch.tensor(lengths, dtype=torch.int64, device=torch.device("cpu"))
    else:
        lengths = lengths.to(dtype=torch.int64)
    if enforce_sorted:
        sorted_indices = None
    else:
        lengths, sorted_indices = torch.sort(lengths, descending=True)
        sorted_indices = sorted_indices.to(input.device)
        batch_dim = 0 if batch_first else 1
        input = input.index_select(batch_dim, sorted_indices)
    data, batch_sizes = torch.ops.aten._pack_padded_sequence(input, lengths, batch_first)
    return PackedSequence(data, batch_sizes, sorted_indices, torch.nn.utils.rnn.invert_permutation(sorted_indices))


@_of_module(_rnn)
def pad_packed_sequence(sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0,
                        total_length: Optional[int] = None) -> Tuple[Tensor, Tensor]:
    max_seq_length = sequence.batch_sizes.size(0)
    if total_length is not None:
        if total_length < max_seq_length:
            raise ValueError("Expected total_length to be at least the length of the longest sequence in input, but got "
                             f"total_length={total_length} and max sequence length being {max_seq_length}")
        max_seq_length = total_length
    padded_output, lengths = torch.ops.aten._pad_packed_sequence(sequence.data, sequence.batch_sizes, batch_first, padding_value,
                                                      max_seq_length)
    unsorted_indices = sequence.unsorted_indices
    if unsorted_indices is not None:
        batch_dim = 0 if batch_first else 1
        return padded_output.index_select(batch_dim, unsorted_indices), lengths[unsorted_indices.cpu()]
    return padded_output, lengths


@_of_module(_rnn)
def pad_sequence(sequences: Union[Tensor, List[Tensor]], batch_first: bool = False, padding_value: float = 0.0,
                 padding_side: str = "right") -> Tensor:
    if isinstance(sequences, Tensor):
        rows = sequences.unbind()
    else:
        rows = sequences
    return torch.ops.aten.pad_sequence(rows, batch_first, padding_value, padding_side)


@_of_module(_rnn)
def pack_sequence(sequences: List[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    lengths = torch.as_tensor([v.size(0) for v in sequences])
    return torch.nn.utils.rnn.pack_padded_sequence(torch.nn.utils.rnn.pad_sequence(sequences), lengths,
                                                   enforce_sorted=enforce_sorted)


@_of_module(_rnn)
def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> List[Tensor]:
    rows: List[Tensor] = []
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    for row, length in zip(padded_sequences, lengths):
        rows.append(row[:int(length)])
    return rows


@_of_module(_rnn)
def unpack_sequence(packed_sequences: PackedSequence) -> List[Tensor]:
    padded, lengths = torch.nn.utils.rnn.pad_packed_sequence(packed_sequences, batch_first=True)
    return torch.nn.utils.rnn.unpad_sequence(padded, lengths, batch_first=True)


@_method("_OneState.forward__1")
def one_state_forward_packed(self, input: PackedSequence, hx: Optional[Tensor] = None) -> Tuple[PackedSequence, Tensor]:
    data, batch_sizes, sorted_indices, unsorted_indices = input
    if data.dim() != 2:
        raise RuntimeError(f"input must have 2 dimensions, got {data.dim()}")
    if data.size(-1) != self.input_size:
        raise RuntimeError(f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {data.size(-1)}")
    size = [self.num_layers * (2 if self.bidirectional else 1), int(batch_sizes[0]), self.hidden_size]
    if hx is None:
        h = torch.zeros(size, dtype=data.dtype, device=data.device)
    else:
        h = hx if sorted_indices is None else hx.index_select(1, sorted_indices)
    if h.size() != size:
        raise RuntimeError(f"Expected hidden size {size}, got {h.size()}")
    if self.mode == "GRU":
        output, h = torch.gru(data, batch_sizes, h, self._flat_weights, self.bias, self.num_layers, float(self.dropout),
                              self.training, self.bidirectional)
    elif self.mode == "RNN_TANH":
        output, h = torch.rnn_tanh(data, batch_sizes, h, self._flat_weights, self.bias, self.num_layers, float(self.dropout),
                                   self.training, self.bidirectional)
    else:
        output, h = torch.rnn_relu(data, batch_sizes, h, self._flat_weights, self.bias, self.num_layers, float(self.dropout),
                                   self.training, self.bidirectional)
    if unsorted_indices is not None:
        h = h.index_select(1, unsorted_indices)
    return PackedSequence(output, batch_sizes, sorted_indices, unsorted_indices), h


@_method("LSTM.forward__1")
def lstm_forward_packed(self, input: PackedSequence, hx: Optional[Tuple[Tensor, Tensor]] = None
                        ) -> Tuple[PackedSequence, Tuple[Tensor, Tensor]]:
    data, batch_sizes, sorted_indices, unsorted_indices = input
    if data.dim() != 2:
        raise RuntimeError(f"input must have 2 dimensions, got {data.dim()}")
    if data.size(-1) != self.input_size:
        raise RuntimeError(f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {data.size(-1)}")
    rows, batch = self.num_layers * (2 if self.bidirectional else 1), int(batch_sizes[0])
    h_size = [rows, batch, self.proj_size if self.proj_size > 0 else self.hidden_size]
    c_size = [rows, batch, self.hidden_size]
    if hx is None:
        h = torch.zeros(h_size, dtype=data.dtype, device=data.device)
        c = torch.zeros(c_size, dtype=data.dtype, device=data.device)
    elif sorted_indices is None:
        h, c = hx
    else:
        h, c = hx[0].index_select(1, sorted_indices), hx[1].index_select(1, sorted_indices)
    if h.size() != h_size:
        raise RuntimeError(f"Expected hidden[0] size {h_size}, got {h.size()}")
    if c.size() != c_size:
        raise RuntimeError(f"Expected hidden[1] size {c_size}, got {c.size()}")
    output, h, c = torch.lstm(data, batch_sizes, [h, c], self._flat_weights, self.bias, self.num_layers, float(self.dropout),
                              self.training, self.bidirectional)
    if unsorted_indices is not None:
        h, c = h.index_select(1, unsorted_indices), c.index_select(1, unsorted_indices)
    return PackedSequence(output, batch_sizes, sorted_indices, unsorted_indices), (h, c)
