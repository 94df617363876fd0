"""Building extensions in C and C++: modules of Python, and libraries that register operators, with cresset.h.

Sources that include torch/extension.h cannot be compiled: there are no C++ headers of torch.
"""
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig

from .. import _C, _root
from ..torch_version import TorchVersion
from .file_baton import FileBaton

__all__ = ["BuildExtension", "CUDAExtension", "CppExtension", "SyclExtension", "check_compiler_is_gcc",
           "check_compiler_ok_for_platform", "get_compiler_abi_compatibility_and_version", "get_cxx_compiler",
           "get_default_build_root", "include_paths", "is_ninja_available", "library_paths", "load", "load_inline",
           "remove_extension_h_precompiler_headers", "verify_ninja_availability"]

MINIMUM_GCC_VERSION = (9, 0, 0)
LIB_EXT = EXEC_EXT = ".so"
CUDA_HOME = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH") or (
    os.path.dirname(os.path.dirname(shutil.which("nvcc"))) if shutil.which("nvcc") else None)


# --- the compiler ---

def get_cxx_compiler():
    """The C++ compiler: the environment's CXX, or c++."""
    return os.environ.get("CXX", "c++")


def _compiler_text(compiler, *options):
    try:
        done = subprocess.run([*shlex.split(compiler), *options], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout + done.stderr


def check_compiler_is_gcc(compiler):
    """Whether a command is g++ or gcc."""
    return "Free Software Foundation" in _compiler_text(compiler, "--version")


def check_compiler_ok_for_platform(compiler):
    """Whether a command is a C++ compiler that extensions are built with: g++ or clang++."""
    if shutil.which(shlex.split(compiler)[0]) is None:
        return False
    text = _compiler_text(compiler, "--version")
    return "Free Software Foundation" in text or "clang" in text


def get_compiler_abi_compatibility_and_version(compiler):
    """(whether the compiler is new enough, its version)."""
    if not check_compiler_ok_for_platform(compiler):
        return False, TorchVersion("0.0.0")
    if not check_compiler_is_gcc(compiler):
        return True, TorchVersion("0.0.0")
    version = _compiler_text(compiler, "-dumpfullversion", "-dumpversion").strip()
    return tuple(map(int, re.findall(r"\d+", version))) >= MINIMUM_GCC_VERSION, TorchVersion(version)


def is_ninja_available():
    """Whether the command ninja is there.  load() does not need it."""
    return shutil.which("ninja") is not None


def verify_ninja_availability():
    """Raises without the command ninja."""
    if not is_ninja_available():
        raise RuntimeError("Ninja is required to load C++ extensions (pip install ninja to get it)")


def remove_extension_h_precompiler_headers():
    """Removes the precompiled header that use_pch=True left next to the headers."""
    for folder in include_paths():
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            if name.endswith(".gch"):
                os.unlink(os.path.join(folder, name))


# --- folders ---

def include_paths(device_type="cpu", torch_include_dirs=True):
    """The folders of headers: that of cresset.h, and CUDA's for device_type "cuda"."""
    paths = [os.path.join(_root.HERE, "include")] if torch_include_dirs else []
    if device_type == "cuda" and CUDA_HOME:
        paths.append(os.path.join(CUDA_HOME, "include"))
    return paths


def library_paths(device_type="cpu", torch_include_dirs=True, cross_target_platform=None):
    """The folders of libraries: that of this package, and CUDA's for device_type "cuda"."""
    paths = [os.path.dirname(_C.__file__)] if torch_include_dirs else []
    if device_type == "cuda" and CUDA_HOME:
        paths.append(os.path.join(CUDA_HOME, "lib64"))
    return paths


def get_default_build_root():
    """~/.cache/torch_extensions (XDG_CACHE_HOME replaces ~/.cache): load() builds there without TORCH_EXTENSIONS_DIR."""
    return os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "torch_extensions")


def _build_directory(name):
    root = os.environ.get("TORCH_EXTENSIONS_DIR")
    if root is None:
        tag = f"py{sys.version_info.major}{sys.version_info.minor}{getattr(sys, 'abiflags', '')}_cpu"
        root = os.path.join(get_default_build_root(), tag)
    folder = os.path.join(root, name)
    os.makedirs(folder, exist_ok=True)
    return folder


