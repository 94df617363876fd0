"""vmap of every entry, over each tensor argument and over all, beside a Python loop: values, derivatives inside and outside.

Examples are draws of one case of the entry (table.py) with several seeds."""
import warnings

import pytest

import cresset as torch
import cresset.nn.functional as F
from cresset._tags import changes_sizes
from cresset.func import grad, jvp, vmap

from table import BY_KEY, ENTRIES, Draw, leaves

SIZE = 3
# A number that is read of a batch, and results of several sizes: torch's refusals.
NOT_MAPPED = ("don't support vmap over calling .item()", "operators that can output dynamic shape",
              "operators that can support dynamic shape", "Attempted to vmap over `mask` in torch.masked_select",
              "Batching rule not implemented for aten::", "vmap over torch.allclose isn't supported yet")
DRAWN = [e for e in ENTRIES if e.can_be_drawn() and e.tensor_params and not {"random", "undefined"} & set(e.words)]
WITH_GRAD = [e for e in DRAWN if e.grads and "float64" in e.dtypes]


def by_key(entries):
    return pytest.mark.parametrize("key", [e.key for e in entries], ids=[f"{e.file[:-3]}:{e.key}" for e in entries])


def first_dtype(entry):
    return next((d for d in ("float64", "complex128", "int64", "bool") if d in entry.dtypes), "float32")


class Examples:
    """The tensors of a case for each example, and the choices of those that are mapped over."""

    def __init__(self, entry, case, dtype):
        self.entry = entry
        self.draws = [Draw(entry, case, dtype, seed=k) for k in range(SIZE)]
        self.places = list(self.find_places())

    def find_places(self):
        for p in self.entry.tensor_params:
            value = self.draws[0].values[p["name"]]
            if isinstance(value, torch.Tensor):
                yield p["name"], None
            elif isinstance(value, (list, tuple)):
                yield from ((p["name"], k) for k, x in enumerate(value) if isinstance(x, torch.Tensor))

    def choices(self):
        """Yields the places that are mapped over, those that the entry writes always."""
        written = {p["name"] for p in self.entry.params if p["written"]} | set(self.entry.updates)
        always = [place for place in self.places if place[0] in written]
        if len(self.places) > 1:
            yield from (sorted({place, *always}, key=self.places.index) for place in self.places)
        if self.places:
            yield self.places

    def tensor(self, k, place):
        value = self.draws[k].values[place[0]]
        return value if place[1] is None else value[place[1]]

    def inputs(self, mapped, dim=0):
        """Returns the arguments of vmap, one for each place, and their in_dims."""
        xs = [torch.stack([self.tensor(k, p) for k in range(SIZE)], dim) if p in mapped else self.tensor(0, p)
              for p in self.places]
        return xs, tuple(dim if p in mapped else None for p in self.places)

    def values(self, tensors):
        values = {k: list(v) if isinstance(v, tuple) else v for k, v in self.draws[0].values.items()}
        for (name, index), x in zip(self.places, tensors):
            if index is None:
                values[name] = x
            else:
                values[name] = [x if i == index else y for i, y in enumerate(values[name])]
        return values

    def call(self, *tensors):
        """Calls the entry; returns its results that are tensors and those arguments that it wrote."""
        values = self.values(tensors)
        result = list(leaves(self.draws[0].run(values)))
        return tuple(result + [x for p in self.entry.params if p["written"] for x in leaves(values[p["name"]])])


def example(xs, dims, k):
    return [x if d is None else x.select(d, k) for x, d in zip(xs, dims)]


def loop(function, xs, dims):
    """Calls the function for one example after the other, and stacks the results."""
    outs = [function(*example(xs, dims, k)) for k in range(SIZE)]
    return [torch.stack(parts) for parts in zip(*outs)]


