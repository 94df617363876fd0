"""Operators of torch.ops.aten that are functions of Python here.  Each is defined when it is first asked for."""
from . import _C


def _assert_async(self):
    from ._features import _assert_async as check
    check(self)


def _assert_async_msg(self, assert_msg):
    from ._features import _assert_async as check
    check(self, assert_msg)


def _assert_scalar(self, assert_msg):
    if not self:
        raise RuntimeError(assert_msg)


def _assert_tensor_metadata(a, size=None, stride=None, dtype=None, *, device=None, layout=None):
    # A size that is not asked for is not read, because a recording would note the comparison.
    for name, expected, got in (("sizes", size, lambda: tuple(a.shape)), ("strides", stride, lambda: a.stride()), ("dtype", dtype, lambda: a.dtype),
                                ("device", device, lambda: a.device), ("layout", layout, lambda: a.layout)):
        expected = tuple(expected) if isinstance(expected, list) else expected
        if expected is not None and expected != got():
            raise RuntimeError(f"Tensor {name} mismatch! Expected: {expected}, Got: {got()}")


def _foreach(name):
    def function(self, other, *, alpha=None):
        from . import _foreach as functions
        made = getattr(functions, name)(self, other) if alpha is None else getattr(functions, name)(self, other, alpha=alpha)
        return None if name.endswith("_") else list(made)
    return function


def _grouped_mm(self, mat2, offs=None, bias=None, out_dtype=None):
    from ._grouped import _grouped_mm as function
    return function(self, mat2, offs=offs, bias=bias, out_dtype=out_dtype)


def _constrain(size, *, min=None, max=None):
    from ._features import sym_constrain_range_for_size
    sym_constrain_range_for_size(size, min=min, max=max)


def _to(self, *, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False, copy=False, memory_format=None):
    if layout is not None and layout != self.layout:
        raise RuntimeError("to(options) doesn't support converting to a different layout, but got self.layout being "
                           f"{_layout_text(self.layout)} and options.layout set as {_layout_text(layout)}")
    return self.to(self.device if device is None else device, self.dtype if dtype is None else dtype, non_blocking, copy, memory_format=memory_format)


def _layout_text(layout):
    return str(layout).removeprefix("torch.").replace("_", " ").title().replace(" ", "").replace("SparseCoo", "Sparse")


# {name: [(overload and schema, function)]}
_SCHEMAS = {
    "_assert_async": [("(Tensor self) -> ()", _assert_async), (".msg(Tensor self, str assert_msg) -> ()", _assert_async_msg)],
    "_assert_scalar": [("(Scalar self, str assert_msg) -> ()", _assert_scalar)],
    "_assert_tensor_metadata": [("(Tensor a, int[]? size=None, int[]? stride=None, ScalarType? dtype=None, *, Device? device=None, Layout? layout=None) -> ()",
                                 _assert_tensor_metadata)],
    "_foreach_add_": [(".List(Tensor[] self, Tensor[] other, *, Scalar alpha=1) -> ()", _foreach("_foreach_add_")),
                      (".Scalar(Tensor[] self, Scalar scalar) -> ()", _foreach("_foreach_add_"))],
    "_foreach_div": [(".List(Tensor[] self, Tensor[] other) -> Tensor[]", _foreach("_foreach_div")),
                     (".Scalar(Tensor[] self, Scalar scalar) -> Tensor[]", _foreach("_foreach_div"))],
    "_foreach_maximum_": [(".List(Tensor[] self, Tensor[] other) -> ()", _foreach("_foreach_maximum_")),
                          (".Scalar(Tensor[] self, Scalar scalar) -> ()", _foreach("_foreach_maximum_"))],
    "_grouped_mm": [("(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? bias=None, ScalarType? out_dtype=None) -> Tensor", _grouped_mm)],
    "detach_": [("(Tensor(a!) self) -> Tensor(a!)", lambda self: self.detach_())],
    "lift_fresh_copy": [("(Tensor self) -> Tensor", lambda self: self.clone())],
    "sym_size": [(".int(Tensor self, int dim) -> int", lambda self, dim: self.shape[dim])],
    "sym_stride": [(".int(Tensor self, int dim) -> int", lambda self, dim: self.stride(dim))],
    "sym_numel": [("(Tensor self) -> int", lambda self: self.numel())],
    "sym_constrain_range_for_size": [("(Scalar size, *, int? min=None, int? max=None) -> ()", _constrain)],
    "to": [(".dtype(Tensor self, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor",
            lambda self, dtype, non_blocking, copy, memory_format: self.to(dtype, non_blocking, copy, memory_format=memory_format)),
           (".device(Tensor self, Device device, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor",
            lambda self, device, dtype, non_blocking, copy, memory_format: self.to(device, dtype, non_blocking, copy, memory_format=memory_format)),
           (".other(Tensor self, Tensor other, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor",
            lambda self, other, non_blocking, copy, memory_format: self.to(other, non_blocking, copy, memory_format=memory_format)),
           (".dtype_layout(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool non_blocking=False, "
            "bool copy=False, MemoryFormat? memory_format=None) -> Tensor", _to)],
}


def define(name):
    """Defines the operator; False where there is none of this name."""
    from .library import Library
    if name not in _SCHEMAS:
        return False
    library = Library("aten", "FRAGMENT")
    for schema, function in _SCHEMAS[name]:
        library.define(name + schema)
        library.impl(name + schema.partition("(")[0], function, "CompositeImplicitAutograd")
    return True
