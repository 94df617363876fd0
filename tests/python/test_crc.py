"""The command crc, as its users see it."""
import os
import subprocess

import pytest

CRC = os.path.join(os.environ.get("CRESSET_BUILD", "build"), "crc")
TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def explain(name):
    if not os.path.exists(CRC):
        pytest.skip("make build/crc makes the command")
    return subprocess.run([CRC, "explain", name], capture_output=True, text=True, check=True, cwd=TOP).stdout


def test_explain_prints_the_kernel_the_derivative_and_the_tests_of_an_entry():
    text = explain("logaddexp2")
    assert "d self: (g / (1 + exp2((other - self))))" in text and "\nvoid CK(logaddexp2_f32)" in text
    assert "-- CUDA C++" in text and "CK_KERNEL(CK(logaddexp2_f32), ck_call<3, 1>)" in text
    assert "values against numpy.logaddexp2(self, other); gradients against differences;" in text
    assert "-- part" not in text


def test_explain_follows_a_composition_to_its_kernels_and_derivatives():
    text = explain("layer_norm")
    outer, first, *others = text.split("-- part: ")
    assert outer.startswith("layer_norm(") and "native_layer_norm(input" in outer and "void CK" not in outer
    assert first.startswith("native_layer_norm(") and "  d weight: " in first
    kernel, = (part for part in others if part.startswith("_layer_norm("))
    assert "void CK(_layer_norm_f32)" in kernel
    assert any(part.startswith("_layer_norm_parameters(") for part in others)  # of the gradients


def test_explain_names_the_tests_that_call_an_entry():
    assert os.path.join("tests", "python", "test_log.py") in explain("silu")


def test_explain_names_recorded_results_that_are_the_reference():
    assert "OP=linalg_cholesky: calls recorded from torch" in explain("linalg_cholesky")


def test_kernels_prints_a_file_in_either_dialect():
    texts = {}
    for dialect in ("c", "cuda"):
        texts[dialect] = subprocess.run([CRC, "kernels", dialect, "sum", "asin"], capture_output=True, text=True,
                                        check=True).stdout
        assert "/* kernel sum_f32: results f32; arguments f32; parameters f32@0 */" in texts[dialect]
        assert "/* asin_c64 calls the C library */" in texts[dialect] and "CK(asin_f32)" in texts[dialect]
    assert texts["c"].startswith('#include "emit/vec.h"') and "CK_DEFINE_CHUNKS(add, f64)" in texts["c"]
    assert '#include "emit/vec.cuh"' in texts["cuda"].splitlines()[:2] and "CK_DEFINE_BLOCKS(add, f64)" in texts["cuda"]
    wrong = subprocess.run([CRC, "kernels", "fortran"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 2 and "usage: crc kernels c|cuda" in wrong.stderr
    absent = subprocess.run([CRC, "kernels", "c", "sum", "summ"], capture_output=True, text=True, check=False)
    assert absent.returncode == 1 and not absent.stdout and "no operator is called 'summ'" in absent.stderr


def test_the_entries_that_the_host_computes_for_cuda_are_few_and_listed():
    if not os.path.exists(CRC):
        pytest.skip("make build/crc makes the command")
    found = subprocess.run([CRC, "host", "cuda"], capture_output=True, text=True, check=True, cwd=TOP).stdout.split()
    with open(os.path.join(TOP, "docs", "cuda.md")) as page:
        listed = page.read().split("printed by `crc host cuda`:\n\n", 1)[1].split("\n\n", 1)[0].split()
    assert sorted(found) == sorted(listed) and len(found) < 15
