"""Trains a network of two layers to tell three spirals apart.

    python examples/c/spirals.py examples/c/spirals.csv
"""
import sys

import numpy

import cresset as torch
import cresset.nn as nn
import cresset.nn.functional as F
from cresset.utils.data import DataLoader, TensorDataset


def main(path):
    torch.manual_seed(0)
    table = torch.from_numpy(numpy.loadtxt(path, delimiter=","))
    points, labels = table[:, :2].float(), table[:, 2].long()
    net = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 3))
    print(net)
    data = DataLoader(TensorDataset(points, labels), batch_size=32, shuffle=True)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    for epoch in range(1, 151):
        for x, y in data:
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
        if epoch % 15 == 0:
            loss = F.cross_entropy(net(points), labels)
            print(f"epoch {epoch:3d}  loss {loss.item():.4f}")
    right = net(points).argmax(1) == labels
    print(f"right: {right.float().mean().item() * 100:.1f} %")


if __name__ == "__main__":
    main(sys.argv[1])
