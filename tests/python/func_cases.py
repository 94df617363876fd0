"""Derivatives and batches of functions.

`python func_cases.py record MODULE FILE` writes the numbers of a module.  The test imports this file,
which then uses cresset, and compares.
"""
import importlib
import json
import sys

torch = importlib.import_module(sys.argv[2] if __name__ == "__main__" else "cresset")
func = importlib.import_module(f"{torch.__name__}.func")
fwAD = importlib.import_module(f"{torch.__name__}.autograd.forward_ad")
F = importlib.import_module(f"{torch.__name__}.nn.functional")
nn = importlib.import_module(f"{torch.__name__}.nn")
grad, jacfwd, jacrev, jvp, vjp, vmap = func.grad, func.jacfwd, func.jacrev, func.jvp, func.vjp, func.vmap


def t(*size, start=1):
    n = torch.Size(size).numel()
    return (torch.arange(n, dtype=torch.float64).reshape(size) + start) / 7


def net(w, x):
    return torch.tanh(x @ w).sum()


def two(x):
    return {"a": x.exp() * x.sum(), "b": (x[0] * x,)}


def dual(f, x, v):
    with fwAD.dual_level():
        return fwAD.unpack_dual(f(fwAD.make_dual(x, v)))


def model_gradients():
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.LayerNorm(4), nn.Linear(4, 1)).double()
    for k, p in enumerate(model.parameters()):
        p.data = t(*p.shape, start=k)

    def loss(params, x):
        return func.functional_call(model, params, (x,)).square().sum()
    params = {k: p.detach() for k, p in model.named_parameters()}
    return vmap(grad(loss), in_dims=(None, 0))(params, t(5, 3))


def in_place(x):
    y = x.clone()
    y.mul_(2).add_(x.sum())
    return y


def ensemble():
    models = [nn.Linear(3, 2).double() for _ in range(3)]
    for k, m in enumerate(models):
        m.weight.data, m.bias.data = t(2, 3, start=k), t(2, start=k)
    params, buffers = func.stack_module_state(models)
    return vmap(lambda p, b, x: func.functional_call(models[0], (p, b), (x,)), (0, 0, None))(params, buffers, t(4, 3))


def sdpa(q):
    return F.scaled_dot_product_attention(q, q, q)


