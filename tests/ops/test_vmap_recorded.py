"""vmap of the entries that table.py cannot draw: torch's recorded calls (recorded.py) for a batch, beside a Python loop.

The examples of a batch are a recorded argument times numbers near 1, so that matrices keep their structure; tensors that
are not floating are the same for each example.  Each tensor is mapped over, then all."""
import json

import pytest

import recorded
from recorded import torch
from test_recorded import SAMPLES, entry_name
from test_vmap import DRAWN, NOT_MAPPED, copies, loop, outcome, weighted

from cresset.func import grad, vmap
from cresset.utils._pytree import tree_flatten, tree_unflatten

SIZE = 3
DRAWN_NAMES = {e.name for e in DRAWN}
OPERATORS = [o for o in SAMPLES if entry_name(o) not in DRAWN_NAMES
             and any('["T"' in json.dumps(args) and not uncertain for _, args, _, _, _, uncertain in SAMPLES[o])]
# Statistics beside a batch of inputs would get another value for each example: torch refuses, too.
REFUSED = (*NOT_MAPPED, "is not possible because there exists a Tensor `other` in extra_args")


class Recorded:
    """A recorded call as a function of its tensors."""

    def __init__(self, call):
        path, args, kwargs, _, self.gradients, self.uncertain = call
        self.function = recorded.function(path)
        self.leaves, self.spec = tree_flatten((list(recorded.build(args, [])), recorded.build(kwargs, [])))
        self.where = [n for n, x in enumerate(self.leaves) if isinstance(x, torch.Tensor)]
        self.tensors = [self.leaves[n].detach() for n in self.where]

    def __call__(self, *tensors):
        given = list(self.leaves)
        for n, x in zip(self.where, tensors):
            given[n] = x
        args, kwargs = tree_unflatten(given, self.spec)
        return tuple(x for x in tree_flatten(self.function(*args, **kwargs))[0] if isinstance(x, torch.Tensor))

    def choices(self):
        if len(self.tensors) > 1:
            yield from ({n} for n in range(len(self.tensors)))
        if self.tensors:
            yield set(range(len(self.tensors)))

    def inputs(self, mapped):
        xs = [batch_of(x) if n in mapped else x for n, x in enumerate(self.tensors)]
        return xs, tuple(0 if n in mapped else None for n in range(len(xs)))

    def floating(self):
        return tuple(n for n, x in enumerate(self.tensors) if x.is_floating_point() or x.is_complex())


def batch_of(x):
    floating = x.is_floating_point() or x.is_complex()
    return torch.stack([x * (1 + k / 16) if floating else x for k in range(SIZE)])


def compare(got, want, where):
    (a, failed), (b, refused) = got, want
    if refused is not None:
        assert failed is not None, where
    elif failed is not None:
        assert any(text in str(failed) for text in REFUSED), (where, failed)
    else:
        assert len(a) == len(b), where
        for x, y in zip(a, b):
            assert (x.shape, x.dtype) == (y.shape, y.dtype), where
            tolerance = recorded.TOLERANCE.get(str(x.dtype)[6:], 0)
            torch.testing.assert_close(x, y, rtol=tolerance, atol=tolerance, equal_nan=True, msg=str(where))


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_batch_of_recorded_calls(operator):
    """The values, the derivative of a function that maps, and a derivative that is mapped."""
    for n, call in enumerate(SAMPLES[operator]):
        f = Recorded(call)
        for mapped in () if f.uncertain else f.choices():
            xs, dims = f.inputs(mapped)
            want = outcome(lambda: loop(lambda *x: f(*copies(x)), xs, dims))
            compare(outcome(lambda: vmap(f, in_dims=dims)(*copies(xs))), want, (n, mapped))
            if f.gradients is None or want[1] is not None:
                continue
            by = f.floating()

            def of(run):
                return grad(lambda *x: weighted(run(x)), argnums=by)(*xs)
            compare(outcome(lambda: of(lambda x: vmap(f, in_dims=dims)(*copies(x)))),
                    outcome(lambda: of(lambda x: loop(lambda *e: f(*copies(e)), x, dims))), (n, mapped, "of a batch"))
            one = grad(lambda *x: weighted(f(*copies(x))), argnums=by)
            compare(outcome(lambda: vmap(one, in_dims=dims)(*xs)), outcome(lambda: loop(one, xs, dims)),
                    (n, mapped, "a batch of gradients"))
