"""The assumptions of a recording.

`Walk` visits all objects that a function's code can read: arguments, globals, closure cells,
attributes of modules and objects.  It builds a guard (src/py/bind/compile/guard.h) with one node for
each object.  Tensors become inputs of the recording.

Code of this package and of the standard library is assumed to read only its arguments, the globals
and attributes of modules that it names, and its classes.  `hold_classes` and `guard_library` guard
these, because a program may replace them.  Objects that cannot be guarded raise `Refused`.
"""
import builtins
import functools
import sys
import types
from _abc import get_cache_token
from _contextvars import ContextVar
from _thread import _local as local
from _weakref import ReferenceType, ref
from abc import ABCMeta
from collections import OrderedDict, defaultdict, deque
from contextlib import contextmanager
from gc import get_referents
from math import isfinite
from operator import attrgetter, is_, methodcaller

from .. import Generator, Size, Tensor, _root, device, dtype, layout, memory_format
from .._C import CompiledFunction, Symbol, _facts_of_code
from .classified import OF_NUMPY, is_classified, is_ours


class Refused(Exception):
    """The function's calls cannot be a graph; the text states the reason.

    place: (code, instruction) if it is known.
    """

    def __init__(self, text, place=None):
        super().__init__(text)
        self.place = place


class NotYet(Refused):
    """This call makes state that later recordings need."""


_ATOMS = (type(None), bool, type, type(Ellipsis), type(NotImplemented), types.BuiltinFunctionType,
          types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType,
          types.GetSetDescriptorType, types.MemberDescriptorType, types.CodeType, dtype, layout, memory_format,
          Generator, property, staticmethod, classmethod)
_VALUES = (int, float, complex, str, bytes, device)
_ATOM_SET, _VALUE_SET = frozenset(_ATOMS), frozenset(_VALUES)
_PLAIN = _VALUE_SET - {device} | {bool, type(None)}  # parts of their container's node
_WITHOUT_CONTENTS = _ATOM_SET | _VALUE_SET | {types.FunctionType}  # a function that ran is visited

# Names of attributes and functions that read or write .grad.
_TOUCH_GRADIENTS = frozenset(("grad", "backward", "zero_grad", "clip_grad_norm", "clip_grad_norm_", "clip_grad_value_",
                              "clip_grads_with_norm_"))

# Types whose contents no guard checks, or which read objects that the walk does not see.
_CACHED = type(functools.lru_cache(is_))
_MUTABLE = (deque, bytearray, memoryview, local, ContextVar, ReferenceType, attrgetter,
            methodcaller, type({}.keys()), type({}.values()), type({}.items()))

# Those of them that no C function compares by their contents.
_BY_IDENTITY = (local, ContextVar, attrgetter, methodcaller)

# Modules with types that C functions compare by their contents.
_BY_CONTENTS = frozenset(("builtins", "collections", "_collections", "datetime", "uuid", "decimal", "_decimal", "array",
                          "ipaddress", "pathlib", "weakref", "_weakref"))

# Modules of the standard library whose functions read only their arguments.  Those of others may read the
# state of the process, of the library or of the system.
_PURE_MODULES = frozenset(("abc", "bisect", "builtins", "cmath", "collections", "contextlib", "copy", "dataclasses", "enum",
                           "fractions", "functools", "heapq", "itertools", "keyword", "math", "numbers", "operator",
                           "statistics", "string", "textwrap", "types", "typing", "_abc", "_bisect", "_collections",
                           "_collections_abc", "_functools", "_heapq", "_operator", "_typing"))
# Functions of other modules that do so.
_PURE_FUNCTIONS = {"inspect": ("signature",), "os": ("environ", "getenv")}
# Names of attributes that read what no guard checks, of a method that no other check refuses, and of functions that see
# the recorder's frames and references.
_QUERIES = frozenset(("is_leaf", "grad_fn", "output_nr", "_base", "_is_view", "retains_grad", "_backward_hooks", "is_shared",
                      "is_pinned", "__subclasses__", "getrefcount", "_getframe", "currentframe"))
# Methods in C that read attributes by a string.
_BY_NAME = frozenset(("__getattribute__", "__setattr__", "__delattr__", "getattr", "hasattr", "format", "format_map"))
# Special methods that Python and C code look up although no code names them.
_SPECIAL = frozenset(
    name for t in (complex, float, int, str, bytes, list, dict, set, frozenset, type, slice, range, object, deque,
                   types.FunctionType, types.GeneratorType, property, memoryview)
    for name in dir(t) if name.startswith("__")).union((
        "__getattr__", "__set__", "__delete__", "__set_name__", "__missing__", "__enter__", "__exit__", "__bool__", "__matmul__",
        "__rmatmul__", "__imatmul__", "__length_hint__", "__complex__", "__bytes__", "__match_args__", "__post_init__",
        "__array__", "__torch_function__", "__torch_dispatch__"))
_STDLIB = sys.stdlib_module_names
_OPTIM, _PARAMETER = f"{_root.NAME}.optim", f"{_root.NAME}.nn.parameter"
_MODULE = f"{_root.NAME}.nn.modules.module"
# CPython checks the class of these methods' results, so they may not return a symbol.
_CHECKED_METHODS = frozenset(("__bool__", "__complex__", "__float__", "__hash__", "__index__", "__int__"))
_MOST_NODES = 100_000
# Checks of nodes whose objects have to be apart, and the slot of those that other nodes name (py/bind/compile/guard.c).
_OWN, _NAMED = frozenset(("list", "mapping", "items", "instance", "derived")), -2
_TOO_MANY = f"it can read more than {_MOST_NODES} objects"
_NOTHING = {}
# Attributes by which code reads all others of an object.
_READ_WHOLE = frozenset(("__dict__", "__getstate__", "__reduce__", "__reduce_ex__"))
# What a Walk has after its recording was made.
_LASTING = ("nodes", "parameters", "keywords", "paths", "numbers", "holders", "fixed", "operators", "backward")
_HEAP_TYPE, _IMMUTABLE_TYPE = 1 << 9, 1 << 8  # of type.__flags__
_FOLDER = __file__.removesuffix("_dynamo/guards.py")
_COMPILER = f"{_FOLDER}_dynamo/"  # whose own state no result depends on
_DERIVABLE = (int, float, complex, str, bytes)
# Containers whose classes have no more than their contents.
_CONTAINERS = frozenset((tuple, list, dict, OrderedDict, defaultdict, set, frozenset, Size))


