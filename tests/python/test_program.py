"""Programs: the bits of the graph run node by node, however they reuse memory."""
import random
import threading

import pytest

import cresset as torch
import cresset.nn.functional as F
from cresset import _C, nn

from test_graph import PROGRAMS, record, same
from test_groups import BARRIER, BINARY, FEW, FINE, UNARY


@pytest.fixture(autouse=True)
def settings():
    threads = torch.get_num_threads()
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)


def agree(graph, inputs, program=None):
    """Runs the graph and the program on copies of the inputs, and compares results and written inputs."""
    program = program or graph.program()
    one, other = [x.clone() for x in inputs], [x.clone() for x in inputs]
    with torch.no_grad():
        want = graph.run(one)
        got = program.run(other)
    assert len(want) == len(got)
    for a, b in zip([*want, *one], [*got, *other]):
        assert (a is None and b is None) or (same(a, b) and a.stride() == b.stride()), f"{graph}\n{program}"
    return program


def parsed(*lines, outputs, inputs="%x: float32[6, 8], %y: float32[6, 8]"):
    return _C.RecordedGraph(f"graph({inputs}) {{\n" + "\n".join(lines) + f"\nreturn {outputs}\n}}")


def two():
    return [torch.randn(6, 8), torch.randn(6, 8)]


