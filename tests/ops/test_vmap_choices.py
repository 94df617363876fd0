"""vmap of every entry with all choices of mapped arguments, dims and chunks, beside a loop; which entries loop; tangents
beside differences."""
import itertools

import pytest

import cresset as torch
from cresset._functorch import vmap as implementation
from cresset.func import grad, jacrev, jvp, vmap

from table import BY_KEY
from test_vmap import DRAWN, SIZE, WITH_GRAD, Examples, by_key, compare, copies, first_dtype, loop, outcome, weighted

MOST = 3  # of more arguments, each alone, all but each, and all are mapped over


def choices(examples):
    """Yields sets of places that have those that the entry writes."""
    written = {p["name"] for p in examples.entry.params if p["written"]} | set(examples.entry.updates)
    always = {p for p in examples.places if p[0] in written}
    count = len(examples.places)
    for n in range(1, count + 1) if count <= MOST else (1, count - 1, count):
        yield from (set(c) for c in itertools.combinations(examples.places, n) if always <= set(c))


def batches(examples, mapped, first):
    """Returns the arguments, and where the batch is in each: the dims differ between the arguments."""
    xs, dims = [], []
    for n, place in enumerate(examples.places):
        x = examples.tensor(0, place)
        if place not in mapped:
            xs.append(x)
            dims.append(None)
            continue
        dim = (first + n) % (x.dim() + 1)
        xs.append(torch.stack([examples.tensor(k, place) for k in range(SIZE)], dim))
        dims.append(dim - x.dim() - 1 if first % 2 else dim)
    return xs, tuple(dims)


@by_key(DRAWN)
def test_any_arguments_along_any_dims(key):
    """The results' batches are their last dims; the map runs at once, or in chunks of two examples."""
    entry = BY_KEY[key]
    case = next(iter(entry.cases()))
    examples = Examples(entry, case, first_dtype(entry))
    for n, mapped in enumerate(choices(examples)):
        xs, dims = batches(examples, mapped, n)
        run = vmap(examples.call, in_dims=dims, out_dims=-1, chunk_size=2 if n % 2 else None)
        compare(outcome(lambda: [x.movedim(-1, 0) for x in run(*copies(xs))]),
                outcome(lambda: loop(lambda *x: examples.call(*copies(x)), xs, dims)), (case, mapped, dims))


@by_key(DRAWN)
def test_stated_entries_do_not_loop(key, monkeypatch):
    """Only functions on tensors, calls that write or give no tensor, and results whose sizes depend on elements are called
    for one example after the other."""
    entry, looped = BY_KEY[key], []
    repeat = implementation._Call.each_example

    def watch(call):
        if call.size and not call.is_taken_apart():
            looped.append(call.func)
        return repeat(call)
    monkeypatch.setattr(implementation._Call, "each_example", watch)
    examples = Examples(entry, next(iter(entry.cases())), first_dtype(entry))
    xs, dims = examples.inputs(examples.places)
    _, refused = outcome(lambda: vmap(examples.call, in_dims=dims)(*copies(xs)))
    stated = [f for f in looped if f._record["does"] != "whole" and not f._schema.is_mutable
              and any("Tensor" in str(r.type) for r in f._schema.returns)
              and not {"sized_by_values", "random"} & set(f.words)]
    assert refused is not None or stated == []


def differentiable(examples, places):
    """Returns the numbers of the results that have a gradient by the arguments at `places`."""
    xs = [examples.tensor(0, p).clone().requires_grad_(p in places) for p in examples.places]
    return [k for k, y in enumerate(examples.call(*xs)) if y.requires_grad]