def _is_trusted(module_name):
    """Returns whether code of the module is assumed to read only its arguments."""
    root = (module_name or "").partition(".")[0]
    return root == "cresset" or root == "torch" or root in _STDLIB and root != "__main__"


def _is_trusted_class(t):
    """Whether the class is one of a trusted module.  A program's class may only name such a module."""
    if not _is_trusted(t.__module__):
        return False
    if not t.__flags__ & _HEAP_TYPE or t.__module__.partition(".")[0] not in ("cresset", "torch", _root.NAME):
        return True
    found = sys.modules.get(t.__module__)
    for name in t.__qualname__.split("."):
        found = getattr(found, "__dict__", _NOTHING).get(name)
    return found is t or "<locals>" in t.__qualname__ and _is_of_package(t)


def _is_of_package(t):
    """Whether a class that functions made has a function of this package."""
    codes = (getattr(x, "__code__", None) for x in t.__dict__.values())
    return any(code is not None and code.co_filename.startswith(_FOLDER) for code in codes)


def _root_of(x):
    return (x.__module__ or "").partition(".")[0]


def _dict_of(t):
    """The __dict__ of a class, whose metaclass may define __getattribute__."""
    return _TYPE_DICT(t)


_TYPE_DICT = type.__dict__["__dict__"].__get__


class _Copy(dict):
    __slots__ = ("__weakref__",)


_copies = {}  # id of a class -> a weak reference to the last copy of its __dict__


def _copy_of(t):
    """A copy of a class's __dict__, the same one while the class does not change: many guards have it."""
    number = id(t)
    copy = _copies[number]() if number in _copies else None
    if copy is None or not _is_unchanged(t, copy):
        copy = _Copy(_dict_of(t))
        _copies[number] = ref(copy, lambda old: _copies.get(number) is old and _copies.pop(number))
    return copy


def asks_for_types(codes):
    """Whether code of the standard library, but that of import statements, reads the builtin `type`, by which it may tell
    symbols from numbers."""
    return any("type" in _facts_of_code(x)[0] and not x.co_filename.startswith((_FOLDER, "<frozen importlib")) and
               _is_trusted(space.get("__name__")) for x, space in codes)


def _has_settings(module_name):
    """Whether a module of this package has settings in C or ones that its functions change."""
    root, _, rest = (module_name or "").partition(".")
    return is_ours(root) and (rest.partition(".")[0] == "backends" and rest != "backends" or rest.endswith("config"))


def _may_read_state(root):
    """Whether functions of the module, which no walk enters, may read more than their arguments."""
    return root in _STDLIB and root != "__main__" and root not in _PURE_MODULES


def _has_state_in_c(t):
    """Whether a class of the program derives from a class in C of another module, as arrays of ctypes and of NumPy do."""
    return any(base.__module__.startswith("_") and _may_read_state(_root_of(base)) or _is_stateful_c(base)
               for base in t.__mro__[1:-1])


def _is_stateful_c(t):
    """Whether a class in C, which makes its objects, may keep in them what no guard compares."""
    return type(_dict_of(t).get("__new__")) is types.BuiltinFunctionType and _root_of(t) not in _PURE_MODULES and \
        not is_ours(_root_of(t))


def _is_by_contents(t):
    """Whether C functions compare objects of the class by their contents."""
    return any(_root_of(base) in _BY_CONTENTS for base in t.__mro__[:-1]) or hasattr(t, "__array__")


def _is_unknown_c(x):
    """Whether a function in C may read more than its arguments, or the object to which it is bound."""
    bound = getattr(x, "__self__", None)
    if x.__module__ == "numpy" and x.__name__ == "empty":
        return False  # its callers are checked after the call
    owner = x.__module__ if bound is None or isinstance(bound, types.ModuleType) else bound if isinstance(bound, type) else type(bound)
    return not is_classified("f", x.__name__, owner)


def _codes_in(constants):
    for x in constants:
        if isinstance(x, types.CodeType):
            yield x
            yield from _codes_in(x.co_consts)


def _is_of(module, name, x):
    """isinstance for a class of a module that may not be imported."""
    return module in sys.modules and isinstance(x, getattr(sys.modules[module], name))


def plain_of(check, expected):
    """The numbers and strings that the node of a container has."""
    if check == "holds":
        return {key: x for key, x in expected[0].items() if type(x) in _PLAIN}
    return expected[2] if check in ("list", "mapping") and len(expected) > 2 else _NOTHING


def _iter_of(x):
    """The items of a list, tuple or set, or the keys of a dict, whose class may define __iter__."""
    return next(t for t in (list, tuple, set, frozenset, OrderedDict, dict) if isinstance(x, t)).__iter__(x)


def _is_not_plain(item):
    return type(item[1]) not in _ATOM_SET and type(item[1]) not in _VALUE_SET


def _slots(t):
    """Returns the names of a class's attributes outside __dict__.  A partial's first call changes how it is called."""
    return [name for base in t.__mro__ for name, x in _dict_of(base).items()
            if type(x) is types.MemberDescriptorType and name != "__vectorcalloffset__"]


def _calls_c(name, hooks):
    """Whether a dict of a module's hooks has others than functions in Python, whose frames are observed."""
    return isinstance(hooks, dict) and len(hooks) and "_hooks" in name and "state_dict" not in name and \
        any(callable(x) and type(getattr(x, "__func__", x)) is not types.FunctionType for x in hooks.values())


def _contents(holder):
    """Returns the contents of a dict, list, set, cell, class or object with slots as a dict."""
    if isinstance(holder, list):
        return dict(enumerate(_iter_of(holder)))
    if isinstance(holder, set):
        return dict.fromkeys(_iter_of(holder))
    if isinstance(holder, dict):  # a subclass may define __getitem__
        return dict(dict.items(holder))
    if isinstance(holder, type):
        return dict(_dict_of(holder))
    if isinstance(holder, types.CellType):
        try:
            return {"cell_contents": holder.cell_contents}
        except ValueError:  # it is empty
            return {}
    return {name: getattr(holder, name) for name in _slots(type(holder)) if hasattr(holder, name)}


def _functions_of(x):
    """The functions that a class attribute calls."""
    return (x.fset, x.fdel, x.fget) if isinstance(x, property) else (x.__func__,) if isinstance(x, (staticmethod, classmethod)) else (x,)


