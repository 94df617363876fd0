"""Branches, loops, scans and maps of tensors.

`python control_cases.py record MODULE FILE` writes the numbers of a module.  The test imports this file,
which then uses cresset, and compares.
"""
import importlib
import json
import sys

torch = importlib.import_module(sys.argv[2] if __name__ == "__main__" else "cresset")
hop = importlib.import_module(f"{torch.__name__}._higher_order_ops")
flex = importlib.import_module(f"{torch.__name__}.nn.attention.flex_attention")
cond, while_loop, scan, associative_scan, hop_map = hop.cond, hop.while_loop, hop.scan, hop.associative_scan, hop.map
GENERIC = {"combine_mode": "generic"}


def t(*size, start=1):
    n = torch.Size(size).numel()
    return (torch.arange(n, dtype=torch.float64).reshape(size) + start) / 7


def gradient(f, *size):
    x = t(*size).requires_grad_()
    leaves = f(x)
    leaves = leaves if isinstance(leaves, (tuple, list)) else [leaves]
    sum(leaf.sum() for leaf in leaves).backward()
    return x.grad


def yes():
    return torch.tensor(True)


def no():
    return torch.tensor([False])


def count(i, x):
    return i + 1, x * x + 1


def matrices(a, b):
    return a @ b


def linear(a, b):
    return {"k": a["k"] * b["k"], "v": (b["k"] * a["v"][0] + b["v"][0],)}


def heads(n=2):
    return t(1, n, 6, 4), t(1, n, 6, 4, start=3), t(1, n, 6, 4, start=5)


def causal(b, h, q, k):
    return q >= k


def window(b, h, q, k):
    return (q - k < 2) | (h == 1)


def flexed(q, k, v, **options):
    return flex.flex_attention(q.float(), k.float(), v.float(), **options)


def block_mask(mod, **options):
    return flex.create_block_mask(mod, None, 2, 6, 6, device="cpu", BLOCK_SIZE=2, **options)


def block_lists(mask):
    return {name: getattr(mask, name) for name in (
        "kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices", "q_num_blocks", "full_q_num_blocks")}