@by_key(WITH_GRAD)
def test_tangents_are_limits_of_differences(key):
    """jvp of each example in a map along one direction, where central differences of two sizes agree."""
    entry = BY_KEY[key]
    case = next(iter(entry.cases()))
    examples = Examples(entry, case, "float64")
    places = [p for p in examples.places if p[0] in entry.grads and examples.tensor(0, p).dtype == torch.float64]
    if not places:
        pytest.skip("no argument of this dtype")
    if any(p["written"] for p in entry.params):
        pytest.skip("arguments are written")
    at, kept = [examples.places.index(p) for p in places], differentiable(examples, places)
    xs, dims = examples.inputs(places)
    rest = [x if d is None else None for x, d in zip(xs, dims)]
    primals = [xs[i] for i in at]
    directions = [torch.linspace(0.5, 1.5, x.numel(), dtype=torch.float64).reshape(x.shape) for x in primals]

    def of(*moved):
        values = list(rest)
        for i, x in zip(at, moved):
            values[i] = x
        made = examples.call(*values)
        return [made[k] for k in kept]
    found, refused = outcome(lambda: vmap(lambda p, t: jvp(of, tuple(p), tuple(t))[1])(primals, directions))
    if refused is not None:
        single = outcome(lambda: jvp(of, tuple(x[0] for x in primals), tuple(x[0] for x in directions)))[1]
        assert type(single) is type(refused), refused  # one example has no tangents either
        return

    def difference(h):
        up, down = (vmap(of)(*[x + s * h * t for x, t in zip(primals, directions)]) for s in (1, -1))
        return [(a - b) / (2 * h) for a, b in zip(up, down)]
    coarse, fine = difference(2e-6), difference(1e-6)
    for y, a, b in zip(found, coarse, fine):
        if y.dtype not in (torch.float64, torch.complex128):
            continue  # too few digits for differences
        smooth = torch.isfinite(a.abs()) & torch.isfinite(b.abs()) & ((a - b).abs() <= 1e-6 * (1 + b.abs()))
        assert torch.allclose(y[smooth], b[smooth], rtol=1e-5, atol=1e-5), case


@by_key(WITH_GRAD)
def test_jacobians_of_gradients_of_a_batch(key):
    """The rows of the second derivative of a function that maps are a batch, too: jacrev(grad(vmap))."""
    entry = BY_KEY[key]
    examples = Examples(entry, next(iter(entry.cases())), "float64")
    places = [p for p in examples.places if p[0] in entry.grads and examples.tensor(0, p).dtype == torch.float64]
    if not places or any(p["written"] for p in entry.params) or examples.tensor(0, places[0]).numel() > 64:
        pytest.skip("no small argument of this dtype")
    xs, dims = examples.inputs(places)
    at = examples.places.index(places[0])

    def second(run):
        def f(x):
            return weighted(run([*xs[:at], x, *xs[at + 1:]]))
        return outcome(lambda: [jacrev(grad(f))(xs[at])])
    compare(second(lambda x: vmap(examples.call, in_dims=dims)(*x)), second(lambda x: loop(examples.call, x, dims)), key)


@pytest.mark.parametrize("chunk", [None, 1, 2, 5])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_numbers_drawn_by_each_mode(depth, chunk):
    """`different`: no two examples are equal; `same`: all are; `error`: refused.  In maps inside of maps, too."""
    def mapped(randomness):
        def f(x):
            return x + torch.rand(2)
        for _ in range(depth):
            f = vmap(f, randomness=randomness, chunk_size=chunk)
        return f(torch.zeros(*[3] * depth, 2))
    different, same = mapped("different").reshape(-1, 2), mapped("same").reshape(-1, 2)
    assert len({tuple(row) for row in different.tolist()}) == 3 ** depth
    assert (same == same[0]).all()
    with pytest.raises(RuntimeError, match="randomness error mode"):
        mapped("error")


def test_indexed_reads_are_recorded_for_a_batch():
    """Derivatives around a map of entries that run on the views of each example, of two orders."""
    x = torch.rand(3, 5, dtype=torch.float64)
    index = torch.tensor([[0, 2], [1, 1], [4, 3]])

    def by_map(x):
        return vmap(lambda row, i: row.gather(0, i).square() * row.index_select(0, i), in_dims=(0, 0))(x, index).sum()

    def by_loop(x):
        return sum((x[k].gather(0, index[k]).square() * x[k].index_select(0, index[k])).sum() for k in range(3))
    assert torch.allclose(torch.func.grad(by_map)(x), torch.func.grad(by_loop)(x))
    assert torch.allclose(torch.func.hessian(by_map)(x), torch.func.hessian(by_loop)(x))
    assert torch.allclose(vmap(torch.func.hessian(by_map))(x.expand(2, 3, 5)), torch.func.hessian(by_loop)(x).expand(2, 3, 5, 3, 5))


def test_a_map_in_another_thread_sees_its_level_only():
    import threading
    results = [None] * 4

    def work(n):
        results[n] = vmap(vmap(lambda a, b: a * b + n, in_dims=(0, None)), in_dims=(None, 0))(torch.arange(3.0), torch.arange(2.0))
    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for n, result in enumerate(results):
        assert result.tolist() == [[n, n, n], [n, n + 1, n + 2]]
