"""Traced functions and modules, and what torch makes of them: tests/data/script/traced.json.xz.

    python tests/data/script/traced.py tests/data/script/traced.json.xz

needs torch 2.13.  For each function the file has the code, the graphs and the result of the trace, and its warnings, or the
error.  For each case of tests/python/trace_cases.py it has the graphs.
"""
import json
import lzma
import os
import re
import sys
import warnings

CASES = []  # name, source of f, arguments


def add(name, body, args="torch.arange(12.).view(3, 4)", params="x"):
    CASES.append((name, f"def f({params}):\n" + "".join(f"    {line}\n" for line in body.split("\n")), args))


X = "torch.arange(12.).view(3, 4)"
# indexed writes
IDX = ["0", "-1", "1:", ":2", "1:2", "::2", "0:3:2", "...", ":, 0", ":, 1:3", "0, 1", "..., 0", "None", ":, None", "x > 3", "torch.tensor([0, 1])", "[0, 1]", "[0, 1], [1, 2]", ":, [0, 1]", "0, [0, 1]", "torch.tensor(1)", "0, ..., 1", "1:, -1", "torch.tensor([True, False, True])", ":, torch.tensor([0, 2])", "True", "(0, 2)"]
for i in IDX:
    add(f"set1[{i}]", f"x = x.clone()\nx[{i}] = 1.\nreturn x")
    add(f"get[{i}]", f"return x[{i}]")
for i in ["0", ":, 0", "1:", "x > 3", "torch.tensor([0, 1])", "...", ":", "0, 1"]:
    add(f"setint[{i}]", f"x = x.clone()\nx[{i}] = 2\nreturn x")
    add(f"settensor0[{i}]", f"x = x.clone()\nx[{i}] = torch.tensor(3.)\nreturn x")
    add(f"setx[{i}]", f"x = x.clone()\nx[{i}] = y\nreturn x * 2", args=f"({X}, torch.ones(()))", params="x, y")
    add(f"iadd[{i}]", f"x = x.clone()\nx[{i}] += 1\nreturn x")
    add(f"imul[{i}]", f"x = x.clone()\nx[{i}] *= y\nreturn x", args=f"({X}, torch.ones(()))", params="x, y")
    add(f"fill_[{i}]", f"x = x.clone()\nx[{i}].fill_(2)\nreturn x")
add("setrow", "x = x.clone()\nx[0] = y\nreturn x", args=f"({X}, torch.ones(4))", params="x, y")
add("setrow1", "x = x.clone()\nx[0] = y\nreturn x", args=f"({X}, torch.ones(1, 4))", params="x, y")
add("setblock", "x = x.clone()\nx[:2, 1:3] = y\nreturn x", args=f"({X}, torch.ones(2, 2))", params="x, y")
add("setcol", "x = x.clone()\nx[:, 1] = y[:, 0]\nreturn x", args=f"({X}, torch.ones(3, 2))", params="x, y")
add("setmaskt", "x = x.clone()\nx[y] = x[y] + 1\nreturn x", args=f"({X}, {X} > 3)", params="x, y")
add("setdtype", "x = x.clone()\nx[0] = y\nreturn x", args=f"({X}, torch.ones(4, dtype=torch.int64))", params="x, y")
add("setbool", "m = x > 3\nm[0] = True\nreturn m")
add("setintten", "x = x.long()\nx[0] = 3\nreturn x")
add("setlong_float", "x = x.long()\nx[0] = 3.5\nreturn x")
add("setzeros", "y = torch.zeros(3, 4)\ny[0] = x[0]\nreturn y")
add("setloop", "y = torch.zeros(3, 4)\nfor i in range(3):\n    y[i] = x[i] * i\nreturn y")
add("setloop2", "y = torch.zeros_like(x)\nfor i in range(x.size(0)):\n    y[i, i] = x[i].sum()\nreturn y")
add("setslice_size", "y = torch.zeros_like(x)\ny[:x.size(0) - 1] = x[1:]\nreturn y")
add("get_size", "return x[:x.shape[0] // 2]")
add("get_size2", "return x[:, x.shape[1] - 2:]")
add("setnew", "y = x.new_zeros(2, 2)\ny[0] = 1\nreturn x[:2, :2] + y")
add("setinput", "x[0] = 1\nreturn x")
add("setinput2", "x[0, 1:] = x[1, 1:]\nreturn x")
add("iaddinput", "x += 1\nreturn x")
# in place
for op in ["add_(1)", "mul_(2)", "sub_(1.5)", "div_(2)", "relu_()", "clamp_(0, 1)", "zero_()", "fill_(3)", "fill_(3.5)", "copy_(y)", "add_(y)", "add_(y, alpha=2)", "neg_()", "exp_()", "pow_(2)", "masked_fill_(y > 0, 1.)", "masked_fill_(y > 0, 1)", "t_()", "unsqueeze_(0)", "squeeze_()", "transpose_(0, 1)", "index_fill_(0, torch.tensor([0]), 1.)", "index_add_(0, torch.tensor([0]), y[:1])", "index_copy_(0, torch.tensor([0]), y[:1])", "scatter_(0, torch.tensor([[0]]), 1.)", "scatter_(0, torch.tensor([[0]]), y)", "lerp_(y, 0.5)", "addcmul_(y, y)", "addcdiv_(y, y + 1, value=2)", "cumsum_(0)", "tril_()", "triu_(1)", "abs_()", "sigmoid_()", "clamp_min_(1)", "remainder_(2)", "floor_divide_(2)", "logical_not_()", "eq_(y)", "gt_(1)", "fill_(y[0, 0])", "set_(y)", "resize_(2, 2)", "fill_diagonal_(1)", "detach_()", "requires_grad_(False)", "index_put_((torch.tensor([0]),), torch.tensor(1.))", "put_(torch.tensor([0]), torch.tensor([1.]))", "swapaxes_(0, 1)", "apply_grad"]:
    if op == "apply_grad": continue
    add(f"ip.{op}", f"x = x.clone()\nx.{op}\nreturn x", args=f"({X}, {X})", params="x, y")
    add(f"ipr.{op}", f"z = x + 1\nz = z.{op}\nreturn z * 2", args=f"({X}, {X})", params="x, y")
