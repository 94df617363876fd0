"""Says which names of torch are here.  Run it as torch:

    python -m cresset run check.py [--missing FILE] [--page FILE]

Prints a line for each library and each namespace: names here, names there are.  A function that
only raises counts as missing, unless it only raises in torch too; a dtype without tensors, too.  --missing writes the missing
names, those that most libraries use first; --page writes the page for docs/, with the reasons
that reasons.txt gives; --messages writes the module by which the package tells that a name is
torch's.  The shares at the end leave out the packages of ASIDE, which are other work.
"""
import argparse
import sys
import warnings
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
ASIDE = ("torch.distributed", "torch._C._distributed_c10d", "torch.export", "torch.ao", "torch.backends.quantized", "torch.onnx",
         "torch.package")
sys.path.insert(0, str(HERE))
from presence import MISSING, only_raises, resolve


def is_here(name, raises_in_torch):
    value = resolve(name)
    return value is not MISSING and (raises_in_torch or not only_raises(value))


def read(file):
    """The rows of a recorded list, and whether each is marked."""
    for line in open(HERE / file):
        words = line.split()
        marked = words[-1] == "!"
        yield words[:-1] if marked else words, marked


def used_names():
    """{name: (libraries, here)}"""
    return {name: (libraries, is_here(name, marked))
            for (name, *libraries), marked in read("used.txt")}


def public_names():
    """{namespace: {name: here}}"""
    spaces = {}
    for (namespace, name), marked in read("public.txt"):
        spaces.setdefault(namespace, {})[name] = is_here(f"{namespace}.{name}", marked)
    return spaces


def share(here, total):
    return f"{here} of {total} ({100 * here / total:.1f} %)"


def library_rows(used):
    total, here = Counter(), Counter()
    for libraries, present in used.values():
        total.update(libraries)
        here.update(libraries if present else ())
    yield "all libraries", sum(present for _, present in used.values()), len(used)
    for library in sorted(total):
        yield library, here[library], total[library]


def namespace_rows(spaces):
    yield ("all namespaces", sum(sum(names.values()) for names in spaces.values()),
           sum(map(len, spaces.values())))
    for namespace, names in spaces.items():
        yield namespace, sum(names.values()), len(names)


def is_aside(name):
    return any(name == prefix or name.startswith(prefix + ".") for prefix in ASIDE)


def shares_aside(used, spaces):
    """What is here without the packages ASIDE: of the used names, and of the public ones."""
    flags = [here for name, (_, here) in used.items() if not is_aside(name)]
    yield "used", sum(flags), len(flags)
    flags = [here for space, names in spaces.items() for name, here in names.items() if not is_aside(f"{space}.{name}")]
    yield "public", sum(flags), len(flags)


def message_lines(used, spaces):
    """The module _absent_names.py."""
    names = {name for name, (_, here) in used.items() if not here}
    names |= {f"{space}.{name}" for space, found in spaces.items() for name, here in found.items() if not here}
    yield '"""Names of torch that are missing; written by `make names`."""'
    yield ""
    yield 'NAMES = frozenset("""'
    line = ""
    for name in sorted(name.removeprefix("torch.") for name in names):
        if len(line) + len(name) > 116:
            yield line
            line = ""
        line = f"{line} {name}".strip()
    yield line
    yield '""".split())'
    yield ""
    yield ""
    yield "def missing(module, name):"
    yield '    """The AttributeError for a name that a module lacks."""'
    yield '    path = f"{module}.{name}".partition(".")[2]'
    yield "    if path in NAMES:"
    yield '        return AttributeError(f"torch.{path} is not part of Cresset yet", name=name)'
    yield "    return AttributeError(f\"module '{module}' has no attribute '{name}'\", name=name)"


def read_reasons():
    """[(prefix, reason)], the longest prefix first."""
    rows = [line.rstrip("\n").split(" ", 1) for line in open(HERE / "reasons.txt")
            if line.strip() and not line.startswith("#")]
    return sorted(rows, key=lambda row: -len(row[0]))


def find_reason(reasons, name):
    for prefix, reason in reasons:
        if name == prefix or name.startswith(prefix + ".") or (
                prefix.endswith("*") and name.startswith(prefix[:-1])):
            return reason
    return "not there yet"


def table(title, rows):
    yield f"| {title} | here | of |"
    yield "|---|---|---|"
    for label, here, total in rows:
        yield f"| {label} | {here} | {total} |"
    yield ""


def page_lines(used, spaces):
    reasons, missing = read_reasons(), {}
    names = [name for name, (_, present) in used.items() if not present]
    names += [f"{space}.{name}" for space, found in spaces.items()
              for name, present in found.items() if not present]
    for name in sorted(set(names)):
        missing.setdefault(find_reason(reasons, name), []).append(name)
    yield "# Names of torch that are missing"
    yield ""
    yield "Written by `make names`.  Names are those of torch 2.13: the ones that the libraries of"
    yield "`tests/libraries/versions.txt` spell, and the public ones of the documented namespaces."
    yield "A function that only raises counts as missing, and so do a class whose construction only raises and a dtype that no"
    yield "tensor has."
    yield ""
    yield "A torch 2.13 whose `torch._C._distributed_c10d` is hidden, as in a build without distributed,"
    yield "has 1331 of the used and 3491 of the public names."
    yield ""
    for label, here, total in shares_aside(used, spaces):
        yield f"Without {', '.join(f'`{name}`' for name in ASIDE)}: {share(here, total)} of the {label} names." if label == "used" else \
            f"And {share(here, total)} of the {label} ones."
    yield ""
    yield from table("library", library_rows(used))
    yield from table("namespace", namespace_rows(spaces))
    for reason, names in sorted(missing.items(), key=lambda item: (item[0] == "not there yet", item[0])):
        yield f"## {reason[0].upper()}{reason[1:]}"
        yield ""
        yield ", ".join(f"`{name}`" for name in names)
        yield ""


def missing_lines(used, spaces):
    rows = [(libraries, name) for name, (libraries, present) in used.items() if not present]
    for libraries, name in sorted(rows, key=lambda row: (-len(row[0]), row[1])):
        yield f"{len(libraries):2} {name} {' '.join(libraries)}"
    for space, names in spaces.items():
        for name, present in names.items():
            if not present and f"{space}.{name}" not in used:
                yield f" 0 {space}.{name}"


def write(path, lines):
    with open(path, "w") as file:
        file.writelines(line + "\n" for line in lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--missing")
    parser.add_argument("--page")
    parser.add_argument("--messages")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    used, spaces = used_names(), public_names()
    for label, here, total in [*library_rows(used), *namespace_rows(spaces)]:
        print(f"{label:44} {share(here, total)}")
    for label, here, total in shares_aside(used, spaces):
        print(f"{label} names, without {', '.join(ASIDE)}: {share(here, total)}")
    if options.messages:
        write(options.messages, message_lines(used, spaces))
    if options.missing:
        write(options.missing, missing_lines(used, spaces))
    if options.page:
        write(options.page, page_lines(used, spaces))


if __name__ == "__main__":
    main()
