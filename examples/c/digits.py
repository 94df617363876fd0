"""Classifies handwritten digits with the network that examples/digits.py trained.

    python examples/c/digits.py out/digits.safetensors digits.csv.gz

The digits are scikit-learn's (sklearn/datasets/data/digits.csv.gz): 64 pixels and the label.
"""
import sys

import numpy

import cresset as torch
import cresset.nn as nn
import cresset.nn.functional as F
from cresset.safetensors import load_file


class DigitsNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, kernel_size=3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, kernel_size=3, padding=1)
        self.drop1 = nn.Dropout(0.25)
        self.fc1 = nn.Linear(32 * 4 * 4, 64)
        self.drop2 = nn.Dropout(0.5)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = self.drop1(torch.flatten(x, 1))
        x = self.drop2(F.relu(self.fc1(x)))
        return F.log_softmax(self.fc2(x), dim=1)


def held_back(path):
    """Returns images [n, 1, 8, 8] in 0..1 and labels [n] of the test set, a fifth of all."""
    table = torch.from_numpy(numpy.loadtxt(path, delimiter=","))
    order = torch.randperm(len(table), generator=torch.Generator().manual_seed(1))
    table = table[order[:len(table) // 5]]
    return table[:, :64].float().reshape(-1, 1, 8, 8) / 16, table[:, 64].long()


def main(weights, digits):
    net = DigitsNet()
    net.load_state_dict(load_file(weights))
    net.eval()
    print(net)
    images, labels = held_back(digits)
    with torch.no_grad():
        read = net(images).argmax(1)
    print(f"misread: {[i for i in range(len(read)) if read[i] != labels[i]]}")
    print(f"held-back accuracy: {(read == labels).float().mean().item() * 100:.1f} %")


if __name__ == "__main__":
    main(*sys.argv[1:])
