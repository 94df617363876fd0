"""Random programs of views and in-place changes, and their gradients.

A program is a list of steps over a growing pool of tensors; a step is a name and its
arguments.  `python tape_cases.py record MODULE COUNT FILE` draws programs, runs them with a
module and writes the results:  the error of each step; for each tensor whether it requires a
gradient, whether it is a view, and its version; then a sum over the pool, its gradients and
second derivatives, or their error.
"""
import importlib
import json
import random
import sys

UNDEFINED = ("memory location", "a leaf Variable")  # errors that depend on the reference's internal order


def leaves(t):
    return [
        t.tensor([[0.5, -1.0, 0.25], [1.5, 0.75, -0.5]], dtype=t.float64, requires_grad=True),
        t.tensor([1.0, 2.0, -0.5], dtype=t.float64, requires_grad=True),
        t.tensor([[1.0, 0.5, 2.0], [0.25, 1.0, 1.0]], dtype=t.float64),
    ]


def without_grad(t, fn):
    with t.no_grad():
        return fn()


STEPS = {
    "add": lambda t, a, b: a + b,
    "mul": lambda t, a, b: a * b,
    "mm": lambda t, a, b: a @ b,
    "where": lambda t, a, b: t.where(a > 0, a, b),
    "cat": lambda t, a, b, d: t.cat([a, b], d),
    "stack": lambda t, a, b: t.stack([a, b, a], 0),
    "sin": lambda t, a: a.sin(),
    "tanh": lambda t, a: a.tanh(),
    "exp": lambda t, a: (a * 0.1).exp(),
    "clone": lambda t, a: a.clone(),
    "detach": lambda t, a: a.detach(),
    "sum": lambda t, a, d: a.sum([d]),
    "flip": lambda t, a, d: a.flip([d]),
    "select": lambda t, a, d, i: a.select(d, i),
    "unbind": lambda t, a, d, i: a.unbind(d)[i],
    "select_no_grad": lambda t, a, d, i: without_grad(t, lambda: a.select(d, i)),
    "narrow": lambda t, a, d, i: a.narrow(d, i, 1),
    "transpose": lambda t, a: a.transpose(0, a.dim() - 1),
    "unsqueeze": lambda t, a, d: a.unsqueeze(d),
    "expand": lambda t, a: a.expand(2, *a.shape),
    "windows": lambda t, a: a.as_strided([a.shape[0] - 1, 2], [a.stride(0)] * 2),
    "mul_": lambda t, a, b: a.mul_(b),
    "add_": lambda t, a, b: a.add_(b),
    "copy_": lambda t, a, b: a.copy_(b),
    "sin_": lambda t, a: a.sin_(),
    "sigmoid_": lambda t, a: a.sigmoid_(),
    "zero_": lambda t, a: a.zero_(),
    "half_": lambda t, a: a.div_(2.0),
    "mul_no_grad": lambda t, a: without_grad(t, lambda: a.mul_(1.5)),
}
TENSORS = {"add": 2, "mul": 2, "mm": 2, "where": 2, "cat": 2, "stack": 2, "mul_": 2, "add_": 2, "copy_": 2}
WRITES = {"mul_", "add_", "copy_", "sin_", "sigmoid_", "zero_", "half_", "mul_no_grad"}


def said(error):
    return f"{type(error).__name__}: {error}".split("\n")[0]


def run_step(t, pool, step):
    name, *args = step
    n = TENSORS.get(name, 1)
    made = STEPS[name](t, *(pool[i] for i in args[:n]), *args[n:])
    if not any(made is p for p in pool):
        pool.append(made)


def numbers(x):
    return None if x is None else [round(v, 10) for v in x.detach().reshape(-1).tolist()]


def gradients(t, pool, roots):
    total = sum(((p * (0.1 * (k + 1))).sum() for k, p in enumerate(pool[3:])), roots[0].sum())
    first = t.autograd.grad(total, roots[:2], create_graph=True, allow_unused=True)
    square = sum((g * g).sum() for g in first if g is not None and g.requires_grad)
    out = {"total": round(total.item(), 10), "first": [numbers(g) for g in first]}
    if isinstance(square, t.Tensor):
        second = t.autograd.grad(square, roots[:2], allow_unused=True)
        out["second"] = [numbers(g) for g in second]
    return out


