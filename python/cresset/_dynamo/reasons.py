"""Texts of guards, for logs and errors."""
from .. import Tensor, empty
from .guards import plain_of, tensor_facts

_MODES = ((1, "grad_mode"), (2, "inference_mode"), (0x00ff000c, "autocast"), (0xff00, "default_dtype"))


def _typename(dtype):
    return empty(0, dtype=dtype).type().rpartition(".")[2].removesuffix("Tensor")


def _first_difference(a, b):
    return next(d for d, (m, n) in enumerate(zip(a, b)) if m != n)


def _tensor(name, facts, mask, x):
    cls, dtype, shape, stride, requires_grad, device = facts
    if type(x) is not cls:
        return f"expected type of '{name}' to be {cls.__name__}, but found {type(x)}"
    if x.dtype != dtype:
        return f"tensor '{name}' dtype mismatch. expected {_typename(dtype)}, actual {_typename(x.dtype)}"
    if x.device != device:
        return f"tensor '{name}' device mismatch. expected {device}, actual {x.device}"
    if x.requires_grad != requires_grad:
        return f"tensor '{name}' requires_grad mismatch. expected requires_grad={int(requires_grad)}"
    if x.dim() != len(shape):
        return f"tensor '{name}' rank mismatch. expected {len(shape)}, actual {x.dim()}"
    for d, (want, have) in enumerate(zip(shape, x.shape)):
        if mask >> d & 1 and have < 2:
            return f"tensor '{name}' size mismatch at index {d}. expected any but 0 and 1, actual {have}"
        if not mask >> d & 1 and want != have:
            return f"tensor '{name}' size mismatch at index {d}. expected {want}, actual {have}"
    if x.stride() != stride and not mask:
        d = _first_difference(stride, x.stride())
        return f"tensor '{name}' stride mismatch at index {d}. expected {stride[d]}, actual {x.stride(d)}"
    return f"tensor '{name}' is laid out in another way"


def _short(x):
    text = repr(x)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _parts(walk, node):
    check, expected, _, *mask = walk.nodes[node][3:]
    if isinstance(expected, Tensor):  # the recording is incomplete
        expected = tensor_facts(expected)
    return walk.path(node), check, expected, mask[0] if mask else 0


def _first_change(expected, x):
    """The name of an item of a module or a class that is not what it was."""
    items, absent, _, exact = expected
    now = x if isinstance(x, dict) else type.__dict__["__dict__"].__get__(x)
    changed = [key for key, value in items.items() if now.get(key, items) is not value]
    return next(iter([*changed, *(key for key in absent if key in now), *(key for key in now if exact and key not in items)]), "an item")


def _plain_change(walk, node, check, expected, x):
    """The text of a number or string in a container that is not what it was, or None.  The container's class is the same."""
    item = next(kind.__getitem__ for kind in (dict, list, tuple) if isinstance(x, kind))
    for key, value in plain_of(check, expected).items():
        try:
            now = item(x, key)
        except LookupError:
            continue
        if type(now) is not type(value) or now != value:
            found = "a tensor" if isinstance(now, Tensor) else _short(now)
            return f"{_plain(walk.item_path(node, key), value)} (it is {found})"
    return None


def _plain(name, value):
    return f"{name} {'is' if value is None or type(value) is bool else '=='} {_short(value)}"


def guards(walk):
    """Returns all checks as texts."""
    for node, (_, _, _, check, expected, *_) in enumerate(walk.nodes):
        if check != "any":
            yield guard(walk, node)
        if check in ("list", "mapping"):
            yield from (_plain(walk.item_path(node, key), x) for key, x in plain_of(check, expected).items())


def guard(walk, node):
    """Returns the check of a node as text."""
    name, check, expected, _ = _parts(walk, node)
    if check == "equal":
        return _plain(name, expected)
    if check == "list":
        return f"len({name}) == {expected[1]}"
    if check in ("mapping", "items"):
        return f"list({name}) == {_short(list(expected[1]))}"
    if check == "tensor":
        return f"{name}: {expected[0].__name__}, {expected[1]}, {list(expected[2])}"
    if check in ("instance", "number"):
        return f"type({name}) is {expected.__name__}"
    if check == "same":
        return f"{name} is {walk.path(expected)}"
    if check == "holds":
        return f"{name} has the same functions, classes and values"
    if check == "derived":
        return f"{name} == {_short(expected[1])}, of type {expected[0].__name__}"
    if check == "returns":
        return f"{name}{expected[0]} == {expected[1]}"
    if check == "is":
        return f"{name} is {_short(expected)}"
    return f"{name} exists"


def failure(walk, node, found, twin=-1):
    """Returns why a recording does not fit a call.  node: from CompiledEntry.fails; found: (the
    object,), or () when it is missing; twin: the node that has this object, too, or -1."""
    if node == -2:
        return "the function is called with other arguments by position and name"
    if node == -3:
        changed = ", ".join(name for mask, name in _MODES if found[0] & mask)
        return f"GLOBAL_STATE changed: {changed}"
    name, check, expected, mask = _parts(walk, node)
    if not found:
        return f"{name} is missing"
    x, = found
    if twin >= 0:
        return f"{name} is not {walk.path(twin)}"
    same_class = check == "holds" or isinstance(expected, tuple) and type(x) is expected[0]
    if same_class and isinstance(x, (dict, list, tuple)):
        changed = _plain_change(walk, node, check, expected, x)
        if changed:
            return changed
    if check == "holds":
        return f"{_first_change(expected, x)} of {name} changed"
    if check == "tensor":
        return _tensor(name, expected, mask, x)
    if check == "list" and type(x) is expected[0]:
        return f"{guard(walk, node)} (it is {len(x)})"
    if check in ("mapping", "items") and type(x) is expected[0]:
        return f"{guard(walk, node)} (it is {_short(list(x))})"
    if check in ("list", "mapping", "items", "instance", "number"):
        wanted = expected[0] if isinstance(expected, tuple) else expected
        return f"type({name}) is {wanted.__name__} (it is {type(x).__name__})"
    return f"{guard(walk, node)} (it is {'a tensor' if isinstance(x, Tensor) else _short(x)})"