@pytest.mark.parametrize("parts", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_recorded_programs_keep_their_bits(name, parts):
    x, y = torch.randn(4, 4), torch.randn(4, 4)
    graph, _ = record(PROGRAMS[name], x.clone(), y.clone(), parts=parts)
    for threads in (1, 2):
        torch.set_num_threads(threads)
        program = agree(graph, [x, y])
        agree(graph, [torch.randn(4, 4), torch.randn(4, 4)], program)
    program.wait(FINE)
    agree(graph, [x, y], program)


# --- lifetimes and reuse ---

def test_a_result_is_written_over_a_value_that_dies():
    graph = parsed("%a: float32[6, 8] = logcumsumexp(%x, 1)", "%b: float32[6, 8] = exp(%a)",
                   "%c: float32[6, 8] = mul(%b, %y)", "%d: float32[6, 8] = logcumsumexp(%c, 1)",
                   "%e: float32[6, 8] = neg(%d)", outputs="%e")
    program = agree(graph, two())
    assert "group[exp mul](%a, %y) in %a" in str(program) and "neg(%d) in %d" in str(program)
    assert program.peak == 2 * 6 * 8 * 4


def test_inputs_constants_and_outputs_are_not_written_over():
    graph = parsed("%n: float32[6, 8] = neg(%x)", "%s: float32[6, 8] = logcumsumexp(%n, 1)",
                   "%e: float32[6, 8] = exp(%s)", "%t: float32[6, 8] = logcumsumexp(%e, 1)",
                   outputs="%s, %t, %s, %x")
    inputs = two()
    program = agree(graph, inputs)
    assert " in %" not in str(program)
    out = program.run(inputs)
    assert out[0] is out[2] and out[3] is inputs[0]


def test_a_storage_dies_with_its_last_view():
    graph = parsed("%a: float32[6, 8] = logcumsumexp(%x, 1)", "%v: float32[8, 6] by [1, 8] = t(%a)",
                   "%b: float32[6, 8] = neg(%a)", "%c: float32[8, 6] = logcumsumexp(%v, 0)", outputs="%b, %c")
    program = agree(graph, two())
    assert "neg(%a) in" not in str(program)  # %v is still a view of it
    assert program.peak == 3 * 6 * 8 * 4


def test_the_peak_counts_tensors_that_are_alive_at_one_step():
    lines = ["%v0: float32[6, 8] = logcumsumexp(%x, 1)"]
    lines += [f"%v{i}: float32[6, 8] = logcumsumexp(%v{i - 1}, 1)" for i in range(1, 20)]
    assert agree(parsed(*lines, outputs="%v19"), two()).peak == 2 * 6 * 8 * 4
    assert agree(parsed(*lines, outputs="%v19, %v3, %v7"), two()).peak == 4 * 6 * 8 * 4


def test_a_run_holds_at_most_the_peak():
    graph, _ = record(lambda x, w: ((x @ w).relu() @ w).softmax(-1).exp() @ w, torch.randn(256, 256),
                      torch.randn(256, 256))
    program = graph.program()
    inputs = [torch.randn(256, 256), torch.randn(256, 256)]
    program.run(inputs)
    assert 256 * 256 * 4 * 2 <= program.peak <= 256 * 256 * 4 * 3


# --- writes ---

def test_writes_keep_their_places():
    graph = parsed("%a: float32[6, 8] = add(%x, %y)", "%b: float32[6, 8] = mul_(%x, %y)",
                   "%c: float32[6, 8] = add(%x, %y)", "%v: float32[3, 8] = slice.Tensor(%a, start=1, end=4)",
                   "%w: float32[3, 8] = zero_(%v)", "%d: float32[6, 8] = exp(%a)", outputs="%c, %d, %b")
    inputs = two()
    agree(graph, inputs)
    assert graph.program().run(inputs)[2] is inputs[0]


def test_writing_counts_a_version_as_eager_does():
    graph = parsed("%b: float32[6, 8] = mul_(%x, %y)", outputs="%b")
    x, y = two()
    graph.program().run([x, y])
    assert x._version == 1
    leaf = torch.randn(6, 8, requires_grad=True)
    graph.program().run([leaf, y])  # as under no_grad
    assert leaf._version == 1 and leaf.grad_fn is None


def test_an_output_that_views_an_input_has_its_base():
    graph, _ = record(lambda x: x.t()[1:], torch.randn(4, 4))
    x = torch.randn(4, 4)
    out, = graph.program().run([x])
    assert out._base is x
    out.zero_()
    assert x[:, 1:].eq(0).all() and not x[:, 0].eq(0).any()


# --- the rest ---

def test_choices_run_one_branch():
    graph = parsed("%p: bool[] = any(%y)", "%a: float32[6, 8] = logcumsumexp(%x, 1)",
                   "%r: float32[6, 8], %q: float32[6, 8] = if %p {", "  %b: float32[6, 8] = exp(%a)",
                   "  %c: float32[6, 8] = neg(%b)", "  return %c, %x", "} else {", "  %d: float32[6, 8] = mul(%a, %a)",
                   "  return %d, %a", "}", "%z: float32[6, 8] = sub(%r, %q)", outputs="%r, %z")
    program = agree(graph, two())
    agree(graph, [torch.randn(6, 8), torch.zeros(6, 8)], program)


def test_what_is_copied_back_is_computed_in_the_input():
    """Where one elementwise step computes it from the input, and nothing that the step reads is written before."""
    both = "%x: float32[6, 8], %y: float32[6, 8]"
    lines = ["%m: float32[6, 8] = mul(%x, 0.5)", "%n: float32[6, 8] = add(%m, %y)", "%s: float32[6, 8] = sin(%y)",
             "%t: float32[8, 6] by [1, 8] = transpose.int(%x, 0, 1)", "%sum: float32[8] = sum(%x, [0])"]
    x, y = torch.randn(6, 8), torch.randn(6, 8)

    def program(*back, outputs="%sum", more=()):
        graph = parsed(*lines, *more, *back, inputs=both, outputs=outputs)
        return agree(graph, [x, y], graph.program(_C._HOW_APART))

    text = str(program("%a: float32[6, 8] = copy_(%x, %n)"))
    assert "group[mul add](%x, %y) in %x" in text and text.index("sum(") < text.index("group[mul add]")
    text = str(program("%a: float32[6, 8] = copy_(%x, %n)", "%b: float32[6, 8] = copy_(%y, %s)"))
    assert "in %x" in text and "sin(%y) in %y" in text
    # another reader of the result; a view of the input; an operand that is written before; another input
    assert "in %x" not in str(program("%a: float32[6, 8] = copy_(%x, %n)", outputs="%n"))
    more = ["%v: float32[48] = view(%x, [48])", "%w: float32[6, 8] = view(%v, [6, 8])", "%o: float32[6, 8] = add(%x, %w)"]
    assert "add(%x, %w) in" not in str(program("%a: float32[6, 8] = copy_(%x, %o)", more=more))
    assert "in %x" not in str(program("%b: float32[6, 8] = copy_(%y, %s)", "%a: float32[6, 8] = copy_(%x, %n)"))
    assert "in %" not in str(program("%a: float32[6, 8] = copy_(%x, %s)"))


def test_inputs_that_share_memory_are_not_written_before_they_are_read():
    graph = parsed("%m: float32[6, 8] = mul(%x, 0.5)", "%n: float32[6, 8] = add(%m, %y)", "%a: float32[6, 8] = copy_(%x, %n)", outputs="%a")
    whole = torch.randn(7, 8)
    want = whole[:6] * 0.5 + whole[1:]
    version = whole._version
    with torch.no_grad():
        made, = graph.program().run([whole[:6], whole[1:]])
    assert same(made, want) and same(whole[:6], want) and whole._version > version


@pytest.mark.parametrize("first, second", [("%x", "%y"), ("%y", "%x")])
def test_no_step_moves_behind_a_copy_unless_inputs_are_known_to_be_apart(first, second):
    graph = parsed("%a: float32[6, 8] = mul(%x, 0.5)", "%b: float32[6, 8] = sin(%y)", "%c: float32[8] = sum(%z, [0])",
                   f"%p: float32[6, 8] = copy_({first}, {'%a' if first == '%x' else '%b'})",
                   f"%q: float32[6, 8] = copy_({second}, {'%a' if second == '%x' else '%b'})",
                   inputs="%x: float32[6, 8], %y: float32[6, 8], %z: float32[6, 8]", outputs="%c")
    apart = agree(graph, [*two(), torch.randn(6, 8)], graph.program(_C._HOW_APART))
    assert f"in {first}" in str(apart) and f"in {second}" in str(apart)
    program = graph.program()
    assert f"in {first}" in str(program) and f"in {second}" not in str(program)
    for at in (0, 8, 40):
        one, other = (torch.randn(200, generator=torch.Generator().manual_seed(at)) for _ in range(2))
        with torch.no_grad():
            want, = graph.run([one[k:k + 48].view(6, 8) for k in (0, at, 2 * at)])
            made, = program.run([other[k:k + 48].view(6, 8) for k in (0, at, 2 * at)])
        assert same(made, want) and same(one, other)


def test_lists_of_tensors_in_and_out():
    graph, _ = record(lambda x, y: torch.cat([t * 2 for t in x.split(2)] + [y, x.chunk(3)[1]]).sum(1), *two())
    agree(graph, two())


def test_inputs_of_another_kind_are_refused():
    program = record(lambda x: (x * 2).exp(), torch.randn(4))[0].program()
    for wrong in (torch.randn(5), torch.randn(4, dtype=torch.float64), torch.randn(8)[::2], torch.randn(4, 1)):
        with pytest.raises(RuntimeError, match="%.* is not what the program was made for"):
            program.run([wrong])
    with pytest.raises(TypeError, match="the program takes 1 inputs, not 2"):
        program.run([torch.randn(4), torch.randn(4)])
    assert program.run([torch.randn(4, requires_grad=True)])[0].grad_fn is None


def test_an_error_in_the_middle_leaves_nothing_behind():
    graph = parsed("%a = softmax(%x, -1)", "%i: int64[1] = constant(9)", "%b = index_select(%a, 0, %i)",
                   outputs="%b")
    program = graph.program()
    for _ in range(3):
        with pytest.raises(IndexError):
            program.run(two())


def test_a_training_step_keeps_its_bits():
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                        nn.Linear(16, 3))
    weights = [p.detach().clone() for p in net.parameters()]

    def step(x, t, *params):
        leaves = [p.detach().requires_grad_() for p in params]
        h = F.max_pool2d(F.conv2d(x, leaves[0], leaves[1]).relu(), 2).flatten(1)
        loss = F.cross_entropy(F.linear(h, leaves[4], leaves[5]), t)
        with torch.no_grad():
            grads = torch.autograd.grad(loss, [leaves[0], leaves[1], leaves[4], leaves[5]])
            return (loss, *(g * 2 for g in grads))
    inputs = [torch.randn(5, 1, 6, 6), torch.randint(0, 3, (5,)), *weights]
    graph, want = record(step, *inputs, parts=True)
    program = graph.program()
    for _ in range(2):
        assert all(torch.equal(a, b) for a, b in zip(program.run(inputs), want))
        program.wait(FINE)


