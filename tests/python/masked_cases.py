"""Results of torch.masked.  `python masked_cases.py record MODULE FILE` writes those of a module."""
import importlib
import json
import sys

torch = importlib.import_module(sys.argv[2] if __name__ == "__main__" else "cresset")
masked = importlib.import_module(f"{torch.__name__}.masked")

X = torch.tensor([[1.0, -2.0, 3.0, 0.5], [4.0, 1.5, -1.0, 2.0], [0.25, 7.0, 2.0, -3.0]], dtype=torch.float64)
MASK = torch.tensor([[True, False, True, True], [False, False, False, False], [True, True, False, True]])
ROW = torch.tensor([True, False, True, True])
REDUCTIONS = "sum prod amax amin mean var std logsumexp".split()
CALLS = {f"{name} {dim} {keep} {kind}": (lambda f=getattr(masked, name), dim=dim, keep=keep, mask=mask:
                                         f(X, dim, keepdim=keep, mask=mask))
         for name in REDUCTIONS for dim in (None, 0, 1, (0, 1)) for keep in (False, True)
         for kind, mask in (("full", MASK), ("row", ROW), ("none", None))
         if not (name == "logsumexp" and dim is None)}
CALLS.update({f"{name} {kind}": (lambda f=getattr(masked, name), mask=mask: f(X, 1, mask=mask))
              for name in "argmax argmin cumsum cumprod softmax log_softmax softmin median".split()
              for kind, mask in (("row", ROW), ("none", None))})
CALLS.update({f"norm {ord}": (lambda ord=ord: masked.norm(X, ord, 1, mask=ROW))
              for ord in (0, 1, 2, 3, float("inf"), -float("inf"))})
CALLS["normalize"] = lambda: masked.normalize(X, 2, 1, mask=ROW)
CALLS["logaddexp"] = lambda: masked.logaddexp(X, X + 1, input_mask=MASK, other_mask=~MASK)
CALLS["unbiased"] = lambda: masked.var(X, 1, True, mask=ROW)
CALLS["integers"] = lambda: masked.sum(X.long(), 1, mask=MASK)
CALLS["integer extremes"] = lambda: masked.amax(X.int(), 1, mask=MASK)


def run(name):
    out = CALLS[name]()
    # None stands for NaN, which JSON lacks
    values = [None if x != x else str(x) if abs(x) == float("inf") else x for x in out.flatten().tolist()]
    return [str(out.dtype).split(".")[-1], list(out.shape), values]


if __name__ == "__main__":
    with open(sys.argv[3], "w") as file:
        json.dump({name: run(name) for name in CALLS}, file)
