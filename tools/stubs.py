"""Writes type stubs of the package: stubs.py FOLDER

FOLDER becomes the stub package cresset-stubs.  Signatures of operators come from the table, those of classes and
functions in Python from their code; a parameter's type is its annotation or that of its default.
"""
import ast
import importlib
import inspect
import keyword
import os
import re
import sys
import textwrap

import cresset
from cresset import _C

MODULES = """nn nn.functional nn.init nn.parameter nn.utils nn.utils.rnn nn.utils.parametrize nn.attention nn.attention.flex_attention
nn.modules nn.modules.module optim optim.lr_scheduler optim.swa_utils utils utils.data utils.checkpoint autograd autograd.forward_ad
autograd.functional func fft linalg special signal distributions random amp compiler functional library jit testing sparse masked
serialization safetensors cuda cpu accelerator fx hub backends multiprocessing overrides profiler types""".split()

HEAD = '''# mypy: disable-error-code="override, overload-overlap, overload-cannot-match, misc"
"""Written by tools/stubs.py."""
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, Self, overload
'''
TYPES = {"Tensor": "Tensor", "int": "_int", "bool": "_bool", "float": "_float", "str": "str", "Scalar": "Number",
         "ScalarType": "_dtype", "Device": "DeviceLike", "Layout": "_layout", "MemoryFormat": "_memory_format",
         "Generator": "Generator", "int[]": "_int | Sequence[_int]", "float[]": "Sequence[_float]", "bool[]": "Sequence[_bool]",
         "Tensor[]": "Sequence[Tensor]", "Scalar[]": "Sequence[Number]"}
# Methods of Tensor that are no entries: their results.
RESULTS = {"item": "Any", "tolist": "Any", "numpy": "Any", "size": "Any", "dim": "_int", "numel": "_int", "stride": "Any", "to": "Tensor",
           "backward": "None", "data_ptr": "_int", "element_size": "_int", "ndimension": "_int", "nelement": "_int",
           "storage_offset": "_int", "get_device": "_int", "__len__": "_int", "__bool__": "_bool", "__int__": "_int",
           "__float__": "_float", "__index__": "_int", "__contains__": "_bool", "__iter__": "Iterator[Tensor]", "__hash__": "_int",
           "__repr__": "str", "__dir__": "list[str]"}
PROPERTIES = {"shape": "Size", "dtype": "_dtype", "device": "_device", "layout": "_layout", "requires_grad": "_bool",
              "grad": "Tensor | None", "data": "Tensor", "is_leaf": "_bool", "grad_fn": "Any", "ndim": "_int", "names": "Any",
              "output_nr": "_int", "is_meta": "_bool", "is_cuda": "_bool", "is_sparse": "_bool", "is_cpu": "_bool",
              "itemsize": "_int", "nbytes": "_int", "_version": "_int", "retains_grad": "_bool", "_base": "Tensor | None"}


def is_name(x):
    return x.isidentifier() and not keyword.iskeyword(x)


# --- from the table ---

def result_type(schema):
    text = schema.rpartition("->")[2].strip()
    parts = [p.strip().split(" ")[0] for p in text.strip("()").split(",")] if text.startswith("(") else [text]
    types = []
    for part in parts:
        base = part.partition("(")[0] + ("[]" if part.endswith("[]") else "")
        types.append({"": "None", "Tensor": "Tensor", "Tensor[]": "tuple[Tensor, ...]", "bool": "_bool", "int": "_int",
                      "float": "_float", "Scalar": "Number", "ScalarType": "_dtype"}.get(base, "Any"))
    if len(types) == 1:
        return types[0]
    named = tuple(p.rpartition(" ")[2] for p in text.strip("()").split(", ") if " " in p)
    if set(types) != {"Tensor"} or len(named) != len(types) or not all(map(is_name, named)):
        return f"tuple[{', '.join(types)}]"
    NAMED_RESULTS.add(named)
    return named_result(named)


NAMED_RESULTS = set()  # the names of results of several tensors, as (values, indices)


def named_result(names):
    return f"Results_{'_'.join(names)}"


def named_results():
    return "".join(f"class {named_result(names)}(NamedTuple):\n" + "".join(f"    {n}: Tensor\n" for n in names)
                   for names in sorted(NAMED_RESULTS))


def parameter(p, name):
    text = TYPES.get(p["type"], "Any")
    if p["type"] == "Tensor" and p["number"]:
        text = "Tensor | Number"
    return f"{name}: {text}{' | None' if p['optional'] else ''}{' = ...' if p['has_default'] else ''}"


