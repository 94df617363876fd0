"""The types of TorchScript as objects: IntType.get(), ListType(IntType.get())."""

__all__ = ["Type", "InferredType", "unify_type_list"]


class Type:
    """A type.  Two types are equal when they are written alike."""

    _text = _schema = None
    _inside = ()

    def kind(self):
        """The name of the class."""
        return type(self).__name__

    @property
    def annotation_str(self):
        """The type as an annotation."""
        return self._text

    def str(self):
        """The type as schemas write it: int[]."""
        return self._schema or self._text

    def containedTypes(self):
        """The types of elements."""
        return list(self._inside)

    def isSubtypeOf(self, other):
        """Whether a value of this type is one of the other."""
        if isinstance(other, AnyType) or self == other:
            return True
        if isinstance(other, NumberType):
            return isinstance(self, (IntType, FloatType, ComplexType))
        if isinstance(other, UnionType):
            members = self._inside if isinstance(self, UnionType) else [self]
            return all(any(m.isSubtypeOf(o) for o in other._inside) for m in members)
        if isinstance(self, TupleType) and isinstance(other, TupleType):
            return len(self._inside) == len(other._inside) and all(
                a.isSubtypeOf(b) for a, b in zip(self._inside, other._inside))
        return False

    def is_interface_type(self):
        return isinstance(self, InterfaceType)

    def __repr__(self):
        return self._text

    def __eq__(self, other):
        return isinstance(other, Type) and type(self) is type(other) and self._text == other._text

    def __hash__(self):
        return hash(self._text)


def _single(name, text, doc):
    """The class of a type without parameters."""
    @classmethod
    def get(cls):
        """The type."""
        return cls()
    made = type(name, (Type,), {"_text": text, "__doc__": doc, "get": get, "__module__": "torch"})
    __all__.append(name)
    return made


AnyType = _single("AnyType", "Any", "The type of all values.")
IntType = _single("IntType", "int", "Integers.")
FloatType = _single("FloatType", "float", "Floats.")
ComplexType = _single("ComplexType", "complex", "Complex numbers.")
BoolType = _single("BoolType", "bool", "Truth values.")
NumberType = _single("NumberType", "number", "Integers, floats and complex numbers.")
StringType = _single("StringType", "str", "Strings.")
NoneType = _single("NoneType", "NoneType", "The type of None.")
DeviceObjType = _single("DeviceObjType", "Device", "Devices.")
StreamObjType = _single("StreamObjType", "Stream", "Streams.")
PyObjectType = _single("PyObjectType", "PyObject", "Objects of Python.")
SymIntType = _single("SymIntType", "int", "Integers that may be symbols.")
SymBoolType = _single("SymBoolType", "bool", "Truth values that may be symbols.")
TensorType = _single("TensorType", "Tensor", "Tensors: all that is known of them, or nothing.")
TensorType.getInferred = TensorType.get
Type._known = {}  # sizes, strides, scalarType, requires_grad, device


def _tensor_fact(name, doc):
    def fact(self):
        return self._known.get(name)
    fact.__doc__ = doc
    setattr(Type, name, fact)


for _name, _doc in {"sizes": "The sizes; None: not known.", "strides": "The strides; None: not known.",
                    "scalarType": "The name of the dtype, such as Float; None: not known.", "requires_grad": "Whether they require a gradient.",
                    "device": "The device; None: not known."}.items():
    _tensor_fact(_name, _doc)
_DTYPES = {"Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16", "Long": "int64", "Int": "int32",
           "Short": "int16", "Char": "int8", "Byte": "uint8", "Bool": "bool", "ComplexFloat": "complex64",
           "ComplexDouble": "complex128"}


def _tensor_dtype(self):
    """The dtype; None: not known."""
    import cresset
    name = self._known.get("scalarType")
    return name and getattr(cresset, _DTYPES[name])


def _tensor_dim(self):
    """The number of dims; None: not known."""
    sizes = self._known.get("sizes")
    return None if sizes is None else len(sizes)


def _with(self, **facts):
    made = TensorType()
    made._known = {**self._known, **facts}
    return made


def _contiguous(self):
    """The same type with the strides of contiguous tensors."""
    strides, n = [], 1
    for size in reversed(self._known.get("sizes") or ()):
        strides.insert(0, n)
        n *= size
    return _with(self, strides=strides) if "sizes" in self._known else self


