"""Trains a character transformer on a text and generates text with it.

    python -m cresset run examples/char_transformer.py TEXT [--steps N] [--write N]
           [--losses FILE]

The program is plain torch and also runs under torch.  It prints the loss and the time of a step
every --every steps, the loss on the test set (a tenth of the text), and the generated text.
--attention chooses masked matrix products ("own") or F.scaled_dot_product_attention ("fused").
"""
import argparse
import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    """Causal self-attention of several heads."""

    def __init__(self, width, heads, length, dropout, fused):
        super().__init__()
        self.heads, self.fused, self.dropout = heads, fused, dropout
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.drop_weights = nn.Dropout(dropout)
        self.drop_result = nn.Dropout(dropout)
        self.register_buffer("past", torch.tril(torch.ones(length, length, dtype=torch.bool)))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
                   for part in self.qkv(x).split(width, dim=2))
        y = self.attend_fused(q, k, v) if self.fused else self.attend(q, k, v)
        y = y.transpose(1, 2).contiguous().view(batch, length, width)
        return self.drop_result(self.out(y))

    def attend(self, q, k, v):
        length = q.shape[2]
        scores = q @ k.transpose(-2, -1) * (1.0 / math.sqrt(q.shape[3]))
        scores = scores.masked_fill(~self.past[:length, :length], float("-inf"))
        return self.drop_weights(F.softmax(scores, dim=-1)) @ v

    def attend_fused(self, q, k, v):
        dropout = self.dropout if self.training else 0.0
        return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)


class Block(nn.Module):
    def __init__(self, width, heads, length, dropout, fused):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads, length, dropout, fused)
        self.norm2 = nn.LayerNorm(width)
        self.wide = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.drop(self.narrow(F.gelu(self.wide(self.norm2(x)))))


class Transformer(nn.Module):
    def __init__(self, letters, length, width, heads, layers, dropout, fused):
        super().__init__()
        self.length = length
        self.letter = nn.Embedding(letters, width)
        self.place = nn.Embedding(length, width)
        self.drop = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            Block(width, heads, length, dropout, fused) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, letters, bias=False)
        self.apply(self.start)

    @staticmethod
    def start(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, mean=0.0, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, letters):
        places = torch.arange(letters.shape[1], device=letters.device)
        x = self.drop(self.letter(letters) + self.place(places))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))

    @torch.no_grad()
    def write(self, letters, count, temperature=0.8):
        """Continues `letters` [1, n] by `count` letters."""
        self.eval()
        for _ in range(count):
            scores = self(letters[:, -self.length:])[:, -1] / temperature
            chosen = torch.multinomial(F.softmax(scores, dim=-1), 1)
            letters = torch.cat([letters, chosen], dim=1)
        return letters


def load(path):
    """Returns the distinct letters, and the text as letter numbers: 9 tenths and 1 tenth."""
    with open(path) as file:
        text = file.read()
    letters = sorted(set(text))
    number = {letter: i for i, letter in enumerate(letters)}
    numbers = torch.tensor([number[letter] for letter in text])
    cut = len(text) * 9 // 10
    return letters, numbers[:cut], numbers[cut:]


def sample(numbers, batch, length):
    """Returns random parts of the text, and the next letter at each position."""
    starts = torch.randint(len(numbers) - length, (batch,))
    return (torch.stack([numbers[i:i + length] for i in starts]),
            torch.stack([numbers[i + 1:i + 1 + length] for i in starts]))


def loss_of(model, x, y):
    scores = model(x)
    return F.cross_entropy(scores.view(-1, scores.shape[-1]), y.view(-1))


@torch.no_grad()
def estimate(model, numbers, args):
    model.eval()
    losses = [loss_of(model, *sample(numbers, args.batch, args.length)).item()
              for _ in range(10)]
    model.train()
    return sum(losses) / len(losses)


def make_optimizer(model, rate):
    """AdamW with weight decay for matrices, without it for biases and norms."""
    wide = [p for p in model.parameters() if p.dim() >= 2]
    flat = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": wide, "weight_decay": 0.1}, {"params": flat, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.99))


def train(model, numbers, args):
    """Returns the loss of every step."""
    optimizer = make_optimizer(model, args.rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=max(args.steps, 1))
    losses, start = [], time.perf_counter()
    for step in range(1, args.steps + 1):
        x, y = sample(numbers, args.batch, args.length)
        loss = loss_of(model, x, y)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        if step % args.every == 0:
            now = time.perf_counter()
            print(f"step {step}  loss {sum(losses[-args.every:]) / args.every:.4f}  "
                  f"{(now - start) / args.every * 1000:.1f} ms a step", flush=True)
            start = now
    return losses


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("text")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--every", type=int, default=20)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--attention", choices=("own", "fused"), default="own")
    parser.add_argument("--write", type=int, default=300)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--losses", help="a file for the loss of every step")
    return parser.parse_args()


def main():
    args = arguments()
    if args.threads:
        torch.set_num_threads(args.threads)
    torch.manual_seed(1337)
    letters, training, held_back = load(args.text)
    model = Transformer(len(letters), args.length, args.width, args.heads, args.layers,
                        args.dropout, args.attention == "fused")
    print(f"{sum(p.numel() for p in model.parameters())} parameters, {len(letters)} letters")
    losses = train(model, training, args)
    if args.losses:
        with open(args.losses, "w") as file:
            file.writelines(f"{loss!r}\n" for loss in losses)
    if args.write:
        print(f"held back: loss {estimate(model, held_back, args):.4f}")
        begin = torch.zeros((1, 1), dtype=torch.long)
        print("".join(letters[i] for i in model.write(begin, args.write)[0].tolist()))


if __name__ == "__main__":
    main()
