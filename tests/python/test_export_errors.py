"""Wrong arguments of export(), save(), load() and of the functions that write programs: torch's class and words where torch has
the function."""
import io
import os
import zipfile

import cresset as torch
import pytest
from cresset import nn
from cresset.export import Dim, export, load, register_dataclass, save, to_c, to_rt

X = torch.zeros(4, 3)


class Two(nn.Module):
    def forward(self, a, b=None):
        return a + (b if b is not None else 0)


@pytest.fixture(scope="module")
def program():
    return export(nn.Linear(3, 2), (X,))


@pytest.fixture(scope="module")
def folder(tmp_path_factory, program):
    """Files that are no programs."""
    folder = tmp_path_factory.mktemp("wrong")
    (folder / "folder.pt2").mkdir()
    (folder / "foreign.pt2").write_bytes(b"hello world" * 50)
    (folder / "empty.pt2").write_bytes(b"")
    with zipfile.ZipFile(folder / "other.pt2", "w") as archive:
        archive.writestr("a/b.txt", "text")
    save(program, folder / "program.pt2")
    content = (folder / "program.pt2").read_bytes()
    (folder / "cut.pt2").write_bytes(content[:len(content) // 2])
    return folder


# --- sizes that vary ---

@pytest.mark.parametrize("shape, kind, words", [
    ({5: Dim("a")}, IndexError, "`dynamic_shapes\\['input'\\]` has the dim 5, but the tensor has 2 dims"),
    ({-3: Dim("a")}, IndexError, "has the dim -3, but the tensor has 2 dims"),
    ({"0": Dim("a")}, TypeError, "list indices must be integers or slices, not str"),
    ({0: "a"}, RuntimeError, r"mapped to index 0 in input tensor shape \{0: 'a'\} specified at `dynamic_shapes\['input'\]`"),
    ({0: 1.5}, RuntimeError, r"Dim.STATIC, or Dim.DYNAMIC,  but got 1.5 instead"),
    (["a", None], RuntimeError, r"dimension #0 in input tensor shape \['a', None\] specified at `dynamic_shapes\['input'\]`"),
])
def test_dims_that_no_tensor_has(shape, kind, words):
    with pytest.raises(kind, match=words):
        export(nn.Linear(3, 2), (X,), dynamic_shapes={"input": shape})


def test_a_number_has_no_sizes():
    with pytest.raises(RuntimeError, match="Cannot associate shape .* to non-tensor type <class 'int'>"):
        export(Two(), (X, 3), dynamic_shapes={"a": None, "b": {0: Dim("a")}})


def test_a_bound_that_is_no_number():
    with pytest.raises(TypeError, match="'>' not supported between instances of 'str' and 'int'"):
        Dim("a", max="4")


# --- files ---

@pytest.mark.parametrize("name, kind, words", [
    ("none.pt2", FileNotFoundError, "No such file or directory: .*none.pt2"),
    ("folder.pt2", IsADirectoryError, "Is a directory: .*folder.pt2"),
    ("foreign.pt2", zipfile.BadZipFile, "File is not a zip file"),
    ("empty.pt2", zipfile.BadZipFile, "File is not a zip file"),
    ("cut.pt2", zipfile.BadZipFile, "File is not a zip file"),
    ("other.pt2", RuntimeError, "the archive has no models/model.json"),
])
def test_load_of_what_is_no_program(name, kind, words, folder):
    with pytest.raises(kind, match=words):
        load(folder / name)


@pytest.mark.parametrize("what", [None, 3, []])
def test_load_of_what_is_no_file(what):
    with pytest.raises(AttributeError, match=f"'{type(what).__name__}' object has no attribute 'tell'"):
        load(what)
    with pytest.raises(AttributeError, match=f"'{type(what).__name__}' object has no attribute 'tell'"):
        torch._inductor.aoti_load_package(what)


def test_load_of_an_empty_buffer():
    with pytest.raises(zipfile.BadZipFile, match="File is not a zip file"):
        load(io.BytesIO())
    with pytest.raises(RuntimeError, match="Failed to initialize zip archive: not a ZIP archive"):
        torch._inductor.aoti_load_package(io.BytesIO(b"abc"))


@pytest.mark.parametrize("name, words", [
    ("none.pt2", "Failed to initialize zip archive: file open failed: .*none.pt2"),
    ("folder.pt2", "Failed to find a generated cpp file or so file for model 'model' in the directory"),
    ("foreign.pt2", "Failed to initialize zip archive: .*foreign.pt2 is not a ZIP archive"),
    ("empty.pt2", "Failed to initialize zip archive: .*empty.pt2 is not a ZIP archive"),
    ("other.pt2", "other.pt2 is not a compiled model"),
    ("program.pt2", "program.pt2 is not a compiled model"),
])
def test_packages_that_are_none(name, words, folder):
    with pytest.raises(RuntimeError, match=words):
        torch._inductor.aoti_load_package(folder / name)


def test_save_to_wrong_places(program, folder):
    with pytest.raises(RuntimeError, match="Parent directory .*/none does not exist."):
        save(program, folder / "none" / "a.pt2")
    with pytest.raises(OSError, match="folder.pt2"):
        save(program, folder / "folder.pt2")
    for what in (None, 7):
        with pytest.raises(AttributeError, match=f"'{type(what).__name__}' object has no attribute 'write'"):
            save(program, what)
    with pytest.raises(AssertionError, match="Expected string but got <class 'int'>"):
        save(program, folder / "a.pt2", extra_files={"a": 3})
    assert not (folder / "a.pt2").exists()


# --- functions that write files ---

@pytest.mark.parametrize("write", [to_c, to_rt])
def test_paths_of_files_that_cannot_be_written(write, program, folder):
    for path in (3, True, ["a.c"]):
        with pytest.raises(TypeError, match=f"{write.__name__}: the path is a str or os.PathLike, not {type(path).__name__}"):
            write(program, path)
    with pytest.raises(IsADirectoryError, match="folder.pt2"):
        write(program, folder / "folder.pt2")
    with pytest.raises(FileNotFoundError, match="none"):
        write(program, folder / "none" / "model")
    assert os.listdir(folder / "folder.pt2") == []


def test_wrong_options_of_to_c(program):
    for name in (3, None, "", "2a", "a-b"):
        with pytest.raises(ValueError, match="is no name of C"):
            to_c(program, name=name)
    for threads in (4, "yes", None):
        with pytest.raises(TypeError, match="to_c: threads is True or False, not"):
            to_c(program, threads=threads)
    with pytest.raises(ValueError, match=r"weights is 'array' or 'file', not \['file'\]"):
        to_c(program, weights=["file"])


def test_wrong_arguments_of_onnx(folder):
    def write(**given):
        torch.onnx.export(nn.Linear(3, 2), **{"args": (X,), "f": folder / "a.onnx", **given})
    for name, value, words in [("args", 3, "args is a tuple of the example's arguments, not int"),
                               ("f", 3, "f is a path or an open binary file, not int"),
                               ("input_names", 3, "input_names is a list of str, not 3"),
                               ("output_names", "out", "output_names is a list of str, not 'out'"),
                               ("dynamic_axes", [0], "dynamic_axes is a dict, not list")]:
        with pytest.raises(TypeError, match=words):
            write(**{name: value})
    assert not (folder / "a.onnx").exists()


def test_a_class_that_is_no_dataclass():
    with pytest.raises(ValueError, match="field_names must be specified with a list of all fields used to initialize .*Two'>, as it is "
                                         "not a dataclass."):
        register_dataclass(Two)