for op in ["+=", "-=", "*=", "/=", "//=", "%=", "**="]:
    add(f"aug{op}1", f"x = x.clone()\nx {op} 2\nreturn x")
    add(f"aug{op}y", f"x = x.clone()\nx {op} y\nreturn x", args=f"({X}, {X} + 1)", params="x, y")
    add(f"augdata{op}", f"z = x * 1\nz.data {op} 2\nreturn z")
# views
for v in ["view(-1)", "view(4, 3)", "view(x.size(0), -1)", "reshape(-1)", "reshape(2, 6)", "reshape((2, 6))", "t()", "T", "mT", "transpose(0, 1)", "permute(1, 0)", "permute((1, 0))", "unsqueeze(0)", "squeeze()", "squeeze(0)", "flatten()", "flatten(1)", "expand(2, 3, 4)", "expand(2, -1, -1)", "expand_as(y)", "repeat(2, 1)", "narrow(0, 0, 2)", "select(0, 1)", "chunk(2)", "chunk(2, 1)", "split(2)", "split([1, 2])", "split(2, dim=1)", "unbind(0)", "unbind()", "diagonal()", "unfold(0, 2, 1)", "as_strided((2, 2), (1, 2))", "contiguous()", "clone()", "detach()", "data", "real", "view_as(y)", "swapaxes(0, 1)", "movedim(0, 1)", "ravel()", "unflatten(0, (1, 3))", "tensor_split(2)", "roll(1, 0)", "flip(0)", "flip([0, 1])", "tile(2)", "index_select(0, torch.tensor([0]))", "gather(0, torch.tensor([[0]]))", "masked_select(x > 2)", "take(torch.tensor([0]))", "to(torch.float64)", "double()", "float()", "int()", "type(torch.float64)", "to(y)", "type_as(y)", "cpu()", "to('cpu')", "to('cpu', torch.float64)", "to(dtype=torch.float64)", "half()", "bool()", "view(torch.int32)", "hsplit(2)", "vsplit(3)", "mH", "H"]:
    add(f"v.{v}", f"return x.{v}", args=f"({X}, {X})", params="x, y")
