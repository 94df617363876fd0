"""Traces compute with the sizes of each call: modules and functions, and what torch's traces do (`trace_cases.py`)."""
import inspect
import json
import math
import os
import pickle
import re
import warnings

import pytest

import cresset as torch
import trace_cases
from cresset import nn
from cresset.nn import functional as F

EXPECTED = json.load(open(os.path.join(os.path.dirname(__file__), "trace_expected.json")))

# Bases, containers, modules that become others, and modules with a function of their own.
OTHER_MODULES = {"Container", "LinearCrossEntropyLoss", "LinearCrossEntropyOptions", "Module", "ModuleDict", "ParameterDict",
                 "ParameterList", "RNNBase", "RNNCellBase"}
# Helpers, and a function of its own.
OTHER_FUNCTIONS = {"assert_int_or_pair", "bind", "linear_cross_entropy"}


def test_every_module_and_function_has_a_case():
    words = set(re.findall(r"\w+", " ".join(trace_cases.cases())))
    modules = {name for name in nn.modules.__all__ if not name.startswith("Lazy")}
    assert modules - words == OTHER_MODULES
    functions = {name for name, f in vars(F).items() if callable(f) and not inspect.isclass(f) and name[0] != "_" and
                 name[-1] != "_" and not name.endswith("_with_indices") and "torch_function" not in name} - set(F._ELSEWHERE)
    assert functions - words == OTHER_FUNCTIONS
    assert set(EXPECTED) == set(trace_cases.cases())


@pytest.mark.parametrize("case", trace_cases.cases())
def test_traces_follow_the_sizes_that_torchs_follow(case):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = trace_cases.outcome(torch, case)
    allowed = {EXPECTED[case], "follows"}
    if EXPECTED[case].startswith("refused"):
        allowed.add("follows warns")
    if EXPECTED[case] == "raises warns":
        allowed.add("raises")
    assert found in allowed


# --- numbers that functions of the package get as sizes ---

# A function that counts as one of the package.
traced_number = eval("lambda x: x.size(0)", {"__name__": "cresset.nn.functional"})

NUMBERS = {
    "add": lambda n: n + 2, "add to": lambda n: 2 + n, "sub": lambda n: n - 1, "sub from": lambda n: 9 - n, "mul": lambda n: 3 * n,
    "floordiv": lambda n: n // 2, "floordiv of": lambda n: 20 // n, "mod": lambda n: n % 2, "mod of": lambda n: 7 % n,
    "pow": lambda n: n ** 2, "pow of": lambda n: 2 ** n, "neg": lambda n: -(-n), "abs": lambda n: abs(-n), "pos": lambda n: +n,
    "div": lambda n: n / 2, "div of": lambda n: 3 / n, "floats": lambda n: n * 1.5 + 0.25,
    "floor": lambda n: math.floor(n * 1.5), "ceil": lambda n: math.ceil(n / 2), "sum": lambda n: sum([n, n]),
    "prod": lambda n: torch.Size([n, 3]).numel(), "size": lambda n: (torch.Size([n, 3]) + (n,))[2], "floor of": lambda n: math.floor(n),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_what_python_computes_of_a_size_is_of_each_call(name):
    def f(x):
        return x * NUMBERS[name](traced_number(x))
    x, y = torch.ones(4), torch.ones(7)
    traced = torch.jit.trace(f, x)
    assert torch.allclose(traced(x), f(x)) and torch.allclose(traced(y), f(y))
    assert isinstance(NUMBERS[name](4), (int, float))


def test_numbers_of_a_trace_are_plain_for_what_reads_them():
    seen = []

    def f(x):
        n = traced_number(x)
        seen.extend([n, n * 0.5, isinstance(n, int), n == 4, n > 3, hash(n) == hash(4), int(n), float(n), f"{n}", pickle.loads(pickle.dumps(n)),
                     list(range(n)), [0, 1, 2, 3, 4][n], "ab" * n, (n, 1) == (4, 1), complex(n) + 1j, n + 1j, n & 5, round(n * 0.6)])
        return x.view(n, 1)
    traced = torch.jit.trace(f, torch.ones(4), check_trace=False)
    assert traced(torch.ones(6)).shape == (6, 1)
    assert seen[2:] == [True, True, True, True, 4, 4.0, "4", 4, [0, 1, 2, 3], 4, "abababab", True, 4 + 1j, 4 + 1j, 4, 2]
    assert type(seen[9]) is int and type(seen[6]) is int
    n, half = seen[:2]  # behind the trace they are numbers
    assert type(n + 1) is int and type(half * 2) is float and n + 1 == 5 and torch.zeros(n).shape == (4,)
    again = torch.jit.trace(lambda x: x * n + half, torch.ones(2))
    assert torch.equal(again(torch.ones(3)), torch.full((3,), 6.0))


def test_sizes_of_parameters_are_constants():
    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.ones(3))

        def forward(self, x):
            return x * traced_number(self.w)
    assert "size" not in torch.jit.trace(Whole(), torch.ones(3)).code


