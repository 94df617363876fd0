"""Builds wheels and source archives (PEP 517, PEP 660): make compiles, this module packs.

Settings, as in `pip install . -C B=/tmp/build`: B the build folder, JOBS, FLAVOUR.
"""
import base64
import hashlib
import io
import os
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def project():
    with open(os.path.join(ROOT, "pyproject.toml"), "rb") as f:
        return tomllib.load(f)["project"]


def base_name():
    p = project()
    return f"{p['name']}-{p['version']}"


def wheel_tag():
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    return f"{python}-{python}-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"


def metadata():
    p = project()
    lines = ["Metadata-Version: 2.1", f"Name: {p['name']}", f"Version: {p['version']}",
             f"Summary: {p['description']}", f"Author: {p['authors'][0]['name']}",
             f"License: {p['license']['text']}", f"Requires-Python: {p['requires-python']}",
             "Description-Content-Type: text/markdown", ""]
    with open(os.path.join(ROOT, p["readme"]), encoding="utf-8") as f:
        return "\n".join(lines) + "\n" + f.read()


def make(settings):
    """Builds the package for this interpreter and returns its folder."""
    settings = settings or {}
    folder = settings.get("B", os.path.join(ROOT, "build"))
    command = ["make", "-C", ROOT, "--no-print-directory",
               f"-j{settings.get('JOBS', os.cpu_count() or 1)}", f"B={folder}",
               f"PYTHON={sys.executable}", f"FLAVOUR={settings.get('FLAVOUR', '')}", "pkg"]
    subprocess.run(command, check=True, stdout=sys.stderr)
    return os.path.join(folder, "pkg")


def package_files(folder):
    """Returns (name in the wheel, path) of the Python files and of this interpreter's
    extension."""
    extension = "_C" + sysconfig.get_config_var("EXT_SUFFIX")
    yield "cresset/" + extension, os.path.join(folder, "cresset", extension)
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
        self.add(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: cresset\n"
                                  "Root-Is-Purelib: false\n"
                                  f"Tag: {wheel_tag()}\n")
        with open(os.path.join(ROOT, "LICENSE"), "rb") as f:
            self.add(f"{info}/LICENSE", f.read())
        record = f"{info}/RECORD"
        self.zip.writestr(record, "\n".join(self.records + [f"{record},,"]) + "\n")
        self.zip.close()
        return self.name


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
