"""Compares the functions of the vector vocabulary on an NVIDIA GPU with the host's, bit for bit.

    python tests/cuda/vocabulary.py build FOLDER     needs clang with its NVPTX target, and gcc; no GPU
    python tests/cuda/vocabulary.py run FOLDER       needs a GPU, its driver (libcuda.so.1) and NumPy

`build` compiles the text of src/emit/vec*.h, unchanged, for the GPU and for AVX2 and AVX-512: one
kernel for every function and type of src/loop/fn.def that carries no libm word.  It fails when such
a function needs a symbol of the C library.  `run` evaluates each on 2^24 inputs (random bits,
normal and wide distributions, special values).  NaNs count as equal, other bits do not."""
import concurrent.futures
import ctypes
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SRC = os.path.join(ROOT, "src")
CLANG = os.environ.get("CLANG", "clang-14")
HOSTS = {"avx2": ["-mavx2", "-mfma", "-mf16c"],
         "avx512": ["-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mfma", "-mavx2", "-mf16c"]}
TYPES = {"F": ("f32", "f64"), "S": ("f32",), "I": ("i32", "i64")}
LIBM = {"f32": "F", "f64": "FD"}
THREADS, INPUTS = 256, 1 << 24

VOCABULARY = "".join(f'#include "emit/{name}.h"\n' for name in
                     ("vec", "vec_float", "vec_f32", "vec_f64", "vec_int", "vec_complex", "vec_special"))


def functions():
    """(name, number of arguments, type) of every elementwise function that calls no C library."""
    text = open(os.path.join(SRC, "loop", "fn.def")).read()
    row = re.compile(r'^CR_FN\((\w+),\s*(\d),\s*SAME,\s*"(\w*)",\s*\d+,\s*"(\w*)"\)', re.M)
    for name, count, groups, libm in row.findall(text):
        for group in groups:
            for dtype in TYPES.get(group, ()):
                if not set(LIBM.get(dtype, "")) & set(libm):
                    yield name, int(count), dtype


def kernel(name, count, dtype, device):
    inputs = ", ".join(f"const cv_s_{dtype} *in{k}" for k in range(count))
    loads = ", ".join(f"*(const cv_mem_{dtype} *)(in{k} + i)" for k in range(count))
    step = f"*(cv_mem_{dtype} *)(out + i) = cv_{name}_{dtype}({loads});"
    if device:
        return f"""extern "C" __attribute__((global)) void k_{name}_{dtype}(cv_s_{dtype} *out, {inputs})
{{
    long thread = (long)__nvvm_read_ptx_sreg_ctaid_x() * {THREADS} + __nvvm_read_ptx_sreg_tid_x();
    long i = thread * CV_LANES_{dtype};
    {step}
}}
"""
    return f"""void k_{name}_{dtype}(cv_s_{dtype} *out, {inputs})
{{
    for (long i = 0; i < {INPUTS}; i += CV_LANES_{dtype})
        {step}
}}
"""


def build_device(folder, function):
    """The reason why the function cannot be compiled for the GPU, or None."""
    stem = os.path.join(folder, "{}_{}".format(function[0], function[2]))
    with open(stem + ".cu", "w") as f:
        f.write('#include "emit/vec.cuh"\n' + VOCABULARY + kernel(*function, device=True))
    made = subprocess.run([CLANG, "-x", "cuda", "--cuda-device-only", "-nocudainc", "-nocudalib", "--cuda-gpu-arch=sm_80",
                           "-O2", "-w", "-ffp-contract=off", "-I" + SRC, "-S", "-o", stem + ".ptx", stem + ".cu"],
                          capture_output=True, text=True)
    if made.returncode:
        return made.stderr.strip().splitlines()[0]
    if ".extern .func" in open(stem + ".ptx").read():
        return "calls a function of the C library"
    return None


def build(folder):
    os.makedirs(folder, exist_ok=True)
    wanted = list(functions())
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        reasons = list(pool.map(lambda f: build_device(folder, f), wanted))
    with open(os.path.join(folder, "host.c"), "w") as f:
        f.write(VOCABULARY + "".join(kernel(*function, device=False) for function in wanted))
    for isa, flags in HOSTS.items():
        subprocess.run(["gcc", "-std=gnu11", "-O2", "-fPIC", "-shared", "-ffp-contract=off", "-I" + SRC, *flags,
                        os.path.join(folder, "host.c"), "-o", os.path.join(folder, f"lib{isa}.so"), "-lm"], check=True)
    with open(os.path.join(folder, "functions"), "w") as f:
        f.writelines("{} {} {}\n".format(*function) for function in wanted)
    for (name, _, dtype), why in zip(wanted, reasons):
        if why:
            print(f"{name}_{dtype}: {why}")
    print(f"{len(wanted)} functions, {sum(map(bool, reasons))} cannot be compiled for the GPU")
    return any(reasons)


