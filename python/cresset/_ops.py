"""Access to the operators of the table from Python.

`ops.<name>` is the entry with this (ATen) name, callable with ATen's arguments.  Programs see
packets of overloads instead (`torch.ops.aten.add.Tensor`), made from the same records.
"""
import functools
import re
from types import ModuleType

from . import _C

ops = _C.ops


def bind(namespace, names):
    """Adds the operators `names` to `namespace`; names that the table lacks stay undefined.

    An operator that is also a function of the package is the same object there, as in torch.
    """
    for name in names.split():
        function = getattr(ops, name, None)
        if function is not None:
            public = getattr(_C, name, None)
            namespace[name] = public if type(public) is type(function) else function


_JIT_NAMES = {"Scalar": "number", "ScalarType": "int", "Layout": "int", "MemoryFormat": "int"}


class AliasInfo:
    """The alias mark of a parameter or result: a set of letters, and whether it is written."""

    def __init__(self, letter, is_write):
        self.before_set = self.after_set = {f"alias::{letter}"}
        self.is_write = is_write


class Argument:
    """A parameter or result of an operator."""

    alias_info = None

    def __init__(self, name, type, *, optional=False, default=None, has_default=False,
                 kwarg_only=False, written=False):
        self.name = name
        text = Argument._text(type)
        self.type = f"Optional[{text}]" if optional else text
        self.default_value = default
        self.kwarg_only = kwarg_only
        self.is_write = written
        self._has_default = has_default

    @staticmethod
    def _text(type):
        """The type as TorchScript names it: "List[int]" for "int[]"."""
        if type.endswith("[]"):
            return f"List[{Argument._text(type[:-2])}]"
        return _JIT_NAMES.get(type, type)

    def has_default_value(self):
        """Returns whether the argument has a default value."""
        return self._has_default

    def __repr__(self):
        return f"<torch.Argument {self.name}: {self.type}>"


class FunctionSchema:
    """The name, parameters and results of an overload."""

    def __init__(self, name, made):
        self._text = made["schema"]
        self.name = name if "::" in name else f"aten::{name}"
        self.overload_name = "" if made["name"] == "default" else made["name"]
        self.arguments = [self._argument(p, made, 1 << i)
                          for i, p in enumerate(made["record"]["params"])
                          if not made["absent"] >> i & 1]
        self.arguments += [Argument(name, made["returns"][0][1], kwarg_only=True, written=True)
                           for name in made.get("given", ())]
        # parameters that only the overload takes by position: add.Scalar's alpha
        self._keywords = [a.name for i, p in enumerate(made["record"]["params"]) if made["positional"] >> i & 1
                          for a in self.arguments if a.name == p["name"]]
        self.returns = [] if self._text.endswith("-> ()") else [Argument(name, kind) for name, kind in made["returns"]]
        self.is_mutable = any(argument.is_write for argument in self.arguments)
        self._mark_aliases()

    def _mark_aliases(self):
        """Reads the alias marks of parameters, "Tensor(a!) self", and of results."""
        at = self._text.rindex(") -> ")
        found = {name: mark for mark, name in re.findall(r"\((\w!?)[^()]*\)\S* (\w+)", self._text[:at])}
        marks = [found.get(argument.name) for argument in self.arguments]
        results = self._text[at + 5:].strip("()").split(", ") if len(self.returns) > 1 else [self._text[at + 5:]]
        marks += [mark[1] if mark else None for mark in (re.search(r"\((\w!?)", text) for text in results)]
        for argument, mark in zip([*self.arguments, *self.returns], marks):
            if mark:
                argument.alias_info = AliasInfo(mark[0], mark.endswith("!"))

    @staticmethod
    def _argument(p, made, bit):
        kind = "Scalar" if made["scalars"] & bit else p["type"]
        return Argument(p["name"], kind, optional=p["optional"], default=p["default"],
                        has_default=p["has_default"] and not made["required"] & bit,
                        kwarg_only=p["keyword_only"] and not made["positional"] & bit, written=p["written"])

    def __str__(self):
        return self._text

    __repr__ = __str__

    def named(self, args):
        """The last of these arguments by the names under which the operator takes them."""
        names = [a.name for a in self.arguments[:len(args)]]
        return {name: value for name, value in zip(names, args) if name in self._keywords}

    def refuse(self, args, kwargs):
        """Raises for a call with too many, missing or unknown arguments."""
        head, positional = f"{self.name}()", [a for a in self.arguments if not a.kwarg_only]
        tail = f"Declaration: {self}"
        for most, count in ((len(self.arguments), len(args) + len(kwargs)), (len(positional), len(args))):
            if count > most:
                raise RuntimeError(f"{head} expected at most {most} argument(s) but received {count} argument(s). {tail}")
        given = {a.name for a in positional[:len(args)]} | set(kwargs)
        for argument in self.arguments:
            if argument.name not in given and not argument.has_default_value():
                raise RuntimeError(
                    f"{head} is missing value for argument '{argument.name}'. {tail}")
        unknown = set(kwargs) - {a.name for a in self.arguments}
        if unknown:
            raise RuntimeError(f"Unknown keyword argument '{sorted(unknown)[0]}' for operator "
                               f"'{self.name}'. Schema: {self}")
        for argument in positional[:len(args)]:
            if argument.name in kwargs:
                raise RuntimeError(f"Argument '{argument.name}' specified both as positional and keyword argument. Schema: {self}")


