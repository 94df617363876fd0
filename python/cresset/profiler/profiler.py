"""Profiles in steps, with a schedule."""
import enum
import os
import socket
import time
from functools import partial
from warnings import warn

from ..autograd import profiler as _profiler
from .._profiler_kinds import ProfilerActivity

__all__ = ["supported_activities", "ProfilerAction", "schedule", "tensorboard_trace_handler", "profile"]

PROFILER_STEP_NAME = "ProfilerStep"


def supported_activities():
    """Returns what this build records."""
    return {ProfilerActivity.CPU}


class ProfilerAction(enum.Enum):
    """Actions of a profiler in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3
    DEVICE_STOPPED = 4


def schedule(*, wait, warmup, active, repeat=0, skip_first=0, skip_first_wait=0):
    """Returns a function from step to action.

    After skip_first steps, cycles of `wait` steps without action, `warmup` and `active` steps follow;
    `repeat` cycles, or any number for 0.  The first cycle does not wait when skip_first_wait is set.
    """
    if wait < 0 or warmup < 0 or active <= 0 or repeat < 0 or skip_first < 0:
        raise AssertionError(
            f"Invalid profiler schedule arguments. Got wait={wait} (need >= 0), warmup={warmup} (need >= 0), "
            f"active={active} (need > 0), repeat={repeat} (need >= 0), skip_first={skip_first} (need >= 0).")
    if warmup == 0:
        warn("Profiler won't be using warmup, this can skew profiler results", stacklevel=2)

    def action(step):
        if step < 0:
            raise AssertionError(f"Step must be non-negative. Got {step}.")
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        length = wait + warmup + active
        if repeat > 0 and step // length >= repeat:
            return ProfilerAction.NONE
        at = step % length
        if at < wait:
            return ProfilerAction.NONE
        if at < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if at < length - 1 else ProfilerAction.RECORD_AND_SAVE
    return action


def _default_schedule_fn(_):
    """Records always."""
    return ProfilerAction.RECORD


def tensorboard_trace_handler(dir_name, worker_name=None, use_gzip=False, use_python_export=False):
    """Returns an on_trace_ready function that writes traces to a folder."""
    def handle(prof):
        os.makedirs(dir_name, exist_ok=True)
        name = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        ending = ".pt.trace.json.gz" if use_gzip else ".pt.trace.json"
        prof.export_chrome_trace(os.path.join(dir_name, f"{name}.{time.time_ns()}{ending}"))
    return handle


class _KinetoProfile:
    """A profile that is started and stopped by calls."""

    def __init__(self, *, activities=None, record_shapes=False, profile_memory=False, with_stack=False,
                 with_flops=False, with_modules=False, experimental_config=None,
                 execution_trace_observer=None, acc_events=False, custom_trace_id_callback=None,
                 post_processing_timeout_s=None):
        self.activities = supported_activities() if activities is None else set(activities)
        self.record_shapes, self.profile_memory = record_shapes, profile_memory
        self.with_flops, self.with_stack, self.with_modules = with_flops, with_stack, with_modules
        self.acc_events = acc_events
        self.profiler = None
        self.preset_metadata = {}
        self._metadata = {}
        if not self.activities & supported_activities():
            raise AssertionError("No valid profiler activities found")

    def prepare_trace(self):
        """Makes the profile."""
        if self.profiler is None or not self.acc_events:
            self.profiler = _profiler.profile(
                use_cpu=True, record_shapes=self.record_shapes, with_flops=self.with_flops,
                profile_memory=self.profile_memory, with_stack=self.with_stack,
                with_modules=self.with_modules, use_kineto=True, acc_events=self.acc_events)

    def start_trace(self):
        """Starts recording."""
        if self.profiler is None:
            raise AssertionError("Profiler must be initialized before starting trace")
        self.profiler.__enter__()

    def stop_trace(self):
        """Ends recording."""
        if self.profiler is None:
            raise AssertionError("Profiler must be initialized before stopping trace")
        self.profiler.__exit__(None, None, None)

    def start(self):
        """Makes the profile and starts recording."""
        self.prepare_trace()
        self.start_trace()

    def stop(self):
        """Ends recording."""
        self.stop_trace()

    def _need(self):
        if not self.profiler:
            raise AssertionError("Profiler must be initialized before getting key averages")
        return self.profiler

    def export_chrome_trace(self, path):
        """Writes a trace for chrome://tracing and Perfetto; a name that ends with .gz is compressed."""
        from ._trace import write
        events = self.events()
        extra = {"record_shapes": int(self.record_shapes), "profile_memory": int(self.profile_memory),
                 **self.preset_metadata, **self._metadata}
        write(path, events, extra)

    def export_stacks(self, path, metric="self_cpu_time_total"):
        """Writes the events' stacks; they are empty."""
        self._need().export_stacks(path, metric)

    def key_averages(self, group_by_input_shape=False, group_by_stack_n=0, group_by_overload_name=False):
        """Returns sums by name."""
        return self._need().key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def events(self):
        """Returns all events."""
        profiler = self._need()
        profiler._check_finish()
        return profiler.function_events

    def add_metadata(self, key, value):
        """Adds a text to the trace."""
        self._metadata[key] = value

    def add_metadata_json(self, key, value):
        """Adds JSON to the trace."""
        import json
        self._metadata[key] = json.loads(value)

    def preset_metadata_json(self, key, value):
        """Adds JSON to the traces of all cycles."""
        import json
        self.preset_metadata[key] = json.loads(value)