add("v.data2", "y = x.data\ny = y + 1\nreturn y * x.data")
add("v.data.mul_", "z = x + 1\nz.data.mul_(2)\nreturn z")
add("v.data.copy_", "z = x + 1\nz.data.copy_(x)\nreturn z")
add("v.data[0]", "z = x + 1\nz.data[0] = 5\nreturn z")
add("v.detach[0]", "z = x + 1\nz.detach()[0] = 5\nreturn z")
add("v.detach.add_", "z = x + 1\nz.detach().add_(1)\nreturn z")
add("v.chain", "return x[0][1:].view(-1)[::2]")
add("v.setview", "y = x.clone().view(-1)\ny[2:5] = 0\nreturn y.view(3, 4)")
add("v.settrans", "y = x.clone()\ny.t()[0] = 7\nreturn y")
add("v.unbindset", "y = x.clone()\na, b, c = y.unbind(0)\na += 1\nb.zero_()\nreturn y")
# slices
for s in ["1:", ":-1", "-2:", "::2", "1::2", ":, ::2", ":, -1:", "..., 1:", "1:100", "0:0", ":, :, None", "None, 1:", "1:2, 1:2", "0:2, :, None", "..., None", "slice(0, 2)", "slice(None, None, 2)"]:
    add(f"s[{s}]", f"return x[{s}] * 2")
    add(f"ss[{s}]", f"x = x.clone()\nx[{s}] = x[{s}] * 2\nreturn x")
# sizes
for e in ["x.size()", "x.shape", "x.numel()", "x.dim()", "len(x)"]:
    add(f"size.{e}", f"n = {e}\nreturn x * (n if isinstance(n, int) else n[0] if isinstance(n, (tuple, torch.Size)) else n)")