def outcome(t, program):
    """Returns the result of `program` with module `t`."""
    roots = leaves(t)
    pool, errors = [x * 1 for x in roots], []
    for step in program:
        try:
            run_step(t, pool, step)
            errors.append(None)
        except RuntimeError as e:
            errors.append(said(e))
    try:
        state = [[p.requires_grad, p._base is not None, p._version] for p in pool]
        return {"errors": errors, "state": state, **gradients(t, pool, roots)}
    except RuntimeError as e:
        return {"errors": errors, "refused": said(e)}


# --- drawing ---
def broadcast(a, b):
    if any(x != y and 1 not in (x, y) for x, y in zip(a[::-1], b[::-1])):
        return None
    longer, shorter = (a, b) if len(a) >= len(b) else (b, a)
    lead = len(longer) - len(shorter)
    return longer[:lead] + [max(x, y) for x, y in zip(longer[lead:], shorter)]


def overlaps(x):
    span = 1
    for stride, size in sorted((s, n) for s, n in zip(x.stride(), x.shape) if n > 1):
        if stride < span:
            return True
        span += (size - 1) * stride
    return False


def same_memory(a, b):
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def arguments(r, pool, name, i, j):
    """Returns arguments of a step on tensors i and j; None when it does not apply."""
    a, b, d = list(pool[i].shape), list(pool[j].shape), pool[i].dim()
    if name in WRITES and overlaps(pool[i]):
        return None
    if name in ("mul_", "add_", "copy_"):
        fits = broadcast(a, b) == a and not same_memory(pool[i], pool[j])
        return [i, j] if fits else None
    if name in ("add", "mul", "where"):
        both = broadcast(a, b)
        return [i, j] if both is not None and len(both) <= 3 else None
    if name == "mm":
        return [i, j] if d == len(b) == 2 and a[1] == b[0] else None
    if name == "cat":
        return [i, j, r.randrange(d)] if d and a == b else None
    if name == "stack":
        return [i, j] if d < 3 and a == b else None
    if name in ("sum", "flip"):
        return [i, r.randrange(d)] if d else None
    if name in ("select", "unbind", "select_no_grad", "narrow"):
        k = r.randrange(d) if d else 0
        return [i, k, r.randrange(a[k])] if d else None
    if name == "unsqueeze":
        return [i, r.randrange(d + 1)] if d < 3 else None
    if name == "expand":
        return [i] if d < 3 and pool[i].numel() < 20 else None
    if name == "windows":
        return [i] if d == 1 and a[0] > 2 else None
    if name == "transpose":
        return [i] if d > 1 else None
    return [i]


def draw_step(r, pool):
    while True:
        name = r.choice(list(STEPS))
        if name in ("unbind", "select_no_grad", "zero_", "detach") and r.random() < 0.6:
            continue
        i, j = r.randrange(len(pool)), r.randrange(len(pool))
        args = arguments(r, pool, name, i, j)
        if args is not None:
            return [name, *args]


def draw(t, seed):
    """Draws a program.  It is run meanwhile, because steps depend on shapes."""
    r = random.Random(seed)
    pool, program = [x * 1 for x in leaves(t)], []
    for _ in range(r.randrange(4, 14)):
        step = draw_step(r, pool)
        try:
            run_step(t, pool, step)
        except RuntimeError as e:
            if any(u in str(e) for u in UNDEFINED):
                break
        program.append(step)
    return program


def record(module, count, path):
    t, found = importlib.import_module(module), []
    for seed in range(count):
        program = draw(t, seed)
        result = outcome(t, program)
        if not any(u in str(result.get("refused")) for u in UNDEFINED):
            found.append([program, result])
    with open(path, "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(x) for x in found) + "\n]\n")


if __name__ == "__main__":
    record(sys.argv[2], int(sys.argv[3]), sys.argv[4])
