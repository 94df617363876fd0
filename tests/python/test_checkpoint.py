"""Checkpoints: torch's files are read, the same bytes are written, and files are never trusted."""
import collections
import contextlib
import copy
import fcntl
import io
import json
import os
import pathlib
import pickle
import random
import re
import resource
import subprocess
import sys
import tarfile
import tempfile
import types
import warnings
import zipfile
from collections import OrderedDict, defaultdict, deque

import pytest

import checkpoint_cases as cases
import versions
import cresset as torch
from cresset import nn, serialization
from cresset.serialization import add_safe_globals, clear_safe_globals, safe_globals

DATA = pathlib.Path(__file__).parent.parent / "data" / "checkpoints"
RECORDED = json.loads((DATA / "recorded.json").read_text())


@pytest.fixture(autouse=True)
def nothing_is_allowed():
    clear_safe_globals()
    yield
    clear_safe_globals()


def through(obj, load=None, **arguments):
    """Saves and loads an object."""
    buffer = io.BytesIO()
    torch.save(obj, buffer, **arguments)
    buffer.seek(0)
    return torch.load(buffer, **(load or {}))


def plain(x):
    """Returns the value after a round trip through JSON."""
    return json.loads(json.dumps(x))


# --- torch's files ---

@pytest.mark.parametrize("name", cases.FILES)
def test_torchs_files_are_read(name):
    x = torch.load(DATA / name, weights_only=name in ("objects.pt", "old.pt"))
    assert plain(cases.describe(torch, x)) == RECORDED["contents"][name]


@pytest.mark.parametrize("name", ["objects.pt", "old.pt"])
def test_tensors_that_share_memory_share_it_after_loading(name):
    x = torch.load(DATA / name)
    assert x["tied"] is x["tied_again"]
    x["base"][1, 2] = -1
    assert x["transposed"][2, 1] == x["row"][2] == x["corner"][0, 0] == -1
    with torch.no_grad():
        x["tied"][1] = 9
    assert x["tied_data"][1] == 9 and not x["tied_data"].requires_grad


def same_records(a, b):
    a, b = cases.records_of(a), cases.records_of(b)
    assert [name for name, _ in a] == [name for name, _ in b]
    return [name for (name, x), (_, y) in zip(a, b) if x != y and not name.endswith("/serialization_id")]


@pytest.mark.parametrize("name", [
    pytest.param("objects.pt", marks=pytest.mark.skipif(
        sys.version_info >= (3, 13), reason="CPython 3.13 has one object for equal strings of one character, so that "
                                            "the pickle refers to it")),
    "module.pt", "small.pt"])
def test_save_writes_torchs_bytes(name, tmp_path):
    torch.save(cases.FILES[name][0](torch), tmp_path / name)
    ours, theirs = (tmp_path / name).read_bytes(), (DATA / name).read_bytes()
    assert same_records(ours, theirs) == []
    # Headers, padding and directory are equal up to the archive's id and its checksums.
    number = theirs.index(b"/.data/serialization_id") + 23
    assert ours[:number] == theirs[:number] and len(ours) == len(theirs)


def test_training_continues_from_torchs_checkpoint(tmp_path):
    saved = torch.load(DATA / "training.pt")
    assert isinstance(saved["model"], OrderedDict) and saved["model"]._metadata[""] == {"version": 1}

    def resumed(saved):
        model = cases.network(torch)
        optimizers, schedules = cases.trainers(torch, model)
        model.load_state_dict(saved["model"])
        for part, state in zip(optimizers + schedules, saved["optimizers"] + saved["schedules"]):
            part.load_state_dict(state)
        cases.train(torch, model, optimizers, schedules, 2)
        return {"model": model.state_dict(), "optimizers": [o.state_dict() for o in optimizers],
                "schedules": [s.state_dict() for s in schedules]}

    torch.save(saved, tmp_path / "again.pt")
    first, second = resumed(saved), resumed(torch.load(tmp_path / "again.pt"))
    assert cases.describe(torch, first) == cases.describe(torch, second)
    assert first["optimizers"][0]["state"][0]["step"] == 5 and first["schedules"][0]["last_epoch"] == 5


def test_whole_modules_are_saved_and_loaded():
    model = torch.load(DATA / "module.pt", weights_only=False)
    assert type(model) is nn.Sequential and type(model[1]) is nn.BatchNorm1d
    x = torch.arange(6.0).reshape(2, 3)
    assert torch.equal(model.eval()(x), cases.network(torch).eval()(x))
    for f in (nn.functional.relu, nn.functional.gelu, torch.tanh):
        assert through([f], {"weights_only": False})[0] is f
    layer = nn.TransformerEncoderLayer(8, 2, dim_feedforward=4)
    again = through(layer, {"weights_only": False})
    assert again.activation is layer.activation
    assert cases.describe(torch, again) == cases.describe(torch, layer)


# --- refusals ---

def recorded_outcomes():
    for text, count in RECORDED["runs"]:
        yield from [RECORDED["texts"][text]] * count


def in_our_words(said):
    prefix = "builtins.RuntimeError: [enforce fail at inline_container.cc:"
    return "builtins.RuntimeError: " + said.partition("] . ")[2] if said.startswith(prefix) else said


