"""Trains an LSTM to say which of eight numbers it saw first.

    python examples/c/memory.py
"""
import cresset as torch
import cresset.nn.functional as F
from cresset import nn

LENGTH, KINDS = 8, 5


class Memory(nn.Module):
    def __init__(self):
        super().__init__()
        self.numbers = nn.Embedding(KINDS, 16)
        self.memory = nn.LSTM(16, 32, batch_first=True)
        self.answer = nn.Linear(32, KINDS)

    def forward(self, numbers):
        _, (last, _) = self.memory(self.numbers(numbers))
        return self.answer(last[0])


torch.manual_seed(0)
net = Memory()
print(net)
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(1, 201):
    numbers = torch.randint(0, KINDS, (64, LENGTH))
    loss = F.cross_entropy(net(numbers), numbers[:, 0])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(f"step {step:3}  loss {loss.item():.4f}")
numbers = torch.randint(0, KINDS, (1000, LENGTH))
right = net(numbers).argmax(1) == numbers[:, 0]
print(f"right: {right.float().mean().item() * 100:.1f} %")
