"""Nested tensors: a call has the results and derivatives of a loop over the parts."""
import copy
import pickle

import pytest

import cresset as torch
import cresset.nn.functional as F

PARTS = [torch.tensor([[0.1, 0.7, 0.4], [0.5, 0.2, 0.9]]), torch.tensor([[0.3, 0.6, 0.8]]), torch.rand(4, 3) * 0.8 + 0.1]
LAYOUTS = [torch.jagged, torch.strided]


def entries():
    """Functions of one tensor that compute each element, from the table."""
    for record in torch._C._records():
        tensors = [p for p in record["params"] if p["type"] == "Tensor"]
        plain = len(tensors) == 1 and all(p["has_default"] for p in record["params"][1:]) and not record["overload"]
        if record["does"] == "body" and plain and "function" in record["forms"] and record["name"][0] != "_" and \
                len(record["results"]) == 1 and "float32" in record["dtypes"] and "random" not in record["words"]:
            yield record["name"]


def function_of(name):
    for space, prefix in ((torch.special, "special_"), (torch.linalg, "linalg_"), (torch, "")):
        if name.startswith(prefix) and hasattr(space, name.removeprefix(prefix)):
            return getattr(space, name.removeprefix(prefix))


def same(got, want):
    return torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True) is None


def compare(function, layout, derivative=True):
    leaves = [x.clone().requires_grad_() for x in PARTS]
    results = [function(x) for x in leaves]
    nested = torch.nested.nested_tensor(PARTS, layout=layout, requires_grad=True)
    made = function(nested)
    assert made.is_nested and made.layout == layout
    assert all(same(got, want) for got, want in zip(made.unbind(), results, strict=True))
    if derivative and results[0].requires_grad:
        sum(x.sum() for x in results).backward()
        sum(x.sum() for x in made.unbind()).backward()
        grads = nested.grad.unbind() if nested.grad is not None else [None] * 3
        assert all(got is want or same(got, want) for got, want in zip(grads, [x.grad for x in leaves]))


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_elementwise_entries(layout):
    names = [name for name in entries() if function_of(name)]
    assert len(names) > 60
    for name in names:
        compare(function_of(name), layout)


W, B = torch.rand(5, 3), torch.rand(5)
FUNCTIONS = [
    lambda x: F.linear(x, W, B), lambda x: x @ W.t(), lambda x: F.layer_norm(x, (3,)), lambda x: F.softmax(x, -1),
    lambda x: F.log_softmax(x, -1), lambda x: x * 2 + 1, lambda x: 1 - x, lambda x: x * torch.tensor([1.0, 2.0, 3.0]), lambda x: x ** 2,
    lambda x: torch.where(x > 0.5, x, 0.0), lambda x: x.masked_fill(x > 0.5, 2.0), lambda x: torch.cat([x, x * 2], -1),
    lambda x: torch.maximum(x, x.flip(-1)), lambda x: x.sum(-1), lambda x: x.mean(-1, keepdim=True), lambda x: x.cumsum(-1),
    lambda x: x.clone(), lambda x: x.double(), lambda x: F.gelu(x), lambda x: x.unsqueeze(-1), lambda x: F.normalize(x, dim=-1),
    lambda x: torch.nn.Sequential(torch.nn.LayerNorm(3), torch.nn.GELU())(x), lambda x: x.unflatten(-1, (3, 1)).flatten(-2),
    lambda x: x.chunk(3, -1)[1], lambda x: x.split([1, 2], -1)[1], lambda x: x.sort(-1)[0], lambda x: x[..., :2], lambda x: x > 0.5]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions(function, layout):
    compare(function, layout)


def test_reductions_of_the_ragged_dim_and_of_all():
    nested = torch.nested.nested_tensor(PARTS, layout=torch.jagged)
    flat = torch.cat([x.reshape(-1) for x in PARTS])
    assert same(nested.sum(1), torch.stack([x.sum(0) for x in PARTS])) and same(nested.amax(1), torch.stack([x.amax(0) for x in PARTS]))
    assert same(nested.sum(), flat.sum()) and same(nested.max(), flat.max()) and same(nested.mean(), flat.mean())
    assert same(nested.sum((0, 1)), torch.cat(PARTS).sum(0)) and same(nested.mean(1, keepdim=True), torch.stack([x.mean(0, keepdim=True) for x in PARTS]))
    assert same(F.softmax(nested, 1).unbind()[0], F.softmax(PARTS[0], 0))
    with pytest.raises(RuntimeError, match="reducing along the batch dimension but not the ragged"):
        nested.sum(0)


def test_attention_of_parts():
    nested = torch.nested.nested_tensor(PARTS, layout=torch.jagged)
    heads = nested.unsqueeze(-2).transpose(1, 2)
    assert repr(heads.shape) == f"torch.Size([3, 1, {nested.size(1)}, 3])"
    got = F.scaled_dot_product_attention(heads, heads, heads).transpose(1, 2).flatten(-2)
    for x, want in zip(got.unbind(), PARTS):
        torch.testing.assert_close(x, F.scaled_dot_product_attention(want[None], want[None], want[None])[0])


