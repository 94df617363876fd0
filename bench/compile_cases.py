"""The programs that bench/compile.py measures; the same text runs with torch.

A case is a function of (torch, nn, F, small) that returns (part, step): `part` is compiled, `step(part)` is timed and
returns tensors. `small` asks for sizes at which only the cost of a
call is left."""
import math

CASES = {}


def case(name, **facts):
    """facts: training - weights change, peak memory is compared."""
    def add(f):
        CASES[name] = (f, facts)
        return f
    return add


def lerp(n):
    def make(torch, nn, F, small):
        w, x, y = (torch.rand(4 if small else n) for _ in range(3))
        return (lambda w, x, y: w * x + (1 - w) * y), (lambda part: part(w, x, y))
    return make


case("lerp of 200")(lerp(200))
case("lerp of 16M")(lerp(1 << 24))


@case("bias + GELU")
def _(torch, nn, F, small):
    x, b = torch.randn(*((1, 4) if small else (512, 3072))), torch.randn(4 if small else 3072)
    return (lambda x, b: F.gelu(x + b)), (lambda part: part(x, b))


@case("layer norm, forward and backward")
def _(torch, nn, F, small):
    rows, n = (1, 4) if small else (2048, 768)
    x, g = torch.randn(rows, n, requires_grad=True), torch.randn(rows, n)
    w, b = torch.ones(n, requires_grad=True), torch.zeros(n, requires_grad=True)

    def step(part):
        y = part(x, w, b)
        return (y, *torch.autograd.grad(y, (x, w, b), g))
    return (lambda x, w, b: F.layer_norm(x, (x.shape[-1],), w, b)), step


@case("softmax cross-entropy, forward and backward")
def _(torch, nn, F, small):
    rows, n = (1, 4) if small else (1024, 5000)
    x, t = torch.randn(rows, n, requires_grad=True), torch.randint(0, n, (rows,))

    def step(part):
        loss = part(x, t)
        return (loss, *torch.autograd.grad(loss, (x,)))
    return (lambda x, t: -(x.softmax(-1).log().gather(1, t.unsqueeze(1))).mean()), step


@case("LSTM cell, 50 steps")
def _(torch, nn, F, small):
    batch, n = (1, 4) if small else (32, 256)
    steps = 50
    x, h, c = torch.randn(steps, batch, n), torch.zeros(batch, n), torch.zeros(batch, n)
    wx, wh, b = torch.randn(n, 4 * n) / math.sqrt(n), torch.randn(n, 4 * n) / math.sqrt(n), torch.zeros(4 * n)

    def run(x, h, c, wx, wh, b):
        for t in range(steps):
            i, f, g, o = (x[t] @ wx + h @ wh + b).chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        return h, c
    return run, (lambda part: part(x, h, c, wx, wh, b))


def training(torch, F, model, optimizer, x, t):
    def run(x, t):
        optimizer.zero_grad()
        out = model(x)
        loss = F.cross_entropy(out.reshape(-1, out.shape[-1]), t.reshape(-1))
        loss.backward()
        optimizer.step()
        return loss
    return run, (lambda part: part(x, t))


@case("MLP 784-512-512-10, training step", training=True)
def _(torch, nn, F, small):
    a, n, batch = (4, 4, 1) if small else (784, 512, 64)
    model = nn.Sequential(nn.Linear(a, n), nn.ReLU(), nn.Linear(n, n), nn.ReLU(), nn.Linear(n, 10))
    return training(torch, F, model, torch.optim.Adam(model.parameters(), lr=1e-3), torch.randn(batch, a),
                    torch.randint(0, 10, (batch,)))


def attention(torch, nn, F, width, heads, causal):
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

        def forward(self, x):
            n, length, _ = x.shape
            q, k, v = (part.reshape(n, length, heads, width // heads).transpose(1, 2)
                       for part in self.qkv(x).chunk(3, -1))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
            return self.out(y.transpose(1, 2).reshape(n, length, width))
    return Attention()


@case("BERT-base encoder, 1 x 128")
def _(torch, nn, F, small):
    width, heads, length, layers = (8, 2, 4, 12) if small else (768, 12, 128, 12)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = attention(torch, nn, F, width, heads, False)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-12), nn.LayerNorm(width, eps=1e-12)

        def forward(self, x):
            x = self.norm1(x + self.attention(x))
            return self.norm2(x + self.down(F.gelu(self.up(x))))

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(30522, width), nn.Embedding(512, width)
            self.norm = nn.LayerNorm(width, eps=1e-12)
            self.layers = nn.ModuleList([Layer() for _ in range(layers)])

        def forward(self, ids):
            x = self.norm(self.words(ids) + self.places(torch.arange(ids.shape[1])))
            for layer in self.layers:
                x = layer(x)
            return x
    model, ids = Encoder().eval(), torch.randint(0, 30522, (1, length))

    def step(part):
        with torch.no_grad():
            return part(ids)
    return model, step


