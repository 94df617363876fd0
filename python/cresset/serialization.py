"""save and load: checkpoints in torch's format.

The pickle of a checkpoint is read in C (src/io/pickle.c) and checked as a whole before objects
are made.  It may contain tensors, containers, numbers, and objects allowed by add_safe_globals();
only allowed functions are called.  With weights_only=False a pickle module reads the file, which
can run any code (_unpickling.py).
"""
import io
import os
import pickle
import re
import stat
import sys
import warnings
from enum import Enum
from tempfile import mkdtemp
from typing import Callable, Union

from . import _C
from ._C import device
from ._utils import torch_name
from .storage import TypedStorage, UntypedStorage

__all__ = [
    "location_tag", "default_restore_location", "normalize_storage_type",
    "storage_to_tensor_type", "register_package", "validate_cuda_device", "save", "load",
    "StorageType", "LoadEndianness", "get_crc32_options", "set_crc32_options",
    "get_default_load_endianness", "set_default_load_endianness", "clear_safe_globals",
    "get_safe_globals", "add_safe_globals", "safe_globals", "get_unsafe_globals_in_checkpoint",
    "get_default_mmap_options", "set_default_mmap_options", "skip_data", "SourceChangeWarning",
    "check_module_version_greater_or_equal", "validate_hpu_device"]

# For annotations.
MAP_LOCATION = Union[Callable, device, str, dict, None]
STORAGE = Union[TypedStorage, UntypedStorage]

DEFAULT_PROTOCOL = 2
MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
PROTOCOL_VERSION = 1001

UNSAFE_MESSAGE = (
    "In PyTorch 2.6, we changed the default value of the `weights_only` argument in `torch.load` "
    "from `False` to `True`. Re-running `torch.load` with `weights_only` set to `False` will likely "
    "succeed, but it can result in arbitrary code execution. Do it only if you got the file from a "
    "trusted source.")
DOCS_MESSAGE = (
    "\n\nCheck the documentation of torch.load to learn more about types accepted by default with "
    "weights_only https://pytorch.org/docs/stable/generated/torch.load.html.")


# --- options ---

class LoadEndianness(Enum):
    NATIVE = 1
    LITTLE = 2
    BIG = 3


_options = {"crc32": True, "endianness": None}


def get_crc32_options():
    """Returns whether save() computes the checksums of an archive's records."""
    return _options["crc32"]


def set_crc32_options(compute_crc32):
    """Sets whether save() computes checksums.  load() does not need them, unzip does."""
    _options["crc32"] = bool(compute_crc32)


class SourceChangeWarning(Warning):
    """A class whose source changed since it was saved; sources are not saved."""


_mmap_options = 2


def get_default_mmap_options():
    """The flags of maps of files that load(mmap=True) makes: private (2)."""
    return _mmap_options


class set_default_mmap_options:
    """Sets the flags of maps of files, private (2) or shared (1); as a context manager until its end."""

    def __init__(self, flags):
        global _mmap_options
        if flags not in (1, 2):
            raise ValueError("Invalid argument in function set_default_mmap_options, expected mmap.MAP_PRIVATE or "
                             f"mmap.MAP_SHARED, but got {flags}")
        self.prev, _mmap_options = _mmap_options, flags

    def __enter__(self):
        return None

    def __exit__(self, *exception):
        global _mmap_options
        _mmap_options = self.prev


def validate_hpu_device(location):
    """The index of a device such as "hpu:1", which a module torch.hpu must serve."""
    import cresset
    index, module = device(location).index or 0, getattr(cresset, "hpu", None)
    advice = "If you are running on a CPU-only machine, please use torch.load with map_location=torch.device('cpu') to map your storages to the CPU."
    if module is None:
        raise RuntimeError(f"The HPU device module is not registered. {advice}")
    if not module.is_available() or index >= module.device_count():
        raise RuntimeError(f"Attempting to deserialize object on HPU device {index} but torch.hpu.device_count() is "
                           f"{module.device_count()}. {advice}")
    return index


_skip = None  # the skip_data context that is entered


class skip_data:
    """Inside, save() leaves space for the elements, zeros, and does not read them: they may be written to the file
    later.  load() reads what the file has."""

    def __init__(self, materialize_fake_tensors=False):
        self.materialize_fake_tensors = materialize_fake_tensors

    def __enter__(self):
        global _skip
        self._before, _skip = _skip, self

    def __exit__(self, *exception):
        global _skip
        _skip = self._before