# --- setuptools ---

def _extension(name, sources, device_type, args, options):
    import setuptools
    options["include_dirs"] = [*options.get("include_dirs", ()), *include_paths(device_type)]
    options["library_dirs"] = [*options.get("library_dirs", ()), *library_paths(device_type)]
    options["extra_link_args"] = [*options.get("extra_link_args", ()), _C.__file__]
    options["language"] = "c++"
    return setuptools.Extension(name, sources, *args, **options)


def CppExtension(name, sources, *args, **kwargs):
    """A setuptools.Extension in C or C++ with the folder of cresset.h, linked to this package."""
    return _extension(name, sources, "cpu", args, kwargs)


def CUDAExtension(name, sources, *args, **kwargs):
    """The same with CUDA's headers and libraries; sources that end in .cu are compiled by nvcc."""
    if CUDA_HOME is None:
        raise OSError("CUDA_HOME environment variable is not set. Please set it to your CUDA install root.")
    kwargs["libraries"] = [*kwargs.get("libraries", ()), "cudart"]
    return _extension(name, sources, "cuda", args, kwargs)


def SyclExtension(name, sources, *args, **kwargs):
    """An extension whose sources are compiled by Intel's icpx."""
    if shutil.which("icpx") is None:
        raise OSError("icpx, the compiler of SYCL, is not in PATH")
    made = _extension(name, sources, "cpu", args, kwargs)
    made.extra_compile_args = [*made.extra_compile_args, "-fsycl"]
    made.extra_link_args = [*made.extra_link_args, "-fsycl"]
    return made


def __getattr__(name):
    """BuildExtension, whose base is loaded with setuptools when it is first read."""
    if name != "BuildExtension":
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from setuptools.command.build_ext import build_ext

    class BuildExtension(build_ext):
        """setuptools' build_ext for these extensions: `cmdclass={"build_ext": BuildExtension}`.

        Setuptools runs the compilers, with use_ninja=True too: the option is taken and has no effect.
        """

        @classmethod
        def with_options(cls, **options):
            """A subclass whose objects get further options."""
            class cls_with_options(cls):
                def __init__(self, *args, **kwargs):
                    super().__init__(*args, **{**kwargs, **options})
            return cls_with_options

        def __init__(self, *args, **kwargs):
            self.no_python_abi_suffix = kwargs.pop("no_python_abi_suffix", False)
            kwargs.pop("use_ninja", None)
            super().__init__(*args, **kwargs)

        def build_extensions(self):
            """Compiles and links: C as C11, C++ as C++17, .cu by nvcc."""
            self.compiler.src_extensions += [".cu"]
            plain = self.compiler._compile

            def compile(target, source, ext, cc_args, extra, pp_opts):
                kind = "nvcc" if source.endswith(".cu") else "c" if source.endswith(".c") else "cxx"
                extra = list(extra.get(kind, ()) if isinstance(extra, dict) else extra)
                if kind == "nvcc":
                    before = self.compiler.compiler_so
                    self.compiler.set_executable("compiler_so", os.path.join(CUDA_HOME or "", "bin", "nvcc"))
                    try:
                        return plain(target, source, ext, cc_args, ["-Xcompiler", "-fPIC", *extra], pp_opts)
                    finally:
                        self.compiler.compiler_so = before
                standard = [] if any(x.startswith("-std=") for x in extra) else ["-std=c11" if kind == "c" else "-std=c++17"]
                return plain(target, source, ext, cc_args, [*standard, *extra], pp_opts)
            self.compiler._compile = compile
            super().build_extensions()

        def get_ext_filename(self, ext_name):
            """The file of a module; without Python's tag under no_python_abi_suffix."""
            name = super().get_ext_filename(ext_name)
            parts = name.split(".")
            return ".".join([*parts[:-2], parts[-1]]) if self.no_python_abi_suffix and len(parts) > 2 else name
    BuildExtension.__qualname__ = "BuildExtension"
    globals()["BuildExtension"] = BuildExtension
    return BuildExtension


