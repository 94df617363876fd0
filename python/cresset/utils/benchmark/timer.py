"""Timing of statements in Python."""
import enum
import timeit

from .measurement import Measurement, TaskSpec, set_torch_threads

__all__ = ["Timer", "timer", "Language"]

timer = timeit.default_timer


class Language(enum.Enum):
    """The language of statements; Python is the one that is measured."""

    PYTHON = 0
    CPP = 1


class Timer:
    """Measures a statement, with one thread unless told."""

    _timer_cls = timeit.Timer

    def __init__(self, stmt="pass", setup="pass", global_setup="", timer=timer, globals=None, label=None,
                 sub_label=None, description=None, env=None, num_threads=1, language=Language.PYTHON):
        if not isinstance(stmt, str):
            raise ValueError("Currently only a `str` stmt is supported.")
        if language not in (Language.PYTHON, "py", "python"):
            raise ValueError(f"statements in {language} cannot be measured; only those in Python")
        if global_setup:
            raise ValueError("global_setup is C++ only, got `{global_setup}`. Most likely this code can simply be "
                             "moved to `setup`.".format(global_setup=global_setup))
        self._globals = dict(globals or {})
        import sys
        self._globals.setdefault("torch", sys.modules[__name__.partition(".")[0]])
        self._language = Language.PYTHON
        self._timer = self._timer_cls(_dedent(stmt), _dedent(setup), timer=timer, globals=self._globals)
        self._task_spec = TaskSpec(stmt=_dedent(stmt), setup=_dedent(setup), label=label, sub_label=sub_label,
                                   description=description, env=env, num_threads=num_threads)

    def _timeit(self, number):
        return max(self._timer.timeit(number), 1e-9)

    def timeit(self, number=1000000):
        """Measures `number` calls."""
        with set_torch_threads(self._task_spec.num_threads):
            self._timeit(number=max(int(number // 100), 2))  # warms up
            return Measurement(number, [self._timeit(number=number)], self._task_spec)

    def repeat(self, repeat=-1, number=-1):
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def autorange(self, callback=None):
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def _threaded_measurement_loop(self, number, time_hook, stop_hook, min_run_time, max_run_time=None, callback=None):
        total, can_stop, times = 0.0, False, []
        with set_torch_threads(self._task_spec.num_threads):
            while total < min_run_time or not can_stop:
                spent = time_hook()
                times.append(spent)
                total += spent
                if callback:
                    callback(number, spent)
                can_stop = stop_hook(times)
                if max_run_time and total > max_run_time:
                    break
        return times

    def _estimate_block_size(self, min_run_time):
        """Returns the number of calls that takes much longer than reading the clock."""
        with set_torch_threads(self._task_spec.num_threads):
            overhead = sorted(self._timeit(0) for _ in range(5))[2]
            number = 1
            while True:
                spent = self._timeit(number)
                relative = overhead / spent
                if relative <= 1e-4 and spent >= min_run_time / 1000:
                    break
                if spent > min_run_time:
                    break
                number *= 10
        return number

    def blocked_autorange(self, callback=None, min_run_time=0.2):
        """Measures runs of many calls until min_run_time has passed."""
        number = self._estimate_block_size(min_run_time)
        times = self._threaded_measurement_loop(
            number, lambda: self._timeit(number), lambda times: True, min_run_time=min_run_time, callback=callback)
        return Measurement(number, times, self._task_spec)

    def adaptive_autorange(self, threshold=0.1, *, min_run_time=0.01, max_run_time=10.0, callback=None):
        """Measures until the middle half of the times is narrower than `threshold` of the median."""
        number = self._estimate_block_size(min_run_time=0.05)

        def narrow(times):
            return len(times) > 3 and Measurement(number, times, self._task_spec).meets_confidence(threshold)
        times = self._threaded_measurement_loop(number, lambda: self._timeit(number), narrow, min_run_time, max_run_time,
                                                callback=callback)
        return Measurement(number, times, self._task_spec)


def _dedent(text):
    import textwrap
    return textwrap.dedent(text).strip("\n") if "\n" in text else text
