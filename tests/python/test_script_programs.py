"""Programs of TorchScript calls: equal calls run compiled graphs with the bits, errors and effects of the steps."""
import gc
import threading
import weakref

import pytest

import cresset as torch
from cresset import Tensor, nn
from typing import List, Tuple
import cresset.nn.functional as F


@pytest.fixture(autouse=True)
def always():
    was = torch._C._script_programs(2)
    yield
    torch._C._script_programs(was)


def program_of(f):
    return f._c._programs("forward") if isinstance(f, nn.Module) else f._programs()


def uses(f):
    return program_of(f).count("is used")


def same(a, b):
    if isinstance(a, Tensor):
        return a.dtype == b.dtype and a.stride() == b.stride() and torch.equal(a, b)
    return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))


def pointwise(x, y):
    return torch.tanh(x * y + 1) / (x.abs() + 2)


def loop(x, n: int):
    for i in range(n):
        x = x * 0.5 + i if x.size(0) > 2 else x - i
    return x


def pair(x):
    return x.sum(1), x[0]


def listed(x) -> List[Tensor]:
    parts = [x, x + 1]
    parts.append(x.t())
    return parts


def in_place(x):
    y = x * 2
    y += 1
    y[0].mul_(3)
    return F.relu_(y)


def norm(x):
    return F.layer_norm(F.gelu(x) @ x.t(), [x.size(0)]).softmax(-1)


def made(x):
    return torch.zeros(x.size(0), 2, dtype=x.dtype) + x[:, :2] + torch.arange(2)


def view(x):
    return x.transpose(0, 1)[1:]


@pytest.mark.parametrize("function, others", [(pointwise, lambda x: (x + 1,)), (loop, lambda x: (3,)), (pair, lambda x: ()),
                                              (listed, lambda x: ()), (in_place, lambda x: ()), (norm, lambda x: ()),
                                              (made, lambda x: ()), (view, lambda x: ())])
def test_results_have_eager_bits_for_each_geometry(function, others):
    f = torch.jit.script(function)
    torch.manual_seed(0)
    inputs = [torch.randn(3, 4), torch.randn(2, 5), torch.randn(4, 3).t(), torch.randn(3, 4, dtype=torch.float64)]
    for x in inputs:
        for _ in range(4):
            x = x.clone(memory_format=torch.preserve_format).normal_()
            assert same(f(x, *others(x)), function(x, *others(x)))
    assert uses(f) == len(inputs), program_of(f)


def test_numbers_are_part_of_a_call():
    f = torch.jit.script(loop)
    x = torch.randn(3)
    for n in (1, 2, 1, 2, 1, 2, 3):
        assert same(f(x, n), loop(x, n))


class Net(nn.Module):
    scale: float

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(4, 8), nn.Linear(8, 4)
        self.norm, self.drop = nn.BatchNorm1d(4), nn.Dropout(0.5)
        self.scale = 2.0

    def forward(self, x):
        return self.drop(self.norm(self.two(torch.relu(self.one(x))))) * self.scale


def calls(f, *args, n=4):
    with torch.no_grad():
        return [f(*args) for _ in range(n)][-1]


def test_attributes_are_part_of_a_call():
    torch.manual_seed(0)
    net, x = Net().eval(), torch.randn(5, 4)
    f = torch.jit.script(net)
    assert same(calls(f, x), calls(net, x)) and uses(f) > 0
    f.scale = net.scale = 3.0
    assert same(calls(f, x), calls(net, x))
    with torch.no_grad():
        f.one.weight.mul_(2)  # the parameters are shared
        assert same(f(x), net(x)) and same(f(x), net(x))
        f.one.weight.data = net.one.weight.data = torch.randn(8, 4)
    assert same(calls(f, x), calls(net, x))
    f.two.weight = nn.Parameter(torch.randn(4, 8))
    net.two.weight = f.two.weight
    assert same(calls(f, x), calls(net, x))


def test_random_numbers_and_buffers_of_training():
    torch.manual_seed(0)
    net, x = Net(), torch.randn(5, 4)
    f = torch.jit.script(net)
    before = uses(f)  # modules with equal parts have one class, whose functions keep the programs
    calls(f, x)
    assert uses(f) <= before and not same(calls(f, x, n=1), calls(f, x, n=1))
    assert f.norm.num_batches_tracked.item() == 6
    f.eval()
    net.load_state_dict(f.state_dict())
    assert same(calls(f, x), calls(net.eval(), x)) and uses(f) > 0
    f.train()
    calls(f, x)
    assert f.norm.num_batches_tracked.item() == 10