class profile(_KinetoProfile):
    """Records the calls of a `with` block, or of those of its steps that a schedule chooses."""

    def __init__(self, *, activities=None, schedule=None, on_trace_ready=None, record_shapes=False,
                 profile_memory=False, with_stack=False, with_flops=False, with_modules=False,
                 experimental_config=None, execution_trace_observer=None, acc_events=False, use_cuda=None,
                 custom_trace_id_callback=None, post_processing_timeout_s=None):
        if use_cuda is not None:
            warn("`use_cuda` is deprecated, use `activities` argument instead", FutureWarning, stacklevel=2)
        super().__init__(activities=activities, record_shapes=record_shapes, profile_memory=profile_memory,
                         with_stack=with_stack, with_flops=with_flops, with_modules=with_modules,
                         experimental_config=experimental_config, acc_events=acc_events)
        self.record_steps = schedule is not None
        self.schedule = schedule or _default_schedule_fn
        self.on_trace_ready = on_trace_ready
        self.step_num = 0
        self.current_action = self.schedule(0)
        self.step_rec_fn = None
        self.action_map = _transitions(self)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, exc_type, exc_val, exc_tb):
        self.stop()
        _profiler.KinetoStepTracker.erase_step_count(PROFILER_STEP_NAME)

    def start(self):
        """Begins the first step."""
        self._transit_action(ProfilerAction.NONE, self.current_action)
        if self.record_steps:
            self._begin_step()

    def stop(self):
        """Ends the last step."""
        if self.record_steps and self.step_rec_fn:
            self.step_rec_fn.__exit__(None, None, None)
        self._transit_action(self.current_action, None)

    def _begin_step(self):
        self.step_rec_fn = _profiler.record_function(f"ProfilerStep#{self.step_num}")
        self.step_rec_fn.__enter__()

    def step(self):
        """Begins the next step."""
        if self.record_steps and self.step_rec_fn:
            self.step_rec_fn.__exit__(None, None, None)
        before = self.current_action
        self.step_num += 1
        self.current_action = self.schedule(self.step_num)
        self._transit_action(before, self.current_action)
        _profiler.KinetoStepTracker.increment_step(PROFILER_STEP_NAME)
        if self.record_steps:
            self._begin_step()

    def _trace_ready(self):
        if self.on_trace_ready:
            self.on_trace_ready(self)

    def _transit_action(self, prev_action, current_action):
        for act in self.action_map.get((prev_action, current_action), ()):
            act()


def _transitions(p):
    """Returns {(action before, action now): functions that are called between}."""
    NONE, WARMUP, RECORD, SAVE, _ = ProfilerAction
    wrong = lambda text: partial(warn, f"Incorrect schedule: {text}", stacklevel=4)
    begin, save = [p.prepare_trace, p.start_trace], [p.stop_trace, p._trace_ready]
    return {
        (NONE, WARMUP): [p.prepare_trace], (NONE, RECORD): begin, (NONE, SAVE): begin,
        (WARMUP, NONE): [wrong("WARMUP followed by NONE"), p.start_trace, p.stop_trace],
        (WARMUP, RECORD): [p.start_trace], (WARMUP, SAVE): [p.start_trace],
        (RECORD, NONE): [wrong("RECORD followed by NONE"), p.stop_trace],
        (RECORD, WARMUP): [wrong("RECORD followed by WARMUP"), p.stop_trace],
        (SAVE, NONE): save, (SAVE, WARMUP): [*save, p.prepare_trace],
        (SAVE, RECORD): [*save, *begin], (SAVE, SAVE): [*save, *begin],
        (WARMUP, None): [p.start_trace, p.stop_trace], (RECORD, None): save, (SAVE, None): save}
