"""Sizes that a program rounds, or takes the root of, stay symbols: one recording serves all."""
import io
import math

import pytest

import cresset as torch
from cresset.export import Dim, export

PROGRAMS = {
    "round": lambda x: x[:round(x.shape[0] / 2.0)],
    "round of an int": lambda x: x[:round(x.shape[0]) - 1],
    "ceil": lambda x: x[:math.ceil(x.shape[0] / 2)],
    "floor": lambda x: x[:math.floor(x.shape[0] * 0.7)],
    "floor of a negative": lambda x: x[:-math.floor(x.shape[0] * -0.3)],
    "trunc": lambda x: x[:-math.trunc(x.shape[0] * -0.7)],
    "sym_int": lambda x: x.new_zeros(torch.sym_int(x.shape[0] * 1.5)),
    "sym_sqrt": lambda x: x / torch.sym_sqrt(x.shape[0]),
    "several": lambda x: x.repeat(math.ceil(x.shape[0] / 3) + 1)[:round(x.shape[0] * 1.25)],
}
SIZES = 8, 9, 10, 11, 12, 5, 7, 6, 29


@pytest.mark.parametrize("f", PROGRAMS.values(), ids=PROGRAMS)
def test_one_recording_serves_all_sizes(f):
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    compiled = torch.compile(f, dynamic=True)
    for n in SIZES:
        x = torch.arange(1., n + 1)
        for _ in range(2):
            assert torch.equal(compiled(x), f(x)), n
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


@pytest.mark.parametrize("f", PROGRAMS.values(), ids=PROGRAMS)
def test_exported_programs_compute_them(f):
    class Module(torch.nn.Module):
        def forward(self, x):
            return f(x)
    program = export(Module(), (torch.randn(8),), dynamic_shapes={"x": {0: Dim("n", min=5, max=30)}})
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    buffer.seek(0)
    loaded = torch.export.load(buffer)
    for n in SIZES:
        x = torch.arange(1., n + 1)
        assert torch.equal(program.module()(x), f(x)), n
        assert torch.equal(loaded.module()(x), f(x)), n


def test_rounded_numbers_that_are_read_are_fixed():
    """round(x, 1) and a number beyond 2**53 have no symbol; the recording is for this size."""
    for f in (lambda x: x * round(x.shape[0] / 3, 1), lambda x: x * math.floor(x.shape[0] * 1e300 / 1e290)):
        compiled = torch.compile(f, dynamic=True)
        for n in (7, 8, 9):
            x = torch.arange(1., n + 1)
            assert torch.equal(compiled(x), f(x))
    with pytest.raises(ValueError, match="math domain error"):
        torch.compile(lambda x: x * torch.sym_sqrt(2 - x.shape[0]), dynamic=True)(torch.ones(5))
