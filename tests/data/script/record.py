"""Records TorchScript archives and their results with torch, for tests/python/test_script.py.

    python tests/data/script/record.py FOLDER

needs torch 2.13.  Each archive NAME.pt has a file NAME.ckpt beside it with the inputs
(input.0, input.1, ...) and the results (output.0, ...) of `forward`, nested results flattened.
"""
import enum
import os
import sys
import warnings
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import torch
from torch import nn

warnings.simplefilter("ignore")


class Trunk(nn.Module):
    """Parameters, buffers, a loop, a dict, strings."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 4)
        self.register_buffer("scale", torch.arange(4.0))
        self.names = ["first", "second"]
        self.factor = {"first": 1.5, "second": -2.0}
        self.steps = 3

    def forward(self, x):
        y = self.linear(x)
        for i in range(self.steps):
            y = y + self.scale * i
        out: Dict[str, torch.Tensor] = {}
        for name in self.names:
            out[name + "!"] = y * self.factor[name]
        return out["first!"], out["second!"], len("{}-{}".format(self.steps, self.names[0]))


class Branches(nn.Module):
    """Conditions on values, optionals, early results, while, break."""

    def __init__(self):
        super().__init__()
        self.bias: Optional[torch.Tensor] = None

    def shift(self, x, by: Optional[int] = None):
        if by is None:
            return x - 1
        return x + by

    def forward(self, x):
        if bool(x.sum() > 0):
            x = self.shift(x, 2)
        else:
            x = self.shift(x)
        n = 0
        while n < 10:
            n += 1
            if n % 4 == 0:
                break
            x = x * 1.5
        bias = self.bias
        if bias is not None:
            x = x + bias
        return x, n


class Lists(nn.Module):
    def forward(self, x):
        parts: List[torch.Tensor] = []
        for row in x.unbind(0):
            parts.append(row.flip(0))
        parts.reverse()
        sizes = [p.size(0) for p in parts]
        sizes.sort(reverse=True)
        pair: Tuple[int, str] = (sum(sizes), "ab".upper() + str(sizes[0]))
        best = max(sizes[0], 2) // 2
        return torch.stack(parts[1:] + parts[:1]), pair[0] + len(pair[1]), best, x[:, -1] ** 2


class Counter(nn.Module):
    """An attribute that calls change."""

    def __init__(self):
        super().__init__()
        self.calls = 0
        self.seen = [0]
        self.weight = nn.Parameter(torch.ones(2))

    def forward(self, x):
        self.calls += 1
        self.seen.append(self.calls)
        return x * self.weight * self.calls


class Fails(nn.Module):
    def inner(self, x, n: int):
        return torch.add(x, torch.ones([n]))

    def forward(self, x, n: int):
        if n == 7:
            raise ValueError("seven is bad")
        if n == 8:
            items = [1, 2]
            return x + items[5]
        return self.inner(x, n)


class Recurrents(nn.Module):
    """Every network, both directions, projections, packed sequences."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3, 4, 2, bidirectional=True, proj_size=2)
        self.gru = nn.GRU(3, 4, batch_first=True)
        self.rnn = nn.RNN(3, 4, nonlinearity="relu", bias=False)
        self.packed = nn.LSTM(3, 2)
        self.cell = nn.GRUCell(3, 2)

    def forward(self, x):
        a, (h, c) = self.lstm(x)
        b, g = self.gru(x)
        d, r = self.rnn(x)
        packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([4, 2]))
        e, (s, t) = self.packed(packed)
        return a, h, c, b, g, d, r, e.data, s, t, self.cell(x[0])


class Contexts(nn.Module):
    """with, tasks, loops that are left early."""

    def double(self, x):
        return x * 2

    def forward(self, x):
        with torch.no_grad():
            y = x + 1
        task = torch.jit.fork(self.double, y)
        parts: List[torch.Tensor] = []
        for i in range(9):
            if i == 2:
                continue
            if i > 5:
                break
            parts.append(x * i)
        for part in parts:
            if bool(part.sum() > 3):
                return part + torch.jit.wait(task), [i * i for i in range(4)]
        return torch.jit.wait(task), [0]


def hooks():
    def after(self, input: Tuple[torch.Tensor], output: torch.Tensor) -> torch.Tensor:
        return output * 2

    def before(self, input: Tuple[torch.Tensor]) -> Tuple[torch.Tensor]:
        return (input[0] + 1,)
    torch.manual_seed(5)
    m = nn.Sequential(nn.Linear(3, 3))
    m[0].register_forward_hook(after)
    m[0].register_forward_pre_hook(before)
    m.register_forward_hook(after)
    return torch.jit.script(m)


def encoder():
    torch.manual_seed(6)
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    return torch.jit.script(nn.Sequential(layer, nn.Upsample(scale_factor=2.0)).eval())


