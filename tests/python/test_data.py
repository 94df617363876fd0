"""Data sets, samplers, batches, and the loader with and without workers."""
import collections
import copy
import gc
import multiprocessing
import os
import random
import signal
import time
import warnings

import cresset as torch
import pytest
from cresset.utils import data
from cresset.utils.data import DataLoader, get_worker_info


def message(kind, function):
    with pytest.raises(kind) as caught:
        function()
    return str(caught.value)


def lists(batch):
    """Returns a batch with its tensors as lists."""
    if isinstance(batch, torch.Tensor):
        return batch.tolist()
    if isinstance(batch, dict):
        return {k: lists(v) for k, v in batch.items()}
    if isinstance(batch, (list, tuple)):
        return type(batch)(*map(lists, batch)) if hasattr(batch, "_fields") else [
            lists(b) for b in batch]
    return batch


def epochs(loader, n=2):
    return [[lists(b) for b in loader] for _ in range(n)]


def files():
    """Returns the files of shared memory of this process: cresset_PID_N."""
    mine = {os.getpid(), *(p.pid for p in multiprocessing.active_children())}
    pids = {f: int(f.split("_")[1]) for f in os.listdir("/dev/shm") if f.startswith("cresset_")}
    return [f for f, pid in pids.items() if pid in mine or not os.path.exists(f"/proc/{pid}")]


@pytest.fixture(autouse=True)
def nothing_is_left():
    """Checks that tests leave no process and no file of shared memory."""
    before = set(files())
    yield
    gc.collect()
    deadline = time.time() + 5
    while multiprocessing.active_children() and time.time() < deadline:
        time.sleep(0.01)
    assert not multiprocessing.active_children()
    assert not set(files()) - before


# Data sets.

class Squares(data.Dataset):
    def __len__(self):
        return 10

    def __getitem__(self, i):
        return i * i


class Counting(data.IterableDataset):
    def __init__(self, n, announced=None):
        self.n, self.announced = n, announced

    def __iter__(self):
        info = get_worker_info()
        if info is None:
            return iter(range(self.n))
        return iter(range(info.id * 100, info.id * 100 + self.n - info.id))

    def __len__(self):
        return self.announced


def test_tensor_data_set_has_rows():
    rows = data.TensorDataset(torch.arange(6).view(3, 2), torch.arange(3.0))
    assert len(rows) == 3 and lists(rows[1]) == [[2, 3], 1.0]
    assert message(AssertionError, lambda: data.TensorDataset(torch.ones(2), torch.ones(3))) == (
        "Size mismatch between tensors")


def test_data_sets_are_joined():
    both = Squares() + Squares()
    assert len(both) == 20 and both[12] == 4 and both[-1] == 81 and both[9] == 81
    assert both.cumulative_sizes == [10, 20]
    assert message(ValueError, lambda: both[-21]) == (
        "absolute value of index should not exceed dataset length")
    assert message(AssertionError, lambda: data.ConcatDataset([])) == (
        "datasets should not be an empty iterable")
    assert list(Counting(2) + Counting(1)) == [0, 1, 0]
    assert len(data.ChainDataset([Counting(2, 2), Counting(1, 3)])) == 5


def test_data_sets_are_stacked():
    named = data.StackDataset(a=Squares(), b=list("abcdefghij"))
    assert len(named) == 10 and named[2] == {"a": 4, "b": "c"}
    assert named.__getitems__([0, 3]) == [{"a": 0, "b": "a"}, {"a": 9, "b": "d"}]
    assert data.StackDataset(Squares(), Squares()).__getitems__([3]) == [(9, 9)]
    assert message(ValueError, lambda: data.StackDataset([1], [1, 2])) == (
        "Size mismatch between datasets")


