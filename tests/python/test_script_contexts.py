"""Random functions with `with`, loops, and statements that leave them: programs do what Python does."""
import importlib.util
import random
import sys

import pytest

import cresset as torch

HEAD = """
from typing import Any, List

class Ctx:
    def __init__(self, log: List[int], k: int):
        self.log = log
        self.k = k
    def __enter__(self):
        self.log.append(self.k)
        return self
    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        self.log.append(-self.k)

"""
INNER = ["set", "log", "leave"]
KINDS = ["set", "set", "log", "if", "with", "with", "for", "leave", "while"]


def leave(r, loop, pad, v):
    what = r.choice((["break", "continue"] * 2 if loop else []) + [f"return {v}", 'raise ValueError("stop")'])
    return [f"{pad}if {v} > {r.randint(0, 6)}:", f"{pad}    {what}"]


def statement(r, depth, loop, pad):
    v, inside = r.choice("abc"), pad + "    "
    kind = r.choice(KINDS if depth < 4 else INNER)
    if kind == "set":
        return [f"{pad}{v} = {r.choice('abc')} + {r.choice(['1', '2', 'n', r.choice('abc')])}"]
    if kind == "log":
        return [f"{pad}log.append({v})"]
    if kind == "leave":
        return leave(r, loop, pad, v)
    if kind == "if":
        lines = [f"{pad}if {v} % {r.randint(2, 3)} == {r.randint(0, 1)}:", *body(r, depth + 1, loop, inside)]
        return lines + ([f"{pad}else:", *body(r, depth + 1, loop, inside)] if r.random() < 0.5 else [])
    if kind == "with":
        k = r.randint(10, 99)
        second = f", Ctx(log, {k + 100})" if r.random() < 0.2 else ""
        lines = [f"{pad}with Ctx(log, {k}) as w{k}{second}:", *body(r, depth + 1, loop, inside)]
        return lines + ([f"{inside}{v} = w{k}.k"] if r.random() < 0.3 else [])
    if kind == "for":
        head = [f"{pad}for i{depth} in range({r.randint(1, 3)}):", f"{inside}{v} = {v} + i{depth}"]
    else:
        head = [f"{pad}{v} = {v} % 5", f"{pad}u{depth} = 0", f"{pad}while u{depth} < 3 and {v} < 9:",
                f"{inside}u{depth} = u{depth} + 1"]
    return head + body(r, depth + 1, True, inside)


def body(r, depth, loop, pad):
    return [line for _ in range(r.randint(1, 3)) for line in statement(r, depth, loop, pad)]


def source(seed):
    r = random.Random(seed)
    return "\n".join(["def f(log: List[int], n: int) -> int:", "    a = 1", "    b = n", "    c = 3", *body(r, 0, False, "    "),
                      "    return a * 100 + b * 10 + c", ""])


def outcome(f, log, n):
    try:
        result = f(log, n)
    except Exception:
        result = "error"
    return result, list(log)


@pytest.mark.parametrize("seed", [56, *range(1000, 1030)])
def test_contexts_are_left_as_in_python(seed, tmp_path):
    name = f"script_contexts_{seed}"
    path = tmp_path / f"{name}.py"
    path.write_text(HEAD + source(seed))
    spec = importlib.util.spec_from_file_location(name, path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    program = torch.jit.script(module.f)
    for n in range(6):
        log = torch.jit.script([0])
        log.pop()
        assert outcome(program, log, n) == outcome(module.f, [], n), path.read_text()
    del sys.modules[name]


def leaves_without(n: int):
    c = 0
    last = -1
    for a in range(n):
        last = a
        del c
        if a > 1:
            break
        raise ValueError("stop")
    return last


def deletes_and_goes_on(n: int):
    c, total = 5, 0
    for a in range(n):
        c = a
        if a == 1:
            del c
            continue
        total = total + c
        del c
    return total


def reads_behind(n: int):
    c = 0
    for a in range(n):
        del c
        if a > 1:
            continue
        c = 1
    return c


def test_loops_that_delete_variables():
    """What a way out of a loop lacks has no value behind the loop, as in torch; `break` without it ended the process."""
    assert torch.jit.script(leaves_without)(0) == -1
    with pytest.raises(torch.jit.Error, match="stop"):
        torch.jit.script(leaves_without)(1)
    assert [torch.jit.script(deletes_and_goes_on)(n) for n in range(5)] == [deletes_and_goes_on(n) for n in range(5)]
    with pytest.raises(RuntimeError, match="undefined value c"):
        torch.jit.script(reads_behind)