def check_module_version_greater_or_equal(module, req_version_tuple, error_if_malformed=True):
    """Whether a module's __version__ is at least this one."""
    try:
        found = tuple(map(type(req_version_tuple[0]), module.__version__.split(".")[:len(req_version_tuple)]))
        return found >= tuple(req_version_tuple)
    except Exception as error:
        message = f"'{module.__name__}' module version string is malformed '{module.__version__}' and cannot be compared with tuple {req_version_tuple}"
        if error_if_malformed:
            raise RuntimeError(message) from error
        import warnings
        warnings.warn(message + ", but continuing assuming that requirement is met", stacklevel=2)
        return True


def get_default_load_endianness():
    """Returns the byte order of archives that do not state it; None means little."""
    return _options["endianness"]


def set_default_load_endianness(endianness):
    """Sets the byte order of archives that do not state it."""
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    _options["endianness"] = endianness


# --- allowed names ---

_safe = set()


def add_safe_globals(safe_globals):
    """Allows classes and functions, or (object, "full.name") pairs, in checkpoints."""
    _safe.update(safe_globals)


def get_safe_globals():
    """Returns the objects that add_safe_globals() allowed."""
    return list(_safe)


def clear_safe_globals():
    """Removes the objects that add_safe_globals() allowed."""
    _safe.clear()


class safe_globals:
    """`with safe_globals([MyClass]):` allows classes and functions temporarily."""

    def __init__(self, safe_globals):
        self.safe_globals = safe_globals

    def __enter__(self):
        add_safe_globals(self.safe_globals)

    def __exit__(self, kind, value, traceback):
        _safe.difference_update(self.safe_globals)


def _allowed_names():
    """Returns the user's allowed objects by their names in checkpoints."""
    names = {}
    for item in _safe:
        if not isinstance(item, tuple):
            names[torch_name(f"{item.__module__}.{item.__qualname__}")] = item
            continue
        if len(item) != 2:
            raise ValueError("Expected tuple of length 2 (global, str of callable full path), but "
                             f"got tuple of length: {len(item)}")
        if type(item[1]) is not str:
            raise TypeError("Expected second item in tuple to be str of callable full path, but "
                            f"got: {type(item[1])}")
        names[torch_name(item[1])] = item[0]
    return names


_CALLED = 2  # the permitted use of a name (checkpoint.c): it may be called


def _finder(allowed):
    def find(module, name):
        found = allowed.get(f"{module}.{name}")
        return None if found is None else (found, _CALLED)

    return find


def get_unsafe_globals_in_checkpoint(f):
    """Returns the names in a checkpoint that weights_only=True does not allow."""
    with _opened(f) as (file, start, _):
        names = _C._checkpoint_names(file, start)
    return list(names - _allowed_names().keys())


def _get_layout(name):
    return getattr(_C, name.removeprefix("torch."))




# --- locations of storages ---

_packages = []


def register_package(priority, tagger, deserializer):
    """Adds a pair of functions: storage to location, and (storage, location) to storage."""
    _packages.append((priority, tagger, deserializer))
    _packages.sort(key=lambda package: package[0])


def _cuda_restore(storage, location):
    if re.match("cuda($|:|[0-9])", location):
        device = validate_cuda_device(location)
        return storage.to(device=f"cuda:{device or 0}")
    return None


def validate_cuda_device(location):
    """Returns the index of an existing CUDA device; raises RuntimeError otherwise."""
    from . import cuda
    if not cuda.is_available():
        raise RuntimeError(
            "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is "
            "False. If you are running on a CPU-only machine, please use torch.load with "
            "map_location=torch.device('cpu') to map your storages to the CPU.")
    index = _C.device(location).index or 0
    if index >= cuda.device_count():
        raise RuntimeError(
            f"Attempting to deserialize object on CUDA device {index} but torch.cuda.device_count() "
            f"is {cuda.device_count()}. Please use torch.load with map_location to map your storages "
            "to an existing device.")
    return index


register_package(10, lambda s: "cpu" if s.device.type == "cpu" else None,
                 lambda s, location: s if location == "cpu" else None)