def test_subsets_and_splits():
    assert [data.Subset(Squares(), [3, 5])[i] for i in (0, 1)] == [9, 25]
    assert data.Subset(Squares(), [3, 5, 7]).__getitems__([2, 0]) == [49, 9]
    torch.manual_seed(5)
    assert [s.indices for s in data.random_split(range(10), [0.5, 0.3, 0.2])] == [
        [1, 4, 9, 6, 3], [5, 0, 2], [8, 7]]
    parts = data.random_split(range(10), [3, 7], torch.Generator().manual_seed(1))
    assert [s.indices for s in parts] == [[5, 6, 1], [2, 0, 8, 9, 3, 7, 4]]
    assert message(ValueError, lambda: data.random_split(range(3), [1, 1])) == (
        "Sum of input lengths does not equal the length of the input dataset!")
    with pytest.warns(UserWarning, match="Length of split at index 1 is 0"):
        data.random_split(range(2), [0.9, 0.1])


def test_iterable_data_sets_have_to_define_iteration():
    assert message(TypeError, data.IterableDataset).startswith(
        "Can't instantiate abstract class IterableDataset with")


def test_a_data_set_class_takes_a_type():
    class Numbers(data.Dataset[int]):
        def __len__(self):
            return 3

    assert len(Numbers()) == 3 and isinstance(Numbers(), data.Dataset)


# Samplers, with recorded indices for a fixed seed.

def test_samplers_draw_the_recorded_indices():
    torch.manual_seed(5)
    assert list(data.RandomSampler(range(6))) == [1, 5, 0, 4, 3, 2]
    assert list(data.RandomSampler(range(4), num_samples=6)) == [0, 3, 2, 1, 3, 0]
    assert list(data.RandomSampler(range(9), True, 5)) == [8, 6, 8, 0, 2]
    assert list(data.SubsetRandomSampler([10, 20, 30])) == [20, 30, 10]
    assert list(data.WeightedRandomSampler([0.1, 0.2, 0.7], 6)) == [1, 2, 2, 2, 2, 2]
    assert list(data.SequentialSampler(range(3))) == [0, 1, 2]
    assert list(data.BatchSampler(range(5), 2, False)) == [[0, 1], [2, 3], [4]]
    assert list(data.BatchSampler(range(5), 2, True)) == [[0, 1], [2, 3]]


def test_samplers_know_their_length():
    assert len(data.RandomSampler(range(6), num_samples=9)) == 9
    assert [len(data.BatchSampler(range(5), 2, d)) for d in (False, True)] == [3, 2]


def test_samplers_refuse_wrong_arguments():
    assert message(ValueError, lambda: data.RandomSampler([])) == (
        "num_samples should be a positive integer value, but got num_samples=0")
    assert message(TypeError, lambda: data.RandomSampler([1], replacement=1)) == (
        "replacement should be a boolean value, but got replacement=1")
    assert message(ValueError, lambda: data.BatchSampler([1], True, False)) == (
        "batch_size should be a positive integer value, but got batch_size=True")
    assert message(ValueError, lambda: data.WeightedRandomSampler(torch.zeros(2, 2), 3)) == (
        "weights should be a 1d sequence but given weights have shape (2, 2)")


def test_processes_share_a_data_set():
    parts = [list(data.DistributedSampler(range(10), 3, r, shuffle=False)) for r in range(3)]
    assert parts == [[0, 3, 6, 9], [1, 4, 7, 0], [2, 5, 8, 1]]
    shuffled = [list(data.DistributedSampler(range(9), 3, r)) for r in range(3)]
    assert sorted(sum(shuffled, [])) == list(range(9))
    assert [len(data.DistributedSampler(range(10), 3, r, drop_last=True)) for r in range(3)] == [
        3, 3, 3]
    assert message(ValueError, lambda: data.DistributedSampler([1], 2, 2)) == (
        "Invalid rank 2, rank should be in the interval [0, 1]")


# Batches.

Point = collections.namedtuple("Point", "x y")


