"""Compiled models beside torch's AOTInductor: bench/aot.py [--peer PYTHON] [--threads N] [--folder DIR] [MODEL...]

For each model: bytes of the package, seconds to compile, to load and of the first call, and the time of a call.  Calls of all
sides take turns, so other work on the machine slows all; a ratio above 1 says that ours is faster.  "library" is ours with
aot_inductor.libraries.  PYTHON has torch;
packages that are in DIR already are used again (torch compiles for minutes).
"""
import argparse
import json
import os
import sys
import tempfile
import time

import turns

HERE = os.path.dirname(os.path.abspath(__file__))


def worker(side, name, folder, threads):
    """Answers lines of the parent: a number of calls, with the times of the calls."""
    sys.path.insert(0, HERE)
    import aot_models
    if side == "torch":
        import torch
    else:
        import cresset as torch
    torch.set_num_threads(threads)
    model, args = aot_models.MODELS[name](torch)
    path, facts = os.path.join(folder, f"{name}_{side}.pt2"), {}
    with torch.no_grad():
        if not os.path.exists(path):
            start = time.perf_counter()
            torch._inductor.aoti_compile_and_package(torch.export.export(model, args), package_path=path,
                                                   inductor_configs={"aot_inductor.libraries": True} if side == "library" else None)
            facts["compile"] = time.perf_counter() - start
        facts["bytes"] = os.path.getsize(path)
        start = time.perf_counter()
        compiled = torch._inductor.aoti_load_package(path)
        facts["load"] = time.perf_counter() - start
        start = time.perf_counter()
        found = compiled(*args)
        facts["first"] = time.perf_counter() - start
        want = model(*args)
        pairs = zip(found, want) if isinstance(want, tuple) else [(found, want)]
        facts["difference"] = max(float((a - b).abs().max() / b.abs().max()) for a, b in pairs)

        def timed():
            start, used = time.perf_counter(), time.process_time()
            compiled(*args)
            return time.perf_counter() - start, time.process_time() - used

        turns.serve(json.dumps(facts), timed)


def side_of(python, side, name, options):
    return turns.Turn([python, os.path.abspath(__file__), "--worker", side, "--folder", options.folder, "--threads", str(options.threads), name])


def show(side, s):
    f, wall, used = json.loads(s.first), min(t for t, _ in s.times), min(t for _, t in s.times)
    made = f"compiled in {f['compile']:.1f} s, " if "compile" in f else ""
    print(f"  {side:7}  {f['bytes'] / 1e6:7.1f} MB, {made}loaded in {f['load'] * 1e3:.0f} ms, first call {f['first'] * 1e3:.0f} ms, "
          f"a call {wall * 1e3:.1f} ms, processor time {used * 1e3:.1f} ms, difference {f['difference']:.1g}")
    return wall, used


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--peer", default=os.environ.get("PEER"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--folder", default=None)
    parser.add_argument("--worker")
    parser.add_argument("models", nargs="*", default=["resnet50", "bert"])
    options = parser.parse_args()
    if options.worker:
        worker(options.worker, options.models[0], options.folder, options.threads)
        return
    with tempfile.TemporaryDirectory() as folder:
        options.folder = options.folder or folder
        for name in options.models:
            sides = {side: side_of(sys.executable, side, name, options) for side in ("ours", "library")}
            if options.peer:
                sides["torch"] = side_of(options.peer, "torch", name, options)
            for _ in range(options.rounds):
                for s in sides.values():
                    s.calls(3)
            print(f"{name}, {options.threads} threads")
            best = {side: show(side, s) for side, s in sides.items()}
            if options.peer:
                for side in ("ours", "library"):
                    pairs = sorted(t[0] / o[0] for t, o in zip(sides["torch"].times, sides[side].times))
                    print(f"  torch's time / {side}: of the best calls {best['torch'][0] / best[side][0]:.2f}, of their processor time "
                          f"{best['torch'][1] / best[side][1]:.2f}, median of calls that follow each other {pairs[len(pairs) // 2]:.2f}")
            for s in sides.values():
                s.end()


if __name__ == "__main__":
    main()
