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
