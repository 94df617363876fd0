"""Operators that __torch_dispatch__ of a tensor class and of a mode sees, forward and backward.

`python dispatch_cases.py record MODULE FILE` writes the calls that a module shows.  The test imports
this file, which then uses cresset, and compares.
"""
import importlib
import json
import sys

torch = importlib.import_module(sys.argv[2] if __name__ == "__main__" else "cresset")
F = importlib.import_module(f"{torch.__name__}.nn.functional")
TorchDispatchMode = importlib.import_module(f"{torch.__name__}.utils._python_dispatch").TorchDispatchMode
tree_map = importlib.import_module(f"{torch.__name__}.utils._pytree").tree_map

CASES, calls = {}, []


def case(function):
    """Registers a program: a function of a matrix."""
    CASES[function.__name__] = function
    return function


def show(x):
    if isinstance(x, torch.Tensor):
        return f"T{list(x.shape)}"
    if isinstance(x, (list, tuple)):
        return f"[{', '.join(map(show, x))}]"
    return repr(x).replace("cresset.", "torch.")


def note(func, args, kwargs):
    shown = [*map(show, args), *(f"{key}={show(x)}" for key, x in kwargs.items())]
    calls.append(f"{func}({', '.join(shown)})")


class LoggingTensor(torch.Tensor):
    """Wraps a tensor and notes the calls."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, inner, *, requires_grad=False):
        made = torch.Tensor._make_wrapper_subclass(
            cls, inner.size(), strides=inner.stride(), storage_offset=inner.storage_offset(),
            dtype=inner.dtype, layout=inner.layout, device=inner.device, requires_grad=requires_grad)
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        def unwrap(x):
            return x.inner if isinstance(x, cls) else x

        def wrap(x):
            return cls(x) if isinstance(x, torch.Tensor) else x
        note(func, args, kwargs or {})
        return tree_map(wrap, func(*tree_map(unwrap, args), **tree_map(unwrap, kwargs or {})))


class LoggingMode(TorchDispatchMode):
    """Notes the calls."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        note(func, args, kwargs or {})
        return func(*args, **(kwargs or {}))


def t(*size):
    return torch.arange(torch.Size(size).numel(), dtype=torch.float32).reshape(size) / 10


@case
def arith(x):
    y = x+1
    z = y*x - 2
    return z/y


@case
def rarith(x):
    return 1 - x + 2*x + x**2 + 2/x.add(1)


@case
def reduce(x):
    return x.sum() + x.mean(0).max() + x.var() + x.std(1).amin(0) + x.prod() + x.norm()


@case
def views(x):
    return x.view(2,2,3) .transpose(0,1).reshape(4,3)[1:3, 0].unsqueeze(0).expand(5,2).flatten()


@case
def acts(x):
    return F.relu(x)+F.gelu(x)+torch.sigmoid(x)+F.silu(x)+F.leaky_relu(x)+F.elu(x)+F.softplus(x)+x.tanh()


@case
def soft(x):
    return F.softmax(x,1)+F.log_softmax(x,-1)


@case
def lin(x):
    return F.linear(x, t(5,3), t(5))


@case
def linnb(x):
    return F.linear(x, t(5,3))


@case
def lin3(x):
    return F.linear(x.view(2,2,3), t(5,3), t(5))


@case
def mm(x):
    return x @ t(3,4)


@case
def matmul3(x):
    return x.view(2,2,3) @ t(3,4)


@case
def bmm(x):
    return torch.matmul(x.view(2,2,3), t(2,3,2))


@case
def mv(x):
    return x @ t(3)


@case
def inplace(x):
    y = x.clone()
    y.add_(1)
    y.mul_(y)
    y[0]=3
    y.zero_()
    y.copy_(x)
    return y


@case
def ln(x):
    return F.layer_norm(x,(3,),t(3),t(3))


@case
def bn(x):
    return F.batch_norm(x, t(3), t(3)+1, t(3), t(3), True)


@case
def bne(x):
    return F.batch_norm(x, t(3), t(3)+1, t(3), t(3), False)


@case
def conv(x):
    return F.conv2d(x.view(1,1,4,3), t(2,1,2,2), t(2))


@case
def pool(x):
    return F.max_pool2d(x.view(1,1,4,3),2)+F.avg_pool2d(x.view(1,1,4,3),2)


