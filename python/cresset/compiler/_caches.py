"""Compiled kernels as bytes that another machine's cache takes.

A file of the cache belongs to this process's artifacts if it was used since the process started: every
use sets the file's time.  The files are sealed, and their names depend on the compiler, the processor
and the source, so a file that does not fit is never loaded.
"""
import io
import os
import re
import tempfile
import zipfile
from dataclasses import dataclass, field

from .. import _C

_NAME = re.compile(r"[0-9a-f]{32}\.(so|sc)")


@dataclass
class CacheInfo:
    """The artifacts that were saved or loaded: a list of keys for each kind."""

    artifacts: dict = field(default_factory=dict)

    @property
    def inductor_artifacts(self):
        return self.artifacts.get("inductor", [])

    def empty(self):
        return not any(self.artifacts.values())


def _start_of_process():
    """Returns when this process started, in seconds as time.time() counts."""
    with open("/proc/self/stat", encoding="utf-8") as f:
        ticks = int(f.read().rpartition(")")[2].split()[19])
    with open("/proc/stat", encoding="utf-8") as f:
        boot = next(int(line.split()[1]) for line in f if line.startswith("btime"))
    return boot + ticks / os.sysconf("SC_CLK_TCK")


def _used(folder):
    start = _start_of_process() - 1  # btime has whole seconds
    with os.scandir(folder) as entries:
        return sorted(e.name for e in entries if _NAME.fullmatch(e.name) and e.is_file(follow_symlinks=False)
                      and e.stat().st_mtime >= start)


def save():
    _C._jit_wait(60.)
    folder = _C._cache_folder()
    names = _used(folder) if os.path.isdir(folder) else []
    if not names:
        return None
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            with open(os.path.join(folder, name), "rb") as f:
                archive.writestr(name, f.read())
    return out.getvalue(), _info(names)


def _info(names):
    return CacheInfo({"inductor": [name.partition(".")[0] for name in names]})


def _write(folder, name, content):
    fd, temporary = tempfile.mkstemp(prefix="new.", dir=folder)  # only the user may read and write it
    with os.fdopen(fd, "wb") as f:
        f.write(content)
    os.replace(temporary, os.path.join(folder, name))


def load(artifacts):
    if not isinstance(artifacts, (bytes, bytearray, memoryview)):
        raise TypeError(f"load_cache_artifacts() needs the bytes of save_cache_artifacts(), not {type(artifacts).__name__}")
    folder = _C._cache_folder()
    try:
        archive = zipfile.ZipFile(io.BytesIO(artifacts))
    except zipfile.BadZipFile:
        raise ValueError("load_cache_artifacts(): these are not the bytes of save_cache_artifacts()") from None
    os.makedirs(folder, mode=0o700, exist_ok=True)
    with archive:
        names = [name for name in archive.namelist() if _NAME.fullmatch(name)]
        for name in names:
            if not os.path.lexists(os.path.join(folder, name)):
                _write(folder, name, archive.read(name))
    return _info(names)