def test_samples_are_collated_by_kind():
    samples = [{"t": torch.full((2,), i), "i": i, "f": i / 2, "s": str(i), "b": i > 0,
                "p": Point(i, (i, [i]))} for i in range(2)]
    batch = data.default_collate(samples)
    assert batch["t"].tolist() == [[0, 0], [1, 1]] and batch["i"].dtype == torch.int64
    assert batch["f"].dtype == torch.float64 and batch["b"].dtype == torch.bool
    assert batch["s"] == ["0", "1"] and isinstance(batch["p"], Point)
    assert lists(batch["p"]) == Point([0, 1], [[0, 1], [[0, 1]]])
    ordered = data.default_collate([collections.OrderedDict(a=1)] * 2)
    assert type(ordered) is collections.OrderedDict and ordered["a"].tolist() == [1, 1]


def test_samples_that_cannot_be_collated_are_refused():
    assert message(TypeError, lambda: data.default_collate([{1}])) == (
        "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; "
        "found <class 'set'>")
    assert message(RuntimeError, lambda: data.default_collate([[1], [1, 2]])) == (
        "each element in list of batch should be of equal size")


def test_converting_keeps_structure():
    given = {"a": [1, "x"], "p": Point(torch.ones(1), 2)}
    made = data.default_convert(given)
    assert made["a"] == [1, "x"] and made["p"].x is given["p"].x


# The loader.  Expectations with and without workers are the same.

PROCESSES = ({}, {"num_workers": 1}, {"num_workers": 2})
KINDS = PROCESSES + ({"num_workers": 1, "worker_method": "thread"},
                     {"num_workers": 2, "worker_method": "thread"})
THREADS = {"num_workers": 2, "worker_method": "thread"}


@pytest.mark.parametrize("workers", KINDS, ids=str)
def test_batches_come_in_order(workers):
    loader = DataLoader(Squares(), 4, **workers)
    assert len(loader) == 3
    assert epochs(loader) == [[[0, 1, 4, 9], [16, 25, 36, 49], [64, 81]]] * 2
    assert epochs(DataLoader(Squares(), 4, drop_last=True, **workers), 1) == [
        [[0, 1, 4, 9], [16, 25, 36, 49]]]
    assert epochs(DataLoader(Squares(), None, **workers), 1) == [
        [i * i for i in range(10)]]


@pytest.mark.parametrize("workers", KINDS, ids=str)
def test_shuffles_equal_the_recorded_ones(workers):
    torch.manual_seed(5)
    loader = DataLoader(range(6), 4, shuffle=True, **workers)
    assert epochs(loader) == [[[2, 3, 4, 5], [1, 0]], [[1, 3, 5, 2], [0, 4]]]
    generator = torch.Generator().manual_seed(9)
    loader = DataLoader(range(6), 6, shuffle=True, generator=generator, **workers)
    assert epochs(loader) == [[[0, 3, 4, 5, 1, 2]], [[4, 1, 2, 3, 5, 0]]]


@pytest.mark.parametrize("workers", KINDS, ids=str)
def test_iterable_data_sets_end(workers):
    loader = DataLoader(Counting(5), 2, **workers)
    whole = [[0, 1], [2, 3], [4]]
    other = [[100, 101], [102, 103]]
    two = workers.get("num_workers", 0) == 2
    expected = [[0, 1], [100, 101], [2, 3], [102, 103], [4]] if two else whole
    assert epochs(loader) == [expected] * 2
    assert sorted(map(str, expected)) == sorted(map(str, whole + other * two))


@pytest.mark.parametrize("workers", KINDS, ids=str)
def test_too_many_samples_warn(workers):
    loader = DataLoader(Counting(3, announced=1), None, **workers)
    assert len(loader) == 1
    with pytest.warns(UserWarning, match=r"was reported to be 1\(when accessing len\(dataloader\)\), but 2 samples"):
        list(loader)


@pytest.mark.parametrize("workers", KINDS, ids=str)
def test_custom_samplers_and_collation(workers):
    options = {**workers, "collate_fn": sum}
    assert list(DataLoader(Squares(), 2, sampler=[3, 1, 2], **options)) == [10, 4]
    assert list(DataLoader(Squares(), batch_sampler=[[1], [2, 3]], **options)) == [1, 13]


