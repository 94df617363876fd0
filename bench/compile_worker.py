"""Measures one case of bench/compile.py in this process and prints a line of JSON.

    python compile_worker.py MODULE CASE eager|compiled THREADS [small] [first] [turns]

`first` ends after the first call; `turns` measures compiled calls in turns with eager ones.
"""
import hashlib
import importlib
import json
import re
import statistics
import sys
import threading
import time

from compile_cases import CASES

module, name, how, threads = *sys.argv[1:4], int(sys.argv[4])
words = sys.argv[5:]
small = "small" in words
torch = importlib.import_module(module)
nn = importlib.import_module(module + ".nn")
F = importlib.import_module(module + ".nn.functional")
torch.set_num_threads(threads)
torch.manual_seed(0)
now = time.perf_counter
LONGEST = 120.0  # seconds to wait for native code


def resident(line):
    """VmRSS or VmHWM in MB."""
    return int(re.search(line + r":\s+(\d+)", open("/proc/self/status").read()).group(1)) / 1024


def forget_peak():
    try:
        with open("/proc/self/clear_refs", "w") as f:
            f.write("5")
    except OSError:
        pass


def jit_counts():
    """(kernels that are not there yet, kernels asked for that this process did not have)"""
    f = getattr(torch._C, "_jit_counts", None)
    counts = f() if f else {"waiting": 0, "requested": 0, "from_memory": 0}
    return counts["waiting"], counts["requested"] - counts["from_memory"]


def seconds_to_native(f):
    """Seconds from now until every kernel is ready, while f is called repeatedly; kernels that the second or third call
    requests are included. 0 when no kernel is waited for."""
    start, (waiting, asked) = now(), jit_counts()
    ready, over = None if waiting else 0.0, threading.Event()

    def watch():
        nonlocal ready, asked
        while not over.wait(0.001):
            waiting, asked_now = jit_counts()
            if asked_now != asked:
                ready, asked = None, asked_now
            if not waiting and ready is None:
                ready = now() - start
    watcher = threading.Thread(target=watch)
    watcher.start()
    for n in range(1000000):
        f()
        if n >= 2 and ready is not None and not jit_counts()[0] or now() - start > LONGEST:
            break
    over.set()
    watcher.join()
    return now() - start if ready is None else ready


def bits(result):
    """A digest of every bit of the result."""
    digest = hashlib.sha256()
    for t in result if isinstance(result, (tuple, list)) else [result]:
        digest.update(t.detach().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def steady(*calls):
    """Seconds of one call of each: batches that take turns, over about a second or ten calls each."""
    sizes = []
    for f in calls:
        start = now()
        f()
        once = max(now() - start, 1e-7)
        sizes.append(max(1, int(0.02 / once)))
    times, end = [[] for _ in calls], now() + len(calls) * min(max(1.0, 10 * once), 20)
    while len(times[0]) < 5 or now() < end:
        for f, size, of_f in zip(calls, sizes, times):
            start = now()
            for _ in range(size):
                f()
            of_f.append((now() - start) / size)
    return times


def peak_of_tensors(f):
    """The peak in MB of the tensors' memory during a call of Cresset, without programs and the library's pages."""
    torch._C._reset_peak_memory()
    f()
    return torch._C._memory_stats()["peak"] / 1e6


part, step = CASES[name][0](torch, nn, F, small)
before = resident("VmRSS")
forget_peak()
start = now()
plain = part
if how == "compiled":
    part = torch.compile(part)
result = step(part)
answer = {"first": now() - start}
if "first" in words:
    print(json.dumps(answer), flush=True)
    sys.exit()
answer["native"] = seconds_to_native(lambda: step(part))
answer["steady"] = statistics.median(*steady(lambda: step(part)))
answer["peak"] = resident("VmHWM") - before  # before NumPy is loaded
digest = bits(result)
if module == "cresset":
    answer["tensors"] = peak_of_tensors(lambda: step(part))

# The bits of five steps from the start, with the code that is ready.
torch.manual_seed(0)
again, step_again = CASES[name][0](torch, nn, F, small)
if how == "compiled":
    again = torch.compile(again)
for _ in range(5):
    result = step_again(again)
while jit_counts()[0] and not CASES[name][1].get("training") and now() - start < LONGEST:
    result = step_again(again)
answer["bits"] = digest + bits(result)

# Processes and moments differ by a third on a shared machine, neighbouring calls of one process less.
if "turns" in words:
    del again, step_again
    compiled, eager = steady(lambda: step(part), lambda: step(plain))
    answer["steady"], answer["eager"] = statistics.median(compiled), statistics.median(eager)
    answer["gain"] = statistics.median(e / c for e, c in zip(eager, compiled))
print(json.dumps(answer), flush=True)
