"""torch.ops.load_library: shared objects, which may be linked to torch's own libraries."""
import subprocess
from importlib.machinery import ExtensionFileLoader, ModuleSpec

import pytest

import cresset as torch
from cresset import _root


def compile_library(folder, source, *options):
    path = folder / "lib.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", path, *options], input=source,
                   text=True, check=True)
    return path


def test_a_library_is_loaded(tmp_path):
    mark = tmp_path / "loaded"
    path = compile_library(tmp_path, f"""
#include <stdio.h>
__attribute__((constructor)) static void start(void) {{ fclose(fopen("{mark}", "w")); }}
""")
    torch.ops.load_library(path)
    assert mark.exists() and str(path) in torch.ops.loaded_libraries


def test_a_library_linked_to_torch_is_not_opened(tmp_path):
    mark = tmp_path / "loaded"
    (tmp_path / "libtorch_cpu.so").symlink_to(compile_library(tmp_path, "", "-Wl,-soname,libtorch_cpu.so"))
    extension = tmp_path / "extension"
    extension.mkdir()
    path = compile_library(extension, f"""
#include <stdio.h>
__attribute__((constructor)) static void start(void) {{ fclose(fopen("{mark}", "w")); }}
""", "-Wl,--no-as-needed", f"-L{tmp_path}", "-ltorch_cpu")
    with pytest.raises(ImportError, match=r"lib\.so is linked to libtorch_cpu\.so, the C\+\+ library"):
        torch.ops.load_library(path)
    assert not mark.exists() and str(path) not in torch.ops.loaded_libraries


def test_a_missing_library_is_named(tmp_path):
    with pytest.raises(OSError, match="nowhere.so"):
        torch.ops.load_library(tmp_path / "nowhere.so")


def test_an_extension_whose_operators_the_table_has_is_not_opened(tmp_path):
    folder = tmp_path / "torchvision"
    folder.mkdir()
    (folder / "_C.so").write_bytes(b"\0libtorch.so\0")
    torch.ops.load_library(folder / "_C.so")
    assert str(folder / "_C.so") not in torch.ops.loaded_libraries
    (folder / "image.so").write_bytes(b"\0libtorch.so\0")
    with pytest.raises(ImportError, match="image.so is linked to libtorch.so"):
        torch.ops.load_library(folder / "image.so")
    other = tmp_path / "other"
    other.mkdir()
    (other / "_C.so").write_bytes(b"\0libtorch.so\0")
    with pytest.raises(ImportError, match="_C.so is linked to libtorch.so"):
        torch.ops.load_library(other / "_C.so")


def test_an_extension_that_cannot_be_read_gives_its_import_error(tmp_path):
    loader = ExtensionFileLoader("gone", str(tmp_path / "gone.so"))
    with pytest.raises(ImportError, match="gone.so"):
        _root._create_or_explain(loader, ModuleSpec("gone", loader, origin=loader.path))
