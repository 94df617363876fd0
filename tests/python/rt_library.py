"""The runtime of exported programs (make rt), as a shared object, called from Python."""
import ctypes
import os
import subprocess

import cresset as torch

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DTYPES = {0: torch.bool, 1: torch.uint8, 2: torch.int8, 3: torch.int16, 4: torch.int32, 5: torch.int64, 8: torch.float32, 9: torch.float64}
INPUT, STATE, RESULT = range(3)


class _Program(ctypes.Structure):
    _fields_ = [("word", ctypes.c_void_p), ("words", ctypes.c_int64), ("operations", ctypes.c_int64)]


class _Array(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("kind", ctypes.c_int), ("dtype", ctypes.c_int), ("ndim", ctypes.c_int),
                ("size", ctypes.POINTER(ctypes.c_int64)), ("bytes", ctypes.c_size_t)]


def build(folder, programs=()):
    """Builds the library in a folder, for all programs or for the given files."""
    folder = str(folder)
    made = subprocess.run(["make", "--no-print-directory", "-C", TOP, "rt", f"B={folder}", "RT_OPT=-O1", "RT_FLAGS=-fPIC", f"RT_BUILD={folder}/rt",
                           f"OPS={' '.join(map(str, programs))}"],
                          capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    path = os.path.join(folder, "cresset_rt.so")
    subprocess.run(["gcc", "-shared", "-Wl,--whole-archive", os.path.join(folder, "rt/libcresset_rt.a"), "-Wl,--no-whole-archive", "-lm",
                    "-o", path], check=True)
    lib = ctypes.CDLL(path)
    lib.cr_rt_at.restype, lib.cr_rt_text.restype = _Array, ctypes.c_char_p
    lib.cr_rt_work_bytes.restype = ctypes.c_size_t
    return lib


def _aligned(n, data=b""):
    """Memory of n bytes at a multiple of 16, and its address."""
    memory = ctypes.create_string_buffer(n + 16)
    at = (ctypes.addressof(memory) + 15) // 16 * 16
    ctypes.memmove(at, data, len(data))
    return memory, at


class Program:
    """A file of to_rt() in the runtime; raises ValueError with the runtime's words."""

    def __init__(self, lib, data):
        self.lib, self.program = lib, _Program()
        self.memory, at = _aligned(len(data), data)
        self._check(lib.cr_rt_open(ctypes.byref(self.program), ctypes.c_void_p(at), ctypes.c_size_t(len(data))))
        self.arrays = [lib.cr_rt_at(self._me, k) for k in range(lib.cr_rt_count(self._me))]
        self.buffers = [_aligned(a.bytes) for a in self.arrays]
        self.addresses = (ctypes.c_void_p * (len(self.arrays) + 1))(*(at for _, at in self.buffers))
        self.work, self.work_at = _aligned(self.work_bytes)
        self._check(lib.cr_rt_start(self._me, self.addresses))

    @property
    def _me(self):
        return ctypes.byref(self.program)

    @property
    def work_bytes(self):
        return self.lib.cr_rt_work_bytes(self._me)

    def _check(self, status):
        if status:
            raise ValueError(self.lib.cr_rt_text(status).decode())

    def number(self, name):
        return self.lib.cr_rt_find(self._me, name.encode())

    def tensor(self, k):
        """The elements of array k."""
        a = self.arrays[k]
        if not a.bytes:
            return torch.empty(a.size[:a.ndim], dtype=DTYPES[a.dtype])
        return torch.frombuffer(bytearray(ctypes.string_at(self.buffers[k][1], a.bytes)), dtype=DTYPES[a.dtype]).view(a.size[:a.ndim])

    def write(self, k, x):
        a, x = self.arrays[k], x.contiguous()
        assert (x.dtype, list(x.shape)) == (DTYPES[a.dtype], a.size[:a.ndim])
        ctypes.memmove(self.buffers[k][1], bytes(x.view(-1).view(torch.uint8).tolist()), a.bytes)

    def __call__(self, *inputs):
        for k, x in enumerate(inputs):
            self.write(k, x)
        self._check(self.lib.cr_rt_run(self._me, self.addresses, ctypes.c_void_p(self.work_at)))
        return [self.tensor(k) for k, a in enumerate(self.arrays) if a.kind == RESULT]
