"""draft_export(): programs in spite of what export() refuses, and reports of that in torch 2.13's words."""
import io

import cresset as torch
import pytest
from cresset import nn
from cresset.export import Dim, draft_export, export, load, save
from cresset.export._draft_export import FailureType
from cresset.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

X = torch.randn(4, 3, generator=torch.Generator().manual_seed(1)).abs()


class Call(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, *args):
        return self.f(*args)


def branch(x):
    if x.sum() > 0:
        return x.sin()
    return x.cos()


def number(x, n):
    n = n.item()
    if n > 2:
        return x + n
    return x - n


def sizes(x):
    at = x.nonzero()
    if at.shape[0] > 2:
        return at + 1
    return at


def loop(x, n):
    for i in range(n.item()):
        x = x + i
    return x


def exact(x, n):
    return x * 2 if n.item() == 3 else x


def two(x, n):
    a, b = n[0].item(), n[1].item()
    if a > b:
        x = x + 1
    return x * 2 if a + b < 10 else x


# (function, arguments, the expressions in the report, arguments that the program refuses, its words)
ELEMENTS = {
    "branch": (branch, (X,), ["Eq(u0, 1)"], (-X,), "Runtime assertion failed for expression Eq(u0, 1) on node 'item'"),
    "other branch": (branch, (-X,), ["Eq(u0, 1)"], (X,), "Runtime assertion failed for expression Ne(u0, 1) on node 'sym_not'"),
    "number": (number, (X, torch.tensor(3)), ["u0 > 2"], (X, torch.tensor(2)), "Runtime assertion failed for expression u0 >= 3 on node 'ge'"),
    "sizes": (sizes, (X,), ["u0 > 2"], (X * 0,), "Runtime assertion failed for expression u0 >= 3 on node 'ge'"),
    "loop": (loop, (X, torch.tensor(3)), ["u0"], (X, torch.tensor(2)), "Runtime assertion failed for expression u0 >= 3 on node 'ge'"),
    "exact": (exact, (X, torch.tensor(3)), ["Eq(u0, 3)"], (X, torch.tensor(4)), "Runtime assertion failed for expression u0 <= 3 on node 'le'"),
    "two": (two, (X, torch.tensor([5, 2])), ["u0 > u1", "u0 + u1 < 10"], (X, torch.tensor([2, 5])), "Runtime assertion failed for expression"),
}


def again(program):
    file = io.BytesIO()
    save(program, file)
    return load(io.BytesIO(file.getvalue()))


@pytest.mark.parametrize("name", ELEMENTS)
def test_the_example_answers_what_depends_on_elements(name):
    f, args, expressions, others, words = ELEMENTS[name]
    with pytest.raises(GuardOnDataDependentSymNode):
        export(Call(f), args)
    program = draft_export(Call(f), args)
    report = program._report
    assert not report.successful() and [x.failure_type for x in report.failures] == [FailureType.DATA_DEPENDENT_ERROR] * len(expressions)
    assert [x.data["expr"] for x in report.failures] == expressions
    for found in (program, again(program)):
        assert torch.equal(found.module()(*args), f(*args))
        with pytest.raises(RuntimeError, match=words.replace("(", r"\(").replace(")", r"\)")):
            found.module()(*others)


REPORT = """\033[93m
###################################################################################################
WARNING: 1 issue(s) found during export, and it was not able to soundly produce a graph.
Please follow the instructions to fix the errors.
###################################################################################################

1. Data dependent error.
    When exporting, we were unable to evaluate the value of `u0 > 2`.
    This was encountered 1 times.
    This occurred at the following user stacktrace: """
LOCALS = """
            if n > 2:
        
        Locals:
            n: ['u0']

    As a result, it was specialized to a constant (e.g. `True` in the 1st occurrence), and asserts were inserted into the graph.

    Please add `torch._check(...)` to the original code to assert this data-dependent assumption.
"""