register_package(20, lambda s: str(s.device) if s.device.type == "cuda" else None, _cuda_restore)
register_package(30, lambda s: str(s.device) if s.device.type == _C._get_privateuse1_backend_name() else None,
                 lambda s, location: s.to(device=location)
                 if location.split(":")[0] == _C._get_privateuse1_backend_name() else None)
register_package(22, lambda s: "meta" if s.device.type == "meta" else None,
                 lambda s, location: UntypedStorage(s.nbytes(), device="meta")
                 if location == "meta" else None)


def location_tag(storage):
    """Returns the location of a storage for checkpoints: "cpu"."""
    for _, tagger, _ in _packages:
        location = tagger(storage)
        if location:
            return location
    raise RuntimeError("don't know how to determine data location of " + _typename(storage))


def default_restore_location(storage, location):
    """Returns the storage on the device of `location`."""
    for _, _, restore in _packages:
        result = restore(storage, location)
        if result is not None:
            return result
    raise RuntimeError("don't know how to restore data location of " + _typename(storage)
                       + " (tagged with " + location + ")")


def _typename(storage):
    return torch_name(f"{type(storage).__module__}.{type(storage).__name__}")


def _restore_function(map_location):
    if map_location is None:
        return default_restore_location
    if isinstance(map_location, dict):
        return lambda storage, location: default_restore_location(
            storage, map_location.get(location, location))
    if isinstance(map_location, (str, bytes, _C.device)):
        place = map_location.decode() if isinstance(map_location, bytes) else str(map_location)
        return lambda storage, location: default_restore_location(storage, place)

    def restore(storage, location):
        result = map_location(storage, location)
        return default_restore_location(storage, location) if result is None else result

    return restore


def normalize_storage_type(storage_type):
    import cresset
    return getattr(cresset, storage_type.__name__)


def storage_to_tensor_type(storage):
    import cresset
    return getattr(cresset, type(storage).__name__.replace("Storage", "Tensor"))


class StorageType:
    """The class of a storage in a checkpoint, which states the dtype."""

    def __init__(self, name):
        import cresset
        self.dtype = getattr(cresset, name).dtype

    def __str__(self):
        return f"StorageType(dtype={self.dtype})"


# --- files ---

def _is_path(f):
    return isinstance(f, (str, os.PathLike))


def _check_seekable(f):
    try:
        f.seek(f.tell())
    except (io.UnsupportedOperation, AttributeError) as e:
        if "seek" in str(e) or "tell" in str(e):
            raise type(e)(
                f"{e}. You can only torch.load from a file that is seekable. Please pre-load the "
                "data into a buffer like io.BytesIO and try to load from it instead.") from None
        raise


def _descriptor(f):
    """Returns the descriptor of a regular file whose bytes are those of read(); None for
    others."""
    raw = getattr(f, "raw", f)
    if not isinstance(raw, io.FileIO) or not stat.S_ISREG(os.fstat(raw.fileno()).st_mode):
        return None
    return raw.fileno()


def _is_device(f):
    raw = getattr(f, "raw", f)
    return isinstance(raw, io.FileIO) and stat.S_ISCHR(os.fstat(raw.fileno()).st_mode)


class _opened:
    """with _opened(f) as (file, start, head): a descriptor and a position, or bytes and 0; and the
    first 512 bytes."""

    def __init__(self, f):
        self.own = None
        if _is_path(f):
            f = self.own = open(f, "rb")
        else:
            _check_seekable(f)
        self.f = f

    def __enter__(self):
        f, self.start = self.f, self.f.tell()
        head = f.read(512)
        f.seek(self.start)
        if _is_device(f):  # /dev/zero has no end; no device contains a checkpoint
            return head, 0, head
        descriptor = _descriptor(f)
        if descriptor is not None:
            if self.own is None and f.writable():
                f.flush()
            return descriptor, self.start, head
        if type(f) is io.BytesIO:  # getvalue() does not copy, getbuffer() may
            return memoryview(f.getvalue())[self.start:], 0, head
        return f.read(), 0, head

    def __exit__(self, kind, value, traceback):
        if self.own is not None:
            self.own.close()


def _is_tar(head):
    """Returns whether 512 bytes are the first header of a tar file, by its checksum."""
    if len(head) < 512 or not head[148:156].strip(b" \0"):
        return False
    try:
        return int(head[148:156].strip(b" \0"), 8) == sum(head) - sum(head[148:156]) + 256
    except ValueError:
        return False