class Fails(data.Dataset):
    def __len__(self):
        return 3

    def __getitem__(self, i):
        if i == 1:
            raise KeyError("boom")
        return i


def test_an_error_of_a_worker_is_raised_here():
    loader = iter(DataLoader(Fails(), num_workers=2))
    assert lists(next(loader)) == [0]
    text = message(KeyError, lambda: next(loader))
    assert text.startswith(
        "Caught KeyError in DataLoader worker process 1.\nOriginal Traceback (most recent call "
        "last):\n")
    assert text.rstrip().endswith("KeyError: 'boom'") and "__getitem__" in text
    assert lists(next(loader)) == [2]


def test_an_error_of_a_worker_thread_is_raised_here():
    loader = iter(DataLoader(Fails(), **THREADS))
    assert lists(next(loader)) == [0]
    text = message(KeyError, lambda: next(loader))
    assert text.startswith(
        "Caught KeyError in DataLoader worker thread 1.\nOriginal Traceback (most recent call "
        "last):\n")
    assert lists(next(loader)) == [2]


def test_an_error_of_initialization_is_the_first_result():
    def init(worker):
        raise ValueError(f"no {worker}")

    text = message(ValueError, lambda: list(DataLoader(Squares(), num_workers=1,
                                                       worker_init_fn=init)))
    assert text.startswith("Caught ValueError in DataLoader worker process 0.")


