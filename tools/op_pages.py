"""Writes pages about the operators: op_pages.py FOLDER

There is one page for each table file, and README.md is the index.  All text comes from the
records that the library reads.
"""
import os
import sys

from cresset import _C

SPOKEN = {"body": "elementwise", "fold": "reduction", "map": "view", "is": "composition", "loop": "loop", "scan": "scan",
          "steps": "composition beside a function on views", "extern": "function on views",
          "whole": "function on tensors"}


def python_names(r):
    """Returns the Python names of an entry."""
    names = []
    if "function" in r["forms"]:
        names.append(f"`torch.{r['name']}`")
    if "nn" in r["forms"]:
        names.append(f"`torch.nn.functional.{r['name']}`")
    if "method" in r["forms"]:
        names.append(f"`Tensor.{r['name']}`")
    if "inplace" in r["forms"]:
        names.append(f"`Tensor.{r['name']}_`")
    if "out" in r["forms"]:
        names.append("`out=`")
    return ", ".join(names)


def facts(r):
    yield "kind", SPOKEN[r["does"]] + (", one fused kernel" if r["fused"] else "")
    yield "Python", python_names(r)
    yield "sizes", f"`{r['sizes']}`" if "->" in r["sizes"] else r["sizes"]
    if len(r["dtypes"]) < 12:
        yield "dtypes", ", ".join(r["dtypes"])
    elif r["does"] in ("body", "fold", "map", "loop", "scan"):  # other entries may refuse some of them
        yield "dtypes", "all"
    yield "gradients", ", ".join(f"`{g}`" for g in r["grads"])
    yield "error bound", f"{r['ulp']:g} ulp" if r["ulp"] else ""
    yield "reference", f"`{r['ref']}`" if r["ref"] else ""
    yield "notes", ", ".join(r["words"])


def entry(r):
    title = r["name"] + ("." + r["overload"] if r["overload"] else "")
    lines = [f"## {title}", "", r["doc"], "", f"    {r['schema']}", ""]
    lines += [f"    {r['example']}", ""] if r["example"] else []
    lines += [f"- {name}: {value}" for name, value in facts(r) if value]
    return "\n".join(lines) + "\n"


def page_name(file):
    return file.removesuffix(".op") + ".md"


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    files = {}
    for r in _C._records():
        if not r["name"].startswith("_") and set(r["forms"]) - {"copied"}:
            files.setdefault(r["file"], []).append(r)
    index = ["# Operators", "",
             "Written by `make docs` from the operator table, `src/ops/table`.", ""]
    for file, records in sorted(files.items()):
        with open(os.path.join(folder, page_name(file)), "w") as f:
            f.write(f"# {file.removesuffix('.op')}\n\n" + "\n".join(entry(r) for r in records))
        names = ", ".join(dict.fromkeys(r["name"] for r in records))
        index.append(f"- [{file.removesuffix('.op')}]({page_name(file)}): {names}")
    with open(os.path.join(folder, "README.md"), "w") as f:
        f.write("\n".join(index) + "\n")
    print(f"{folder}: {sum(map(len, files.values()))} entries on {len(files)} pages")


if __name__ == "__main__":
    main()
