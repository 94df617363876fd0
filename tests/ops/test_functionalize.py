"""Every entry inside of functionalize(): in place, and as a view that is written; values, and which operators ran."""
import pytest

import cresset as torch
from cresset.func import functionalize
from cresset.utils._python_dispatch import TorchDispatchMode
from cresset.utils._pytree import tree_leaves

from table import ENTRIES, Draw

DRAWN = [e for e in ENTRIES if e.can_be_drawn() and "undefined" not in e.words and e.tensor_params]
IN_PLACE = [e for e in DRAWN if "inplace" in e.forms and "method" in e.forms and e.params[0]["type"] == "Tensor"]
# unfold's windows overlap, so each write in place reads what others wrote.
VIEWS = [e for e in DRAWN if e.name != "unfold" and e.schema.split("(", 1)[1].startswith("Tensor(a) self") and "method" in e.forms]


class Written(TorchDispatchMode):
    """Notes the operators that write a tensor."""

    def __init__(self):
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func._schema.is_mutable:
            self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def outcome(function, x):
    """Returns the results of a function and x afterwards, or its error."""
    torch.manual_seed(0)
    try:
        return [*tree_leaves(function(x)), x]
    except Exception as error:
        return type(error)


def equal(a, b):
    """Compares two outcomes: values with their dtypes and sizes, or errors."""
    if not (isinstance(a, list) and isinstance(b, list)):
        return a is b
    return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))


def same(x, y):
    if not isinstance(x, torch.Tensor):
        return x == y
    return type(y) is type(x) and x.dtype == y.dtype and x.shape == y.shape and torch.allclose(x, y, 0, 0, equal_nan=True)


def compare(entry, method, after, dtypes=("float32", "complex64", "int64", "bool")):
    """Yields the writing operators that ran, and the eager outcome, of each case that equals it functionalized."""
    for case in entry.cases():
        dtype = next((d for d in dtypes if d in entry.dtypes), "float32")
        args, kwargs = Draw(entry, case, dtype).call_arguments()
        if not isinstance(args[0], torch.Tensor) or args[0].layout != torch.strided or args[0].is_meta:
            continue

        def function(x):
            y = x.clone()
            return after(y, getattr(y, method)(*args[1:], **kwargs))
        want, written = outcome(function, args[0].clone()), Written()
        if method == entry.name and not isinstance(want, list):
            continue  # an expanded tensor is not written
        for remove in ("mutations", "mutations_and_views"):
            with written:
                got = outcome(functionalize(function, remove=remove), args[0].clone())
            assert equal(want, got), (entry.key, case, want, got)
        yield written.names, want


def results(y, out):
    return y, out


def written_views(y, out):
    """Writes each view."""
    for view in tree_leaves(out):
        if isinstance(view, torch.Tensor):
            view.zero_() if view.dtype == torch.bool else view.mul_(3)
    return y, out


@pytest.mark.filterwarnings("ignore")
def test_calls_in_place():
    count, left = 0, set()
    for entry in IN_PLACE:
        for names, want in compare(entry, entry.name + "_", results):
            count += 1
            left.update(names if isinstance(want, list) else ())
    assert count > 100 and not left


@pytest.mark.filterwarnings("ignore")
def test_views_that_are_written():
    count = sum(1 for entry in VIEWS for _ in compare(entry, entry.name, written_views))
    assert count > 40


@pytest.mark.filterwarnings("ignore")
def test_views_of_complex_tensors_that_are_written():
    count = sum(1 for entry in VIEWS if "complex64" in entry.dtypes
                for _ in compare(entry, entry.name, written_views, ("complex64",)))
    assert count > 20


def check(function, *makes):
    """Compares a function's results and its inputs afterwards with and without functionalize()."""
    outcomes = []
    for f in (function, functionalize(function), functionalize(function, remove="mutations_and_views")):
        inputs = [make() for make in makes]
        torch.manual_seed(0)
        outcomes.append([*tree_leaves(f(*inputs)), *inputs])
    for got in outcomes[1:]:
        assert equal(outcomes[0], got), (outcomes[0], got)


def grid():
    return torch.arange(6.).view(2, 3)


def line():
    return torch.arange(6.)


def pair():
    return torch.tensor([1 + 2j, 3 - 1j])


DRAWS = {"bernoulli_": [(), (0.3,), (torch.full((3,), 0.4),)], "normal_": [(1, 2)], "uniform_": [(1, 3)], "exponential_": [(2,)],
         "geometric_": [(.3,)], "log_normal_": [()], "cauchy_": [()], "random_": [(), (5,), (2, 9)]}


