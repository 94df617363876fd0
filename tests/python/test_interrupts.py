"""Exceptions that are not errors of a call, as KeyboardInterrupt, reach the program."""
import subprocess
import sys

import cresset as torch
import pytest


class Interrupts:
    """Every use as a number, a truth value or a sequence is interrupted."""

    def interrupt(self, *args):
        raise KeyboardInterrupt
    __index__ = __int__ = __float__ = __bool__ = __len__ = __iter__ = __getitem__ = interrupt


X = torch.ones(2, 3)


@pytest.mark.parametrize("call", [
    lambda x: X.sum(x), lambda x: X.view([x, 2]), lambda x: torch.zeros([x]),
    lambda x: X.transpose(x, 0), lambda x: torch.cat([X, X], x), lambda x: X.expand([x, 2, 3]), lambda x: X[x],
    lambda x: X.new_zeros((x,)), lambda x: X.narrow(0, x, 1)])
def test_an_interrupt_within_an_argument_is_no_type_error(call):
    with pytest.raises(KeyboardInterrupt):
        call(Interrupts())


@pytest.mark.parametrize("setter", [
    torch.set_flush_denormal, torch._C._set_warn_always, torch.inference_mode, torch._C.set_autocast_cache_enabled,
    lambda x: torch._C.set_autocast_enabled("cpu", x), torch._C._profile_start, torch._C._set_grad_enabled])
def test_a_setter_whose_argument_raises_raises(setter):
    with pytest.raises((KeyboardInterrupt, TypeError)):
        setter(Interrupts())


def test_a_large_version_of_dlpack_gets_the_newest_that_there_is():
    assert "dltensor_versioned" in repr(X.__dlpack__(max_version=(2**70, 0)))


def test_detect_anomaly_does_not_swallow_an_interrupt(monkeypatch):
    import traceback

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt
    x = torch.ones(2, requires_grad=True)
    with torch.autograd.detect_anomaly(check_nan=False):
        monkeypatch.setattr(traceback, "format_stack", interrupted)
        with pytest.raises(KeyboardInterrupt):
            x * 2
            for _ in range(1000):  # the exception comes at one of the next instructions
                pass
        monkeypatch.undo()


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


def states():
    """Returns what a program that ended must have left as it was."""
    x = torch.ones(1, requires_grad=True)
    Twice.apply(x).backward()  # raises in a pass of forward mode, because Twice has no jvp
    return (x.grad.item(), len(torch.autograd.function._forward_modes), torch._C._len_torch_dispatch_stack(), torch.is_autocast_enabled("cpu"), torch._C._saved_hooks_active(),
            torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch._C.is_anomaly_enabled())


def run_interrupted(program, at):
    """Runs a program; there is an interrupt at the `at`-th place where CPython looks for signals: at the start of a
    function and after a call of a built-in one.  Returns whether the program has that many places."""
    count = 0

    def watch(frame, event, arg):
        nonlocal count
        if event in ("call", "c_return"):
            count += 1
            if count == at:
                sys.setprofile(None)
                raise KeyboardInterrupt
    sys.setprofile(watch)
    try:
        program()
    except KeyboardInterrupt:
        pass
    finally:
        sys.setprofile(None)
    return count >= at


def in_autocast():
    with torch.autocast("cpu", torch.bfloat16):
        return X @ X.t()


def in_hooks():
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
        return X.clone().requires_grad_().exp()