class OpOverload:
    """One overload of an operator: a callable that is a target in graphs."""

    guarded_by_identity = True  # a recording calls it and does not look inside
    of_groups = False  # calls a method of a group of processes (distributed/_c10d_ops.py)

    def __init__(self, packet, made):
        self.namespace = packet._namespace
        self.overloadpacket = packet
        self._overloadname = made["name"]
        self._opname = packet.__name__
        self.__name__ = f"{packet.__name__}.{made['name']}"
        self.__qualname__ = self.__name__
        self.__module__ = packet.__module__
        self._schema = FunctionSchema(packet._qualified_op_name, made)
        self._nondeterministic_seeded = made["random"]
        self._draws = made.get("draws", False)  # also where an entry that the composition calls does
        self.is_view = made["view"]
        self._record = made["record"]
        self.words = self._record["words"]
        self._op = made["callable"]
        _C._set_shown(self._op, self)

    def __call__(self, /, *args, **kwargs):
        try:
            return self._op(*args, **kwargs)
        except TypeError:
            self._schema.refuse(args, kwargs)
            named = self._schema.named(args)
            given = self._with_names(args, kwargs)
            if not named and given is None:
                raise
        if given is not None:
            return self._op(**given)
        return self._op(*args[:-len(named)], **named, **kwargs)

    def _with_names(self, args, kwargs):
        """The arguments of a call between ranks that has a group in the place of its name; None for other calls."""
        if not self.namespace.startswith("_c10d_functional"):
            return None
        from .distributed._c10d_ops import with_names
        return with_names(self._opname, self._schema, args, kwargs)

    @property
    def tags(self):
        """The overload's torch.Tag objects."""
        from ._tags import tags_of
        return tags_of(self, self._record)

    def name(self):
        """The full name: "aten::add.Tensor"."""
        return self._schema.name + (f".{self._schema.overload_name}"
                                    if self._schema.overload_name else "")

    _name = property(name)

    def __str__(self):
        return f"{self.namespace}.{self.__name__}"

    def __repr__(self):
        return f"<OpOverload(op='{self.namespace}.{self._opname}', overload='{self._overloadname}')>"

    def __deepcopy__(self, memo):
        return self

    def __copy__(self):
        return self

    def __reduce__(self):
        return getattr, (self.overloadpacket, self._overloadname)


