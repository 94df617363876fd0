"""One table of digests: every entry's results and gradients, a column for each way to compute them.

    python tests/ops/digests.py                    all entries; exit status 1 where columns differ
    python tests/ops/digests.py --parts 24         every 24th entry
    python tests/ops/digests.py --table FILE       writes the table there: a row a case, its digest or digests
    python tests/ops/digests.py --backend OBJECT   also columns of the device that the shared object registers

A column is a machine (an instruction set, by CR_ISA, or a backend), a tier (eager, tiles, native) and a
number of threads. Each machine and tier is a process, which prints its digests; all NaNs are equal. On a processor
without AVX-512 that column repeats its best instruction set. A backend compiles every kernel, so it has no tiles. The
table states which rows may differ, for the entry and all that its clauses call: the word `threads` allows
any column to differ; the word `library`, and a function of the C library in the row's dtype, allow machines
to differ, but not the columns of one machine."""
import argparse
import concurrent.futures
import functools
import glob
import hashlib
import json
import os
import re
import resource
import subprocess
import sys
import warnings

MACHINES = {"avx2": {"CR_ISA": "avx2"}, "avx512": {"CR_ISA": "avx512"}, "backend": {}}
TIERS = {"eager": {}, "tiles": {"CR_CC": "none"}, "native": {}}
THREADS = (1, 2)
DTYPES = ("float32", "bfloat16", "float64", "complex64")
LARGE = (70, 1100)  # more than a block of rows, and more than a chunk of elements
MEMORY = 8 << 30    # that cases may take: an entry whose results grow beyond all bounds fails alone
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TABLE = os.path.join(ROOT, "src", "ops", "table", "*.op")


# --- a process: one machine and tier ---

def digest(tensors):
    import numpy
    from table import as_array

    h = hashlib.blake2b(digest_size=8)
    for t in tensors:
        if t is None:
            h.update(b"none")
            continue
        x = numpy.ascontiguousarray(as_array(t.cpu()))
        parts = (x.real, x.imag) if x.dtype.kind == "c" else (x,)
        h.update(f"{t.dtype}{t.shape}".encode())
        for p in parts:
            p = numpy.array(p)
            if p.dtype.kind == "f":
                p[numpy.isnan(p)] = numpy.nan
            h.update(p.tobytes())
    return h.hexdigest()


def draws(entry):
    from table import Draw

    for dtype in DTYPES:
        if dtype not in entry.dtypes:
            continue
        for k, case in enumerate(entry.cases()):
            yield f"{entry.key} {dtype} {k}", lambda: Draw(entry, case, dtype, requires_grad=dtype != "bfloat16")
        if not entry.sample and not grows(entry, dtype):
            yield f"{entry.key} {dtype} large", lambda: Draw(entry, "", dtype, shape=LARGE, requires_grad=dtype != "bfloat16")


def grows(entry, dtype):
    """Whether results are much larger than arguments, as diagflat's, which squares sizes."""
    from table import Draw, leaves

    try:
        return any(x.numel() > 40 for x in leaves(Draw(entry, "", dtype).run()))
    except (RuntimeError, TypeError, NotImplementedError, IndexError, ValueError):
        return True


def outcome(torch, f, draw):
    from test_compiled import results

    torch.manual_seed(7)
    outs, grads = results(f, draw, draw.values)
    return digest(outs), digest(grads)


def compiled(torch, f, draw, native):
    g = torch.compile(f)
    outcome(torch, g, draw)
    for e in g._entries if native else ():
        e.runner.wait(60.0)
    return g


def placed(value, place):
    import cresset as torch

    if isinstance(value, torch.Tensor):
        return place(value.detach()).requires_grad_(value.requires_grad)
    return [placed(v, place) for v in value] if isinstance(value, (list, tuple)) else value


def prepared(torch, make, place):
    """The case's arguments and function, or None where the entry refuses them."""
    from test_compiled import wrap
    from test_on_device import ON_THE_HOST

    try:
        draw = make()
        if place:
            draw.values = {k: v if k in ON_THE_HOST else placed(v, place) for k, v in draw.values.items()}
        f = wrap(draw.entry, draw)
        outcome(torch, f, draw)
        return draw, f
    except (RuntimeError, TypeError, NotImplementedError, IndexError, ValueError, MemoryError):
        return None


def loaded(backend):
    """A function that copies a tensor to the device of the shared object."""
    import cresset as torch

    torch.utils.load_backend(backend)
    device = torch._C._get_privateuse1_backend_name()
    return lambda t: t.to(device)


def mapped():
    """Bytes of the address space in use; a backend may map far more than it uses."""
    with open("/proc/self/statm", encoding="ascii") as f:
        return int(f.read().split()[0]) * resource.getpagesize()


def run(machine, tier, parts, backend):
    import cresset as torch
    from test_compiled import DRAWN

    place = loaded(backend) if machine == "backend" else None
    warnings.simplefilter("ignore")
    limit = mapped() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    for entry in DRAWN[::parts]:
        for name, make in draws(entry) if "random" not in entry.words else ():
            case = prepared(torch, make, place)
            if not case:
                continue
            draw, f = case
            g = f if tier == "eager" else compiled(torch, f, draw, tier == "native")
            for threads in THREADS:
                torch.set_num_threads(threads)
                print(json.dumps([name, threads, *outcome(torch, g, draw)]), flush=True)


