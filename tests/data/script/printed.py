"""Programs of printed.txt, and what they print with torch: printed.json.xz.

    python tests/data/script/printed.py tests/data/script/printed.json.xz

needs torch 2.13.  Each program is a module whose output has its values renumbered, and no addresses or
places of the machine.
"""
import contextlib
import importlib.util
import io
import json
import lzma
import os
import re
import sys
import tempfile
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
HEAD = """import copy, io, math, pickle, warnings
from collections import OrderedDict, namedtuple
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Callable, Dict, Final, List, NamedTuple, Optional, Tuple, Union

import torch
import torch.nn.functional as F
from torch import nn, Tensor
from printed import again, graph, show, tried, warned

"""


def show(x):
    """A value as text: tensors with dtype, shape and rounded numbers."""
    import torch
    if isinstance(x, torch.Tensor):
        numbers = x.detach().to_dense().flatten()[:8].tolist()
        rounded = [round(v, 4) if isinstance(v, float) else v for v in numbers]
        return f"{str(x.dtype).rpartition('.')[2]}{list(x.shape)}{rounded}"
    if isinstance(x, (list, tuple)):
        return f"{type(x).__name__}({', '.join(map(show, x))})"
    if isinstance(x, dict):
        return "{" + ", ".join(f"{show(k)}: {show(v)}" for k, v in x.items()) + "}"
    return f"<{type(x).__name__}>" if callable(x) else repr(x)


def renumbered(text):
    names = {}
    text = re.sub(r" # \S+:\d+:\d+", "", text)
    return re.sub(r"%[A-Za-z_0-9.]+", lambda m: names.setdefault(m.group(), f"%{len(names)}"), text)


def graph(g):
    print(renumbered(str(g)))


def tried(f, *args, **kwargs):
    """Calls f and prints its result or its error; returns the result."""
    try:
        result = f(*args, **kwargs)
    except Exception as e:
        print(type(e).__name__, str(e).strip())
        return None
    print(show(result))
    return result


def warned(f, *args, **kwargs):
    """As tried, with the warnings."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        result = tried(f, *args, **kwargs)
    for text in dict.fromkeys(f"{w.category.__name__} {str(w.message).strip()}" for w in seen):
        if not text.startswith("DeprecationWarning"):  # a check of a trace warns again
            print(text)
    return result


def again(module, **options):
    """The module, saved and loaded."""
    import torch
    file = io.BytesIO()
    torch.jit.save(module, file)
    file.seek(0)
    return torch.jit.load(file, **options)


def programs():
    with open(os.path.join(HERE, "printed.txt")) as file:
        for part in re.split(r"^#### ", file.read(), flags=re.M)[1:]:
            name, _, source = part.partition("\n")
            yield name, source.strip("\n") + "\n"


def output(name, source, folder):
    """The text that the program prints, and its error."""
    path = os.path.join(folder, name + ".py")
    with open(path, "w") as file:
        file.write(HEAD + source)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where the sources of classes are looked for
    text = io.StringIO()
    import torch
    torch.manual_seed(0)
    with contextlib.redirect_stdout(text):
        try:
            spec.loader.exec_module(module)
        except Exception as e:
            print("ended by", type(e).__name__, str(e).strip())
    text = text.getvalue().replace(folder + "/", "").replace("cresset", "torch")
    text = re.sub(r"0x[0-9a-f]+", "0x", re.sub(r"___torch_mangle_\d+", "___torch_mangle_", text))
    return re.sub(r'File "[^"]*site-packages/|File "[^"]*/pkg/', 'File "', text)


def run(names=()):
    sys.modules["printed"] = sys.modules[__name__]
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        return {n: output(n, s, folder) for n, s in programs() if not names or n in names}


if __name__ == "__main__":
    made = run(sys.argv[2:])
    if sys.argv[1].endswith(".xz"):
        with lzma.open(sys.argv[1], "wt", preset=9) as file:
            json.dump(made, file, separators=(",", ":"))
    else:
        with open(sys.argv[1], "w") as file:
            for name, text in made.items():
                file.write(f"#### {name}\n{text}")