def test_gradients_flow_by_the_steps():
    net, x = Net().eval(), torch.randn(5, 4)
    f = torch.jit.script(net)
    calls(f, x)
    for _ in range(4):
        y = f(x)
        assert y.requires_grad
        y.sum().backward()
    net2 = Net().eval()
    net2.load_state_dict(net.state_dict())
    for _ in range(4):
        net2(x).sum().backward()
    assert all(torch.equal(p.grad, q.grad) for p, q in zip(f.parameters(), net2.parameters()))


def test_elements_steer_by_the_steps():
    @torch.jit.script
    def f(x):
        return x + 1 if bool(x.sum() > 0) else x - 1

    for s in (1, -1, 1, -1, 1, -1):
        x = torch.full((3,), float(s))
        assert same(f(x), x + s)
    assert not uses(f)


@pytest.mark.parametrize("text", ["x * x.item()", "x * float(x)", "x * int(x)", "x + torch.tensor(float(x))", "x * x.nonzero().size(0)",
                                  "x + torch.unique(x).numel()", "x + x[x > 0].size(0)", "x + torch.full((1,), x.item())"])
def test_numbers_from_elements_are_no_constants(text):
    unit = torch.jit.CompilationUnit(f"def f(x):\n    return {text}\n")
    for v in (1.0, 2.0, -3.0, 0.0, 5.0):
        x = torch.tensor([v])
        assert torch.equal(unit.f(x), eval(text, {"x": x, "torch": torch, "float": float})), (text, v)


def test_writes_to_arguments_and_attributes():
    @torch.jit.script
    def f(x):
        x[0] += 1
        return x * 2

    x = torch.zeros(2)
    for i in range(5):
        assert f(x)[0] == 2 * (i + 1)

    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.n = 0
            self.register_buffer("total", torch.zeros(1))

        def forward(self, x):
            self.n += 1
            self.total += x.sum()
            return x + self.n

    m = torch.jit.script(Counter())
    for i in range(5):
        assert m(torch.ones(1))[0] == i + 2
    assert m.total.item() == 5 and m.n == 5


def test_lists_of_the_caller_are_read_again():
    @torch.jit.script
    def f(x, n: List[int]):
        return x + n[0]

    n = [1]
    for i in range(5):
        n[0] = i
        assert f(torch.zeros(1), n).item() == i


def test_errors_are_those_of_the_steps():
    @torch.jit.script
    def f(x, i):
        return F.embedding(i, x) * 2

    x, good = torch.arange(4.).reshape(4, 1), torch.tensor([1, 2])
    for _ in range(4):
        f(x, good)
    assert uses(f) == 1
    with pytest.raises(RuntimeError, match="(?s)The following operation failed in the TorchScript interpreter.*index out of range in self"):
        f(x, torch.tensor([1, 9]))
    assert f(x, good).tolist() == [[2], [4]]
    with pytest.raises(RuntimeError):
        f(x, torch.tensor([0.5]))


def test_the_same_tensor_twice():
    f = torch.jit.script(pointwise)
    x, y = torch.randn(4), torch.randn(4)
    for a, b in ((x, x), (x, y), (x, x), (y, x), (x, y), (y, y), (x, y)):
        assert same(f(a, b), pointwise(a, b))


def test_modes_of_the_thread():
    f = torch.jit.script(pointwise)
    x = torch.randn(4)
    for _ in range(3):
        f(x, x)
    with torch.inference_mode():
        assert all(f(x, x).is_inference() for _ in range(4))
    assert not f(x, x).is_inference()
    g = torch.jit.script(made)
    calls(g, torch.ones(2, 2))
    torch.set_default_dtype(torch.float64)
    try:
        assert all(f(x, x).dtype == torch.float32 for _ in range(3))
    finally:
        torch.set_default_dtype(torch.float32)
    with torch.autocast("cpu"):
        assert same(calls(torch.jit.script(norm), torch.ones(2, 2)), norm(torch.ones(2, 2)))
    z = torch.randn(4, requires_grad=True)
    assert all(f(z, z).requires_grad for _ in range(3))
    with torch.no_grad():
        assert not any(f(z, z).requires_grad for _ in range(3))


