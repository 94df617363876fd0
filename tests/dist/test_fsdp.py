"""fully_shard in several processes: losses of one process, policies, memory, checkpoints, refusals."""
import os
import subprocess
import sys

import pytest

import cresset
import cresset.distributed as dist
import ranks

BACKENDS = [b for b in ("gloo", "mpi") if dist.is_backend_available(b)]
HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "in_fsdp.py")


def passes(name, size, backend=None, **env):
    result = ranks.run(HERE, name, size, backend or BACKENDS[0], **env)
    assert not result.late and result.codes == [0] * size, result


@pytest.mark.parametrize("size, backend", [(2, b) for b in BACKENDS] +
                         [pytest.param(4, b, marks=pytest.mark.full) for b in BACKENDS[:1]])
@ranks.forms()
def test_losses_equal_those_of_one_process(size, backend, short):
    passes("equal_to_one_process", size, backend, RANKS_SHORT=short)


def test_one_rank():
    passes("one_rank", 1)


@ranks.forms()
def test_a_mesh_of_two_dimensions(short):
    passes("two_dims", 4, RANKS_SHORT=short)


@ranks.forms()
def test_parts_of_forward_that_run_again(short):
    passes("recomputed", 2, RANKS_SHORT=short)


@pytest.mark.parametrize("name", ["accumulated", "mixed_precision", "overlapped", "memory", "resharded", "interface", "changed_weights",
                                  "without_gradient", "compiled_modules", "clipped", "methods", "state_dicts", "wrapped", "wrapped_precision", "wrapped_meta"])
def test_behaviour(name):
    passes(name, 2)


@ranks.forms()
def test_parts_of_tensor_parallel_parameters(tmp_path, short):
    passes("tensor_parallel", 4, RANKS_FOLDER=str(tmp_path), RANKS_SHORT=short)


def test_checkpoints(tmp_path):
    passes("checkpoints", 2, RANKS_FOLDER=str(tmp_path))


AS_TORCH = """
import torch, torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, distribute_tensor
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
plain, whole = (torch.nn.Parameter(torch.ones(2)) for _ in range(2))
whole = torch.nn.Parameter(distribute_tensor(whole.detach(), init_device_mesh("cpu", (1,)), [Replicate()]))
(plain.sum() + whole.sum().to_local()).backward()
try:
    torch.nn.utils.clip_grad_norm_([whole, plain], 0.1)
except RuntimeError as error:
    print(error, whole.grad.to_local().tolist())
dist.destroy_process_group()
"""


@pytest.mark.skipif("gloo" not in BACKENDS, reason="needs gloo")
def test_clipping_under_the_name_torch():
    package = os.path.dirname(cresset.__file__)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([os.path.join(package, "_as_torch"), os.path.dirname(package)])}
    done = subprocess.run([sys.executable, "-c", AS_TORCH], capture_output=True, text=True, env=env, timeout=300)
    assert done.returncode == 0 and done.stdout.startswith("aten._foreach_norm.Scalar got mixed torch.Tensor and DTensor"), done
    assert done.stdout.endswith("[1.0, 1.0]\n")


@pytest.mark.parametrize("dtype", [cresset.float32, cresset.bfloat16, cresset.uint8])
def test_parts_that_ranks_sent_become_tensors(dtype):
    cresset.manual_seed(0)
    want = [cresset.randint(0, 100, size).to(dtype) for size in ((6, 5), (3,), (9, 2, 2), (0, 4))]
    every = cresset.cat([w.view(3, -1)[r] for r in range(3) for w in want if w.numel()])
    have = [cresset.zeros_like(w) for w in want]
    versions = [h._version for h in have]
    cresset._C._comm_take_gathered(every, have, 3)
    assert all(cresset.equal(h, w) for h, w in zip(have, want)) and [h._version for h in have] == versions
    for wrong in (have[1:], [*have[:3], cresset.zeros(4, 4, dtype=dtype)], [h.t() if h.dim() == 2 else h for h in have],
                  [h.to(cresset.float64) for h in have]):
        with pytest.raises(ValueError, match="the parts of 3 ranks do not fit the tensors"):
            cresset._C._comm_take_gathered(every, wrong, 3)
    with pytest.raises(ValueError, match="do not fit"):
        cresset._C._comm_take_gathered(every, have, 2)
    assert all(cresset.equal(h, w) for h, w in zip(have, want))
