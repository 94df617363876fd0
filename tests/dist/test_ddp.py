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


def test_a_compiled_backward_overlaps_with_calls():
    passes("compiled_backward_overlaps", 2, BACKENDS[0])


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


def test_facts_are_torchs(monkeypatch):
    """Names and values that torch 2.13 gives for the same module with Gloo, but for times, paths and the backend's own."""
    for name in ("MASTER_ADDR", "CUDA_VISIBLE_DEVICES", "TORCH_DISTRIBUTED_DEBUG", "GLOO_SOCKET_IFNAME", "GLOO_DEVICE_TRANSPORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MASTER_PORT", "4711")
    dist.init_process_group(BACKENDS[-1], rank=0, world_size=1, store=dist.HashStore())
    try:
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Linear(2, 1)))
        wanted = {
            "bucket_sizes": "44", "cuda_visible_devices": "N/A", "device_ids": "", "dtypes": "float", "gloo_device_transport": "N/A",
            "gloo_socket_ifname": "N/A", "master_addr": "N/A", "master_port": "4711", "module_name": "Sequential",
            "torch_distributed_debug": "N/A", "broadcast_buffers": 1, "bucket_cap_bytes": 26214400, "find_unused_parameters": 0,
            "gradient_as_bucket_view": 0, "has_sync_bn": 0, "is_multi_device_module": 0, "iteration": 0, "num_parameter_tensors": 4,
            "output_device": -1, "rank": 0, "total_parameter_size_bytes": 44, "world_size": 1}
        facts = model._get_ddp_logging_data()
        assert {name: facts[name] for name in wanted} == wanted and "has_rebuilt_buckets" not in facts
        assert all(type(value) in (int, str) for value in facts.values())
        for _ in range(3):
            model(torch.ones(2, 3)).sum().backward()
        with torch.no_grad():
            model(torch.ones(2, 3))
        with model.no_sync():
            model(torch.ones(2, 3)).sum().backward()
        facts = model._get_ddp_logging_data()
        wanted.update(iteration=2, rebuilt_bucket_sizes="44", has_rebuilt_buckets=1, num_buckets_reduced=1)
        assert {name: facts[name] for name in wanted} == wanted
        order = facts["rebuilt_per_bucket_param_indices"].split()  # of a layer's two gradients either one may be ready first
        assert [sorted(order[:2]), sorted(order[2:])] == [["2", "3"], ["0", "1"]]
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
