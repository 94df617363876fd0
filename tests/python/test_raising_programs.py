"""Programs whose calls raise by elements: results, written tensors, random numbers and errors are eager's.

A program may catch the error, so a compiled call that raised leaves what eager mode leaves at that line.
"""
import warnings

import pytest

import cresset as torch
import cresset.nn.functional as F

GOOD, BAD = torch.tensor([1, 2, 0]), torch.tensor([1, 2, 9])
VALUES = torch.arange(5.)

RAISING = {
    "index_select": lambda i: VALUES.index_select(0, i),
    "index": lambda i: VALUES[i],
    "gather": lambda i: VALUES.gather(0, i),
    "take": lambda i: VALUES.take(i),
    "embedding": lambda i: F.embedding(i, VALUES[:, None])[:, 0],
    "one_hot": lambda i: F.one_hot(i, 5).sum(1),
    "nll_loss": lambda i: F.nll_loss(VALUES.expand(3, 5), i),
    "cross_entropy": lambda i: F.cross_entropy(VALUES.expand(3, 5), i),
    "scatter": lambda i: torch.zeros(5).scatter(0, i, 1.)[:3],
    "index_add": lambda i: torch.zeros(5).index_add(0, i, VALUES[:3])[:3],
    "index_put": lambda i: torch.zeros(5).index_put((i,), torch.ones(3))[:3],
    "cholesky": lambda i: torch.linalg.cholesky((5. - i).diag()).diag(),
    "inv": lambda i: torch.linalg.inv((i - 9.).diag()).diag(),
    "floor_divide": lambda i: i // (i - 9),
    "remainder": lambda i: 1 % (i - 9),
}


def caught(raising, i, otherwise):
    try:
        return raising(i)
    except Exception:
        return otherwise()


def programs(raising, state):
    """By name: a function of the indices.  All but one write or draw before a call that may raise."""
    def unread(i):
        raising(i)
        return VALUES[:3] * 2

    def writes(i):
        state.add_(1)
        y = raising(i) * 2
        state.mul_(2)
        return y + state

    def writes_a_view(i):
        state[1:].mul_(2)
        y = raising(i)
        state.view(3, 1)[:2].add_(y.sum())
        return y.sum() + state.t()

    def catches(i):
        state.add_(1)
        y = caught(raising, i, lambda: state.mul_(2) * 1.)
        return y * 1. + state

    def draws(i):
        noise = torch.rand(3)
        return raising(i) + noise

    def draws_after(i):
        return raising(i) + torch.rand(3)

    def catches_after_draws(i):
        noise = torch.rand(3)
        state.sub_(noise)
        y = caught(raising, i, lambda: torch.zeros(3))
        return y + noise + torch.rand(3)

    return [unread, writes, writes_a_view, catches, draws, draws_after, catches_after_draws]


def outcome(function, i, state):
    try:
        result = function(i).tolist()
    except Exception as error:
        result = type(error), str(error)
    return result, state.tolist(), state._version, torch.rand(1).item()


def run(raising, k, compiled):
    state = torch.zeros(3)
    function = programs(raising, state)[k]
    function = torch.compile(function) if compiled else function
    torch.manual_seed(0)
    return [outcome(function, i, state) for i in (GOOD, GOOD, GOOD, BAD, GOOD, BAD, BAD, GOOD)]


@pytest.mark.parametrize("name", RAISING)
def test_raising_programs_leave_what_eager_mode_leaves(name):
    for k, program in enumerate(programs(RAISING[name], torch.zeros(3))):
        expected = run(RAISING[name], k, False)
        assert any(type(x[0]) is tuple for x in expected) or "catches" in program.__name__
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert run(RAISING[name], k, True) == expected, program.__name__


@pytest.mark.parametrize("unread", [False, True])
def test_raising_programs_with_gradients(unread):
    """The forward program of a recording with a backward pass: a running statistic, a mask, then the labels."""
    def run(compiled):
        torch.manual_seed(0)
        norm, count, x = torch.nn.BatchNorm1d(5), torch.zeros(()), torch.randn(3, 5)

        def f(x, i):
            count.add_(1)
            y = F.dropout(norm(x), .5)
            loss = F.cross_entropy(y, i)
            return y.sum() if unread else loss

        function = torch.compile(f) if compiled else f
        seen = []
        for i in (GOOD, GOOD, GOOD, BAD, GOOD):
            x = x.detach().requires_grad_()
            try:
                loss = function(x, i)
                loss.backward()
                seen.append((loss.item(), x.grad.tolist()))
            except Exception as error:
                seen.append((type(error), str(error)))
            seen.append((norm.running_mean.tolist(), norm.num_batches_tracked.item(), count.item(), torch.rand(1).item()))
        return seen

    assert run(True) == run(False)


def test_results_of_raising_calls_that_cannot_raise_are_not_computed():
    """A division of numbers with a fraction, and of integers by a number, raises for no elements."""
    def f(x, i):
        x // x
        i % 3
        VALUES[i]
        return x + 1

    compiled = torch.compile(f)
    for _ in range(3):
        compiled(torch.ones(3), GOOD)
    steps = compiled._entries[0].runner.forward
    assert "index" in steps and "floor_divide" not in steps and "remainder" not in steps


TRANSPOSING = [lambda y: y.t(), lambda y: y.transpose(0, 1)[1:], lambda y: y.permute(1, 0), lambda y: y.movedim(0, -1), lambda y: y[:, 1:].t()]


@pytest.mark.parametrize("dynamic", [None, True, False])
def test_gradients_of_written_transposed_views(dynamic):
    """The layout of a result's gradient is that of the program for these sizes."""
    for view in TRANSPOSING:
        for kind in range(3):
            def f(x):
                y = x * 1
                w = view(y)
                if kind == 0:
                    w.add_(1)
                elif kind == 1:
                    w[0] = 2
                else:
                    y.add_(1)
                return (w, view(y))[kind == 1]

            compiled = torch.compile(f, dynamic=dynamic)
            for rows in (3, 4, 5, 6, 3, 7):
                given = torch.arange(rows * 3.).view(rows, 3)
                results = []
                for function in (f, compiled):
                    x = given.clone().requires_grad_()
                    out = function(x)
                    (out * torch.arange(1. * out.numel()).view(out.shape)).sum().backward()
                    results.append((out.tolist(), out.stride(), x.grad.tolist(), x.grad.stride()))
                assert results[0] == results[1]


@pytest.mark.parametrize("grows", [True, False])
def test_a_run_that_moves_or_writes_much_leaves_its_writes(grows):
    """The storage that the run wrote is another one when it raises, or copies of it would be long: no run is repeated."""
    def f(state, x, i):
        state.add_(1)
        if grows:
            state.resize_(100000)
        return x[i] * 2
    for function in (f, torch.compile(f)):
        state = torch.zeros(2 if grows else 5000)
        for k in range(6):
            bad = k % 3 == 2
            try:
                function(state, VALUES, BAD if bad else GOOD)
            except IndexError:
                assert bad
            assert state[:2].tolist() == [k + 1, k + 1]
            if grows:
                state = state[:2].clone()
