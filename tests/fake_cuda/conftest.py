"""FAKE_CUDA_PART=1/3: the second of three parts of the tests, for processes that share them."""
import os

import pytest


def pytest_collection_modifyitems(config, items):
    part, _, parts = os.environ.get("FAKE_CUDA_PART", "0/1").partition("/")
    kept = set(items[int(part)::int(parts)])
    config.hook.pytest_deselected(items=[i for i in items if i not in kept])
    items[:] = [i for i in items if i in kept]


@pytest.fixture
def host_fallback():
    """The host computes entries that have no kernel for CUDA."""
    import cresset as torch
    torch.backends.cuda.enable_host_fallback(True)
    yield
    torch.backends.cuda.enable_host_fallback(False)