@case("ResNet-50, 1 x 3 x 224 x 224")
def _(torch, nn, F, small):
    first, size = (4, 32) if small else (64, 224)

    class Block(nn.Module):
        def __init__(self, have, width, stride):
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(have, width, 1, bias=False), nn.BatchNorm2d(width)
            self.conv2 = nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False)
            self.bn2 = nn.BatchNorm2d(width)
            self.conv3, self.bn3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
            self.shorter = None
            if stride != 1 or have != 4 * width:
                self.shorter = nn.Sequential(nn.Conv2d(have, 4 * width, 1, stride=stride, bias=False),
                                             nn.BatchNorm2d(4 * width))

        def forward(self, x):
            y = F.relu(self.bn1(self.conv1(x)))
            y = F.relu(self.bn2(self.conv2(y)))
            y = self.bn3(self.conv3(y))
            return F.relu(y + (x if self.shorter is None else self.shorter(x)))

    class ResNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.bn = nn.Conv2d(3, first, 7, stride=2, padding=3, bias=False), nn.BatchNorm2d(first)
            blocks, have = [], first
            for k, count in enumerate((3, 4, 6, 3)):
                for i in range(count):
                    blocks.append(Block(have, first << k, 2 if k and not i else 1))
                    have = 4 * (first << k)
            self.blocks, self.head = nn.ModuleList(blocks), nn.Linear(have, 1000)

        def forward(self, x):
            x = F.max_pool2d(F.relu(self.bn(self.conv(x))), 3, stride=2, padding=1)
            for block in self.blocks:
                x = block(x)
            return self.head(x.mean((2, 3)))
    model, x = ResNet().eval(), torch.randn(1, 3, size, size)

    def step(part):
        with torch.no_grad():
            return part(x)
    return model, step


