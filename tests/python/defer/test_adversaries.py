"""Random programs of hard statements: deferred, compiled and eager runs are the same bit for bit.

A program is a function of 5 to 11 statements over a pool of matrices, with state that its calls and the code between
them change.  Results, arguments, gradients, state, printed text and errors of five calls are compared.
"""
import collections
import contextlib
import copy
import functools
import io
import linecache
import pickle
import random
import re
import threading
import warnings
import weakref

import numpy as np
import pytest

import cresset as torch
from cresset.nn import functional as F

pytestmark = pytest.mark.records("compares with eager runs")

# {a}, {b}: matrices of the pool; {n}: a new one; {k}: a small number; {i}: a row.  By theme.
STATEMENTS = {
    "aliases": [
        "v = {a}[1:]; v.mul_({k}); {n} = {a} + 1",
        "v = {a}.view(-1)[::2]; {a}.add_({k}); {n} = {a} * v.sum()",
        "{n} = {a}.t(); {n}[{i}] = {k}.0; {n} = {n}.t()",
        "{n} = {a}.detach(); {n}[{i}] += {k}",
        "{a}.data.mul_({k}); {n} = {a} - {b}",
        "{n} = {a}.clone(); {n}[:, 1:3] = {b}[:, :2]; {n}.diagonal().fill_({k})",
        "{n} = torch.empty_like({a}); torch.add({a}.detach(), {b}.detach(), out={n}); {n}.sub_({a}.detach())",
        "{n} = {a}; {n} *= {k}",
        "u, w = {a}.chunk(2, 1); {n} = torch.cat([w, u], 1); w.neg_()",
        "{n} = {a}.unsqueeze(0).expand(2, -1, -1)[1]; e = {a}.exp(); e.view(-1)[0] = {k}; {n} = {n} * e",
        "{n} = {a}.as_strided({a}.shape, {a}.stride()); {n}.add_({b})",
        "w = {a}.clone(); w.copy_({b}); w[0], w[1] = w[1].clone(), w[0].clone(); {n} = w",
        "{n} = {a}.squeeze(0).movedim(0, 1).movedim(1, 0); {a}.zero_()",
        "w = {a}.detach().clone(); r = w.unfold(1, 2, 1); w[0].fill_({k}); {n} = {a} + r.sum()",
    ],
    "state": [
        "G['n'] += 1; {n} = {a} * G['n']",
        "G['list'].append({a}.detach().sum()); {n} = {a} + sum(G['list'])",
        "K.scale = {a}.detach().mean(); {n} = {b} * K.scale",
        "{n} = {a} * getattr(K, 'sca' + 'le'); K.count = K.count + 1; {n} = {n} + K.count",
        "G['last'], {n} = {a}, {b} + (0 if G['last'] is None else G['last'].sum())",
        "BUFFER.add_({a}.detach().sum()); {n} = {a} + BUFFER",
        "BUFFER.mul_(0.5); {n} = {a} * BUFFER.clone(); BUFFER[0] = {k}",
        "{n} = {a} * len(G); G[{k}] = G.pop({k}, 0)",
        "G.setdefault('cache', {{}}); {n} = G['cache'].setdefault({i}, {a}.detach()) + {b}",
        "{n} = ({a} * WEIGHT).tanh() + WEIGHT[{i}].sum()",
        "with torch.no_grad(): WEIGHT.add_({a}.sum(), alpha=0.01)\n{n} = {a} @ WEIGHT.t() @ WEIGHT",
        "{n} = LAYER({a}); LAYER.calls = getattr(LAYER, 'calls', 0) + 1",
        "setattr(K, 'w%d' % {k}, {a}.detach()); {n} = {b} + K.__dict__['w{k}']",
    ],
    "closures": [
        "c = {k}\ndef g(y):\n    nonlocal_c[0] += 1\n    return y * nonlocal_c[0] + c\nnonlocal_c = [0]\n{n} = g({a}) + g({b})\nc += 1\n{n} = g({n})",
        "fs = [lambda y, j=j: y * j for j in range(3)]; {n} = fs[{i}]({a}) + fs[-1]({b})",
        "fs = [lambda y: y * j for j in range(3)]; {n} = fs[0]({a})",
        "{n} = functools.partial(torch.add, alpha={k})({a}, {b})",
        "{n} = functools.reduce(lambda p, q: p * 0.5 + q, [{a}, {b}, {a}.abs()])",
        "HOOKS.append(lambda y: y + {k}); {n} = {a}\nfor h in HOOKS[-3:]: {n} = h({n})",
    ],
    "generators": [
        "def rows(m):\n    for r in m:\n        got = yield r * {k}\n        if got: yield r\n{n} = torch.stack(list(rows({a})))",
        "def acc():\n    total = 0\n    while True:\n        y = yield total\n        total = total + y.sum()\nit = acc(); next(it); it.send({a}); {n} = {b} + it.send({b})",
        "{n} = {a} * next(COUNTER)",
        "{n} = torch.stack([r + i for i, r in enumerate({a})]); z = list(zip({a}, {b})); {n} = {n} + z[0][1]",
        "{n} = {a} + sum(float(x) for x in {b}.detach()[0] if x > 0)",
    ],
    "errors": [
        "try:\n    {n} = {a}[torch.tensor([0, {k} * 3])]\nexcept IndexError as e:\n    print(type(e).__name__, e); {n} = {a}",
        "try:\n    {a}.detach()[0].add_(1); {n} = {a} @ {b}\nexcept RuntimeError as e:\n    print(str(e)[:60]); {n} = {a} + {b}",
        "try:\n    {n} = torch.linalg.cholesky({a}.detach()[:3, :3])\nexcept Exception as e:\n    print(type(e).__name__)\n{n} = {a} * 2",
        "try:\n    w = {a}.clone(); w.mul_({k}); F.one_hot(w.detach().long())\nexcept Exception as e:\n    print(type(e).__name__, e)\nfinally:\n    {n} = w",
        "if G['n'] % 4 == 3: raise ValueError(f'{{float({a}.detach().sum()):.3f}}')\nG['n'] += 1; {n} = {a}",
        "with contextlib.suppress(ZeroDivisionError):\n    {a}.detach().mul_(3); 1 // (G['n'] % 2); G['n'] += 3\n{n} = {a} - 1",
        "y = {a}.exp(); s = y.sum(); y.add_(1)\ntry: s.backward()\nexcept RuntimeError as e: print(str(e)[:80])\n{n} = y",
        "try:\n    {n} = F.embedding(torch.tensor([[0, {k}]]), WEIGHT.detach()[:2]).sum() + {a}\nexcept IndexError as e: print(e); {n} = {a}",
        "try: {n} = F.nll_loss({a}.log_softmax(1), torch.arange({a}.size(0)) * {k}) + {b}\nexcept Exception as e: print(e); {n} = {b}",
        "{n} = {a} + 1\nassert {n}.detach().sum() > -40, 'too small'",
    ],
    "branches": [
        "if {a}.sum() > 0: {n} = {a} + {k}\nelse: {n} = {a} - {b}",
        "{n} = {a}\nwhile float({n}.detach().abs().max()) > 2: {n} = {n} / {k}1",
        "{n} = {a}[int({b}.detach()[0].argmax()) % {a}.size(0)] * {a}",
        "{n} = {b} * {a}.detach().sum().item()",
        "{n} = {a} * (1 if torch.equal({a}, {b}) else {k}) * bool(torch.any({b} > 1))",
        "m = {a}.detach() > 0; {n} = {b} + {a}[m].sum() + int(m.sum())",
        "z = torch.nonzero({a}.detach() > 0.3); {n} = {a} * len(z); {n} = {n} + z.sum()",
        "for r in {a}:\n    if r[0] > 0: break\n{n} = {b} + r",
        "{n} = max([{a}, {b}], key=lambda y: float(y.detach().norm()))",
        "{n} = {a} + torch.unique({b}.detach().round()).numel()",
    ],
    "dicts": [
        "d = {{'b': {a}, 'a': {b}}}; d['c'] = d.pop('b'); {n} = sum(v * i for i, (k, v) in enumerate(d.items()))",
        "d = collections.OrderedDict(x={a}, y={b}); d.move_to_end('x'); {n} = next(iter(d.values())) - d['x']",
        "d = {{float(v): v for v in {a}.detach()[0]}}; {n} = {b} + d[max(d)]; print(sorted(round(k, 3) for k in d))",
        "d = {{t: i for i, t in enumerate([{a}, {b}])}}; {n} = {a} * d[{b}]",
        "d = collections.defaultdict(list)\nfor r in {a}: d[bool(r.detach().sum() > 0)].append(r)\n{n} = {b} + sum(len(v) * k for k, v in d.items())",
        "{n} = torch.stack([v for _, v in sorted({{3 - i: r for i, r in enumerate({a})}}.items(), key=lambda p: p[0])])",
    ],
    "random": [
        "{n} = {a} + torch.rand({a}.shape)",
        "{n} = F.dropout({a}, 0.5) + torch.randn_like({b})",
        "torch.manual_seed({k}); {n} = {a} * torch.rand(())",
        "s = torch.get_rng_state(); {n} = {a} + torch.rand(1); torch.set_rng_state(s); {n} = {n} - torch.rand(1)",
        "{n} = {a} * random.random() + {b} * np.random.rand()",
        "g = torch.Generator().manual_seed({k}); {n} = {a} + torch.randn({a}.shape, generator=g)",
        "{n} = {a}[torch.randperm({a}.size(0))]",
        "{n} = {a}.clone().detach().uniform_() + torch.bernoulli({b}.detach().sigmoid())",
        "with torch.random.fork_rng(): {n} = {a} + torch.rand(4)",
        "{n} = torch.multinomial({a}.detach().softmax(1), 2).sum() + {b}",
    ],
    "gradients": [
        "if {a}.requires_grad: {a}.register_hook(lambda g: g * {k})\n{n} = {a} * {a}",
        "h = LAYER.register_forward_hook(lambda m, i, o: o * {k}); {n} = LAYER({a}); h.remove()",
        "with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t - {k}): {n} = {a} * {b}",
        "w = {a}.detach().requires_grad_(); (g,) = torch.autograd.grad((w ** 3).sum(), w, create_graph=True); {n} = g + w",
        "w = {a}.detach().requires_grad_(); (w * WEIGHT).sum().backward(); {n} = {b} + w.grad",
        "OPT.zero_grad(); (({a}.detach() @ WEIGHT.t()) ** 2).mean().backward(); OPT.step(); {n} = {a}",
        "{n} = Twice.apply({a}) + {b}",
        "{n} = torch.utils.checkpoint.checkpoint(lambda y: (y * {k}).sin(), {a}, use_reentrant=False)",
        "{n} = torch.func.vmap(lambda r: r * {k} + r.sum())({a})",
        "{n} = {a} + torch.func.grad(lambda y: (y ** 2).sum())({b}.detach())",
        "p, t = torch.func.jvp(lambda y: y.sin() * y, ({a}.detach(),), ({b}.detach(),)); {n} = p + t",
        "e = {a}.exp()\nif e.requires_grad: e.retain_grad(); KEPT.append(e)\n{n} = e * {b}",
    ],
    "modes": [
        "with torch.no_grad(): {n} = {a} * {k}\n{n} = {n} + {b}",
        "torch.set_grad_enabled(False); w = {a} * 2; torch.set_grad_enabled(True); {n} = w * {b}",
        "with torch.inference_mode(): w = {a} * 2\n{n} = w + 1",
        "torch.set_default_dtype(torch.float64); w = torch.ones(4) / 3; torch.set_default_dtype(torch.float32); {n} = {a} * w.float()",
        "with torch.autocast('cpu', dtype=torch.bfloat16): {n} = ({a} @ {b}.t()).float() @ {b}",
        "n = torch.get_num_threads(); torch.set_num_threads(1); {n} = {a}.softmax(1); torch.set_num_threads(n)",
        "with torch.no_grad(), torch.enable_grad(): {n} = {a}.sigmoid() * {b}",
        "{n} = {a} / 3 if torch.is_grad_enabled() else {b}\nprint({n}.requires_grad, {n}.is_leaf)",
        "torch.use_deterministic_algorithms(True); {n} = {a}.cumsum(1); torch.use_deterministic_algorithms(False)",
    ],
    "numpy": [
        "{n} = {a} + torch.from_numpy({b}.detach().numpy() * {k})",
        "r = {a}.detach().numpy(); r[0] += {k}; {n} = {a} * {b}",
        "w = {a} * 2; r = np.asarray(w.detach()); w = w + 1; {n} = w; r *= 0",
        "{n} = {a} * np.float32({k}) + np.arange(4, dtype=np.float32)[{i}]",
        "r = np.ones(4, np.float32); w = torch.from_numpy(r); r[:] = {k}; {n} = {a} * w; r[:] = 9",
        "d = torch.utils.dlpack.to_dlpack({a}.detach().clone()); {n} = torch.from_dlpack(d) * {b}",
        "print(np.round({a}.detach().numpy().sum(), 2)); {n} = {b}.clone()",
        "w = {a}.detach().clone(); q = memoryview(w.numpy()); w.add_({k}); {n} = {b} + q[0, 0]",
    ],
    "threads": [
        "out = []; t = threading.Thread(target=lambda: out.append({a}.detach() * {k})); t.start(); t.join(); {n} = {b} + out[0]",
        "w = {a}.detach() * 2; t = threading.Thread(target=lambda: w.mul_({k})); t.start(); t.join(); {n} = w + {b}",
        "w = {a}.detach().requires_grad_(); t = threading.Thread(target=lambda: (w * w).sum().backward()); t.start(); t.join(); {n} = {b} * w.grad",
        "w = {a}.detach() + 1; out = {{}}; ts = [threading.Thread(target=lambda j=j: out.update({{j: w * j}})) for j in range(3)]\n"
        "for t in ts: t.start()\nfor t in ts: t.join()\nw.zero_(); {n} = out[2] + out[1] * {b}",
    ],
    "objects": [
        "print({a}.sum(), {a}.shape, {b}.detach()[0]); {n} = {a} + 1",
        "{n} = copy.deepcopy({a}.detach()) + {b}; {a}.detach().add_(0)",
        "{n} = pickle.loads(pickle.dumps({a}.detach())) * {b}",
        "w = {a} * 2; r = weakref.ref(w); s = w.sum(); w = None; {n} = {b} * (2 if r() is None else 1) + s",
        "print({a}._version, {a}.storage_offset(), {a}.is_contiguous(), {a}.dtype); {n} = {b}",
        "{n} = {a} + ({a}.data_ptr() == {b}.data_ptr())",
        "w = {a}.detach().clone(); w.untyped_storage().fill_(0); {n} = {b} + w",
        "w = {a}.detach().clone(); w.resize_(2, 2); {n} = {b} + w.sum()",
        "{n} = {a}.detach().clone(); {n}.set_({b}.detach()); {n} = {n} + {a}",
        "{n} = {a} + {b}; print(f'{{{n}.detach().mean():.4f}} {{{n}!r:.20}}')",
        "w = torch.nn.Parameter({a}.detach()); {n} = {b} * w; w.grad = torch.ones_like(w); {n} = {n} + w.grad",
    ],
    "kinds": [
        "w = {a}.detach().to(torch.complex64) * 1j; {n} = w.conj().imag + {b}",
        "w = ({a}.detach() * 4).long(); w[0] += {k}; {n} = (w // 2 + w % 3) * {b}",
        "{n} = ({a}.half() * {b}.half()).float() + {a}.bfloat16().float()",
        "{n} = {a}.clone(); {n}[{n} > 0.5] = {k}; {n}.masked_fill_({b} < 0, 0.25)",
        "{n} = {a}.scatter(1, torch.tensor([[{i}]]), {k}.5) + {b}.index_select(1, torch.tensor([3, 2, 1, 0]))",
        "v, j = {a}.sort(1); {n} = {b}.gather(1, j) + v; {n} = {n} + {a}.topk(2, 1).values.sum()",
        "{n} = {a}.clone(); {n}.index_put_((torch.tensor([0, 1]), torch.tensor([1, {i}])), {b}[0, :2], accumulate=True)",
        "{n} = torch.where({a} > {b}, {a}, {k}); {n} = {n} + torch.einsum('ij,kj->ik', {a}, {b}).sum()",
        "{n} = F.layer_norm({a}, (4,)) + F.gelu({b}); {n} = {n} * ({a}.norm() + 1)",
        "{n} = {a}.new_zeros(()).add_({k}) + {b}.cumsum(0).flip(0)",
        "{n} = {a} - {a}; {n} = -{n} + {b} * -0.0",
        "{n} = {a} / {a}.detach().round(); {n} = torch.nan_to_num({n}, 1., 2., 3.)",
    ],
}
ALL = [s for statements in STATEMENTS.values() for s in statements]
BETWEEN = ["G['n'] += 2", "G['list'].clear()", "K.count = 1.5", "LAYER.train(not LAYER.training)", "BUFFER.add_(1)", "G['last'] = None",
           "WEIGHT.requires_grad_(not WEIGHT.requires_grad)", "HOOKS.clear()", "K.scale = torch.tensor(3.)", "LAYER.weight.data.mul_(0.5)",
           "torch.manual_seed(7)", "G['cache'] = {}", "pass"]

