"""python -m torch.utils.collect_env: a description of this machine and its Python, for reports."""
import datetime
import json
import locale
import os
import platform
import re
import subprocess
import sys
from collections import namedtuple

from .. import torch, version

COMMON_PATTERNS = {"torch", "numpy", "triton", "optree", "cresset"}
NVIDIA_PATTERNS = {"cuda-cudart", "cuda-cupti", "cuda-libraries", "cuda-opencl", "cuda-nvrtc",
                   "cuda-runtime", "cublas", "cudnn", "cufft", "curand", "cusolver", "cusparse",
                   "nccl", "nvjitlink", "nvtx"}
ONEAPI_PATTERNS = {"dpcpp-cpp-rt", "intel-cmplr-lib-rt", "intel-cmplr-lib-ur", "intel-opencl-rt",
                   "intel-sycl-rt", "mkl", "onemkl-sycl", "onemkl-license", "tbb", "oneccl",
                   "impi-rt"}
CONDA_PATTERNS = {"cudatoolkit", "soumith", "mkl", "magma"}
PIP_PATTERNS = {"mypy", "flake8", "onnx"}
TORCH_AVAILABLE = True
_UNKNOWN = "Could not collect"

# The lines of the report: a label and an attribute, or an empty line.
_LINES = (
    ("PyTorch version", "torch_version"), ("Is debug build", "is_debug_build"),
    ("CUDA used to build PyTorch", "cuda_compiled_version"),
    ("ROCM used to build PyTorch", "hip_compiled_version"), None,
    ("OS", "os"), ("GCC version", "gcc_version"), ("Clang version", "clang_version"),
    ("CMake version", "cmake_version"), ("Libc version", "libc_version"), None,
    ("Python version", "python_version"), ("Python platform", "python_platform"),
    ("Is CUDA available", "is_cuda_available"), ("CUDA runtime version", "cuda_runtime_version"),
    ("CUDA_MODULE_LOADING set to", "cuda_module_loading"),
    ("GPU models and configuration", "nvidia_gpu_models"),
    ("Nvidia driver version", "nvidia_driver_version"), ("cuDNN version", "cudnn_version"),
    ("Is XPU available", "is_xpu_available"), ("HIP runtime version", "hip_runtime_version"),
    ("MIOpen runtime version", "miopen_runtime_version"),
    ("Is XNNPACK available", "is_xnnpack_available"),
    ("Caching allocator config", "caching_allocator_config"))

SystemEnv = namedtuple("SystemEnv", [line[1] for line in _LINES if line] + [
    "pip_version", "pip_packages", "conda_packages", "cpu_info"])

env_info_fmt = "\n".join(f"{line[0]}: {{{line[1]}}}" if line else "" for line in _LINES) + """

CPU:
{cpu_info}

Versions of relevant libraries:
{pip_packages}
{conda_packages}
"""


# --- running programs ---

def run(command):
    """Returns the exit status, the output and the error output of a command."""
    shell = isinstance(command, str)
    try:
        done = subprocess.run(command, shell=shell, capture_output=True, check=False)
    except FileNotFoundError:
        text = command if shell else command[0]
        return 127, "", f"Command not found: {text}"
    encoding = locale.getpreferredencoding(False)
    return done.returncode, *(text.decode(encoding, "replace").strip()
                              for text in (done.stdout, done.stderr))


def run_and_read_all(run_lambda, command):
    """Returns the output, or None if the command fails."""
    status, output, _ = run_lambda(command)
    return output if status == 0 else None


def run_and_parse_first_match(run_lambda, command, regex):
    """Returns the first group that `regex` finds in the output."""
    match = re.search(regex, run_and_read_all(run_lambda, command) or "")
    return match.group(1) if match else None


def run_and_return_first_line(run_lambda, command):
    """Returns the output's first line, or None if the command fails."""
    output = run_and_read_all(run_lambda, command)
    return output.split("\n")[0] if output is not None else None


# --- the system ---

def get_platform():
    """Returns sys.platform, with the names win32 and cygwin joined."""
    return "win32" if sys.platform.startswith(("win32", "cygwin")) else sys.platform


def get_gcc_version(run_lambda):
    """Returns gcc's version."""
    return run_and_parse_first_match(run_lambda, "gcc --version", r"gcc (.*)")


