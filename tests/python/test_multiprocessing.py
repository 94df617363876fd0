"""Tensors that processes share: through arguments, queues and pipes; starting and failing processes."""
import os
import pickle
import signal
import subprocess
import sys
import time

import cresset as torch
import cresset.multiprocessing as mp
import pytest
from cresset import nn


def add_one(tensor):
    tensor.add_(1)


def add_index(i, tensor):
    tensor[i] += i + 1


def fail(i):
    if i == 1:
        raise ValueError("the second one")
    time.sleep(60)


def exit_with_code(i):
    os._exit(7)


def end_by_signal(i):
    os.kill(os.getpid(), signal.SIGKILL)


def double_all(source, sink):
    while (item := source.get()) is not None:
        item.mul_(2)
        sink.put(item)


def train_step(model, steps):
    for _ in range(steps):
        with torch.no_grad():
            for p in model.parameters():
                p.sub_(1)


@pytest.fixture(params=["file_descriptor", "file_system"])
def strategy(request):
    before = mp.get_sharing_strategy()
    mp.set_sharing_strategy(request.param)
    yield request.param
    mp.set_sharing_strategy(before)


def test_share_memory_moves_the_storage_and_keeps_the_tensor(strategy):
    x = torch.arange(6.).reshape(2, 3).t()
    before = x.data_ptr()
    assert not x.is_shared() and x.share_memory_() is x and x.is_shared()
    assert x.data_ptr() != before and x.stride() == (1, 3) and x.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert x[1:].is_shared() and x.storage().is_shared() and not x.clone().is_shared()
    address = x.data_ptr()
    assert x.share_memory_().data_ptr() == address


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_child_writes_to_shared_memory(strategy, method):
    x = torch.zeros(3).share_memory_()
    process = mp.get_context(method).Process(target=add_one, args=(x,))
    process.start()
    process.join()
    assert process.exitcode == 0 and x.tolist() == [1, 1, 1]


def test_spawn_gives_indices_and_shares_arguments():
    x = torch.zeros(2)
    mp.spawn(add_index, args=(x,), nprocs=2)
    assert x.tolist() == [1, 2] and x.is_shared()


def test_tensors_of_a_queue_share_their_memory():
    context = mp.get_context("fork")
    source, sink = context.Queue(), context.Queue()
    process = context.Process(target=double_all, args=(source, sink))
    process.start()
    x = torch.arange(4.)
    source.put(x)
    back = sink.get(timeout=60)
    assert back.tolist() == [0, 2, 4, 6] and x.tolist() == [0, 2, 4, 6]
    back.add_(1)
    assert x.tolist() == [1, 3, 5, 7]
    source.put(torch.tensor([]))
    assert sink.get(timeout=60).shape == (0,)
    source.put(None)
    process.join()


def test_views_of_one_storage_stay_views_of_one_storage():
    base = torch.zeros(4).share_memory_()
    context = mp.get_context("fork")
    receive, send = context.Pipe()
    send.send((base[:2], base[1:3]))
    first, second = receive.recv()
    first.add_(1)
    assert second.tolist() == [1, 0] and base.tolist() == [1, 1, 0, 0]


def test_parameters_and_modules_are_shared():
    model = nn.Linear(2, 2).share_memory()
    assert all(p.is_shared() and isinstance(p, nn.Parameter) and p.requires_grad for p in model.parameters())
    before = [p.detach().clone() for p in model.parameters()]
    process = mp.get_context("spawn").Process(target=train_step, args=(model, 3))
    process.start()
    process.join()
    assert all(torch.allclose(p + 3, b, atol=1e-6) for p, b in zip(model.parameters(), before))
    model(torch.ones(2)).sum().backward()
    assert model.weight.grad.tolist() == [[1, 1], [1, 1]]


@pytest.mark.parametrize("order", ["multiprocessing, cresset.nn", "nn, cresset.multiprocessing"])
def test_parameters_are_sent_by_their_memory_whichever_module_is_imported_first(order):
    program = f"""import pickle, sys, cresset.{order}
from multiprocessing.reduction import ForkingPickler
p = cresset.nn.Parameter(cresset.ones(2), requires_grad=False)
q = pickle.loads(ForkingPickler.dumps(p))
q.fill_(3)
print(type(q).__name__, q.requires_grad, p.tolist())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.stdout == "Parameter False [3.0, 3.0]\n", done


def test_history_is_not_sent():
    from multiprocessing.reduction import ForkingPickler
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor"):
        ForkingPickler.dumps(torch.ones(2, requires_grad=True) * 2)


def test_named_files_are_gone_when_their_tensor_is():
    mp.set_sharing_strategy("file_system")
    x = torch.ones(3).share_memory_()
    mp.set_sharing_strategy("file_descriptor")
    mine = [name for name in os.listdir("/dev/shm") if name.startswith(f"torch_{os.getpid()}_")]
    assert len(mine) == 1
    del x
    assert not [name for name in os.listdir("/dev/shm") if name.startswith(f"torch_{os.getpid()}_")]


def test_an_exception_ends_the_other_processes():
    start = time.monotonic()
    with pytest.raises(mp.ProcessRaisedException, match="-- Process 1 terminated with the following error:") as caught:
        mp.spawn(fail, nprocs=2)
    assert "ValueError: the second one" in str(caught.value) and time.monotonic() - start < 30
    assert caught.value.error_index == 1
    again = pickle.loads(pickle.dumps(mp.ProcessRaisedException("m", 1, 2)))
    assert (again.msg, again.error_index, again.error_pid) == ("m", 1, 2)


def test_exit_codes_and_signals_are_named():
    with pytest.raises(mp.ProcessExitedException, match="process 0 terminated with exit code 7") as caught:
        mp.spawn(exit_with_code)
    assert caught.value.exit_code == 7
    with pytest.raises(mp.ProcessExitedException, match="process 0 terminated with signal SIGKILL"):
        mp.start_processes(end_by_signal, start_method="fork")


def test_join_can_be_called_by_the_program():
    context = mp.spawn(add_index, args=(torch.zeros(2),), nprocs=2, join=False)
    assert len(context.pids()) == 2
    while not context.join(timeout=1):
        assert context.sentinels
    assert all(p.exitcode == 0 for p in context.processes)


def test_strategies():
    assert mp.get_all_sharing_strategies() == {"file_descriptor", "file_system"}
    with pytest.raises(AssertionError, match="invalid sharing strategy 'x'"):
        mp.set_sharing_strategy("x")