VIEWS = [lambda x: x.t().contiguous().t(), lambda x: x.flip(0), lambda x: x.t().t(),
         lambda x: x.contiguous().view(-1).view(9, 9),
         lambda x: x[:, 1:2].expand(9, 9), lambda x: x.reshape(27, 3).reshape(9, 9), lambda x: x.transpose(0, 1),
         lambda x: x.contiguous(), lambda x: torch.cat([x[4:], x[:4]]), lambda x: torch.stack(x.unbind(1)),
         lambda x: x.narrow(0, 0, 9), lambda x: x.detach()]
WRITES = [lambda x: x.clone().add_(1), lambda x: x.clone().t_(), lambda x: _zero_row(x.clone()),
          lambda x: x.clone().mul_(x), lambda x: x.neg().relu_()]


def _zero_row(x):
    x[1].zero_()
    return x


def random_function(r):
    def kind():
        return r.choices([BINARY, UNARY, BARRIER, VIEWS, WRITES], [4, 5, 2, 3, 1])[0]
    plan = [(r.choice(kind()), r.randrange(99), r.randrange(99)) for _ in range(r.randrange(3, 24))]
    outputs = [r.randrange(99) for _ in range(3)]

    def f(*inputs):
        values = list(inputs)
        for fn, i, k in plan:
            a, b = values[-1 - i % len(values)], values[-1 - k % len(values)]
            values.append(fn(a, b) if fn in BINARY else fn(a.expand(9, 9)))
        return tuple(values[len(inputs):][i % len(plan)] for i in outputs)
    return f


