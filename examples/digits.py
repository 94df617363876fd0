"""Trains a small convolutional network on scikit-learn's 8x8 handwritten digits.

    python examples/digits.py [--epochs N] [--out FOLDER] [--device cuda]

Trains twice from the same initial weights: eagerly, and with the training step compiled.
Prints the loss and the time of every epoch, whether all losses are equal, the accuracy on the
test set (a fifth of the data), and what compile() reports of a function that prints, branches on a
value and calls NumPy.  Writes to FOLDER: digits.safetensors (the weights, reloaded
and checked), loss.png (the loss of every step), misread.png (the misclassified test digits) and
step.svg (the fused graph of the compiled step).
"""
import argparse
import os
import time

import numpy as np

import cresset as torch
import cresset.nn as nn
import cresset.nn.functional as F
from cresset.utils.data import DataLoader, TensorDataset


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


def load(device="cpu"):
    """Returns the training set and the test set: images [n, 1, 8, 8] in 0..1 and labels [n]."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = torch.from_numpy(digits.images).float().unsqueeze(1) / 16
    labels = torch.from_numpy(digits.target).long()
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(1))
    held_back = len(labels) // 5
    test, train = order[:held_back], order[held_back:]
    return (TensorDataset(images[train].to(device), labels[train].to(device)),
            TensorDataset(images[test].to(device), labels[test].to(device)))


def training_step(model):
    """Returns one training step as a function of images and labels."""
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    def step(images, labels):
        optimizer.zero_grad()
        loss = F.nll_loss(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss
    return step


def train(model, data, epochs, step=None):
    """Returns the loss of every step."""
    step = step or training_step(model)
    losses, began = [], time.perf_counter()
    for epoch in range(1, epochs + 1):
        start, total, count = time.perf_counter(), 0.0, 0
        model.train()
        for images, labels in data:
            losses.append(step(images, labels).item())
            total, count = total + losses[-1] * len(labels), count + len(labels)
        seconds = time.perf_counter() - start
        print(f"epoch {epoch:2d}/{epochs}  loss {total / count:.4f}  {seconds * 1000:6.1f} ms",
              flush=True)
    print(f"{epochs} epochs in {time.perf_counter() - began:.2f} s")
    return losses


def train_both_ways(data, epochs, folder, device):
    """Returns the compiled run's model and losses, after comparing them with eager's."""
    runs = {}
    for way in ("eager", "compiled"):
        torch.manual_seed(0)
        model = DigitsNet().to(device)
        if not runs:
            print(model)
        print(f"{way}:")
        step = training_step(model)
        if way == "compiled":
            step = torch.compile(step)
        start = time.perf_counter()
        losses = train(model, DataLoader(data, batch_size=32, shuffle=True), epochs, step)
        runs[way] = time.perf_counter() - start, losses
    torch.compiler.picture(step, os.path.join(folder, "step.svg"))
    (eager, expected), (compiled, losses) = runs["eager"], runs["compiled"]
    if losses != expected:
        first = next(i for i, (a, b) in enumerate(zip(losses, expected)) if a != b)
        raise RuntimeError(f"step {first}: the compiled loss {losses[first]!r} "
                           f"differs from the eager loss {expected[first]!r}")
    print(f"eager {eager:.2f} s, compiled {compiled:.2f} s, all {len(losses)} losses equal; "
          f"the fused graph: {os.path.join(folder, 'step.svg')}")
    return model, losses


def predict(model, data):
    """Returns the predicted labels and the true ones."""
    model.eval()
    with torch.no_grad():
        images, labels = data.tensors
        return model(images).argmax(1), labels


def count_misread(model, data):
    """Returns how often each digit is misread, by a compiled function that does what Python allows, and its report."""
    @torch.compile
    def misread(images, labels):
        wrong = model(images).argmax(1) != labels
        counts = np.bincount(labels[wrong].cpu().numpy(), minlength=10)
        if wrong.any():
            print(f"misread {int(wrong.sum())} of {len(labels)}, most often {counts.argmax()}")
        return counts

    with torch.no_grad():
        counts = sum(misread(images, labels) for images, labels in DataLoader(data, batch_size=90))
    return counts, torch.compiler.report(misread)


def save_and_check(model, folder):
    """Writes the weights, loads them into a new network, and compares."""
    from cresset.safetensors import load_file, save_file

    path = os.path.join(folder, "digits.safetensors")
    save_file(model.state_dict(), path)
    again = DigitsNet().to(model.fc1.weight.device)
    again.load_state_dict(load_file(path))
    for (name, a), b in zip(model.named_parameters(), again.parameters()):
        if not torch.equal(a, b):
            raise RuntimeError(f"{name} differs after reloading {path}")
    print(f"checkpoint {path}: {os.path.getsize(path)} bytes, reloaded, equal")
    return again


def draw(losses, images, read, labels, folder):
    """Draws loss.png and misread.png."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4))
    axes.plot(losses, linewidth=0.6, color="#b8b8b8", label="step")
    width = 20
    windows = [losses[max(0, i - width):i + 1] for i in range(len(losses))]
    smooth = [sum(window) / len(window) for window in windows]
    axes.plot(smooth, color="#c0392b", label=f"mean of {width} steps")
    axes.set(xlabel="step", ylabel="loss", yscale="log", title="Training on 8x8 digits")
    axes.legend()
    figure.tight_layout()
    figure.savefig(os.path.join(folder, "loss.png"), dpi=100)

    wrong = [i for i in range(len(labels)) if int(read[i]) != int(labels[i])]
    columns = max(1, min(6, len(wrong)))
    rows = max(1, -(-len(wrong) // columns))
    figure, grid = plt.subplots(rows, columns, figsize=(1.6 * columns, 1.9 * rows),
                                squeeze=False)
    for k, axes in enumerate(grid.flat):
        axes.axis("off")
        if k < len(wrong):
            i = wrong[k]
            axes.imshow(images[i, 0].numpy(), cmap="gray_r")
            axes.set_title(f"{int(labels[i])} read as {int(read[i])}", fontsize=9)
    figure.tight_layout()
    figure.savefig(os.path.join(folder, "misread.png"), dpi=100)
    print(f"pictures: {os.path.join(folder, 'loss.png')}, "
          f"{os.path.join(folder, 'misread.png')} ({len(wrong)} misread)")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--out", default="out")
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    training, held_back = load(args.device)
    model, losses = train_both_ways(training, args.epochs, args.out, args.device)
    model = save_and_check(model, args.out)
    read, labels = predict(model, held_back)
    draw(losses, held_back.tensors[0].cpu(), read, labels, args.out)
    accuracy = (read == labels).float().mean().item()
    counts, report = count_misread(model, held_back)
    if counts.sum() != (read != labels).sum().item():
        raise RuntimeError(f"the compiled function counts {counts.sum()} misread digits, not {(read != labels).sum()}")
    print(report, end="")
    print(f"held-back accuracy: {accuracy * 100:.1f} %")


if __name__ == "__main__":
    main()
