"""Trains a classifier that models.py wrote, saves it, and asks what was saved.

    python examples/c/classifier.py classifier.pt examples/c/spirals.csv trained.pt
"""
import sys

import numpy

import cresset as torch
import cresset.nn.functional as F
from cresset.utils.data import DataLoader, TensorDataset


def right(net, points, labels):
    net.eval()
    with torch.no_grad():
        same = net(points).argmax(1) == labels
        share = same.float().mean().item() * 100
    net.train()
    return share


def train(program, path, saved):
    torch.manual_seed(0)
    table = torch.from_numpy(numpy.loadtxt(path, delimiter=","))
    points, labels = table[:, :2].float(), table[:, 2].long()
    net = torch.jit.load(program)
    print(f"before: {right(net, points, labels):.1f} %")
    data = DataLoader(TensorDataset(points, labels), batch_size=32, shuffle=True)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for _ in range(40):
        for x, y in data:
            optimizer.zero_grad()
            F.cross_entropy(net(x), y).backward()
            optimizer.step()
    print(f"after: {right(net, points, labels):.1f} %")
    net.eval()
    net.save(saved)


def ask(net, x, y):
    print(f"({x:.1f}, {y:.1f}): {net.name(x, y)}")


def main(program, path, saved):
    train(program, path, saved)
    net = torch.jit.load(saved)
    ask(net, 0.6, 0.7)
    ask(net, -0.5, 0.1)
    ask(net, 3.0, 3.0)


if __name__ == "__main__":
    main(*sys.argv[1:])
