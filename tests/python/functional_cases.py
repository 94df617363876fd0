"""Calls of torch.autograd.functional in strict mode, whose outcomes torch recorded.

`python tests/python/functional_cases.py` with torch writes tests/data/functional_strict.json."""
import json
import os

FILE = os.path.join(os.path.dirname(__file__), "..", "data", "functional_strict.json")


def functions(torch):
    """{name: (function, number of inputs)}."""
    return {
        "constant": (lambda a: torch.ones(3), 1), "same": (lambda a: a, 1), "detached": (lambda a: a.detach(), 1),
        "linear": (lambda a: (a * 2).sum(), 1), "square": (lambda a: (a * a).sum(), 1), "squares": (lambda a: a * a, 1),
        "with zeros": (lambda a: (a * a, torch.zeros(2)), 1), "with detached": (lambda a: (a.exp(), a.detach()), 1),
        "number": (lambda a: torch.tensor(1.), 1), "integers": (lambda a: a.long(), 1),
        "in place": (lambda a: a.clone().mul_(2).sum(), 1), "first": (lambda a, b: (a * a).sum(), 2),
        "product": (lambda a, b: (a * b).sum(), 2), "product with square": (lambda a, b: (a * a * b).sum(), 2),
        "two": (lambda a, b: (a.sum(), b.sum()), 2), "sum of both": (lambda a, b: (a * a).sum() + b.sum(), 2)}


def shown(x):
    if isinstance(x, tuple):
        return [shown(i) for i in x]
    return [list(x.shape), x.reshape(-1).tolist(), x.requires_grad]


def outcome(function):
    try:
        return shown(function())
    except Exception as error:
        return [type(error).__name__, str(error)]


def outcomes(torch):
    """{call: values, or class and text of the error}."""
    F, made = torch.autograd.functional, {}
    x, y, ones = torch.tensor([1., 2., 3.]), torch.tensor([2., 1., 4.]), torch.ones(3)
    for graph in (False, True):
        more = {"strict": True, "create_graph": graph}
        for name, (f, n) in functions(torch).items():
            at, v = ((x,), ones) if n == 1 else ((x, y), (ones, ones))
            at = at[0] if n == 1 else at
            out = {"two": (torch.tensor(1.), torch.tensor(1.))}.get(
                name, ones if name in ("constant", "same", "detached", "squares", "integers") else None)
            made[f"vjp {name} {graph}"] = outcome(lambda: F.vjp(f, at, v=out, **more))
            for kind in ("jvp", "vhp", "hvp"):
                made[f"{kind} {name} {graph}"] = outcome(lambda: getattr(F, kind)(f, at, v=v, **more))
            for kind in ("jacobian", "hessian"):
                made[f"{kind} {name} {graph}"] = outcome(lambda: getattr(F, kind)(f, at, **more))
    square, squares = functions(torch)["square"][0], functions(torch)["squares"][0]
    for strategy in ("reverse-mode", "forward-mode", "other"):
        for vectorize in (False, True):
            more = {"strict": True, "vectorize": vectorize}
            made[f"jacobian {strategy} {vectorize}"] = outcome(lambda: F.jacobian(squares, x, strategy=strategy, **more))
            made[f"hessian {strategy} {vectorize}"] = outcome(lambda: F.hessian(square, x, outer_jacobian_strategy=strategy, **more))
    return made


if __name__ == "__main__":
    import torch
    with open(FILE, "w") as file:
        file.write("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in outcomes(torch).items()) + "\n}\n")
