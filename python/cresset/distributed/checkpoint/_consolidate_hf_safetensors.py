"""Joins the boxes of ranks in files of safetensors to whole tensors (hf_storage.py)."""
import os
from concurrent.futures import ThreadPoolExecutor

import cresset

from ... import safetensors
from .. import distributed_c10d as dist
from .hf_storage import _file_name, _tensors_of, _write_index

__all__ = ["consolidate_safetensors_files", "consolidate_safetensors_files_on_every_rank"]


def _join(name, parts, size):
    """Returns a whole tensor.  ValueError where its boxes leave gaps or overlap."""
    whole, written = cresset.empty(size, dtype=parts[0][1].dtype), cresset.zeros(size, dtype=cresset.bool)
    if sum(tensor.numel() for _, tensor, _ in parts) != whole.numel():
        raise ValueError(f"the boxes of {name} have {sum(t.numel() for _, t, _ in parts)} elements, but the tensor of size "
                         f"{list(size)} has {whole.numel()}")
    for offsets, tensor, _ in parts:
        place = tuple(slice(first, first + n) for first, n in zip(offsets, tensor.shape))
        whole[place], written[place] = tensor, True
    if not written.all():
        raise ValueError(f"boxes of {name} overlap and leave {int((~written).sum())} of {whole.numel()} elements without a value")
    return whole


def _write_files(folder, boxes, sizes, numbers, chosen, num_threads):
    """Writes the files whose numbers are chosen."""
    count = max(numbers.values())

    def write(number):
        tensors = {name: _join(name, boxes[name], sizes[name]) for name, n in numbers.items() if n == number}
        safetensors.save_file(tensors, os.path.join(folder, _file_name(number, count)), {"format": "pt"})
    with ThreadPoolExecutor(max(num_threads, 1)) as threads:
        for writing in [threads.submit(write, number) for number in chosen]:
            writing.result()


def _finish(folder, boxes, sizes, numbers):
    total = sum(cresset.Size(sizes[name]).numel() * boxes[name][0][1].element_size() for name in numbers)
    _write_index(folder, {name: _file_name(n, max(numbers.values())) for name, n in numbers.items()}, total)


def _read(input_dir, fqn_to_index_mapping):
    """Returns boxes, sizes, and numbers of files by name."""
    boxes, sizes = _tensors_of(input_dir)
    numbers = fqn_to_index_mapping
    missing = [name for name in numbers if name not in boxes]
    if missing:
        raise KeyError(f"the files in {input_dir} have no tensor {missing[0]}")
    return boxes, sizes, numbers


def consolidate_safetensors_files(input_dir, output_dir, fqn_to_index_mapping, num_threads=1):
    """Writes whole tensors, in files of the numbers of fqn_to_index_mapping, and their index."""
    boxes, sizes, numbers = _read(input_dir, fqn_to_index_mapping)
    os.makedirs(output_dir, exist_ok=True)
    _write_files(output_dir, boxes, sizes, numbers, sorted(set(numbers.values())), num_threads)
    _finish(output_dir, boxes, sizes, numbers)


def consolidate_safetensors_files_on_every_rank(input_dir, output_dir, fqn_to_index_mapping, num_threads=1, process_group=None):
    """The same by all ranks of a group, each some of the files."""
    here = dist.is_initialized()
    rank, size = (dist.get_rank(process_group), dist.get_world_size(process_group)) if here else (0, 1)
    boxes, sizes, numbers = _read(input_dir, fqn_to_index_mapping)
    os.makedirs(output_dir, exist_ok=True)
    _write_files(output_dir, boxes, sizes, numbers, sorted(set(numbers.values()))[rank::size], num_threads)
    if here:
        dist.barrier(process_group)
    if rank == 0:
        _finish(output_dir, boxes, sizes, numbers)
