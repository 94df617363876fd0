"""Other libraries of the program that use OpenMP keep their number of threads."""
import ctypes

import pytest

import cresset as torch


def test_convolutions_leave_openmp_as_it_was():
    if not torch.backends.mkldnn.is_available():
        pytest.skip("there is no oneDNN")
    conv = torch.nn.functional.conv2d
    torch_threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        conv(torch.ones(64, 8, 16, 16), torch.ones(8, 8, 3, 3))
        try:
            openmp = ctypes.CDLL("libgomp.so.1")
        except OSError:
            pytest.skip("oneDNN uses another OpenMP")
        openmp.omp_set_num_threads(3)
        for batch in (1, 64):
            conv(torch.ones(batch, 8, 16, 16), torch.ones(8, 8, 3, 3))
            assert openmp.omp_get_max_threads() == 3
    finally:
        torch.set_num_threads(torch_threads)
