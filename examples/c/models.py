"""Writes the programs that classifier.c and writer.c load: classifier.pt and writer.pt.

    python examples/c/models.py FOLDER

Also runs with torch in place of cresset.
"""
import os
import sys
from typing import Dict, List

import cresset as torch
import cresset.nn as nn
import cresset.nn.functional as F

TEXT = ("the cat sat on the mat. the dog sat on the log. the cat saw the dog. the dog saw the cat. "
        "the cat ran to the log and the dog ran to the mat. ")


class Classifier(nn.Module):
    """Says to which of three spirals a point belongs; far points belong to none of them."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Dropout(0.05), nn.Linear(64, 3))
        self.names: List[str] = ["red", "green", "blue"]

    def forward(self, x):
        return self.net(x)

    @torch.jit.export
    def name(self, x: float, y: float) -> str:
        if x * x + y * y > 4.0:
            return "none"
        scores = self.forward(torch.tensor([[x, y]]))
        return self.names[int(scores.argmax(1))]


class Writer(nn.Module):
    """A language model of characters.  Its loop, its stop and its dictionaries are part of the program."""

    def __init__(self, text: str, width: int = 48):
        super().__init__()
        self.letters: List[str] = sorted(set(text))
        self.places: Dict[str, int] = {c: i for i, c in enumerate(self.letters)}
        self.embed = nn.Embedding(len(self.letters), width)
        self.cell = nn.GRUCell(width, width)
        self.read = nn.Linear(width, len(self.letters))

    def forward(self, letters):
        h = torch.zeros(1, self.cell.hidden_size)
        rows: List[torch.Tensor] = []
        for i in range(letters.size(0)):
            h = self.cell(self.embed(letters[i:i + 1]), h)
            rows.append(self.read(h))
        return torch.cat(rows)

    @torch.jit.export
    def write(self, start: str, most: int, heat: float = 0.0, stop: str = "") -> str:
        h = torch.zeros(1, self.cell.hidden_size)
        text = ""
        i = 0
        while i < len(start) + most:
            if i < len(start):
                letter = start[i]
                if letter not in self.places:
                    raise ValueError("no such letter: " + letter)
            else:
                scores = self.read(h)[0]
                if heat > 0.0:
                    place = int(torch.multinomial(torch.softmax(scores / heat, 0), 1))
                else:
                    place = int(scores.argmax())
                letter = self.letters[place]
            text += letter
            if i >= len(start) and letter == stop:
                break
            h = self.cell(self.embed(torch.tensor([self.places[letter]])), h)
            i += 1
        return text


def learn(net, text, steps):
    """Trains on random pieces of the text."""
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    letters = torch.tensor([net.places[c] for c in text])
    for _ in range(steps):
        at = int(torch.randint(0, len(text) - 25, (1,)))
        optimizer.zero_grad()
        F.cross_entropy(net(letters[at:at + 24]), letters[at + 1:at + 25]).backward()
        optimizer.step()


def main(folder):
    torch.manual_seed(0)
    torch.jit.script(Classifier()).save(os.path.join(folder, "classifier.pt"))
    writer = Writer(TEXT)
    learn(writer, TEXT, 150)
    torch.jit.script(writer).save(os.path.join(folder, "writer.pt"))


if __name__ == "__main__":
    main(sys.argv[1])
