"""Fits a cubic polynomial to a sine; autograd computes the gradients.

    python examples/c/polynomial.py
"""
import math

import cresset as torch


def main():
    torch.manual_seed(0)
    x = torch.linspace(-math.pi, math.pi, 2000)
    y = torch.sin(x)
    a = torch.randn((), requires_grad=True)
    b = torch.randn((), requires_grad=True)
    c = torch.randn((), requires_grad=True)
    d = torch.randn((), requires_grad=True)
    rate = 1e-6
    for step in range(2000):
        guess = a + b * x + c * x ** 2 + d * x ** 3
        loss = (guess - y).pow(2).sum()
        if step % 100 == 99:
            print(f"{step:4d}  {loss.item():.4f}")
        loss.backward()
        with torch.no_grad():
            for p in (a, b, c, d):
                p -= rate * p.grad
                p.grad = None
    print(f"y = {a.item():.4f} + {b.item():.4f} x + {c.item():.4f} x^2 + {d.item():.4f} x^3")


if __name__ == "__main__":
    main()
