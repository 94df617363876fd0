"""Objects to save, and damaged and hostile files made from saved ones.  Files and errors of one
library are recorded and compared with the other's.

`python tests/data/checkpoints/record.py`, with torch instead of this package, writes the
recorded files.
"""
import io
import struct
import warnings
import zipfile
from collections import Counter, OrderedDict

# --- saved objects ---


def objects(t):
    """Returns objects of many kinds: shared and strided views, dtypes, containers."""
    base = t.arange(12.0).reshape(3, 4)
    tied, tagged, noted = t.nn.Parameter(t.arange(3.0)), t.nn.Parameter(t.arange(2.0)), t.ones(2)
    tagged.tag, noted.note = "x", [1]
    tensors = OrderedDict(
        base=base, transposed=base.t(), row=base[1], corner=base[1:, 2:],
        expanded=t.ones(1).expand(5), scalar=t.tensor(3.5, dtype=t.float64), empty=t.zeros(0, 3),
        grad=t.ones(2, requires_grad=True), tied=tied, tied_again=tied, tied_data=tied.detach(),
        tagged=tagged, noted=noted, meta=t.empty(2, 3, device="meta"))
    for name in ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
                 "float64", "complex64", "complex128"):
        tensors[name] = t.tensor([1, 0, 1]).to(getattr(t, name))
    return OrderedDict(
        tensors, size=base.size(), dtype=t.float32, device=t.device("cpu"), layout=t.strided, none=None,
        true=True, int=7, negative=-70000, long=1 << 100, float=2.5, str="h\u00e9llo\ud800",
        bytes=b"\0\xff", bytearray=bytearray(b"ab"), set={1}, complex=1j, counter=Counter("aab"),
        tuple=(1, (2, 3)), list=[1, [2]], dict={"a": {"b": 1}, 3: 4})


def network(t):
    model = t.nn.Sequential(t.nn.Linear(3, 4), t.nn.BatchNorm1d(4), t.nn.ReLU(), t.nn.Linear(4, 2))
    with t.no_grad():
        for i, p in enumerate(model.parameters()):
            p.copy_(((t.arange(float(p.numel())) * 7 + i) % 5 / 4 - 0.5).reshape(p.shape))
    return model


def trainers(t, model):
    """Returns optimizers and schedulers with state, stepped with the same artificial gradients."""
    adam = t.optim.Adam(model.parameters(), lr=0.01, amsgrad=True)
    sgd = t.optim.SGD(model.parameters(), lr=0.125, momentum=0.5)
    schedules = [t.optim.lr_scheduler.StepLR(adam, 2),
                 t.optim.lr_scheduler.CosineAnnealingLR(sgd, 10)]
    return [adam, sgd], schedules


def train(t, model, optimizers, schedules, steps):
    for step in range(steps):
        for p in model.parameters():
            p.grad = t.full_like(p, 0.25 * (step + 1))
        for optimizer in optimizers:
            optimizer.step()
        for schedule in schedules:
            schedule.step()