Type.varyingSizes = Type.symbolic_sizes = lambda self: self._known.get("sizes")
Type.dtype, Type.dim, Type.undefined, Type.contiguous = _tensor_dtype, _tensor_dim, lambda self: False, _contiguous
Type.requires_grad = lambda self: self._known.get("requires_grad", True)
Type.with_sizes = lambda self, sizes: _with(self, sizes=list(sizes))
Type.with_device = lambda self, device: _with(self, device=device)
Type.with_dtype = lambda self, dtype: _with(self, scalarType=next(k for k, v in _DTYPES.items() if f"torch.{v}" == str(dtype)))
TensorType.create_from_tensor = classmethod(lambda cls, tensor: cls())


def _check_element(name, element):
    if element is None:
        raise RuntimeError(f"Can not create {name} with None type")
    if not isinstance(element, Type):
        raise TypeError(f"{name}(): expected a type, got {type(element).__name__}")


def _parametrized(name, form, schema=None):
    """The class of a type with one parameter."""
    def __init__(self, element):
        _check_element(name, element)
        self._inside, self._text = (element,), f"{form}[{element}]"
        self._schema = schema and schema(element)

    def getElementType(self):
        """The parameter."""
        return self._inside[0]
    __all__.append(name)
    return type(name, (Type,), {"__init__": __init__, "getElementType": getElementType, "__module__": "torch",
                                "__doc__": f"{form}[T]."})


ListType = _parametrized("ListType", "List", lambda t: t.str() + "[]")
FutureType = _parametrized("FutureType", "Future", lambda t: f"Future[{t.str()}]")
RRefType = _parametrized("RRefType", "RRef", lambda t: f"RRef({t.str()})")
AwaitType = _parametrized("AwaitType", "Await", lambda t: f"Await({t.str()})")
for _name, _of in {"ofInts": IntType, "ofFloats": FloatType, "ofBools": BoolType, "ofStrings": StringType,
                   "ofTensors": TensorType, "ofComplexDoubles": ComplexType}.items():
    setattr(ListType, _name, staticmethod(lambda of=_of: ListType(of())))


class DictType(Type):
    """Dict[K, V]."""

    def __init__(self, key, value):
        _check_element("DictType", key)
        _check_element("DictType", value)
        self._inside, self._text = (key, value), f"Dict[{key}, {value}]"
        self._schema = f"Dict({key.str()}, {value.str()})"

    def getKeyType(self):
        return self._inside[0]

    def getValueType(self):
        return self._inside[1]


class TupleType(Type):
    """Tuple[A, B]."""

    def __init__(self, elements):
        self._inside = tuple(elements)
        for element in self._inside:
            _check_element("tuple", element)
        self._text = f"Tuple[{', '.join(map(repr, self._inside)) or '()'}]"
        self._schema = f"({', '.join(t.str() for t in self._inside)})"

    def elements(self):
        return list(self._inside)


class UnionType(Type):
    """Union[A, B]."""

    def __init__(self, members):
        self._inside = tuple(dict.fromkeys(members))
        for member in self._inside:
            _check_element("UnionType", member)
        self._text = f"Union[{', '.join(map(repr, self._inside))}]"
        self._schema = f"Union({', '.join(t.str() for t in self._inside)})"


class OptionalType(UnionType):
    """Optional[T]."""

    def __init__(self, element):
        _check_element("OptionalType", element)
        self._inside, self._text, self._schema = (element, NoneType()), f"Optional[{element}]", element.str() + "?"

    def containedTypes(self):
        return [self._inside[0]]

    def getElementType(self):
        return self._inside[0]

    @staticmethod
    def ofTensor():
        return OptionalType(TensorType())


class _Named(Type):
    """A type that a program defines."""

    def __init__(self, qualified_name):
        self._text = qualified_name

    def name(self):
        return self._text.rpartition(".")[2]

    def qualified_name(self):
        return self._text


class ClassType(_Named):
    """A class of a program."""


class InterfaceType(_Named):
    """An interface of a program."""

    def __init__(self, qualified_name):
        super().__init__(qualified_name)
        self._schema = f"InterfaceType<{self.name()}>"