# --- building at run time ---

def _command(source, target, flags, includes, cuda_flags):
    base = [f"-I{folder}" for folder in includes] + ["-c", source, "-o", target]
    if source.endswith(".cu"):
        return [os.path.join(CUDA_HOME or "", "bin", "nvcc"), "-Xcompiler", "-fPIC", *cuda_flags, *base]
    compiler = os.environ.get("CC", "cc") if source.endswith(".c") else get_cxx_compiler()
    standard = [] if any(f.startswith("-std=") for f in flags) else ["-std=c11" if source.endswith(".c") else "-std=c++17"]
    return [*shlex.split(compiler), "-fPIC", "-O2", *standard, *flags, *base]


def _run(name, command, verbose):
    if verbose:
        print(shlex.join(command), file=sys.stderr)
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        raise RuntimeError(f"Error building extension '{name}': {shlex.join(command)}\n{done.stdout}{done.stderr}")
    if verbose and (done.stdout or done.stderr):
        print(done.stdout + done.stderr, file=sys.stderr)


def _headers(objects):
    """The files that the compiler read for objects beside their sources, from the rules that -MMD wrote; None without rules."""
    found = set()
    for path in objects:
        try:
            with open(f"{path}.d", encoding="utf-8") as file:
                rule = file.read().replace("\\\n", " ").partition(": ")[2]
        except OSError:
            return None
        found.update(re.sub(r"\\(.)", r"\1", word) for word in re.findall(r"(?:\\.|\S)+", rule))
    return sorted(found)


def _digest(paths, commands):
    """A number of files' bytes and of the commands: equal ones are built once.  A missing file counts as empty."""
    made = hashlib.sha256(repr(commands).encode())
    for path in paths:
        made.update(path.encode())
        if os.path.exists(path):
            with open(path, "rb") as file:
                made.update(hashlib.sha256(file.read()).digest())
    return made.hexdigest()


def _compile(name, sources, target, options, verbose):
    """Compiles and links unless the target was made of the same files by the same commands."""
    objects = [f"{os.path.splitext(target)[0]}.{i}.o" for i in range(len(sources))]
    commands = [_command(source, made, options["cflags"], options["includes"], options["cuda_cflags"])
                for source, made in zip(sources, objects)]
    shared = [] if options["standalone"] else ["-shared"]
    new, stamp = f"{target}.new", f"{target}.digest"
    link = [*shlex.split(get_cxx_compiler()), *shared, *objects, _C.__file__, *options["ldflags"], "-o", new]
    headers = _headers(objects)
    if headers is not None and os.path.exists(target) and os.path.exists(stamp):
        with open(stamp, encoding="utf-8") as file:
            if file.read() == _digest([*sources, *headers], [*commands, link]):
                return
    for command, made in zip(commands, objects):
        _run(name, [*command, "-MMD", "-MF", f"{made}.d"], verbose)
    _run(name, link, verbose)
    os.replace(new, target)
    with open(stamp, "w", encoding="utf-8") as file:
        file.write(_digest([*sources, *(_headers(objects) or [])], [*commands, link]))
    for path in objects if not options["keep"] else ():
        os.unlink(path)


def _write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _under_lock(folder, build):
    """Calls build() while no other process builds in a folder."""
    baton = FileBaton(os.path.join(folder, "lock"))
    while not baton.try_acquire():
        baton.wait()
    try:
        build()
    finally:
        baton.release()


