"""DistributedDataParallel: losses of one process, arguments, hooks, refusals, faults."""
import os
import signal

import pytest

import cresset as torch
import cresset.distributed as dist
import ranks

BACKENDS = [b for b in ("mpi", "gloo") if dist.is_backend_available(b)]
HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "in_ddp.py")


def passes(name, size, backend, killed=(), **env):
    result = ranks.run(HERE, name, size, backend, **env)
    assert not result.late and result.codes == [-signal.SIGKILL if r in killed else 0 for r in range(size)], result


@pytest.mark.parametrize("size, backend", [(4 if b == "mpi" else 2, b) for b in BACKENDS])
def test_losses_equal_those_of_one_process(size, backend):
    passes("equal_to_one_process", size, backend)


def test_arguments_and_methods():
    passes("arguments_and_methods", 2, BACKENDS[0])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_rank_that_dies_in_backward_is_named(backend):
    passes("a_rank_dies_in_backward", 3, backend, killed=[1])


@pytest.mark.parametrize("count, sizes", [(8, (1, 2, 4)), (12, (1, 3))])
def test_the_number_of_ranks_does_not_change_bits(tmp_path, count, sizes):
    for size in sizes:
        passes("deterministic_ranks", size, BACKENDS[0], PARTS=str(count), BITS=str(tmp_path / "bits"))
    bits = [(tmp_path / f"bits.{size}").read_bytes() for size in sizes]
    assert len(bits[0]) > 20000 and all(b == bits[0] for b in bits)


def test_functions_of_modules_are_applied_once_and_keep_names():
    from cresset.distributed._composable import contract, replicate

    @contract()
    def marks(module):
        marks.state(module).number = 7

    @contract()
    def wraps(module):
        return torch.nn.Sequential(module)
    model = torch.nn.Linear(2, 1)
    assert marks(model) is model and marks.state(model).number == 7 and wraps.state(model) is None
    with pytest.raises(AssertionError, match="marks has already been applied"):
        marks(model)
    with pytest.raises(RuntimeError, match="Checking parameters: Composable distributed API implementations cannot modify FQNs"):
        wraps(model)
    with pytest.raises(RuntimeError, match="Expected device_id to be int or torch.device"):
        replicate(model, device_id="cpu")


def test_optimizers_step_in_backward():
    from cresset.distributed.optim import _apply_optimizer_in_backward, _get_in_backward_optimizers

    def weights(in_backward):
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh(), torch.nn.Linear(3, 3))
        model[2].weight = model[0].weight
        optimizers = []
        for momentum in (0.5, 0.25):
            if in_backward:
                _apply_optimizer_in_backward(torch.optim.SGD, model.parameters(), {"lr": 0.1, "momentum": momentum})
            else:
                optimizers.append(torch.optim.SGD(model.parameters(), lr=0.1, momentum=momentum))
        for _ in range(3):
            model(torch.ones(2, 3)).square().sum().backward()
            for optimizer in optimizers:
                optimizer.step()
            assert not in_backward or all(p.grad is None for p in model.parameters())
            model.zero_grad()
        assert len(_get_in_backward_optimizers(model)) == 6 * in_backward
        return list(model.parameters())
    assert all(torch.equal(a, b) for a, b in zip(weights(True), weights(False)))


def test_hooks_that_cannot_work_are_refused():
    from cresset.nn.parallel.distributed import _check_hook

    def takes(state, bucket: int):
        pass

    def returns(state, bucket: dist.GradBucket) -> int:
        pass

    def works(state, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        pass
    _check_hook(works)
    for hook, kind, words in ((1, TypeError, "must be callable"), (takes, ValueError, "bucket annotation should be"),
                              (returns, ValueError, "return annotation should be torch.futures.Future")):
        with pytest.raises(kind, match=words):
            _check_hook(hook)
    dist.init_process_group("fake", rank=0, world_size=2, store=dist.HashStore())
    try:
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
        model.register_comm_hook(None, lambda state, bucket: 1)
        with pytest.raises(RuntimeError, match="can only be called once"):
            model.register_comm_hook(None, works)
        with pytest.raises(RuntimeError, match="callback must return a torch.futures.Future object, but got int"):
            model(torch.ones(1, 2)).sum().backward()
    finally:
        dist.destroy_process_group()


def test_variables_of_the_environment_are_printed(monkeypatch, capsys):
    monkeypatch.setenv("MASTER_PORT", "4711")
    monkeypatch.delenv("NCCL_TOPO_DUMP_FILE", raising=False)
    monkeypatch.setenv("OTHER", "1")
    torch.nn.parallel.distributed._dump_DDP_relevant_env_vars()
    lines = capsys.readouterr().out.splitlines()
    # torch 2.13's number of lines; the last is the end of print
    assert len(lines) == 48 and lines[0].startswith("env:RANK=") and lines[-1] == ""
    assert "env:MASTER_PORT=4711" in lines and "env:NCCL_TOPO_DUMP_FILE=N/A" in lines
    assert not any("OTHER" in line for line in lines)
