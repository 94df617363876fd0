"""Bits and the number of threads: docs/design/kern.md lists the entries with the word `threads`,
no other entry needs the word, and the bits of library calls do not depend on layouts."""
import os
import re

import numpy
import pytest

import cresset as torch
import cresset.nn.functional as F
from table import BY_KEY, Draw, as_array, leaves

PAGE = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "design", "kern.md")
WITH_THREADS = sorted(e.key for e in BY_KEY.values() if "threads" in e.words)
# Elements of empty tensors are undefined.
LARGE = [e.key for e in BY_KEY.values() if not e.sample and "threads" not in e.words and "inplace" not in e.does and
         not e.key.startswith("empty") and
         all(p["type"] in ("Tensor", "Scalar", "float", "bool") or p["has_default"] or p["optional"] for p in e.params)]


@pytest.fixture(autouse=True)
def threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def bits(f):
    torch.manual_seed(3)
    return [as_array(x).tobytes() for x in leaves(f())]


def at_every_number(f):
    out = []
    for n in (1, 2, 3):
        torch.set_num_threads(n)
        out.append(bits(f))
    return out


def test_the_page_lists_the_entries_whose_bits_depend_on_threads():
    text = open(PAGE, encoding="utf-8").read()
    section = text.split("## Bits and threads", 1)[1].split("\n## ", 1)[0]
    listed = re.findall(r"^- `(\w+)`", section, re.M)
    assert sorted(listed) == WITH_THREADS


@pytest.mark.parametrize("key", LARGE)
def test_entries_have_the_same_bits_at_every_number_of_threads(key):
    try:
        small = Draw(BY_KEY[key], "", "float32").run()
        draw = Draw(BY_KEY[key], "", "float32", shape=(150, 300))
        if any(x.numel() > 40 for x in leaves(small)):  # diagflat squares sizes
            pytest.skip("its results are much larger than its arguments")
        draw.run()
    except (RuntimeError, TypeError, ValueError, IndexError):
        pytest.skip("takes other arguments than two large tensors")
    one, two, three = at_every_number(draw.run)
    assert one == two == three


def t(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


LIBRARY = {
    "mm": lambda: t(300, 200) @ t(200, 500, seed=1),
    "mm, long sums": lambda: t(8, 60000) @ t(60000, 8, seed=1),
    "mm, bfloat16": lambda: t(300, 200).bfloat16() @ t(200, 500).bfloat16(),
    "mm, float64": lambda: t(300, 200).double() @ t(200, 500).double(),
    "bmm": lambda: torch.bmm(t(12, 100, 64), t(12, 64, 90)),
    "addmm": lambda: torch.addmm(t(500), t(300, 200), t(200, 500)),
    "linear": lambda: F.linear(t(128, 768), t(700, 768), t(700)),
    "mv": lambda: t(900, 800) @ t(800),
    "convolution": lambda: F.conv2d(t(4, 32, 30, 30), t(40, 32, 3, 3), t(40), padding=1),
    "convolution, groups": lambda: F.conv2d(t(4, 32, 30, 30), t(32, 1, 3, 3), None, padding=1, groups=32),
    "attention": lambda: F.scaled_dot_product_attention(t(2, 4, 64, 32), t(2, 4, 64, 32), t(2, 4, 64, 32)),
    "solve": lambda: torch.linalg.solve(t(60, 60) + 60 * torch.eye(60), t(60, 5)),
    "fft": lambda: torch.view_as_real(torch.fft.fft(t(64, 1000))),
    "embedding": lambda: F.embedding(torch.arange(5000) % 70, t(70, 64)),
    "scatter_add": lambda: torch.zeros(50, 64).index_add(0, torch.arange(4000) % 50, t(4000, 64)),
    "cumsum": lambda: t(400, 500).cumsum(1),
    "sort": lambda: t(400, 500).sort(1)[0],
    "batch norm": lambda: F.batch_norm(t(16, 32, 20, 20), None, None, training=True),
}


@pytest.mark.parametrize("name", sorted(LIBRARY))
def test_library_calls_have_the_same_bits_at_every_number_of_threads(name):
    one, two, three = at_every_number(LIBRARY[name])
    assert one == two == three


@pytest.mark.parametrize("n", [1, 2])
def test_bits_of_convolutions_do_not_depend_on_layouts(n):
    torch.set_num_threads(n)
    x, w = t(4, 32, 30, 30), t(40, 32, 3, 3)
    plain = F.conv2d(x, w)
    last = F.conv2d(x.to(memory_format=torch.channels_last), w.to(memory_format=torch.channels_last))
    assert numpy.array_equal(as_array(plain), as_array(last.contiguous()))