class Gpu:
    """The driver's functions that loading and launching a kernel need."""

    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        context, device = ctypes.c_void_p(), ctypes.c_int()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        name = ctypes.create_string_buffer(100)
        self.call("cuDeviceGetName", name, 100, device)
        self.name = name.value.decode()

    def call(self, function, *args):
        status = getattr(self.cuda, function)(*args)
        if status:
            raise RuntimeError(f"{function} returned {status}")

    def copy_in(self, array):
        at = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(at), ctypes.c_size_t(array.nbytes))
        self.call("cuMemcpyHtoD_v2", at, ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes))
        return at

    def evaluate(self, path, symbol, out, at, inputs):
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        blocks = out.nbytes // 16 // THREADS
        args = (ctypes.c_void_p * (1 + len(inputs)))(*(ctypes.addressof(x) for x in (at, *inputs)))
        self.call("cuModuleLoadData", ctypes.byref(module), open(path, "rb").read() + b"\0")
        self.call("cuModuleGetFunction", ctypes.byref(function), module, symbol.encode())
        self.call("cuLaunchKernel", function, blocks, 1, 1, THREADS, 1, 1, 0, None, args, None)
        self.call("cuMemcpyDtoH_v2", ctypes.c_void_p(out.ctypes.data), at, ctypes.c_size_t(out.nbytes))
        self.call("cuModuleUnload", module)


def draw(np, dtype, bits, rng):
    x = rng.integers(0, 1 << 8 * bits().itemsize, INPUTS, dtype=bits).view(dtype)
    quarter = INPUTS // 4
    if x.dtype.kind == "i":
        x[:2 * quarter] = rng.integers(-1000, 1000, 2 * quarter)
        x[x == 0] = 3  # integer division by zero traps on the host
        return x
    x[:quarter] = rng.standard_normal(quarter) * 10
    x[quarter:2 * quarter] = rng.random(quarter) * 2 - 1
    x[2 * quarter:3 * quarter] = rng.standard_normal(quarter) * np.exp(rng.standard_normal(quarter) * 10)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, 2, 1e-40, -1e-40, 3.5, np.pi, 1e30]
    x[:len(special)] = special
    return x


def run(folder):
    import numpy as np
    types = {"f32": (np.float32, np.uint32), "f64": (np.float64, np.uint64), "i32": (np.int32, np.uint32),
             "i64": (np.int64, np.uint64)}
    gpu, rng = Gpu(), np.random.default_rng(1)
    flags = open("/proc/cpuinfo").read()
    hosts = {isa: ctypes.CDLL(os.path.abspath(os.path.join(folder, f"lib{isa}.so")))
             for isa in HOSTS if isa == "avx2" or "avx512dq" in flags}
    inputs = {t: [draw(np, *types[t], rng) for _ in range(3)] for t in types}
    there = {t: [gpu.copy_in(x) for x in inputs[t]] for t in types}
    at = {t: gpu.copy_in(inputs[t][0]) for t in types}
    total, wrong = 0, 0
    for line in open(os.path.join(folder, "functions")):
        name, count, dtype = line.split()
        count, bits = int(count), types[dtype][1]
        got = np.empty(INPUTS, types[dtype][0])
        gpu.evaluate(os.path.join(folder, f"{name}_{dtype}.ptx"), f"k_{name}_{dtype}", got, at[dtype], there[dtype][:count])
        differing = []
        for isa, library in hosts.items():
            want = np.empty_like(got)
            getattr(library, f"k_{name}_{dtype}")(*(ctypes.c_void_p(x.ctypes.data) for x in (want, *inputs[dtype][:count])))
            differ = (got.view(bits) != want.view(bits)) & ~((got != got) & (want != want))
            if differ.any():
                i = int(differ.argmax())
                differing.append(f"{int(differ.sum())} from {isa}, first {[x[i] for x in inputs[dtype][:count]]}: "
                                 f"{got[i]!r}, host {want[i]!r}")
        for text in differing:
            print(f"{name}_{dtype} differs in {text}")
        total, wrong = total + 1, wrong + bool(differing)
    print(f"{gpu.name}, beside {' and '.join(hosts)}: {total} functions, {INPUTS} inputs each, {wrong} differ")
    return wrong != 0


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("build", "run"):
        sys.exit(__doc__)
    sys.exit({"build": build, "run": run}[sys.argv[1]](sys.argv[2]))