def outcome(call):
    """Returns (results, None), or (None, the error)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return list(call()), None
        except (RuntimeError, NotImplementedError, IndexError, ValueError) as error:
            return None, error


def copies(xs):
    return [x.clone() for x in xs]


def compare(got, want, where):
    (a, failed), (b, refused) = got, want
    if refused is not None:  # an example that the entry refuses, or results of several sizes
        assert failed is not None, where
        return
    if failed is not None and any(text in str(failed) for text in NOT_MAPPED):
        assert want[0] is not None
        return
    if failed is not None:
        raise AssertionError(where) from failed
    assert len(a) == len(b), where
    for x, y in zip(a, b):
        assert (x.shape, x.dtype) == (y.shape, y.dtype), where
        torch.testing.assert_close(x, y, rtol=1e-9, atol=1e-9, equal_nan=True, msg=str(where))


def tried(entry, dtype):
    for case in entry.cases():
        examples = Examples(entry, case, dtype)
        for mapped in examples.choices():
            yield examples, mapped, (case, mapped)


@by_key(DRAWN)
def test_a_batch_is_its_examples(key):
    """Batches are the first and the last dim in turn."""
    entry = BY_KEY[key]
    for n, (examples, mapped, where) in enumerate(tried(entry, first_dtype(entry))):
        xs, dims = examples.inputs(mapped, 0 if n % 2 else -1)
        compare(outcome(lambda: vmap(examples.call, in_dims=dims)(*copies(xs))),
                outcome(lambda: loop(lambda *x: examples.call(*copies(x)), xs, dims)), where)


OTHER_DTYPES = (torch.bool, torch.uint8, torch.int64, torch.bfloat16, torch.complex64)


@by_key(DRAWN)
def test_a_batch_has_the_dtypes_and_refusals_of_its_examples(key):
    entry, base = BY_KEY[key], getattr(torch, first_dtype(BY_KEY[key]))
    for case in entry.cases():
        examples = Examples(entry, case, first_dtype(entry))
        for dtype in OTHER_DTYPES:
            xs, dims = examples.inputs(examples.places)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                xs = [x.to(dtype) if x.dtype == base else x for x in xs]
            got, failed = outcome(lambda: vmap(examples.call, in_dims=dims)(*copies(xs)))
            want, refused = outcome(lambda: loop(lambda *x: examples.call(*copies(x)), xs, dims))
            assert type(failed) is type(refused) or any(text in str(failed) for text in NOT_MAPPED), (case, dtype, failed, refused)
            if got and want:
                assert [(x.shape, x.dtype) for x in got] == [(x.shape, x.dtype) for x in want], (case, dtype)


def weighted(outs):
    """A real number of the results, in which every element has another weight."""
    total = 0
    for n, out in enumerate(x for x in outs if x.is_floating_point() or x.is_complex()):
        weights = torch.linspace(0.5, 1.5 + n, max(out.numel(), 1), dtype=out.dtype)[:out.numel()].reshape(out.shape)
        product = out * weights
        total = total + (product.real + 2 * product.imag if out.is_complex() else product).sum()
    return total


# Views of one tensor; where the elements of a view share memory, a write is refused.
VIEWS = [e for e in DRAWN if {"view", "permute", "expand", "split", "bits", "reshape"} & set(e.words)
         and e.key not in ("contiguous", "ravel", "unfold")]


@by_key(VIEWS)
def test_writes_to_views_of_examples(key):
    """What a function writes to a view of an example, the example has."""
    entry = BY_KEY[key]
    for dtype in {"float64", "complex128"} & set(entry.dtypes):
        for examples, mapped, where in tried(entry, dtype):
            if examples.places[0] not in mapped:
                continue

            def write(*tensors):
                views = list(leaves(examples.draws[0].run(examples.values(tensors))))
                for n, view in enumerate(views):
                    view.copy_(view * (3 + n))
                return (*views, *tensors)
            xs, dims = examples.inputs(mapped)
            compare(outcome(lambda: vmap(write, in_dims=dims)(*copies(xs))),
                    outcome(lambda: loop(lambda *x: write(*copies(x)), xs, dims)), where)


@by_key([e for e in VIEWS if "permute" in e.words])
def test_orders_of_dims_that_look_alike(key):
    """All dims of an expanded example have equal sizes and strides; gradients tell them apart."""
    entry = BY_KEY[key]
    for case in entry.cases():
        draw = Draw(entry, case, "float64")
        name = entry.params[0]["name"]
        x = torch.ones(1, dtype=torch.float64).expand(SIZE, *[2] * draw.values[name].dim())

        def total(x):
            return weighted([draw.run({**draw.values, name: x})])
        assert torch.equal(grad(lambda x: vmap(total)(x).sum())(x), torch.stack([grad(total)(row) for row in x])), case


# Forms in place that make a tensor another view of itself, with arguments; the sizes of an example are 2, 1, 3.
BECOMES = {"transpose_": (0, 2), "swapaxes_": (-1, 1), "swapdims_": (1, 2), "unsqueeze_": (1,), "squeeze_": (),
           "squeeze_.dim": (1,), "squeeze_.dims": ((0, 1),), "as_strided_": ((2, 2), (1, 3)), "t_": (),
           "resize_": ((2, 2),)}


def test_all_forms_that_change_sizes_are_tried():
    ours = {e.key for e in ENTRIES if e.name.endswith("_") and "sparse" not in e.words
            and not e.name.startswith(("set_", "resize_as", "_")) and changes_sizes(overload(e))}
    assert ours == set(BECOMES)


def overload(entry):
    return getattr(getattr(torch.ops.aten, entry.name), entry.overload or "default")


@pytest.mark.parametrize("key", BECOMES)
def test_examples_become_views(key):
    """The results, later writes, and derivatives outside and inside of the map."""
    name, args = key.split(".")[0], BECOMES[key]
    sizes = (2, 3) if name == "t_" else (2, 1, 3)
    x = torch.arange(24.0, dtype=torch.float64).reshape(2, 2, *sizes) if name == "t_" else \
        torch.arange(36.0, dtype=torch.float64).reshape(3, 2, *sizes)

    def change(x):
        y = x.clone()
        before = y.view(-1)
        assert getattr(y, name)(*args) is y
        y.mul_(torch.arange(1.0, y.shape[-1] + 1)).sin_()
        return y, y.shape[0] * y, before

    def total(x):
        return sum((n + 1) * (y * y.cos()).sum() for n, y in enumerate(change(x)[:2]))

    def compare_with(f):
        for got, want in zip(leaves(vmap(vmap(f))(x)), leaves(loop_of(lambda row: loop_of(f, row), x))):
            assert got.shape == want.shape
            torch.testing.assert_close(got, want)

    def loop_of(f, x):
        parts = [f(row) for row in x]
        return torch.stack(parts) if isinstance(parts[0], torch.Tensor) else tuple(map(torch.stack, zip(*parts)))
    compare_with(change)
    if name != "resize_":  # has no derivative
        compare_with(grad(total))
        torch.testing.assert_close(grad(lambda x: vmap(vmap(total))(x).sum())(x), vmap(vmap(grad(total)))(x))


def test_places_of_a_storage_are_those_of_an_example():
    x = torch.arange(40.0)[4:16].reshape(3, 4)
    assert vmap(lambda row: row.as_strided((2,), (1,), 5))(x).tolist() == [[5, 6], [9, 10], [13, 14]]
    assert vmap(lambda row: row.as_strided((2,), (1,)))(x).tolist() == [[4, 5], [8, 9], [12, 13]]
    assert vmap(lambda column: column.as_strided((2,), (4,)), in_dims=1)(x).tolist() == [[4, 8], [5, 9], [6, 10], [7, 11]]


@pytest.mark.parametrize("view", [
    lambda a: a.narrow(0, -1, 1), lambda a: a.narrow(1, -4, 2), lambda a: a.narrow(0, 3, 2), lambda a: a.narrow(0, 5, 0),
    lambda a: a.narrow(0, 0, -1), lambda a: a[0, 0].narrow(0, 0, 1), lambda a: a.expand(-1, 4, 5), lambda a: a.expand(2, -1, -1),
    lambda a: a.expand(5), lambda a: a.expand(3, 5), lambda a: (a * 1j).conj().imag, lambda a: (a + 1j * a).conj().real])
def test_views_of_examples_are_views_of_tensors(view):
    """With errors of the same class and text."""
    x = torch.arange(60.0).reshape(3, 4, 5)
    (got, failed), (want, refused) = outcome(lambda: vmap(view)(x)), outcome(lambda: torch.stack([view(row) for row in x]))
    assert (type(failed), str(failed)) == (type(refused), str(refused))
    assert want is None or torch.equal(torch.stack(got), torch.stack(want))


def test_new_examples_have_strides_of_their_own():
    for sizes, strides in (((2, 3), (1, 2)), ((2, 3), (4, 1)), ((3,), (2,)), ((), ()), ((0, 2), (2, 1))):
        made = vmap(lambda a: a.new_empty_strided(sizes, strides).fill_(a.sum()))(torch.arange(6.0).view(3, 2))
        assert made.stride()[1:] == strides and made.shape == (3, *sizes)
        assert torch.equal(made, torch.tensor([1.0, 5, 9]).view(3, *[1] * len(sizes)).expand(3, *sizes))


@pytest.mark.parametrize("norm", [
    lambda x, w, b: F.batch_norm(x, None, None, w, b, True), lambda x, w, b: F.group_norm(x, 2, w, b),
    lambda x, w, b: F.instance_norm(x[..., None], None, None, w, b), lambda x, w, b: F.layer_norm(x, (4,), w, b),
    lambda x, w, b: F.rms_norm(x, (4,), w) + b])
def test_derivatives_of_derivatives_of_norms(norm):
    """The gradients of examples have derivatives outside of the map."""
    torch.manual_seed(0)
    tensors = [torch.randn(SIZE, *sizes, dtype=torch.float64) for sizes in ((5, 4), (4,), (4,))]
    of_one = grad(lambda *one: weighted([norm(*one)]), argnums=(0, 1, 2))

    def of_all(gradients):
        return grad(lambda *xs: sum((g ** 2).sum() for g in gradients(*xs)), argnums=(0, 1, 2))(*tensors)
    compare(outcome(lambda: of_all(vmap(of_one))), outcome(lambda: of_all(lambda *xs: loop(of_one, xs, (0, 0, 0)))), "")


def with_two_complex(entry):
    draws = [Draw(entry, case, "complex128").values for case in entry.cases()]
    return any(sum(isinstance(x, torch.Tensor) and x.is_complex() for v in values.values() for x in leaves(v)) > 1
               for values in draws)


@by_key([e for e in WITH_GRAD if "complex128" in e.dtypes and with_two_complex(e)])
def test_gradients_of_conjugates_and_parts(key):
    """Tensors beside the batch have a bit (conj), and a history."""
    entry = BY_KEY[key]
    for examples, mapped, where in tried(entry, "complex128"):
        xs, dims = examples.inputs(mapped)
        by = tuple(n for n in differentiable(examples) if xs[n].is_complex())
        beside = [n for n in by if examples.places[n] not in mapped]
        if not beside:
            continue

        def call(*tensors):
            return examples.call(*[x.conj() if n in beside else x.clone() for n, x in enumerate(tensors)])

        def of(run):
            return grad(lambda *x: weighted(run(x)), argnums=by)(*xs)
        compare(outcome(lambda: of(lambda x: vmap(call, in_dims=dims)(*x))),
                outcome(lambda: of(lambda x: loop(call, x, dims))), where)


def differentiable(examples):
    return tuple(n for n, p in enumerate(examples.places)
                 if examples.tensor(0, p).is_floating_point() or examples.tensor(0, p).is_complex())


@by_key(WITH_GRAD)
def test_gradients_of_a_batch(key):
    """The derivative of a function that maps."""
    entry = BY_KEY[key]
    for examples, mapped, where in tried(entry, "float64"):
        xs, dims = examples.inputs(mapped)
        by = differentiable(examples)

        def of(run):
            return grad(lambda *x: weighted(run(x)), argnums=by)(*xs)
        compare(outcome(lambda: of(lambda x: vmap(examples.call, in_dims=dims)(*copies(x)))),
                outcome(lambda: of(lambda x: loop(lambda *e: examples.call(*copies(e)), x, dims))), where)


@by_key(WITH_GRAD)
def test_a_batch_of_gradients(key):
    """A derivative that is mapped."""
    entry = BY_KEY[key]
    for examples, mapped, where in tried(entry, "float64"):
        xs, dims = examples.inputs(mapped)
        one = grad(lambda *x: weighted(examples.call(*copies(x))), argnums=differentiable(examples))
        compare(outcome(lambda: vmap(one, in_dims=dims)(*xs)), outcome(lambda: loop(one, xs, dims)), where)


@by_key(DRAWN)
def test_batches_of_batches(key):
    """All arguments are mapped over twice."""
    entry = BY_KEY[key]
    for case in entry.cases():
        examples = Examples(entry, case, first_dtype(entry))
        xs, _ = examples.inputs(examples.places)
        xs = [torch.stack([x, x.flip(0)]) for x in xs]
        if not xs:
            continue
        compare(outcome(lambda: vmap(vmap(examples.call))(*copies(xs))),
                outcome(lambda: vmap(lambda *x: tuple(loop(examples.call, x, [0] * len(x))))(*copies(xs))), case)


@by_key([e for e in DRAWN if "inplace" in e.forms])
def test_examples_are_written(key):
    """The in-place form, by the method."""
    entry = BY_KEY[key]
    for examples, mapped, where in tried(entry, first_dtype(entry)):
        first = examples.places[0]
        xs, dims = examples.inputs([p for p in examples.places if p in mapped or p == first])

        def write(*tensors):
            values = examples.values(tensors)
            args, kwargs = examples.draws[0].call_arguments(values)
            return getattr(args[0], entry.name + "_")(*args[1:], **kwargs), args[0]
        compare(outcome(lambda: vmap(write, in_dims=dims)(*copies(xs))),
                outcome(lambda: loop(lambda *x: write(*copies(x)), xs, dims)), where)


@by_key([e for e in DRAWN if not e.sized_by_values])
def test_a_batch_without_examples(key):
    """Results have no example, and the sizes and dtypes of an example's results."""
    entry = BY_KEY[key]
    for examples, mapped, where in tried(entry, first_dtype(entry)):
        xs, dims = examples.inputs(mapped)
        got, failed = outcome(lambda: vmap(examples.call, in_dims=dims)(*[x if d is None else x[:0] for x, d in
                                                                          zip(copies(xs), dims)]))
        want, refused = outcome(lambda: loop(lambda *x: examples.call(*copies(x)), xs, dims))
        if refused is None and failed is None:
            assert [(x.shape[1:], len(x), x.dtype) for x in got] == [(x.shape[1:], 0, x.dtype) for x in want], where
        elif refused is None:
            assert "have no values" in str(failed) or NOT_MAPPED[0] in str(failed), failed