SETTING = """
class K:
    scale, count = torch.tensor(2.), 0
class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2
    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]
G = {'n': 1, 'list': [], 'last': None}
HOOKS, KEPT = [], []
COUNTER = iter(range(1, 1000))
BUFFER = torch.ones(4)
WEIGHT = torch.linspace(-1, 1, 16).reshape(4, 4).requires_grad_()
LAYER = torch.nn.Linear(4, 4)
OPT = torch.optim.Adam([WEIGHT], lr=0.01)
"""
MODULES = dict(torch=torch, F=F, np=np, random=random, threading=threading, copy=copy, pickle=pickle, weakref=weakref,
               functools=functools, collections=collections, contextlib=contextlib)


def program(seed, statements=ALL, shortest=5, longest=11):
    """The source of a function, and the code that runs between its calls."""
    rng = random.Random(seed)
    lines, pool = [], ["x", "y"]
    for j in range(rng.randint(shortest, longest)):
        names = dict(a=rng.choice(pool[-3:]), b=rng.choice(pool), n=f"t{j}", k=rng.randint(1, 3), i=rng.randint(0, 2))
        lines += rng.choice(statements).format(**names).split("\n")
        pool.append(f"t{j}")
    outputs = ", ".join(rng.sample(pool, min(3, len(pool))))
    body = "\n".join(f"    {line}" for line in lines)
    return f"def f(x, y):\n{body}\n    return {pool[-1]}, {outputs}\n", rng.sample(BETWEEN, 3)