def random_inputs():
    return [torch.randn(9, 9), torch.randn(9, 9), torch.randn(9), torch.randn(9, 1), torch.randn(())]


@pytest.mark.parametrize("seed", range(6))
def test_random_programs_keep_their_bits(seed):
    r = random.Random(seed)
    for _ in range(25):
        graph, _ = record(random_function(r), *random_inputs(), parts=r.random() < 0.5)
        program = agree(graph, random_inputs())
        agree(graph, random_inputs(), program)


def test_random_programs_keep_their_bits_by_native_code():
    r = random.Random(100)
    for _ in range(4):
        graph, _ = record(random_function(r), *random_inputs(), parts=True)
        program = graph.program()
        assert program.wait(FINE) == program.groups
        agree(graph, random_inputs(), program)


def test_several_threads_run_one_program():
    r = random.Random(7)
    for _ in range(3):
        graph, _ = record(random_function(r), *random_inputs(), parts=True)
        program, wrong = graph.program(), []

        def work():
            for _ in range(20):
                inputs = random_inputs()
                with torch.no_grad():
                    ok = all(same(a, b) for a, b in zip(graph.run([x.clone() for x in inputs]), program.run(inputs)))
                if not ok:
                    wrong.append(inputs)
        workers = [threading.Thread(target=work) for _ in range(4)]
        [w.start() for w in workers]
        [w.join() for w in workers]
        assert not wrong


def test_a_long_program_has_few_slots():
    lines = ["%v0: float32[8] = logcumsumexp(%x, 0)"] + [f"%v{i}: float32[8] = logcumsumexp(%v{i - 1}, 0)" for i in range(1, 5000)]
    graph = parsed(*lines, outputs="%v4999", inputs="%x: float32[8]")
    program = graph.program()
    assert str(program).rstrip().rsplit("\n", 1)[1].startswith("3 slots")
    agree(graph, [torch.randn(8)], program)


