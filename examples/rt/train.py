"""Trains the networks of the examples, and writes their programs and data: train.py FOLDER"""
import math
import os
import struct
import sys

import cresset as torch
import cresset.nn.functional as F
from cresset import nn
from cresset.export import export, to_rt
from sklearn.datasets import load_digits


def train(module, batch, steps, lr=0.01):
    """Adam on the losses of batch(step) -> inputs, labels."""
    optimizer = torch.optim.Adam(module.parameters(), lr)
    for step in range(steps):
        x, y = batch(step)
        optimizer.zero_grad()
        out = module(*x) if isinstance(x, tuple) else module(x)
        F.cross_entropy(out.flatten(0, -2), y.flatten()).backward()
        optimizer.step()
    return module.eval()


def bytes_of(x):
    return bytes(x.contiguous().view(-1).view(torch.uint8).tolist())


# --- digits, and the same network with a last layer that is trained on the device ---

def features():
    return nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.Flatten())


class Tuned(nn.Module):
    """The loss and the scores of a batch; only the last layer is trained."""

    def __init__(self, network):
        super().__init__()
        self.features, self.last = network[0].requires_grad_(False), network[1]

    def forward(self, x, y):
        scores = self.last(self.features(x))
        return F.cross_entropy(scores, y), scores


def write_digits(folder):
    data = load_digits()
    images, labels = torch.tensor(data.images.tolist()).unsqueeze(1) / 16, torch.tensor(data.target.tolist())
    order = torch.randperm(len(labels))
    held, taught = order[:300], order[300:]
    network = train(nn.Sequential(features(), nn.Linear(256, 10)), lambda k: (lambda i: (images[i], labels[i]))(taught[torch.randint(0, len(taught), (64,))]), 300)
    to_rt(export(network, (images[:1],)), os.path.join(folder, "digits.rt"))
    with open(os.path.join(folder, "digits.data"), "wb") as file:
        for i in held.tolist():
            file.write(bytes_of(images[i]) + struct.pack("<f", int(labels[i])))
    # The user writes white on black, and upside down.
    batches = [taught[torch.randint(0, len(taught), (32,))] for _ in range(200)]
    theirs = 1 - images.flip(2)
    to_rt(export(Tuned(network), (theirs[:32], labels[:32])), os.path.join(folder, "tune.rt"), training=lambda p: torch.optim.Adam(p[-2:], 0.003))
    with open(os.path.join(folder, "tune.data"), "wb") as file:
        for i in batches:
            file.write(bytes_of(theirs[i]) + bytes_of(labels[i]))


# --- words: each is two tones that glide, in noise ---

SECOND = 8000
WORDS = {"yes": (2000, 2600, 3000), "no": (600, 450, 300), "stop": (2800, 900, 700)}


def spoken(name):
    """A second of sound with the word somewhere in it, or with another sound."""
    n = int(torch.randint(2800, 4000, ()))
    path = WORDS.get(name) or torch.rand(3).mul(3000).add(200).tolist()
    t, shift = torch.linspace(0, 1, n), float(torch.rand(()) * 0.2 + 0.9)
    pitch = shift * (path[0] * (1 - t) ** 2 + 2 * path[1] * t * (1 - t) + path[2] * t ** 2)
    wave = torch.sin(torch.cumsum(pitch, 0) * (2 * math.pi / SECOND)) * torch.sin(t * math.pi) * (0.2 + 0.4 * torch.rand(()))
    sound, at = torch.randn(SECOND) * 0.02, int(torch.randint(0, SECOND - n, ()))
    if name or float(torch.rand(())) < 0.5:
        sound[at:at + n] += wave
    return sound


def write_keywords(folder):
    names = ["", *WORDS]
    examples = torch.stack([spoken(names[k % 4]) for k in range(960)])
    network = nn.Sequential(nn.Unflatten(1, (1, SECOND)), nn.Conv1d(1, 16, 64, 16), nn.ReLU(), nn.MaxPool1d(4), nn.Conv1d(16, 24, 5), nn.ReLU(), nn.MaxPool1d(4),
                            nn.Conv1d(24, 32, 5), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(32, 4))
    train(network, lambda k: (lambda i: (examples[i], i % 4))(torch.randint(0, len(examples), (48,))), 200, 0.003)
    to_rt(export(network, (examples[:1],)), os.path.join(folder, "keywords.rt"))
    stream = torch.cat([spoken(name) for name in ("", "yes", "", "no", "", "stop", "", "yes", "")])
    with open(os.path.join(folder, "keywords.data"), "wb") as file:
        file.write(bytes_of((stream.clamp(-1, 1) * 32767).to(torch.int16)))


# --- a language model of characters with a cache of keys and values ---

TEXT = """The library has a runtime. The runtime runs programs. A program is a list of commands, and a command has a place for each of its values.
The library writes a program once, and the runtime reads it on any processor. """


class Layer(nn.Module):
    def __init__(self, width, length):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.register_buffer("keys", torch.zeros(length, width))
        self.register_buffer("values", torch.zeros(length, width))

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True))
        return x + self.wide(x)

    def step(self, x, position, past):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        self.keys.index_copy_(0, position, k)
        self.values.index_copy_(0, position, v)
        weights = (q @ self.keys.t() / math.sqrt(q.shape[-1])).masked_fill(past, float("-inf")).softmax(-1)
        x = x + self.out(weights @ self.values)
        return x + self.wide(x)


class Writer(nn.Module):
    def __init__(self, width=48, length=256, layers=2):
        super().__init__()
        self.characters, self.positions = nn.Embedding(128, width), nn.Embedding(length, width)
        self.layers, self.out = nn.ModuleList([Layer(width, length) for _ in range(layers)]), nn.Linear(width, 128)
        self.register_buffer("places", torch.arange(length))

    def forward(self, text):
        x = self.characters(text) + self.positions(self.places[:text.shape[1]])
        for layer in self.layers:
            x = layer(x)
        return self.out(x)


class Step(nn.Module):
    """The scores of the next character."""

    def __init__(self, writer):
        super().__init__()
        self.writer = writer

    def forward(self, character, position):
        w = self.writer
        x, past = w.characters(character) + w.positions(position), w.places > position
        for layer in w.layers:
            x = layer.step(x, position, past)
        return w.out(x)


def write_writer(folder):
    text = torch.tensor([ord(c) for c in TEXT * 3])
    starts = lambda: torch.randint(0, len(TEXT), (8,)).tolist()  # noqa: E731
    batch = lambda k: (lambda s: (torch.stack([text[i:i + 200] for i in s]), torch.stack([text[i + 1:i + 201] for i in s])))(starts())  # noqa: E731
    writer = train(Writer(), batch, 600, 0.004)
    to_rt(export(Step(writer).eval(), (torch.tensor([65]), torch.tensor([0]))), os.path.join(folder, "writer.rt"))


if __name__ == "__main__":
    torch.manual_seed(0)
    os.makedirs(sys.argv[1], exist_ok=True)
    for write in (write_digits, write_keywords, write_writer):
        write(sys.argv[1])