# --- all of them ---

def workers(backend=""):
    """The machine and tier of each process."""
    return [(m, t) for t in TIERS for m in MACHINES if m != "backend" or (backend and t != "tiles")]


def lines_of(machine, tier, parts, backend):
    """The lines that one process prints."""
    env = dict(os.environ, **MACHINES[machine], **TIERS[tier])
    command = [sys.executable, os.path.abspath(__file__), "--run", machine, tier, "--parts", str(parts),
               "--backend", backend]
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"{machine} {tier}: exit status {done.returncode}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def gather(parts, backend=""):
    """{row: {column: digest}}."""
    table = {}
    columns = workers(backend)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for (machine, tier), lines in zip(columns, pool.map(lambda c: lines_of(*c, parts, backend), columns)):
            for name, threads, *digests in lines:
                for kind, d in zip(("results", "gradients"), digests):
                    table.setdefault(f"{name} {kind}", {})[f"{machine} {tier} {threads}"] = d
    return table


def clauses():
    """{entry's name: the text of its entries}."""
    texts = {}
    for path in sorted(glob.glob(TABLE)):
        with open(path, encoding="utf-8") as f:
            for text in re.split(r"^op ", f.read(), flags=re.M)[1:]:
                name = re.match(r"\w+", text).group()
                texts[name] = texts.get(name, "") + text
    return texts


def with_callers(found, texts):
    """The entries, and those whose clauses call one of them."""
    while True:
        callers = re.compile(r"\b(%s)\(" % "|".join(sorted(found)))
        more = {n for n, t in texts.items() if callers.search(t.partition("\n")[2])} | found
        if more == found:
            return found
        found = more


def may_differ(word):
    """Names of entries that carry the word, or whose clauses call one that may differ."""
    texts = clauses()
    return with_callers({n for n, t in texts.items() if re.search(rf"^  words .*\b{word}\b", t, re.M)}, texts)


def called(name, texts):
    """The entry and all that its clauses call, directly or not."""
    found, left = set(), [name]
    while left:
        n = left.pop()
        if n in texts and n not in found:
            found.add(n)
            left += re.findall(r"\b(\w+)\(", texts[n].partition("\n")[2])
    return found


@functools.lru_cache(maxsize=None)
def library_calls(name):
    """{dtype: functions of the C library that the entry's kernels call}, as crc explains them."""
    crc = os.path.join(os.environ.get("CRESSET_BUILD", os.path.join(ROOT, "build")), "crc")
    text = subprocess.run([crc, "explain", name], capture_output=True, text=True, check=True).stdout
    found = {}
    for line in re.findall(r"^  calls the C library: (.*)$", text, re.M):
        for function, dtypes in re.findall(r"(\w+) \(([\w ]+)\)", line):
            for dtype in dtypes.split():
                found.setdefault(dtype, set()).add(function)
    return found


def calls_library(row):
    name, dtype = re.match(r"(\w+)\S* (\w+)", row).groups()
    compute = "float32" if dtype == "bfloat16" else dtype
    return any(compute in library_calls(n) for n in called(name, clauses()))


def machines_agree(digests):
    """Whether the columns of each machine are one digest."""
    seen = {}
    for column, d in digests.items():
        seen.setdefault(column.split()[0], set()).add(d)
    return all(len(s) == 1 for s in seen.values())


def compare(table, columns):
    """Returns the rows that differ, or lack one of `columns` columns, and may not; and the number of other rows that
    differ."""
    threads, library = may_differ("threads"), may_differ("library")
    wrong, known = [], 0
    for row, digests in sorted(table.items()):
        whole = len(digests) == columns
        if whole and len(set(digests.values())) == 1:
            continue
        name = re.match(r"\w+", row).group()
        if name in threads or (whole and machines_agree(digests) and (name in library or calls_library(row))):
            known += 1
        else:
            wrong.append((row, digests))
    return wrong, known


def write(table, path):
    with open(path, "w", encoding="utf-8") as f:
        for row, digests in sorted(table.items()):
            same = len(set(digests.values())) == 1
            f.write(f"{row}: {next(iter(digests.values())) if same else digests}\n")


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--run", nargs=2, metavar=("MACHINE", "TIER"))
    a.add_argument("--parts", type=int, default=1)
    a.add_argument("--table")
    a.add_argument("--backend", default="")
    args = a.parse_args()
    if args.run:
        return run(*args.run, args.parts, args.backend)
    table = gather(args.parts, args.backend)
    columns = len(workers(args.backend)) * len(THREADS)
    if args.table:
        write(table, args.table)
    wrong, known = compare(table, columns)
    for row, digests in wrong:
        print(row, digests)
    print(f"{len(table)} rows of {columns} columns: {len(wrong)} differ, and {known} that the table lists")
    return bool(wrong) or not table


if __name__ == "__main__":
    sys.exit(main())
