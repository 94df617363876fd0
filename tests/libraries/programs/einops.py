"""einops: rearrangements, reductions, repetitions, einsum, packing and layers."""
import torch
from einops import einsum, pack, rearrange, reduce, repeat, unpack
from einops.layers.torch import EinMix, Rearrange, Reduce
from program import program, summary, train


def image():
    torch.manual_seed(0)
    return torch.randn(2, 3, 8, 6)


@program("functions")
def functions():
    x = image()
    packed, shapes = pack([x, x[:, :1]], "b * h w")
    parts = unpack(packed, shapes, "b * h w")
    return {"rearrange": rearrange(x, "b c (h p) (w q) -> b (h w) (p q c)", p=2, q=3).flatten()[:40].tolist(),
            "mean": reduce(x, "b c h w -> b c", "mean").flatten().tolist(),
            "max": reduce(x, "b c (h 2) (w 2) -> b c h w", "max").flatten().tolist(),
            "prod": reduce(x, "b c h w -> h", "prod").tolist(),
            "repeat": summary(repeat(x, "b c h w -> b c (h 2) (w 3)")),
            "einsum": einsum(x, x, "b c h w, b d h w -> b c d").flatten().tolist(),
            "packed": [packed.shape[1], *[p.shape[1] for p in parts]]}


@program("layers")
def layers():
    x = image()
    net = torch.nn.Sequential(
        Rearrange("b c (h p) (w q) -> b h w (p q c)", p=2, q=2), EinMix(
            "b h w c -> b h w d", weight_shape="c d", bias_shape="d", c=12, d=5),
        Reduce("b h w d -> b d", "mean"))
    torch.manual_seed(1)
    for p in net.parameters():
        torch.nn.init.normal_(p)
    return train(net, lambda: (net(x) ** 2).mean())