def signature(r, method):
    """Returns the parameters of an entry."""
    out, keyword_only, params = [], False, r["params"]
    for i, p in enumerate(params):
        if method and i == 0 and p["name"] == "self":
            out.append("self")
            continue
        name = "input" if p["name"] == "self" else p["name"] + "_" * (not is_name(p["name"]))
        if p["keyword_only"] and not keyword_only:
            keyword_only = True
            out.append("*")
        out.append(parameter(p, name))
    if not method and "out" in r["forms"]:
        out += ([] if keyword_only else ["*"]) + ["out: Any = ..."]
    if any(p["type"] == "ScalarType" for p in params) and not any(p["type"] in ("Tensor", "Tensor[]") for p in params):
        out += ([] if "*" in out else ["*"]) + ["requires_grad: _bool = ..."]
    return ", ".join(out)


def defs(name, records, method, indent, suffix=""):
    """Returns the definitions of a name; several entries are overloads."""
    forms = []
    for r in records:
        text = f"def {name}({signature(r, method)}) -> {result_type(r['schema']) if not suffix else 'Tensor'}: ..."
        if text not in forms:
            forms.append(text)
        listed = [p for p in r["params"][1 if method else 0:] if not p["keyword_only"]]
        if len(listed) == 1 and listed[0]["type"] == "int[]":  # x.view(2, 3), ones(2, 3)
            keywords = [parameter(p, p["name"]) for p in r["params"] if p["keyword_only"]]
            self = "self, " if method else ""
            forms.append(f"def {name}({self}*{listed[0]['name']}: _int{''.join(', ' + k for k in keywords)}"
                         f"{', requires_grad: _bool = ...' if not method and 'requires_grad' in text else ''}) -> Tensor: ...")
    if len(forms) == 1:
        return [indent + forms[0]]
    return [line for form in forms for line in (f"{indent}@overload", indent + form)]


def by_name(form):
    out = {}
    for r in _C._records():
        if form in r["forms"]:
            out.setdefault(r["name"], []).append(r)
    return out


# --- from objects ---

def annotation(x):
    if x is inspect.Parameter.empty:
        return None
    text = x if isinstance(x, str) else getattr(x, "__name__", "Any")
    return {"int": "_int", "float": "_float", "bool": "_bool", "str": "str", "Tensor": "Tensor", "None": "None"}.get(text, "Any")


def of_parameter(p, first):
    stars = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
    if first and p.name in ("self", "cls", "mcs"):
        return p.name
    known = annotation(p.annotation)
    if known is None:
        known = {bool: "_bool", float: "_float", str: "str"}.get(type(p.default), "Any")
    return f"{stars}{p.name}: {known}{' = ...' if p.default is not p.empty else ''}"


def python_def(name, function, indent, returns, in_class):
    decorator = ""
    if isinstance(function, (classmethod, staticmethod)):
        decorator = f"{indent}@{type(function).__name__}\n"
        function = function.__func__
    try:
        params = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return f"{indent}def {name}({'self, ' if in_class else ''}*args: Any, **kwargs: Any) -> {returns}: ..."
    out, kinds = [], [p.kind for p in params]
    for i, p in enumerate(params):
        if i and kinds[i - 1] is p.POSITIONAL_ONLY and p.kind is not p.POSITIONAL_ONLY:
            out.append("/")
        if p.kind is p.KEYWORD_ONLY and (i == 0 or kinds[i - 1] not in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)):
            out.append("*")
        text = of_parameter(p, in_class and i == 0)
        earlier = any(q.default is not q.empty for q in params[:i] if q.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD))
        if earlier and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and not text.endswith("= ..."):
            text += " = ..."  # the default is the mark for no default
        out.append(text)
    if kinds and kinds[-1] is inspect.Parameter.POSITIONAL_ONLY:
        out.append("/")
    known = annotation(inspect.signature(function).return_annotation)
    return f"{decorator}{indent}def {name}({', '.join(out)}) -> {known or returns}: ..."


# Methods of modules and optimizers: their results.
MODULE_RESULTS = {name: "Self" for name in "apply bfloat16 cpu cuda double eval float half requires_grad_ to to_empty train type "
                  "share_memory xpu ipu append extend insert".split()}
MODULE_RESULTS |= {"parameters": "Iterator[Parameter]", "named_parameters": "Iterator[tuple[str, Parameter]]",
                   "buffers": "Iterator[Tensor]", "named_buffers": "Iterator[tuple[str, Tensor]]", "modules": "Iterator[Module]",
                   "named_modules": "Iterator[tuple[str, Module]]", "children": "Iterator[Module]",
                   "named_children": "Iterator[tuple[str, Module]]", "state_dict": "dict[str, Any]", "zero_grad": "None",
                   "extra_repr": "str", "get_parameter": "Parameter", "get_buffer": "Tensor", "get_submodule": "Module",
                   "register_parameter": "None", "register_buffer": "None", "add_module": "None", "reset_parameters": "None"}


