"""The data loader: batches from this process, from worker processes or from worker threads.

With workers, requests (number, indices) go to the workers in turn.  Results come back by one
pipe for each process, or by one queue for all threads.  Results are returned in the order of
their numbers; early results wait in `_task_info`.  The death of a worker process is detected by
its sentinel.
"""
import copy
import os
import sys
import warnings
import weakref
from itertools import cycle
from types import GenericAlias
from typing import Any, Callable

import cresset
from . import _utils
from ._progress import Progress
from .dataset import IterableDataset
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

__all__ = ["DataLoader", "get_worker_info", "default_collate", "default_convert"]

default_collate = _utils.collate.default_collate
default_convert = _utils.collate.default_convert
get_worker_info = _utils.worker.get_worker_info

# Types of arguments, for the annotations of libraries.
_worker_init_fn_t = Callable[[int], None]
_collate_fn_t = Callable[[list], Any]


class _DatasetKind:
    Map = 0
    Iterable = 1

    @staticmethod
    def create_fetcher(kind, dataset, auto_collation, collate_fn, drop_last):
        fetch = _utils.fetch
        cls = (fetch._MapDatasetFetcher if kind == _DatasetKind.Map
               else fetch._IterableDatasetFetcher)
        return cls(dataset, auto_collation, collate_fn, drop_last)


class _InfiniteConstantSampler(Sampler):
    """The indices of a data set without indices."""

    def __iter__(self):
        while True:
            yield None


def _is_pipe(dataset):
    """Returns whether the data set is an IterDataPipe, without importing datapipes."""
    module = sys.modules.get(f"{__package__}.datapipes.datapipe")
    return module is not None and isinstance(dataset, module.IterDataPipe)


def _prepare_pipe(dataset, shared_seed):
    """Seeds the stages of a pipe, alike in all workers."""
    from .graph_settings import apply_random_seed
    generator = cresset.Generator()
    generator.manual_seed(shared_seed)
    return apply_random_seed(dataset, generator)


def _check_numbers(num_workers, timeout, prefetch_factor, persistent_workers):
    if num_workers < 0:
        raise ValueError("num_workers option should be non-negative; use num_workers=0 to "
                         "disable multiprocessing.")
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing.let num_workers > "
            "0 to enable multiprocessing, otherwise set prefetch_factor to None.")
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if persistent_workers and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")


def _check_method(worker_method, multiprocessing_context):
    if worker_method not in ("multiprocessing", "thread"):
        raise ValueError("worker_method option should be 'multiprocessing' or 'thread', but got "
                         f"worker_method={worker_method!r}")
    if worker_method == "thread" and multiprocessing_context is not None:
        raise ValueError("multiprocessing_context option is for worker processes; it cannot be "
                         "used with worker_method='thread'")


def _check_iterable(**options):
    for name, value in options.items():
        if value is not None and not (name == "shuffle" and value is False):
            raise ValueError(f"DataLoader with IterableDataset: expected unspecified {name} "
                             f"option, but got {name}={value}")


def _check_samplers(batch_size, shuffle, sampler, batch_sampler, drop_last):
    if sampler is not None and shuffle:
        raise ValueError("sampler option is mutually exclusive with shuffle")
    if batch_sampler is not None:
        if batch_size != 1 or shuffle or sampler is not None or drop_last:
            raise ValueError("batch_sampler option is mutually exclusive with batch_size, "
                             "shuffle, sampler, and drop_last")
    elif batch_size is None and drop_last:
        raise ValueError("batch_size=None option disables auto-batching and is mutually "
                         "exclusive with drop_last")


def _cpu_count():
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


