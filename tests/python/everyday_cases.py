"""Small everyday programs, programs that use torch's further modules, and their results.

A case is a name and up to a dozen lines, run as at Python's prompt: the result has the repr of
every expression that is not None, and all printed text, warnings and exceptions.  `python
everyday_cases.py --record [SUITE]` runs all cases with torch and writes SUITE_expected.json.  The
cases of the suites `everyday` and `modules` are in SUITE_cases.txt: `# group` begins a group,
`== name` a case.
"""
import ast
import contextlib
import importlib
import io
import json
import pathlib
import re
import sys
import warnings

import versions

HERE = pathlib.Path(__file__).parent


def read_cases(suite="everyday"):
    """Returns {"group: name": lines}, in the file's order."""
    cases, group, name = {}, None, None
    for line in (HERE / f"{suite}_cases.txt").read_text().splitlines():
        if line.startswith("# "):
            group = line[2:].strip()
        elif line.startswith("== "):
            name = f"{group}: {line[3:].strip()}"
            if name in cases:
                raise ValueError(f"two cases are called {name!r}")
            cases[name] = ""
        elif name:
            cases[name] += line + "\n"
    return {name: text.strip("\n") for name, text in cases.items()}


def neutral(text):
    """Replaces machine-dependent text, and the library's name."""
    text = text.replace("cresset", "torch")
    text = re.sub(r"0x[0-9a-f]+", "0x...", text)
    text = re.sub(r" \(Triggered internally at .*?\)", "", text)
    text = re.sub(r"\nException raised from .*", "", text, flags=re.S)
    return text


def reset(t):
    t.set_default_dtype(t.float32)
    t.set_default_device(None)
    t.set_grad_enabled(True)
    t.set_printoptions(profile="default")
    t.use_deterministic_algorithms(False)
    t.set_warn_always(True)
    t.manual_seed(0)


def run(module, text):
    """Returns the output lines of a case."""
    t = importlib.import_module(module)
    text = re.sub(r"\b(from|import) torch\b", rf"\1 {module}", text)
    import numpy
    names = {"torch": t, "nn": importlib.import_module(module + ".nn"), "np": numpy,
             "F": importlib.import_module(module + ".nn.functional"), "__name__": "case"}
    out = []
    reset(t)

    def warned(message, category, *rest, **more):
        if not versions.says_fork(message):
            out.append(f"{category.__name__}: {message}")

    printed = io.StringIO()

    def take_printed():
        if printed.getvalue():
            out.append(printed.getvalue().rstrip("\n"))
            printed.seek(0)
            printed.truncate()

    with warnings.catch_warnings(), contextlib.redirect_stdout(printed):
        warnings.simplefilter("always")
        warnings.showwarning = warned
        try:
            for step in ast.parse(text).body:
                if isinstance(step, ast.Expr):
                    value = eval(compile(ast.Expression(step.value), "case", "eval"), names)
                    take_printed()
                    if value is not None:
                        out.append(repr(value))
                else:
                    exec(compile(ast.Module([step], []), "case", "exec"), names)
                take_printed()
        except Exception as error:
            take_printed()
            out.append(f"{type(error).__name__}: {error}")
    reset(t)
    t.set_warn_always(False)
    return neutral(versions.ordered_dicts("\n".join(out))).splitlines()


def main(args):
    if args[:1] != ["--record"]:
        sys.exit(__doc__)
    suite = args[1] if len(args) > 1 else "everyday"
    got = {name: run("torch", text) for name, text in read_cases(suite).items()}
    (HERE / f"{suite}_expected.json").write_text(json.dumps(got, indent=0, ensure_ascii=False) + "\n")
    print(len(got), "cases")


if __name__ == "__main__":
    main(sys.argv[1:])