def get_clang_version(run_lambda):
    """Returns clang's version."""
    return run_and_parse_first_match(run_lambda, "clang --version", r"clang version (.*)")


def get_cmake_version(run_lambda):
    """Returns the line that names cmake's version."""
    return run_and_parse_first_match(run_lambda, "cmake --version", r"(cmake version .*|version .*)")


def get_mac_version(run_lambda):
    """Returns the version of macOS."""
    return run_and_return_first_line(run_lambda, "sw_vers -productVersion")


def get_windows_version(run_lambda):
    """Returns the name and version of Windows."""
    return run_and_read_all(run_lambda, 'powershell.exe -NoProfile -Command '
                            '"(Get-CimInstance Win32_OperatingSystem).Caption"')


def get_lsb_version(run_lambda):
    """Returns the distribution's description by lsb_release."""
    return run_and_parse_first_match(run_lambda, "lsb_release -a", r"Description:\t(.*)")


def check_release_file(run_lambda):
    """Returns the distribution's name by /etc/os-release."""
    return run_and_parse_first_match(run_lambda, "cat /etc/*-release", r'PRETTY_NAME="(.*)"')


def get_os(run_lambda):
    """Returns the operating system's name and the machine's kind."""
    kind = get_platform()
    if kind == "win32":
        return get_windows_version(run_lambda)
    if kind == "darwin":
        name = get_mac_version(run_lambda)
        return None if name is None else f"macOS {name} ({platform.machine()})"
    name = get_lsb_version(run_lambda) or check_release_file(run_lambda) if kind == "linux" else kind
    return f"{name or kind} ({platform.machine()})"


def get_python_platform():
    """Returns Python's description of the platform."""
    return platform.platform()


def get_libc_version():
    """Returns the C library's name and version."""
    return "-".join(platform.libc_ver()) if get_platform() == "linux" else "N/A"


def get_cpu_info(run_lambda):
    """Returns the processor's description."""
    command = {"linux": "lscpu", "darwin": "sysctl -n machdep.cpu.brand_string"}.get(get_platform())
    return (command and run_and_read_all(run_lambda, command)) or platform.processor() or None


# --- accelerators ---

def get_nvidia_smi():
    """Returns the command that describes NVIDIA's devices."""
    return "nvidia-smi"


def get_nvidia_driver_version(run_lambda):
    """Returns the driver's version."""
    return run_and_parse_first_match(run_lambda, get_nvidia_smi(), r"Driver Version: (.*?) ")


def get_gpu_info(run_lambda):
    """Returns the names of NVIDIA's devices, a line each."""
    text = run_and_read_all(run_lambda, get_nvidia_smi() + " -L")
    return None if text is None else re.sub(r"\(UUID: .+?\)", "", text)


def get_running_cuda_version(run_lambda):
    """Returns the version of the CUDA compiler."""
    return run_and_parse_first_match(run_lambda, "nvcc --version", r"release .+ V(.*)")


def get_cudnn_version(run_lambda):
    """Returns the paths of the cuDNN libraries that the loader knows."""
    text = run_and_read_all(run_lambda, "ldconfig -p | grep libcudnn | rev | cut -d' ' -f1 | rev")
    return "Probably one of the following:\n" + text if text else None


def get_cuda_module_loading_config():
    """Returns CUDA_MODULE_LOADING, which means nothing without CUDA."""
    from .. import cuda
    return os.environ.get("CUDA_MODULE_LOADING", "") if cuda.is_available() else "N/A"


def get_linux_pkg_version(run_lambda, pkg_name):
    """Returns the version of a package by dpkg or rpm; "N/A" without it."""
    for command in (f"dpkg-query -W -f='${{Version}}' {pkg_name}",
                    f"rpm -q --qf '%{{VERSION}}' {pkg_name}"):
        found = run_and_read_all(run_lambda, command)
        if found:
            return found
    return "N/A"


def get_intel_gpu_driver_version(run_lambda):
    """Returns the versions of Intel's driver packages, a line each."""
    names = ("intel-opencl-icd", "libze1", "level-zero")
    return "\n".join(f"* {name}:\t{get_linux_pkg_version(run_lambda, name)}" for name in names)