def attribute_type(value):
    """The type of an attribute that is assigned this expression."""
    called = value.func if isinstance(value, ast.Call) else None
    if called is not None and (getattr(called, "id", None) or getattr(called, "attr", None)) == "Parameter":
        return "Parameter"
    return "Any"


REGISTERS = {"register_parameter": "Parameter", "register_buffer": "Tensor"}


def attributes(cls):
    """The public attributes that a class's methods give their objects, with types."""
    found = {}
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    except (OSError, TypeError, SyntaxError):
        return found
    for node in ast.walk(tree):
        if isinstance(node, ast.For):  # for name in ("weight", "bias"): self.register_parameter(name, ...)
            kinds = [k for text in map(ast.unparse, node.body) for word, k in REGISTERS.items() if f"self.{word}(" in text]
            found |= dict.fromkeys((n.value for n in ast.walk(node.iter) if isinstance(n, ast.Constant) and isinstance(n.value, str)),
                                   kinds[0]) if kinds else {}
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Attribute) and getattr(target.value, "id", None) == "self":
                    found.setdefault(target.attr, attribute_type(node.value))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args and isinstance(node.args[0], ast.Constant):
            kind = REGISTERS.get(node.func.attr)
            if kind and isinstance(node.args[0].value, str):
                found[node.args[0].value] = kind
    return {name: kind for name, kind in found.items() if is_name(name) and name[0] != "_" and name != "training" and
            not hasattr(cls, name)}


def method_result(cls, name):
    if name == "__init__":
        return "None"
    if issubclass(cls, cresset.nn.Module) and name in MODULE_RESULTS:
        return MODULE_RESULTS[name]
    if issubclass(cls, cresset.nn.Module) and name in ("forward", "__call__"):
        return "Any"
    return {"__len__": "_int", "__repr__": "str", "__str__": "str", "__bool__": "_bool", "__hash__": "_int", "__eq__": "_bool",
            "__contains__": "_bool", "__setattr__": "None", "__delattr__": "None", "__enter__": "Any"}.get(name, "Any")


def class_stub(cls, module):
    bases = [b.__name__ for b in cls.__bases__ if b is not object and is_name(b.__name__) and (b.__name__[0] == "_" and
             b.__module__.startswith(cresset.__name__) and not is_c_type(b) and "_C" not in b.__module__ or reachable(b, module))]
    lines = [f"class {cls.__name__}{'(' + ', '.join(bases) + ')' if bases else ''}:"]
    if any(b is not object and b.__name__ not in bases for b in cls.__bases__) and not issubclass(cls, cresset.nn.Module):
        lines.append("    def __getattr__(self, name: str) -> Any: ...")
    for name, value in sorted(vars(cls).items()):
        if cls is cresset.nn.Module and name in ("__call__", "forward"):
            continue  # below, with training
        if not is_name(name) or name.startswith("_") and name not in ("__init__", "__call__", "__len__", "__iter__", "__getitem__",
                                                                      "__setitem__", "__enter__", "__exit__", "__contains__"):
            continue
        if isinstance(value, property):
            lines.append(f"    @property\n    def {name}(self) -> Any: ...")
        elif callable(value) and not isinstance(value, type) or isinstance(value, (classmethod, staticmethod)):
            lines.append(python_def(name, value, "    ", method_result(cls, name), True))
        elif name != "__getattr__":
            lines.append(f"    {name}: Any")
    lines += [f"    {name}: {kind}" for name, kind in sorted(attributes(cls).items())]
    if issubclass(cls, cresset.nn.Module):
        if cls is cresset.nn.Module:
            # A method would have to be overridden with its own names of parameters.
            lines.append("    training: _bool\n    forward: Callable[..., Any]\n    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...\n"
                         "    def __getattr__(self, name: str) -> Any: ...")
        elif "__init__" in vars(cls) and "forward" in vars(cls) and single_tensor(cls):
            lines.append("    def __call__(self, *args: Any, **kwargs: Any) -> Tensor: ...")
    return lines if len(lines) > 1 else [lines[0] + " ..."]