def test_draws_in_place():
    for name, calls in DRAWS.items():
        for args in calls:
            check(lambda x: getattr(x, name)(*args), lambda: torch.tensor([.2, .9, .5]))
    check(lambda x: x.bernoulli_(.5), lambda: torch.arange(6))
    check(lambda x: x.bernoulli_(p=.3), grid)


def test_copies_share_no_memory():
    for make in (grid, lambda: torch.arange(6).view(2, 3), lambda: torch.ones(3)):
        check(lambda x, y: (x.copy_(y), y.zero_()), grid, make)
        check(lambda x, y: (x.__setitem__(0, y[-1]), y.zero_(), x * 1)[2], grid, make)
    check(lambda x, y: (torch._foreach_copy_([x], [y]), y.zero_(), x * 1)[2], grid, grid)
    check(lambda x, y: (x.copy_(y.conj()), torch.view_as_real(x))[1], pair, pair)
    check(lambda x: x.copy_(torch.ones(1, 3)), lambda: torch.empty(0, 3))


def test_views_with_another_sign_are_written():
    check(lambda x: x.conj().add_(1j), pair)
    check(lambda x: (x.conj().add_(1j), torch.view_as_real(x))[1], pair)
    check(lambda x: x.conj()[:1].mul_(1j), lambda: pair().conj())
    check(lambda x: torch._neg_view(x).add_(1), grid)


def test_copies_of_views_have_the_strides_of_views():
    check(lambda x: x.t().reshape(-1).zero_(), grid)
    check(lambda x: x.t().contiguous().zero_(), grid)
    check(lambda x: (x.t().copy_(torch.arange(6.).view(3, 2)), x.view(-1).add_(1))[1], grid)


def test_tensors_that_take_other_sizes():
    def shrunk(x, size=(2,)):
        y = x.view(-1)
        y.resize_(size)
        return y.add_(1), x.mul_(2), y
    check(shrunk, grid)
    check(lambda x: shrunk(x, (2, 2)), grid)
    check(lambda x: x.view(-1).resize_as_(torch.zeros(2)).add_(1), grid)
    check(lambda x: x.resize_(2).add_(1), line)
    check(lambda x: x.resize_(8).fill_(1), grid)
    for call in (lambda x: x.t_(), lambda x: x.unsqueeze_(0), lambda x: x.as_strided_((2,), (1,))):
        check(lambda x: call(x).add_(1), grid)
        check(call, grid)
    check(lambda x, y: torch.add(x, 1, out=y), grid, lambda: torch.empty(0))


def grown(x):
    y = x.clone()
    part = y[:1]
    y.resize_(8)
    return part


REFUSED = [
    ("not exchanged", lambda x: torch.zeros(1).add(x[0]).set_(x)), ("not exchanged", lambda x: x.set_()),
    ("not exchanged", lambda x: torch.ops.aten.set_.source_Tensor(x, x[1:])),
    ("not exchanged", lambda x: setattr(x, "data", x[1:])),
    ("is not resized", grown), ("with gaps", lambda x: x[::2].resize_(1)),
    ("as_strided counts places", lambda x: x[1:].as_strided((2,), (1,), 0).zero_()),
    ("as_strided counts places", lambda x: x[1:].as_strided_((2,), (1,), 0).zero_()),
    ("as_strided counts places", lambda x: x.view(2, 3).t().as_strided((2,), (1,)).zero_()),
    ("as_strided counts places", lambda x: (x[1:].as_strided((2,), (1,), 0), x.add_(1))[0].mul(1))]


@pytest.mark.parametrize("remove", ["mutations", "mutations_and_views"])
def test_calls_that_are_refused(remove):
    for text, function in REFUSED:
        with pytest.raises(RuntimeError, match=text):
            functionalize(function, remove=remove)(line())
    for x in (line().view(2, 3).t(), line()[2:]):
        with pytest.raises(RuntimeError, match="as_strided counts places"):
            functionalize(lambda x: x.as_strided((2,), (1,), 0).zero_(), remove=remove)(x)
    x = line()
    with pytest.raises(RuntimeError, match="shares memory with another input"):
        functionalize(lambda x, y: (x.add_(1), y * 1)[1], remove=remove)(x, x[1:3])
    assert x.tolist() == [0, 1, 2, 3, 4, 5]
    functionalize(lambda x, y: x.add_(y), remove=remove)(x[:3], x[3:])
    assert x.tolist() == [3, 5, 7, 3, 4, 5]
