"""Native code of compiled functions: results equal eager's for every source and failure of the code."""
import os
import signal
import stat
import subprocess
import sys
import textwrap
import time

import pytest

# A function with several kernels; prints the compiler's counters and whether results equal
# eager's.
PROGRAM = """
import sys
import cresset as torch
import cresset.nn.functional as F

def f(x, y, s):
    a = F.gelu(x * 1.5 + y) @ y.t()
    b = ((a - 1).tanh() * a + 2) @ y
    return (b * s + x).sigmoid() @ (y - x).t().exp()

torch.manual_seed(0)
x, y = torch.randn(40, 30), torch.randn(40, 30)
torch._dynamo.config.deferred_calls = 0
g = torch.compile(f)
same = all(torch.equal(g(x, y, 0.5), f(x, y, 0.5)) for _ in range(3))
{middle}
torch._C._jit_wait(60.0)
same = same and all(torch.equal(g(x, y, 0.5), f(x, y, 0.5)) for _ in range(3))
c = torch._C._jit_counts()
print(same, c["compiled"], c["from_disk"], c["failed"], c["waiting"])
"""


def start(cache, middle="", before="", **more):
    program = before + PROGRAM.replace("{middle}", textwrap.dedent(middle))
    env = {**os.environ, "OMP_NUM_THREADS": "1", "CR_CACHE": str(cache), **more}
    return subprocess.Popen([sys.executable, "-c", program], env=env, text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


def outcome(process):
    """Returns (same, compiled, from_disk, failed, waiting), and the log lines."""
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    same, *counts = out.split()
    assert same == "True", err
    return [int(c) for c in counts], err.splitlines()


def run(cache, middle="", before="", **more):
    return outcome(start(cache, middle, before, **more))


def script(path, text):
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return str(path)


def left(folder):
    return [f.name for f in folder.iterdir() if f.name.startswith(("cresset-work-", "new."))] if folder.exists() else []


def test_compiled_once_found_by_the_next_process(tmp_path):
    (compiled, found, failed, waiting), _ = run(tmp_path)
    assert compiled >= 2 and (found, failed, waiting) == (0, 0, 0)
    assert len(list(tmp_path.iterdir())) == compiled
    assert run(tmp_path)[0] == [0, compiled, 0, 0]


@pytest.mark.parametrize("text, why", [
    (None, "no C compiler was found"),
    ("echo 'x.c:1: error: out of order' >&2; exit 1\n", "out of order"),
    ("echo garbage; exit 1\n", "garbage"),
    ("exit 1\n", "the compiler failed"),
    ("kill -9 $$\n", "the compiler failed"),
    ("while [ \"$1\" != -o ]; do shift; done; echo nonsense > \"$2\"\n", "cannot load"),
    ("exit 0\n", "cannot load"),
])
def test_a_compiler_that_is_missing_or_broken_is_one_line(tmp_path, text, why):
    cc = script(tmp_path / "cc", text) if text else str(tmp_path / "cc")
    (compiled, found, failed, waiting), log = run(tmp_path / "cache", CR_CC=cc, CR_LOG="jit", TMPDIR=str(tmp_path))
    assert (compiled, found, waiting) == (0, 0, 0) and failed >= 2
    lines = [line for line in log if "tiles" in line]
    assert len(lines) == 1 and why in lines[0]
    assert not left(tmp_path) and not left(tmp_path / "cache")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&-", "<&- 2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_code_is_compiled_for_a_program_whose_standard_files_are_closed(tmp_path, closed):
    result = tmp_path / "result"
    program = (f"def write(*words):\n    open({str(result)!r}, 'w').write(' '.join(map(str, words)))\n" +
               PROGRAM.replace("{middle}", "").replace("print(", "write("))
    env = {**os.environ, "OMP_NUM_THREADS": "1", "CR_CACHE": str(tmp_path / "cache"), "CR_LOG": "jit:3"}
    subprocess.run(["sh", "-c", f'exec "$0" -c "$1" {closed}', sys.executable, program], env=env, check=True,
                   timeout=120, stderr=subprocess.DEVNULL)
    same, compiled, *rest = result.read_text().split()
    assert same == "True" and int(compiled) >= 2 and rest == ["0", "0", "0"]


def test_without_a_compiler_on_the_path(tmp_path):
    counts, log = run(tmp_path, PATH=str(tmp_path), CR_LOG="jit")
    assert counts[:2] == [0, 0] and counts[2] >= 2
    assert sum("no C compiler was found" in line for line in log) == 1


def test_a_compiler_that_hangs_is_killed_with_the_process(tmp_path):
    note = tmp_path / "pid"
    cc = script(tmp_path / "cc", f"sleep 600 & echo $! > {note}.new; mv {note}.new {note}; wait\n")
    process = start(tmp_path / "cache", CR_CC=cc, TMPDIR=str(tmp_path))
    end = time.monotonic() + 30
    while not note.exists() and time.monotonic() < end:
        time.sleep(0.01)
    pid = int(note.read_text())
    assert left(tmp_path)
    process.send_signal(signal.SIGKILL)
    process.communicate()

    def runs():
        try:
            return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] != "Z"
        except OSError:
            return False
    while (runs() or left(tmp_path)) and time.monotonic() < end:
        time.sleep(0.01)
    assert not runs() and not left(tmp_path)