def _is_safetensors(head):
    return len(head) > 8 and head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 100000000


# --- saving ---

class _Storages:
    """The storages of one checkpoint: their numbers in pickles, and the storages in order."""

    def __init__(self, key=str):
        self.key = key
        self.numbers = {}
        self.storages = {}
        self.dtypes = {}

    def identify(self, obj):
        """Returns ("storage", type, key, location, numel) for storages, None for other objects."""
        if isinstance(obj, TypedStorage):
            storage, dtype = obj._untyped_storage, obj.dtype
            kind, numel = obj._pickle_class(), len(obj)
        elif isinstance(obj, UntypedStorage):
            storage, dtype, kind, numel = obj, _C.uint8, UntypedStorage, obj.nbytes()
        else:
            return None
        address = storage.data_ptr() if storage.device.type != "meta" else 0
        if address and self.dtypes.setdefault(address, dtype) != dtype:
            raise RuntimeError("Cannot save multiple tensors or storages that view the same data as "
                               "different types")
        # Aliases of a storage (`.data`) have the same address and size.
        same = (address, storage.nbytes()) if address else id(storage)
        key = self.numbers.setdefault(same, str(len(self.numbers)))
        self.storages.setdefault(key, (storage, dtype))
        return "storage", kind, key, location_tag(storage), numel


def _pickled(obj, pickle_module, protocol, persistent_id):
    """Returns a pickle of `obj` with torch's names."""
    buffer = io.BytesIO()

    class Pickler(pickle_module.Pickler):
        def persistent_id(self, obj):
            return persistent_id(obj)

    Pickler(buffer, protocol=protocol).dump(obj)
    return _C._checkpoint_rename(buffer.getbuffer())


def _bytes_of(storage):
    if _skip is not None and storage.nbytes():
        return _C.zeros(storage.nbytes(), dtype=_C.uint8).untyped_storage()
    return storage if storage.device.type == "cpu" and storage.nbytes() else storage.tobytes()


def _archive(obj, pickle_module, protocol, no_byteorder):
    storages = _Storages()
    records = [("data.pkl", _pickled(obj, pickle_module, protocol, storages.identify)),
               (".format_version", b"1"), (".storage_alignment", b"64")]
    if not no_byteorder:
        records.append(("byteorder", sys.byteorder.encode()))
    return records + [(f"data/{key}", _bytes_of(storage))
                      for key, (storage, _) in storages.storages.items()]