def single_tensor(cls):
    """Returns whether a module returns one tensor: it is no container and no recurrent or attention layer."""
    return not cls.__name__.startswith(("LSTM", "GRU", "RNN", "Multihead", "Sequential", "Module", "Adaptive", "Fractional", "MaxPool", "Flex"))


def reachable(cls, module):
    return getattr(module, cls.__name__, None) is cls


def module_lines(module, tensor_functions):
    names = [n for n in sorted({*dir(module), *getattr(module, "__all__", ())}) if is_name(n) and not n.startswith("_") and n not in TYPING]
    functions, nn_functions, lines, classes = by_name("function"), by_name("nn"), [], {}
    prefix = module.__name__.rpartition(".")[2]
    for name in names:
        try:
            value = getattr(module, name)
        except Exception:  # a name that needs another library
            continue
        if inspect.ismodule(value):
            if value.__name__.startswith(cresset.__name__ + ".") and value.__name__.removeprefix(cresset.__name__ + ".") in MODULES:
                lines.append(f"from {value.__name__.rpartition('.')[0]} import {name} as {name}" if value.__name__.count(".")
                             else f"import {value.__name__} as {name}")
        elif isinstance(value, type) and value.__module__ != "builtins":
            if is_c_type(value):
                lines.append(f"from cresset._C import {value.__name__} as {name}")
            elif value.__module__.startswith(cresset.__name__) and value.__name__ == name:
                classes[name] = value
            else:
                lines.append(f"{name}: Any")
        elif type(value).__name__ == "function" and type(value).__module__ == "cresset._C" or inspect.isbuiltin(value):
            for key in (name, f"{prefix}_{name}"):
                records = (nn_functions.get(key) if prefix == "functional" and "nn" in module.__name__ else None) or functions.get(key)
                if records:
                    lines += defs(name, records, False, "")
                    break
            else:
                inplace = by_name("inplace").get(name.removesuffix("_"), []) if name.endswith("_") else []
                lines += [line.replace("self", "input: Tensor", 1) for line in defs(name, inplace, True, "", "_")] or \
                    [f"def {name}(*args: Any, **kwargs: Any) -> Any: ..."]
        elif inspect.isfunction(value) or type(value).__name__ == "overridable":
            lines.append(python_def(name, value, "", "Tensor" if tensor_functions else "Any", False))
        elif isinstance(value, _C.dtype):
            lines.append(f"{name}: dtype")
        else:
            lines.append(f"{name}: { {int: '_int', float: '_float', bool: '_bool', str: 'str'}.get(type(value), 'Any')}")
    return lines, classes


C_TYPES = [cresset.Tensor, cresset.dtype, cresset.device, cresset.layout, cresset.memory_format, cresset.Size, cresset.Generator]


def is_c_type(value):
    return any(value is t for t in C_TYPES)


def ordered(classes):
    """Base classes first, those with private names, too."""
    done, out = set(), []
    for cls in list(classes.values()):
        classes |= {b.__name__: b for b in cls.__mro__ if b.__name__[0] == "_" and b.__module__.startswith(cresset.__name__)
                    and "_C" not in b.__module__}

    def visit(cls):
        if cls in done or classes.get(cls.__name__) is not cls:
            return
        done.add(cls)
        for base in cls.__bases__:
            visit(base)
        out.append(cls)
    for cls in classes.values():
        visit(cls)
    return out


TYPING = ("Callable", "Iterable", "Iterator", "Sequence", "Any", "Literal", "NamedTuple", "Self", "overload", "Number")
COMMON = ("DeviceLike", "Generator", "Number", "Size", "Tensor", "_bool", "_device", "_dtype", "_float", "_int", "_layout",
          "_memory_format")
TENSOR_MODULES = ("nn.functional", "fft", "linalg", "special", "signal")


def module_text(name):
    module = importlib.import_module(f"{cresset.__name__}.{name}" if name else cresset.__name__)
    lines, classes = module_lines(module, name in TENSOR_MODULES)
    body = [line for cls in ordered(classes) for line in class_stub(cls, module)]
    text = "\n".join(lines + body)
    for name, home in (("Parameter", "nn.parameter"), ("Module", "nn.modules.module")):
        if re.search(rf"[ \[]{name}\b", text) and not re.search(rf"^class {name}\b", text, re.M):
            text = f"from cresset.{home} import {name} as {name}\n{text}"
    common = [n for n in COMMON if f"from cresset._C import {n} as {n}\n" not in text + "\n"]
    common += sorted(named_result(names) for names in NAMED_RESULTS if f"-> {named_result(names)}:" in text)
    return f"{HEAD}from cresset._C import {', '.join(common)}\n\n{text}\n"