CASES = {
    "grad": lambda: grad(lambda x: (x.sin() * x).sum())(t(3)),
    "grad of grad": lambda: grad(grad(lambda x: x ** 3))(t(1)[0]),
    "third": lambda: grad(grad(grad(lambda x: torch.exp(2 * x))))(t(1)[0]),
    "confusion": lambda: grad(lambda x: x * grad(lambda y: x * y)(x * 1.0))(t(1)[0]),
    "argnums": lambda: grad(net, argnums=(0, 1))(t(3, 2), t(4, 3)),
    "aux": lambda: grad(lambda x: (x.prod(), x * 2), has_aux=True)(t(3)),
    "grad_and_value": lambda: func.grad_and_value(lambda x: x.prod())(t(3)),
    "unused": lambda: grad(lambda x, y: x.sum(), argnums=1)(t(2), t(3)),
    "vjp": lambda: vjp(two, t(3))[1]({"a": t(3), "b": (t(3, start=4),)}),
    "jvp": lambda: jvp(two, (t(3),), (t(3, start=2),)),
    "jvp two": lambda: jvp(net, (t(3, 2), t(4, 3)), (t(3, 2), t(4, 3, start=5))),
    "jvp of constant": lambda: jvp(lambda x: torch.ones(2, dtype=x.dtype), (t(3),), (t(3),)),
    "linearize": lambda: func.linearize(lambda x: x.sin() * x, t(3))[1](t(3, start=2)),
    "jacrev": lambda: jacrev(lambda x: x.outer(x).sin())(t(3)),
    "jacfwd": lambda: jacfwd(lambda x: x.outer(x).sin())(t(3)),
    "jacrev tree": lambda: jacrev(two)(t(3)),
    "jacfwd tree": lambda: jacfwd(two)(t(3)),
    "jacrev argnums": lambda: jacrev(lambda x, y: x @ y, argnums=(0, 1))(t(2, 3), t(3)),
    "jacfwd argnums": lambda: jacfwd(lambda x, y: x @ y, argnums=(0, 1))(t(2, 3), t(3)),
    "jacrev chunks": lambda: jacrev(lambda x: x.outer(x).sin(), chunk_size=2)(t(3)),
    "hessian": lambda: func.hessian(lambda x: (x.exp() * x.sum()).sum())(t(3)),
    "jacrev of jacfwd": lambda: jacrev(jacfwd(lambda x: (x.sin() * x.sum()).sum()))(t(3)),
    "hessian of net": lambda: func.hessian(net)(t(2, 2), t(3, 2)),
    "dual": lambda: dual(lambda x: x.sin() * x, t(3), t(3, start=3)),
    "dual unrelated": lambda: dual(lambda x: t(2), t(3), t(3))[0],
    "vmap dot": lambda: vmap(torch.dot)(t(4, 3), t(4, 3, start=2)),
    "vmap dims": lambda: vmap(lambda x, y: x * y.sum(), in_dims=(1, None), out_dims=1)(t(2, 3), t(4)),
    "vmap of vmap": lambda: vmap(vmap(lambda x, y: x @ y, (None, 0)), (0, None))(t(2, 3), t(4, 3)),
    "vmap reductions": lambda: vmap(lambda x: (x.sum(), x.mean(0), x.amax(-1), x.argmax(1), x.var(), x.norm(),
                                              x.logsumexp((0, 1))))(t(2, 3, 4)),
    "vmap views": lambda: vmap(lambda x: x.t().reshape(-1)[1:5].view(2, 2).unsqueeze(0).expand(3, 2, 2)
                               .permute(2, 0, 1).flatten())(t(2, 3, 4)),
    "vmap joins": lambda: vmap(lambda x, y: (torch.cat([x, y]), torch.stack([x, y], 1), x.chunk(2)))(t(2, 4), t(2, 4)),
    "vmap softmax": lambda: vmap(lambda x: F.softmax(x, 0) + F.log_softmax(x, -1) + F.gelu(x))(t(2, 3)),
    "vmap index": lambda: vmap(lambda x, i: (x[i], x[0], x[:, 1], x.gather(0, i[None, None].expand(1, 2))))(
        t(3, 2, 2), torch.tensor([0, 1, 1])),
    "vmap where": lambda: vmap(lambda x: torch.where(x > 0.5, x, torch.zeros_like(x)).masked_fill(x > 0.8, 9.0))(t(2, 3)),
    "vmap sort": lambda: vmap(lambda x: (x.sort(descending=True)[0], x.topk(2)[1], x.cumsum(0)))(t(2, 3)),
    "vmap in place": lambda: vmap(in_place)(t(2, 3)),
    "vmap linalg": lambda: vmap(lambda x: torch.linalg.solve(x + 3 * torch.eye(2, dtype=x.dtype), x))(t(3, 2, 2)),
    "vmap conv": lambda: vmap(lambda x: F.conv1d(x, t(2, 1, 2)))(t(3, 2, 1, 4)),
    "vmap linear": lambda: vmap(lambda w, x: F.linear(x, w, t(2)), (0, None))(t(3, 2, 4), t(5, 4)),
    "vmap attention": lambda: vmap(sdpa)(t(2, 1, 3, 4)),
    "vmap promotion": lambda: vmap(lambda x, y: x + y)(torch.arange(2), t(2).float()),
    "vmap chunks": lambda: vmap(lambda x: x.sin().sum(), chunk_size=2)(t(5, 3)),
    "vmap tree": lambda: vmap(lambda d: {"s": d["x"] + d["y"][0]}, in_dims=({"x": 0, "y": None},))(
        {"x": t(2, 3), "y": (t(3),)}),
    "vmap of grad": lambda: vmap(grad(lambda x, y: (x * y).sin().sum()), (0, None))(t(4, 3), t(3)),
    "grad of vmap": lambda: grad(lambda x: vmap(lambda y: (y * x.sum()).exp())(x).sum())(t(3)),
    "grad of vmap of grad": lambda: grad(lambda x: vmap(grad(lambda y: y.exp() * y))(x).sum())(t(3)),
    "vmap of jvp": lambda: vmap(lambda x, v: jvp(torch.sin, (x,), (v,))[1])(t(3, 2), t(3, 2)),
    "vmap of hessian": lambda: vmap(func.hessian(lambda x: (x ** 3).sum()))(t(2, 2)),
    "per-example gradients": model_gradients,
    "ensemble": ensemble,
    "new tensors": lambda: vmap(lambda x: x.new_zeros(2) + torch.ones(2, dtype=x.dtype) + torch.full_like(x, 3))(t(3, 2)),
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