class OpOverloadPacket:
    """All overloads of an operator.  A call chooses one by its arguments."""

    guarded_by_identity = True

    def __init__(self, name, made, namespace="aten"):
        self.__name__ = self.__qualname__ = name
        self.__module__ = f"{__name__}.{namespace}"
        self._namespace = namespace
        self._qualified_op_name = f"{namespace}::{name}"
        self._made = {m["name"]: m for m in made}
        self._op = self._all()
        _C._set_shown(self._op, self)

    def _all(self):
        """Returns the callable that chooses an overload by its arguments."""
        return _C._all_overloads(self._qualified_op_name.removeprefix("aten::"))

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(f"'{self}' can't have an overload name beginning with '__' and "
                                 f"the underlying op has no attribute {name} either.")
        made = self.__dict__.get("_made", {}).get(name)
        if made is None:
            raise AttributeError(f"The underlying op of '{self}' has no overload name '{name}'")
        overload = self.__dict__[name] = OpOverload(self, made)
        return overload

    def __call__(self, /, *args, **kwargs):
        try:
            return self._op(*args, **kwargs)
        except TypeError:
            if not self._namespace.startswith("_c10d_functional"):
                raise
        return self.default(*args, **kwargs)

    def overloads(self):
        """The names of the overloads."""
        return list(self._made)

    def __iter__(self):
        return iter(self._made)

    def __dir__(self):
        return [*super().__dir__(), *self._made]

    def __str__(self):
        return f"{self._namespace}.{self.__name__}"

    def __repr__(self):
        return f"<OpOverloadPacket(op='{self._namespace}.{self.__name__}')>"

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return packet_of, (self._qualified_op_name,)


# Packets of operators that programs defined (library.py), by namespace and name.
defined_packets = {}


def table_overloads(qualname):
    """The table's overloads of a name like "aten::add" or "torchvision::nms"; empty if there are none."""
    return _C._overloads(qualname.removeprefix("aten::"))


def table_names(namespace):
    """The names of the table's operators in a namespace, without those that start with _."""
    prefix = "" if namespace == "aten" else f"{namespace}::"
    names = (n.removeprefix(prefix) for n in vars(ops) if n.startswith(prefix))
    return [n for n in names if n[0] != "_" and "::" not in n]


class _OpNamespace(ModuleType):
    """The operators of a library; the table's are `aten`'s."""

    def __init__(self, name):
        super().__init__(f"torch.ops.{name}")
        self.__file__ = "torch.ops"
        self.name = name

    def __getattr__(self, name):
        defined = defined_packets.get((self.name, name))
        if defined is not None:
            return defined
        if self.name == "c10d_functional":  # the older name
            from . import ops as public
            return getattr(public._c10d_functional, name)
        if self.name in ("c10d", "_c10d_functional"):
            from . import distributed  # noqa: F401, it defines them
            if (self.name, name) in defined_packets:
                return defined_packets[self.name, name]
        if self.name == "profiler":
            from .autograd._ranges import packets
            if name in packets:
                return packets[name]
        if self.name == "higher_order":
            from ._higher_order_ops.operators import find
            if find(name) is not None:
                return find(name)
        made = None if name.startswith("__") or "::" in name else table_overloads(f"{self.name}::{name}")
        if not made and self.name == "aten":
            from ._python_aten import define
            if define(name):
                return defined_packets[self.name, name]
        if not made:
            raise AttributeError(f"'_OpNamespace' '{self.name}' object has no attribute '{name}'")
        packet = self.__dict__[name] = OpOverloadPacket(name, made, self.name)
        return packet

    def __iter__(self):
        """The names of the operators that the program defined in this library, and of those that it used."""
        used = {name for name, x in self.__dict__.items() if isinstance(x, OpOverloadPacket)}
        return iter(sorted(used | {name for namespace, name in defined_packets if namespace == self.name}))

    def __dir__(self):
        defined = {name for namespace, name in defined_packets if namespace == self.name}
        return sorted({*super().__dir__(), *table_names(self.name), *defined})