@contextlib.contextmanager
def little_memory():
    """A hostile pickle asks for 64 GB, which some machines have.  (Sanitizers reserve more than any limit.)"""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as f:
        present = int(f.read().split()[0]) * os.sysconf("SC_PAGESIZE")
    if present < 1 << 40:
        resource.setrlimit(resource.RLIMIT_AS, (present + (16 << 30), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def test_damaged_and_hostile_files_give_torchs_errors():
    with little_memory():
        hostile_files_give_torchs_errors()


def hostile_files_give_torchs_errors():
    archive, old = ((DATA / name).read_bytes() for name in ("small.pt", "small_old.pt"))
    differ, count = {}, 0
    for (name, data, arguments), said in zip(cases.hostile(archive, old), recorded_outcomes(), strict=True):
        ours = cases.outcome(torch, data, arguments)
        count += 1
        if not versions.same_error(ours, in_our_words(said)):
            differ[name] = (ours, said)
    assert differ == {} and count > 4000


def small_with(pickled, weights_only=True):
    data = cases.with_record((DATA / "small.pt").read_bytes(), "data.pkl", pickled)
    return torch.load(io.BytesIO(data), weights_only=weights_only)


def refused(match, pickled, error=pickle.UnpicklingError):
    with pytest.raises(error, match=match):
        small_with(pickled)


@pytest.mark.parametrize("zipped", [True, False])
def test_code_runs_only_with_weights_only_false(tmp_path, zipped):
    class Code:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "ran"),)

    buffer = io.BytesIO()
    torch.save({"a": Code()}, buffer, _use_new_zipfile_serialization=zipped)
    buffer.seek(0)
    with pytest.raises(pickle.UnpicklingError, match="posix"):
        torch.load(buffer)
    add_safe_globals([(os.mkdir, "posix.mkdir")])  # an allowed function, under another name
    buffer.seek(0)
    with pytest.raises(pickle.UnpicklingError, match="whose module posix is blocked"):
        torch.load(buffer)
    assert not (tmp_path / "ran").exists()
    buffer.seek(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.load(buffer, weights_only=False)
    assert (tmp_path / "ran").exists()


class Traced(pickle.Unpickler):
    """An unpickler of a user's pickle module; `made` counts its instances."""
    made = 0

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        Traced.made += 1


@pytest.mark.parametrize("zipped", [True, False])
def test_weights_only_false_unpickles_with_the_pickle_module(zipped):
    module = types.SimpleNamespace(Unpickler=Traced, load=pickle.load, __name__="mine")
    x, storage = torch.arange(6.0), torch.arange(2).untyped_storage()
    saved = {"x": x, "tail": x[2:], "plain": Plain(x), "storage": storage, "p": nn.Parameter(x), "tuple": (1, {2})}
    buffer = io.BytesIO()
    torch.save(saved, buffer, _use_new_zipfile_serialization=zipped)
    before = Traced.made
    buffer.seek(0)
    got = torch.load(buffer, pickle_module=module, weights_only=False)
    assert Traced.made == before + 1
    got["x"][2] = 7
    assert got["tail"][0] == 7 and got["plain"].x[2] == 7 and got["tuple"] == (1, {2})
    assert isinstance(got["p"], nn.Parameter) and got["p"].requires_grad
    assert got["storage"].tolist() == list(storage.tobytes())
    for place in ("meta", torch.device("meta"), {"cpu": "meta"}):
        buffer.seek(0)
        assert torch.load(buffer, place, weights_only=False)["tail"].device.type == "meta"
    buffer.seek(0)
    with pytest.raises(RuntimeError, match="Can not safely load weights when explicit pickle_module is specified"):
        torch.load(buffer, pickle_module=pickle, weights_only=True)


def test_weights_only_false_reads_views_of_storages_and_other_byte_orders():
    for name in sorted(path.name for path in DATA.glob("*.pt")):
        try:
            want = torch.load(DATA / name)
        except (pickle.UnpicklingError, RuntimeError):
            continue
        got = torch.load(DATA / name, weights_only=False)
        assert cases.describe(torch, got) == cases.describe(torch, want), name


def test_devices_are_not_read_to_their_end():
    for weights_only in (True, False):
        with pytest.raises((pickle.UnpicklingError, RuntimeError, EOFError)):
            torch.load("/dev/zero", weights_only=weights_only)
        with pytest.raises(EOFError):
            torch.load("/dev/null", weights_only=weights_only)


def test_save_keeps_the_mode_and_removes_files_of_killed_writers(tmp_path):
    path = tmp_path / "model.pt"
    torch.save([1], path)
    path.chmod(0o640)
    stale, other = tmp_path / "model.pt.123.0.part", tmp_path / "other.pt.123.0.part"
    mine = tmp_path / "model.pt.mine.part"
    for file in (stale, other, mine):
        file.write_bytes(b"x")
    held = tmp_path / "model.pt.124.7.part"  # a writer that lives holds a lock
    with open(held, "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        torch.save([2], path)
        assert held.exists()
    assert torch.load(path) == [2] and path.stat().st_mode & 0o777 == 0o640
    assert not stale.exists() and other.exists() and mine.exists()
    torch.save([3], path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.pt", "model.pt.mine.part", "other.pt.123.0.part"]


def test_names_without_a_counterpart_give_an_error():
    refused("GLOBAL torch.quint8 has no counterpart in Cresset", b"\x80\x02ctorch\nquint8\n.")
    refused("has no counterpart in Cresset", b"\x80\x02ctorch._utils\n_rebuild_qtensor\n.")


def test_allowed_functions_are_called_only_with_safe_arguments():
    big = cases.long1(1 << 50)
    refused("not called with these arguments", b"\x80\x02cbuiltins\nbytearray\n" + big + b"\x85R.")
    refused("not called with these arguments", b"\x80\x02ctorch\nTensor\n" + big + b"\x85R.")
    refused("not called with these arguments", b"\x80\x02ctorch\nTensor\n" + big + b"\x85\x81.")
    refused("not called with these arguments", b"\x80\x02ctorch\nFloatTensor\n" + big + b"\x85R.")
    refused("not called with these arguments", b"\x80\x02c_codecs\nencode\n" + cases.text(b"a")
            + cases.text(b"rot13") + b"\x86R.")
    refused("unrecognized function", b"\x80\x02ctorch.storage\nUntypedStorage\n" + big + b"\x85R.")
    refused("not called with these arguments",  # _rebuild_from_type_v2(set, ...)
            b"\x80\x02ctorch._tensor\n_rebuild_from_type_v2\n(cbuiltins\nset\nctorch\nTensor\n)NtR.")


def test_wrong_sizes_in_a_file_allocate_no_memory():
    before = torch.load(DATA / "small.pt")["a"].untyped_storage().nbytes()
    for numel in (1 << 40, 1 << 61):
        refused("does not match expected size", cases.tensor_pickle(numel=cases.long1(numel)),
                error=RuntimeError)
    assert before == 16


def deep(open_, close, n, first=b""):
    return b"\x80\x02" + open_ * n + first + close * n + b"."


def test_depth_and_repetition_are_bounded():
    assert repr(small_with(b"\x80\x02" + b"]" * 3 + b"aa.")) == "[[[]]]"
    x = small_with(deep(b"]", b"", 8000)[:-1] + b"a" * 7999 + b".")
    depth = 0
    while x:
        x, depth = x[0], depth + 1
    assert depth == 7999
    refused("nested too deeply", deep(b"", b"\x85", 5000, b"N"))
    double = b"q\0h\0\x86"  # the same tuple twice in a tuple: 2**60 items to hash
    refused("holds itself too often", b"\x80\x02)" + double * 60 + b".")
    assert len(small_with(b"\x80\x02]q\0" + b"h\0a" * 1000 + b".")) == 1000
    refused("1879048192", b"\x80\x02" + b"K\1r\xff\xff\xff\x7f" * 1000 + b"j\0\0\0\x70.", error=KeyError)


def test_deflated_records_are_read(tmp_path):
    whole = (DATA / "small.pt").read_bytes()
    packed = cases.archive_of(cases.records_of(whole), zipfile.ZIP_DEFLATED)
    (tmp_path / "packed.pt").write_bytes(packed)
    want = cases.describe(torch, torch.load(io.BytesIO(whole)))
    for given in ({}, {"mmap": True}, {"weights_only": False}):
        assert cases.describe(torch, torch.load(tmp_path / "packed.pt", **given)) == want
    with pytest.raises(RuntimeError, match="unsupported method"):
        torch.load(io.BytesIO(cases.archive_of(cases.records_of(whole), zipfile.ZIP_BZIP2)))
    for at in range(0, len(packed), 7):  # a damaged file is refused, or the damage is not read
        damaged = bytearray(packed)
        damaged[at] ^= 0x55
        try:
            torch.load(io.BytesIO(bytes(damaged)))
        except (RuntimeError, ValueError, pickle.UnpicklingError, EOFError, AssertionError, KeyError, IndexError):
            pass


def test_deflated_records_that_are_not_needed_are_not_unpacked():
    whole = dict(cases.records_of((DATA / "small.pt").read_bytes()))
    name = next(n for n in whole if n.endswith("data.pkl"))
    extra = {**whole, name.replace("data.pkl", "unread"): bytes(100000)}
    packed = bytearray(cases.archive_of(extra.items(), zipfile.ZIP_DEFLATED))
    at = zipfile.ZipFile(io.BytesIO(bytes(packed))).getinfo(name.replace("data.pkl", "unread")).header_offset
    packed[at + 30 + len(name.replace("data.pkl", "unread")) + 4] ^= 0xff
    assert cases.describe(torch, torch.load(io.BytesIO(bytes(packed)))) == cases.describe(
        torch, torch.load(io.BytesIO((DATA / "small.pt").read_bytes())))
    longer = {n: data + bytes(1 << 20) if n.endswith("data/0") else data for n, data in whole.items()}
    with pytest.raises(RuntimeError, match="does not match expected size"):
        torch.load(io.BytesIO(cases.archive_of(longer.items(), zipfile.ZIP_DEFLATED)))


def test_overlapping_records_are_refused():
    whole = (DATA / "small.pt").read_bytes()
    # Two directory entries with the same bytes.
    entry = whole.index(b"PK\1\2", whole.index(b"PK\1\2") + 1)
    first = whole.index(b"PK\1\2")
    end = whole.index(b"PK\6\6")
    size, count = end - first, 7
    doubled = bytearray(whole[:end] + whole[first:entry] + whole[end:])
    shift = entry - first
    for at, width, value in ((end + shift + 24, 8, count + 1), (end + shift + 32, 8, count + 1),
                             (end + shift + 40, 8, size + shift)):
        doubled[at:at + width] = value.to_bytes(width, "little")
    locator = bytes(doubled).index(b"PK\6\7")
    doubled[locator + 8:locator + 16] = (end + shift).to_bytes(8, "little")
    with pytest.raises(RuntimeError, match="invalid header or archive is corrupted"):
        torch.load(io.BytesIO(bytes(doubled)))


def test_a_wrong_checksum_is_an_error_and_a_missing_one_is_not():
    whole = bytearray((DATA / "small.pt").read_bytes())
    at = bytes(whole).index(b"\x80\x3f")  # in data/0
    whole[at] ^= 1
    with pytest.raises(RuntimeError, match="failed reading file data/0: CRC-32 check failed. This is an "):
        torch.load(io.BytesIO(bytes(whole)))
    serialization.set_crc32_options(False)
    try:
        assert torch.equal(through({"a": torch.arange(4.0)})["a"], torch.arange(4.0))
    finally:
        serialization.set_crc32_options(True)
    assert serialization.get_crc32_options()


REFUSALS = {"builtins.RuntimeError", "_pickle.UnpicklingError", "builtins.UnicodeDecodeError", "builtins.AssertionError",
            "builtins.EOFError", "builtins.KeyError", "builtins.IndexError", "builtins.ValueError", "builtins.AttributeError",
            "builtins.TypeError"}


def test_random_damage_is_refused_or_read():
    draw = random.Random(0)
    seen = collections.Counter()
    for name in ("objects.pt", "old.pt", "module.pt", "protocol4.pt"):
        whole = (DATA / name).read_bytes()
        for _ in range(1500):
            data = bytearray(whole)
            for _ in range(draw.randint(1, 4)):
                data[draw.randrange(len(data))] = draw.randrange(256)
            said = cases.outcome(torch, bytes(data), {})
            error = re.match(r"([\w.]+): ", said)
            seen[error[1] if error else "read"] += 1
    assert 100 < seen.pop("read") < 5900
    assert set(seen) <= REFUSALS


FRAGMENTS = [b"(", b"(", b"(", b"t", b"e", b"u", b"s", b"a", b"R", b"R", b"b", b"b", b"\x81", b"\x81", b"\x85", b"\x86",
             b"\x87", b"N", b"\x88", b"]", b"}", b")", b")", b"\x8f", b"K\1", b"K\2", b"J\xff\xff\xff\xff", b"q\0", b"h\0",
             b"q\1", b"h\1", b"G?\xf8\0\0\0\0\0\0", cases.long1(1 << 62), cases.text(b"a"), cases.text(b"latin1"),
             b"ctorch\nfloat32\n", b"ctorch\nSize\n", b"ctorch\ndevice\n", b"ctorch\nTensor\n", b"ctorch\nFloatTensor\n",
             b"ctorch\nFloatStorage\n", b"ctorch.nn.parameter\nParameter\n", b"ccollections\nOrderedDict\n",
             b"ccollections\nCounter\n", b"cbuiltins\nset\n", b"cbuiltins\nbytearray\n", b"cbuiltins\ncomplex\n",
             b"c_codecs\nencode\n", b"ctorch._utils\n_rebuild_tensor_v2\n", b"ctorch._utils\n_rebuild_tensor_v3\n",
             b"ctorch._utils\n_rebuild_parameter\n", b"ctorch._utils\n_rebuild_parameter_with_state\n",
             b"ctorch._tensor\n_rebuild_from_type_v2\n", b"ctorch._utils\n_rebuild_meta_tensor_no_storage\n",
             b"c__user__\nPlain\n", b"c__user__\nSub\n", b"(" + cases.text(b"storage") + b"ctorch\nFloatStorage\n"
             + cases.text(b"0") + cases.text(b"cpu") + b"K\4tQ", cases.tensor_pickle()[2:-1],
             cases.tensor_pickle()[2 + 1 + 6:-2]]
MORE = [b"0", b"1", b"2", b"l", b"d", b"o", b"\x90", b"\x91", b"\x92", b"\x94", b"ccollections\ndeque\n", b"cbuiltins\nint\n",
        b"ccollections\ndefaultdict\n", b"cbuiltins\nslice\n", b"cbuiltins\nrange\n", b"cbuiltins\nfrozenset\n",
        b"ccopyreg\n_reconstructor\n", b"cbuiltins\nobject\n", b"ccopyreg\n__newobj__\n", b"cbuiltins\ntuple\n",
        b"ctorch.nn.modules.linear\nLinear\n", b"ctorch.nn.modules.container\nSequential\n", b"ctorch.optim.sgd\nSGD\n",
        b"ctorch.nn.functional\nrelu\n", b"ctorch\nstrided\n", b"ctorch\ncontiguous_format\n"]


def test_random_instructions_are_refused_or_run():
    archive, draw, fine = (DATA / "small.pt").read_bytes(), random.Random(1), 0
    add_safe_globals([(Plain, "__user__.Plain"), (Sub, "__user__.Sub")])
    for _ in range(4000):
        weights_only = draw.random() < 0.5
        pool = FRAGMENTS if weights_only else FRAGMENTS + MORE
        pieces = draw.choices(pool, k=draw.randint(1, 14))
        data = cases.with_record(archive, "data.pkl", b"\x80\x02" + b"".join(pieces) + b".")
        said = cases.outcome(torch, data, {"weights_only": weights_only})
        assert "SystemError" not in said and "MemoryError" not in said, pieces
        fine += ": " not in said
    assert fine > 100


# --- allowed names ---

class Plain:
    def __init__(self, x):
        self.x = x


class Slots:
    __slots__ = ("a", "b")


class State:
    def __getstate__(self):
        return {"kept": self.kept}

    def __setstate__(self, state):
        self.kept = state["kept"] + 1


class TupleState:
    def __getstate__(self):
        return self.kept, 2, 3

    def __setstate__(self, state):
        self.kept = state


class Sub(torch.Tensor):
    pass


def make_pair(a, b):
    return [a, b]


class Reduced:
    def __reduce__(self):
        return make_pair, (1, torch.ones(1))


def test_allowed_classes_are_loaded_and_others_named_in_the_error():
    slots, state, tuples = Slots(), State(), TupleState()
    slots.a, slots.b, state.kept, tuples.kept = 1, torch.ones(2), 1, 1
    everything = [Plain(torch.ones(2)), slots, state, Reduced(), tuples]
    for obj in everything:
        with pytest.raises(pickle.UnpicklingError, match=f"GLOBAL {__name__}.* was not an allowed global"):
            through(obj)
    for weights_only in (True, False):
        with safe_globals([Plain, Slots, State, TupleState, make_pair]):
            a, b, c, d, e = (through(x, {"weights_only": weights_only}) for x in everything)
        assert torch.equal(a.x, torch.ones(2)) and (b.a, c.kept, d[0], e.kept) == (1, 2, 1, (1, 2, 3))
    assert serialization.get_safe_globals() == []
    add_safe_globals([Plain, (Slots, "somewhere.Else")])
    assert sorted(map(str, serialization.get_safe_globals())) == sorted(
        map(str, [Plain, (Slots, "somewhere.Else")]))
    assert type(through(Plain(1))) is Plain
    for wrong, error in (((Plain, "a", 1), ValueError), ((Plain, 1), TypeError)):
        clear_safe_globals()
        add_safe_globals([wrong])
        with pytest.raises(error):
            through(1)


def test_subclasses_of_tensor_and_attributes():
    x = torch.ones(2).as_subclass(Sub)
    x.note = "n"
    with pytest.raises(pickle.UnpicklingError, match="Sub"):
        through(x)
    with safe_globals([Sub]):
        y = through(x)
    assert type(y) is Sub and y.note == "n" and torch.equal(y, x)


def test_numbers_and_arrays_of_numpy_when_they_are_allowed():
    numpy = pytest.importorskip("numpy")
    x = {"best": numpy.float64(1.5), "array": numpy.arange(3.0)}
    reconstruct = numpy.arange(1).__reduce__()[0]
    scalar = numpy.float64(1).__reduce__()[0]
    with pytest.raises(pickle.UnpicklingError, match="GLOBAL numpy"):
        through(x)
    with safe_globals([scalar, reconstruct, numpy.ndarray, numpy.dtype, type(numpy.dtype("float64"))]):
        y = through(x)
    assert y["best"] == 1.5 and y["array"].tolist() == [0, 1, 2]


def test_names_of_a_checkpoint_that_are_not_allowed(tmp_path):
    torch.save([Plain(1), Reduced(), OrderedDict(a=torch.ones(1))], tmp_path / "x.pt")
    names = {f"{__name__}.Plain", f"{__name__}.make_pair"}
    assert set(serialization.get_unsafe_globals_in_checkpoint(tmp_path / "x.pt")) == names
    add_safe_globals([Plain])
    assert serialization.get_unsafe_globals_in_checkpoint(tmp_path / "x.pt") == [f"{__name__}.make_pair"]
    bad = cases.with_record((DATA / "small.pt").read_bytes(), "data.pkl", cases.CODE["os.system"])
    assert serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(bad)) == ["os.system"]
    with pytest.raises(ValueError, match="Expected input to be a checkpoint returned by torch.save"):
        serialization.get_unsafe_globals_in_checkpoint(DATA / "small_old.pt")


def test_more_containers_with_weights_only_false():
    x = [defaultdict(list, {1: [2]}), deque([1, (2, 3)], 5), frozenset([1]), slice(1, 2), range(3), {1, 2}, int]
    y = through(x, {"weights_only": False})
    assert y == x and y[0].default_factory is list and y[1].maxlen == 5
    assert through(x, {"weights_only": False}, pickle_protocol=0) == x
    for protocol in range(1, 6):
        z = through({"x": x, "b": b"1", "t": torch.ones(2)}, {"weights_only": False}, pickle_protocol=protocol)
        assert z["x"] == x and z["b"] == b"1" and torch.equal(z["t"], torch.ones(2))


def test_names_of_this_package_are_torchs_in_any_protocol():
    for protocol in range(1, 6):
        buffer = io.BytesIO()
        torch.save({"m": nn.Linear(1, 1), "cresset.nn": "cresset", "again": "cresset.nn.modules.linear"}, buffer,
                   pickle_protocol=protocol)
        data = dict(cases.records_of(buffer.getvalue()))["archive/data.pkl"]
        assert b"torch.nn.modules.linear" in data and data.count(b"cresset._utils") <= (protocol > 3)
        x = torch.load(io.BytesIO(buffer.getvalue()), weights_only=False)
        assert x["cresset.nn"] == "cresset" and x["again"] == "cresset.nn.modules.linear"


# --- arguments of load ---

def test_map_location():
    x = {"a": torch.arange(4.0), "b": torch.arange(4.0)[1:]}
    for where in ("cpu", torch.device("cpu"), {"cpu": "cpu"}, lambda storage, location: storage,
                  lambda storage, location: None):
        assert torch.equal(through(x, {"map_location": where})["b"], x["b"])
    for where in ("meta", torch.device("meta"), {"cpu": "meta"}):
        y = through(x, {"map_location": where})
        assert y["a"].is_meta and y["b"].shape == (3,)
    seen = []
    shared = [x["a"], x["a"][2:]]
    through(shared, {"map_location": lambda s, where: seen.append((type(s), s.nbytes(), where)) or s})
    assert seen == [(torch.UntypedStorage, 16, "cpu")]

    def doubled(storage, location):
        return torch.arange(storage.nbytes() // 4, dtype=torch.float32).mul(2).untyped_storage()
    assert through(x, {"map_location": doubled})["a"].tolist() == [0, 2, 4, 6]
    with pytest.raises(TypeError, match="map_location must give a storage"):
        through(x, {"map_location": lambda storage, where: NotAStorage})
    far = cases.with_record((DATA / "small.pt").read_bytes(), "data.pkl", cases.tensor_pickle(location=b"cuda:0"))
    with pytest.raises(RuntimeError, match="Attempting to deserialize object on a CUDA device but "):
        torch.load(io.BytesIO(far))
    for where in ("cpu", {"cuda:0": "cpu"}):
        assert torch.load(io.BytesIO(far), map_location=where)["a"].tolist() == [0, 1, 2, 3]


class NotAStorage:
    _untyped_storage = 1


def test_conflicting_arguments(tmp_path):
    data = (DATA / "small.pt").read_bytes()
    with pytest.raises(RuntimeError, match="Can not safely load weights when explicit pickle_module"):
        torch.load(io.BytesIO(data), pickle_module=pickle, weights_only=True)
    assert torch.load(io.BytesIO(data), pickle_module=pickle)["n"] == [1, 2.5, None]
    with pytest.raises(AttributeError, match="module 'json' has no attribute 'Unpickler'"):
        torch.load(io.BytesIO(data), pickle_module=json)
    with pytest.warns(UserWarning, match="pickle_load_args only works if `weights_only=False`."):
        torch.load(io.BytesIO(data), encoding="latin1")
    with pytest.raises(ValueError, match="f must be a file path in order to use the mmap argument"):
        torch.load(io.BytesIO(data), mmap=True)
    with pytest.raises(RuntimeError, match="mmap can only be used with files saved with"):
        torch.load(DATA / "small_old.pt", mmap=True)
    with pytest.raises(FileNotFoundError, match="No such file or directory: 'none.pt'"):
        torch.load("none.pt")
    with pytest.raises(AttributeError, match="'int' object has no attribute 'seek'. You can only torch.load"):
        torch.load(3)
    with pytest.raises(AttributeError, match="expected 'f' to be string, path, or a file-like object"):
        torch.save(1, 3)
    with pytest.raises(RuntimeError, match="Parent directory .*none does not exist."):
        torch.save(1, tmp_path / "none" / "x.pt")
    with pytest.raises(RuntimeError, match="view the same data as different types"):
        x = torch.ones(2)
        torch.save([x, x.view(torch.int32)], io.BytesIO())


def test_the_environment_can_force_weights_only(monkeypatch):
    data = (DATA / "module.pt").read_bytes()
    monkeypatch.setenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "1")
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        torch.load(io.BytesIO(data), weights_only=False)
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    with pytest.raises(RuntimeError, match="but both were set"):
        torch.load(io.BytesIO(data))
    monkeypatch.delenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD")
    with pytest.warns(UserWarning, match="forcing weights_only=False"):
        assert isinstance(torch.load(io.BytesIO(data)), nn.Sequential)


def test_strings_of_python_2():
    assert small_with(b"\x80\x02U\1a.", False) == "a"
    data = cases.with_record((DATA / "small.pt").read_bytes(), "data.pkl", b"\x80\x02U\1\xe9.")
    assert torch.load(io.BytesIO(data), weights_only=False, encoding="latin1") == "\u00e9"
    assert torch.load(io.BytesIO(data), weights_only=False, encoding="bytes") == b"\xe9"


def test_the_other_byte_order():
    values = {name: torch.tensor([1, 0, 3]).to(getattr(torch, name))
              for name in ("uint8", "int16", "float32", "float64", "bfloat16", "complex64", "complex128")}
    buffer = io.BytesIO()
    torch.save(values, buffer)
    records = dict(cases.records_of(buffer.getvalue()))
    for i, v in enumerate(values.values()):
        width = v.element_size() // (2 if v.is_complex() else 1)
        data = records[f"archive/data/{i}"]
        records[f"archive/data/{i}"] = b"".join(data[k:k + width][::-1] for k in range(0, len(data), width))
    records["archive/byteorder"] = b"big"
    for marked in (True, False):
        if not marked:
            del records["archive/byteorder"]
            serialization.set_default_load_endianness(serialization.LoadEndianness.BIG)
        try:
            x = torch.load(io.BytesIO(cases.archive_of(records.items())))
        finally:
            serialization.set_default_load_endianness(None)
        assert all(torch.equal(x[k], v) and x[k].dtype == v.dtype for k, v in values.items())


# --- files ---

def test_mapped_tensors_share_the_file_until_they_are_written_to(tmp_path):
    path = tmp_path / "x.pt"
    torch.save({"a": torch.arange(1000.0), "b": torch.arange(3)}, path)
    before = path.read_bytes()
    x = torch.load(path, mmap=True)
    assert x["a"][999] == 999 and x["b"].tolist() == [0, 1, 2]
    x["a"].zero_()
    assert path.read_bytes() == before and torch.load(path)["a"][999] == 999
    torch.save(x, path)  # the tensors keep the old file alive
    assert torch.load(path)["a"].sum() == 0 and x["b"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("new", [True, False])
def test_files_of_all_kinds(new, tmp_path):
    x = {"a": torch.arange(100000.0)}
    for name in ("x.pt", "\u00e9.pt", "noextension", "a.b.c.pt"):
        torch.save(x, tmp_path / name, _use_new_zipfile_serialization=new)
        assert torch.equal(torch.load(str(tmp_path / name))["a"], x["a"])
    assert sorted(os.listdir(tmp_path)) == ["a.b.c.pt", "noextension", "x.pt", "\u00e9.pt"]
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"before")
        torch.save(x, file, _use_new_zipfile_serialization=new)
        file.seek(6)
        assert torch.equal(torch.load(file)["a"], x["a"])


def test_save_follows_links_and_writes_to_devices(tmp_path):
    torch.save(1, tmp_path / "x.pt")
    (tmp_path / "link.pt").symlink_to("x.pt")
    torch.save(2, tmp_path / "link.pt")
    assert (tmp_path / "link.pt").is_symlink() and torch.load(tmp_path / "x.pt") == 2
    os.mkfifo(tmp_path / "pipe")
    reader = subprocess.Popen(["cat", tmp_path / "pipe"], stdout=subprocess.PIPE)
    torch.save(3, tmp_path / "pipe")
    assert torch.load(io.BytesIO(reader.communicate()[0])) == 3 and (tmp_path / "pipe").is_fifo()
    with pytest.raises(OSError, match="not a regular file"):
        torch.safetensors.save_file({}, tmp_path / "pipe")


@pytest.mark.parametrize("module", ["gzip", "bz2", "lzma"])
def test_files_that_unpack(module, tmp_path):
    opener = pytest.importorskip(module).open
    with opener(tmp_path / "x", "wb") as file:
        torch.save({"a": torch.arange(3)}, file)
    with opener(tmp_path / "x") as file:
        assert torch.load(file)["a"].tolist() == [0, 1, 2]


def test_old_checkpoints_follow_one_another_in_a_file(tmp_path):
    for file in (io.BytesIO(), open(tmp_path / "x", "w+b")):
        with file:
            for i in range(3):
                torch.save(torch.full((3,), i), file, _use_new_zipfile_serialization=False)
            file.seek(0)
            assert [torch.load(file).tolist() for _ in range(3)] == [[0] * 3, [1] * 3, [2] * 3]


def test_a_file_is_complete_or_absent(tmp_path):
    class Bad:
        def __reduce__(self):
            raise ValueError("no")

    path = tmp_path / "x.pt"
    torch.save(1, path)
    with pytest.raises(ValueError, match="no"):
        torch.save([torch.ones(1000), Bad()], path)
    assert torch.load(path) == 1 and os.listdir(tmp_path) == ["x.pt"]

    class Full:
        def write(self, data):
            raise OSError("full")

    with pytest.raises(OSError, match="full"):
        torch.save(1, Full())


def test_safetensors_files_are_recognized_by_name_or_content(tmp_path):
    from cresset.safetensors import save_file
    x = {"a": torch.arange(3.0)}
    torch.save(x, tmp_path / "x.safetensors")
    assert (tmp_path / "x.safetensors").read_bytes()[8:9] == b"{"
    save_file(x, tmp_path / "x.pt")  # as save() wrote it earlier
    for name in ("x.safetensors", "x.pt"):
        assert torch.equal(torch.load(tmp_path / name)["a"], x["a"])
    assert torch.equal(torch.load(io.BytesIO((tmp_path / "x.pt").read_bytes()))["a"], x["a"])
    with pytest.raises(RuntimeError, match="dict map_location is not supported"):
        torch.load(tmp_path / "x.safetensors", map_location={})
    with pytest.raises(TypeError, match="not list"):
        torch.save([1], tmp_path / "y.safetensors")


def test_the_oldest_format_is_refused(tmp_path):
    with tarfile.open(tmp_path / "x.tar", "w") as tar:
        tar.add(DATA / "small.pt", "storages")
    with pytest.raises(RuntimeError, match="Cannot use ``weights_only=True`` with files saved in the legacy .tar"):
        torch.load(tmp_path / "x.tar")
    with pytest.raises(RuntimeError, match="not read"):
        torch.load(tmp_path / "x.tar", weights_only=False)


def test_old_storages_that_are_parts_of_others():
    def old(view):
        pid = (b"((" + cases.text(b"storage") + b"ctorch\nFloatStorage\n" + cases.text(b"7") + cases.text(b"cpu")
               + b"K\4" + view + b"tQ")
        body = b"\x80\x02ctorch._utils\n_rebuild_tensor\n" + pid + b"K\0" + cases.ints(2) + cases.ints(1) + b"tR."
        whole = (DATA / "small_old.pt").read_bytes()
        start = whole.index(b"\x80\x02}", whole.index(b"longq"))
        data = torch.arange(4.0).untyped_storage().tobytes()
        return whole[:start] + body + b"\x80\x02](" + cases.text(b"7") + b"e." + (4).to_bytes(8, "little") + data

    assert torch.load(io.BytesIO(old(b"N"))).tolist() == [0, 1]
    part = cases.text(b"8") + b"K\1K\3\x87"
    assert torch.load(io.BytesIO(old(part))).tolist() == [1, 2]
    with pytest.raises(pickle.UnpicklingError, match="the view of a storage is not inside it"):
        torch.load(io.BytesIO(old(cases.text(b"8") + b"K\2K\3\x87")))


# --- pickle and copy ---

def test_pickle_and_deepcopy_keep_shared_storages():
    base = torch.arange(6.0).reshape(2, 3)
    shared = nn.Parameter(torch.ones(3))
    x = {"base": base, "t": base.t(), "part": base[1, 1:], "p": shared, "again": shared, "q": nn.Parameter(shared)}
    for again in (pickle.loads(pickle.dumps(x, 2)), pickle.loads(pickle.dumps(x)), copy.deepcopy(x), through(x)):
        assert again["p"] is again["again"] and isinstance(again["p"], nn.Parameter)
        again["base"][1, 2] = 9
        assert again["t"][2, 1] == again["part"][1] == 9 and again["t"].stride() == (1, 3)
        assert base[1, 2] == 5
    for again in (pickle.loads(pickle.dumps(x)), through(x)):
        with torch.no_grad():
            again["p"][0] = 7
        assert again["q"][0] == 7


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_small_objects_are_pickled_by_name(protocol):
    for x in (torch.float32, torch.bool, torch.strided, torch.channels_last, torch.device("cpu"), torch.Size([1, 2])):
        again = pickle.loads(pickle.dumps(x, protocol))
        assert again == x and type(again) is type(x)
    storage = torch.arange(3.0).storage()
    again = pickle.loads(pickle.dumps(storage, protocol))
    assert again.tolist() == [0, 1, 2] and again.dtype == torch.float32


def test_modules_and_optimizers_are_pickled_and_copied():
    model = cases.network(torch)
    optimizers, schedules = cases.trainers(torch, model)
    cases.train(torch, model, optimizers, schedules, 2)
    for again in (pickle.loads(pickle.dumps([model, optimizers])), copy.deepcopy([model, optimizers]),
                  through([model, optimizers], {"weights_only": False})):
        assert cases.describe(torch, again[0]) == cases.describe(torch, model)
        assert again[1][0].param_groups[0]["params"][0] is again[0][0].weight
        assert again[1][0].state_dict()["state"][0]["step"] == 2


def test_storages_have_a_class_for_each_dtype():
    x = torch.FloatStorage([1, 2])
    assert isinstance(x, torch.FloatStorage) and not isinstance(x, torch.LongStorage)
    assert x.tolist() == [1, 2] and torch.BoolStorage(3).nbytes() == 3
    assert isinstance(torch.ones(2).storage(), torch.FloatStorage)
    assert torch.UntypedStorage.__module__ == "cresset.storage"
    y = through([torch.ones(2).untyped_storage(), x])
    assert y[0].dtype == torch.uint8 and y[0].nbytes() == 8 and y[1].tolist() == [1, 2]


def test_set_refuses_sizes_outside_the_storage():
    x = torch.arange(4.0)
    for args, text in (((-1, (1,), (1,)), "invalid storage offset -1"),
                       ((0, (4,), (1 << 62,)), r"overflowed with sizes=\[4\] and strides=\[4611686018427387904\]"),
                       ((0, (-4,), (1,)), "numel: integer multiplication overflow"),
                       ((0, (4,), (1, 1)), r"unequal size length \(1\) and stride length \(2\)")):
        with pytest.raises(RuntimeError, match=text):
            torch.empty(0).set_(x.untyped_storage(), *args)


def test_importing_the_package_imports_no_pickle():
    code = "import sys, cresset; sys.exit('pickle' in sys.modules or 'zipfile' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
