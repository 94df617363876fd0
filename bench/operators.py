"""Operators at sizes that models use, written once for torch and for Cresset.

`rows(torch, n)` yields (name, function of no arguments) for each row; `n` shrinks a size, for quick checks.  A name ends in
"backward" where the function computes the gradients of a call that was made before.  Data is drawn on the CPU from one
seed, so that both libraries begin with equal ones."""

DEVICE = "cuda"


def backward(torch, f, *inputs):
    """The gradients of f(*inputs), for one gradient of its result."""
    leaves = [x.detach().requires_grad_() for x in inputs]
    y = f(*leaves)
    g = torch.ones_like(y)
    return lambda: torch.autograd.grad(y, leaves, g, retain_graph=True)


class Maker:
    """Makes tensors of one dtype."""

    def __init__(self, torch, dtype, n):
        self.torch, self.dtype, self.n = torch, dtype, n

    def __call__(self, *size, last=False):
        x = self.torch.randn([self.n(k) for k in size]).to(DEVICE, self.dtype)
        return x.contiguous(memory_format=self.torch.channels_last) if last else x

    def ids(self, most, *size):
        return self.torch.randint(0, self.n(most), [self.n(k) for k in size]).to(DEVICE)


def both(torch, name, f, *inputs):
    """Two rows: a call, and its gradients."""
    yield name, lambda: f(*inputs)
    yield name + " backward", backward(torch, f, *inputs)


def both_dtypes(torch, make):
    """Rows that are timed in float32 and in bfloat16."""
    f, n = torch.nn.functional, make.n
    x, w, b = make(16384, 768), make(768), make(768)
    yield from both(torch, "layer norm 16384 x 768", lambda x, w, b: f.layer_norm(x, (n(768),), w, b), x, w, b)
    wide = make(16384, 3072)
    yield from both(torch, "gelu 16384 x 3072", f.gelu, wide)
    yield from both(torch, "silu 16384 x 3072", f.silu, wide)
    yield "add 16384 x 768", lambda: x + x
    yield "sum of columns 16384 x 3072", lambda: wide.sum(0)
    yield from both(torch, "softmax 8 x 12 x 512 x 512", lambda x: x.softmax(-1), make(8, 12, 512, 512))
    q, k, v = (make(8, 12, 512, 64) for _ in range(3))
    yield from both(torch, "attention 8 x 12 x 512 x 64, causal",
                    lambda q, k, v: f.scaled_dot_product_attention(q, k, v, is_causal=True), q, k, v)
    yield "heads 16 x 1024 x 12 x 64", lambda t=make(16, 1024, 12, 64): t.transpose(1, 2).contiguous()
    ids = make.ids(50304, 16, 1024)
    yield from both(torch, "embedding 16384 of 50304 x 768", lambda w: f.embedding(ids, w), make(50304, 768))
    targets = make.ids(50304, 4096)
    yield from both(torch, "cross entropy 4096 x 50304", lambda x: f.cross_entropy(x, targets), make(4096, 50304))
    yield from both(torch, "linear 16384 x 768 to 3072", lambda x, w, b: f.linear(x, w, b), x, make(3072, 768), make(3072))


def images(torch, make, last):
    """Rows of images: bfloat16 with channels last, float32 in planes."""
    f = torch.nn.functional
    x = make(32, 64, 112, 112, last=last)
    w, b = make(64), make(64)
    yield from both(torch, "batch norm 32 x 64 x 112 x 112", lambda x, w, b: f.batch_norm(x, None, None, w, b, True), x, w, b)
    yield "relu 32 x 64 x 112 x 112", lambda: f.relu(x)
    yield from both(torch, "max pool 3 / 2", lambda x: f.max_pool2d(x, 3, 2, 1), x)
    yield from both(torch, "average pool 2", lambda x: f.avg_pool2d(x, 2), x)
    yield from both(torch, "bilinear 2 x of 8 x 64 x 64 x 64", lambda x: f.interpolate(x, scale_factor=2, mode="bilinear"),
                    make(8, 64, 64, 64, last=last))
    small = make(32, 64, 56, 56, last=last)
    yield from both(torch, "convolution 3 x 3, 64 channels of 56 x 56", lambda x, w: f.conv2d(x, w, padding=1), small,
                    make(64, 64, 3, 3, last=last))