CASES = {
    "cond numbers": lambda: [cond(p, lambda a: a * 2, lambda a: a + 1, (t(3),)) for p in (True, 1, 0.0, False)],
    "cond tensors": lambda: [cond(p, lambda a: a * 2, lambda a: a + 1, (t(3),)) for p in (yes(), no(), torch.tensor(3))],
    "cond closures": lambda: cond(yes(), lambda: t(3) * 2, lambda: t(3) * 3),
    "cond trees": lambda: cond(no(), lambda a: {"a": a["k"] * 2}, lambda a: {"a": a["k"] * 3}, ({"k": t(2)},)),
    "cond ints": lambda: cond(yes(), lambda a: 3, lambda a: 4, (t(1),)),
    "cond gradient": lambda: gradient(lambda a: cond(a.sum() > 0, torch.sin, torch.cos, (a,)), 4),
    "cond gradient of a closure": lambda: gradient(lambda a: cond(a.sum() < 0, lambda: a.sin(), lambda: a.exp()), 4),
    "cond of a batch": lambda: torch.vmap(lambda b: cond(b > 0.4, lambda b: b * 10, lambda b: b - 1, (b,)))(t(5)),
    "cond of one condition in vmap": lambda: torch.vmap(lambda b: cond(yes(), lambda b: b * 10, lambda b: b - 1, (b,)))(t(5)),
    "while": lambda: while_loop(lambda i, x: i < 3, count, (torch.tensor(0), t(2))),
    "while of ints": lambda: while_loop(lambda i, x: i < 3, count, (0, t(2))),
    "while without steps": lambda: while_loop(lambda i, x: i < 3, count, (torch.tensor(7), t(2))),
    "while trees": lambda: while_loop(lambda s: s["i"] < 3, lambda s: ({"i": s["i"] + 1},), ({"i": torch.tensor(0)},)),
    "while gradient": lambda: gradient(lambda a: while_loop(lambda i, x: i < 3, count, (torch.tensor(0), a))[1], 3),
    "scan": lambda: scan(lambda c, y: (c + y, c * y), torch.zeros(2).double(), t(3, 2)),
    "scan reversed": lambda: scan(lambda c, y: (c + y, c * y), torch.zeros(2).double(), t(3, 2), reverse=True),
    "scan dims": lambda: [scan(lambda c, y: (c + y, c * y), torch.zeros(3).double(), t(3, 2), dim=d) for d in (1, -1)],
    "scan scalars along the last dim": lambda: scan(lambda c, y: (c + y.sum(), y.sum() * c), t(), t(3, 2), dim=1),
    "scan trees": lambda: scan(lambda c, y: ({"a": c["a"] + y[0]}, [y[1] * c["a"], y[0] + 1]), {"a": t(2)}, (t(3, 2), t(3, 2))),
    "scan nothing": lambda: scan(lambda c, y: (c, y), t(2), []),
    "scan gradient": lambda: gradient(lambda a: scan(lambda c, y: (c * y + 1, c + y), torch.zeros(2).double(), a), 3, 2),
    "associative": lambda: associative_scan(lambda a, b: a * b + b - b, t(7, 2), 0, **GENERIC),
    "associative reversed": lambda: associative_scan(lambda a, b: a * b, t(2, 5), 1, reverse=True, **GENERIC),
    "associative last dim": lambda: associative_scan(lambda a, b: a + b, t(2, 5), -1, **GENERIC),
    "associative matrices": lambda: associative_scan(matrices, t(5, 2, 2), 0, **GENERIC),
    "associative trees": lambda: associative_scan(linear, {"k": t(6), "v": (t(6),)}, 0, **GENERIC),
    "associative gradient": lambda: gradient(lambda a: associative_scan(lambda x, y: x * y, a, 0, **GENERIC), 5, 2),
    "map": lambda: hop_map(lambda y: y * 2, t(3, 2)),
    "map trees": lambda: hop_map(lambda y, k: (y * k, {"a": y.sum() + 1}), t(3, 2), 3),
    "map several": lambda: hop_map(lambda y: y[0] * y[1], [t(3, 2), t(3)]),
    "map None": lambda: hop_map(lambda y: (None, y * 2), t(3, 2)),
    "map gradient": lambda: gradient(lambda a: hop_map(lambda y: y.sin() * y, a), 3, 2),
    "flex": lambda: flexed(*heads()),
    "flex score": lambda: flexed(*heads(), score_mod=lambda s, b, h, q, k: s + 0.1 * (q - k) * (h + 1), scale=0.3),
    "flex causal": lambda: flexed(*heads(), block_mask=block_mask(causal)),
    "flex masks": lambda: flexed(*heads(), block_mask=block_mask(flex.and_masks(causal, window)),
                                 score_mod=lambda s, b, h, q, k: torch.tanh(s)),
    "block masks": lambda: [block_lists(block_mask(m)) for m in (causal, window, flex.or_masks(causal, window))],
    "block masks without full blocks": lambda: block_mask(causal, separate_full_blocks=False).to_dense(),
    "mask": lambda: flex.create_mask(flex.and_masks(causal, window), 1, 2, 6, 6, device="cpu"),
}


def plain(x):
    if isinstance(x, torch.Tensor):
        return {"shape": list(x.shape), "dtype": str(x.dtype).split(".")[-1], "values": x.detach().flatten().tolist()}
    if isinstance(x, dict):
        return {key: plain(value) for key, value in x.items()}
    return [plain(item) for item in x] if isinstance(x, (list, tuple)) else x


def run(name):
    return plain(CASES[name]())


if __name__ == "__main__":
    with open(sys.argv[3], "w") as file:
        json.dump({name: run(name) for name in CASES}, file, indent=0)
