"""Runs passes in an order that satisfies constraints."""
import functools
import inspect
from collections import deque

from ...graph_module import GraphModule
from ....nn import Module
from .pass_base import PassResult

__all__ = ["pass_result_wrapper", "this_before_that_pass_constraint", "PassManager"]


def pass_result_wrapper(fn):
    """Wraps a pass that returns a module, or None, as one that returns a PassResult."""
    if fn is None:
        return None

    @functools.wraps(fn)
    def wrapped(gm):
        result = fn(gm)
        if result is None or isinstance(result, Module):
            return PassResult(gm if result is None else result, True)
        return result if isinstance(result, PassResult) else None
    if not inspect.isfunction(fn):
        wrapped.__name__ = type(fn).__name__
    return wrapped


def this_before_that_pass_constraint(this, that):
    """Returns the constraint that `this` does not come after `that`."""
    return lambda a, b: a != that or b != this


def _validate_pass_schedule_constraint(constraint, passes):
    for i, a in enumerate(passes):
        for j, b in enumerate(passes[i + 1:]):
            if not constraint(a, b):
                raise RuntimeError(
                    f"pass schedule constraint violated. Expected {a} before {b} but found {a} at "
                    f"index {i} and {b} at index {j} in pass list.")


def _topological_sort_passes(passes, constraints):
    """Returns the passes in an order where constraint(a, b) holds for every a before b."""
    if not constraints:
        return passes
    after = {a: [b for b in passes for constraint in constraints
                 if b != a and not constraint(b, a)] for a in passes}
    waits = {a: sum(below.count(a) for below in after.values()) for a in passes}
    ready, done = deque(a for a in passes if not waits[a]), []
    while ready:
        done.append(ready.popleft())
        for b in after[done[-1]]:
            waits[b] -= 1
            if not waits[b]:
                ready.append(b)
    if len(done) != len(passes):
        raise RuntimeError("Circular dependency detected within the following passes: "
                           f"{[a for a in passes if waits[a]]}")
    return done


def _name(function):
    return function.__name__ if inspect.isfunction(function) else type(function).__name__


class PassManager:
    """Runs passes, `steps` times or until nothing changes."""

    steps = 1

    def __init__(self, passes=None, constraints=None, steps=None, run_checks_after_each_pass=False,
                 suppress_check_failures=False):
        self.passes = passes or []
        self.constraints = constraints or []
        self._validated = False
        if steps:
            self.steps = steps
        self.run_checks_after_each_pass = run_checks_after_each_pass
        self.suppress_check_failures = suppress_check_failures

    def add_pass(self, _pass):
        """Adds a pass at the end."""
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint):
        """Adds constraint(a, b): returns whether a may come before b."""
        self.constraints.append(constraint)
        self._validated = False

    def validate_constraints(self):
        """Raises when the order violates a constraint."""
        if not self._validated:
            for constraint in self.constraints:
                _validate_pass_schedule_constraint(constraint, self.passes)
            self._validated = True

    def solve_constraints(self):
        """Sorts the passes by the constraints."""
        self.passes = _topological_sort_passes(self.passes, self.constraints)
        self._validated = True

    def add_checks(self, check):
        """Calls check(module) before the passes, and after each pass if requested."""
        if len(inspect.signature(check).parameters) != 1:
            raise TypeError(
                "PassManager check function should only take in one variable, a module")
        self.check = check

    def check(self, module):
        """Does nothing until add_checks() is called."""

    def _run_one(self, function, module):
        result = function(module)
        if not isinstance(result, PassResult) and not hasattr(result, "graph_module"):
            raise TypeError(f"The result of the pass {_name(function)} should be type PassResult."
                            "Please wrap it with pass_result_wrapper()")
        if isinstance(result.graph_module, GraphModule):
            result.graph_module.recompile()
        if self.run_checks_after_each_pass:
            self.check(result.graph_module)
        return result.graph_module, result.modified

    def _run_all(self, module):
        modified = False
        for i, function in enumerate(self.passes):
            try:
                module, changed = self._run_one(function, module)
            except Exception as error:
                before = [_name(f) for f in self.passes[:i]]
                raise Exception(f"An error occurred when running the '{_name(function)}' pass "
                                f"after the following passes: {before}") from error
            modified = modified or changed
        return module, modified

    def __call__(self, module):
        if not self._validated:
            self.solve_constraints()
        self.check(module)
        modified = False
        for _ in range(self.steps):
            module, changed = self._run_all(module)
            modified = modified or changed
            if not changed:
                break
        return PassResult(module, modified)