# --- convolutions ---

class Block(nn.Module):
    def __init__(self, channels, kernel=3, bias=False):
        super().__init__()
        self.a = nn.Conv2d(channels, channels, kernel, padding=kernel // 2, bias=bias)
        self.b = nn.BatchNorm2d(channels)
        self.c = nn.Conv2d(channels, channels, 1, bias=bias)
        self.d = nn.BatchNorm2d(channels)

    def forward(self, x):
        return F.relu(x + self.d(self.c(F.relu(self.b(self.a(x))))))


def trained(module):
    """With statistics that are not those of a new module."""
    for m in module.modules():
        if isinstance(m, nn.BatchNorm2d):
            m.running_mean.normal_()
            m.running_var.uniform_(0.5, 2)
            nn.init.normal_(m.weight)
            nn.init.normal_(m.bias)
    return module.eval()


def convolutional():
    return trained(nn.Sequential(nn.Conv2d(3, 32, 5, stride=2, padding=2), nn.BatchNorm2d(32), nn.ReLU(), Block(32),
                                 nn.MaxPool2d(2), Block(32, bias=True), nn.Conv2d(32, 20, 3), nn.GELU(),
                                 nn.Conv2d(20, 24, 1), nn.Sigmoid(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                                 nn.Linear(24, 5)))


def lifted(module, x):
    """The recording of a module whose parameters and buffers are inputs, and these."""
    tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    names = list(tensors)

    def call(x, *values):
        return torch.func.functional_call(module, dict(zip(names, values)), (x,))
    values = [t.detach() for t in tensors.values()]
    with torch.no_grad():
        return record(call, x, *values, parts=True)[0], values


@pytest.mark.parametrize("threads", [1, 2])
def test_convolutions_keep_their_blocks_and_bits(threads):
    torch.set_num_threads(threads)
    module, x = convolutional(), torch.randn(2, 3, 37, 40)
    with torch.no_grad():
        graph, want = record(module, x, parts=True)
    program = graph.program()
    for wait in (FEW, FINE):
        program.wait(wait)
        assert torch.equal(program.run([x])[0], want)
    torch.set_num_threads(3 - threads)
    with torch.no_grad():
        y = torch.randn(2, 3, 37, 40)
        assert torch.equal(program.run([y])[0], module(y))
        y[0, 0, 0, 0], y[1, 2, 5, 5] = float("nan"), float("inf")
        assert same(program.run([y])[0], module(y))


def test_changed_weights_are_packed_again():
    module, x = convolutional(), torch.randn(1, 3, 24, 24)
    graph, values = lifted(module, x)
    program = graph.program()

    def check():
        with torch.no_grad():
            assert torch.equal(program.run([x, *values])[0], graph.run([x, *values])[0])
    weight = values[0]
    check()
    for change in (lambda: weight.mul_(2), lambda: weight.data.add_(1), lambda: weight.numpy().__imul__(0.5),
                   lambda: torch.from_dlpack(weight).sub_(1), lambda: weight[1:2].zero_()):
        change()
        check()
        check()
    kept = weight.data
    for _ in range(3):
        kept.mul_(1.5)  # counts no version of weight
        check()
    values[0] = weight * 2
    check()
    values[0] = torch.empty(5, 5, 32, 3).permute(2, 3, 0, 1).copy_(weight)
    with pytest.raises(RuntimeError, match="is not what the program was made for"):
        program.run([x, *values])


def test_the_step_before_the_plain_reader_takes_blocks_apart():
    module, x = trained(nn.Sequential(nn.Conv2d(16, 32, 1), nn.ReLU(), nn.Conv2d(32, 16, 1))), torch.randn(1, 16, 8, 8)
    with torch.no_grad():
        graph, want = record(module, x, parts=True)
        text = str(graph.program())
    assert torch.equal(graph.program().run([x])[0], want)
    if "unblock" in text:  # without oneDNN there are no blocks
        assert text.count("unblock") == 1 and "blocked_relu" in text


def test_threads_share_packed_weights():
    module, x = convolutional(), torch.randn(1, 3, 24, 24)
    graph, values = lifted(module, x)
    program, wrong = graph.program(), []
    torch.set_num_threads(1)

    def work(scale):
        mine = [v * scale if v.dim() == 4 else v for v in values]
        with torch.no_grad():
            want = graph.run([x, *mine])[0]
            for i in range(10):
                wrong.extend([scale] * (not torch.equal(program.run([x, *mine])[0], want)))
    workers = [threading.Thread(target=work, args=(s,)) for s in (1, 2, 3)]
    [w.start() for w in workers]
    [w.join() for w in workers]
    assert not wrong


@pytest.mark.parametrize("pool", [nn.MaxPool2d(3, 2, 1), nn.MaxPool2d(2),
                                  nn.MaxPool2d((3, 2), (1, 3), (1, 0), dilation=2),
                                  nn.MaxPool2d(2, ceil_mode=True), nn.AvgPool2d(2)])
def test_pools_between_convolutions(pool):
    net = trained(nn.Sequential(nn.Conv2d(16, 32, 3), pool, nn.Conv2d(32, 16, 1)))
    x = torch.randn(2, 16, 15, 17)
    x[0, 0, 3:5, 4], x[1, 3, 8, 8] = float("nan"), float("inf")
    with torch.no_grad():
        graph, want = record(net, x, parts=True)
        program = graph.program()
    assert same(program.run([x])[0], want)
    x.copy_(torch.randn_like(x).round())  # zeros of both signs
    with torch.no_grad():
        assert same(program.run([x])[0], net(x))


# --- products ---

@pytest.mark.parametrize("threads", [1, 2])
def test_products_with_weights_keep_their_bits(threads):
    torch.set_num_threads(threads)

    def f(x, w, v, b, big):
        h = F.linear(x, w, b).relu()
        y = x.view(2, -1, 96)
        return h @ v.t(), torch.addmm(b, x, v, alpha=0.5), y @ v, F.linear(y, w), x @ w.t(), x @ big
    inputs = [torch.randn(256, 96), torch.randn(240, 96), torch.randn(96, 240), torch.randn(240), torch.randn(96, 256)]
    graph, _ = record(f, *inputs, parts=True)
    program = graph.program()
    for change in (lambda: None, lambda: inputs[1].mul_(2), lambda: inputs[2].data.neg_(), lambda: inputs[4].add_(1),
                   lambda: inputs.__setitem__(1, inputs[1] + 1), lambda: inputs[2].numpy().__imul__(3),
                   *[lambda: inputs[1].mul_(0.5)] * 4):
        change()
        for _ in range(2):
            assert all(torch.equal(a, b) for a, b in zip(program.run(inputs), graph.run(inputs)))


def test_odd_channels_and_groups():
    for module in (nn.Conv2d(6, 9, 3, groups=3), nn.Conv2d(5, 7, 3), nn.Conv2d(32, 32, 3, groups=32),
                   nn.Conv2d(1, 8, 3),
                   nn.Conv2d(16, 16, 3, dilation=2, stride=2), nn.ConvTranspose2d(4, 4, 3)):
        net = trained(nn.Sequential(module, nn.BatchNorm2d(module.out_channels), nn.ReLU()))
        x = torch.randn(2, module.in_channels, 11, 12)
        with torch.no_grad():
            graph, want = record(net, x, parts=True)
        assert torch.equal(graph.program().run([x])[0], want)
    net, x = trained(nn.Sequential(nn.Conv1d(8, 16, 3), nn.ReLU(), nn.Conv1d(16, 8, 3))), torch.randn(2, 8, 20)
    with torch.no_grad():
        graph, want = record(net, x, parts=True)
    assert torch.equal(graph.program().run([x])[0], want)