def _kept_in(items):
    """The containers, and those of objects' attributes, of globals."""
    for x in items.values():
        if x is sys.modules or type(x) in _WITHOUT_CONTENTS or isinstance(x, (type, types.ModuleType, Tensor, local)):
            continue
        state = x if isinstance(x, (dict, list, set)) else getattr(x, "__dict__", None) if type(x).__dictoffset__ else None
        if isinstance(state, (dict, list, set)):
            yield state


def _is_unchanged(holder, before):
    """Whether a container has the objects that _contents() returned."""
    now = _contents(holder)
    return len(now) == len(before) and all(before.get(key, before) is x for key, x in now.items())


def _hides_slot(t):
    """Whether a class defines an attribute by the name of a base's slot, which getattr then finds."""
    return any(type(getattr(t, name, None)) is not types.MemberDescriptorType for name in _slots(t))


def may_vary(x):
    """Whether a symbol can stand for the number.  Float zeros have signs, and very large integers
    mark symbols."""
    return -2 ** 61 < x < 2 ** 61 if type(x) is int else type(x) is float and x != 0 and isfinite(x)


def tensor_facts(t):
    """Returns the properties of a tensor that a guard checks, without the tensor."""
    return type(t), t.dtype, t.shape, t.stride(), t.requires_grad, t.device


