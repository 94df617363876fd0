"""Floating point operations of matrix products, convolutions and attention, by module.

A multiplication and an addition are two operations.  Other operators count as none, as in torch.
"""
import functools
from collections import defaultdict
from math import prod

from .. import _C

__all__ = ["FlopCounterMode", "register_flop_formula"]

flop_registry = {}  # packet of torch.ops.aten -> formula of programs


def get_shape(x):
    """Returns the size of a tensor; anything else as it is."""
    return x.shape if isinstance(x, _C.Tensor) else x


def register_flop_formula(targets, get_raw=False):
    """Registers formula(*args, out_val=None, **kwargs) of operators, which gets shapes for tensors."""
    def register(formula):
        for target in targets if isinstance(targets, (list, tuple)) else [targets]:
            if target in flop_registry:
                raise RuntimeError(f"duplicate registrations for {target}")
            flop_registry[target] = formula
        return formula
    return register


# --- formulas of the entries of the table: inputs as _C._profile_stop gives them ---

def _sizes(value):
    return value[1]


def _product(a, b):
    """Operations of a product of matrices or of batches of matrices."""
    if len(a) < 2 or len(b) < 2:
        return 0
    batch = a[:-2] if len(a) >= len(b) else b[:-2]
    return 2 * prod(batch) * a[-2] * a[-1] * b[-1]


def _matmul(inputs):
    a, b = _sizes(inputs[0]), _sizes(inputs[1])
    return "mm" if len(b) == 2 or len(a) == 2 else "bmm", _product(a, b)


def _linear(inputs):
    x, weight = _sizes(inputs[0]), _sizes(inputs[1])
    name = "mm" if inputs[2] is None else "addmm"
    return name, 2 * prod(x) * weight[0] if len(weight) == 2 else 0


def _two(name, first):
    def formula(inputs):
        return name, _product(_sizes(inputs[first]), _sizes(inputs[first + 1]))
    return formula


def _convolution(inputs):
    """Operations by the output's size: stride, padding, dilation and output padding give it."""
    x, weight, _, stride, padding, dilation, transposed, more, _ = inputs
    x, weight = _sizes(x), _sizes(weight)
    if transposed:  # every element of the input meets the kernel
        return "convolution", 2 * prod(x) * prod(weight[1:])
    sizes = [(size + 2 * p - d * (k - 1) - 1) // s + 1
             for size, k, s, p, d in zip(x[2:], weight[2:], stride, padding, dilation)]
    return "convolution", 2 * x[0] * prod(sizes) * prod(weight)


def _input_gradient(inputs):
    grad, weight = _sizes(inputs[0]), _sizes(inputs[1])
    return "convolution_backward", 2 * grad[0] * prod(grad[2:]) * prod(weight)


def _weight_gradient(inputs):
    grad, weight = _sizes(inputs[0]), inputs[2]
    return "convolution_backward", 2 * grad[0] * prod(grad[2:]) * prod(weight)


def _attention(inputs):
    query, key, value = map(_sizes, inputs[:3])
    products = prod(query) * key[-2] + prod(query[:-1]) * key[-2] * value[-1]
    return "scaled_dot_product_attention", 2 * products


_FORMULAS = {
    "mm": _two("mm", 0), "bmm": _two("bmm", 0), "addmm": _two("addmm", 1), "baddbmm": _two("baddbmm", 1),
    "matmul": _matmul, "linear": _linear, "convolution": _convolution,
    "_convolution_input_grad": _input_gradient, "_convolution_weight_grad": _weight_gradient,
    "scaled_dot_product_attention": _attention}


def recorded_flops(name, inputs):
    """Returns the operations of a recorded call; None for entries without a formula."""
    formula = _FORMULAS.get(name)
    return None if formula is None else formula(inputs)[1]


# --- counting ---

class _Modules:
    """Names the modules that run: ranges in the thread's profile, and of sequences of nodes."""

    def __init__(self, roots):
        self.names, self.open, self.ranges = {}, [], []
        self.hooks = []
        for root in roots:
            self._name(root, type(root).__name__)

    def _name(self, module, name):
        self.names[module] = name
        for child_name, child in module.named_children():
            self._name(child, f"{name}.{child_name}")

    def start(self):
        from ..nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
        self.hooks = [register_module_forward_pre_hook(self._enter),
                      register_module_forward_hook(self._leave, always_call=True)]

    def stop(self):
        for hook in self.hooks:
            hook.remove()

    def _enter(self, module, inputs):
        if module not in self.names:
            self._name(module, type(module).__name__)
        name = self.names[module]
        self.open.append((_C._profile_enter(f"{_RANGE}{name}"), name, _C._node_next_sequence()))

    def _leave(self, module, inputs, output):
        event, name, first = self.open.pop()
        _C._profile_leave(event)
        self.ranges.append((first, _C._node_next_sequence(), name))

    def of_node(self, sequence):
        """Returns the names of the modules whose forward made a node."""
        return {name for first, end, name in self.ranges if first <= sequence < end}


