"""NCCL: a GPU for each rank.  On GPUs: `make test-nccl`.  Without: the stand-ins of tests/fake_cuda.

The file needs no pytest: `python tests/dist/test_nccl.py` runs all tests."""
import glob
import os
import signal
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
PLACES = ("{}/lib/python3*/site-packages", "{}/lib/python3*/dist-packages", "{}/local/lib/python3*/dist-packages")
if "CR_NCCL" not in os.environ and "CR_CUDA" not in os.environ:
    for folder in sys.path + [p.format(prefix) for prefix in (sys.prefix, sys.base_prefix, "/usr", "/usr/local") for p in PLACES]:
        for found in glob.glob(f"{folder}/nvidia/nccl/lib/libnccl.so.2"):
            os.environ.setdefault("CR_NCCL", found)

import cresset as torch  # noqa: E402
import cresset.distributed as dist  # noqa: E402
import ranks  # noqa: E402

AVAILABLE = torch.cuda.is_available() and dist.is_nccl_available()
DEVICES = torch.cuda.device_count() if AVAILABLE else 0
NAMES = ["reductions", "movements", "host_goes_on", "memory_of_calls", "sharded_memory", "training", "refusals", "closed_while_connecting", "calls_that_differ",
         "a_rank_dies", *(f"objects_of_a_rank_that_dies {part}" for part in range(5))]
if any(dist.is_backend_available(b) for b in ("gloo", "mpi")):  # the other engine of a group for both devices
    NAMES.append("both_devices")


def check(name, size):
    """Runs a function of in_nccl.py in `size` ranks."""
    name, _, part = name.partition(" ")
    killed = [1] if "dies" in name else []
    result = ranks.run(os.path.join(HERE, "in_nccl.py"), name, size, "nccl", timeout=60.0, PART=part)
    assert not result.late and result.codes == [-signal.SIGKILL if r in killed else 0 for r in range(size)], result
    return result


if __name__ == "__main__":
    if DEVICES < 2:
        dist.distributed_c10d._C._comm_need("nccl")
        sys.exit(f"NCCL's tests need 2 GPUs; {DEVICES} are here")
    ranks.LIMIT = 300
    for _size in sorted({2, min(DEVICES, 4)}):
        for _name in NAMES:
            _result = check(_name, _size)
            print(f"{_size} ranks: {_name}: passed", *[t for t in _result.texts if t and _name == "a_rank_dies"], flush=True)
else:
    import pytest
    pytestmark = pytest.mark.skipif(DEVICES < 2, reason="NCCL's tests need 2 GPUs")

    @pytest.mark.parametrize("name", NAMES)
    def test_nccl(name):
        check(name, 2)

    @pytest.mark.skipif(DEVICES < 3, reason="needs 3 GPUs")
    @pytest.mark.parametrize("name", ["reductions", "movements", "a_rank_dies"])
    def test_nccl_on_3_gpus(name):
        check(name, 3)