@pytest.mark.parametrize("tiles", ["0", "1"])
def test_calls_do_not_wait_for_a_compiler_that_hangs(tmp_path, tiles):
    cc = script(tmp_path / "cc", "exec sleep 600\n")
    process = start(tmp_path / "cache", "print(same); raise SystemExit", CR_CC=cc, TMPDIR=str(tmp_path), CR_TILES=tiles)
    out, err = process.communicate(timeout=60)
    assert out == "True\n", err


def test_groups_without_tiles_call_their_operators_until_native_code_is_ready(tmp_path):
    (compiled, _, failed, waiting), _ = run(tmp_path, CR_TILES="0")
    assert compiled >= 2 and (failed, waiting) == (0, 0)
    counts, _ = run(tmp_path, CR_TILES="0", CR_CC=str(tmp_path / "cc"), CR_CACHE=str(tmp_path / "other"))
    assert counts[0] == 0 and counts[2] >= 2


@pytest.mark.parametrize("tiles", ["0", "1"])
def test_all_forms_of_groups_without_a_compiler(tmp_path, tiles):
    """Runs test_group_forms.py as tiles only, and with neither tiles nor native code."""
    forms = os.path.join(os.path.dirname(__file__), "test_group_forms.py")
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-x", forms], text=True, capture_output=True, timeout=300,
                          env={**os.environ, "CR_CC": "none", "CR_TILES": tiles, "CR_CACHE": str(tmp_path)})
    assert done.returncode == 0, done.stdout[-4000:]


def test_a_cache_that_cannot_be_written(tmp_path):
    (compiled, _, failed, _), log = run("/proc/nowhere", CR_LOG="jit,cache")
    assert compiled >= 2 and not failed
    assert sum("cannot create /proc/nowhere" in line for line in log) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only for root")
def test_a_read_only_cache_is_read(tmp_path):
    (compiled, *_), _ = run(tmp_path)
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        assert run(tmp_path)[0] == [0, compiled, 0, 0]
        assert run(tmp_path, "g(x[:3], y[:3], 0.5)")[0][2] == 0
    finally:
        tmp_path.chmod(stat.S_IRWXU)


NOBODY = 65534
needs_two_users = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as a second user")
as_nobody = f"import os, cresset.nn.functional\ncresset.compile\nos.setgroups([])\nos.setgid({NOBODY})\nos.setuid({NOBODY})\n"


def refuses(cache, why, before="", **more):
    """Kernels work, none is read from the folder or written to it, and the log states the reason once."""
    content = sorted((f.name, f.lstat().st_mtime_ns) for f in cache.iterdir())
    (compiled, found, failed, _), log = run(cache, before=before, CR_LOG="cache", **more)
    assert compiled >= 2 and (found, failed) == (0, 0)
    assert sum("disk cache" in line and why in line for line in log) == 1, log
    assert sorted((f.name, f.lstat().st_mtime_ns) for f in cache.iterdir()) == content