def _imported(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load(name, sources, extra_cflags=None, extra_cuda_cflags=None, extra_sycl_cflags=None, extra_ldflags=None,
         extra_include_paths=None, build_directory=None, verbose=False, with_cuda=None, with_sycl=None,
         is_python_module=True, is_standalone=False, keep_intermediates=True):
    """Builds an extension from sources in C, C++ or CUDA and loads it; equal sources are built once.

    Returns the module; with is_python_module=False the library is loaded, and its path is returned; with
    is_standalone=True a program is built, and its path is returned.
    """
    sources = [os.path.abspath(s) for s in ([sources] if isinstance(sources, str) else sources)]
    return _load(name, sources, {}, extra_cflags, extra_cuda_cflags, extra_sycl_cflags, extra_ldflags, extra_include_paths,
                 build_directory, verbose, with_cuda, with_sycl, is_python_module, is_standalone, keep_intermediates)


def _load(name, sources, texts, extra_cflags, extra_cuda_cflags, extra_sycl_cflags, extra_ldflags, extra_include_paths,
          build_directory, verbose, with_cuda, with_sycl, is_python_module, is_standalone, keep_intermediates):
    """load(), which writes the texts of sources, {path: text}, first."""
    if with_sycl or extra_sycl_cflags:
        raise NotImplementedError("load: sources in SYCL are not part of Cresset yet")
    with_cuda = any(s.endswith(".cu") for s in sources) if with_cuda is None else with_cuda
    folder = build_directory or _build_directory(name)
    target = os.path.join(folder, name if is_standalone else f"{name}.so")
    options = {"cflags": list(extra_cflags or ()), "cuda_cflags": list(extra_cuda_cflags or ()),
               "ldflags": [*(extra_ldflags or ()), *(["-lcudart"] if with_cuda else [])], "standalone": is_standalone,
               "includes": [*(extra_include_paths or ()), *include_paths("cuda" if with_cuda else "cpu"),
                            sysconfig.get_paths()["include"]], "keep": keep_intermediates}

    def build():
        for path, text in texts.items():
            _write(path, text)
        _compile(name, sources, target, options, verbose)
    _under_lock(folder, build)
    if is_standalone:
        return target
    if is_python_module:
        return _imported(name, target)
    import ctypes
    ctypes.CDLL(target, mode=ctypes.RTLD_GLOBAL)
    return target


def _bindings(functions):
    """The text of a module with functions, by pybind11."""
    if not isinstance(functions, dict):
        functions = {f: f for f in ([functions] if isinstance(functions, str) else functions)}
    lines = [f'    m.def("{f}", &{f}, "{text}");' for f, text in functions.items()]
    return "\n".join(["PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {", *lines, "}", ""])


def load_inline(name, cpp_sources, cuda_sources=None, sycl_sources=None, functions=None, extra_cflags=None,
                extra_cuda_cflags=None, extra_sycl_cflags=None, extra_ldflags=None, extra_include_paths=None,
                build_directory=None, verbose=False, with_cuda=None, with_sycl=None, is_python_module=True,
                with_pytorch_error_handling=True, keep_intermediates=True, use_pch=False, no_implicit_headers=False):
    """Builds an extension from texts in C++ and CUDA and loads it; see load().

    `functions` names functions that become functions of the module; the package pybind11 makes them and turns C++
    exceptions into Python's, so with_pytorch_error_handling has no effect.  Neither have use_pch and
    no_implicit_headers: there is no header of torch that is included or precompiled.
    """
    if sycl_sources:
        raise NotImplementedError("load_inline: sources in SYCL are not part of Cresset yet")
    texts = {"cpp": list([cpp_sources] if isinstance(cpp_sources, str) else cpp_sources),
             "cu": list([cuda_sources] if isinstance(cuda_sources, str) else cuda_sources or ())}
    includes, flags = list(extra_include_paths or ()), [*(extra_cflags or ()), f"-DTORCH_EXTENSION_NAME={name}"]
    if functions is not None:
        try:
            import pybind11
        except ImportError:
            raise RuntimeError("load_inline: functions= needs the package pybind11, which makes them functions of a "
                               "module; without it, the text must define PyInit_" + name) from None
        includes.append(pybind11.get_include())
        texts["cpp"] = ["#include <pybind11/pybind11.h>\n#include <pybind11/stl.h>", *texts["cpp"], _bindings(functions)]
    folder = build_directory or _build_directory(name)
    written = {os.path.abspath(os.path.join(folder, f"main.{ending}")): "\n".join(parts) for ending, parts in texts.items() if parts}
    return _load(name, list(written), written, flags, extra_cuda_cflags, extra_sycl_cflags, extra_ldflags, includes, folder,
                 verbose, with_cuda, with_sycl, is_python_module, False, keep_intermediates)