def in_checkpoint():
    x = torch.ones(2, 3, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        torch.utils.checkpoint.checkpoint(torch.exp, x, use_reentrant=False).sum().backward()
        torch.utils.checkpoint.checkpoint(torch.exp, x, use_reentrant=True).sum().backward()


PROGRAMS = {
    "checkpoint": in_checkpoint,
    "autocast": in_autocast, "hooks": in_hooks,
    "vmap": lambda: torch.func.vmap(lambda a: a * 2)(X),
    "grad": lambda: torch.func.grad(lambda a: a.sum())(X),
    "jacrev": lambda: torch.func.jacrev(lambda a: a * a)(X[0]),
    "jacfwd": lambda: torch.func.jacfwd(lambda a: a * a)(X[0]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_interrupt_leaves_no_mode_on(name):
    PROGRAMS[name]()
    before, at = states(), 1
    while at < 3000 and run_interrupted(PROGRAMS[name], at):
        after = states()
        assert after == before, f"interrupt {at} of {name}"
        at += 1
    assert at > 2


def test_a_handler_of_a_signal_finds_modules_that_are_complete(tmp_path):
    """A handler runs while the first use of a module imports it, and uses the module."""
    program = tmp_path / "program.py"
    program.write_text("""
import _signal, signal, sys
import cresset
seen = []
def handler(number, frame):
    seen.append(cresset.distributions.Normal is not None and cresset.distributions.kl_divergence is not None)
signal.signal(signal.SIGUSR1, handler)
def watch(event, arguments):  # an import within the import
    if event == "import" and arguments[0] == "cresset.distributions.normal" and not seen:
        _signal.raise_signal(signal.SIGUSR1)
sys.addaudithook(watch)
cresset.distributions.Normal
print(seen, signal.getsignal(signal.SIGUSR1) is handler)
""")
    run = subprocess.run([sys.executable, program], capture_output=True, text=True)
    assert run.stdout == "[True] True\n", run.stderr


def test_an_interrupt_of_an_import_comes_after_it(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("""
import _signal, signal, sys
import cresset
def watch(event, arguments):
    if event == "import" and arguments[0] == "cresset.distributions.normal":
        _signal.raise_signal(signal.SIGINT)
sys.addaudithook(watch)
try:
    cresset.distributions
except KeyboardInterrupt:
    print("interrupted", cresset.distributions.Normal.__name__)
""")
    run = subprocess.run([sys.executable, program], capture_output=True, text=True)
    assert run.stdout == "interrupted Normal\n", run.stderr


def output_of(tmp_path, text):
    program = tmp_path / "program.py"
    program.write_text(text)
    run = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=60)
    assert not run.returncode, run.stderr
    return run.stdout


def test_an_import_of_another_thread_leaves_signals_their_handlers(tmp_path):
    """The main thread imports a module; a thread begins to import another one meanwhile, and ends after it."""
    assert output_of(tmp_path, """
import signal, sys, threading
import cresset
begun, ended, failed = threading.Event(), threading.Event(), []
def other():
    try:
        cresset.quasirandom
    except BaseException as error:
        failed.append(error)
def watch(event, arguments):
    if event == "import" and arguments[0] == "cresset.distributions.normal" and not begun.is_set():
        thread.start()
        begun.wait(20)
    elif event == "exec" and arguments[0].co_filename.endswith("quasirandom.py"):
        begun.set()
        ended.wait(20)
thread = threading.Thread(target=other)
sys.addaudithook(watch)
cresset.distributions
ended.set()
thread.join()
print(begun.is_set(), failed, signal.getsignal(signal.SIGINT) is signal.default_int_handler)
""") == "True [] True\n"


SIGNALS = """
import _signal, signal, sys
import cresset
from cresset import _imports
calls = []
def usual(number, frame):
    calls.append(number)
def late(number, frame):
    calls.append(number)
    raise TimeoutError
signal.signal(signal.SIGUSR1, usual)
signal.signal(signal.SIGALRM, late)
"""


def test_a_handler_that_raises_before_an_import_leaves_signals_their_handlers(tmp_path):
    """A signal arrives when some of the handlers have been replaced and its own has not."""
    assert output_of(tmp_path, SIGNALS + """
def replace(number, handler, replace=_signal.signal):
    if number == signal.SIGALRM and handler == _imports._Waiting.note:
        _signal.signal = replace
        _signal.raise_signal(signal.SIGUSR1)
        _signal.raise_signal(signal.SIGALRM)
    return replace(number, handler)
_signal.signal = replace
try:
    cresset.distributions
except TimeoutError:
    print("late", calls == [signal.SIGALRM, signal.SIGUSR1])
print(signal.getsignal(signal.SIGUSR1) is usual, signal.getsignal(signal.SIGALRM) is late, _imports._Waiting.depth)
""") == "late True\nTrue True 0\n"


def test_all_signals_that_arrive_in_an_import_reach_their_handlers(tmp_path):
    assert output_of(tmp_path, SIGNALS + """
def watch(event, arguments):
    if event == "import" and arguments[0] == "cresset.distributions.normal":
        _signal.raise_signal(signal.SIGALRM)
        _signal.raise_signal(signal.SIGUSR1)
sys.addaudithook(watch)
try:
    cresset.distributions
except TimeoutError:
    print("late", calls == [signal.SIGALRM, signal.SIGUSR1])
""") == "late True\n"
