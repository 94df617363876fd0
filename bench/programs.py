"""Whole programs of the kinds that people train, written once for torch and for Cresset.

Each entry of PROGRAMS is a function of the library that returns `step`: a function without arguments that runs one
step and returns its loss (or another number) as a tensor.  Weights and data are drawn on the CPU from one seed,
so that both libraries begin with equal ones."""

DEVICE = "cuda"


def on_device(torch, module, dtype=None):
    return module.to(DEVICE, dtype) if dtype else module.to(DEVICE)


def trainer(torch, module, loss, optimizer, ahead=None):
    """A step of training: forward, backward, and the optimizer."""
    forward = ahead(module) if ahead else module

    def step():
        optimizer.zero_grad(set_to_none=True)
        value = loss(forward)
        value.backward()
        optimizer.step()
        return value.detach()
    return step


# --- transformers ---

def blocks_of(torch):
    nn, functional = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self, width, heads, causal, dropout=0.0, bias=True):
            super().__init__()
            self.heads, self.causal, self.p = heads, causal, dropout
            self.ln1, self.ln2 = nn.LayerNorm(width, bias=bias), nn.LayerNorm(width, bias=bias)
            self.qkv, self.out = nn.Linear(width, 3 * width, bias), nn.Linear(width, width, bias)
            self.up, self.down = nn.Linear(width, 4 * width, bias), nn.Linear(4 * width, width, bias)

        def forward(self, x):
            b, t, c = x.shape
            q, k, v = self.qkv(self.ln1(x)).split(c, 2)
            q, k, v = (z.view(b, t, self.heads, c // self.heads).transpose(1, 2) for z in (q, k, v))
            y = functional.scaled_dot_product_attention(q, k, v, dropout_p=self.p if self.training else 0.0, is_causal=self.causal)
            x = x + functional.dropout(self.out(y.transpose(1, 2).reshape(b, t, c)), self.p, self.training)
            return x + functional.dropout(self.down(functional.gelu(self.up(self.ln2(x)))), self.p, self.training)

    class Transformer(nn.Module):
        def __init__(self, words, length, width, heads, layers, causal, dropout=0.0, bias=True):
            super().__init__()
            self.p = dropout
            self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
            self.blocks = nn.ModuleList([Block(width, heads, causal, dropout, bias) for _ in range(layers)])
            self.ln, self.head = nn.LayerNorm(width, bias=bias), nn.Linear(width, words, bias=False)
            self.head.weight = self.words.weight

        def forward(self, ids, targets=None):
            x = self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
            x = functional.dropout(x, self.p, self.training)
            for block in self.blocks:
                x = block(x)
            logits = self.head(self.ln(x))
            if targets is None:
                return logits
            return functional.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))
    return Block, Transformer


def language(torch, words, batch, length, width, heads, layers, dtype=None, causal=True, dropout=0.0, ahead=None):
    _, Transformer = blocks_of(torch)
    torch.manual_seed(0)
    module = Transformer(words, length, width, heads, layers, causal, dropout)
    ids = torch.randint(0, words, (batch, length + 1)).to(DEVICE)
    module = on_device(torch, module, dtype)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4)
    return trainer(torch, module, lambda f: f(ids[:, :-1], ids[:, 1:].contiguous()), optimizer, ahead)


def gpt2(torch, ahead=None):
    return language(torch, 50304, 16, 1024, 768, 12, 12, torch.bfloat16, ahead=ahead)


def nanogpt_char(torch, ahead=None):
    return language(torch, 65, 64, 256, 384, 6, 6, ahead=ahead)