def test_attributes_that_need_a_gradient_or_another_layout():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.plain = torch.randn(3)
            self.odd = nn.Parameter(torch.randn(3))

        def forward(self, x):
            return x * self.plain + self.odd

    m = Two()
    f, x = torch.jit.script(m), torch.randn(3)
    for _ in range(5):
        assert same(f(x), m(x)) and f(x).requires_grad
    assert not uses(f) and same(calls(f, x), m(x)) and uses(f)


def test_programs_hold_no_weights():
    f = torch.jit.script(Net().eval())
    calls(f, torch.randn(2, 4))
    assert uses(f) > 0
    gone = weakref.ref(f.one.weight)
    del f
    gc.collect()
    assert gone() is None


def test_frozen_modules_have_constants():
    net, x = Net().eval(), torch.randn(3, 4)
    f = torch.jit.freeze(torch.jit.script(net))
    assert same(calls(f, x), calls(torch.jit.script(net), x)) and uses(f) == 1


def test_results_may_be_arguments_or_views_of_them():
    @torch.jit.script
    def f(x, y) -> Tuple[Tensor, Tensor, Tensor]:
        return x, y[0], x + y

    x, y = torch.randn(2), torch.randn(2, 2)
    for _ in range(4):
        a, b, c = f(x, y)
        assert a is x or a.data_ptr() == x.data_ptr()
        assert b.data_ptr() == y.data_ptr() and same(c, x + y)
    b.fill_(7)
    assert y[0, 0] == 7 and same(f(x, y)[2], x + y)


def test_threads_share_a_program():
    torch.manual_seed(0)
    net = Net().eval()
    f, x = torch.jit.script(net), torch.randn(6, 4)
    want, wrong = calls(net, x), []

    def work(k):
        own = x if k % 2 else x[:k + 2]
        with torch.no_grad():
            wrong.extend(k for _ in range(50) if not torch.equal(f(own), want[:len(own)]))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_the_faster_way_is_chosen_and_may_be_forbidden():
    torch._C._script_programs(1)
    f = torch.jit.script(pointwise)
    x = torch.randn(1000)
    want = pointwise(x, x)
    for _ in range(600):
        assert torch.equal(f(x, x), want)
    assert program_of(f).startswith(("is used", "is left"))
    assert "group {" in program_of(f)
    with torch.jit.optimized_execution(False):
        assert same(f(x, x), want) and torch._C._script_programs_here(0) == 0
    assert torch._C._script_programs_here(-1) == -1 and torch._C._script_programs(1) == 1
    with pytest.raises(ValueError, match="a mode is 0, 1 or 2, not 5"):
        torch._C._script_programs(5)
    with pytest.raises(ValueError, match="a thread's mode is -1, 0, 1 or 2, not -2"):
        torch._C._script_programs_here(-2)


def test_programs_are_forbidden_to_one_thread():
    """Two blocks of two threads overlap; calls of a third one have programs meanwhile, and all have afterwards."""
    x, seen = torch.randn(5), {}

    def made_in_a_program():
        def own(x):  # a function of this call alone
            return torch.tanh(x * x + 1) / (x.abs() + 2)
        f = torch.jit.script(own)
        for _ in range(3):
            assert same(f(x), own(x))
        return "group {" in program_of(f)

    first, second = threading.Event(), threading.Event()

    def one():
        with torch.jit.optimized_execution(False):
            first.set()
            assert second.wait(60)
            seen["one"] = made_in_a_program()

    def two():
        assert first.wait(60)
        with torch.jit.optimized_execution(False):
            second.set()
            threads[0].join(60)
            seen["two"] = made_in_a_program()
            with torch.jit.optimized_execution(True):
                seen["inside"] = torch._C._script_programs_here(1)
        seen["behind"] = made_in_a_program()

    threads = [threading.Thread(target=one), threading.Thread(target=two)]
    for t in threads:
        t.start()
    assert second.wait(60)
    seen["third"] = made_in_a_program()
    for t in threads:
        t.join(60)
    assert seen == {"one": False, "two": False, "inside": 1, "behind": True, "third": True}
    assert torch._C._script_programs(2) == 2
