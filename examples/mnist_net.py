"""Trains a convolutional network on MNIST's handwritten digits.

    python -m cresset run examples/mnist_net.py FOLDER [--epochs N] [--steps N] [--losses FILE] [--device cuda]

FOLDER must contain t10k-images-idx3-ubyte.gz and t10k-labels-idx1-ubyte.gz.  The first 8,000
images train the network, the last 2,000 test it.  The program is plain torch and also runs
under torch.  It prints the loss and the time of every epoch and the accuracy.  --losses writes
the loss of every step, one a line.
"""
import argparse
import gzip
import os
import struct
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

TRAINING = 8000


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3)
        self.conv2 = nn.Conv2d(32, 64, 3)
        self.drop1 = nn.Dropout(0.25)
        self.drop2 = nn.Dropout(0.5)
        self.fc1 = nn.Linear(9216, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = self.drop1(x)
        x = F.relu(self.fc1(torch.flatten(x, 1)))
        return F.log_softmax(self.fc2(self.drop2(x)), dim=1)


def read_idx(path):
    """Returns the bytes of an IDX file as a tensor with the file's sizes."""
    with gzip.open(path) as file:
        dims = struct.unpack(">HBB", file.read(4))[2]
        sizes = struct.unpack(f">{dims}I", file.read(4 * dims))
        return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).reshape(sizes)


def load(folder):
    """Returns the training set and the test set: normalized images [n, 1, 28, 28], labels."""
    images = read_idx(os.path.join(folder, "t10k-images-idx3-ubyte.gz")).unsqueeze(1).float()
    images = (images / 255 - 0.1307) / 0.3081
    labels = read_idx(os.path.join(folder, "t10k-labels-idx1-ubyte.gz")).long()
    return (TensorDataset(images[:TRAINING], labels[:TRAINING]),
            TensorDataset(images[TRAINING:], labels[TRAINING:]))


def train_epoch(model, data, optimizer, steps_left, device):
    """Runs one epoch, or as many steps as are left.  Returns the losses."""
    losses = []
    model.train()
    for images, labels in data:
        if len(losses) == steps_left:
            break
        optimizer.zero_grad()
        loss = F.nll_loss(model(images.to(device)), labels.to(device))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test(model, data, device):
    """Returns the mean loss and the share of correctly classified digits."""
    loss, right, count = 0.0, 0, 0
    model.eval()
    with torch.no_grad():
        for images, labels in data:
            images, labels = images.to(device), labels.to(device)
            output = model(images)
            loss += F.nll_loss(output, labels, reduction="sum").item()
            right += (output.argmax(1) == labels).sum().item()
            count += len(labels)
    return loss / count, right / count


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--steps", type=int, help="stop after so many steps")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--losses", help="a file for the loss of every step")
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    training, held_back = load(args.folder)
    batches = DataLoader(training, batch_size=args.batch, shuffle=True)
    model = Net().to(args.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.7)
    losses = []
    for epoch in range(1, args.epochs + 1):
        left = args.steps - len(losses) if args.steps else -1
        start = time.perf_counter()
        new = train_epoch(model, batches, optimizer, left, args.device)
        seconds = time.perf_counter() - start
        losses += new
        print(f"epoch {epoch}  loss {sum(new) / len(new):.4f}  {seconds:.2f} s  "
              f"{seconds / len(new) * 1000:.1f} ms a step", flush=True)
        if args.steps and len(losses) >= args.steps:
            break
        loss, share = test(model, DataLoader(held_back, batch_size=500), args.device)
        print(f"held back: loss {loss:.4f}, {share * 100:.1f} % right")
        scheduler.step()
    if args.losses:
        with open(args.losses, "w") as file:
            file.writelines(f"{loss!r}\n" for loss in losses)


if __name__ == "__main__":
    main()