@by_key(WITH_GRAD)
def test_second_gradients_of_examples(key):
    entry = BY_KEY[key]
    for examples, mapped, where in tried(entry, "float64"):
        xs, dims = examples.inputs(mapped)
        by = differentiable(examples)
        one = grad(lambda *x: weighted(grad(lambda *y: weighted(examples.call(*copies(y))), argnums=by)(*x)), argnums=by)
        compare(outcome(lambda: vmap(one, in_dims=dims)(*xs)), outcome(lambda: loop(one, xs, dims)), where)


@by_key([e for e in DRAWN if not e.sized_by_values and not e.name.startswith("_")])
def test_ranks_are_checked(key):
    """Arguments with a dim more or less: refused as an example is, or with the values of the examples."""
    entry = BY_KEY[key]
    for case in entry.cases():
        examples = Examples(entry, case, first_dtype(entry))
        xs, dims = examples.inputs(examples.places)
        for n in range(len(xs)):
            for changed in [xs[n].unsqueeze(1)] + ([xs[n].select(1, 0)] if xs[n].dim() > 1 and xs[n].shape[1] else []):
                ys = [*xs[:n], changed, *xs[n + 1:]]
                compare(outcome(lambda: vmap(examples.call)(*copies(ys))),
                        outcome(lambda: loop(lambda *y: examples.call(*copies(y)), ys, dims)), (case, n, changed.dim()))


@by_key(WITH_GRAD)
def test_tangents_are_transposes_of_gradients(key):
    """The product of a tangent with a weight is that of the weight's gradient with the tangent."""
    entry = BY_KEY[key]
    for case in entry.cases():
        examples = Examples(entry, case, "float64")
        by = differentiable(examples)
        xs = [examples.tensor(0, p) for p in examples.places]
        tangents = tuple(examples.tensor(1, examples.places[n]) for n in by)

        def number(*moved):
            return weighted(examples.call(*copies([moved[by.index(n)] if n in by else x for n, x in enumerate(xs)])))
        primals = tuple(xs[n] for n in by)
        if not by:
            continue
        got, failed = outcome(lambda: [jvp(number, primals, tangents)[1]])
        want, refused = outcome(lambda: [sum((g * t.conj()).real.sum() for g, t in
                                             zip(grad(number, argnums=tuple(range(len(by))))(*primals), tangents))])
        compare((got, failed), (want, refused), case)