class DataLoader:
    """Iterates over the batches of a data set.

    The options are torch's, except worker_method, which is Cresset's: "thread" makes the
    workers threads of this process.  Threads start at once, pass batches without copying, and
    need no pickling of the data set.  Python code of the data set runs in one thread at a time;
    large tensor operations run in parallel.  The threads share one data set and the process's
    random streams; a worker's private streams are `get_worker_info().rng`.

    Example::

        >>> data = torch.utils.data.TensorDataset(torch.arange(6.).reshape(3, 2), torch.tensor([0, 1, 0]))
        >>> loader = torch.utils.data.DataLoader(data, batch_size=2)
        >>> [x.shape for x, y in loader]
        [torch.Size([2, 2]), torch.Size([1, 2])]
    """

    __class_getitem__ = classmethod(GenericAlias)
    __initialized = False

    def __init__(self, dataset, batch_size=1, shuffle=None, sampler=None, batch_sampler=None,
                 num_workers=0, collate_fn=None, pin_memory=False, drop_last=False, timeout=0,
                 worker_init_fn=None, multiprocessing_context=None, generator=None, *,
                 prefetch_factor=None, persistent_workers=False, pin_memory_device="",
                 in_order=True, worker_method="multiprocessing"):
        _check_numbers(num_workers, timeout, prefetch_factor, persistent_workers)
        _check_method(worker_method, multiprocessing_context)
        if num_workers > 0 and prefetch_factor is None:
            prefetch_factor = 2
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order
        self.worker_method = worker_method
        if isinstance(dataset, IterableDataset):
            self._dataset_kind = _DatasetKind.Iterable
            if _is_pipe(dataset):
                from .graph_settings import apply_shuffle_settings
                self.dataset = apply_shuffle_settings(dataset, shuffle=shuffle)
                shuffle = False
            _check_iterable(shuffle=shuffle, sampler=sampler, batch_sampler=batch_sampler)
        else:
            self._dataset_kind = _DatasetKind.Map
            shuffle = bool(shuffle)
        _check_samplers(batch_size, shuffle, sampler, batch_sampler, drop_last)
        if sampler is None:
            sampler = self._default_sampler(shuffle, generator)
        if batch_sampler is not None:
            batch_size, drop_last = None, False
        elif batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.generator = generator
        if collate_fn is None:
            collate_fn = default_collate if self._auto_collation else default_convert
        self.collate_fn = collate_fn
        self.persistent_workers = persistent_workers
        self.__initialized = True
        self._IterableDataset_len_called = None
        self._iterator = None
        self._progress = self._resumed = None
        self.check_worker_number_rationality()

    def _default_sampler(self, shuffle, generator):
        if self._dataset_kind == _DatasetKind.Iterable:
            return _InfiniteConstantSampler()
        if shuffle:
            return RandomSampler(self.dataset, generator=generator)
        return SequentialSampler(self.dataset)

    @property
    def multiprocessing_context(self):
        """The start method of workers; None for the system's default."""
        return self.__multiprocessing_context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context):
        if context is not None:
            context = self._check_context(context)
        self.__multiprocessing_context = context

    def _check_context(self, context):
        import multiprocessing
        if self.num_workers <= 0:
            raise ValueError("multiprocessing_context can only be used with multi-process "
                             "loading (num_workers > 0), but got num_workers="
                             f"{self.num_workers}")
        if isinstance(context, str):
            valid = multiprocessing.get_all_start_methods()
            if context not in valid:
                raise ValueError(
                    "multiprocessing_context option should specify a valid start method in "
                    f"{valid!r}, but got multiprocessing_context={context!r}")
            context = multiprocessing.get_context(context)
        if not isinstance(context, multiprocessing.context.BaseContext):
            raise TypeError("multiprocessing_context option should be a valid context object or "
                            "a string specifying the start method, but got "
                            f"multiprocessing_context={context}")
        return context

    def __setattr__(self, attr, val):
        if self.__initialized and attr in ("batch_size", "batch_sampler", "sampler", "drop_last",
                                           "dataset", "persistent_workers"):
            raise ValueError(f"{attr} attribute should not be set after {type(self).__name__} is "
                             "initialized")
        super().__setattr__(attr, val)

    def _get_iterator(self):
        if self.num_workers == 0:
            return _SingleProcessDataLoaderIter(self)
        self.check_worker_number_rationality()
        return _MultiProcessingDataLoaderIter(self)

    def __iter__(self):
        resumed = self._resumed
        if not (self.persistent_workers and self.num_workers > 0):
            iterator = self._get_iterator()
        elif self._iterator is None:
            iterator = self._iterator = self._get_iterator()
        else:
            iterator = self._iterator
            iterator._reset(self)
        if resumed is not None and self._dataset_kind == _DatasetKind.Iterable:
            for _ in range(resumed["yielded"]):  # no sampler can go forward without the samples
                iterator._next_data()
        return iterator

    def state_dict(self):
        """Where the last iteration is; a new one after its end, or if there was none.

        A loader to which load_state_dict() gives it goes on with the next batch: samplers draw the same order, and their
        first indices are skipped without loading samples.  The state has the generators of the order, not those that
        samples draw from, which a program saves with its own (torch.get_rng_state()); workers start with their seeds.
        """
        return {"yielded": 0} if self._progress is None else self._progress.state_dict()

    def load_state_dict(self, state_dict):
        """The next iteration goes on behind the batches that state_dict() tells."""
        if not isinstance(state_dict, dict) or "yielded" not in state_dict:
            raise ValueError("load_state_dict() takes what state_dict() of a DataLoader gave")
        self._resumed = state_dict if state_dict["yielded"] else None
        self._progress = None

    @property
    def _auto_collation(self):
        return self.batch_sampler is not None

    @property
    def _index_sampler(self):
        return self.batch_sampler if self._auto_collation else self.sampler

    def __len__(self):
        if self._dataset_kind != _DatasetKind.Iterable:
            return len(self._index_sampler)
        # Stored, because iterating warns when there are more samples than announced.
        length = self._IterableDataset_len_called = len(self.dataset)
        if self.batch_size is None:
            return length
        if self.drop_last:
            return length // self.batch_size
        return -(-length // self.batch_size)

    def check_worker_number_rationality(self):
        """Warns when there are more workers than processors."""
        count = _cpu_count()
        if not self.num_workers or (count is not None and self.num_workers <= count):
            return
        suggestion = "DataLoader is not able to compute a suggested max number of worker in " \
                     "current system."
        if count is not None:
            cpuset = "" if hasattr(os, "sched_getaffinity") else (
                " (`cpuset` is not taken into account)")
            suggestion = ("Our suggested max number of worker in current system is "
                          f"{count}{cpuset}, which is smaller than what this DataLoader is going "
                          "to create.")
        warnings.warn(
            f"This DataLoader will create {self.num_workers} worker processes in total. "
            f"{suggestion} Please be aware that excessive worker creation might get DataLoader "
            "running slow or even freeze, lower the worker number to avoid potential "
            "slowness/freeze if necessary.", stacklevel=3)


def _pins(loader):
    """Returns whether batches go to page-locked memory.  Warns when that is requested but
    impossible."""
    if not loader.pin_memory:
        return False
    if loader.pin_memory_device:
        warnings.warn(
            "pin_memory_device is deprecated, the current accelerator will be used as the "
            f"device,ignore pin_memory_device='{loader.pin_memory_device}'.", stacklevel=5)
    cuda = getattr(cresset, "cuda", None)
    if cuda is not None and cuda.is_available():
        return True
    warnings.warn("'pin_memory' argument is set as true but no accelerator is found, then device "
                  "pinned memory won't be used.", stacklevel=5)
    return False


class _BaseDataLoaderIter:
    def __init__(self, loader):
        self._dataset = loader.dataset
        self._progress = Progress(loader)
        self._loader = weakref.ref(loader)
        self._seed_pipe(loader)
        self._dataset_kind = loader._dataset_kind
        self._IterableDataset_len_called = loader._IterableDataset_len_called
        self._auto_collation = loader._auto_collation
        self._drop_last = loader.drop_last
        self._index_sampler = loader._index_sampler
        self._num_workers = loader.num_workers
        self._pin_memory = _pins(loader)
        self._timeout = loader.timeout
        self._collate_fn = loader.collate_fn
        self._sampler_iter = iter(self._index_sampler)
        self._base_seed = cresset.empty((), dtype=cresset.int64).random_(
            generator=loader.generator).item()
        self._persistent_workers = loader.persistent_workers
        self._num_yielded = 0
        self._progress.begin(self._sampler_iter, self._dataset_kind != _DatasetKind.Iterable)

    def __iter__(self):
        return self

    def _seed_pipe(self, loader):
        """Seeds the stages of a pipe anew for every iteration."""
        self._shared_seed = None
        if _is_pipe(loader.dataset):
            self._shared_seed = cresset.empty((), dtype=cresset.int64).random_(
                generator=loader.generator).item()
            self._dataset = _prepare_pipe(loader.dataset, self._shared_seed)

    def _reset(self, loader, first_iter=False):
        if not first_iter:
            self._progress = Progress(loader)
            self._seed_pipe(loader)
        self._sampler_iter = iter(self._index_sampler)
        self._progress.begin(self._sampler_iter, self._dataset_kind != _DatasetKind.Iterable)
        self._num_yielded = 0
        self._IterableDataset_len_called = loader._IterableDataset_len_called

    def _next_index(self):
        self._progress.draws()
        return next(self._sampler_iter)

    def __next__(self):
        try:
            data = self._next_data()
        except StopIteration:
            loader = self._loader()
            if loader is not None and loader._progress is self._progress:
                loader._progress = None
            raise
        self._num_yielded += 1
        self._progress.yielded += 1
        announced = self._IterableDataset_len_called
        if (self._dataset_kind == _DatasetKind.Iterable and announced is not None
                and self._num_yielded > announced):
            self._warn_length(announced)
        return data

    def _warn_length(self, announced):
        text = (f"Length of IterableDataset {self._dataset} was reported to be {announced}(when "
                f"accessing len(dataloader)), but {self._num_yielded} samples have been "
                "fetched. ")
        if self._num_workers > 0:
            text += ("For multiprocessing data-loading, this could be caused by not properly "
                     "configuring the IterableDataset replica at each worker. Please see "
                     "https://pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset "
                     "for examples.")
        warnings.warn(text, stacklevel=3)

    def __len__(self):
        return len(self._index_sampler)

    def __getstate__(self):
        raise NotImplementedError("{} cannot be pickled", type(self).__name__)


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    def __init__(self, loader):
        super().__init__(loader)
        if self._timeout != 0:
            raise AssertionError("_SingleProcessDataLoaderIter requires timeout == 0")
        self._dataset_fetcher = _DatasetKind.create_fetcher(
            self._dataset_kind, self._dataset, self._auto_collation, self._collate_fn,
            self._drop_last)

    def _next_data(self):
        data = self._dataset_fetcher.fetch(self._next_index())
        return _utils.pin_memory.pin_memory(data) if self._pin_memory else data


class _Job:
    """The work of a loader's workers; sent to each of them."""

    def __init__(self, iterator, init_fn):
        self.kind = iterator._dataset_kind
        self.iterable = self.kind == _DatasetKind.Iterable
        self.dataset = iterator._dataset
        self.auto_collation = iterator._auto_collation
        self.collate_fn = iterator._collate_fn
        self.drop_last = iterator._drop_last
        self.base_seed = iterator._base_seed
        self.num_workers = iterator._num_workers
        self.init_fn = init_fn
        self.shared_seed = iterator._shared_seed

    def make_fetcher(self, worker_id):
        dataset = self.dataset
        if self.shared_seed is not None:  # each worker reads a share of its own copy
            from .graph_settings import apply_sharding
            dataset = _prepare_pipe(copy.deepcopy(dataset), self.shared_seed)
            apply_sharding(dataset, self.num_workers, worker_id)
        return _DatasetKind.create_fetcher(self.kind, dataset, self.auto_collation,
                                           self.collate_fn, self.drop_last)


def _how_it_ended(process):
    """Returns the error that explains a worker's death."""
    code = process.exitcode
    if code is not None and code < 0:
        import signal
        name = signal.strsignal(-code)
        return RuntimeError(f"DataLoader worker (pid {process.pid}) is killed by signal: {name}. ")
    return RuntimeError(f"DataLoader worker (pid {process.pid}) exited unexpectedly with exit "
                        f"code {code}. Details are lost due to multiprocessing. Rerunning with "
                        "num_workers=0 may give better error trace.")


class _WorkerPool:
    """The worker processes with their request queues and result pipes."""

    live = None  # all pools: a forked worker must close their pipe ends

    def __init__(self, context, job):
        import weakref
        from multiprocessing.connection import wait
        if _WorkerPool.live is None:
            _WorkerPool.live = weakref.WeakSet()
        _WorkerPool.live.add(self)
        self._wait = wait
        self._owner = os.getpid()
        self.workers, self.requests, self.results, self.alive = [], [], [], []
        try:
            for _ in range(job.num_workers):
                self._start(context, job)
        except BaseException:
            self.shutdown()
            raise

    def _start(self, context, job):
        forks = context.get_start_method() == "fork"
        requests = context.Queue()
        requests.cancel_join_thread()
        results, worker_end = context.Pipe(duplex=False)
        inherited = [results] if forks else []
        for pool in _WorkerPool.live if forks else ():
            inherited += pool.results
        process = context.Process(
            target=_utils.worker._worker_loop, daemon=True,
            args=(job, requests, worker_end, len(self.workers), inherited))
        try:
            process.start()
        except BaseException:
            results.close()
            raise
        finally:
            worker_end.close()
        for items, item in ((self.workers, process), (self.requests, requests),
                            (self.results, results), (self.alive, True)):
            items.append(item)

    def receive(self, timeout):
        """Returns (number, data) of the next result; None after the timeout."""
        from ._utils.transport import unpack
        workers = {self.results[i]: i for i, alive in enumerate(self.alive) if alive}
        sentinels = {self.workers[i].sentinel: i for i in workers.values()}
        ready = self._wait([*workers, *sentinels], timeout)
        for connection in ready:
            if connection in workers:
                worker = workers[connection]
                try:
                    message = connection.recv_bytes()
                except EOFError:
                    self._fail([worker])
                return unpack(message, self.workers[worker].pid)
        self._fail([sentinels[s] for s in ready])
        return None

    def _fail(self, workers):
        if not workers:
            return
        failed = [self.workers[i] for i in workers]
        for i in workers:
            self.workers[i].join()
            self.alive[i] = False
        pids = ", ".join(str(p.pid) for p in failed)
        raise RuntimeError(f"DataLoader worker (pid(s) {pids}) exited unexpectedly") from (
            _how_it_ended(failed[0]))

    def end(self, worker):
        """Tells one worker that there are no more requests."""
        self.requests[worker].put(None)
        self.alive[worker] = False

    def shutdown(self):
        """Ends all workers and removes their files."""
        from ._utils.transport import sweep
        if os.getpid() != self._owner:
            return  # a forked process dropped its copy
        processes, self.workers = self.workers, []
        for i in range(len(processes)):
            self.requests[i].put(None)
            self.results[i].close()  # a sending worker notices this
        for process in processes:
            process.join(timeout=_utils.MP_STATUS_CHECK_INTERVAL)
            if process.is_alive():
                process.terminate()
                process.join(timeout=_utils.MP_STATUS_CHECK_INTERVAL)
        for requests in self.requests:
            requests.cancel_join_thread()
            requests.close()
        for process in processes:
            sweep(process.pid)


class _ThreadPool:
    """The worker threads, each with a queue of requests, and one queue of results."""

    def __init__(self, job):
        import queue
        import threading
        self._empty = queue.Empty
        self._results = queue.Queue()
        self.requests = [queue.SimpleQueue() for _ in range(job.num_workers)]
        self.workers = [
            threading.Thread(target=_utils.worker._thread_loop, daemon=True,
                             name=f"DataLoader worker thread {i}",
                             args=(job, requests, self._results, i))
            for i, requests in enumerate(self.requests)]
        for worker in self.workers:
            worker.start()

    def receive(self, timeout):
        """Returns (number, data) of the next result; None after the timeout."""
        try:
            return self._results.get(timeout=timeout)[1]
        except self._empty:
            return None

    def end(self, worker):
        """Tells one worker that there are no more requests."""
        self.requests[worker].put(None)

    def shutdown(self):
        """Ends all workers.  A worker that is stuck in the data set's code is abandoned."""
        import threading
        workers, self.workers = self.workers, []
        for requests in self.requests:
            while not requests.empty():
                requests.get()
            requests.put(None)
        for worker in workers:
            if worker is not threading.current_thread():
                worker.join(timeout=_utils.MP_STATUS_CHECK_INTERVAL)


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    def __init__(self, loader):
        super().__init__(loader)
        import multiprocessing
        import weakref
        self._prefetch_factor = loader.prefetch_factor
        self._in_order = loader.in_order
        if self._prefetch_factor <= 0:
            raise AssertionError(
                "prefetch_factor must be greater than 0 for MultiProcessingDataLoaderIter")
        job = _Job(self, loader.worker_init_fn)
        if loader.worker_method == "thread":
            self._pool = _ThreadPool(job)
        else:
            context = loader.multiprocessing_context or multiprocessing.get_context()
            self._pool = _WorkerPool(context, job)
        self._workers = list(self._pool.workers)
        # Runs when the iterator is dropped, and at the latest when Python ends.
        self._finalize = weakref.finalize(self, self._pool.shutdown)
        self._reset(loader, first_iter=True)

    def _reset(self, loader, first_iter=False):
        super()._reset(loader, first_iter)
        self._send_idx = 0   # the number of the next request
        self._rcvd_idx = 0  # the number of the next result to return
        self._task_info = {}  # number -> (worker,) or (worker, data)
        self._tasks_outstanding = 0
        n = self._num_workers
        self._workers_status = [True] * n  # whether a worker accepts requests
        self._workers_num_tasks = [0] * n
        self._worker_cycle = cycle(range(n))
        if not first_iter:
            self._resume()
        for _ in range(self._prefetch_factor * n):
            self._try_put_index()

    def _resume(self):
        for requests in self._pool.requests:
            requests.put(_utils.worker._ResumeIteration(self._shared_seed))
        waiting = self._num_workers
        while waiting:
            number, _ = self._get_data()
            waiting -= isinstance(number, _utils.worker._ResumeIteration)

    def _get_data(self):
        """Returns the next result of any worker."""
        while True:
            got = self._pool.receive(self._timeout or _utils.MP_STATUS_CHECK_INTERVAL)
            if got is not None:
                return got
            if self._timeout > 0:
                raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds")

    def _skip_finished(self):
        """Skips numbers whose workers ended.  Returns False when there are no more results."""
        while self._rcvd_idx < self._send_idx:
            info = self._task_info.get(self._rcvd_idx)
            if info is not None:
                if len(info) == 2 or self._workers_status[info[0]]:
                    return True
                del self._task_info[self._rcvd_idx]
            self._rcvd_idx += 1
        return False

    def _next_data(self):
        while True:
            if not self._skip_finished():
                if not self._persistent_workers:
                    self._shutdown_workers()
                raise StopIteration
            if len(self._task_info[self._rcvd_idx]) == 2:
                worker, data = self._task_info.pop(self._rcvd_idx)
                self._rcvd_idx += 1
                return self._process_data(data, worker)
            number, data = self._get_data()
            self._tasks_outstanding -= 1
            if isinstance(data, _utils.worker._IterableDatasetStopIteration):
                self._workers_status[data.worker_id] = False
                if not self._persistent_workers:
                    self._pool.end(data.worker_id)
                self._try_put_index()
            elif number != self._rcvd_idx and self._in_order:
                self._task_info[number] += (data,)
            else:
                self._rcvd_idx += number == self._rcvd_idx
                return self._process_data(data, self._task_info.pop(number)[0])

    def _choose_worker(self):
        """Returns the next worker that accepts requests; None when there is none."""
        most = self._prefetch_factor * self._num_workers
        for _ in range(self._num_workers):
            worker = next(self._worker_cycle)
            if self._workers_status[worker] and (
                    self._in_order
                    or self._workers_num_tasks[worker] < most // sum(self._workers_status)):
                return worker
        return None

    def _try_put_index(self):
        try:
            index = self._next_index()
        except StopIteration:
            return
        worker = self._choose_worker()
        if worker is None:
            return
        self._pool.requests[worker].put((self._send_idx, index))
        self._task_info[self._send_idx] = (worker,)
        self._workers_num_tasks[worker] += 1
        self._tasks_outstanding += 1
        self._send_idx += 1

    def _process_data(self, data, worker):
        from ..._utils import ExceptionWrapper
        self._workers_num_tasks[worker] -= 1
        self._try_put_index()
        if isinstance(data, ExceptionWrapper):
            data.reraise()
        return _utils.pin_memory.pin_memory(data) if self._pin_memory else data

    def _shutdown_workers(self):
        self._finalize()