class EnumType(_Named):
    """An enum of a program, with the type of its values."""

    def __init__(self, qualified_name, value_type, enum_names_values):
        super().__init__(qualified_name)
        self._schema = f"Enum<{qualified_name}>"
        self._inside, self._members = (value_type,), list(enum_names_values)

    def enum_names_values(self):
        return list(self._members)


class FunctionType(_Named):
    """The type of a function of a program."""


_PLAIN = {t._text: t for t in (AnyType, IntType, FloatType, ComplexType, BoolType, NumberType, StringType, NoneType, DeviceObjType,
                               TensorType, StreamObjType)}
_PLAIN["Scalar"] = NumberType


def _parts(text):
    """The parts of a text between commas that are in no parentheses."""
    depth, start = 0, 0
    for i, c in enumerate(text):
        depth += (c in "([<") - (c in ")]>")
        if c == "," and not depth:
            yield text[start:i].strip()
            start = i + 1
    if text[start:].strip():
        yield text[start:].strip()


def _tensor_of(name, facts):
    made = TensorType()
    known = made._known = {"scalarType": name}
    sizes = []
    for part in _parts(facts):
        key, given, value = part.partition("=")
        if not given:
            sizes.append(None if part == "*" else int(part))
        elif key == "strides":
            known[key] = [int(v) for v in value[1:-1].split(",") if v.strip()]
        elif key == "requires_grad":
            known[key] = value == "1"
        elif key == "device":
            import cresset
            known[key] = cresset.device(value)
    known["sizes"] = None if None in sizes else sizes
    known.setdefault("strides", [] if not sizes else None)
    return made


def parse(text):
    """The type that a graph writes so: int[], Dict(str, Tensor?), Float(2, 3, device=cpu)."""
    text = text.strip()
    if text.endswith("[]") or text.endswith("?"):
        element = parse(text.removesuffix("[]") if text.endswith("[]") else text[:-1])
        return ListType(element) if text.endswith("[]") else OptionalType(element)
    if text in _PLAIN:
        return _PLAIN[text]()
    if text == "Function":
        return FunctionType("Function")
    head, inside = text, ""
    for opening in "([<":
        if opening in text and text[-1] in ")]>":
            head, inside = min((text[:text.index(opening)], text[text.index(opening) + 1:-1]), (head, inside), key=lambda p: len(p[0]))
    if head == "":
        return TupleType([parse(part) for part in _parts(inside)])
    if head == "NamedTuple":
        return TupleType([parse(part.partition(" : ")[2].partition(" = ")[0]) for part in _parts(inside)])
    if head == "Enum":
        return EnumType(inside, IntType(), [])
    if head == "InterfaceType":
        return InterfaceType(inside)
    made = {"Dict": DictType, "Union": lambda *m: UnionType(m), "Future": FutureType, "RRef": RRefType, "Await": AwaitType}.get(head)
    if made is not None:
        return made(*(parse(part) for part in _parts(inside)))
    return _tensor_of(head, inside) if head in _DTYPES else ClassType(text)


class InferredType:
    """The type that was found for a value, or the reason why there is none."""

    def __init__(self, found):
        self._found = found

    def success(self):
        return isinstance(self._found, Type)

    def type(self):
        """The type; RuntimeError without one."""
        if not self.success():
            raise RuntimeError(f"Tried to get the type from an InferredType but the type is null. Reason: {self._found}")
        return self._found

    def reason(self):
        return "" if self.success() else self._found


def _unify(a, b):
    """The type that has all values of both, or None."""
    if b.isSubtypeOf(a):
        return a
    if a.isSubtypeOf(b):
        return b
    if isinstance(a, NoneType) or isinstance(b, NoneType):
        return OptionalType(b if isinstance(a, NoneType) else a)
    return None


def unify_type_list(types):
    """The type of elements of these types."""
    if not types:
        raise RuntimeError("Must get at least one type to unify")
    found = types[0]
    for i, t in enumerate(types[1:], 1):
        joined = _unify(found, t)
        if joined is None:
            raise RuntimeError(f"Could not unify type list since element {i} of type {t} did not match the types before it ({found})")
        found = joined
    return found


__all__ += ["DictType", "TupleType", "UnionType", "OptionalType", "ClassType", "InterfaceType", "EnumType"]
for _name in __all__:
    globals()[_name].__module__ = "torch"