def test_the_report_says_where_and_what():
    text = str(draft_export(Call(number), (X, torch.tensor(3)))._report)
    assert text.startswith(REPORT) and LOCALS in text and "test_export_draft.py, lineno" in text and ", in number\n" in text


def test_equal_questions_are_one_failure():
    def f(x, y):
        total = 0
        for v in (x, y):
            total = total + (v * v if v.item() > 10 else v + v)
        return total
    args = torch.tensor(5), torch.tensor(3)
    program = draft_export(Call(f), args)
    failure, = program._report.failures
    assert failure.data["occurrences"] == 2 and failure.data["result"] == "False" and torch.equal(program.module()(*args), f(*args))


def test_a_sound_program_has_no_failures():
    program = draft_export(Call(lambda x: x + 1), (X,))
    assert program._report.successful() and "Congratulations: No issues are found during export" in str(program._report)
    assert str(program) == str(export(Call(lambda x: x + 1), (X,))) or len(program.graph.nodes) == 3


def test_sizes_that_cannot_vary_are_guards():
    def f(x):
        return x + 1 if x.shape[0] == 4 else x
    program = draft_export(Call(f), (X,), dynamic_shapes=(({0: Dim("n")},),))
    failure, = program._report.failures
    assert failure.failure_type == FailureType.GUARD_ADDED and failure.data["expr"].startswith("Eq(s") and failure.data["expr"].endswith(", 4)")
    assert list(failure.data["symbol_to_sources"].values()) == ["L['args'][0].size()[0]"]
    text = str(program._report)
    assert "Guard Added." in text and "return x + 1 if x.shape[0] == 4 else x" in text and "dynamic_shapes = (({0: DimHint(AUTO, min=0)},),)" in text
    assert torch.equal(program.module()(X), f(X))
    module = Call(lambda x, y: x + y)
    args, shapes = (torch.ones(4, 3), torch.ones(4, 3)), (({0: Dim("a"), 1: Dim.DYNAMIC}, {0: Dim("b")}),)
    program = draft_export(module, args, dynamic_shapes=shapes)
    assert not program._report.successful() and torch.equal(program.module()(torch.ones(6, 3), torch.ones(6, 3)), torch.full((6, 3), 2.0))


def test_operators_without_a_fake_kernel_or_with_a_wrong_one():
    library = torch.library.Library("draft_test", "DEF")
    library.define("without(Tensor x) -> Tensor")
    library.impl("without", lambda x: x * 2, "CPU")
    library.define("wrong(Tensor x) -> Tensor")
    library.impl("wrong", lambda x: x[:2].clone(), "CPU")
    torch.library.register_fake("draft_test::wrong", torch.empty_like)

    def f(x):
        return torch.ops.draft_test.wrong(torch.ops.draft_test.without(x)) + 1
    program = draft_export(Call(f), (X,))
    report = program._report
    assert [x.failure_type for x in report.failures] == [FailureType.MISSING_FAKE_KERNEL, FailureType.MISMATCHED_FAKE_KERNEL]
    assert [x.data for x in report.failures] == [{"op": "draft_test.without.default"}, {
        "op": "draft_test.wrong.default", "reason": "mismatch between fake value 4 and real value 2 "}]
    assert set(report.op_profiles) == {"draft_test.without.default", "draft_test.wrong.default"}
    assert torch.equal(program.module()(X), f(X))
    assert "torch.ops.draft_test.without.default is missing a fake kernel implementation." in str(report)
    assert "has a fake kernel implementation, but it has incorrect behavior, based on the real kernel." in str(report)


def test_a_draft_changes_neither_arguments_nor_state():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("n", torch.tensor(2))

        def forward(self, x):
            self.n.add_(1)
            x.sin_()
            return x * 2 if self.n.item() == 3 else x
    module, x = Counts(), X.clone()
    program = draft_export(module, (x,))
    assert torch.equal(x, X) and module.n.item() == 2 and torch.equal(program.module()(x), X.sin() * 2)