def test_sizes_and_text():
    nested = torch.nested.nested_tensor(PARTS, layout=torch.jagged)
    ragged = nested.size(1)
    assert (nested.dim(), nested.numel(), len(nested), nested.size(0), nested.size(-1)) == (3, 21, 3, 3, 3)
    assert repr(nested) == f"NestedTensor(size=(3, {ragged}, 3), offsets=tensor([0, 2, 3, 7]), contiguous=True)"
    assert nested.view(3, ragged, 1, 3).shape == (3, ragged, 1, 3) == nested.view(3, -1, 1, 3).shape
    assert (nested * 2).size(1) is ragged and nested.offsets().tolist() == [0, 2, 3, 7]
    other = torch.nested.nested_tensor(PARTS[::-1], layout=torch.jagged)
    with pytest.raises(RuntimeError, match="cannot call binary pointwise function"):
        nested + other
    strided = torch.nested.nested_tensor([[1, 2], [3]])
    assert repr(strided) == "nested_tensor([\n  tensor([1, 2]),\n  tensor([3])\n])" and strided.layout == torch.strided
    with pytest.raises(RuntimeError, match="Given dimension 1 is irregular"):
        strided.size(1)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_history_of_parts_padding_and_copies(layout):
    leaves = [x.clone().requires_grad_() for x in PARTS]
    nested = torch.nested.as_nested_tensor(leaves, layout=layout)
    padded = torch.nested.to_padded_tensor(nested, -1.0)
    assert padded.shape == (3, 4, 3) and same(padded[1, 1:], -torch.ones(3, 3))
    padded.pow(2).sum().backward()
    assert all(same(x.grad, 2 * x.detach()) for x in leaves)
    for made in (copy.deepcopy(nested.detach()), pickle.loads(pickle.dumps(nested))):
        assert all(same(a, b) for a, b in zip(made.unbind(), PARTS))


def test_values_and_offsets():
    values = torch.arange(10.0).reshape(5, 2).requires_grad_()
    nested = torch.nested.nested_tensor_from_jagged(values, lengths=torch.tensor([2, 3]))
    (nested.values() * 3).sum().backward()
    assert same(values.grad, torch.full((5, 2), 3.0)) and nested.offsets().tolist() == [0, 2, 5]
    narrowed = torch.nested.narrow(torch.arange(12.0).reshape(2, 6), 1, torch.tensor([1, 0]), torch.tensor([2, 4]), layout=torch.jagged)
    assert [x.tolist() for x in narrowed.unbind()] == [[1, 2], [6, 7, 8, 9]] and not narrowed.is_contiguous()
    chosen = torch.nested.masked_select(torch.arange(6).reshape(2, 3), torch.tensor([[True, False, True], [False, True, False]]))
    assert [x.tolist() for x in chosen.unbind()] == [[0, 2], [4]]
    for offsets in ([0, 7], [3, 2, 5], [-1, 2]):
        with pytest.raises(RuntimeError, match="are outside the values' size"):
            torch.nested.nested_tensor_from_jagged(values, torch.tensor(offsets))


def test_training_step():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    net(torch.nested.nested_tensor(PARTS, layout=torch.jagged)).sum().backward()
    got = [p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    net(torch.cat(PARTS)).sum().backward()
    assert all(same(a, b.grad) for a, b in zip(got, net.parameters()))


def test_the_layout_is_refused_elsewhere():
    with pytest.raises(NotImplementedError, match="are made by torch.nested"):
        torch.empty(2, layout=torch.jagged)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_functions_in_place(layout):
    changes = [lambda x: x.mul_(2), lambda x: x.__iadd__(1), lambda x: x.clamp_(max=0.5), lambda x: F.relu(x, inplace=True),
               lambda x: torch.neg(x, out=x), lambda x: x.copy_(x * 3), lambda x: x.cumsum_(-1)]
    for change in changes:
        x, parts = torch.nested.nested_tensor(PARTS, layout=layout), [x.clone() for x in PARTS]
        assert change(x) is x
        for part, plain in zip(x.unbind(), parts):
            change(plain)
            assert torch.equal(part, plain)
        kept = x.clone().requires_grad_()
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
            change(kept)
        for other in (lambda: change(kept * 1), lambda: x.mul_(kept)):
            with pytest.raises(RuntimeError, match="not changed in place where a derivative is recorded"):
                other()
        assert all(torch.equal(a, b) for made in (kept, x) for a, b in zip(made.detach().unbind(), parts))
        with torch.no_grad():
            assert change(kept) is kept


def test_changes_of_nested_tensors_that_are_refused():
    x = torch.nested.nested_tensor([torch.ones(2, 2), torch.ones(3, 2)], layout=torch.jagged)
    for change, message in ((lambda: x.__setitem__((slice(None), 0), 5), "__setitem__"), (lambda: x.transpose_(1, 2), "the sizes"),
                            (lambda: torch.ones(2, 1, 2).mul_(x), "not nested")):
        with pytest.raises(RuntimeError, match=message):
            change()
    assert torch.equal(x.values(), torch.ones(5, 2))
