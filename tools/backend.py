"""Builds wheels and source archives (PEP 517, PEP 660): make compiles, this module packs.

Settings, as in `pip install . -C B=/tmp/build`: B the build folder, JOBS, FLAVOUR.  Progress is
shown by `pip install -v .`.  The module runs on every Python 3 as far as the metadata, with which
pip tells the user of another version which ones are supported.
"""
import base64
import hashlib
import io
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import threading
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as f:
        return f.read()


def project(key):
    """Returns a text of pyproject.toml's project, whose values have one line each."""
    return re.search(rf'^{key} = .*?"([^"]*)"', read("pyproject.toml"), re.M).group(1)


def version():
    """Returns cresset.__version__."""
    text = read("python", "cresset", "version.py")
    own = re.search(r'^cresset = "(.*?)"', text, re.M).group(1)
    return re.search(r'^__version__ = TorchVersion\("(.*?)" \+ cresset\)', text, re.M).group(1) + own


def base_name():
    return f"{project('name')}-{version()}"


def wheel_tag():
    python = "cp{}{}".format(*sys.version_info)
    return f"{python}-{python}-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"


def metadata():
    return "\n".join(["Metadata-Version: 2.1", f"Name: {project('name')}", f"Version: {version()}",
                      f"Summary: {project('description')}", f"Author: {project('authors')}",
                      f"License: {project('license')}", f"Requires-Python: {project('requires-python')}",
                      *extras(),
                      "Description-Content-Type: text/markdown", "", read(project("readme"))])


def extras():
    """Yields the metadata's lines of pyproject.toml's optional dependencies."""
    table = read("pyproject.toml").partition("[project.optional-dependencies]\n")[2].partition("\n\n")[0]
    for name, needs in re.findall(r"^(\w+) = \[(.*)\]$", table, re.M):
        yield f"Provides-Extra: {name}"
        yield from (f"Requires-Dist: {need}; extra == '{name}'" for need in re.findall(r'"([^"]+)"', needs))


def wheel_text():
    return f"Wheel-Version: 1.0\nGenerator: cresset\nRoot-Is-Purelib: false\nTag: {wheel_tag()}\n"


def check():
    """Ends with one line when something that the build needs is missing."""
    if not (3, 11) <= sys.version_info[:2] <= (3, 13):
        sys.exit(f"cresset: CPython 3.11, 3.12 or 3.13 is needed, and this is {sys.version.split()[0]}")
    done = subprocess.run(["/bin/sh", os.path.join(ROOT, "tools", "deps.sh"), sys.executable], stderr=subprocess.PIPE,
                          universal_newlines=True)
    if done.returncode:
        sys.exit(done.stderr.rstrip())


def show_progress(command, ended):
    """Prints how many files are compiled, every five seconds until the event is set."""
    objects = subprocess.run(command + ["-s", "pkg-objects"], stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, universal_newlines=True).stdout.split()
    while not ended.wait(5):
        compiled = sum(os.path.exists(os.path.join(ROOT, name)) for name in objects)
        print(f"cresset: {compiled} of {len(objects)} files are compiled", file=sys.stderr, flush=True)