def test_a_cache_folder_that_others_can_write_to_is_refused(tmp_path):
    run(tmp_path)
    for mode in 0o777, 0o770, 0o1707:
        tmp_path.chmod(mode)
        refuses(tmp_path, "can be written by other users")


def test_a_symbolic_link_to_a_cache_folder_is_refused(tmp_path):
    run(tmp_path / "cache")
    (tmp_path / "link").symlink_to(tmp_path / "cache")
    for link in f"{tmp_path}/link", f"{tmp_path}/link/":
        refuses(tmp_path / "cache", "symbolic link", CR_CACHE=link)


@needs_two_users
def test_root_refuses_the_cache_folder_of_another_user(tmp_path):
    run(tmp_path)
    os.chown(tmp_path, NOBODY, NOBODY)
    refuses(tmp_path, "belongs to another user")


def open_folders_above(path):
    """Lets every user read the folders that pytest made above this one."""
    for f in path.parents:
        if f.stat().st_mode & 0o055 != 0o055:
            f.chmod(f.stat().st_mode | 0o055)


@needs_two_users
def test_a_user_refuses_the_cache_folder_of_another_user(tmp_path):
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp").chmod(0o1777)
    tmp_path.chmod(tmp_path.stat().st_mode | 0o055)
    open_folders_above(tmp_path)
    run(tmp_path / "cache")
    (tmp_path / "cache").chmod(0o755)
    refuses(tmp_path / "cache", "belongs to another user", as_nobody, TMPDIR=str(tmp_path / "tmp"))


@needs_two_users
def test_the_fallback_folder_made_by_another_user_is_refused(tmp_path):
    tmp_path.chmod(0o1777)
    open_folders_above(tmp_path)
    nowhere = {"CR_CACHE": "", "XDG_CACHE_HOME": "", "HOME": "", "TMPDIR": str(tmp_path)}
    assert run("", **nowhere, before=as_nobody)[0][0] >= 2
    own = tmp_path / f"cresset-{NOBODY}"
    assert own.stat().st_uid == NOBODY and stat.S_IMODE(own.stat().st_mode) == 0o700 and len(list(own.iterdir())) >= 2
    forged = own.rename(tmp_path / "cresset-0")
    refuses(forged, "belongs to another user", **nowhere)
    forged.rename(own)
    os.chown(own, 0, 0)
    own.chmod(0o755)
    refuses(own, "belongs to another user", as_nobody, **nowhere)


def made_anew(cache, why):
    before = len(list(cache.iterdir()))
    (compiled, found, failed, _), log = run(cache, CR_LOG="cache")
    assert (compiled, found, failed) == (before, 0, 0)
    assert sum(why in line for line in log) >= 1, log
    assert run(cache)[0] == [0, compiled, 0, 0]


def test_a_kernel_file_that_another_user_could_have_made_is_made_anew(tmp_path):
    run(tmp_path)
    for f in tmp_path.iterdir():
        f.chmod(0o722)
    made_anew(tmp_path, "can be written by other users")
    for f in tmp_path.iterdir():
        f.symlink_to(f.rename(tmp_path.parent / f"{tmp_path.name}-{f.name}"))
    made_anew(tmp_path, "symbolic link")
    if os.geteuid() == 0:
        for f in tmp_path.iterdir():
            os.chown(f, NOBODY, NOBODY)
        made_anew(tmp_path, "belongs to another user")


def test_a_long_path_of_temporary_files(tmp_path):
    long = tmp_path.joinpath(*["x" * 200] * 5)
    long.mkdir(parents=True)
    (compiled, _, failed, _), _ = run(tmp_path / "cache", TMPDIR=str(long))
    assert compiled >= 2 and not failed and not left(long)
    assert run(long / "cache", TMPDIR="y" * 1000)[0] == [compiled, 0, 0, 0]
    assert run(long / "cache")[0] == [0, compiled, 0, 0]