_RANGE = "module: "


@functools.cache
def _packet(name):
    from .. import ops
    return getattr(ops.aten, name, None) or f"aten.{name}"


class FlopCounterMode:
    """Counts the operations of the calls in a `with` block, and of backward passes there."""

    def __init__(self, mods=None, depth=2, display=True, custom_mapping=None):
        self.depth = depth
        self.display = display
        self.flop_counts = defaultdict(lambda: defaultdict(int))
        self._custom = {**flop_registry, **(custom_mapping or {})}
        if mods is not None:
            import warnings
            warnings.warn("mods argument is not needed anymore, you can stop passing it", stacklevel=2)

    def __enter__(self):
        self.flop_counts.clear()
        self._modules = _Modules(())
        self._modules.start()
        _C._profile_start(True)
        return self

    def __exit__(self, *exception):
        events = _C._profile_stop()
        self._modules.stop()
        self._count(events)
        if self.display:
            print(self.get_table(self.depth))

    def _call_flops(self, name, inputs):
        """Returns (packet, operations) of a call, or None."""
        if name in _FORMULAS:
            key, flops = _FORMULAS[name](inputs)
            return _packet(key), flops
        packet = _packet(name) if self._custom and "::" not in name else None
        if packet in self._custom:
            shapes = [_C.Size(v[1]) if isinstance(v, tuple) and v and isinstance(v[0], _C.dtype) else v
                      for v in inputs]
            return packet, self._custom[packet](*shapes, out_val=None)
        return None

    def _count(self, events):
        places, counted = [], []
        for name, kind, _, _, _, _, sequence, parent, inputs in events:
            here = set(places[parent]) if parent >= 0 else {"Global"}
            inside = parent >= 0 and counted[parent]
            if name.startswith(_RANGE):
                here.add(name[len(_RANGE):])
            if sequence >= 0:
                here |= self._modules.of_node(sequence)
            found = None if inside or inputs is None else self._call_flops(name, inputs)
            if found is not None and found[1]:
                for place in here:
                    self.flop_counts[place][found[0]] += found[1]
            places.append(here)
            counted.append(inside or found is not None)

    def get_total_flops(self):
        """Returns the operations of all calls."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self):
        """Returns {module: {operator: operations}}; "Global" is the sum."""
        return {place: dict(counts) for place, counts in self.flop_counts.items()}

    def get_table(self, depth=None):
        """Returns a table of modules down to `depth`."""
        depth = 999999 if depth is None else depth
        total = self.get_total_flops()
        unit = _unit_of(total)
        rows, global_rows = [], []
        for place in sorted(self.flop_counts):
            if place == "Global" or place.count(".") + 1 > depth:
                continue
            rows += self._rows(place, total, unit)
        has_all = any(sum(counts.values()) == total for place, counts in self.flop_counts.items()
                      if place != "Global" and "." not in place)
        if not has_all:
            global_rows = self._rows("Global", total, unit)
        return _table(("Module", "FLOP", "% Total"), global_rows + rows or [["Global", "0", "0%"]])

    def _rows(self, place, total, unit):
        counts = self.flop_counts[place]
        sums = sum(counts.values())
        rows = [[place, _in_unit(sums, unit), _percent(sums, total)]]
        return rows + [[f"- {key}", _in_unit(n, unit), _percent(n, total)] for key, n in counts.items()]


_UNITS = ["", "K", "M", "B", "T"]


def _unit_of(number):
    """Returns the power of 1000 in which the number has at most four digits before the point."""
    power = 0
    while power < len(_UNITS) - 1 and number >= 10000 * 1000 ** power:
        power += 1
    return power


def _in_unit(number, power):
    return f"{number / 1000 ** power:.3f}{_UNITS[power]}" if power else str(number)


def _percent(number, total):
    return "0%" if total == 0 else f"{number / total:.2%}"


def _table(heading, rows):
    """Returns lines with columns two spaces apart; the first one begins at the left."""
    widths = [max(len(row[i]) for row in [heading, *rows]) for i in range(len(heading))]
    line = lambda row: "  ".join([f"{row[0]:<{widths[0]}}", *(f"{text:>{w}}" for text, w in zip(row[1:], widths[1:]))])
    return "\n".join([line(heading), "  ".join("-" * w for w in widths), *map(line, rows)])
