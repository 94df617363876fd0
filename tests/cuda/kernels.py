"""Compares the kernels of all entries on an NVIDIA GPU with the host's, bit for bit.

    python tests/cuda/kernels.py build FOLDER [ENTRY...]  needs crc, clang with its NVPTX target, and gcc; no GPU
    python tests/cuda/kernels.py run FOLDER               needs a GPU, its driver (libcuda.so.1) and NumPy
    python tests/cuda/kernels.py speed FOLDER             the same; times kernels beside a copy
    python tests/cuda/kernels.py simulate FOLDER [ENTRY...]  needs crc, clang, gcc and NumPy; no GPU

`build` prints the kernels in both dialects (`crc kernels`), and compiles CUDA C++ for the GPU and C for AVX2
and AVX-512.  With NVCC=nvcc in the environment nvcc compiles for the GPU; otherwise clang does, and ptxas
assembles for sm_90 where it is found.  With nvcc, whose code is NVRTC's, a kernel that spills fails.  `run`
calls each kernel on many sizes, among them rows that are not aligned and rows of several blocks.  NaNs count
as equal, other bits do not.
`simulate` makes the same calls on this processor (simt.h): the CUDA C++ is compiled as C++, a thread is a
fiber."""
import concurrent.futures
import ctypes
import json
import os
import re
import shutil
import struct
import subprocess
import sys

from vocabulary import CLANG, HOSTS, ROOT, SRC, Gpu

CRC = os.path.join(os.environ.get("CRESSET_BUILD", os.path.join(ROOT, "build")), "crc")
NVCC = os.environ.get("NVCC")  # compiles for the GPU in clang's place where it is set
PARTS = 32
ITEM = {"bool": 1, "u8": 1, "f16": 2, "bf16": 2, "i32": 4, "i64": 8, "f32": 4, "f64": 8, "c64": 8, "c128": 16}
HALVES = ("f16", "bf16")  # beside which values are float32
# Files of `crc kernels`: a vector has the same bytes in all kernels of one file.
FILES = {"cuda": 16, "cuda_rows": 8, "cuda_narrow": 16, **{f"cuda_{half}{end}": n for half in HALVES
                                        for end, n in (("", 16), ("_rows", 8), ("_wide", 32))}}
ROWS = re.compile(r"_(rows|whole|narrow)(\d+)$")  # ends the names of kernels that hold rows in registers
KERNEL = re.compile(r"/\* kernel (\w+): results(.*?); arguments(.*?); parameters(.*?) \*/\n(.*?)\n}\n", re.S)


# --- without a GPU ---

def entries():
    text = subprocess.run([CRC, "ops"], capture_output=True, text=True, check=True).stdout
    return sorted({name for name in re.findall(r"^(\w+)[.(]", text, re.M)})


def describe(text, vector):
    """A dictionary for each kernel of a file of CUDA C++ with vectors of so many bytes."""
    for name, results, arguments, parameters, body in KERNEL.findall(text):
        kind, threads = re.search(r"/\* (pointwise|rows|columns)(?: of (\d+))? \*/", body).groups()
        found = ROWS.search(name)
        how, steps = found.groups() if found else (None, 0)
        yield {"name": name, "host": ROWS.sub("", name), "how": how, "steps": int(steps),
               "vector": vector, "results": results.split(), "arguments": arguments.split(), "kind": kind, "threads": int(threads or 0),
               "parameters": [p.split("@") for p in parameters.split()],
               "slots": int(re.search(r"ck_call<\d+, (\d+)>", body).group(1)),
               "flexible": [int(k) for k in re.findall(r"const cv_s_i64 d(\d+) = ptr", body)]}


