"""The time of a module's calls in several threads."""
import queue
import threading
import time

__all__ = ["ThroughputBenchmark", "ExecutionStats", "format_time"]


def format_time(time_us=None, time_ms=None, time_s=None):
    """A duration as text: "3.000ms"."""
    if sum(x is not None for x in (time_us, time_ms, time_s)) != 1:
        raise AssertionError("exactly one of time_us, time_ms, time_s must be specified")
    us = time_us if time_us is not None else time_ms * 1e3 if time_ms is not None else time_s * 1e6
    return f"{us / 1e6:.3f}s" if us >= 1e6 else f"{us / 1e3:.3f}ms" if us >= 1e3 else f"{us:.3f}us"


class ExecutionStats:
    """What a measurement found."""

    def __init__(self, total, iterations, threads):
        self.total_time_seconds, self.num_iters, self.calling_threads = total, iterations, threads

    @property
    def latency_avg_ms(self):
        return 1e3 * self.total_time_seconds * self.calling_threads / self.num_iters

    @property
    def iters_per_second(self):
        return self.num_iters / self.total_time_seconds

    def __str__(self):
        return (f"Average latency per example: {format_time(time_ms=self.latency_avg_ms)}\n"
                f"Total number of iterations: {self.num_iters}\n"
                f"Total number of iterations per second (across all threads): {self.iters_per_second:.2f}\n"
                f"Total time: {format_time(time_s=self.total_time_seconds)}")


class ThroughputBenchmark:
    """Calls a module with inputs that add_input gave."""

    def __init__(self, module):
        self._module, self._inputs = module, []

    def add_input(self, *args, **kwargs):
        """Adds the arguments of a call."""
        self._inputs.append((args, kwargs))

    def run_once(self, *args, **kwargs):
        """The result of one call."""
        return self._module(*args, **kwargs)

    def _calls(self, todo, errors):
        try:
            while True:
                args, kwargs = self._inputs[todo.get_nowait() % len(self._inputs)]
                self._module(*args, **kwargs)
        except queue.Empty:
            pass
        except Exception as error:
            errors.append(error)

    def _in_threads(self, count, threads):
        todo, errors = queue.SimpleQueue(), []
        for i in range(count):
            todo.put(i)
        workers = [threading.Thread(target=self._calls, args=(todo, errors)) for _ in range(threads)]
        began = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        if errors:
            raise errors[0]
        return time.perf_counter() - began

    def benchmark(self, num_calling_threads=1, num_warmup_iters=10, num_iters=100, profiler_output_path=""):
        """Measures num_iters calls after num_warmup_iters."""
        if not self._inputs:
            raise RuntimeError("Please provide benchmark inputs. Did you forget to call add_input()?")
        self._in_threads(num_warmup_iters, num_calling_threads)
        return ExecutionStats(self._in_threads(num_iters, num_calling_threads), num_iters, num_calling_threads)
