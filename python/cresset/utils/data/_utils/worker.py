"""Workers of the data loader: processes or threads."""
import os
import threading

from . import MP_STATUS_CHECK_INTERVAL

_worker_info = None  # of a worker process
_here = threading.local()  # _here.info: of a worker thread


class _RNG:
    """The random streams of a worker thread; numpy_generator is None when NumPy is not loaded."""

    def __init__(self, seed, words):
        import random
        import sys

        import cresset
        numpy = sys.modules.get("numpy")
        self.random_generator = random.Random(seed)
        self.torch_generator = cresset.Generator().manual_seed(seed)
        self.numpy_generator = None if numpy is None else numpy.random.default_rng(words)


class WorkerInfo:
    """A worker's id, num_workers, seed, dataset; for a thread also rng, its random streams."""

    __slots__ = ("id", "num_workers", "seed", "dataset", "rng", "worker_method")

    def __init__(self, id, num_workers, seed, dataset, rng=None,
                 worker_method="multiprocessing"):
        for name, value in zip(self.__slots__, (id, num_workers, seed, dataset, rng,
                                                worker_method)):
            object.__setattr__(self, name, value)

    def __setattr__(self, name, value):
        raise AttributeError(f"cannot assign to field {name!r}")

    def __repr__(self):
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"WorkerInfo({fields})"


def get_worker_info():
    """Returns the WorkerInfo of this process or thread; None outside of workers."""
    return getattr(_here, "info", None) or _worker_info


class _IterableDatasetStopIteration:
    """Sent when a worker's iterable data set has ended."""

    def __init__(self, worker_id):
        self.worker_id = worker_id


class _ResumeIteration:
    """A request to restart the data set; sent back when that is done."""

    def __init__(self, shared_seed=None):
        self.shared_seed = shared_seed


def _hash32(constant, multiplier):
    """The hash of NumPy's seed sequence, whose constant changes with every use."""
    def step(value):
        nonlocal constant
        value = (value ^ constant) & 0xFFFFFFFF
        constant = constant * multiplier & 0xFFFFFFFF
        value = value * constant & 0xFFFFFFFF
        return value ^ value >> 16

    return step


def _mix32(x, y):
    value = (0xCA01F9DD * x - 0x4973F715 * y) & 0xFFFFFFFF
    return value ^ value >> 16


def _generate_state(base_seed, worker_id):
    """Returns four words of seed, equal to numpy.random.SeedSequence's."""
    first = _hash32(0x43B0D7E5, 0x931E8875)
    pool = [first(x) for x in (worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0)]
    for i in range(4):
        for j in range(4):
            if i != j:
                pool[j] = _mix32(pool[j], first(pool[i]))
    second = _hash32(0x8B51F9DD, 0x58F38DED)
    return [second(x) for x in pool]


def _seed(base_seed, worker_id):
    """Seeds all generators of this process; NumPy's when NumPy is loaded."""
    import random
    import sys

    import cresset
    random.seed(base_seed + worker_id)
    cresset.manual_seed(base_seed + worker_id)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(_generate_state(base_seed, worker_id))


class _Worker:
    """Answers requests (number, index) with results (number, data) until told to end."""

    kind = "process"

    def __init__(self, job, requests, results, worker_id):
        self.job, self.requests, self.results = job, requests, results
        self.where = f"in DataLoader worker {self.kind} {worker_id}"
        self.id = worker_id
        self.parent = os.getppid()
        self.ended = False
        self.fetcher = self.failure = None

    def wrap(self):
        from ...._utils import ExceptionWrapper
        return ExceptionWrapper(where=self.where)

    def start(self):
        """Runs the user's initialization.  Its exception is the first result."""
        try:
            if self.job.init_fn is not None:
                self.job.init_fn(self.id)
            self.fetcher = self.job.make_fetcher(self.id)
        except Exception:
            self.failure = self.wrap()

    def next_request(self):
        """Returns the next request; None when the worker should end."""
        import queue
        while True:
            try:
                return self.requests.get(timeout=MP_STATUS_CHECK_INTERVAL)
            except queue.Empty:
                if os.getppid() != self.parent:
                    return None

    def serve(self):
        while (request := self.next_request()) is not None:
            if isinstance(request, _ResumeIteration):
                self.ended = False
                self.job.shared_seed = request.shared_seed
                self.fetcher = self.job.make_fetcher(self.id)
                self.send((request, None))
            elif not self.ended:
                number, index = request
                self.send((number, self.fetch(index)))

    def fetch(self, index):
        if self.failure is not None:
            failure, self.failure = self.failure, None
            return failure
        try:
            return self.fetcher.fetch(index)
        except StopIteration:
            if not self.job.iterable:
                return self.wrap()
            self.ended = True
            return _IterableDatasetStopIteration(self.id)
        except Exception:
            return self.wrap()

    def send(self, result):
        from .transport import pack
        try:
            message = pack(result)
        except Exception:
            message = pack((result[0], self.wrap()))
        self.results.send_bytes(message)


def _worker_loop(job, requests, results, worker_id, inherited):
    """The main function of a worker.

    `inherited` are other workers' pipe ends.  A forked process has copies of them and must
    close these.
    """
    global _worker_info
    import cresset
    for connection in inherited:
        connection.close()
    try:
        cresset.set_num_threads(1)
        _seed(job.base_seed, worker_id)
        _worker_info = WorkerInfo(worker_id, job.num_workers, job.base_seed + worker_id,
                                  job.dataset)
        worker = _Worker(job, requests, results, worker_id)
        worker.start()
        worker.serve()
    except (KeyboardInterrupt, BrokenPipeError):
        pass  # the parent has ended or closed the pipe


class _ThreadWorker(_Worker):
    """A worker in a thread: results are passed without copying."""

    kind = "thread"

    def next_request(self):
        return self.requests.get()

    def send(self, result):
        self.results.put((self.id, result))


def _thread_loop(job, requests, results, worker_id):
    """The main function of a worker thread.  The process's generators are not seeded."""
    from ...._C import _set_thread_limit
    seed = job.base_seed + worker_id
    _here.info = WorkerInfo(worker_id, job.num_workers, seed, job.dataset,
                            _RNG(seed, _generate_state(job.base_seed, worker_id)), "thread")
    _set_thread_limit(1)
    worker = _ThreadWorker(job, requests, results, worker_id)
    worker.start()
    worker.serve()