def tensor_stub():
    lines = ["class Tensor:", "    def __init__(self, *args: Any, device: DeviceLike | None = ...) -> None: ..."]
    seen = {"__init__", "__class__"}
    for name, kind in PROPERTIES.items():
        seen.add(name)
        lines.append(f"    {name}: {kind}" if name in ("requires_grad", "grad", "data") else
                     f"    @property\n    def {name}(self) -> {kind}: ...")
    for form, suffix in (("method", ""), ("inplace", "_")):
        for name, records in sorted(by_name(form).items()):
            name += suffix
            if is_name(name) and name not in seen and name not in RESULTS:
                seen.add(name)
                lines += defs(name, records, True, "    ", suffix)
    for name in sorted(dir(cresset.Tensor)):
        value = inspect.getattr_static(cresset.Tensor, name)
        if name in seen or not is_name(name) or name.startswith("_") and name not in RESULTS and name not in OPERATORS:
            continue
        if inspect.isgetsetdescriptor(value) or inspect.ismemberdescriptor(value) or isinstance(value, property):
            tensor = name in ("T", "mT", "H", "mH", "real", "imag")
            lines.append(f"    @property\n    def {name}(self) -> {'Tensor' if tensor else 'Any'}: ...")
        elif name in OPERATORS:
            lines.append(f"    def {name}(self{OPERATORS[name]}) -> {'None' if name == '__setitem__' else 'Tensor'}: ..."
                         + ("  # type: ignore[override]" if name in ("__eq__", "__ne__") else ""))
        else:
            lines.append(f"    def {name}(self, *args: Any, **kwargs: Any) -> {RESULTS.get(name, 'Any')}: ..." if name not in FIXED else
                         f"    def {name}(self{FIXED[name]}) -> {RESULTS[name]}: ...")
    return lines


OPERATORS = {f"__{n}__": ", other: Any" for n in (
    "add radd iadd sub rsub isub mul rmul imul truediv rtruediv itruediv floordiv rfloordiv ifloordiv mod rmod imod pow rpow ipow matmul "
    "rmatmul imatmul and rand iand or ror ior xor rxor ixor lshift rlshift ilshift rshift rrshift irshift lt le gt ge eq ne").split()}
OPERATORS |= {f"__{n}__": "" for n in ("neg", "pos", "abs", "invert")}
OPERATORS |= {"__getitem__": ", index: Any", "__setitem__": ", index: Any, value: Any"}
FIXED = {n: "" for n in ("__len__", "__bool__", "__int__", "__float__", "__index__", "__iter__", "__hash__", "__repr__", "__dir__", "dim",
                         "numel", "tolist", "item", "data_ptr", "element_size", "ndimension", "nelement", "storage_offset", "get_device")}
FIXED |= {"__contains__": ", value: Any"}

OBJECTS = '''_int = int
_float = float
_bool = bool
Number = int | float | complex
class dtype:
    is_floating_point: bool
    is_complex: bool
    is_signed: bool
    itemsize: int
    def to_real(self) -> dtype: ...
    def to_complex(self) -> dtype: ...
class layout: ...
class memory_format: ...
class device:
    type: str
    index: int | None
    def __init__(self, type: str | int | device, index: int = ...) -> None: ...
    def __enter__(self) -> device: ...
    def __exit__(self, *error: Any) -> None: ...
_device = device
_dtype = dtype
_layout = layout
_memory_format = memory_format
DeviceLike = str | int | device
class Size(tuple[int, ...]):
    def numel(self) -> int: ...
class Generator:
    device: _device
    def __init__(self, device: DeviceLike = ...) -> None: ...
    def manual_seed(self, seed: int) -> Generator: ...
    def seed(self) -> int: ...
    def initial_seed(self) -> int: ...
    def get_state(self) -> Tensor: ...
    def set_state(self, new_state: Tensor) -> Generator: ...
'''


def main():
    folder = sys.argv[1]
    packages = {m for m in MODULES if any(other.startswith(m + ".") for other in MODULES)}
    files = {"__init__.pyi": module_text(""), "py.typed": "partial\n"}
    for name in MODULES:
        path = name.replace(".", "/")
        files[f"{path}/__init__.pyi" if name in packages else f"{path}.pyi"] = module_text(name)
    methods = "\n".join(tensor_stub())  # after all modules: it has the results that they name
    files["_C.pyi"] = f"{HEAD}{OBJECTS}{named_results()}{methods}\ndef __getattr__(name: str) -> Any: ...\n"
    for path, text in files.items():
        path = os.path.join(folder, path)
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)


if __name__ == "__main__":
    main()