@pytest.mark.parametrize("spoil", [lambda b: b[:len(b) // 2], lambda b: b"", lambda b: b[:-1], lambda b: b"x" * len(b),
                                   lambda b: b[:4096] + bytes([b[4096] ^ 1]) + b[4097:]])
def test_a_damaged_cache_file_is_replaced(tmp_path, spoil):
    (compiled, *_), _ = run(tmp_path)
    for f in tmp_path.iterdir():
        bytes_ = spoil(f.read_bytes())
        f.unlink()
        f.write_bytes(bytes_)
    counts, log = run(tmp_path, CR_LOG="cache")
    assert counts == [compiled, 0, 0, 0]
    assert any("is not used: " in line and "it is damaged" in line for line in log)
    assert run(tmp_path)[0] == [0, compiled, 0, 0]


def test_kernels_with_exchanged_names_are_replaced(tmp_path):
    (compiled, *_), _ = run(tmp_path)
    names = sorted(tmp_path.iterdir())
    other = tmp_path.with_name("other")
    run(other, """
        torch._C._jit_wait(60.0)
        for _ in range(2): g(x.double(), y.double(), 0.5)
        """)
    last = max(other.iterdir(), key=lambda f: f.stat().st_mtime_ns).read_bytes()  # except those of float32
    for f in names:
        f.unlink()
        f.write_bytes(last)
    assert run(tmp_path)[0] == [compiled, 0, 0, 0]


def test_processes_share_an_empty_cache(tmp_path):
    processes = [start(tmp_path) for _ in range(4)]
    totals = [outcome(p)[0] for p in processes]
    assert len({compiled + found for compiled, found, *_ in totals}) == 1
    assert all(failed == waiting == 0 for *_, failed, waiting in totals)
    assert len(list(tmp_path.iterdir())) == sum(totals[0][:2])


def test_the_environment_may_change_while_kernels_are_compiled(tmp_path):
    """The compiler gets a copy of the environment that is made when a kernel is requested, because
    reading it during a change is unsafe."""
    counts, _ = run(tmp_path, """
        import itertools, os
        operators = [torch.sin, torch.neg, torch.tanh, torch.sigmoid, torch.abs]
        for three in itertools.product(operators, repeat=3):
            def chain(t):
                for op in three:
                    t = op(t) * 1.5 + 1
                return t
            one = torch.compile(chain)
            same = same and torch.equal(one(x), one(x))
            for i in range(3000):
                if os.environ.pop(f"CHANGES_{i % 40}", None) is None:
                    os.environ[f"CHANGES_{i % 40}"] = "x" * 50
        """)
    assert counts[0] > 125 and counts[1:] == [0, 0, 0]


@pytest.mark.parametrize("wait", ["", "torch._C._jit_wait(60.0)"])
def test_fork_while_compiling_and_after(tmp_path, wait):
    counts, _ = run(tmp_path, f"""
        import os
        {wait}
        pid = os.fork()
        same = same and torch.equal(g(x, y, 0.5), f(x, y, 0.5))
        if not pid:
            torch._C._jit_wait(60.0)
            same = same and torch.equal(g(x, y, 0.5), f(x, y, 0.5)) and torch._C._jit_counts()["waiting"] == 0
            os._exit(0 if same else 1)
        same = same and os.waitpid(pid, 0)[1] == 0
        """)
    assert counts[2:] == [0, 0]


def test_files_of_limited_size(tmp_path):
    limit = "import resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n" \
            "resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))\n"
    counts, log = run(tmp_path / "cache", before=limit, CR_LOG="jit,cache", TMPDIR=str(tmp_path))
    assert counts[0] == counts[1] == counts[3] == 0 and counts[2] >= 2
    assert sum("cannot write" in line for line in log) == 1
    assert not left(tmp_path) and not left(tmp_path / "cache")


def test_the_cache_is_bounded(tmp_path):
    old = tmp_path / ("0" * 32 + ".so")
    old.write_bytes(bytes(3_000_000))
    os.utime(old, (1, 1))
    (compiled, *_), log = run(tmp_path, "import time; torch._C._jit_wait(60.0); time.sleep(0.5)", CR_CACHE_LIMIT="2",
                              CR_LOG="cache")
    assert not old.exists() and len(list(tmp_path.iterdir())) == compiled
    assert any("longest unused" in line for line in log)
