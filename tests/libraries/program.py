"""Shared by the programs: their registry, and summaries of what they compute."""
import torch

PROGRAMS = {}


def program(name, tolerance=1e-4):
    """Adds a function that returns numbers to the programs of this library."""
    def add(function):
        PROGRAMS[name] = function, tolerance
        return function
    return add


def summary(tensor):
    """A tensor's size, mean and mean magnitude."""
    values = tensor.detach().double()
    if values.is_complex():
        values = torch.view_as_real(values)
    return [values.numel(), values.mean().item(), values.abs().mean().item()]


def gradient_size(module):
    """The mean magnitude of all gradients."""
    total = sum(p.grad.detach().double().abs().sum().item()
                for p in module.parameters() if p.grad is not None)
    return total / max(1, sum(p.numel() for p in module.parameters() if p.grad is not None))


def train(module, compute_loss, steps=3, lr=1e-3):
    """The loss of each step of AdamW, and the gradients' size after the last."""
    optimizer = torch.optim.AdamW(module.parameters(), lr=lr)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = compute_loss()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return [*losses, gradient_size(module)]