class Dies(data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        if i == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return torch.zeros(50000)


def test_a_dead_worker_is_reported():
    with pytest.raises(RuntimeError) as caught:
        list(DataLoader(Dies(), num_workers=2))
    text = str(caught.value)
    assert text.startswith("DataLoader worker (pid(s) ")
    assert text.endswith(") exited unexpectedly")
    assert "is killed by signal: Killed" in str(caught.value.__cause__)


@pytest.mark.parametrize("end, cause", [
    (lambda: os._exit(3), "exited unexpectedly with exit code 3. Details are lost due to multiprocessing. "
                          "Rerunning with num_workers=0 may give better error trace."),
    (lambda: os.kill(os.getpid(), signal.SIGTERM), "is killed by signal: Terminated. ")])
def test_the_cause_of_a_workers_death_is_reported(end, cause):
    with pytest.raises(RuntimeError) as caught:
        list(DataLoader([1], num_workers=1, collate_fn=lambda batch: end()))
    assert str(caught.value).endswith(") exited unexpectedly")
    assert str(caught.value.__cause__).endswith(cause)


def test_memory_is_pinned_only_with_an_accelerator():
    with pytest.warns(UserWarning) as caught:
        list(DataLoader([1], pin_memory=True))
    assert str(caught[0].message) == (
        "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory "
        "won't be used.")


def test_a_slow_worker_times_out():
    loader = DataLoader([1], num_workers=1, timeout=0.2, collate_fn=lambda b: time.sleep(1))
    assert message(RuntimeError, lambda: list(loader)) == (
        "DataLoader timed out after 0.2 seconds")


class Who(data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        info = get_worker_info()
        return (info.id, info.num_workers, info.seed, torch.initial_seed(), len(info.dataset),
                random.random(), torch.rand(()).item())


def test_workers_know_their_info():
    torch.manual_seed(5)
    rows = [b for b in DataLoader(Who(), None, num_workers=2)]
    assert [(row[0], row[1], row[4]) for row in rows] == [(0, 2, 4), (1, 2, 4)] * 2
    assert [row[2] for row in rows] == [row[3] for row in rows]
    assert rows[1][2] == rows[0][2] + 1 == 4095051218741643470 + 1
    for row in rows[:2]:
        random.seed(row[2])
        torch.manual_seed(row[2])
        assert row[5:] == [random.random(), torch.rand(()).item()]
    assert get_worker_info() is None


class Streams(data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        info = get_worker_info()
        return (info.id, info.num_workers, info.seed, info.worker_method,
                info.rng.random_generator.random(),
                torch.rand((), generator=info.rng.torch_generator).item(), torch.get_num_threads())


def test_worker_threads_have_private_random_streams():
    torch.manual_seed(5)
    rows = list(DataLoader(Streams(), None, **THREADS))
    torch.manual_seed(5)
    assert rows == list(DataLoader(Streams(), None, **THREADS))
    assert [row[:2] for row in rows] == [[0, 2], [1, 2]] * 2
    assert rows[0][2] == 4095051218741643470 and rows[1][2] == rows[0][2] + 1
    for row in rows[:2]:
        assert row[4:6] == [random.Random(row[2]).random(),
                            torch.rand((), generator=torch.Generator().manual_seed(row[2])).item()]
    assert {row[3] for row in rows} == {"thread"} and {row[6] for row in rows} == {1}
    assert get_worker_info() is None and rows[0][4] != rows[2][4]


def test_worker_threads_pass_objects_without_copying():
    samples = [object() for _ in range(4)]
    assert list(DataLoader(samples, None, **THREADS)) == samples
    import threading
    before = threading.active_count()
    iterator = iter(DataLoader(samples, None, **THREADS))
    assert next(iterator) is samples[0] and threading.active_count() == before + 2
    del iterator
    gc.collect()
    assert threading.active_count() == before


def test_worker_threads_may_be_persistent():
    loader = DataLoader(Streams(), None, persistent_workers=True, **THREADS)
    first, second = list(loader), list(loader)
    assert [row[:3] for row in first] == [row[:3] for row in second]
    assert first[0][5] != second[0][5]


def test_slow_worker_threads_time_out():
    loader = DataLoader([1], timeout=0.1, collate_fn=lambda b: time.sleep(0.4), **THREADS)
    assert message(RuntimeError, lambda: list(loader)) == (
        "DataLoader timed out after 0.1 seconds")


# Forks after threads.

def learn(steps=3):
    """Runs steps that start threads: products, a convolution, backward."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 8, 3), torch.nn.Flatten(), torch.nn.Linear(8 * 26 * 26, 64),
                              torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(steps):
        loss = torch.nn.functional.cross_entropy(net(torch.randn(32, 1, 28, 28)), torch.arange(32) % 10)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return net


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_a_forked_child_computes_products(two_threads):
    a = torch.randn(300, 300)
    expected = a @ a
    child = os.fork()
    if child == 0:
        try:
            same = torch.equal(a @ a, expected) and torch.isfinite(learn(1)[2].weight).all()
            os._exit(0 if same else 1)
        finally:
            os._exit(2)
    deadline = time.time() + 60
    while time.time() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            break
        time.sleep(0.01)
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        pytest.fail("the child did not return")
    assert os.waitstatus_to_exitcode(status) == 0
    assert torch.equal(a @ a, expected)


class Products(data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        a = torch.full((200, 200), float(i))
        return (a @ a)[0, 0]


@pytest.mark.parametrize("method", ["multiprocessing", "thread"])
def test_workers_compute_products_after_training_steps(two_threads, method):
    net = learn()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # more workers than processors
        loader = DataLoader(Products(), 2, num_workers=4, worker_method=method, timeout=60)
        got = []
        for batch in loader:
            got += batch.tolist()
            net(torch.zeros(4, 1, 28, 28))
    assert got == [200.0 * i * i for i in range(8)]


class Pid(data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        return os.getpid()


def test_persistent_workers_serve_all_epochs():
    loader = DataLoader(Pid(), num_workers=2, persistent_workers=True)
    first, second = epochs(loader)
    assert first == second and len({b[0] for b in first}) == 2
    counting = DataLoader(Counting(3), None, num_workers=2, persistent_workers=True)
    assert epochs(counting, 3) == [[0, 100, 1, 101, 2]] * 3
    fresh = DataLoader(Pid(), num_workers=1)
    assert len({b[0] for epoch in epochs(fresh) for b in epoch}) == 2


def test_dropping_an_iterator_ends_its_workers():
    iterator = iter(DataLoader(torch.zeros(50, 100000), 2, num_workers=2, prefetch_factor=4))
    batch = next(iterator)
    workers = multiprocessing.active_children()
    assert len(workers) == 2
    del iterator
    gc.collect()
    assert not any(w.is_alive() for w in workers)
    batch.add_(1)  # a batch's memory outlives its sender
    assert batch.sum().item() == 200000


@pytest.mark.parametrize("size", [0, 3, 40000])
def test_tensors_are_sent_complete(size):
    def make(i):
        return {"f": torch.full((size,), float(i)), "b": torch.ones(size, dtype=torch.bool),
                "h": torch.ones(size, dtype=torch.float16) * i, "s": f"{i}", "n": None}

    class Made(data.Dataset):
        def __len__(self):
            return 3

        def __getitem__(self, i):
            return make(i)

    for i, got in enumerate(DataLoader(Made(), None, num_workers=1)):
        expected = make(i)
        assert got["s"] == expected["s"] and got["n"] is None
        for name in "fbh":
            assert got[name].dtype == expected[name].dtype
            assert torch.equal(got[name], expected[name])


def test_one_tensor_twice_is_one_tensor():
    class Twice(data.Dataset):
        def __len__(self):
            return 1

        def __getitem__(self, i):
            t = torch.ones(3)
            return t, t

    (a, b), = DataLoader(Twice(), None, num_workers=1, collate_fn=lambda x: x)
    assert a is b


def test_a_history_is_not_sent():
    class Grown(data.Dataset):
        def __len__(self):
            return 1

        def __getitem__(self, i):
            return torch.ones(2, requires_grad=True) * 2

    text = message(RuntimeError, lambda: list(DataLoader(Grown(), None, num_workers=1)))
    assert "Cowardly refusing to serialize non-leaf tensor which requires_grad" in text


def test_workers_can_be_spawned():
    loader = DataLoader(Squares(), 5, num_workers=1, multiprocessing_context="spawn")
    assert epochs(loader, 1) == [[[0, 1, 4, 9, 16], [25, 36, 49, 64, 81]]]


@pytest.mark.parametrize("options, text", [
    ({"num_workers": -1}, "num_workers option should be non-negative; use num_workers=0 to "
                          "disable multiprocessing."),
    ({"timeout": -1}, "timeout option should be non-negative"),
    ({"prefetch_factor": 2}, "prefetch_factor option could only be specified in "
     "multiprocessing.let num_workers > 0 to enable multiprocessing, otherwise set "
     "prefetch_factor to None."),
    ({"persistent_workers": True}, "persistent_workers option needs num_workers > 0"),
    ({"shuffle": True, "sampler": [1]}, "sampler option is mutually exclusive with shuffle"),
    ({"batch_sampler": [[1]], "batch_size": 2}, "batch_sampler option is mutually exclusive with "
     "batch_size, shuffle, sampler, and drop_last"),
    ({"batch_size": None, "drop_last": True}, "batch_size=None option disables auto-batching and "
     "is mutually exclusive with drop_last"),
    ({"batch_size": 0}, "batch_size should be a positive integer value, but got batch_size=0"),
    ({"multiprocessing_context": "fork"}, "multiprocessing_context can only be used with "
     "multi-process loading (num_workers > 0), but got num_workers=0"),
    ({"worker_method": "fork"}, "worker_method option should be 'multiprocessing' or 'thread', but got "
     "worker_method='fork'"),
    ({"num_workers": 1, "worker_method": "thread", "multiprocessing_context": "fork"},
     "multiprocessing_context option is for worker processes; it cannot be used with worker_method='thread'"),
    ({"num_workers": 1, "multiprocessing_context": "x"}, "multiprocessing_context option should "
     "specify a valid start method in ['fork', 'spawn', 'forkserver'], but got "
     "multiprocessing_context='x'"),
])
def test_options_that_the_loader_refuses(options, text):
    assert message(ValueError, lambda: DataLoader([1, 2], **options)) == text


def test_options_that_iterable_data_sets_refuse():
    assert message(ValueError, lambda: DataLoader(Counting(1), shuffle=True)) == (
        "DataLoader with IterableDataset: expected unspecified shuffle option, but got "
        "shuffle=True")
    assert message(ValueError, lambda: DataLoader(Counting(1), sampler=[1])) == (
        "DataLoader with IterableDataset: expected unspecified sampler option, but got "
        "sampler=[1]")


def test_options_are_fixed():
    loader = DataLoader([1])
    assert message(ValueError, lambda: setattr(loader, "batch_size", 2)) == (
        "batch_size attribute should not be set after DataLoader is initialized")


def test_too_many_workers_warn():
    count = len(os.sched_getaffinity(0))
    with pytest.warns(UserWarning, match=f"This DataLoader will create {count + 1} worker"):
        DataLoader([1], num_workers=count + 1)


def test_an_ordinary_epoch_is_silent():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        epochs(DataLoader(Squares(), 2, shuffle=True))
    assert not caught


class Numbers(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter(range(20))


RESUMED = {
    "in order": lambda: DataLoader(range(20), batch_size=3),
    "shuffled": lambda: DataLoader(range(20), batch_size=3, shuffle=True),
    "shuffled by a generator": lambda: DataLoader(range(20), batch_size=3, shuffle=True, generator=torch.Generator().manual_seed(7)),
    "with replacement": lambda: DataLoader(range(20), 3, sampler=torch.utils.data.RandomSampler(range(20), True, 100)),
    "weighted": lambda: DataLoader(range(20), 3, sampler=torch.utils.data.WeightedRandomSampler([1.0] * 20, 15)),
    "by threads or processes": lambda: DataLoader(range(20), batch_size=3, shuffle=True, num_workers=2),
    "persistent workers": lambda: DataLoader(range(20), batch_size=3, shuffle=True, num_workers=2, persistent_workers=True),
    "without batches": lambda: DataLoader(range(20), batch_size=None, shuffle=True),
    "iterable": lambda: DataLoader(Numbers(), batch_size=3),
}


@pytest.mark.parametrize("made", RESUMED.values(), ids=RESUMED)
def test_a_loader_goes_on_in_the_middle_of_an_epoch(made):
    torch.manual_seed(3)
    loader = made()
    list(loader)  # the second epoch is interrupted
    seen, epoch = [], iter(loader)
    for _ in range(4):
        seen.append(next(epoch).tolist() if loader.batch_size else int(next(epoch)))
    state, numbers = copy.deepcopy(loader.state_dict()), torch.get_rng_state()
    rest = [x.tolist() if loader.batch_size else int(x) for x in epoch]
    third = [x.tolist() if loader.batch_size else int(x) for x in loader]
    for _ in range(2):  # a fresh loader, and one that has been used
        torch.manual_seed(99)
        loader = made() if _ == 0 else loader
        loader.load_state_dict(state)
        torch.set_rng_state(numbers)
        assert [x.tolist() if loader.batch_size else int(x) for x in loader] == rest
        if loader.generator is None:
            assert [x.tolist() if loader.batch_size else int(x) for x in loader] == third
    assert loader.state_dict()["yielded"] == 0


def test_a_state_of_something_else_is_refused():
    with pytest.raises(ValueError, match="takes what state_dict"):
        DataLoader(range(3)).load_state_dict({"epoch": 1})
    loader = DataLoader(range(9), shuffle=True, generator=torch.Generator())
    next(iter(loader))
    with pytest.raises(RuntimeError, match="a loader with 2 generators, this one has 1"):
        other = DataLoader(range(9))
        other.load_state_dict(loader.state_dict())
        iter(other)