def bits(x):
    """Returns an object as data that differ if a bit does."""
    if isinstance(x, torch.Tensor):
        values = x.detach().resolve_conj().contiguous().reshape(-1)
        return (str(x.dtype), tuple(x.shape), x.stride(), x.requires_grad, x.is_leaf, None if x.is_inference() else x._version,
                values.view(torch.uint8).tolist() if values.numel() else [], bits(x.grad) if x.is_leaf else None)
    if isinstance(x, dict):
        return [(k if isinstance(k, (int, str)) else "", bits(v)) for k, v in x.items()]
    if isinstance(x, (list, tuple)):
        return [bits(item) for item in x]
    return repr(x) if isinstance(x, (int, float, str, type(None))) else type(x).__name__


def message(error):
    return type(error).__name__, re.sub(r"0x[0-9a-f]+", "0x", str(error))


def observed(source, between, way, rows=(3, 3, 5, 4, 3)):
    """What five calls show."""
    torch.manual_seed(1), random.seed(2), np.random.seed(3)
    space = dict(MODULES)
    exec(SETTING, space)
    exec(code_of(source), space)
    f, seen, out = way(space["f"]), [], io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(out):
        warnings.simplefilter("ignore")
        for j, n in enumerate(rows):
            x = torch.linspace(-2, 2 + j, n * 4).reshape(n, 4)
            y = torch.linspace(3, -1, n * 4).reshape(n, 4).sin()
            leaves = [x.requires_grad_(), y.requires_grad_()] if j % 2 else []
            try:
                got = f(*(t * 1 for t in (x, y)))
                ends = [t for t in got if isinstance(t, torch.Tensor) and t.requires_grad and t.is_floating_point()]
                if ends and j % 3:
                    sum(t.sum() for t in ends).backward()
                seen.append(bits(got))
            except Exception as error:
                seen.append(message(error))
            finally:
                torch.set_default_dtype(torch.float32), torch.set_grad_enabled(True), torch.use_deterministic_algorithms(False)
            state = [{k: v for k, v in vars(space["K"]).items() if k[:1] != "_"}, space["G"], space["BUFFER"], space["WEIGHT"],
                     list(space["LAYER"].parameters()), space["KEPT"][-3:], space["OPT"].state_dict()["state"], len(space["HOOKS"])]
            seen.append([bits(leaves), bits(state), torch.get_rng_state().sum().item(), random.random()])
            exec(between[j % len(between)], space)
    return seen, out.getvalue()


def code_of(source):
    """Code with its source, which is quoted where a value is needed."""
    name = f"<program {hash(source)}>"
    linecache.cache[name] = len(source), None, source.splitlines(True), name
    return compile(source, name, "exec")


def lazily(f):
    return torch.lazy()(f)


WAYS = {"lazily": lazily, "compiled": torch.compile, "in parts": functools.partial(torch.compile, backend="eager")}


def differing(seed, ways=WAYS, **options):
    source, between = program(seed, **options)
    wanted = observed(source, between, lambda f: f)
    found = []
    for name, way in ways.items():
        torch.compiler.reset()
        if observed(source, between, way) != wanted:
            found.append(name)
    return source, between, found


@pytest.mark.parametrize("seed", range(60))
def test_a_random_program_is_the_eager_one_bit_for_bit(seed):
    source, between, found = differing(seed)
    assert not found, f"{found}\n{source}{between}"
