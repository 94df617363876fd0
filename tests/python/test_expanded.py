"""Writes in place to expanded tensors, whose elements share memory: computed with a warning, or refused, as torch does."""
import os
import sys
import warnings

import pytest

import cresset as torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "ops"))
from table import ENTRIES, Draw  # noqa: E402

SHARED = "more than one element of the written-to tensor refers to a single memory location"
TAKES = {"index_put", "index_fill", "masked_fill"}
INPLACE = [e for e in ENTRIES if "inplace" in e.forms and e.can_be_drawn() and e.tensor_params and e.params[0]["type"] == "Tensor"]


def told(call):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        result = call()
    return result, [str(w.message) for w in seen]


def written_one_by_one(entry, args, kwargs):
    """The memory of an expanded args[0] after the call: each place has the value of the last element that changed."""
    self = args[0]
    memory = self[0].clone()
    start = self.clone()
    new = entry.call([start, *args[1:]], kwargs)
    for row, was in zip(new, start):
        memory = torch.where(row != was, row, memory)
    return memory.expand(self.shape)


@pytest.mark.parametrize("entry", INPLACE, ids=str)
def test_each_entry_refuses_or_writes_the_memory(entry):
    compared = False
    for case in entry.cases():
        draw = Draw(entry, case, "float32")
        args, kwargs = draw.call_arguments()
        if not isinstance(args[0], torch.Tensor) or not args[0].dim() or args[0].shape[0] < 2:
            continue
        args[0] = args[0][:1].clone().expand(args[0].shape)
        if kwargs.get("accumulate") or True in [a for a in args[1:] if isinstance(a, bool)]:
            args = [False if a is True else a for a in args]
        call = getattr(torch._C.ops, entry.name + "_")
        compared = True
        if entry.name not in TAKES:
            with pytest.raises((RuntimeError, NotImplementedError)):
                call(*args, **kwargs)
            continue
        want = written_one_by_one(entry, args, kwargs)
        got = call(*args, **kwargs)
        assert got is args[0] and got.stride(0) == 0
        assert torch.equal(got, want)
    assert compared or entry.name not in TAKES


def row():
    return torch.arange(4.).expand(3, 4)


def assigned(index, value):
    x = row()
    x[index] = value
    return x


@pytest.mark.parametrize("call, want, text", [
    (lambda: row().masked_fill_(torch.eye(3, 4).bool(), 9.), [9., 9., 9., 3.], "masked_fill_"),
    (lambda: row().masked_fill_(torch.zeros(1, dtype=torch.bool), 9.), [0., 1., 2., 3.], "masked_fill_"),
    (lambda: row().index_fill_(1, torch.tensor([-1]), 9.), [0., 1., 2., 9.], "index_fill_"),
    (lambda: row().index_fill_(0, torch.tensor([0]), torch.tensor(9.)), [9.] * 4, "index_fill_"),
    (lambda: row().index_put_((torch.tensor([0, 1, 2]), torch.tensor([1, 1, 2])), torch.tensor([1., 2., 3.]), accumulate=True),
     [0., 4., 5., 3.], "index_put_"),
    (lambda: assigned((torch.tensor([0, 2]), torch.tensor([1, 1])), torch.tensor([5., 6.])), [0., 6., 2., 3.], "index_put_"),
    (lambda: assigned(torch.eye(3, 4).bool(), 9.), [9., 9., 9., 3.], "index_put_"),
])
def test_writes_with_a_warning(call, want, text):
    got, (warning,) = told(call)
    assert got.tolist() == [want] * 3
    assert warning.startswith(f"Use of {text} on expanded tensors is deprecated. Please clone() the tensor before performing")


def test_values_of_other_results_are_unchanged_and_versions_grow():
    x = torch.arange(4.)
    _, seen = told(lambda: x.expand(3, 4).masked_fill_(torch.eye(3, 4).bool(), 9.))
    assert x.tolist() == [9., 9., 9., 3.] and x._version == 1 and len(seen) == 1
    assert told(lambda: x.expand(1, 4).masked_fill_(x > 5, 0.))[1] == []
    assert told(lambda: x.expand(3, 4).masked_fill(torch.eye(3, 4).bool(), 9.))[1] == []


@pytest.mark.parametrize("write", [lambda x: x.__setitem__(slice(None), 3), lambda x: x.__setitem__(..., torch.ones(4)),
                                   lambda x: x.fill_(torch.tensor(3.)), lambda x: x.__setitem__((slice(None), 0), 3.)])
def test_assignments_to_repeated_places_are_refused(write):
    x = row()
    with pytest.raises(RuntimeError, match=SHARED):
        write(x)
    x[0] = 3
    assert x.fill_(4)[2, 3] == 4 and x.zero_().sum() == 0


@pytest.mark.filterwarnings("ignore:Use of")
def test_derivatives_are_refused():
    for write in (lambda y: y.masked_fill_(torch.eye(3, 4).bool(), 1.), lambda y: y.index_put_((torch.tensor([0]),), torch.ones(4))):
        x = torch.zeros(4, requires_grad=True)
        y = write((x * 1).expand(3, 4))
        with pytest.raises(RuntimeError, match=SHARED):
            y.sum().backward()


@pytest.mark.filterwarnings("ignore:Use of")
def test_compiled_and_meta_tensors():
    def f(x, mask):
        return x.expand(3, 4).masked_fill_(mask, 9.)
    mask = torch.eye(3, 4).bool()
    assert torch.equal(torch.compile(f)(torch.arange(4.), mask), f(torch.arange(4.), mask))
    x = torch.zeros(4, device="meta").expand(3, 4)
    made, seen = told(lambda: x.masked_fill_(torch.ones(3, 4, dtype=torch.bool, device="meta"), 1.))
    assert made is x and seen == []
