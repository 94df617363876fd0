"""Random TorchScript modules see the same with programs of calls forced, or chosen anew at each call, as by their steps."""
import pytest

import cresset as torch
import script_random


@pytest.fixture(autouse=True)
def settings():
    was = torch._C._script_programs(0)
    yield
    torch._C._script_programs(was)


@pytest.mark.records("calls that are deferred use programs of traces, not those of modules")
def test_cases_use_programs_and_make_results():
    used = results = 0
    for seed in range(11, 20):
        seen, n = script_random.observe(torch, seed, 2, calls=8)
        used += n
        results += sum(what[0] == "result" for what in seen)
    assert used > 5 and results > 40


@pytest.mark.parametrize("first", range(100, 132, 8))
def test_programs_show_what_steps_show(first):
    for seed in range(first, first + 8):
        want, _ = script_random.observe(torch, seed, 0)
        for mode in (2, -1):
            got, _ = script_random.observe(torch, seed, mode)
            assert script_random.difference(want, got) is None, (seed, mode)
