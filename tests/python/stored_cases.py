"""Cases of test_stored_dtypes.py: dtypes that are stored and converted, with few operators.

`python stored_cases.py record MODULE FILE` writes what MODULE (torch) gives.
"""
import hashlib
import json
import sys

import numpy

STORED = ("uint16", "uint32", "uint64", "complex32", "float8_e4m3fn", "float8_e5m2",
          "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu")
OTHERS = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
          "float64", "complex64", "complex128")


def patterns(torch, name):
    """All bit patterns of types up to 16 bits, random ones of others."""
    dtype = getattr(torch, name)
    random = numpy.random.default_rng(7)
    if name == "bool":
        return torch.tensor([True, False])
    if name == "complex64" or name == "complex128":
        kind = numpy.float32 if name == "complex64" else numpy.float64
        return torch.view_as_complex(torch.from_numpy(
            (random.standard_normal((1000, 2)) * 100).astype(kind)))
    if name == "complex32":
        pair = numpy.arange(65536, dtype=numpy.uint16)
        return torch.from_numpy(numpy.stack([pair, pair[::-1]], -1).reshape(-1).view(numpy.int32)).view(dtype)
    bits = {1: numpy.arange(256, dtype=numpy.uint8), 2: numpy.arange(65536, dtype=numpy.uint16).view(numpy.int16),
            4: random.integers(-2**31, 2**31, 20000).astype(numpy.int32),
            8: random.integers(-2**63, 2**63 - 1, 20000)}[dtype.itemsize]
    return torch.from_numpy(bits).view(dtype)


def in_range(torch, x, name):
    """Marks elements whose conversion C defines: x86 gives others by chance."""
    values = (x.to(torch.complex128).real if x.is_complex() else x.to(torch.float64)).numpy()
    if getattr(torch, name).is_floating_point or getattr(torch, name).is_complex or name == "bool" or \
            not (x.is_complex() or x.is_floating_point()):
        return numpy.ones(len(values), bool)
    limits = torch.iinfo(getattr(torch, name))
    return (values > limits.min - 1) & (values < limits.max + 1)


def bytes_of(torch, x):
    """The elements as bytes, with one NaN for all."""
    if x.is_complex() or x.is_floating_point():
        x = torch.view_as_real(x.to(torch.complex128)) if x.is_complex() else x.to(torch.float64)
        values = x.numpy().copy()
        values[numpy.isnan(values)] = numpy.nan
        return values
    return x.numpy()


def digest(torch, source, target):
    """What converting every pattern of a dtype gives."""
    x = patterns(torch, source)
    kept = in_range(torch, x, target)
    return hashlib.sha256(bytes_of(torch, x.to(getattr(torch, target)))[kept].tobytes()).hexdigest()[:16]


def outcome(run):
    """The text of a result or of an error."""
    try:
        return run()
    except Exception as error:  # the class and the words are compared
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"


def text(torch, result):
    if isinstance(result, (tuple, list)):
        return ", ".join(text(torch, one) for one in result)
    if not isinstance(result, torch.Tensor):
        return repr(result)
    wide = result.to(torch.complex128).reshape(-1).tolist()
    return f"{str(result.dtype).split('.')[-1]} {wide}"


UNARY = ("neg abs sgn sqrt exp floor ceil round trunc isnan isinf isfinite bitwise_not "
         "conj_physical any all sum prod amax argmax cumsum sort unique sign tanh nansum "
         "tril cummax").split()
BINARY = ("add sub mul div floor_divide remainder fmod maximum eq ne lt ge bitwise_and bitwise_or bitwise_xor "
          "bitwise_left_shift logical_and gcd dot outer").split()
OTHER = {
    "index": lambda t, x: x[t.tensor([1, 0])],
    "mask": lambda t, x: x[t.tensor([True, False])],
    "index_select": lambda t, x: x.index_select(0, t.tensor([1])),
    "masked_fill": lambda t, x: x.masked_fill(t.tensor([True, False]), 1),
    "where": lambda t, x: t.where(t.tensor([True, False]), x, x),
    "cat": lambda t, x: t.cat([x, x]),
    "stack": lambda t, x: t.stack([x, x]),
    "flip": lambda t, x: x.flip(0),
    "roll": lambda t, x: x.roll(1, 0),
    "embedding": lambda t, x: t.nn.functional.embedding(t.tensor([1]), x.reshape(2, 1)),
    "zeros": lambda t, x: t.zeros(2, dtype=x.dtype),
    "full": lambda t, x: t.full((2,), 2, dtype=x.dtype),
    "arange": lambda t, x: t.arange(3, dtype=x.dtype),
    "item": lambda t, x: x[0].item(),
    "tolist": lambda t, x: x.tolist(),
    "repr": lambda t, x: repr(x).replace("cresset", "torch"),
    "add int64": lambda t, x: x + t.tensor([1, 2]),
    "add float32": lambda t, x: x + t.tensor([1.0, 2.0]),
    "add number": lambda t, x: x + 1,
    "sum as float32": lambda t, x: x.sum(dtype=t.float32),
    "matmul": lambda t, x: x.reshape(1, 2) @ x.reshape(2, 1),
    "result_type": lambda t, x: t.result_type(x, 1.5),
    "requires_grad": lambda t, x: x.clone().requires_grad_().requires_grad,
    "fill": lambda t, x: x.clone().fill_(3),
    "fill large": lambda t, x: x.clone().fill_(70000),
    "view": lambda t, x: x.view(t.uint8).tolist(),
    "type": lambda t, x: x.type(),
    "finfo": lambda t, x: repr(t.finfo(x.dtype)),
    "iinfo": lambda t, x: repr(t.iinfo(x.dtype)),
    "to_complex": lambda t, x: str(x.dtype.to_complex()),
    "signed": lambda t, x: x.is_signed(),
    "as index": lambda t, x: t.arange(4)[x],
}


def operators(torch, name):
    """The outcome of each operator for a dtype."""
    x = torch.tensor([3.7, 2.0]).to(getattr(torch, name))
    runs = {**{n: lambda n=n: getattr(torch, n)(x.reshape(1, 2) if n == "tril" else x,
                                                 *([0] if n in ("cumsum", "cummax") else []))
               for n in UNARY},
            **{n: lambda n=n: getattr(torch, n)(x, x) for n in BINARY},
            **{n: lambda f=f: f(torch, x) for n, f in OTHER.items()}}
    return {n: outcome(lambda: text(torch, run())) for n, run in runs.items()}


def promotions(torch, name):
    """promote_types with every dtype."""
    first = getattr(torch, name)
    return {other: outcome(lambda: str(torch.promote_types(first, getattr(torch, other))))
            for other in OTHERS + STORED}


def results(torch):
    digests = {f"{a} {b}": digest(torch, a, b) for a in OTHERS + STORED for b in OTHERS + STORED
               if a in STORED or b in STORED}
    return {"digests": digests, "operators": {n: operators(torch, n) for n in STORED},
            "promotions": {n: promotions(torch, n) for n in STORED}}


if __name__ == "__main__" and sys.argv[1:2] == ["record"]:
    import importlib
    import warnings
    warnings.simplefilter("ignore")
    with open(sys.argv[3], "w") as file:
        json.dump(results(importlib.import_module(sys.argv[2])), file, indent=0, sort_keys=True)
