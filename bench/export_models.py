"""Models of bench/export.py, for either package: a function of torch returns (module, arguments)."""
from transformer import layer


def mnist(torch):
    nn = torch.nn
    return nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(9216, 128), nn.ReLU(), nn.Linear(128, 10), nn.LogSoftmax(1)), (torch.randn(1, 1, 28, 28),)


def perceptron(torch):
    nn = torch.nn
    return nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10)), (torch.randn(1, 784),)


def resnet18(torch):
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, n, m, step):
            super().__init__()
            self.a, self.na = nn.Conv2d(n, m, 3, step, 1, bias=False), nn.BatchNorm2d(m)
            self.b, self.nb = nn.Conv2d(m, m, 3, 1, 1, bias=False), nn.BatchNorm2d(m)
            self.side = nn.Sequential(nn.Conv2d(n, m, 1, step, bias=False), nn.BatchNorm2d(m)) if n != m else nn.Identity()

        def forward(self, x):
            return torch.relu(self.nb(self.b(torch.relu(self.na(self.a(x))))) + self.side(x))

    blocks = [Block(n, m, 2 if n != m else 1) for n, m in ((64, 64), (64, 64), (64, 128), (128, 128), (128, 256), (256, 256), (256, 512), (512, 512))]
    return nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1), *blocks,
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000)), (torch.randn(1, 3, 64, 64),)


def mobilenet(torch):
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, n, m, step, wider):
            super().__init__()
            h, self.adds = n * wider, step == 1 and n == m
            self.way = nn.Sequential(nn.Conv2d(n, h, 1, bias=False), nn.BatchNorm2d(h), nn.ReLU6(),
                                     nn.Conv2d(h, h, 3, step, 1, groups=h, bias=False), nn.BatchNorm2d(h), nn.ReLU6(),
                                     nn.Conv2d(h, m, 1, bias=False), nn.BatchNorm2d(m))

        def forward(self, x):
            return x + self.way(x) if self.adds else self.way(x)

    sizes = [(16, 24, 2), (24, 24, 1), (24, 32, 2), (32, 32, 1), (32, 64, 2), (64, 64, 1), (64, 96, 1), (96, 160, 2), (160, 160, 1), (160, 320, 1)]
    return nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU6(), *(Block(n, m, s, 6) for n, m, s in sizes),
                         nn.Conv2d(320, 1280, 1, bias=False), nn.BatchNorm2d(1280), nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(1280, 1000)), (torch.randn(1, 3, 128, 128),)


def unet(torch):
    nn = torch.nn

    def twice(n, m):
        return nn.Sequential(nn.Conv2d(n, m, 3, padding=1), nn.ReLU(), nn.Conv2d(m, m, 3, padding=1), nn.ReLU())

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.down = nn.ModuleList(twice(n, m) for n, m in ((3, 16), (16, 32), (32, 64)))
            self.low = twice(64, 128)
            self.up = nn.ModuleList(nn.ConvTranspose2d(2 * m, m, 2, 2) for m in (64, 32, 16))
            self.join = nn.ModuleList(twice(2 * m, m) for m in (64, 32, 16))
            self.out = nn.Conv2d(16, 2, 1)

        def forward(self, x):
            kept = []
            for f in self.down:
                kept.append(f(x))
                x = nn.functional.max_pool2d(kept[-1], 2)
            x = self.low(x)
            for up, join, y in zip(self.up, self.join, reversed(kept)):
                x = join(torch.cat([y, up(x)], 1))
            return self.out(x)

    return UNet(), (torch.randn(1, 3, 64, 64),)


def lstm(torch):
    class Last(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.out = torch.nn.LSTM(32, 64, batch_first=True), torch.nn.Linear(64, 10)

        def forward(self, x):
            return self.out(self.rnn(x)[0][:, -1])

    return Last(), (torch.randn(1, 28, 32),)


def _words(torch, width, heads, layers, causal, vocabulary, cache=0):
    nn, Layer = torch.nn, layer(torch, width, heads, causal, cache)

    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.word, self.place = nn.Embedding(vocabulary, width), nn.Embedding(128, width)
            self.layers, self.norm = nn.ModuleList(Layer() for _ in range(layers)), nn.LayerNorm(width)
            self.out = nn.Linear(width, vocabulary if causal else 2)

        def forward(self, ids, at=None):
            x = self.word(ids) + self.place(torch.arange(ids.shape[1]) if at is None else at)
            for layer in self.layers:
                x = layer(x) if at is None else layer(x, at)
            return self.out(self.norm(x))

    return Words()


def bert_tiny(torch):
    return _words(torch, 128, 2, 2, False, 3000), (torch.randint(0, 3000, (1, 32)),)


def gpt(torch):
    return _words(torch, 64, 4, 2, True, 65), (torch.randint(0, 65, (1, 32)),)


def gpt_cache(torch):
    return _words(torch, 64, 4, 2, True, 65, 64), (torch.tensor([[5]]), torch.tensor([17]))


def kmeans(torch):
    class Means(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("start", torch.randn(8, 4))

        def forward(self, x):
            c = self.start
            for _ in range(10):
                near = ((x[:, None] - c[None]) ** 2).sum(-1).argmin(1)
                n = torch.zeros(8).index_add(0, near, torch.ones(x.shape[0]))
                c = torch.zeros(8, 4).index_add(0, near, x) / n.clamp(min=1)[:, None]
            return c

    return Means(), (torch.randn(500, 4),)


def _loss(torch, net, flat):
    class Loss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, x, y):
            out = self.net(x)
            return torch.nn.functional.cross_entropy(out.flatten(0, 1) if flat else out, y.flatten())

    return Loss()


def mnist_step(torch):
    net, _ = mnist(torch)
    return _loss(torch, net[:-1], False), (torch.randn(16, 1, 28, 28), torch.randint(0, 10, (16,)))


def lstm_step(torch):
    net, _ = lstm(torch)
    return _loss(torch, net, False), (torch.randn(16, 28, 32), torch.randint(0, 10, (16,)))


def gpt_step(torch):
    net, (x,) = gpt(torch)
    return _loss(torch, net, True), (x, torch.randint(0, 65, x.shape))


# Modules whose result is the loss of a step of training.
TRAINED = {"MNIST network, a step of Adam, 16 pictures": mnist_step, "LSTM 32-64, a step of Adam, 16 sequences": lstm_step,
           "GPT of 2 layers, a step of Adam, 32 words": gpt_step}
MODELS = {"MNIST network": mnist, "perceptron 784-256-10": perceptron, "ResNet-18, 64 x 64": resnet18, "MobileNet, 128 x 128": mobilenet, "U-Net, 64 x 64": unet,
          "LSTM 32-64, 28 steps": lstm, "BERT-tiny, 32 words": bert_tiny, "GPT of 2 layers, 32 words": gpt,
          "the same, one word, with a cache": gpt_cache, "k-means, 500 points, 10 steps": kmeans,
          **TRAINED}
