"""Fake tensors of which sizes are expressions: the metadata `val` of nodes."""
import cresset

from .._subclasses.fake_tensor import FakeTensor, with_fake_parts
from .._sym_int import symbolic


class SymbolicSize(tuple):
    """A torch.Size of which items are SymInts."""

    def numel(self):
        n = 1
        for x in self:
            n = x * n
        return n

    def __repr__(self):
        return f"torch.Size([{', '.join(map(str, self))}])"


def _strides(sizes, hint_sizes, hint_strides):
    """Strides as expressions: those of dense tensors, and other strides as numbers."""
    order = sorted(range(len(sizes)), key=lambda d: (hint_strides[d], -d))
    out, step, hint = list(hint_strides), 1, 1
    for d in order:
        if hint_strides[d] == hint:
            out[d] = step
        elif hint_sizes[d] > 1 and hint_strides[d] and hint_strides[d] % hint == 0:
            step, hint = step * (hint_strides[d] // hint), hint_strides[d]
            out[d] = step
        else:
            continue
        step, hint = sizes[d] * step, hint * max(hint_sizes[d], 1)
    return tuple(out)


class SymbolicFakeTensor(FakeTensor):
    """A fake whose shape and strides have SymInts; operators see the sizes of the example inputs."""

    _sizes = _steps = None

    @property
    def shape(self):
        return self._sizes if self._sizes is not None else FakeTensor.shape.__get__(self)

    def size(self, dim=None):
        return self.shape if dim is None else self.shape[dim]

    def stride(self, dim=None):
        steps = self._steps if self._steps is not None else FakeTensor.stride(self)
        return steps if dim is None else steps[dim]


SymbolicFakeTensor.__name__ = SymbolicFakeTensor.__qualname__ = "FakeTensor"
SymbolicFakeTensor.__module__ = FakeTensor.__module__


def make_fake(mode, kind, exprs=None):
    """The fake of a value.  kind: (dtype, sizes, strides, device, requires_grad); exprs: its sizes as Sizes, or None."""
    dtype, sizes, strides, device, grad = kind
    with cresset._C._DisableTorchDispatch(), cresset.no_grad():
        meta = cresset.empty_strided(sizes, strides, dtype=dtype, device="meta")
    if exprs is None or all(e.is_number for e in exprs):
        made = FakeTensor(mode, meta, device)
    else:
        made = SymbolicFakeTensor(mode, meta, device)
        made._sizes = SymbolicSize(symbolic(e, n) for e, n in zip(exprs, sizes))
        made._steps = _strides(made._sizes, sizes, strides)
    return made.requires_grad_() if grad else made


def sparse_fake(mode, dtype, sizes, device):
    """The fake of a COO tensor of which all dims have indices."""
    with cresset._C._DisableTorchDispatch(), cresset.no_grad():
        empty = cresset.sparse_coo_tensor(size=sizes, dtype=dtype, device="meta", check_invariants=False)
        return with_fake_parts(mode, empty, device)


def expressions(fake):
    """The sizes of a fake as Sizes."""
    from .._size_expr import Size
    return [n.node.expr if hasattr(n, "node") else Size.of(n) for n in fake.shape]