def nanogpt_default(torch, ahead=None, length=256, width=384, heads=6, layers=6):
    """nanoGPT's training of characters as its train.py runs by default: autocast to bfloat16, TF32 where float32 remains,
    dropout, a fused AdamW with decay of matrices only, clipped gradients."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    _, Transformer = blocks_of(torch)
    torch.manual_seed(0)
    module = on_device(torch, Transformer(65, length, width, heads, layers, True, 0.2, False))
    ids = torch.randint(0, 65, (64, length + 1)).to(DEVICE)
    parameters = list(module.parameters())
    groups = [{"params": [p for p in parameters if p.dim() >= 2], "weight_decay": 0.1},
              {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.99), fused=True)
    forward = ahead(module) if ahead else module

    def step():
        with torch.autocast("cuda", torch.bfloat16):
            loss = forward(ids[:, :-1], ids[:, 1:].contiguous())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()
    return step


def bert_training(torch, ahead=None):
    return language(torch, 30522, 8, 128, 768, 12, 12, causal=False, ahead=ahead)


def bert_inference(torch, ahead=None):
    _, Transformer = blocks_of(torch)
    torch.manual_seed(0)
    module = on_device(torch, Transformer(30522, 128, 768, 12, 12, False), torch.bfloat16).eval()
    ids = torch.randint(0, 30522, (8, 128)).to(DEVICE)
    forward = ahead(module) if ahead else module

    def step():
        with torch.no_grad():
            return forward(ids)[0, 0, 0]
    return step


def vit_b16(torch, ahead=None):
    nn, functional = torch.nn, torch.nn.functional
    Block, _ = blocks_of(torch)

    class ViT(nn.Module):
        def __init__(self):
            super().__init__()
            self.patches = nn.Conv2d(3, 768, 16, 16)
            self.first, self.places = nn.Parameter(torch.zeros(1, 1, 768)), nn.Parameter(torch.randn(1, 197, 768) * 0.02)
            self.blocks = nn.Sequential(*[Block(768, 12, False) for _ in range(12)])
            self.ln, self.head = nn.LayerNorm(768), nn.Linear(768, 1000)

        def forward(self, x):
            x = self.patches(x).flatten(2).transpose(1, 2)
            x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.places
            return self.head(self.ln(self.blocks(x))[:, 0])
    torch.manual_seed(0)
    module, x, y = ViT(), torch.randn(32, 3, 224, 224), torch.randint(0, 1000, (32,))
    module, x, y = on_device(torch, module, torch.bfloat16), x.to(DEVICE, torch.bfloat16), y.to(DEVICE)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4)
    return trainer(torch, module, lambda f: functional.cross_entropy(f(x), y), optimizer, ahead)


def llama_decode(torch, ahead=None):
    """32 tokens, one after the other, by a small Llama with a static cache."""
    nn, functional = torch.nn, torch.nn.functional
    width, heads, layers, length = 256, 8, 4, 64

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.n1, self.n2 = nn.RMSNorm(width), nn.RMSNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
            self.gate, self.up = nn.Linear(width, 688, bias=False), nn.Linear(width, 688, bias=False)
            self.down = nn.Linear(688, width, bias=False)
            self.register_buffer("k", torch.zeros(1, heads, length, width // heads))
            self.register_buffer("v", torch.zeros(1, heads, length, width // heads))

        def forward(self, x, at, cos, sin, mask):
            q, k, v = self.qkv(self.n1(x)).view(1, 1, 3, heads, -1).permute(2, 0, 3, 1, 4)
            q, k = (torch.cat([a * cos - b * sin, b * cos + a * sin], -1) for a, b in (q.chunk(2, -1), k.chunk(2, -1)))
            self.k.index_copy_(2, at, k)
            self.v.index_copy_(2, at, v)
            y = functional.scaled_dot_product_attention(q, self.k, self.v, attn_mask=mask)
            x = x + self.out(y.transpose(1, 2).reshape(1, 1, width))
            h = self.n2(x)
            return x + self.down(functional.silu(self.gate(h)) * self.up(h))
    torch.manual_seed(0)
    words, stack, head = nn.Embedding(1000, width), nn.ModuleList([Layer() for _ in range(layers)]), nn.Linear(width, 1000)
    for part in (words, stack, head):
        part.to(DEVICE)
    angle = torch.arange(length, device=DEVICE)[:, None] / 10000 ** (torch.arange(width // heads // 2, device=DEVICE) / 16)
    cos, sin, places = angle.cos(), angle.sin(), torch.arange(length, device=DEVICE)

    def token(ids, at):
        x, mask = words(ids)[None], (places <= at)[None]
        for layer in stack:
            x = layer(x, at, cos[at], sin[at], mask)
        return head(x)[0].argmax(-1)
    run = ahead(token) if ahead else token

    def step():
        with torch.no_grad():
            ids = torch.zeros(1, dtype=torch.long, device=DEVICE)
            for i in range(32):
                ids = run(ids, places[i:i + 1])
            return ids[0].float()
    return step


# --- images ---

def resnet50(torch, ahead=None):
    nn, functional = torch.nn, torch.nn.functional

    class Bottleneck(nn.Module):
        def __init__(self, came, width, stride):
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(came, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True),
                nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True),
                nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width))
            self.short = nn.Identity() if stride == 1 and came == 4 * width else nn.Sequential(
                nn.Conv2d(came, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))

        def forward(self, x):
            return functional.relu(self.body(x) + self.short(x))
    torch.manual_seed(0)
    layers, came = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(True), nn.MaxPool2d(3, 2, 1)], 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(count):
            layers.append(Bottleneck(came, width, stride if i == 0 else 1))
            came = 4 * width
    module = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))
    x, y = torch.randn(128, 3, 224, 224), torch.randint(0, 1000, (128,))
    module = on_device(torch, module, torch.bfloat16).to(memory_format=torch.channels_last)
    x, y = x.to(DEVICE, torch.bfloat16).to(memory_format=torch.channels_last), y.to(DEVICE)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    return trainer(torch, module, lambda f: functional.cross_entropy(f(x), y), optimizer, ahead)


def unet(torch, ahead=None):
    nn, functional = torch.nn, torch.nn.functional

    def double(came, out):
        return nn.Sequential(nn.Conv2d(came, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU(),
                             nn.Conv2d(out, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU())

    class UNet(nn.Module):
        def __init__(self, widths=(32, 64, 128, 256)):
            super().__init__()
            self.down = nn.ModuleList([double(a, b) for a, b in zip((3, *widths), widths)])
            self.up = nn.ModuleList([double(a + b, a) for a, b in zip(widths[:-1], widths[1:])])
            self.last = nn.Conv2d(widths[0], 2, 1)

        def forward(self, x):
            kept = []
            for i, layer in enumerate(self.down):
                x = layer(functional.max_pool2d(x, 2) if i else x)
                kept.append(x)
            for layer, other in zip(reversed(self.up), reversed(kept[:-1])):
                x = functional.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
                x = layer(torch.cat([x, other], 1))
            return self.last(x)
    torch.manual_seed(0)
    module, x, y = UNet(), torch.randn(8, 3, 128, 128), torch.randint(0, 2, (8, 128, 128))
    module, x, y = on_device(torch, module), x.to(DEVICE), y.to(DEVICE)
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-3)
    return trainer(torch, module, lambda f: functional.cross_entropy(f(x), y), optimizer, ahead)


def mnist(torch, ahead=None):
    nn, functional = torch.nn, torch.nn.functional
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                           nn.Linear(9216, 128), nn.ReLU(), nn.Linear(128, 10), nn.LogSoftmax(1))
    x, y = torch.randn(64, 1, 28, 28), torch.randint(0, 10, (64,))
    module, x, y = on_device(torch, module), x.to(DEVICE), y.to(DEVICE)
    optimizer = torch.optim.Adadelta(module.parameters(), lr=1.0)
    return trainer(torch, module, lambda f: functional.nll_loss(f(x), y), optimizer, ahead)


def mlp(torch, ahead=None):
    nn, functional = torch.nn, torch.nn.functional
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    x, y = torch.randn(64, 784), torch.randint(0, 10, (64,))
    module, x, y = on_device(torch, module), x.to(DEVICE), y.to(DEVICE)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    return trainer(torch, module, lambda f: functional.cross_entropy(f(x), y), optimizer, ahead)


# --- graphs, tables, sequences ---

def graph_network(torch, ahead=None):
    nn, functional = torch.nn, torch.nn.functional

    class Layer(nn.Module):
        def __init__(self, came, out):
            super().__init__()
            self.own, self.others = nn.Linear(came, out), nn.Linear(came, out)

        def forward(self, x, start, end, degree):
            total = torch.zeros_like(x).index_add(0, end, x[start])
            return self.own(x) + self.others(total / degree)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([Layer(64, 64), Layer(64, 64), Layer(64, 7)])

        def forward(self, x, start, end, degree):
            for i, layer in enumerate(self.layers):
                x = layer(functional.relu(x) if i else x, start, end, degree)
            return x
    torch.manual_seed(0)
    module, x, y = Net(), torch.randn(20000, 64), torch.randint(0, 7, (20000,))
    start, end = torch.randint(0, 20000, (2, 200000)).to(DEVICE)
    module, x, y = on_device(torch, module), x.to(DEVICE), y.to(DEVICE)
    degree = torch.bincount(end, minlength=20000).clamp(min=1)[:, None]
    optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
    return trainer(torch, module, lambda f: functional.cross_entropy(f(x, start, end, degree), y), optimizer, ahead)


def dlrm(torch, ahead=None):
    nn, functional = torch.nn, torch.nn.functional

    class DLRM(nn.Module):
        def __init__(self):
            super().__init__()
            self.tables = nn.ModuleList([nn.EmbeddingBag(20000, 64, mode="sum") for _ in range(8)])
            self.bottom = nn.Sequential(nn.Linear(13, 256), nn.ReLU(), nn.Linear(256, 64), nn.ReLU())
            self.top = nn.Sequential(nn.Linear(64 + 36, 256), nn.ReLU(), nn.Linear(256, 1))
            self.register_buffer("pairs", torch.tril_indices(9, 9, -1))

        def forward(self, dense, ids):
            x = self.bottom(dense)
            z = torch.stack([x] + [table(ids[i]) for i, table in enumerate(self.tables)], 1)
            products = torch.bmm(z, z.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
            return self.top(torch.cat([x, products], 1)).squeeze(1)
    torch.manual_seed(0)
    module, dense = DLRM(), torch.randn(2048, 13)
    ids, y = torch.randint(0, 20000, (8, 2048, 4)), torch.rand(2048).round()
    module, dense, ids, y = on_device(torch, module), dense.to(DEVICE), ids.to(DEVICE), y.to(DEVICE)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.001)
    return trainer(torch, module, lambda f: functional.binary_cross_entropy_with_logits(f(dense, ids), y), optimizer, ahead)


def factorization(torch, ahead=None):
    nn, functional = torch.nn, torch.nn.functional

    class Factors(nn.Module):
        def __init__(self):
            super().__init__()
            self.users, self.items = nn.Embedding(50000, 64), nn.Embedding(20000, 64)

        def forward(self, u, i):
            return (self.users(u) * self.items(i)).sum(1)
    torch.manual_seed(0)
    module = Factors()
    u, i, y = torch.randint(0, 50000, (8192,)), torch.randint(0, 20000, (8192,)), torch.rand(8192)
    module, u, i, y = on_device(torch, module), u.to(DEVICE), i.to(DEVICE), y.to(DEVICE)
    optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
    return trainer(torch, module, lambda f: functional.mse_loss(f(u, i), y), optimizer, ahead)


def word_language(torch, ahead=None):
    nn, functional = torch.nn, torch.nn.functional

    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.rnn, self.head = nn.Embedding(10000, 200), nn.LSTM(200, 200, 2), nn.Linear(200, 10000)

        def forward(self, ids):
            return self.head(self.rnn(self.words(ids))[0])
    torch.manual_seed(0)
    module, ids = Words(), torch.randint(0, 10000, (36, 20))
    module, ids = on_device(torch, module), ids.to(DEVICE)
    optimizer = torch.optim.SGD(module.parameters(), lr=1.0)
    return trainer(torch, module, lambda f: functional.cross_entropy(f(ids[:-1]).view(-1, 10000), ids[1:].reshape(-1)),
                   optimizer, ahead)


def lstm_layer(torch, ahead=None):
    torch.manual_seed(0)
    module, x = torch.nn.LSTM(256, 256), torch.randn(50, 32, 256)
    module, x = on_device(torch, module), x.to(DEVICE)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    return trainer(torch, module, lambda f: f(x)[0].square().mean(), optimizer, ahead)


def own_lstm(torch, ahead=None):
    """The forward pass of an LSTM that is written as a loop over steps."""
    torch.manual_seed(0)
    x, w, u, b = torch.randn(50, 32, 128), torch.randn(512, 128) * 0.1, torch.randn(512, 128) * 0.1, torch.zeros(512)
    x, w, u, b = (t.to(DEVICE) for t in (x, w, u, b))

    def loop(x):
        h = c = x.new_zeros(32, 128)
        for t in x:
            i, f, g, o = (t @ w.t() + h @ u.t() + b).chunk(4, 1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
        return h
    run = ahead(loop) if ahead else loop

    def step():
        with torch.no_grad():
            return run(x).sum()
    return step


PROGRAMS = {f.__name__: f for f in (
    gpt2, resnet50, vit_b16, bert_training, bert_inference, nanogpt_char, nanogpt_default, unet, graph_network, dlrm, factorization,
    word_language, lstm_layer, mnist, mlp, own_lstm, llama_decode)}
