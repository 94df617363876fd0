"""Models of bench/aot.py, for either package: bert (BERT-base's encoder) and resnet50."""
from transformer import layer


def bert(torch, layers=12, width=768, heads=12, words=30522):
    nn, Layer = torch.nn, layer(torch, width, heads, norms_first=False, eps=1e-12)

    class Bert(nn.Module):
        def __init__(self):
            super().__init__()
            self.word, self.place = nn.Embedding(words, width), nn.Embedding(512, width)
            self.kind, self.norm = nn.Embedding(2, width), nn.LayerNorm(width, 1e-12)
            self.layer = nn.ModuleList(Layer() for _ in range(layers))
            self.pool = nn.Linear(width, width)

        def forward(self, ids):
            at = torch.arange(ids.shape[1])
            x = self.norm(self.word(ids) + self.place(at) + self.kind(torch.zeros_like(ids)))
            for f in self.layer:
                x = f(x)
            return x, torch.tanh(self.pool(x[:, 0]))

    torch.manual_seed(0)
    return Bert().eval(), (torch.randint(0, words, (1, 128)),)


def resnet50(torch, size=224, depths=(3, 4, 6, 3)):
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, n, m, step):
            super().__init__()
            self.a, self.na = nn.Conv2d(n, m, 1, bias=False), nn.BatchNorm2d(m)
            self.b, self.nb = nn.Conv2d(m, m, 3, step, 1, bias=False), nn.BatchNorm2d(m)
            self.c, self.nc = nn.Conv2d(m, 4 * m, 1, bias=False), nn.BatchNorm2d(4 * m)
            self.side = None
            if step != 1 or n != 4 * m:
                self.side = nn.Sequential(nn.Conv2d(n, 4 * m, 1, step, bias=False), nn.BatchNorm2d(4 * m))

        def forward(self, x):
            y = torch.relu(self.na(self.a(x)))
            y = torch.relu(self.nb(self.b(y)))
            return torch.relu(self.nc(self.c(y)) + (self.side(x) if self.side is not None else x))

    torch.manual_seed(0)
    parts, n = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
    for k, depth in enumerate(depths):
        for i in range(depth):
            parts.append(Block(n, 64 << k, 2 if k and not i else 1))
            n = 256 << k
    model = nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(n, 1000))
    for m in model.modules():
        if isinstance(m, nn.BatchNorm2d):
            nn.init.uniform_(m.running_var, 0.5, 1.5)
            nn.init.uniform_(m.weight, 0.2, 0.5)
    return model.eval(), (torch.randn(1, 3, size, size),)


MODELS = {"bert": bert, "resnet50": resnet50}