def _old_layout(obj, pickle_module, protocol):
    """Returns the parts of a file in torch's layout before 1.6."""
    storages = _Storages()

    def identify(obj):
        pid = storages.identify(obj)
        return pid and (*pid, None)

    facts = {"protocol_version": PROTOCOL_VERSION, "little_endian": sys.byteorder == "little",
             "type_sizes": {"short": 2, "int": 4, "long": 4}}
    body = _pickled(obj, pickle_module, protocol, identify)
    keys = sorted(storages.storages)
    pieces = [pickle_module.dumps(x, protocol=protocol)
              for x in (MAGIC_NUMBER, PROTOCOL_VERSION, facts)]
    pieces += [body, pickle_module.dumps(keys, protocol=protocol)]
    for key in keys:
        storage, dtype = storages.storages[key]
        pieces += [(storage.nbytes() // dtype.itemsize).to_bytes(8, "little"), _bytes_of(storage)]
    return [("", piece) for piece in pieces]


def _folder_of(path):
    """Returns the name of an archive's folder: the file's name without its extension."""
    name = os.path.basename(path)
    if not name.isascii():
        return "archive"
    folder = name.rpartition(".")[0] if "." in name else name
    if not folder:
        raise RuntimeError(f"invalid file name: {path}")
    return folder


def _save_safetensors(obj, path):
    import cresset
    from .safetensors import save_file
    if not isinstance(obj, dict) or not all(
            isinstance(k, str) and isinstance(v, cresset.Tensor) for k, v in obj.items()):
        raise TypeError("save() writes a dict of str to Tensor (a state_dict) into a safetensors "
                        f"file, not {type(obj).__name__}")
    save_file(obj, path)


def _checked_path(f):
    path = os.fspath(f)
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    parent = os.path.dirname(path)
    if parent and not os.path.isdir(parent):
        raise RuntimeError(f"Parent directory {parent} does not exist.")
    return path


def save(obj, f, pickle_module=pickle, pickle_protocol=DEFAULT_PROTOCOL,
         _use_new_zipfile_serialization=True, _disable_byteorder_record=False):
    """Writes `obj` to a path or an open binary file, in torch's format.

    The file at a path becomes visible when it is complete and replaces an earlier one.  A path
    that ends in .safetensors gets this format; obj must then be a dict of tensors.

    Example::

        >>> import io
        >>> file = io.BytesIO()
        >>> torch.save({"w": torch.ones(2)}, file)
        >>> _ = file.seek(0)
        >>> torch.load(file)["w"]
        tensor([1., 1.])
    """
    if not _is_path(f) and not hasattr(f, "write"):
        raise AttributeError("expected 'f' to be string, path, or a file-like object with a 'write' "
                             "attribute")
    path = _checked_path(f) if _is_path(f) else None
    if path is not None and path.endswith(".safetensors"):
        _save_safetensors(obj, path)
        return
    folder = None
    if _use_new_zipfile_serialization:
        folder = "archive" if path is None else _folder_of(path)
        records = _archive(obj, pickle_module, pickle_protocol, _disable_byteorder_record)
    else:
        records = _old_layout(obj, pickle_module, pickle_protocol)
    if path is None:
        _C._checkpoint_save(f.write, folder, records, _options["crc32"])
        if hasattr(f, "flush"):
            f.flush()
    elif os.path.exists(path) and not os.path.isfile(path):  # a device or a pipe
        with open(path, "wb") as file:
            _C._checkpoint_save(file.write, folder, records, _options["crc32"])
    else:
        # The target of a symbolic link is replaced, not the link.
        _C._checkpoint_save(os.fsencode(os.path.realpath(path)), folder, records, _options["crc32"])


# --- loading ---

def _weights_only_message(message):
    """Returns torch's message around the reason why a checkpoint was not loaded."""
    if re.search(r"GLOBAL (\S+) was not an allowed global by default.", message):
        return ("Weights only load failed. This file can still be loaded, to do so you have two "
                "options, \033[1mdo those steps only if you trust the source of the checkpoint\033[0m. "
                f"\n\t(1) {UNSAFE_MESSAGE}\n\t(2) Alternatively, to load with `weights_only=True` "
                "please check the recommended steps in the following error message.\n\t"
                "WeightsUnpickler error: " + message + DOCS_MESSAGE)
    text = f"Weights only load failed. {UNSAFE_MESSAGE}\n"
    if not re.search(r"whose module (\S+) is blocked", message):
        text += ("Please file an issue with the following so that we can make `weights_only=True` "
                 "compatible with your use case: WeightsUnpickler error: ")
    return text + "\n\n" + message + DOCS_MESSAGE


def _ask_environment(weights_only):
    """Returns the argument, changed by torch's two environment variables."""
    on = [os.environ.get(f"TORCH_FORCE_{name}WEIGHTS_ONLY_LOAD", "0").lower()
          in ("1", "y", "yes", "true") for name in ("", "NO_")]
    if all(on):
        raise RuntimeError("Only one of `TORCH_FORCE_WEIGHTS_ONLY_LOAD` or "
                           "`TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD` should be set, but both were set.")
    if on[0]:
        return True
    if on[1] and weights_only is None:
        warnings.warn("Environment variable TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD detected, since the"
                      "`weights_only` argument was not explicitly passed to `torch.load`, forcing "
                      "weights_only=False.", UserWarning, stacklevel=3)
        return False
    return weights_only


def _choose(weights_only, pickle_module):
    """Returns whether only weights are read, from load()'s two arguments."""
    weights_only = _ask_environment(weights_only)
    if weights_only is None:
        weights_only = pickle_module is None
    if weights_only and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    return bool(weights_only)


def _load_safetensors(f, map_location):
    from .safetensors import load as load_bytes, load_file
    if isinstance(map_location, dict) or callable(map_location):
        kind = "dict" if isinstance(map_location, dict) else "callable"
        raise RuntimeError(f"Loading safetensors file with {kind} map_location is not supported. Use a "
                           "device string or torch.device instead.")
    device = "cpu" if map_location is None else str(map_location)
    if _is_path(f):
        return load_file(f, device)
    return {k: v.to(device) for k, v in load_bytes(f.read()).items()}


def _refuse_tar(weights_only):
    if weights_only:
        raise RuntimeError("Cannot use ``weights_only=True`` with files saved in the legacy .tar "
                           "format. " + UNSAFE_MESSAGE)
    raise RuntimeError("files in the legacy .tar format (torch 0.1) are not read; load and save them "
                       "once with torch")


def _check_mmap(f, is_archive):
    if is_archive and not _is_path(f):
        raise ValueError("f must be a file path in order to use the mmap argument")
    if not is_archive:
        name = f"{f}, " if isinstance(f, str) else ""
        raise RuntimeError("mmap can only be used with files saved with "
                           f"`torch.save({name}_use_new_zipfile_serialization=True), please torch.save "
                           "your checkpoint with this option in order to use mmap.")


def _is_meta(map_location):
    return isinstance(map_location, (str, _C.device)) and str(map_location) == "meta"


def load(f, map_location=None, pickle_module=None, *, weights_only=None, mmap=None,
         **pickle_load_args):
    """Loads an object that save() or torch.save wrote, from a path or an open binary file.

    map_location sets the devices of tensors: a device, a dict from device to device as strings,
    or a function of (storage, location).  With mmap=True the tensors share a mapping of the
    file.  By default classes and functions in the file must be allowed first by
    torch.serialization.add_safe_globals.  weights_only=False unpickles the file with pickle_module,
    which can run any code: only for files from sources that you trust.

    Example::

        >>> import io
        >>> file = io.BytesIO()
        >>> torch.save({"w": torch.ones(2)}, file)
        >>> _ = file.seek(0)
        >>> torch.load(file)
        {'w': tensor([1., 1.])}
    """
    if _C._len_torch_dispatch_stack():
        from ._guards import active_fake_mode
        from ._subclasses.fake_tensor import unset_fake_temporarily
        from .utils._pytree import tree_map_only
        if active_fake_mode():
            with unset_fake_temporarily() as mode:
                found = load(f, map_location, pickle_module, weights_only=weights_only, mmap=mmap, **pickle_load_args)
            return tree_map_only(_C.Tensor, mode.from_tensor, found)
    only = _choose(weights_only, pickle_module)
    if pickle_load_args and only:
        warnings.warn("pickle_load_args only works if `weights_only=False`.", stacklevel=2)
    if _is_path(f) and os.fspath(f).endswith(".safetensors"):
        return _load_safetensors(f, map_location)
    opened = _opened(f)
    with opened as (file, start, head):
        is_archive = head.startswith(b"PK\3\4")
        if not is_archive and _is_safetensors(head):
            return _load_safetensors(f, map_location)
        if not is_archive and _is_tar(head):
            _refuse_tar(only)
        if mmap:
            _check_mmap(f, is_archive)
        if not only:
            return _unpickled(f, opened, file, start, is_archive, map_location,
                              pickle_module or pickle, bool(mmap), pickle_load_args)
        allowed = _allowed_names()
        try:
            result, end = _C._checkpoint_load(
                file, start, _finder(allowed), allowed, _restore_function(map_location), True,
                bool(mmap), _options["endianness"] is LoadEndianness.BIG, "utf-8",
                _is_meta(map_location), map_location is None or str(map_location) == "cpu")
        except pickle.UnpicklingError as e:
            raise pickle.UnpicklingError(_weights_only_message(str(e))) from None
        if opened.own is None and not is_archive:
            f.seek(opened.start + end)
        return result


def _unpickled(f, opened, file, start, is_archive, map_location, pickle_module, mmap, load_args):
    from . import _unpickling
    restore, meta = _restore_function(map_location), _is_meta(map_location)
    load_args.setdefault("encoding", "utf-8")
    if not is_archive:
        return _unpickling.load_old(opened.f, restore, pickle_module, meta, load_args)
    if _unpickling.is_script_archive(file, start):
        warnings.warn("'torch.load' received a zip file that looks like a TorchScript archive dispatching to 'torch.jit.load' "
                      "(call 'torch.jit.load' directly to silence this warning)", UserWarning, stacklevel=3)
        if opened.own is None:
            f.seek(opened.start)
        from . import jit
        return jit.load(f, map_location=map_location)
    swapped = _options["endianness"] is LoadEndianness.BIG
    return _unpickling.load_archive(file, start, restore, pickle_module, mmap, swapped, meta,
                                    load_args)
