"""Random numbers, ranges and initial weights have torch's bits, at every number of threads."""
import json

import pytest

import bits_cases
import cresset as torch

EXPECTED = json.loads(bits_cases.EXPECTED.read_text())


@pytest.mark.parametrize("threads", [1, 2])
def test_digests_equal_torchs(threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        got = bits_cases.run(torch)
    finally:
        torch.set_num_threads(before)
    assert {name: value for name, value in got.items() if EXPECTED.get(name) != value} == {}
    assert got.keys() == EXPECTED.keys()