def training(t):
    """Returns the state of a training program."""
    model = network(t)
    optimizers, schedules = trainers(t, model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        train(t, model, optimizers, schedules, 3)
    return {"model": model.state_dict(), "optimizers": [o.state_dict() for o in optimizers],
            "schedules": [s.state_dict() for s in schedules], "epoch": 3}


def small(t):
    return {"a": t.arange(4.0), "n": [1, 2.5, None]}


FILES = {  # name: (object, arguments of save)
    "objects.pt": (objects, {}),
    "old.pt": (objects, {"_use_new_zipfile_serialization": False}),
    "protocol4.pt": (objects, {"pickle_protocol": 4}),
    "training.pt": (training, {}),
    "module.pt": (network, {}),
    "small.pt": (small, {}),
    "small_old.pt": (small, {"_use_new_zipfile_serialization": False}),
}


def describe(t, x):
    """Returns a value as JSON data."""
    if isinstance(x, t.Tensor):
        facts = [type(x).__name__, str(x.dtype), str(x.device), list(x.shape), list(x.stride()),
                 x.storage_offset(), x.requires_grad, sorted(x.__dict__.items())]
        return facts + ([] if x.is_meta else [x.untyped_storage().nbytes(), repr(x.tolist())])
    if isinstance(x, t.nn.Module):
        return [str(x), describe(t, x.state_dict()), x.training]
    if isinstance(x, dict):
        extra = [list(x._metadata.items())] if hasattr(x, "_metadata") else []
        return [type(x).__name__, [[repr(k), describe(t, v)] for k, v in x.items()], *extra]
    if isinstance(x, (list, tuple)) and type(x) in (list, tuple):
        return [type(x).__name__, [describe(t, v) for v in x]]
    return f"{type(x).__name__} {x!r}"


# --- damaged files ---

def records_of(archive):
    with zipfile.ZipFile(io.BytesIO(archive)) as z:
        return [(i.filename, z.read(i.filename)) for i in z.infolist()]


def archive_of(records, method=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as z:
        for name, data in records:
            z.writestr(name, data)
    return out.getvalue()


def with_record(archive, name, data):
    return archive_of([(k, data if k.split("/", 1)[1] == name else v) for k, v in records_of(archive)])


def long1(n):
    return b"\x8a\x08" + struct.pack("<q", n)


def text(s):
    return b"X" + struct.pack("<I", len(s)) + s


def ints(*values):
    return b"(" + b"".join(map(long1, values)) + b"t"


def tensor_pickle(offset=0, size=(4,), stride=(1,), numel=long1(4), grad=b"\x89", key=b"0",
                  location=b"cpu", kind=b"ctorch\nFloatStorage\n"):
    """Returns {"a": tensor} over a storage of four floats; arguments can make it inconsistent."""
    return (b"\x80\x02}" + text(b"a") + b"ctorch._utils\n_rebuild_tensor_v2\n((" + text(b"storage")
            + kind + text(key) + text(location) + numel + b"tQ" + long1(offset) + ints(*size)
            + ints(*stride) + grad + b"ccollections\nOrderedDict\n)RtRs.")


TENSORS = {
    "ok": {"size": (2, 2), "stride": (1, 2)},
    "offset too large": {"offset": 1},
    "negative offset": {"offset": -1},
    "stride too large": {"stride": (2,)},
    "negative stride": {"stride": (-1,)},
    "negative size": {"size": (-4,)},
    "huge sizes": {"size": (1 << 62, 1 << 62), "stride": (1, 1)},
    "huge stride": {"stride": (1 << 62,)},
    "huge offset": {"offset": 1 << 62},
    "largest offset": {"offset": (1 << 63) - 1},
    "size without stride": {"stride": (1, 1)},
    "empty": {"size": (0,)},
    "empty behind the end": {"offset": 100, "size": (0,)},
    "storage too large": {"numel": long1(5)},
    "huge storage": {"numel": long1(1 << 61)},
    "no such storage": {"key": b"9"},
    "cuda": {"location": b"cuda:0"},
    "unknown place": {"location": b"foo"},
    "meta": {"location": b"meta"},
    "bytes": {"kind": b"ctorch.storage\nUntypedStorage\n", "numel": long1(16), "size": (2,)},
    "not a storage class": {"kind": b"ctorch\nfloat32\n"},
    "other dtype": {"kind": b"ctorch\nLongStorage\n", "numel": long1(2), "size": (2,)},
    "integers with gradient": {"kind": b"ctorch\nLongStorage\n", "numel": long1(2), "size": (2,),
                               "grad": b"\x88"},
}

CODE = {
    "os.system": b"\x80\x02cos\nsystem\n" + text(b"echo") + b"\x85R.",
    "posix.system": b"\x80\x02cposix\nsystem\n" + text(b"echo") + b"\x85R.",
    "eval": b"\x80\x02cbuiltins\neval\n" + text(b"1") + b"\x85R.",
    "eval of Python 2": b"\x80\x02c__builtin__\neval\n" + text(b"1") + b"\x85R.",
    "subprocess": b"\x80\x02csubprocess\nPopen\n.",
    "getattr": b"\x80\x02cbuiltins\ngetattr\n.",
}

PICKLES = {
    "call of a str": b"\x80\x02" + text(b"id") + b")R.",
    "append to a set": b"\x80\x02\x8fK\1a.",
    "item of a list": b"\x80\x02]K\1K\2s.",
    "items of a tuple": b"\x80\x02)(K\1K\2u.",
    "state of a dict": b"\x80\x02}}b.",
    "new OrderedDict": b"\x80\x02ccollections\nOrderedDict\n)\x81.",
    "new of an int": b"\x80\x02K\1)\x81.",
    "unhashable key": b"\x80\x02}]K\2s.",
    "odd items": b"\x80\x02}(K\1u.",
    "pop of nothing": b"\x80\x020.",
    "end of nothing": b"\x80\x02.",
    "memo": b"\x80\x02h\7.",
    "long memo": b"\x80\x02j\7\0\0\0.",
    "memo of nothing": b"\x80\x02q\0.",
    "far memo": b"\x80\x02K\1r\xff\xff\xff\xffj\xff\xff\xff\xff\x86.",
    "tuple of nothing": b"\x80\x02\x85.",
    "tuple without mark": b"\x80\x02t.",
    "id is a str": b"\x80\x02" + text(b"a") + b"Q.",
    "id is an int": b"\x80\x02K\1Q.",
    "id of something else": b"\x80\x02" + text(b"a") + b"\x85Q.",
    "short id": b"\x80\x02" + text(b"storage") + b"\x85Q.",
    "empty id": b"\x80\x02)Q.",
    "no UTF-8": b"\x80\x02X\1\0\0\0\xff.",
    "lone surrogate": b"\x80\x02X\3\0\0\0\xed\xa0\x80.",
    "protocol 3": b"\x80\x03K\1.",
    "protocol 9": b"\x80\x09K\1.",
    "extension": b"\x80\x02\x82\1.",
    "decimal int": b"I1\n.",
    "duplicate": b"\x80\x02K\x012.",
    "state is an int": b"\x80\x02ccollections\nOrderedDict\n)RK\1b.",
    "new Parameter": b"\x80\x02ctorch.nn.parameter\nParameter\n)\x81.",
    "string of Python 2": b"\x80\x02U\1a.",
    "no string of Python 2": b"\x80\x02U\1\xff.",
    "list of itself": b"\x80\x02]q\0h\0a.",
    "layout": b"\x80\x02ctorch.serialization\n_get_layout\n" + text(b"torch.strided") + b"\x85R.",
    "empty Tensor": b"\x80\x02ctorch\nTensor\n)R.",
    "empty FloatTensor": b"\x80\x02ctorch\nFloatTensor\n)R.",
    "tensor of nothing": b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n)R.",
    "tensor of ints": b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(K\1K\1K\1K\1K\1K\1tR.",
    "nothing": b"",
    "protocol only": b"\x80",
    "negative long": b"\x8a\3\xff\xff\xff.",
    "empty long": b"\x8a\0.",
    "float": b"G\x3f\xf8\0\0\0\0\0\0.",
    "endless str": b"X\xff\xff\xff\xffa.",
    "end in a mark": b"(.",
}


def hostile(archive, old):
    """Yields (name, bytes, arguments of load), from small.pt and small_old.pt."""
    for weights_only in (True, False):
        for kind, whole in (("archive", archive), ("old", old)):
            for n in range(len(whole) + 1):
                yield f"{kind} cut {n} {weights_only}", whole[:n], {"weights_only": weights_only}
        for name, data in PICKLES.items():
            yield (f"pickle {name} {weights_only}", with_record(archive, "data.pkl", data),
                   {"weights_only": weights_only})
    for name, data in CODE.items():
        yield f"code {name}", with_record(archive, "data.pkl", data), {}
    for name, lies in TENSORS.items():
        yield f"tensor {name}", with_record(archive, "data.pkl", tensor_pickle(**lies)), {}
    records = records_of(archive)
    for name in ("data.pkl", "data/0", "version", "byteorder", ".format_version", ".storage_alignment",
                 ".data/serialization_id"):
        yield f"without {name}", archive_of([r for r in records if r[0] != "small/" + name]), {}
    for name, data in (("version", b"99"), ("version", b"0"), ("version", b"x"), ("byteorder", b"big"),
                       ("byteorder", b"mid"), ("data/0", bytes(8)), ("data/0", bytes(24))):
        yield f"record {name} {data!r}", with_record(archive, name, data), {}
    yield "TorchScript", archive_of(records + [("small/constants.pkl", b"")]), {}
    yield "no folder", archive_of([("data.pkl", b""), ("version", b"3")]), {}
    yield "no directory", b"PK\3\4" + bytes(100), {}
    yield "plain pickle", b"\x80\x02}.", {}
    yield "text", b"hello\n", {}


def outcome(t, data, arguments):
    """Returns the value as text, or the class and message of the exception."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return repr(t.load(io.BytesIO(data), **arguments))
        except Exception as e:
            return f"{type(e).__module__}.{type(e).__name__}: {e}"