def get_intel_gpu_onboard(run_lambda):
    """Returns Intel's devices by lspci, a line each."""
    text = run_and_read_all(run_lambda, "lspci | grep -E 'VGA|Display' | grep -i intel")
    return "\n".join(f"* {line}" for line in text.split("\n")) if text else "N/A"


def get_intel_gpu_detected(run_lambda):
    """Returns the devices that torch.xpu finds, a line each."""
    from .. import xpu
    return "N/A" if not xpu.is_available() else "\n".join(
        f"* [{i}] {xpu.get_device_name(i)}" for i in range(xpu.device_count()))


def is_xnnpack_available():
    """Whether this build has XNNPACK."""
    return "False"


def get_cachingallocator_config():
    """Returns the environment's settings of device allocators."""
    names = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
    return {name: os.environ[name] for name in names if name in os.environ}


# --- packages ---

def _select(lines, patterns):
    return "\n".join(line for line in (lines or "").splitlines()
                     if not line.startswith("#") and any(name in line for name in patterns))


def get_pip_packages(run_lambda, patterns=None):
    """Returns pip's name and the lines of its list that have a pattern's word."""
    if patterns is None:
        patterns = PIP_PATTERNS | COMMON_PATTERNS | NVIDIA_PATTERNS | ONEAPI_PATTERNS
    lines = run_and_read_all(run_lambda, [sys.executable, "-mpip", "list", "--format=freeze"])
    return "pip3", None if lines is None else _select(lines, patterns)


def get_conda_packages(run_lambda, patterns=None):
    """Returns the lines of conda's list that have a pattern's word."""
    if patterns is None:
        patterns = CONDA_PATTERNS | COMMON_PATTERNS | NVIDIA_PATTERNS | ONEAPI_PATTERNS
    lines = run_and_read_all(run_lambda, [os.environ.get("CONDA_EXE", "conda"), "list"])
    return None if lines is None else _select(lines, patterns)


# --- the report ---

def _describe_python():
    text = sys.version.replace("\n", " ")
    return f"{text} ({sys.maxsize.bit_length() + 1}-bit runtime)"


def get_env_info():
    """Collects a SystemEnv."""
    from .. import cuda, xpu
    pip_version, pip_packages = get_pip_packages(run)
    has_cuda = cuda.is_available()
    return SystemEnv(
        torch_version=str(version.__version__), is_debug_build=str(version.debug),
        cuda_compiled_version=version.cuda, hip_compiled_version="N/A", os=get_os(run),
        gcc_version=get_gcc_version(run), clang_version=get_clang_version(run),
        cmake_version=get_cmake_version(run), libc_version=get_libc_version(),
        python_version=_describe_python(), python_platform=get_python_platform(),
        is_cuda_available=str(has_cuda), cuda_runtime_version=get_running_cuda_version(run),
        cuda_module_loading=get_cuda_module_loading_config(), nvidia_gpu_models=get_gpu_info(run),
        nvidia_driver_version=get_nvidia_driver_version(run), cudnn_version=get_cudnn_version(run),
        is_xpu_available=str(xpu.is_available()), hip_runtime_version="N/A",
        miopen_runtime_version="N/A", is_xnnpack_available=is_xnnpack_available(),
        caching_allocator_config=get_cachingallocator_config() or "N/A", pip_version=pip_version,
        pip_packages=pip_packages, conda_packages=get_conda_packages(run),
        cpu_info=get_cpu_info(run))


def _each_line(text, start):
    return "\n".join(start + line for line in text.split("\n"))


def pretty_str(envinfo):
    """Returns the report of a SystemEnv."""
    values = {name: _UNKNOWN if value is None else value or "No relevant packages"
              for name, value in envinfo._asdict().items()}
    if "\n" in str(values["nvidia_gpu_models"]):
        values["nvidia_gpu_models"] = "\n" + _each_line(values["nvidia_gpu_models"], "  ")
    values["pip_packages"] = _each_line(values["pip_packages"], f"[{envinfo.pip_version}] ")
    values["conda_packages"] = _each_line(values["conda_packages"], "[conda] ")
    return env_info_fmt.format(**values)


def get_pretty_env_info():
    """Returns the report."""
    return pretty_str(get_env_info())


def main():
    """Prints the report."""
    print("Collecting environment information...")
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