add("size.view", "b = x.size(0)\nreturn x.view(b, 2, -1)")
add("size.view2", "b, c = x.shape\nreturn x.view(b * c)")
add("size.view3", "b, c = x.size()\nreturn x.view(b, c // 2, 2).transpose(1, 2)")
add("size.zeros", "return torch.zeros(x.size(0), 2)")
add("size.zeros2", "return torch.zeros(x.shape)")
add("size.zeros3", "return torch.zeros(x.size())")
add("size.ones", "return torch.ones(x.size(1), x.size(0)) @ x")
add("size.arange", "return torch.arange(x.size(0))")
add("size.arange2", "return torch.arange(0, x.size(1), 2) + 1")
add("size.arange3", "return torch.arange(x.size(1), dtype=torch.float32, device=x.device)")
add("size.expand", "return x[0].expand(x.size(0), x.size(1))")
add("size.full", "return torch.full((x.size(0), 2), 1.5)")
add("size.float", "return x / x.size(0)")
add("size.float2", "return x / float(x.size(0))")
add("size.sqrt", "return x / x.size(0) ** 0.5")
add("size.int", "return x.view(int(x.size(0) * x.size(1) / 2), 2)")
add("size.neg", "return x.view(x.size(-1), -1)")
add("size.cmp", "if x.size(0) > 2:\n    return x * 2\nreturn x")
add("size.mean", "return x.sum() / x.numel()")
add("size.repeat", "return x.repeat(x.size(0), 1)")
add("size.tuple", "return x.view(*x.shape[:1], 2, 2)")
add("size.tuple2", "return x.view(x.shape[:1] + (2, 2))")
add("size.prod", "return x.reshape(x.shape[0] * x.shape[1])")
add("size.div", "return x.view(2, x.numel() // 2)")
add("size.mod", "return x + x.size(0) % 2")
add("size.item", "return x * int(x.size(0))")
add("size.list", "return x.view([x.size(1), x.size(0)])")
add("size.new", "return x.new_zeros(x.size(0))")
add("size.like", "return torch.zeros_like(x) + torch.ones_like(x, dtype=torch.int32)")
add("size.empty", "return torch.empty(x.size(0)).fill_(1)")
add("size.eye", "return torch.eye(x.size(0))")
add("size.linspace", "return torch.linspace(0, 1, x.size(0))")
add("size.split", "return x.split(x.size(0) - 1)[0]")
add("size.narrow", "return x.narrow(0, 0, x.size(0) - 1)")
add("size.tensor", "return torch.tensor(x.size(0)) + x")
add("size.tensor2", "return torch.tensor([x.size(0), x.size(1)])")
add("size.astensor", "return torch.as_tensor(x.size(0))")
# results
add("r.tuple", "return x + 1, x * 2")
add("r.tuple1", "return (x + 1,)")
add("r.nested", "return x + 1, (x * 2, x)")
add("r.list", "return [x + 1, x * 2]")
add("r.dict", "return {'a': x + 1, 'b': x * 2}")
add("r.same", "return x")
add("r.same2", "return x, x")
add("r.twice", "y = x + 1\nreturn y, y")
add("r.const", "return torch.ones(2)")
add("r.const2", "return x + torch.ones(4)")
add("r.const3", "c = torch.tensor([1., 2., 3., 4.])\nreturn x * c")
add("r.unused", "y = x * 2\nreturn x + 1")
add("r.number", "return x.sum() * 2")
# loops and calls
add("l.loop", "for i in range(3):\n    x = x * i + 1\nreturn x")
add("l.acc", "out = []\nfor i in range(3):\n    out.append(x[i] * 2)\nreturn torch.stack(out)")
add("l.iter", "out = []\nfor row in x:\n    out.append(row.sum())\nreturn torch.stack(out)")
add("l.cat", "return torch.cat([x, x * 2], 1)")
add("l.cat2", "return torch.cat((x[0], x[1]))")
add("l.zip", "out = torch.zeros(4)\nfor a, b in zip(x.unbind(0), x.unbind(0)):\n    out = out + a * b\nreturn out")
add("l.while", "i = 0\nwhile i < 3:\n    x = x + i\n    i += 1\nreturn x")
add("l.lstm", "h = x.new_zeros(4)\nfor t in range(x.size(0)):\n    h = torch.tanh(x[t] + h)\nreturn h")
add("c.relu", "return F.relu(x)")
add("c.relu_", "return F.relu(x * 2, inplace=True)")
add("c.softmax", "return F.softmax(x, dim=1)")
add("c.log_softmax", "return F.log_softmax(x, -1)")
add("c.linear", "return F.linear(x, y)", args=f"({X}, torch.ones(2, 4))", params="x, y")
add("c.linearb", "return F.linear(x, y, y[:, 0])", args=f"({X}, torch.ones(2, 4))", params="x, y")
add("c.matmul", "return x @ x.t()")
add("c.bmm", "return torch.bmm(x[None], x.t()[None])")
add("c.einsum", "return torch.einsum('ij,kj->ik', x, x)")
add("c.where", "return torch.where(x > 3, x, torch.zeros_like(x))")
add("c.where2", "return torch.where(x > 3, x, 0.)")
add("c.max", "return x.max()")
add("c.max1", "return x.max(1)[0]")
add("c.maxv", "v, i = x.max(dim=1)\nreturn v, i")
add("c.maxn", "return x.max(dim=1).values")
add("c.topk", "return x.topk(2)[0]")
add("c.sort", "return torch.sort(x, 1)[1]")
add("c.mean", "return x.mean((0, 1))")
add("c.meank", "return x.mean(1, keepdim=True)")
add("c.var", "return x.var(0, unbiased=False)")
add("c.std", "return x.std()")
add("c.norm", "return x.norm()")
add("c.norm2", "return x.norm(2, 1)")
add("c.norm3", "return F.normalize(x, dim=1)")
add("c.ln", "return F.layer_norm(x, (4,))")
add("c.dropout", "return F.dropout(x, 0.5, False)")
add("c.pad", "return F.pad(x, (1, 1))")
add("c.padc", "return F.pad(x, (1, 1), value=2.)")
add("c.interp", "return F.interpolate(x[None], scale_factor=2)")
add("c.interp2", "return F.interpolate(x[None, None], size=(6, 8), mode='bilinear')")
add("c.pool", "return F.max_pool1d(x[None], 2)")
add("c.apool", "return F.adaptive_avg_pool2d(x[None], (1, 1))")
add("c.conv", "return F.conv1d(x[None], y)", args=f"({X}, torch.ones(2, 3, 2))", params="x, y")
add("c.emb", "return F.embedding(torch.tensor([0, 1]), x)")
add("c.onehot", "return F.one_hot(x[0].long(), 5)")
add("c.ce", "return F.cross_entropy(x, torch.tensor([0, 1, 2]))")
add("c.mse", "return F.mse_loss(x, x + 1)")
add("c.gelu", "return F.gelu(x) + F.silu(x) + F.elu(x)")
add("c.sdpa", "return F.scaled_dot_product_attention(x[None], x[None], x[None])")
add("c.cumsum", "return x.cumsum(0)")
add("c.clamp", "return x.clamp(min=1)")
add("c.clamp2", "return torch.clamp(x, 0, 5)")
add("c.rsub", "return 1 - x")
add("c.rdiv", "return 1 / x")
add("c.rpow", "return 2 ** x")
add("c.pow", "return x ** 2")
add("c.neg", "return -x")
add("c.abs", "return abs(x)")
add("c.inv", "return ~(x > 2)")
add("c.and", "return (x > 2) & (x < 5)")
add("c.or", "return (x > 2) | (x < 5)")
add("c.eq", "return x == 3")
add("c.floordiv", "return x // 2")
add("c.mod", "return x % 3")
add("c.addmm", "return torch.addmm(x, x[:, :3], x)")
add("c.baddbmm", "return torch.add(x, x, alpha=2)")
add("c.meshgrid", "a, b = torch.meshgrid(x[0], x[0], indexing='ij')\nreturn a + b")
add("c.tril", "return torch.tril(torch.ones(4, 4)) * x[0]")
add("c.stack", "return torch.stack([x, x], dim=-1)")
add("c.outer", "return torch.outer(x[0], x[0])")
add("c.tensordot", "return torch.tensordot(x, x, dims=([1], [1]))")
add("c.argmax", "return x.argmax(dim=-1)")
add("c.any", "return (x > 3).any()")
add("c.nonzero", "return (x > 3).nonzero()")
add("c.unique", "return torch.unique(x)")
add("c.bincount", "return torch.bincount(x[0].long())")
add("c.item", "return x * x[0, 1].item()")
add("c.int", "return x * int(x[0, 1])")
add("c.bool", "if x.sum() > 0:\n    x = x + 1\nreturn x")
add("c.nograd", "with torch.no_grad():\n    y = x * 2\nreturn y + x")
add("c.tensor", "return x + torch.tensor(2)")
add("c.tensorf", "return x + torch.tensor([1., 2., 3., 4.])")
add("c.scalar", "return torch.scalar_tensor(2.) + x")
add("c.outarg", "y = torch.empty(3, 4)\ntorch.add(x, 1, out=y)\nreturn y")
add("c.randlike", "return torch.zeros_like(x).uniform_(0, 0)")
add("c.complex", "return torch.complex(x, x).abs()")
add("c.fft", "return torch.fft.fft(x).real")
add("c.linalg", "return torch.linalg.norm(x)")
add("c.inverse", "return torch.linalg.inv(torch.eye(3) * 2) @ x")
add("c.glu", "return F.glu(x)")
add("c.unfoldF", "return F.unfold(x[None, None], 2)")
add("c.gs", "return F.cosine_similarity(x, x)")
add("c.lerp", "return torch.lerp(x, x + 1, 0.5)")
add("c.rep_int", "return x.repeat_interleave(2, 0)")
add("c.hardt", "return F.hardtanh(x) + F.relu6(x) + F.leaky_relu(x, 0.1)")
# params
add("p.list", "return l[0] + l[1]", args=f"([{X}, {X}],)", params="l")
add("p.tuple", "return t[0] + t[1]", args=f"(({X}, {X}),)", params="t")
add("p.dict", "return d['a'] + d['b']", args=f"({{'a': {X}, 'b': {X}}},)", params="d")
add("p.nested", "a, (b, c) = t\nreturn a + b * c", args=f"(({X}, ({X}, {X})),)", params="t")
add("p.unused", "return x + 1", args=f"({X}, {X})", params="x, y")
add("p.same", "return x + y", args=f"({X}, {X})", params="x, y")