loaded_libraries = set()  # paths that load_library() opened


def _torch_libraries(path):
    """The libraries of torch that a shared object needs, by the names in its string table."""
    with open(path, "rb") as file:
        content = file.read()
    found = re.findall(rb"\0((?:libtorch|libc10)[\w.+-]*\.so)(?=\0)", content)
    return [name.decode() for name in dict.fromkeys(found)]


def refuse_torch_library(path):
    """Raises for a shared object that is linked to torch's own libraries."""
    needed = _torch_libraries(path)
    if needed:
        raise ImportError(f"{path} is linked to {', '.join(needed)}, the C++ library of PyTorch, "
                          "which Cresset does not have; its operators are not available", path=path)


def load_library(path):
    """Loads a shared object, which may register operators.

    A shared object that is linked to torch's own libraries is refused without being opened.  It is
    skipped if it is the extension _C of a package whose operators the table has.
    """
    from os.path import basename, dirname, realpath
    path = realpath(path)
    if not (basename(path).startswith("_C.") and table_names(basename(dirname(path)))
            and _torch_libraries(path)):
        refuse_torch_library(path)
        from ctypes import CDLL
        CDLL(path)
        loaded_libraries.add(path)


def packet_of(name):
    """Returns the packet of "add", "aten::add" or "mylib::f"."""
    from . import ops as public
    namespace, colons, rest = name.partition("#")[0].partition("::")  # f#2: the second definition of f
    return getattr(getattr(public, namespace), rest) if colons else getattr(public.aten, name)


def _serves(made, overload, given):
    """Returns whether a torch overload matches a call of a record.  `given` is the arguments by
    name, where a value is a tuple."""
    record = made["record"]
    if record["overload"] != overload:
        return False
    for i, p in enumerate(record["params"]):
        value, bit = given[p["name"]], 1 << i
        usual = p["has_default"] and value == p["default"]
        if (made["absent"] & bit and not usual) or (made["required"] & bit and usual):
            return False
        if p["number"]:
            takes_number = (made["scalars"] | made["numbers"]) & bit
            takes_tensor = not made["scalars"] & bit
            if not (takes_tensor if isinstance(value, tuple) else takes_number):
                return False
    return True


def split_arguments(schema, given):
    """Returns positional and keyword arguments, without those equal to their defaults."""
    args, kwargs = [], {}
    for argument in schema.arguments:
        value = given[argument.name]
        usual = (argument.has_default_value() and type(value) is type(argument.default_value) and
                 value == argument.default_value)
        if not argument.kwarg_only:
            args.append((value, usual))
        elif not usual:
            kwargs[argument.name] = value
    while args and args[-1][1]:
        args.pop()
    return [value for value, _ in args], kwargs


def _overloads_of(name, overload):
    """Returns the packet of a record and {name: how it is made} of the torch overloads that call it."""
    packet = packet_of(name.partition("#")[0])
    return packet, {n: made for n, made in packet._made.items() if "given" not in made and made["record"]["overload"] == overload}


_overloads_of_table = functools.cache(_overloads_of)  # the table's own entries do not change


def overload_of(name, overload, given):
    """Returns the OpOverload that torch would call where a record calls `name.overload`."""
    packet, own = (_overloads_of if "::" in name else _overloads_of_table)(name, overload)
    fitting = [n for n, made in own.items() if _serves(made, overload, given)] if len(own) > 1 else []
    return getattr(packet, (fitting or list(own))[0])


def schemas_of_function(function):
    """Returns the schemas of the overloads of a table function; None for other functions."""
    if not isinstance(function, type(ops.add)):
        return None
    packet = packet_of(function.__name__)
    return [getattr(packet, name)._schema for name, made in packet._made.items() if "given" not in made]


def __getattr__(name):
    if name == "HigherOrderOperator":
        from ._higher_order_ops.operators import HigherOrderOperator
        return HigherOrderOperator
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