@case
def ce(x):
    return F.cross_entropy(x, torch.tensor([0,1,2,0]))


@case
def mse(x):
    return F.mse_loss(x, t(4,3))


@case
def emb(x):
    return F.embedding(torch.tensor([0,2]), x)


@case
def catstack(x):
    return torch.stack([torch.cat([x,x]),torch.cat([x,x])]).split(2)[0].chunk(2,1)[0].squeeze()


@case
def where(x):
    return torch.where(x>0.5, x, torch.zeros_like(x)).masked_fill(x<0.3, 1.)


@case
def drop(x):
    return F.dropout(x, 0.5, True)


@case
def sdpa(x):
    q=x.view(1,1,4,3)
    return F.scaled_dot_product_attention(q,q,q)


@case
def dtypes(x):
    return x.to(torch.float64).float().int().long().bool()


@case
def factories(x):
    return torch.zeros(2)+torch.ones(2)+torch.full((2,),3.)+torch.arange(2)+torch.empty(2).fill_(0)+torch.randn(2)+torch.rand(2)+torch.tensor([1.,2.])+torch.linspace(0,1,2)+torch.eye(2)


@case
def idx(x):
    return x[torch.tensor([0,1])] + x[:, [0,1,2]][0]


@case
def idxput(x):
    y=x.clone()
    y[torch.tensor([0])]=1.
    y[y>0.5]=0
    return y


@case
def det(x):
    return x.detach()+x.data


@case
def item(x):
    return x.sum().item()


@case
def topk(x):
    return x.topk(2)[0]+x.sort(1)[0][:,:2]+x.argmax(1,keepdim=True)


@case
def clampy(x):
    return x.clamp(0,1)+x.clamp_min(0)+x.abs()+x.pow(2)+x.sqrt()+x.exp()


@case
def einsum(x):
    return torch.einsum('ij,kj->ik', x, x)


@case
def outk(x):
    y=torch.full((4,3),-1.0)
    torch.add(x,x,out=y)
    return y


@case
def contig(x):
    return x.t().contiguous()


@case
def tril(x):
    return torch.tril(x)+x.cumsum(0)+x.flip(0)+x.roll(1,0)


@case
def gathersc(x):
    return x.gather(1, torch.zeros(4,1,dtype=torch.long)) + x.scatter(1, torch.zeros(4,1,dtype=torch.long), 1.)


@case
def narrow(x):
    return x.narrow(0,1,2)+x.select(0,1)+x.T[0,:2].sum()


@case
def iscl(x):
    return torch.allclose(x,x), torch.equal(x,x), x.isfinite().all()


@case
def new(x):
    return x.new_zeros(2)+x.new_ones(2)+x.new_tensor([1.,2.])+torch.ones_like(x)[0,:2]+torch.empty_like(x).fill_(1)[0,:2]


@case
def gn(x):
    return F.group_norm(x.view(1,4,3),2)


@case
def rms(x):
    return F.rms_norm(x,(3,))


@case
def interp(x):
    return F.interpolate(x.view(1,1,4,3), scale_factor=2)


@case
def pad(x):
    return F.pad(x,(1,1))


# --- running ---

BACKWARD = "arith reduce acts soft lin lin3 mm ln conv pool ce mse emb catstack where views idx sdpa clampy bmm".split()


def finish(out, backward):
    if backward:
        calls.append("backward")
        (out if out.dim() == 0 else out.sum()).backward()


def run(kind, name, backward=False):
    """Returns the calls of a case, with a tensor ("tensor") or inside a mode ("mode")."""
    calls.clear()
    torch.manual_seed(0)
    if kind == "mode":
        x = t(4, 3).requires_grad_(backward)
        with LoggingMode():
            finish(CASES[name](x), backward)
    else:
        finish(CASES[name](LoggingTensor(t(4, 3), requires_grad=backward)), backward)
    return list(calls)


RUNS = [(kind, name, backward) for name in CASES for kind in ("mode", "tensor")
        for backward in ((False, True) if name in BACKWARD else (False,))]

if __name__ == "__main__":
    with open(sys.argv[3], "w") as file:
        json.dump({" ".join(map(str, r)): run(*r) for r in RUNS}, file, indent=0)
