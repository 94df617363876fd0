"""The records of a checkpoint, one by one."""
import zipfile

from . import _C, frombuffer


class PyTorchFileReader:
    """The records of an archive that torch.save wrote: a path, or an open binary file."""

    def __init__(self, file):
        try:
            self._zip = zipfile.ZipFile(file)
        except zipfile.BadZipFile:
            raise RuntimeError("PytorchStreamReader failed reading zip archive: not a ZIP archive"
                               ) from None
        except OSError as error:
            raise RuntimeError(f"open file failed because of errno {error.errno} on fopen: "
                               f"{error.strerror}, file path: {file}") from None
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
        return self._zip.read(self._info(name))

    def get_record_size(self, name):
        """The number of bytes of a record."""
        return self._info(name).file_size

    def get_record_header_offset(self, name):
        """Where the header of a record begins in the file."""
        return self._info(name).header_offset

    def get_record_offset(self, name):
        """Where the bytes of a record begin in the file."""
        info = self._info(name)
        with self._zip.open(info) as record:  # opening it reads the header
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