class Walk:
    """The nodes of a guard, and the tensors found.

        nodes    lists [source, parent, key, check, expected, slot]
        tensors  [(tensor, node)], each tensor once
    """

    def __init__(self, function, keywords=(), varying=frozenset(), asked=None, by_string=frozenset(), ran=None, plain_only=False):
        code = getattr(getattr(function, "forward", function), "__code__", None)
        self.parameters = code.co_varnames[hasattr(getattr(function, "forward", function), "__self__"):
                                           code.co_argcount] if code else ()
        self.keywords = keywords
        self.nodes, self.tensors, self.kept = [], [], []
        self.varying = varying  # paths of numbers that are inputs of the recording
        self.numbers = []  # (node, value) of these numbers
        self.holders = {}  # node -> its dict, list or cell
        self.slotted = []  # objects with attributes outside __dict__
        self.library_before = []  # from snapshot_library(): (globals, their items, [(container, its contents)])
        self.before = []  # from snapshot(): (node or None, container, copy of its contents)
        self.overwritten = None  # the node of a varying number that the call replaced
        self.paths = {}  # node -> path
        self.known = {}  # id -> node, for tensors and containers
        self.asked = asked  # names that observed calls looked up, by the id of the holder; None: no call was observed
        self.names = set(by_string)  # those in the visited code, and those that functions in C got as strings
        self.codes = set()
        self.builtins = set()  # names of builtins that are nodes
        self.unasked = set()  # names of attributes of visited objects that no code looked up
        self.functions = {}  # those of the program that the walk met -> names looked up in them
        self.ran = ran  # the code that earlier calls ran, None: unknown; other code is not visited
        self.classes = {}  # user classes whose code may run -> names looked up in them
        self.contents = set()  # ids of the library's objects that hold_contents() knows
        self.looked_up = {}  # classes of `library` -> names of visited attributes
        self.held = set()  # those of `library` that the guard has
        self.library = set()  # classes of this package and of the standard library that the call may use
        self.reached = set()  # classes of which reach_class() knows the bases
        self.modules = {}  # user modules that code reads -> names looked up in them
        self.optimizers = 0
        self.operators = None  # the number of operators of the recording
        self.backward = False  # whether it has a backward pass
        self.fixed = False  # whether sizes that vary were fixed, by a backward pass or by plain_only
        self.met_module = False
        self.met_abstract = False  # an abstract base class, which may get further subclasses
        self.deferred = []  # (object, why): refuses the call if it reads the object
        self.may_defer = True
        self.has_hooks = False  # a module's call in C calls functions in C, which no instruction loads
        self.plain_only = plain_only  # no number becomes a symbol, because code may tell them apart

    def defer(self, x, why):
        """Refuses the call if it reads `x`, which no guard can hold.  The recorded call is observed."""
        if not self.may_defer:
            raise Refused(why)
        self.deferred.append((x, why))

    @contextmanager
    def deferring(self, may):
        """Inside, objects that no guard can hold refuse the call if it reads them (may), or the walk."""
        before, self.may_defer = self.may_defer, may
        try:
            yield
        finally:
            self.may_defer = before

    def unread(self, x, source, parent, key, why):
        self.defer(x, why)
        node = self.known[id(x)] = self.add(source, parent, key, "is", x)
        return node

    def add(self, source, parent, key, check, expected=None):
        if len(self.nodes) >= _MOST_NODES:
            raise Refused(_TOO_MANY)
        self.nodes.append([source, parent, key, check, expected, -1])
        return len(self.nodes) - 1

    def name_objects(self):
        """Guards by identity what one node names and another one looks into, such as the empty tuple."""
        named = {id(x): x for x in (expected if check == "is" else key for source, _, key, check, expected, *_ in self.nodes
                                    if check == "is" or source == "const" and check != "same")}
        for known, node in self.known.items():
            source, parent, key, check = self.nodes[node][:4]
            if known in named and check in _OWN and source not in ("const", "dict"):
                self.nodes[node][5] = _NAMED
                self.add(source, parent, key, "is", named[known])

    # --- objects ---

    def visit(self, x, source, parent, key):
        """Returns the node of x, found from `parent` by `source` and `key`."""
        t = type(x)
        if t in _EXACT:
            known = self.known.get(id(x))
            if known is not None:
                return self.add(source, parent, key, "same", known)
            self.kept.append(x)
            return _EXACT[t](self, x, source, parent, key)
        meta = t if isinstance(x, type) else type(t)
        if meta is not type and meta.__getattribute__ is not type.__getattribute__:
            raise Refused(f"it reads a class whose class {meta.__name__} defines __getattribute__")
        if isinstance(x, type) and t is not type:
            self.reach_class(t)  # the metaclass
            node = self.atom(x, source, parent, key)
            self.hold_metaclass(x)
            return node
        if t in _ATOM_SET:
            return self.atom(x, source, parent, key)
        if t in _VALUE_SET:
            return self.value(x, source, parent, key)
        if t is Symbol:
            raise NotYet("it reads a number of another recording")
        known = self.known.get(id(x))
        if known is not None:
            return self.add(source, parent, key, "same", known)
        if isinstance(x, Tensor):
            return self.tensor(x, source, parent, key)
        self.kept.append(x)
        if getattr(t, "guarded_by_identity", False):
            return self.add(source, parent, key, "is", x)
        if isinstance(x, _DERIVABLE):
            return self.derived(x, source, parent, key)
        for kinds, method in _METHODS:
            if isinstance(x, kinds):
                return method(self, x, source, parent, key)
        return self.object(x, source, parent, key)

    def derived(self, x, source, parent, key):
        """A number, a string or bytes of a class of the program."""
        t = type(x)
        base = next(base for base in _DERIVABLE if isinstance(x, base))
        node = self.known[id(x)] = self.add(source, parent, key, "derived", (t, base.__getnewargs__(x)[0]))
        self.attributes(x, node)
        self.reach_class(t)
        return node

    def hold_metaclass(self, t):
        """Guards the class of a class, which a program may replace if it is not `type`."""
        if type(t) is not type and not _is_trusted_class(t):
            self.add("class", self.add("const", -1, t, "any"), "__class__", "is", type(t))

    def atom(self, x, source, parent, key):
        node = self.add(source, parent, key, "is", x)
        if isinstance(x, type):
            self.reach_class(x)
            self.reach_abstract(x)
            if _may_read_state(_root_of(x)):
                self.defer(x, f"it uses the class '{x.__module__}.{x.__qualname__}'")
        bound = getattr(x, "__self__", None) if type(x) is types.BuiltinFunctionType else None
        if type(x) is types.BuiltinFunctionType and _is_unknown_c(x):
            self.defer(x, f"it calls {x.__qualname__}()")
            return node
        if bound is not None and not isinstance(bound, types.ModuleType):
            self.visit_bound(x)
        return node

    def visit_bound(self, method):
        """Visits the object to which a method in C is bound.  A call loads the method, not the object."""
        try:
            with self.deferring(False):
                self.visit(method.__self__, "const", -1, method.__self__)
        except NotYet:
            raise
        except Refused as why:
            self.defer(method, str(why))

    def reach_abstract(self, t):
        """A later register() of an abstract base class changes what isinstance() returns."""
        if isinstance(t, ABCMeta):
            self.hold_registrations()

    def hold_registrations(self):
        if not self.met_abstract:
            self.met_abstract = True
            self.add("const", -1, get_cache_token, "returns", ((), get_cache_token()))

    def bound_slot(self, x, source, parent, key):
        self.visit_bound(x)
        return self.add(source, parent, key, "is", x)

    def value(self, x, source, parent, key):
        if x != x:  # a container with a NaN has this object
            return self.add(source, parent, key, "is", x)
        node = self.add(source, parent, key, "equal", x)
        if self.varying and may_vary(x) and self.path(node) in self.varying and self.can_replace(node):
            self.nodes[node][3:] = ["number", type(x), len(self.numbers)]
            self.numbers.append((node, x))
        return node

    def can_replace(self, node):
        source, parent = self.nodes[node][:2]
        return source in ("arg", "kwarg") or source in ("item", "cell") and parent in self.holders

    def replace(self, node, x):
        """Stores x in the container in which the program finds the number of a node."""
        source, parent, key = self.nodes[node][:3]
        if source == "cell":
            self.holders[parent].cell_contents = x
        else:
            self.holders[parent][key] = x

    def now(self, node):
        """The object that is in the place of a number now, None if the call emptied the place."""
        source, parent, key = self.nodes[node][:3]
        holder = self.holders[parent]
        if isinstance(holder, dict):
            return dict.get(holder, key)
        return _contents(holder).get("cell_contents") if source == "cell" else holder[key] if key < len(holder) else None

    def tensor(self, x, source, parent, key):
        if type(x) is not Tensor and _is_of(_PARAMETER, "UninitializedTensorMixin", x):
            raise NotYet("a parameter gets its size in the first call")
        node = self.known[id(x)] = self.add(source, parent, key, "tensor", x)
        self.tensors.append((x, node))
        if x.__dict__:  # attributes that the user set
            self.state(x.__dict__, node)
        return node

    def sequence(self, x, source, parent, key):
        length = (tuple if isinstance(x, tuple) else list).__len__(x)
        node = self.known[id(x)] = self.add(source, parent, key, "list", (type(x), length))
        if isinstance(x, list):
            self.holders[node] = x
        self.items(x, node)
        self.attributes(x, node)
        return node

    def mapping(self, x, source, parent, key):
        keys = tuple(_iter_of(x)) if dict.__len__(x) else ()
        node = self.known[id(x)] = self.add(source, parent, key, "mapping", (type(x), keys))
        self.holders[node] = x
        if keys:
            self.hold_keys(keys)
            self.items(x, node)
        if type(x) is not dict and type(x) is not OrderedDict:
            if isinstance(x, defaultdict):
                self.visit(x.default_factory, "attr", node, "default_factory")
            self.attributes(x, node)
        return node

    def hold_keys(self, keys):
        """Adds nodes for keys that a lookup finds because they are the object, which may be elsewhere in the call, too."""
        for key in keys:
            if isinstance(key, tuple):
                self.hold_keys(key)
            elif type(key) not in _ATOM_SET and type(key) not in _VALUE_SET:
                node = self.add("const", -1, key, *(("same", self.known[id(key)]) if id(key) in self.known else ("is", key)))
                self.known.setdefault(id(key), node)

    def attributes(self, x, node):
        """Visits the attributes and the class of a container or function."""
        t = type(x)
        if t in _CONTAINERS:
            return
        self.reach_class(t)
        if t.__flags__ & _HEAP_TYPE and not isinstance(x, property):
            self.slots(x, node)
        state = getattr(x, "__dict__", None) if t.__dictoffset__ else None
        if isinstance(state, dict) and (state or t is not types.FunctionType):
            self.state(state, node, self.asked_in(t))

    def asked_in(self, t):
        """The names that code looks up in objects of a class; None: any, because code in C reads these objects."""
        if self.asked is None or any(not base.__flags__ & _HEAP_TYPE or is_ours(_root_of(base)) or
                                     type(_dict_of(base).get("__new__")) is types.BuiltinFunctionType for base in t.__mro__[:-1]):
            return None
        names = self.asked.get(id(t), _NOTHING)
        return names if _READ_WHOLE.isdisjoint(names) else None

    def state(self, state, node, names=None):
        """Visits the __dict__ of a node's object; with `names` only these."""
        inner = self.add("dict", node, None, "mapping", (dict, tuple(state)))
        self.holders[inner] = state
        if names is not None:
            self.unasked.update(_READ_WHOLE, (key for key in state if key not in names))
            state = {key: x for key, x in state.items() if key in names}
        self.items(state, inner)

    def slots(self, x, node):
        """Visits the attributes outside __dict__."""
        names = _slots(type(x))
        if not names:
            return
        if _hides_slot(type(x)):
            self.defer(x, f"it reads an object of type {type(x).__name__}, which hides a slot")
            return
        self.slotted.append(x)
        for name in names:
            if not hasattr(x, name):
                raise Refused(f"it reads an object of type {type(x).__name__} whose {name} is not set")
            self.visit(getattr(x, name), "attr", node, name)

    def items(self, holder, node):
        """Visits the contents of a dict, list or tuple.  Numbers and strings are a part of the container's node."""
        plain, later = {}, []
        for key, x in [*dict.items(holder)] if isinstance(holder, dict) else enumerate(_iter_of(holder)):
            if type(x) in _PLAIN and x == x and not (self.varying and self.item_path(node, key) in self.varying):
                plain[key] = x
            else:
                later.append((key, x))
        if self.nodes[node][3] == "holds":
            self.nodes[node][4][0].update(plain)
        elif plain:
            self.nodes[node][4] += (plain,)
        for key, x in sorted(later, key=_is_not_plain) if len(later) > 1 else later:
            self.visit(x, "item", node, key)

    def numbers_found(self, nodes):
        """[(path, number, whether it can vary)] of the numbers that nodes compare."""
        for node, (_, _, _, check, expected, *_) in enumerate(nodes):
            if check == "equal" and type(expected) in (int, float):
                yield self.path(node), expected, self.can_replace(node)
            for key, x in plain_of(check, expected).items() if check != "holds" or node in self.holders else ():
                if type(x) in (int, float):
                    yield self.item_path(node, key), x, node in self.holders

    def set(self, x, source, parent, key):
        items = tuple(_iter_of(x))
        if not all(type(item) in _ATOM_SET or type(item) in _VALUE_SET for item in items):
            return self.unread(x, source, parent, key, "it reads a set of objects")
        node = self.known[id(x)] = self.add(source, parent, key, "items", (type(x), items))
        self.attributes(x, node)
        return node

    def function(self, x, source, parent, key):
        node = self.known[id(x)] = self.add(source, parent, key, "is", x)
        if _may_read_state(_root_of(x)) or _has_settings(x.__module__):
            self.defer(x, f"it calls {x.__module__}.{x.__qualname__}()")
        self.reach_function(x, node)
        if not _is_trusted(x.__module__):
            self.attributes(x, node)
        return node

    def method(self, x, source, parent, key):
        """Checks the object that a method is bound to, because the method itself is made at every
        access."""
        node = self.add(source, parent, key, "instance", types.MethodType)
        if type(x) is types.MethodType:
            self.visit(x.__self__, "attr", node, "__self__")
            self.visit(x.__func__, "attr", node, "__func__")
        return node

    def partial(self, x, source, parent, key):
        node = self.known[id(x)] = self.add(source, parent, key, "instance", type(x))
        in_python = isinstance(x.func, (types.FunctionType, types.MethodType))
        if not in_python:
            self.called_in_c(x.func)
            if not is_ours(_root_of(x.func)):
                self.defer(x, f"it calls a partial of {x.func!r}")
        self.visit(x.func, "attr", node, "func")
        with self.deferring(self.may_defer and in_python):  # C code reads the arguments
            for part in ("args", "keywords"):
                self.visit(getattr(x, part), "attr", node, part)
        self.attributes(x, node)
        return node

    def called_in_c(self, f):
        """C code will call `f`, so no instruction shows by which names it reads attributes."""
        if getattr(f, "__name__", None) in _BY_NAME or isinstance(f, (attrgetter, methodcaller)):
            raise Refused(f"it reads attributes by names that no call shows, by {f!r}")

    def compiled(self, x, source, parent, key):
        node = self.known[id(x)] = self.add(source, parent, key, "is", x)
        self.visit(x._function, "const", -1, x._function)
        return node

    def python_module(self, x, source, parent, key):
        node = self.known[id(x)] = self.add(source, parent, key, "is", x)
        root = x.__name__.partition(".")[0]
        if _may_read_state(root) and x.__name__ not in _PURE_FUNCTIONS:
            self.defer(x, f"it uses the module '{x.__name__}'")
            return node
        if _has_settings(x.__name__):
            self.defer(x, f"it uses the module '{x.__name__}'")
            return node
        self.add("class", node, "__class__", "is", type(x))
        self.modules[node] = (x, set())
        self.reach_class(type(x))
        return node

    def hooks(self, module):
        """Visits the hooks of all modules."""
        found = module.__dict__
        if not self.met_module:
            self.met_module = True
            hooks = {name: x for name, x in sys.modules[_MODULE].__dict__.items()
                     if name.startswith("_global_") and isinstance(x, dict)}
            for x in hooks.values():
                self.visit(x, "const", -1, x)
            found = {**hooks, **found}
        self.has_hooks = self.has_hooks or any(_calls_c(name, x) for name, x in found.items())

    def object(self, x, source, parent, key):
        t = type(x)
        why = self.why_unread(x, t)
        if why is not None:
            return self.unread(x, source, parent, key, why)
        if t in (types.MappingProxyType, types.GenericAlias, slice):  # immutable; their parts are not
            node = self.known[id(x)] = self.add(source, parent, key, "is", x)
            for part in get_referents(x):
                self.visit(part, "const", -1, part)
            return node
        if _root_of(t) == "numpy":  # a pure function of its arguments
            return self.add(source, parent, key, "is", x)
        compared = t.__dictoffset__ and isinstance(getattr(x, "__dict__", None), dict) or t.__flags__ & _HEAP_TYPE and _slots(t)
        node = self.known[id(x)] = self.add(source, parent, key, *(("instance", t) if compared else ("is", x)))
        if _is_of(_MODULE, "Module", x):
            self.hooks(x)
        self.optimizers += _is_of(_OPTIM, "Optimizer", x)
        self.attributes(x, node)
        return node

    def why_unread(self, x, t):
        """Why no guard can hold an object, or None.  C functions may compare arrays and numbers by what no guard has."""
        if isinstance(x, (types.GeneratorType, types.CoroutineType)) or hasattr(t, "__next__"):
            return f"it reads an iterator of type {t.__name__}, which every call advances"
        if t is _CACHED:
            self.plain_only = self.plain_only or not _is_trusted(x.__module__)  # its keys tell symbols from numbers
            return "it calls a function of functools.lru_cache, which forgets its results when the program says so"
        if _has_settings(t.__module__):
            return f"it reads settings of type {t.__name__}"
        if isinstance(x, BaseException):
            return f"it reads an object of type {t.__name__}"
        numpy = _root_of(t) == "numpy"
        if t.__name__ in OF_NUMPY if numpy else not (isinstance(x, _MUTABLE) or _may_read_state(_root_of(t)) or _has_state_in_c(t)):
            return None
        why = f"it reads {'a NumPy object' if numpy else 'an object'} of type {t.__name__}"
        if hasattr(t, "__array__") if numpy else not isinstance(x, _BY_IDENTITY) and _is_by_contents(t):
            raise Refused(why)
        return why

    # --- changes that a call makes ---

    def snapshot(self):
        """Copies the contents of all containers before the call."""
        fixed = [*self.classes, *(m.__dict__ for m, _ in self.modules.values() if not _is_trusted(m.__name__))]
        holders = [*self.holders.items(), *((None, x) for x in fixed), *((None, x) for x in self.slotted)]
        self.before = [(node, x, _NOTHING if isinstance(x, dict) and not dict.__len__(x) else _contents(x))
                       for node, x in holders]
        self.bare = [t for t, node in self.tensors if self.nodes[node][0] != "grad" and not t.__dict__]

    def snapshot_library(self, codes):
        """Copies what the library's code keeps in its modules."""
        self.library_before = [(space, items, [(x, _contents(x)) for x in _kept_in(items)])
                               for space, items in self.library_globals(codes)]

    def keeps_more(self, codes):
        """Whether the library's code keeps something in its modules of which snapshot_library() has no copy."""
        copied = {id(x) for _, _, kept in self.library_before for x, _ in kept}
        return any(id(x) not in copied for _, items in self.library_globals(codes) for x in _kept_in(items))

    def changes_library(self):
        """The name of a module of the library whose globals the call changed, or None: its recording has not what the
        next call reads."""
        for space, items, kept in self.library_before:
            if any(space.get(name, self) is not x for name, x in items.items()) or \
               not all(_is_unchanged(x, before) for x, before in kept):
                return space.get("__name__")
        return None

    def stores(self):
        """Returns the tensors that the call stored: [(False, node of the container, key, tensor)].

        Refuses the recording when the call stored or removed other objects where the program can see them.
        """
        if self.overwritten is not None:
            raise Refused(f"it changes {self.path(self.overwritten)}")
        found = []
        for node, holder, before in self.before:
            if isinstance(holder, dict) and len(holder) == len(before) and \
               all(map(is_, dict.values(holder), before.values())) and all(map(is_, holder, before)):
                continue
            now = _contents(holder)
            if len(before) > len(now) or not all(key in now for key in before):
                raise Refused(f"it removes an item of {self.holder_name(node, holder)}")
            for key, x in now.items():
                old = before.get(key, self)
                if old is x or type(old) is type(x) and type(x) in _VALUE_SET and (old == x or old != old and x != x):
                    continue
                if node is None or type(x) is not Tensor or isinstance(holder, list) and key >= len(before):
                    raise Refused(f"it changes {self.holder_name(node, holder)}, at {key!r}")
                found.append((False, node, key, x))
        if any(t.__dict__ for t in self.bare):
            raise Refused("it sets an attribute of a tensor")
        return found

    def makes_state(self):
        """Whether the call changed objects that it reads."""
        try:
            return bool(self.stores())
        except Refused:
            return True

    def holder_name(self, node, holder):
        if node is not None:
            return self.path(node)
        return getattr(holder, "get", {}.get)("__name__") or getattr(holder, "__qualname__", type(holder).__qualname__)

    # --- code ---

    def reach_function(self, f, node=None):
        if _is_trusted(f.__module__) or f in self.codes:
            return
        self.functions.setdefault(f, set())
        if self.ran is not None and f.__code__ not in self.ran:
            return
        self.codes.add(f)
        with self.deferring(True):  # its instructions are observed
            self.visit_function(f, node)

    def visit_function(self, f, node):
        node = self.add("const", -1, f, "any") if node is None else node
        code = f.__code__
        self.add("attr", node, "__code__", "is", code)
        loaded, names, matches = _facts_of_code(code)
        self.names |= names
        if matches:  # register() of an abstract base class makes a class a sequence or a mapping
            self.hold_registrations()
        for cell_name, cell in zip(code.co_freevars, f.__closure__ or ()):
            at = self.add("const", -1, cell, "any")
            self.holders[at] = cell
            try:
                x = cell.cell_contents
            except ValueError:
                raise NotYet(f"the variable {cell_name} has no value") from None
            self.visit(x, "cell", at, cell_name)
        for part in ("__defaults__", "__kwdefaults__"):
            if getattr(f, part):
                self.visit(getattr(f, part), "attr", node, part)
        self.globals(f, sorted(loaded))

    def visit_imported(self, names):
        """Visits the modules that the call's import statements find."""
        if not names:
            return
        self.visit(builtins.__import__, "item", self.add("const", -1, builtins.__dict__, "any"), "__import__")
        names = sorted({".".join(name.split(".")[:i + 1]) for name in names for i in range(name.count(".") + 1)})
        at = self.add("const", -1, sys.modules, "holds", ({}, tuple(x for x in names if x not in sys.modules), None, False))
        for name in names:
            if name in sys.modules:
                self.visit(sys.modules[name], "item", at, name)

    def globals(self, f, loaded):
        table, others = f.__globals__, f.__builtins__
        absent = tuple(name for name in loaded if name not in table)
        at = self.add("const", -1, table, "holds", ({}, absent, None, False))
        self.holders[at] = table
        found = {name: others[name] for name in absent if name in others and name not in self.builtins}
        held = {name: x for name, x in found.items() if getattr(x, "__module__", None) == "builtins" or
                type(x) in _ATOM_SET and not isinstance(x, type)}
        self.builtins.update(found)
        own = self.add("const", -1, others, "holds", (held, (), None, False)) if found else -1
        for name in found:
            if name not in held:  # the program's
                self.visit(found[name], "item", own, name)
        self.plain_only = self.plain_only or "type" in absent
        for name, x in held.items():
            if type(x) is types.BuiltinFunctionType and not is_classified("f", name, "builtins"):
                self.defer(x, f"it calls {name}()")
        self.items({name: table[name] for name in loaded if name in table}, at)

    def reach_class(self, t):
        """The class's code may run.  Its attributes are visited when code uses their names."""
        if t in self.reached:
            return
        self.reached.add(t)
        for base in t.__mro__[:-1]:
            if not _is_trusted_class(base):
                self.classes.setdefault(base, set())
            elif base not in self.library and not base.__flags__ & _IMMUTABLE_TYPE:
                self.library.add(base)

    def asked_of(self, x):
        """The names that code looks up in a class or module: all, if no call was observed, or none with this module."""
        if self.asked is None or id(x) not in self.asked and isinstance(x, types.ModuleType):
            return self.names
        return self.asked.get(id(x), _NOTHING)

    def close(self):
        """Visits the attributes of names that code looks up until there is nothing new."""
        before = -1
        while before != (before := len(self.nodes) + len(self.names) + len(self.codes)) or before < 0:
            for t in {Tensor, *(type(x) for x, _ in self.tensors)}:
                self.reach_class(t)
            for t, done in list(self.classes.items()):
                for name in {"forward", *self.asked_of(t), *self.special_methods(t)} - done:
                    done.add(name)
                    self.class_attribute(t, name)
            for node, (module, done) in list(self.modules.items()):
                for name in {"__getattr__", *self.asked_of(module)} - done:
                    done.add(name)
                    if name in module.__dict__:
                        self.module_attribute(module, node, name)
            for f, done in list(self.functions.items()) if self.asked else ():
                for name in self.asked.get(id(f), done) - done:
                    done.add(name)
                    self.function_attribute(f, name)
            self.library_attributes()
        for t, done in self.classes.items():
            self.hold_metaclass(t)
            self.guard_absence(t, done | _SPECIAL)
            for name in {"__name__", "__qualname__"}.intersection(self.asked_of(t)):
                self.visit(getattr(t, name), "attr", self.add("const", -1, t, "any"), name)
        for module, done in self.modules.values():
            self.guard_absence(module, done)
        self.hold_classes()
        if not self.names.isdisjoint(_QUERIES):
            raise Refused(f"it reads {min(self.names & _QUERIES)}")

    def guard_absence(self, x, names):
        """Guards that a class or module lacks names.  In a class, a name added later would hide a base's attribute."""
        space, mro = (_dict_of(x), x.__mro__) if isinstance(x, type) else (x.__dict__, None)
        absent = tuple(names.difference(space))
        if absent or mro:
            self.add("const", -1, x if mro else space, "holds", (_NOTHING, absent, mro, False))

    def function_attribute(self, f, name):
        """Visits what code reads of a function beside calling it."""
        at = self.add("const", -1, f, "any")
        if name not in _dict_of(types.FunctionType):
            self.visit(f.__dict__, "dict", at, None)
        elif name == "__closure__":
            for cell in f.__closure__ or ():
                for x in _contents(cell).values():
                    self.visit(x, "cell", self.add("const", -1, cell, "any"), "")
        elif type(_dict_of(types.FunctionType)[name]) in (types.GetSetDescriptorType, types.MemberDescriptorType):
            self.visit(getattr(f, name), "attr", at, name)

    def library_attributes(self):
        """Visits what attributes of the library's classes contain, where code uses their names."""
        for t in list(self.library):
            done = self.looked_up.setdefault(t, set())
            for name in self.names.intersection(_dict_of(t)) - done:
                done.add(name)
                x = _dict_of(t)[name]
                if type(x) not in _WITHOUT_CONTENTS and not isinstance(x, types.ModuleType) or isinstance(x, type):
                    self.visit_or_defer(x, "type", self.add("const", -1, t, "any"), name)

    def visit_or_defer(self, x, source, parent, key):
        """Visits an object; if no guard can hold it, the call is refused when it reads the object."""
        try:
            self.visit(x, source, parent, key)
        except NotYet:
            raise
        except Refused as why:
            self.unread(x, source, parent, key, str(why))

    def hold_classes(self):
        """Guards that the program replaces no method or attribute of the library's classes."""
        for t in self.library - self.held:
            self.held.add(t)
            self.add("const", -1, t, "holds", (_copy_of(t), (), t.__mro__, True))
            for name in self.asked_of(t):
                if name in _dict_of(t):
                    self.hold_contents(_dict_of(t)[name])

    def hold_contents(self, x, inner=False):
        """Guards what a container or an object of the library's globals has now, and containers in it."""
        if id(x) in self.contents or type(x) in _WITHOUT_CONTENTS or x is sys.modules or \
           isinstance(x, (type, types.ModuleType, Tensor, local)):
            return
        self.contents.add(id(x))
        self.kept.append(x)
        state = x if isinstance(x, dict) else getattr(x, "__dict__", None) if type(x).__dictoffset__ and not inner else None
        if isinstance(state, dict):
            items = dict(dict.items(state))
            self.add("const", -1, state, "holds", (items, (), None, True))
            inside = items.values()
        elif isinstance(x, (set, frozenset, list, tuple)):
            inside = tuple(_iter_of(x))
            self.add("const", -1, x, "items", (type(x), inside))
        else:
            return
        for item in () if isinstance(x, (set, frozenset)) else inside:
            self.hold_contents(item, True)

    def guard_library(self, codes):
        """Guards the globals, and the attributes of modules, that the library's code which ran looks up."""
        absent = {}
        for space, items in self.library_globals(codes, absent):
            for x in items.values():
                if isinstance(x, type):
                    self.reach_class(x)
                else:
                    self.hold_contents(x)
            self.add("const", -1, space, "holds", (items, tuple(absent[id(space)]), None, False))
        self.hold_classes()

    @staticmethod
    def library_globals(codes, absent=None):
        """[(globals, their items that the library's code looks up)]; puts the names into `absent` that they lack."""
        found, absent, wanted = {}, {} if absent is None else absent, {}
        for code, space in codes:
            if code.co_filename.startswith(_COMPILER):
                continue
            loaded, names, _ = _facts_of_code(code)
            wanted.setdefault(id(space), (space, set()))[1].update(loaded)
            for name in loaded:
                x = space.get(name)
                if isinstance(x, types.ModuleType):
                    wanted.setdefault(id(x.__dict__), (x.__dict__, set()))[1].update(names)
        work = list(wanted.values())
        while work:
            space, names = work.pop()
            items = found.setdefault(id(space), (space, {}))[1]
            absent.setdefault(id(space), set()).update(names.difference(space))
            for name in names.intersection(space).difference(items):
                x = space[name]
                if isinstance(x, types.ModuleType):
                    work.append((x.__dict__, names))
                items[name] = x
        return list(found.values())

    def unvisited(self, codes):
        """Those code objects that no visited function has."""
        visited = set(_codes_in([f.__code__ for f in self.codes]))
        return [code for code in codes if code not in visited]

    def lacks(self, asked, by_string):
        """Adds nodes for names that the recorded call looked up for the first time.  Returns whether the next call needs a
        walk with these names, because objects may be found by them."""
        self.asked = asked
        if not (by_string - self.names).isdisjoint(_QUERIES | _TOUCH_GRADIENTS):
            return True
        for x, known in (*self.classes.items(), *self.modules.values(), *self.functions.items()):
            names = asked.get(id(x), known) - known
            space = _dict_of(x) if isinstance(x, type) else x.__dict__
            found = names.intersection(space)
            if isinstance(x, types.FunctionType) and names or not names.isdisjoint(self.unasked) or found and not isinstance(x, type) or \
               not all(self.has_met(space[name]) for name in found):
                return True
            known |= names
            for name in found:
                self.add("type", self.add("const", -1, x, "any"), name, "is", space[name])
            if names:
                self.guard_absence(x, names)
        return False

    def has_met(self, x):
        """Whether a class attribute leads to nothing that no node describes."""
        return type(x) in _WITHOUT_CONTENTS and not any(type(f) is types.FunctionType and not _is_trusted(f.__module__) and
                                                        f not in self.functions for f in _functions_of(x))

    def module_attribute(self, module, node, name):
        x, at = module.__dict__[name], self.add("dict", node, None, "any")
        if not _is_trusted(module.__name__):
            self.visit(x, "item", at, name)
        elif module.__name__ == "os" and name in ("environ", "getenv"):
            environ = self.add("item", at, "environ", "is", module.environ)
            if not hasattr(module.environ, "_data"):  # the program replaced it
                raise Refused("it reads os.environ, which is an object of the program")
            self.visit(module.environ._data, "attr", environ, "_data")
            self.add("item", at, name, "is", x)
        elif callable(x):  # the program may replace it
            self.add("item", at, name, "is", x)
            if name not in _PURE_FUNCTIONS.get(module.__name__, (name,)):
                self.defer(x, f"it uses {module.__name__}.{name}")
            elif isinstance(x, type):
                self.atom(x, "const", -1, x)
        else:
            self.visit_or_defer(x, "item", at, name)

    def special_methods(self, t):
        """The special methods that Python may call although no code names them."""
        return {name for name, x in _dict_of(t).items() if name.startswith("__") and
                (callable(x) or isinstance(x, (classmethod, staticmethod)))} - {"__class__", "__dict__", "__weakref__"}

    def class_attribute(self, t, name):
        if name in _dict_of(t):
            with self.deferring(self.may_defer and not name.startswith("__")):  # C code calls special methods
                self.visit_class_attribute(t, name, _dict_of(t)[name])

    def visit_class_attribute(self, t, name, x):
        self.plain_only = self.plain_only or name in _CHECKED_METHODS
        at = self.add("const", -1, t, "any")
        if isinstance(x, (staticmethod, classmethod, types.FunctionType, property)):
            node = self.add("type", at, name, "is", x)
            if isinstance(x, property) and type(x) is not property:
                self.attributes(x, node)
            for f in _functions_of(x):
                if isinstance(f, types.FunctionType):
                    self.reach_function(f)
                elif isinstance(x, property) and f is not None:
                    self.called_in_c(f)
            return
        if name.startswith("__") and getattr(x, "__name__", name) != name:
            self.called_in_c(x)
        self.visit(x, "type", at, name)

    # --- the function ---

    def root(self, f):
        """Adds the function as the root node."""
        if isinstance(f, types.FunctionType):
            self.reach_function(f)
        else:
            self.visit(f, "const", -1, f)

    def gradients(self):
        """Adds nodes for .grad, for functions that read or write it."""
        made = []
        for t, node in [(t, node) for t, node in self.tensors if t.is_leaf]:
            own = self.visit(t.grad, "grad", node, "grad")
            if t.requires_grad:
                made.append((t, node, t.grad, own))
        return made

    @property
    def wants_gradients(self):
        return self.optimizers or not self.names.isdisjoint(_TOUCH_GRADIENTS)

    # --- names of nodes in messages ---

    def settle(self):
        """Keeps what texts and the next recordings ask for, and no object that the nodes do not have."""
        for node in self.nodes:
            if node[3] == "tensor":
                node[4] = tensor_facts(node[4])
        self.holders = dict.fromkeys(self.holders)
        self.__dict__ = {name: getattr(self, name) for name in _LASTING}

    def path(self, node):
        found = self.paths.get(node)
        if found is None:
            found = self.paths[node] = self.find_path(node)
        return found

    def find_path(self, node):
        source, parent, key = self.nodes[node][:3]
        if source == "arg":
            return self.parameters[key] if key < len(self.parameters) else f"args[{key - len(self.parameters)}]"
        if source == "kwarg":
            return self.keywords[key]
        if source == "const":
            return getattr(key, "__qualname__", "") or ("G" if isinstance(key, dict) else type(key).__name__)
        if source == "cell":
            return str(key)
        if source == "item":
            return self.item_path(parent, key)
        return self.path(parent) if source == "dict" else f"{self.path(parent)}.{key}"

    def item_path(self, node, key):
        up = self.path(node)
        if self.nodes[node][0] == "dict":
            return f"{up}.{key}"
        return f"{up}[{key!r}]" if not isinstance(key, Tensor) else f"{up}[...]"


_METHODS = [
    ((tuple, list), Walk.sequence),
    ((dict, OrderedDict, defaultdict), Walk.mapping),
    ((set, frozenset), Walk.set),
    (types.FunctionType, Walk.function),
    (types.MethodType, Walk.method),
    (types.MethodWrapperType, Walk.bound_slot),
    (functools.partial, Walk.partial),
    (CompiledFunction, Walk.compiled),
    (types.ModuleType, Walk.python_module),
]
_EXACT = {t: method for kinds, method in _METHODS[:3] for t in kinds}