def tables(torch, make):
    """Rows of indices, sequences and movements, in float32."""
    f, n = torch.nn.functional, make.n
    h, e, src = make(10000, 64), make.ids(10000, 160000), make(160000, 64)
    yield "index_select 160000 x 64", lambda: h.index_select(0, e)
    yield "index_add 160000 x 64", lambda: h.index_add(0, e, src)
    every = make.ids(10000, 160000, 64)
    yield "scatter_add 160000 x 64", lambda: h.scatter_add(0, e.unsqueeze(1).expand(n(160000), n(64)), src)
    yield "scatter_add 160000 x 64, an index for each element", lambda: h.scatter_add(0, every, src)
    bag, ids, starts = make(100000, 64), make.ids(100000, 40960), torch.arange(0, n(40960), n(10)).to(DEVICE)
    yield from both(torch, "embedding bag 4096 of 10", lambda w: f.embedding_bag(ids, w, starts, mode="sum"), bag)
    parts = [make(4096, 1024) for _ in range(4)]
    yield "cat 4 x 4096 x 1024", lambda: torch.cat(parts, 1)
    square = make(4096, 4096)
    yield "transpose 4096", lambda: square.t().contiguous()
    yield "max of columns 4096", lambda: square.max(0)
    yield "cumsum of rows 4096", lambda: square.cumsum(1)
    yield "cumsum of columns 4096", lambda: square.cumsum(0)
    yield "cumsum of rows 128", lambda: square.view(-1, n(128)).cumsum(1)
    yield "cumsum 16M", lambda: square.view(-1).cumsum(0)
    yield "cummax of rows 4096", lambda: square.cummax(1)
    yield "logcumsumexp of rows 4096", lambda: square.logcumsumexp(1)
    yield "logcumsumexp 16M", lambda: square.view(-1).logcumsumexp(0)
    yield "tril 4096", lambda: square.tril()
    yield "sort 1M", lambda: square.view(-1)[:1 << 20].sort()
    yield "sort of rows 4096", lambda: square.sort(1)
    lines = make(64, 50304)
    yield "topk 50 of 64 x 50304", lambda: lines.topk(n(50))
    yield "masked_select 16M", lambda: square.masked_select(square > 0)
    yield "dropout 4096 x 4096", lambda: f.dropout(square, 0.1)
    yield "randn 16M", lambda: torch.randn(square.shape, device=DEVICE)
    layer, steps = torch.nn.LSTM(n(512), n(512)).to(DEVICE), make(64, 32, 512)
    yield from both(torch, "LSTM 64 x 32 x 512", lambda x: layer(x)[0], steps)


def regions(torch, make):
    """Rows of regions of images, where torch has torchvision's operators."""
    try:
        align = torch.ops.torchvision.roi_align
    except (AttributeError, RuntimeError):
        return
    maps, n = make(2, 256, 200, 200), make.n
    corner = torch.rand(n(512), 2) * n(140)
    images = torch.randint(0, 2, (n(512), 1)).float()
    boxes = torch.cat([images, corner, corner + 4 + torch.rand(n(512), 2) * n(50)], 1).to(DEVICE)
    for samples in (2, -1):
        yield from both(torch, f"roi_align of 512, {samples} samples",
                        lambda x, samples=samples: align(x, boxes, 1.0, 7, 7, samples, True), maps)


def rows(torch, n=lambda k: k):
    for dtype, last in ((torch.float32, False), (torch.bfloat16, True)):
        torch.manual_seed(0)
        make, name = Maker(torch, dtype, n), str(dtype).rpartition(".")[2]
        for group in (both_dtypes(torch, make), images(torch, make, last)):
            for row, f in group:
                yield f"{row} {name}", f
    for group in (tables, regions):
        for row, f in group(torch, Maker(torch, torch.float32, n)):
            yield f"{row} float32", f


# --- optimizers ---

def gpt2_parameters(torch, n=lambda k: k):
    """Parameters with the sizes of GPT-2 small, and gradients."""
    width, sizes = n(768), [(n(50304), n(768)), (n(1024), n(768))]
    for _ in range(12):
        sizes += [(width,), (width,), (3 * width, width), (3 * width,), (width, width), (width,), (width,), (width,),
                  (4 * width, width), (4 * width,), (width, 4 * width), (width,)]
    parameters = [torch.nn.Parameter(torch.zeros(size, device=DEVICE)) for size in sizes]
    for p in parameters:
        p.grad = torch.full_like(p, 1e-3)
    return parameters


def steps(torch, n=lambda k: k):
    """(name, function): the enqueueing of a small operator, and steps over the parameters of GPT-2."""
    x = torch.zeros(4, device=DEVICE)
    yield "small addition, 1000 times", lambda: [x + x for _ in range(1000)]
    parameters = gpt2_parameters(torch, n)
    optimizer = torch.optim.AdamW(parameters, fused=True)
    yield "AdamW, fused", optimizer.step
    yield "clip_grad_norm_", lambda: torch.nn.utils.clip_grad_norm_(parameters, 1.0)
