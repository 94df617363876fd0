"""Comparison of results, and random inputs for tests."""
from ._comparison import assert_allclose, assert_close
from ._creation import make_tensor
from ._file_check import FileCheck

__all__ = ["assert_close", "assert_allclose", "make_tensor", "FileCheck"]