def make(settings):
    """Builds the package for this interpreter and returns its folder."""
    check()
    settings = settings or {}
    folder = settings.get("B", os.path.join(ROOT, "build"))
    command = ["make", "-C", ROOT, "--no-print-directory", f"B={folder}", f"PYTHON={sys.executable}",
               f"FLAVOUR={settings.get('FLAVOUR', '')}"]
    jobs = settings.get("JOBS", os.cpu_count() or 1)
    ended = threading.Event()
    progress = threading.Thread(target=show_progress, args=(command, ended))
    progress.start()
    try:
        done = subprocess.run(command + [f"-j{jobs}", "pkg"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              universal_newlines=True)
    finally:
        ended.set()
        progress.join()
    if done.returncode:
        sys.exit(f"cresset: make failed\n{done.stdout}")
    return os.path.join(folder, "pkg")


def package_files(folder):
    """Returns (name in the wheel, path) of the Python files and of this interpreter's
    extension."""
    extension = "_C" + sysconfig.get_config_var("EXT_SUFFIX")
    yield "cresset/" + extension, os.path.join(folder, "cresset", extension)
    gloo = os.path.join(folder, "cresset", "libcresset_gloo.so")
    if os.path.exists(gloo):
        yield "cresset/libcresset_gloo.so", gloo
    for where, _, files in sorted(os.walk(os.path.join(folder, "cresset", "include"))):
        for name in sorted(files):  # for utils.cpp_extension
            path = os.path.join(where, name)
            yield os.path.relpath(path, folder), path
    stubs = os.path.join(folder, "cresset-stubs")
    env = {**os.environ, "PYTHONPATH": folder}
    subprocess.run([sys.executable, os.path.join(ROOT, "tools", "stubs.py"), stubs], check=True, env=env)
    for where, _, files in sorted(os.walk(stubs)):
        for name in sorted(files):
            path = os.path.join(where, name)
            yield os.path.relpath(path, folder), path
    source = os.path.join(ROOT, "python")
    for where, folders, files in os.walk(os.path.join(source, "cresset")):
        folders[:] = sorted(f for f in folders if f != "__pycache__")
        for name in sorted(files):
            path = os.path.join(where, name)
            if name.endswith((".py", ".pyi", ".typed")):
                yield os.path.relpath(path, source), path


def stripped(path):
    """Returns the extension without debugging information, which is most of it."""
    target = path + ".stripped"
    subprocess.run(["strip", "-g", "-o", target, path], check=True)
    with open(target, "rb") as f:
        content = f.read()
    os.remove(target)
    return content


ENTRY_POINTS = "[console_scripts]\ncresset = cresset.run:cresset_command\ncrc = cresset.run:crc_command\n"


class Wheel:
    def __init__(self, folder):
        self.name = f"{base_name()}-{wheel_tag()}.whl"
        self.zip = zipfile.ZipFile(os.path.join(folder, self.name), "w", zipfile.ZIP_DEFLATED)
        self.records = []

    def add(self, name, content, mode=0o644):
        if isinstance(content, str):
            content = content.encode()
        info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
        info.compress_type = zipfile.ZIP_DEFLATED
        info.external_attr = (0o100000 | mode) << 16
        self.zip.writestr(info, content)
        digest = hashlib.sha256(content).digest()
        digest = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        self.records.append(f"{name},sha256={digest},{len(content)}")

    def close(self):
        info = f"{base_name()}.dist-info"
        self.add(f"{info}/METADATA", metadata())
        self.add(f"{info}/WHEEL", wheel_text())
        self.add(f"{info}/LICENSE", read("LICENSE"))
        self.add(f"{info}/entry_points.txt", ENTRY_POINTS)
        record = f"{info}/RECORD"
        self.zip.writestr(record, "\n".join(self.records + [f"{record},,"]) + "\n")
        self.zip.close()
        return self.name


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """Writes the metadata, for which nothing is compiled."""
    name = f"{base_name()}.dist-info"
    os.makedirs(os.path.join(metadata_directory, name))
    for file, text in ("METADATA", metadata()), ("WHEEL", wheel_text()):
        with open(os.path.join(metadata_directory, name, file), "w", encoding="utf-8") as f:
            f.write(text)
    return name


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    folder = make(config_settings)
    wheel = Wheel(wheel_directory)
    for name, path in package_files(folder):
        if name.endswith(".so"):
            wheel.add(name, stripped(path), 0o755)
        else:
            with open(path, "rb") as f:
                wheel.add(name, f.read())
    return wheel.close()


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    folder = make(config_settings)
    wheel = Wheel(wheel_directory)
    wheel.add("cresset.pth", os.path.abspath(folder) + "\n")
    return wheel.close()


def build_sdist(sdist_directory, config_settings=None):
    name = base_name()
    with tarfile.open(os.path.join(sdist_directory, name + ".tar.gz"), "w:gz") as tar:
        def visible(info):
            return None if os.path.basename(info.name) == "__pycache__" else info
        for entry in sorted(os.listdir(ROOT)):
            if not entry.startswith(".") and entry not in ("build", "out"):
                tar.add(os.path.join(ROOT, entry), f"{name}/{entry}", filter=visible)
        info = tarfile.TarInfo(f"{name}/PKG-INFO")
        content = metadata().encode()
        info.size = len(content)
        tar.addfile(info, io.BytesIO(content))
    return name + ".tar.gz"
