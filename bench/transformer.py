"""The layers of the transformers that bench/export_models.py and bench/aot_models.py measure."""


def layer(torch, width, heads, causal=False, cache=0, norms_first=True, eps=1e-5):
    """A class of layers.  causal: a word sees those before it; cache: calls have one word, and keep keys and values."""
    nn, F = torch.nn, torch.nn.functional

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            self.n1, self.n2 = nn.LayerNorm(width, eps), nn.LayerNorm(width, eps)
            if cache:
                self.register_buffer("keys", torch.zeros(1, heads, cache, width // heads))
                self.register_buffer("values", torch.zeros(1, heads, cache, width // heads))

        def mixed(self, x, at):
            q, k, v = (f(x).view(*x.shape[:2], heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
            mask = None
            if at is not None:
                self.keys.index_copy_(2, at, k)
                self.values.index_copy_(2, at, v)
                k, v, mask = self.keys, self.values, torch.arange(cache) <= at
            return self.o(F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal and at is None).transpose(1, 2).reshape(x.shape))

        def forward(self, x, at=None):
            if norms_first:
                x = x + self.mixed(self.n1(x), at)
                return x + self.down(F.gelu(self.up(self.n2(x))))
            x = self.n1(self.mixed(x, at) + x)
            return self.n2(self.down(F.gelu(self.up(x))) + x)

    return Layer