# signs and names of variables
for e in ["2 - z", "2 / z", "2 ** z", "2 // z", "z % 2", "2 % z", "z // 2", "z ** 2", "z - 2", "z @ z", "z.pow(2)", "-z", "2 > z", "z.norm()",
          "torch.stack([z])", "z[0]", "z.std()", "z.softmax(0)", "torch.einsum('i,i->i', z, z)", "torch.unique(z)"]:
    add(f"sign.{e}", f"z = x + 1\ny = {e}\nreturn y", args="torch.ones(2)")
# convolutions
C, W = "torch.arange(50.).view(1, 2, 5, 5)", "torch.arange(36.).view(2, 2, 3, 3)"
for e in ["F.conv2d(x, w)", "F.conv2d(x, w, padding=1)", "F.conv2d(x, w, padding='same')", "F.conv2d(x, w, padding='valid')", "F.conv2d(x[0], w)",
          "F.conv2d(x, w, w[:, 0, 0, 0], 2, (1, 0), 1, 1)", "F.conv_transpose2d(x, w)", "F.conv_transpose2d(x, w, output_padding=1, stride=2)",
          "torch.conv2d(x, w)", "F.conv2d(x.repeat(1, 2, 1, 1), w.repeat(2, 1, 1, 1), groups=2)", "F.conv1d(x[:, :, 0], w[:, :, 0], dilation=2)",
          "F.conv3d(x[None], w[:, :1, None])"]:
    add(f"conv.{e}", f"return {e}", args=f"({C}, {W})", params="x, w")
