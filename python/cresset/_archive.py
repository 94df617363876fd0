"""The records of a checkpoint, one by one."""
import contextlib
import ctypes
import os
import struct
import zipfile
import zlib

from . import _C, frombuffer


@contextlib.contextmanager
def _reading(name):
    """Errors of a damaged archive as RuntimeError."""
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, ValueError, NotImplementedError, UnicodeDecodeError) as error:
        raise RuntimeError(f"PytorchStreamReader failed reading file {name}: {error}") from None


class PyTorchFileReader:
    """The records of an archive that torch.save wrote: a path, or an open binary file."""

    def __init__(self, file):
        try:
            self._zip = zipfile.ZipFile(file)
        except (zipfile.BadZipFile, struct.error, ValueError, NotImplementedError, UnicodeDecodeError):
            raise RuntimeError("PytorchStreamReader failed reading zip archive: not a ZIP archive"
                               ) from None
        except OSError as error:
            raise RuntimeError(f"open file failed because of errno {error.errno} on fopen: "
                               f"{error.strerror}, file path: {file}") from None
        if not self._zip.namelist():
            raise RuntimeError("PytorchStreamReader failed reading zip archive: archive does not contain any files")
        self._folder = self._zip.namelist()[0].partition("/")[0] + "/"

    def _info(self, name):
        try:
            return self._zip.getinfo(self._folder + name)
        except KeyError:
            raise RuntimeError(f"PytorchStreamReader failed locating file {name}: file not found"
                               ) from None

    def get_all_records(self):
        """The names of the records."""
        return [name.removeprefix(self._folder) for name in self._zip.namelist()]

    def has_record(self, name):
        """Whether there is a record of that name."""
        return self._folder + name in self._zip.NameToInfo

    def get_record(self, name):
        """The bytes of a record."""
        info = self._info(name)
        with _reading(name):
            return self._zip.read(info)

    def get_beside(self, name):
        """The bytes of a file that is in no folder of the archive, or None."""
        if name not in self._zip.NameToInfo:
            return None
        with _reading(name):
            return self._zip.read(name)

    def get_record_size(self, name):
        """The number of bytes of a record."""
        return self._info(name).file_size

    def get_record_header_offset(self, name):
        """Where the header of a record begins in the file."""
        return self._info(name).header_offset

    def get_record_offset(self, name):
        """Where the bytes of a record begin in the file."""
        info = self._info(name)
        with _reading(name), self._zip.open(info) as record:  # opening it reads the header
            return record._orig_compress_start

    def get_storage_from_record(self, name, numel, dtype):
        """A tensor of `numel` elements over the bytes of a record."""
        content = bytearray(self.get_record(name))
        if len(content) < numel * dtype.itemsize:
            raise RuntimeError(f"record {name} has {len(content)} bytes, not {numel} elements of "
                               f"{dtype}")
        return frombuffer(content, dtype=dtype, count=numel) if numel else _C.empty(0, dtype=dtype)

    def serialization_id(self):
        """The text that identifies the file's contents; empty if it has none."""
        name = ".data/serialization_id"
        return self.get_record(name).decode() if self.has_record(name) else ""


class PyTorchFileWriter:
    """Writes an archive record by record: to a path, to an open binary file, or with a function of bytes."""

    def __init__(self, file, compute_crc32=True, storage_alignment=64):
        if storage_alignment != 64:
            raise RuntimeError(f"records begin at multiples of 64 bytes, not of {storage_alignment}")
        named = isinstance(file, str) or hasattr(file, "__fspath__")
        self._file, self._crc = file, compute_crc32
        self._folder = os.path.basename(os.fspath(file)).rpartition(".")[0] or "archive" if named else "archive"
        self._records, self._done = {}, False

    def archive_name(self):
        """The folder of the records in the archive."""
        return self._folder

    def write_record(self, name, data, size=None):
        """Adds a record: bytes, a storage, or the address of `size` bytes."""
        if self._done:
            raise RuntimeError("the archive is finished: no record can be added")
        if name in self._records:
            raise RuntimeError(f"record {name} is already in the archive")
        if isinstance(data, int):
            data = ctypes.string_at(data, size)
        elif hasattr(data, "tobytes") and not isinstance(data, memoryview):
            data = data.tobytes()
        elif isinstance(data, str):
            data = data.encode()
        self._records[name] = bytes(data if size is None else memoryview(data)[:size])

    def write_record_metadata(self, name, size):
        """Adds a record of zeros."""
        self.write_record(name, bytes(size))

    def get_all_written_records(self):
        """The names of the records."""
        return set(self._records)

    def set_min_version(self, version):
        """The archive says that a reader must know this version."""
        self._records[".min_version"] = str(version).encode()

    def write_end_of_file(self):
        """Writes the archive."""
        if self._done:
            return
        self._done = True
        target = self._file
        if isinstance(target, str) or hasattr(target, "__fspath__"):
            target = os.fsencode(os.path.realpath(target))
        elif not callable(target):
            target = target.write
        _C._checkpoint_save(target, self._folder, list(self._records.items()), self._crc)