def conv():
    torch.manual_seed(1)
    return torch.jit.trace(nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU(),
                                         nn.MaxPool2d(2), nn.Flatten(), nn.Linear(12, 5),
                                         nn.Softmax(1)).eval(), torch.rand(2, 2, 4, 4))


def recurrent():
    torch.manual_seed(2)
    return torch.jit.trace(nn.LSTM(3, 4, batch_first=True), torch.rand(2, 5, 3))


def attention():
    torch.manual_seed(3)
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    return torch.jit.trace(layer, torch.rand(2, 3, 8), check_trace=False)


class Place(NamedTuple):
    at: List[int]
    name: str


class Color(enum.Enum):
    RED = 1
    BLUE = 1 << 40


@torch.jit.script
class Point:
    def __init__(self, x: int, y: complex):
        self.x = x
        self.y = y


class Stateful(nn.Module):
    def __init__(self):
        super().__init__()
        self.count = 3

    @torch.jit.export
    def __getstate__(self):
        return (self.count, self.training)

    @torch.jit.export
    def __setstate__(self, state: Tuple[int, bool]):
        self.count = state[0] * 2
        self.training = state[1]

    def forward(self, x):
        return x * self.count


class Values(nn.Module):
    """An attribute of each kind that a pickle has, and a state of its own."""
    fixed: Tuple[int, float]
    place: Place

    def __init__(self):
        super().__init__()
        self.large = torch.jit.Attribute(-(1 << 45), int)
        self.place = Place([1, 2], "here")
        self.color = Color.BLUE
        self.where = torch.device("cpu")
        self.turn = 1.5 - 2j
        self.point = Point(3, 4j)
        self.table = torch.jit.Attribute({1: [1.5], -2: []}, Dict[int, List[float]])
        self.keys = torch.jit.Attribute({True: None}, Dict[bool, Optional[str]])
        self.turns = torch.jit.Attribute([1j, 2.0 + 1j], List[complex])
        self.flags = [True, False]
        self.words = {"a": ("b", 1)}
        self.whatever = torch.jit.Attribute([1, "a", None, (2.5, torch.ones(2))], List[Any])
        self.shared = torch.arange(6.0).view(2, 3).t()
        self.weight = nn.Parameter(self.shared[1:], requires_grad=True)
        self.short = torch.ones(2, dtype=torch.bfloat16)
        self.fixed = (1, 2.5)

        self.stateful = Stateful()

    def forward(self, x):
        c = torch.tensor([0.5, 2.0])
        return (self.stateful(x) * c + self.shared[0, 1], self.weight.sum(), self.table[1][0], abs(self.turns[1]),
                self.color == Color.BLUE, len(self.whatever), self.point.x, self.place.at[1], self.large)



CASES = {
    "conv": (conv, [torch.rand(2, 2, 4, 4, generator=torch.Generator().manual_seed(4))]),
    "recurrent": (recurrent, [torch.linspace(-1, 1, 30).reshape(2, 5, 3)]),
    "attention": (attention, [torch.linspace(-1, 1, 48).reshape(2, 3, 8)]),
    "trunk": (lambda: torch.jit.script(Trunk()), [torch.linspace(-2, 2, 6).reshape(2, 3)]),
    "branches": (lambda: torch.jit.script(Branches()), [torch.linspace(-1, 3, 4)]),
    "lists": (lambda: torch.jit.script(Lists()), [torch.linspace(-1, 3, 12).reshape(4, 3)]),
    "counter": (lambda: torch.jit.script(Counter()), [torch.tensor([2.0, 3.0])]),
    "recurrents": (lambda: torch.jit.script(Recurrents()), [torch.linspace(-1, 1, 24).reshape(4, 2, 3)]),
    "contexts": (lambda: torch.jit.script(Contexts()), [torch.linspace(-1, 2, 4)]),
    "hooks": (hooks, [torch.linspace(-1, 2, 6).reshape(2, 3)]),
    "encoder": (encoder, [torch.linspace(-1, 1, 48).reshape(2, 3, 8)]),
    "values": (lambda: torch.jit.script(Values()), [torch.tensor([1.0, -2.0])]),
    "fails": (lambda: torch.jit.script(Fails()), None),
}


def flat(x):
    if isinstance(x, (list, tuple)):
        return [t for item in x for t in flat(item)]
    return [x.detach().contiguous() if isinstance(x, torch.Tensor) else torch.tensor(x)]


def record(folder):
    for name, (make, inputs) in CASES.items():
        torch.manual_seed(0)
        module = make()
        module.save(os.path.join(folder, name + ".pt"), _extra_files={"note.txt": name})
        if inputs is None:
            continue
        loaded = torch.jit.load(os.path.join(folder, name + ".pt"))  # a state of its own may have changed it
        results = {f"input.{i}": t for i, t in enumerate(inputs)}
        results.update((f"output.{i}", t.clone()) for i, t in enumerate(flat(loaded(*inputs))))
        torch.save(results, os.path.join(folder, name + ".ckpt"))


if __name__ == "__main__":
    record(sys.argv[1])