@case("GPT 6 x 384, training step, 8 x 128", training=True)
def _(torch, nn, F, small):
    width, heads, length, batch = (8, 2, 4, 1) if small else (384, 6, 128, 8)
    words, layers = 65, 6

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attention = attention(torch, nn, F, width, heads, True)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            x = x + self.attention(self.norm1(x))
            return x + self.down(F.gelu(self.up(self.norm2(x))))

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
            self.layers = nn.ModuleList([Layer() for _ in range(layers)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

        def forward(self, ids):
            x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
            for layer in self.layers:
                x = layer(x)
            return self.head(self.norm(x))
    model = GPT()
    return training(torch, F, model, torch.optim.AdamW(model.parameters(), lr=1e-3),
                    torch.randint(0, words, (batch, length)), torch.randint(0, words, (batch, length)))


# --- forms: indices, reductions in the middle, images, layers ---

def forward(name, make):
    """A case of one function of tensors; `make(torch, F, small)` returns the function and the tensors."""
    def build(torch, nn, F, small):
        part, tensors = make(torch, F, small)

        def step(compiled):
            with torch.no_grad():
                return compiled(*tensors)
        return part, step
    case(name)(build)


def both_ways(part, inputs, others=()):
    """Steps that also compute the gradients of `inputs`."""
    def make(torch):
        def step(compiled):
            y = compiled(*inputs, *others)
            return (y.detach(), *torch.autograd.grad(y, inputs, torch.ones_like(y)))
        return part, step
    return make


forward("nearest centroid, 100,000 x 8 against 16", lambda torch, F, small: (
    lambda x, c: ((x[:, None, :] - c[None]) ** 2).sum(-1).argmin(1),
    (torch.randn(4 if small else 100000, 8), torch.randn(16, 8))))

for what in ("argmax", "argmin", "amax"):
    forward(f"{what} over the middle of 64 x 256 x 512", lambda torch, F, small, what=what: (
        lambda x: getattr(x * 2 + 1, what)(1), (torch.randn(2 if small else 64, 4 if small else 256, 4 if small else 512),)))

forward("uint8 images NHWC to normalized NCHW, 16 x 224 x 224", lambda torch, F, small: (
    lambda x, mean, std: ((x.permute(0, 3, 1, 2).float() / 255 - mean) / std).contiguous(),
    (torch.randint(0, 256, (1, 4, 4, 3) if small else (16, 224, 224, 3), dtype=torch.uint8),
     torch.rand(3, 1, 1), torch.rand(3, 1, 1) + 0.5)))

forward("cumsum chain, 1024 x 4096", lambda torch, F, small: (
    lambda x: (x * 0.5 + 1).cumsum(1).sigmoid() * 2, (torch.randn(2 if small else 1024, 4 if small else 4096),)))

forward("roll stencil float64, 1024 x 1024", lambda torch, F, small: (
    lambda u: u + 0.1 * (u.roll(1, 0) + u.roll(-1, 0) + u.roll(1, 1) + u.roll(-1, 1) - 4 * u),
    (torch.randn(4 if small else 1024, 4 if small else 1024, dtype=torch.float64),)))

forward("complex multiply, 1M", lambda torch, F, small: (
    lambda a, b: a * b + a, tuple(torch.randn(4 if small else 1 << 20, dtype=torch.complex64) for _ in range(2))))

forward("layer norm at width 777, 2048 rows", lambda torch, F, small: (
    lambda x, w, b: F.layer_norm(x * 2, (777,), w, b), (torch.randn(1 if small else 2048, 777), torch.rand(777), torch.rand(777))))

forward("top-k sampling, 32 x 32,000", lambda torch, F, small: (
    lambda x, noise: (lambda top: top[1].gather(1, ((top[0] / 0.8).softmax(-1) / noise).argmax(-1, keepdim=True)))(x.topk(50)),
    (torch.randn(1 if small else 32, 64 if small else 32000), torch.rand(1 if small else 32, 50) + 0.01)))

forward("embedding + positions + norm, 16 x 512 x 256", lambda torch, F, small: (
    lambda ids, w, p: F.layer_norm(F.embedding(ids, w) + p, (p.shape[1],)),
    (torch.randint(0, 10000, (1, 4) if small else (16, 512)), torch.randn(10000, 8 if small else 256),
     torch.randn(4 if small else 512, 8 if small else 256))))

forward("gather and pointwise, 1024 x 2048", lambda torch, F, small: (
    lambda x, i, y: x.gather(1, i) * y + 1, (torch.randn(2 if small else 1024, 2048),
                                            torch.randint(0, 2048, (2 if small else 1024, 2048)), torch.randn(2 if small else 1024, 2048))))

forward("index_select of rows and pointwise, 4096 x 512", lambda torch, F, small: (
    lambda x, i, y: (x.index_select(0, i) + y).relu(), (torch.randn(8192, 512), torch.randint(0, 8192, (2 if small else 4096,)),
                                                       torch.randn(2 if small else 4096, 512))))

forward("pad, flip and pointwise, 32 x 3 x 256 x 256", lambda torch, F, small: (
    lambda x: (F.pad(x, (1, 1, 1, 1), mode="reflect").flip(-1) * 2 - 1).relu(),
    (torch.randn(1 if small else 32, 3, 4 if small else 256, 4 if small else 256),)))

forward("cat of channels and pointwise, 16 x (32 + 32) x 64 x 64", lambda torch, F, small: (
    lambda a, b, w: (torch.cat([a, b], 1) * w).relu(),
    (*(torch.randn(1 if small else 16, 32, 4 if small else 64, 4 if small else 64) for _ in range(2)), torch.rand(64, 1, 1))))


@case("masked softmax, forward and backward, 96 x 256 x 256")
def _(torch, nn, F, small):
    n = 4 if small else 256
    x, mask = torch.randn(2 if small else 96, n, n, requires_grad=True), torch.rand(n, n) < 0.8
    return both_ways(lambda x, mask: x.masked_fill(~mask, -1e9).softmax(-1), (x,), (mask,))(torch)


@case("batch norm + relu, training, 32 x 64 x 56 x 56", training=True)
def _(torch, nn, F, small):
    norm = nn.BatchNorm2d(64)
    x = torch.randn(1 if small else 32, 64, 4 if small else 56, 4 if small else 56, requires_grad=True)

    def step(part):
        y = part(x)
        return torch.autograd.grad(y, (x, *norm.parameters()), torch.ones_like(y))
    return (lambda x: norm(x).relu()), step


def unet(torch, nn, small):
    class Block(nn.Module):
        def __init__(self, have, want):
            super().__init__()
            self.conv1, self.norm1 = nn.Conv2d(have, want, 3, padding=1), nn.BatchNorm2d(want)
            self.conv2, self.norm2 = nn.Conv2d(want, want, 3, padding=1), nn.BatchNorm2d(want)

        def forward(self, x):
            return self.norm2(self.conv2(self.norm1(self.conv1(x)).relu())).relu()

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.down, self.middle, self.up = Block(16, 32), Block(32, 64), Block(96, 32)

        def forward(self, x):
            wide = self.down(x)
            deep = self.middle(nn.functional.max_pool2d(wide, 2))
            deep = nn.functional.interpolate(deep, scale_factor=2, mode="nearest")
            return self.up(torch.cat([wide, deep], 1))
    return UNet(), torch.randn(1 if small else 4, 16, 8 if small else 64, 8 if small else 64)


@case("U-Net block, inference, 4 x 16 x 64 x 64")
def _(torch, nn, F, small):
    model, x = unet(torch, nn, small)
    model.eval()

    def step(part):
        with torch.no_grad():
            return part(x)
    return model, step


def gradients(torch, model, part, x):
    y = part(x)
    return torch.autograd.grad(y, tuple(model.parameters()), torch.ones_like(y))


@case("U-Net block, training, 4 x 16 x 64 x 64", training=True)
def _(torch, nn, F, small):
    model, x = unet(torch, nn, small)
    return model, lambda part: gradients(torch, model, part, x)


@case("MobileNet block, training, 8 x 32 x 56 x 56", training=True)
def _(torch, nn, F, small):
    class Block(nn.Module):
        def __init__(self, n, wide):
            super().__init__()
            self.layers = nn.Sequential(
                nn.Conv2d(n, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU6(),
                nn.Conv2d(wide, wide, 3, padding=1, groups=wide, bias=False), nn.BatchNorm2d(wide), nn.ReLU6(),
                nn.Conv2d(wide, n, 1, bias=False), nn.BatchNorm2d(n))

        def forward(self, x):
            return x + self.layers(x)
    model = Block(32, 192)
    x = torch.randn(1 if small else 8, 32, 4 if small else 56, 4 if small else 56)
    return model, lambda part: gradients(torch, model, part, x)


@case("nn.LSTM layer, training, 50 x 32 x 128", training=True)
def _(torch, nn, F, small):
    model = nn.LSTM(8 if small else 128, 8 if small else 128)
    x = torch.randn(4 if small else 50, 1 if small else 32, 8 if small else 128)

    def step(part):
        y = part(x)[0]
        return torch.autograd.grad(y, tuple(model.parameters()), torch.ones_like(y))
    return model, step


@case("embedding + cross entropy over 32,000 classes, training", training=True)
def _(torch, nn, F, small):
    classes, width = (64, 8) if small else (32000, 64)
    words, head = nn.Embedding(classes, width), nn.Linear(width, classes, bias=False)
    ids, t = (torch.randint(0, classes, (2 if small else 256,)) for _ in range(2))
    parameters = (words.weight, head.weight)

    def step(part):
        loss = part(ids, t)
        return (loss.detach(), *torch.autograd.grad(loss, parameters))
    return (lambda ids, t: F.cross_entropy(head(words(ids)), t)), step


@case("cross entropy over 32,000 classes, forward and backward, 256 rows")
def _(torch, nn, F, small):
    rows, n = (1, 4) if small else (256, 32000)
    x, t = torch.randn(rows, n, requires_grad=True), torch.randint(0, n, (rows,))

    def step(part):
        loss = part(x, t)
        return (loss.detach(), *torch.autograd.grad(loss, (x,)))
    return (lambda x, t: F.cross_entropy(x, t)), step


@case("Llama block, forward and backward, 4 x 128 x 256", training=True)
def _(torch, nn, F, small):
    width, heads, length = (8, 2, 4) if small else (256, 4, 128)
    each = width // heads

    class Norm(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(width))

        def forward(self, x):
            return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * self.weight

    def turn(x, cos, sin):
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat([-b, a], -1) * sin

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = Norm(), Norm()
            self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
            self.gate, self.up = (nn.Linear(width, 3 * width, bias=False) for _ in range(2))
            self.down = nn.Linear(3 * width, width, bias=False)
            angle = torch.arange(length)[:, None] / 10000 ** (torch.arange(0, each, 2)[None] / each)
            self.cos, self.sin = (torch.cat([f, f], -1) for f in (angle.cos(), angle.sin()))

        def forward(self, x):
            n, length, _ = x.shape
            h = self.norm1(x)
            q, k, v = (f(h).reshape(n, length, heads, each).transpose(1, 2) for f in (self.q, self.k, self.v))
            y = F.scaled_dot_product_attention(turn(q, self.cos, self.sin), turn(k, self.cos, self.sin), v, is_causal=True)
            x = x + self.o(y.transpose(1, 2).reshape(n, length, width))
            h = self.norm2(x)
            return x + self.down(F.silu(self.gate(h)) * self.up(h))
    model = Block()
    x = torch.randn(1 if small else 4, length, width)
    return model, lambda part: gradients(torch, model, part, x)