# tensors that are made
for e in ["torch.as_tensor([1, 2]) + x", "torch.as_tensor(3.) + x", "torch.tensor(3, dtype=torch.float64) + x", "torch.tensor([1, 2], device='cpu') + x",
          "torch.tensor(True) | (x > 1)", "x.new_full((2,), 3.)", "torch.rand(2) * 0", "torch.randn(2, 2) * 0", "torch.randint(0, 4, (2,)) * 0",
          "torch.rand_like(x) * 0", "torch.logspace(0, 1, 3)", "torch.empty_like(x) * 0 == 1", "torch.full_like(x, 2)", "torch.hann_window(4)",
          "torch.eye(2, 3)", "torch.tril_indices(2, 2)", "torch.zeros(2, dtype=torch.int64, device=x.device)", "torch.zeros((2,), device='cpu')",
          "torch.zeros(2, requires_grad=True).detach()", "torch.zeros(2, layout=torch.strided)", "x.new_ones(2, dtype=torch.int64)", "torch.arange(3.)",
          "torch.arange(0, 3, 1, device=x.device)", "torch.zeros([])", "torch.empty(2, 2, memory_format=torch.contiguous_format) * 0 == 1",
          "torch.zeros_like(x, memory_format=torch.preserve_format)", "torch.fft.fftfreq(4)", "torch.block_diag(x, x)", "torch.vander(x)"]:
    add(f"made.{e}", f"return {e}", args="torch.ones(2) * .5")


def renumbered(graph):
    """The graph with values numbered in order, without places in files and without numbers of classes."""
    names = {}
    text = re.sub(r"\.___torch_mangle_\d+", "", re.sub(r" # \S+:\d+:\d+", "", graph))
    return re.sub(r"%[A-Za-z_0-9.]+", lambda m: names.setdefault(m.group(), f"%{len(names)}"), text)


def graphs(traced):
    """The graphs of a trace."""
    return {"graph": renumbered(str(traced.graph)), "inlined": renumbered(str(traced.inlined_graph))}


def outcome(source, args, torch):
    """What the trace of a function has."""
    names = {"torch": torch, "F": torch.nn.functional, "nn": torch.nn, "__name__": "__main__"}
    exec(compile(source, "traced.py", "exec"), names)
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        try:
            torch.manual_seed(0)
            traced = torch.jit.trace(names["f"], eval(args, names), check_trace=False, strict=False)
            given = eval(args, names)
            result = traced(*given) if isinstance(given, tuple) else traced(given)
            made = {"code": traced.code, **graphs(traced), "result": repr(result)}
        except Exception as e:
            made = {"error": type(e).__name__}
    made["warnings"] = [str(w.message) for w in noted if w.category.__name__ == "TracerWarning"]
    return made


def module_outcome(case, torch):
    """What the trace of a case of trace_cases.py has."""
    import trace_cases
    made = []

    def keep(*args, **kwargs):
        made.append(trace(*args, **kwargs))
        return made[-1]
    trace, torch.jit.trace = torch.jit.trace, keep
    try:
        trace_cases.outcome(torch, case)
    finally:
        torch.jit.trace = trace
    return graphs(made[0]) if made else {"error": "refused"}


def outcomes(torch):
    """All that the file has, by the name of the function or the case."""
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
    import trace_cases
    return {**{name: outcome(source, args, torch) for name, source, args in CASES},
            **{case: module_outcome(case, torch) for case in trace_cases.cases()}}


if __name__ == "__main__":
    import torch as _torch
    with lzma.open(sys.argv[1], "wt", preset=9) as _file:
        json.dump(outcomes(_torch), _file, indent=0)