# --- torch.tensor and torch.Size of sizes ---

def test_tensors_made_of_sizes_are_of_each_call():
    made = [lambda x: torch.tensor(x.size(0)), lambda x: torch.as_tensor(x.size(0)), lambda x: torch.as_tensor(x.sum(), dtype=torch.float64),
            lambda x: torch.tensor(x.sum()), lambda x: torch.zeros(torch.Size([x.size(0), 3])), lambda x: x.view(torch.Size((x.size(0), -1)))]
    for f in made:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            traced = torch.jit.trace(f, torch.ones(2), check_trace=False)
            assert torch.equal(traced(torch.ones(5)), f(torch.ones(5)))
    code = torch.jit.trace(made[0], torch.ones(2), check_trace=False).code
    assert code == ("def _lambda(x: Tensor) -> Tensor:\n  _0 = ops.prim.NumToTensor(torch.size(x, 0))\n"
                    '  _1 = torch.to(torch.detach(_0), torch.device("cpu"), 4, False, True)\n  return torch.detach(_1)\n')


def test_modes_see_the_functions_that_make_tensors():
    seen = []

    class Seeing(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append((func, args, kwargs))
            return func(*args, **(kwargs or {}))
    with Seeing():
        made = torch.tensor([1, 2], dtype=torch.float32), torch.as_tensor(3)
    assert seen == [(torch.tensor, ([1, 2],), {"dtype": torch.float32}), (torch.as_tensor, (3,), {})]
    assert made[0].dtype == torch.float32 and made[1].item() == 3


# --- spellings of arguments ---

SPELLINGS = [
    ("sum", lambda x: x.sum(axis=0, keepdims=True), "torch.sum(x, [0], True)"),
    ("mean", lambda x: x.mean(axis=0), "torch.mean(x, [0])"),
    ("max", lambda x: x.max(axis=0)[0], "torch.max(x, 0)"),
    ("stack", lambda x: torch.stack([x, x], axis=1), "torch.stack([x, x], 1)"),
    ("input", lambda x: torch.sum(input=x, dim=0), "torch.sum(x, [0])"),
    ("x1", lambda x: torch.add(x1=x, x2=x), "torch.add(x, x)"),
    ("polygamma", lambda x: x.polygamma(2), "torch.polygamma(2, x)"),
    ("special", lambda x: torch.special.polygamma(n=1, input=x), "torch.polygamma(1, x)"),
    ("floor of a number", lambda x: 7 // x, "torch.floor_divide(CONSTANTS.c0, x)"),
    ("floor", lambda x: x // 7, "torch.floor_divide(x, CONSTANTS.c0)"),
    ("product", lambda x: torch.mul(2, x), "torch.mul(CONSTANTS.c0, x)"),
    ("quotient", lambda x: torch.true_divide(1, x), "(CONSTANTS.c0, x)"),
    ("difference", lambda x: torch.subtract(1, x), "(CONSTANTS.c0, x)"),
    ("count", lambda x: torch.count_nonzero(x, (0, 1)), "torch.count_nonzero(x, [0, 1])"),
    ("count by name", lambda x: torch.count_nonzero(x, dim=(0, 1)), "torch.count_nonzero(x, [0, 1])"),
]


@pytest.mark.parametrize("name, f, code", SPELLINGS, ids=[name for name, _, _ in SPELLINGS])
def test_arguments_in_the_spellings_of_python_are_recorded(name, f, code):
    x = torch.rand(2, 3) + 1
    traced = torch.jit.trace(f, x)
    assert code in traced.code and torch.equal(traced(x * 2), f(x * 2))