def command(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def compile_hosts(stem):
    for isa, flags in HOSTS.items():
        command("gcc", "-std=gnu11", "-O2", "-fPIC", "-shared", "-ffp-contract=off", f"-DCK_ISA={isa}", "-I" + SRC, *flags,
                stem + ".c", "-o", f"{stem}.{isa}.so", "-lm")


def spills(report):
    """Complaints that ptxas -v has reason for."""
    found = re.findall(r"properties for ck_cuda_(\w+)\n.* (\d+) bytes spill stores", report)
    return [f"{name} spills {n} bytes" for name, n in found if n != "0"]


def compile_nvcc(stem):
    made = subprocess.run([NVCC, "-std=c++17", "-arch=sm_90", "-fmad=false", "-DCK_ISA=cuda", "-I" + SRC, "-Xptxas", "-v",
                           "-cubin", stem + ".cu", "-o", stem + ".cubin"], capture_output=True, text=True)
    return spills(made.stderr) + ([made.stderr] if made.returncode else [])


def assemble(stem):
    """Complaints about the part's kernels for the GPU."""
    for old in (stem + ".ptx", stem + ".cubin"):
        if os.path.exists(old):
            os.remove(old)
    if NVCC:
        return compile_nvcc(stem)
    command(CLANG, "-x", "cuda", "--cuda-device-only", "-nocudainc", "-nocudalib", "--cuda-gpu-arch=sm_80", "-Xclang",
            "-target-feature", "-Xclang", "+ptx70", "-std=c++17", "-O2", "-Wall", "-Wno-unknown-cuda-version",
            "-Wno-unused-variable", "-Werror", "-ffp-contract=off", "-DCK_ISA=cuda", "-I" + SRC, "-S", "-o", stem + ".ptx",
            stem + ".cu")
    with open(stem + ".ptx") as f:
        if ".extern .func" in f.read():
            return [f"{stem}.cu calls a function of the C library"]
    if not shutil.which("ptxas"):
        return []
    report = subprocess.run(["ptxas", "-arch=sm_90", stem + ".ptx", "-o", stem + ".cubin"], capture_output=True, text=True)
    os.remove(stem + ".ptx")
    return [report.stderr] if report.returncode else []


def compile_simulation(stem):
    with open(stem + ".cpp", "w") as f:
        f.write(f'#include "simt.h"\n#include "{os.path.abspath(stem)}.cu"\n')
    command(CLANG, "-x", "c++", "-std=c++17", "-O1", "-w", "-mfma", "-fPIC", "-shared", "-ffp-contract=off",
            "-DCK_ISA=cuda", "-I" + SRC, "-I" + os.path.dirname(os.path.abspath(__file__)), stem + ".cpp", "-o",
            stem + ".simt.so", "-lm")
    return []


def write_text(path, text):
    with open(path, "w") as f:
        f.write(text)


def compile_part(folder, number, names, simulated):
    """The part's kernels, and the complaints about them."""
    stem = os.path.join(folder, f"part{number}")
    write_text(stem + ".c", command(CRC, "kernels", "c", *names))
    found, wrong = [], []
    for name, vector in FILES.items():
        text, file = command(CRC, "kernels", name, *names), stem + name
        kernels = list(describe(text, vector))
        if kernels:
            write_text(file + ".cu", text)
            found += [{**kernel, "part": number, "file": os.path.basename(file)} for kernel in kernels]
            wrong += compile_simulation(file) if simulated else assemble(file)
    if found:
        compile_hosts(stem)
    return found, wrong


def build(folder, *names, simulated=False):
    os.makedirs(folder, exist_ok=True)
    names = names or entries()
    parts = [names[k::PARTS] for k in range(PARTS) if names[k::PARTS]]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        made = list(pool.map(lambda k: compile_part(folder, k, parts[k], simulated), range(len(parts))))
    kernels = [kernel for found, _ in made for kernel in found]
    wrong = [text for _, texts in made for text in texts]
    with open(os.path.join(folder, "kernels.json"), "w") as f:
        json.dump(kernels, f)
    for text in wrong:
        print(text)
    print(f"{len(kernels)} kernels of {len(names)} entries, {len(wrong)} complaints")
    return bool(wrong) or not kernels


# --- with a GPU ---

def draw(np, rng, dtype, n):
    """n elements as bytes."""
    if dtype == "bool":
        return rng.integers(0, 2, n, dtype=np.uint8)
    if dtype in ("u8", "i32", "i64"):  # no zeros: an integer division by zero traps on the host
        return rng.integers(1, 200, n).astype({"u8": np.uint8, "i32": np.int32, "i64": np.int64}[dtype]) * (
            1 if dtype == "u8" else rng.choice([-1, 1], n).astype({"i32": np.int32, "i64": np.int64}[dtype]))
    part = {"f32": np.float32, "c64": np.float32}.get(dtype, np.float64)
    n *= 2 if dtype[0] == "c" else 1
    x = (rng.standard_normal(n) * rng.choice([0.1, 1, 30], n)).astype(part)
    if n > 40:
        x[rng.integers(0, n, 3)] = [0.0, -0.0, 1e-40]
    if n > 1000 and rng.integers(0, 4) == 0:
        x[rng.integers(0, n, 3)] = [np.inf, -np.inf, np.nan]
    return x


def widened(np, dtype, x):
    """The bytes of halves as those of float32; others as they are."""
    if dtype == "f16":
        return x.view(np.float16).astype(np.float32).view(np.uint8)
    return (x.view(np.uint16).astype(np.uint32) << 16).view(np.uint8) if dtype == "bf16" else x


def rounded(np, dtype, x):
    """The bytes of float32 as those of halves, ties to even; others as they are."""
    if dtype == "f16":
        with np.errstate(over="ignore"):
            return x.view(np.float32).astype(np.float16).view(np.uint8)
    if dtype != "bf16":
        return x
    bits = x.view(np.uint32)
    near = ((bits + np.uint32(0x7FFF) + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(x.view(np.float32)), np.uint16(0x7FC0), near).view(np.uint8)


def parameter_bytes(kernel):
    values = {"f32": struct.pack("f", 0.75), "f64": struct.pack("d", 0.75), "c64": struct.pack("2f", 0.75, -0.5),
              "c128": struct.pack("2d", 0.75, -0.5), "i32": struct.pack("i", 3), "i64": struct.pack("q", 3),
              "u8": b"\x03", "bool": b"\x01"}
    block = bytearray(16 * kernel["slots"])
    for dtype, slot in kernel["parameters"]:
        block[16 * int(slot):16 * int(slot) + len(values[dtype])] = values[dtype]
    return bytes(block)


def power_of_two(n):
    return 1 << max(0, n - 1).bit_length()


def launch_shape(kernel, rows, columns, most):
    """(grid x, grid y, block x, block y), as src/emit/kernel.cuh says; `most` blocks along a side."""
    if kernel["kind"] == "rows":
        chunks = power_of_two(min(8, -(-columns // 1024)))
        short = kernel["how"] == "narrow" or 0 < kernel["steps"] <= 4
        y = 256 // kernel["threads"] if short else 4 if chunks == 1 else 1
        return min(most, -(-rows // y)), 1, chunks * kernel["threads"], y
    widths = [4 if t in HALVES else ITEM[t] // (2 if t[0] == "c" else 1)
              for t in kernel["results"] + kernel["arguments"] if t != "bool"]
    vectors = -(-columns // (kernel["vector"] // max(widths, default=1)))
    if kernel["kind"] == "columns":
        x = min(32, power_of_two(vectors))
        return min(most, -(-vectors // x)), 1, x, kernel["threads"]
    x = min(256, power_of_two(vectors))
    y = min(256 // x, power_of_two(rows))
    return min(most, -(-vectors // x)), min(most, 65535, -(-rows // y)), x, y


def call_bytes(kernel, at, strides, rows, columns):
    """The ck_call of a launch; the first row's number is 5."""
    n = len(at)
    call = struct.pack(f"{n}Q{2 * n}q3q", *at, *strides, rows, columns, 5)
    return call + bytes(-len(call) % 16) + parameter_bytes(kernel)


class Folder:
    """What `build` made: descriptions and the host's functions."""

    def __init__(self, folder):
        self.folder, self.libraries = folder, {}
        with open("/proc/cpuinfo") as f:
            flags = f.read()
        self.isas = [isa for isa in HOSTS if isa == "avx2" or "avx512dq" in flags]
        with open(os.path.join(folder, "kernels.json")) as f:
            self.kernels = json.load(f)

    def stem(self, kernel):
        return os.path.join(self.folder, kernel["file"])

    def library(self, kernel, isa):
        path = self.stem(kernel) if isa == "simt" else os.path.join(self.folder, f"part{kernel['part']}")
        path += f".{isa}.so"
        if path not in self.libraries:
            self.libraries[path] = ctypes.CDLL(os.path.abspath(path))
        return self.libraries[path]

    def host(self, kernel, isa):
        return getattr(self.library(kernel, isa), f"ck_{isa}_{kernel['host']}")


class OnGpu(Folder):
    def __init__(self, folder):
        super().__init__(folder)
        self.gpu, self.modules = Gpu(), {}
        self.name = self.gpu.name

    def function(self, kernel):
        part, function = kernel["file"], ctypes.c_void_p()
        if part not in self.modules:
            self.modules[part] = ctypes.c_void_p()
            path = self.stem(kernel) + ".cubin"
            with open(path if os.path.exists(path) else self.stem(kernel) + ".ptx", "rb") as f:
                self.gpu.call("cuModuleLoadData", ctypes.byref(self.modules[part]), f.read() + b"\0")
        self.gpu.call("cuModuleGetFunction", ctypes.byref(function), self.modules[part],
                      f"ck_cuda_{kernel['name']}".encode())
        return function

    def launch(self, kernel, at, strides, rows, columns, most):
        call = call_bytes(kernel, at, strides, rows, columns)
        gx, gy, x, y = launch_shape(kernel, rows, columns, most)
        argument = ctypes.create_string_buffer(call, len(call))
        pointers = (ctypes.c_void_p * 1)(ctypes.addressof(argument))
        self.gpu.call("cuLaunchKernel", self.function(kernel), gx, gy, 1, x, y, 1, 0, None, pointers, None)

    def results(self, np, kernel, data, strides, rows, columns):
        there = [self.gpu.copy_in(x) for x in data]
        self.launch(kernel, [x.value for x in there], strides, rows, columns, most=3)
        got = [np.empty_like(x) for x in data[:len(kernel["results"])]]
        for x, at in zip(got, there):
            self.gpu.call("cuMemcpyDtoH_v2", ctypes.c_void_p(x.ctypes.data), at, ctypes.c_size_t(x.nbytes))
        for at in there:
            self.gpu.call("cuMemFree_v2", at)
        return got


class Simulated(Folder):
    name = "simulated"

    def results(self, np, kernel, data, strides, rows, columns):
        outs = len(kernel["results"])
        copies = [x.copy() for x in data]
        aligned = [np.empty(x.nbytes + 64, np.uint8) for x in copies]
        for k, x in enumerate(copies):  # a GPU's memory begins at a multiple of 256 bytes
            start = -aligned[k].ctypes.data % 64
            aligned[k] = aligned[k][start:start + x.nbytes]
            aligned[k][:] = x
        call = call_bytes(kernel, [x.ctypes.data for x in aligned], strides, rows, columns)
        getattr(self.library(kernel, "simt"), f"ck_cuda_{kernel['name']}_simt")(
            ctypes.c_char_p(call), *launch_shape(kernel, rows, columns, 3))
        return aligned[:outs]


SIZES = {"pointwise": [(1, 1), (3, 1000), (37, 333), (2, 4096), (1, 50001)],
         "rows": [(3, 1), (5, 7), (300, 13), (4, 16), (9, 64), (130, 50), (3, 333), (3, 1000), (2, 1024), (3, 1025), (2, 3000), (3, 5001),
                  (5, 768), (2, 3072),
                  (2, 8192), (3, 8193), (2, 30000), (1, 100000), (4, 0)],
         "columns": [(1, 1), (3, 33), (5, 130), (64, 40), (65, 40), (130, 31), (200, 1000), (512, 65), (511, 4)]}


def differing(np, dtype, got, want):
    """How many elements have other bits; both are bytes."""
    got, want = widened(np, dtype, got), widened(np, dtype, want)
    if dtype in ("f16", "bf16", "f32", "c64", "f64", "c128"):
        real, bits = (np.float32, np.uint32) if dtype not in ("f64", "c128") else (np.float64, np.uint64)
        a, b = got.view(real), want.view(real)
        return int(((a.view(bits) != b.view(bits)) & ~(np.isnan(a) & np.isnan(b))).sum())
    return int((got != want).sum())


def takes(kernel, columns):
    """Whether the kernel takes rows of this length."""
    if not kernel["how"]:
        return True
    if kernel["how"] == "narrow":
        return columns <= kernel["steps"]
    if kernel["steps"] < 16:
        most = 64 * kernel["steps"]
        return columns == most if kernel["how"] == "whole" else columns <= most
    return columns <= 8192 and (kernel["how"] == "rows" or (columns > 0 and columns % 1024 == 0))


def check_size(np, machine, kernel, rng, rows, columns, still):
    """Complaints about one call.  Operands in `still` have one value a row."""
    dtypes = kernel["results"] + kernel["arguments"]
    outs = len(kernel["results"])
    # A fold of no columns writes its result all the same.
    count = rows * max(columns, 1)
    data = [rounded(np, t, draw(np, rng, "f32" if t in HALVES else t, count).view(np.uint8)) for t in dtypes]
    strides = [s for k, t in enumerate(dtypes) for s in (max(columns, 1) * ITEM[t], 0 if k in still else ITEM[t])]
    got = machine.results(np, kernel, data, strides, rows, columns)
    wrong = []
    for isa in machine.isas:
        wide = [widened(np, t, x).copy() for t, x in zip(dtypes, data)]
        steps = [s * 2 if dtypes[k // 2] in HALVES else s for k, s in enumerate(strides)]
        pointers = (ctypes.c_void_p * len(wide))(*(x.ctypes.data for x in wide))
        machine.host(kernel, isa)(pointers, (ctypes.c_int64 * len(steps))(*steps),
                                  (ctypes.c_int64 * 3)(rows, columns, 5), ctypes.c_char_p(parameter_bytes(kernel)))
        for t, a, b in zip(dtypes, got, wide):
            n = differing(np, t, a, rounded(np, t, b))
            wrong += [f"{kernel['name']} {rows} x {columns}: {n} elements differ from {isa}"] if n else []
    return wrong


def compare(machine):
    import numpy as np
    rng = np.random.default_rng(1)
    calls, wrong = 0, []
    for kernel in machine.kernels:
        for rows, columns in SIZES[kernel["kind"]]:
            if not takes(kernel, columns):
                continue
            for still in [()] + [(k,) for k in kernel["flexible"]]:
                wrong += check_size(np, machine, kernel, rng, rows, columns, still)
                calls += 1
    for text in wrong:
        print(text)
    kernels = {text.split()[0] for text in wrong}
    print(f"{machine.name}, beside {' and '.join(machine.isas)}: {len(machine.kernels)} kernels, {calls} calls, "
          f"{len(kernels)} kernels differ")
    return bool(wrong)


def run(folder):
    return compare(OnGpu(folder))


def simulate(folder, *names):
    return build(folder, *names, simulated=True) or compare(Simulated(folder))


# Names and shapes of the kernels that are timed.  Rates count each operand once, without the small ones of FEW.
TIMED = [("add_f32", 1, 1 << 26), ("exp_f32", 1, 1 << 26), ("exp_f64", 1, 1 << 25), ("sum_f32", 8192, 8192),
         ("sum_f32", 65536, 1024), ("sum_f32", 1 << 18, 256), ("sum_f32", 1 << 20, 64), ("sum_f64", 8192, 4096),
         ("_softmax_f32", 8192, 8192), ("_softmax_f32", 65536, 1024), ("_softmax_f32", 1 << 20, 64),
         ("_softmax_f32", 8192, 8191), ("_softmax_f32", 8192, 1001), ("_layer_norm_f32", 8192, 8192),
         ("_layer_norm_f32", 65536, 768), ("_layer_norm_backward_input_f32", 8192, 8192),
         ("sum_f32_columns", 512, 131072), ("sum_f32_columns", 512, 8192), ("sum_f32_columns", 64, 1 << 20)]


# Small operands: results of folds, and operands with one value a column.  {operand: elements from row to row}
FEW = {"sum_f32": {0: 1}, "sum_f64": {0: 1}, "sum_f32_columns": {0: 0}, "_layer_norm_f32": {1: 1, 2: 1, 4: 0, 5: 0},
       "_layer_norm_backward_input_f32": {3: 1, 4: 1, 5: 0}}


def kernels_for(by_name, name, rows, columns):
    """The kernels that take the shape."""
    return [k for k in by_name.values() if k["host"] == name and takes(k, columns)]


def speed(folder):
    import numpy as np
    machine = OnGpu(folder)
    gpu, by_name = machine.gpu, {k["name"]: k for k in machine.kernels}
    start, end = ctypes.c_void_p(), ctypes.c_void_p()
    for event in (start, end):
        gpu.call("cuEventCreate", ctypes.byref(event), 0)
    blocks = []
    for _ in range(6):
        at = ctypes.c_uint64()
        gpu.call("cuMemAlloc_v2", ctypes.byref(at), ctypes.c_size_t(1 << 29))
        gpu.call("cuMemsetD32_v2", at, 0x3F000000, ctypes.c_size_t(1 << 27))
        blocks.append(at.value)

    def best(f):
        times = []
        for _ in range(15):
            ms = ctypes.c_float()
            gpu.call("cuEventRecord", start, None)
            f()
            gpu.call("cuEventRecord", end, None)
            gpu.call("cuEventSynchronize", end)
            gpu.call("cuEventElapsedTime", ctypes.byref(ms), start, end)
            times.append(ms.value)
        return float(np.median(times[3:]))

    size = 1 << 28
    ceiling = 2 * size / best(lambda: gpu.call("cuMemcpyDtoD_v2", ctypes.c_uint64(blocks[0]), ctypes.c_uint64(blocks[1]),
                                               ctypes.c_size_t(size))) / 1e6
    print(f"{gpu.name}: copy {ceiling:.0f} GB/s")
    for name, rows, columns in TIMED:
        for kernel in kernels_for(by_name, name, rows, columns):
            dtypes = kernel["results"] + kernel["arguments"]
            few = FEW.get(name, {})
            strides = [s for k, t in enumerate(dtypes) for s in (few.get(k, columns) * ITEM[t], ITEM[t])]
            ms = best(lambda: machine.launch(kernel, blocks[:len(dtypes)], strides, rows, columns, most=1 << 16))
            rate = sum(ITEM[t] for k, t in enumerate(dtypes) if k not in few) * rows * columns / ms / 1e6
            print(f"{kernel['name']} {rows} x {columns}: {ms:.3f} ms, {rate:.0f} GB/s, {rate / ceiling:.2f} of copy", flush=True)


if __name__ == "__main__":
    verbs = {"build": build, "run": run, "speed": speed, "simulate": simulate}
    if len(sys.argv) < 3 or sys.argv[1] not in verbs or (sys.argv[1] in ("run", "speed") and len(sys.argv) > 3):
        sys.exit(__doc__)
    sys.exit(verbs[sys.argv[1]](*sys.argv[2:]))
