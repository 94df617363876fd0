"""Parts of a batch, and a batch of parts."""
import cresset

from ...utils._pytree import tree_flatten, tree_map, tree_unflatten

__all__ = ["TensorChunkSpec", "merge_chunks", "split_args_kwargs_into_chunks"]


class TensorChunkSpec:
    """A tensor is divided along a dim."""

    def __init__(self, split_dim):
        self.split_dim = split_dim

    def __repr__(self):
        return f"{type(self).__module__}.{type(self).__name__}({self.split_dim})"

    def __str__(self):
        return f"TensorChunkSpec({self.split_dim})"

    @staticmethod
    def from_tuple(chunk_dims):
        """Returns the same of a tuple of dims."""
        return tree_map(TensorChunkSpec, chunk_dims)

    @staticmethod
    def from_dict(chunk_dims):
        """Returns the same of a dict of dims."""
        return tree_map(TensorChunkSpec, chunk_dims)


class _Replicate:
    """All parts have the value."""


class _CustomReducer:
    """The values of parts are reduced by a function."""

    def __init__(self, init_value, reduce_fn):
        self.init_value, self.reduce_fn = init_value, reduce_fn


class _LossReducer(_CustomReducer):
    """The same of losses."""


sum_reducer = _LossReducer(0.0, lambda a, b: a + b)


def _split_tensor(x, spec, count):
    if x.size(spec.split_dim) < count:
        raise AssertionError(f"Tensor size {x.size(spec.split_dim)} is smaller than num_chunks")
    return cresset.tensor_split(x, count, spec.split_dim)


def _split(values, specs, count):
    """Returns `count` trees of parts."""
    specs = tree_map(lambda v: TensorChunkSpec(0) if isinstance(v, cresset.Tensor) else _Replicate(), values) if specs is None else specs
    flat, tree = tree_flatten(values)
    flat_specs, _ = tree_flatten(specs)
    if len(flat) != len(flat_specs):
        raise AssertionError(f"{len(flat)} values have {len(flat_specs)} chunking specs")
    made = [[] for _ in range(count)]
    for value, spec in zip(flat, flat_specs):
        if spec is _Replicate or isinstance(spec, _Replicate):
            parts = [value] * count
        elif isinstance(value, cresset.Tensor) and isinstance(spec, TensorChunkSpec):
            parts = _split_tensor(value, spec, count)
        else:
            raise ValueError(f"Unsupported chunk spec: {spec} and value: {value} combination.")
        for out, part in zip(made, parts):
            out.append(part)
    return [tree_unflatten(out, tree) for out in made]


def split_args_kwargs_into_chunks(args, kwargs, chunks, args_chunk_spec=None, kwargs_chunk_spec=None):
    """Returns lists of `chunks` tuples and dicts of parts, along the first dim unless specs say otherwise."""
    args_split = _split(tuple(args), args_chunk_spec, chunks) if args else [()] * chunks
    kwargs_split = _split(kwargs, kwargs_chunk_spec, chunks) if kwargs else [{} for _ in range(chunks)]
    return args_split, kwargs_split


def merge_chunks(chunks, chunk_spec):
    """Returns the value of parts: tensors joined along the dims of specs, the first dim without them."""
    flat = [tree_flatten(chunk)[0] for chunk in chunks]
    specs, tree = tree_flatten(chunk_spec if chunk_spec is not None else chunks[0])
    specs = specs if chunk_spec is not None else [TensorChunkSpec(0)] * len(specs)
    made = []
    for chunk, values in zip(chunks, flat):
        if len(values) != len(specs):
            raise ValueError(f"Chunk {chunk} did not match chunk spec {chunk_spec}")
    for k, spec in enumerate(specs):
        values = [f[k] for f in flat]
        if isinstance(spec, TensorChunkSpec):
            made.append(cresset.cat(values, spec.split_dim))
        elif isinstance(spec, _CustomReducer):
            total = spec.init_value
            for v in values:
                total = spec.reduce_fn(total, v)
            made.append(total)
        else:
            if any(v != values[0] for v in values[1:]):
                raise ValueError(f"Cannot merge chunks {values} by {spec}")
            made.append(values[0])
    return tree_unflatten(made, tree)
