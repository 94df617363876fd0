"""C files beside compiled models and onnxruntime: bench/export.py [--ort PYTHON] [--ggml PROGRAM] [--rounds N] [MODEL...]

For each model: bytes of the C file, of its object and its weights, its work memory, warnings of gcc and clang, and the processor
time of a call with one thread, in milliseconds: of the C file (gcc -O3 -march=native -fno-math-errno), of the same with -DMODEL_FUSED, of our
compiled model, and of onnxruntime on the ONNX file that we write; "/ C file" is the time divided by that of the second.  Calls take turns; each time is the least of all.  PYTHON has onnxruntime and numpy,
and PROGRAM is bench/ggml.c, which says how it is built.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

import turns

HERE = os.path.dirname(os.path.abspath(__file__))
STRICT = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-O2", "-ffp-contract=off", "-c", "model.c", "-o", "model.o"]

MAIN = """#define _POSIX_C_SOURCE 199309L
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
%(head)s
static double used(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
static void *bytes_of(const char *path, size_t n)
{
    void *p = calloc(1, n + 64);
    FILE *f = path ? fopen(path, "rb") : NULL;
    if (f) {
        if (fread(p, 1, n, f) != n) exit(2);
        fclose(f);
    }
    return p;
}
int main(void)
{
    void *work = bytes_of(NULL, model_work_bytes());
%(arrays)s
    int n, k;
    printf("%%zu\\n", model_work_bytes());
    fflush(stdout);
    while (scanf("%%d", &n) == 1) {
        for (k = 0; k < n; k++) {
            double start = used();
            if (%(call)s) return 3;
            printf("%%s%%.9f", k ? ", " : "[", used() - start);
        }
        printf("]\\n");
        fflush(stdout);
    }
    return 0;
}
"""


def worker_main(kind, name, folder):
    """Answers lines of the parent: a number of calls, with their processor times."""
    if kind == "onnx":
        call = onnx_call(folder)
    else:
        import cresset as torch
        torch.set_num_threads(1)
        module, args = made(torch, name)
        call = compiled_call(torch, name, module, args)
    for _ in range(5):
        call()

    def timed():
        start = time.process_time()
        call()
        return time.process_time() - start

    turns.serve("ready", timed)


def compiled_call(torch, name, module, args):
    import export_models
    if name in export_models.TRAINED:
        optimizer = torch.optim.Adam(module.train().parameters())

        @torch.compile
        def step():
            optimizer.zero_grad()
            module(*args).backward()
            optimizer.step()

        return step
    compiled = torch.compile(module)

    def call():
        with torch.no_grad():
            compiled(*args)

    return call


def onnx_call(folder):
    import numpy
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(os.path.join(folder, "model.onnx"), options, providers=["CPUExecutionProvider"])
    types = {"tensor(float)": numpy.float32, "tensor(int64)": numpy.int64}
    inputs = {x.name: numpy.fromfile(os.path.join(folder, f"in{k}"), types[x.type]).reshape(x.shape) for k, x in enumerate(session.get_inputs())}
    return lambda: session.run(None, inputs)


def made(torch, name):
    sys.path.insert(0, HERE)
    import export_models
    torch.manual_seed(0)
    module, args = export_models.MODELS[name](torch)
    return module.eval(), args


def prototypes(text):
    return re.findall(r"^(?:size_t|int|void) model_\w+\([^{;]*\);", text, re.M)


def write_main(folder, text, args, results, data):
    """A program that calls the C file; its states are started once."""
    declared = {re.match(r"\w+ model_(\w+)", p)[1]: p for p in prototypes(text)}
    arrays, named = [], {}
    for p in declared.values():
        for name in re.findall(r"(\w+)(?:,|\))", p.partition("(")[2]):
            named.setdefault(name, name)
    for k, name in enumerate(n for n in named if n.startswith("in_")):
        arrays.append(f'    void *{name} = bytes_of("in{k}", {args[k].numel() * args[k].element_size()});')
    for name in named:
        if name == "weights":
            arrays.append(f'    void *weights = bytes_of("model.c.weights", {data});')
        elif name.startswith("state_"):
            arrays.append(f"    void *{name} = bytes_of(NULL, 1 << 24);")
        elif name.startswith("out"):
            arrays.append(f"    void *{name} = bytes_of(NULL, {results * 4});")
    call = {f: f"model_{f}(" + ", ".join(re.findall(r"(\w+)(?:,|\))", p.partition("(")[2])) + ")" for f, p in declared.items()}
    if "start" in call:
        arrays.append(f"    {call['start']};")
    with open(os.path.join(folder, "main.c"), "w") as f:
        f.write(MAIN % {"head": "\n".join(declared.values()), "arrays": "\n".join(sorted(arrays, key=lambda a: "_start(" in a)), "call": call["run"]})


def warnings_of(folder):
    """Warnings of each compiler, and the bytes of gcc's object."""
    found, size = [], 0
    for compiler in ("clang", "clang-14", "gcc"):
        if shutil.which(compiler):
            done = subprocess.run([compiler, *STRICT], cwd=folder, capture_output=True, text=True, check=True)
            found.append(f"{compiler} {done.stderr.count('warning:')}")
            size = os.path.getsize(os.path.join(folder, "model.o"))
    return ", ".join(found), size


def measure(name, folder, options):
    import cresset as torch
    from cresset.export import export, to_c
    import export_models
    module, args = made(torch, name)
    trained = name in export_models.TRAINED
    with torch.no_grad():
        program, want = export(module, args), module(*args)
    text = to_c(program, os.path.join(folder, "model.c"), weights="file", training=trained)
    data = os.path.getsize(os.path.join(folder, "model.c.weights"))
    for k, x in enumerate(args):
        x.numpy().tofile(os.path.join(folder, f"in{k}"))
    write_main(folder, text, args, want.numel(), data)
    warnings, size = warnings_of(folder)
    for program, flags in (("exact", []), ("fused", ["-DMODEL_FUSED"])):
        subprocess.run(["gcc", "-std=c99", "-O3", "-march=native", "-ffp-contract=off", "-fno-math-errno", *flags, "model.c", "main.c", "-o", program, "-lm"], cwd=folder,
                       check=True)
    me = os.path.abspath(__file__)
    sides = {"exact": turns.Turn(["./exact"], folder), "fused": turns.Turn(["./fused"], folder),
             "compiled": turns.Turn([sys.executable, me, "--worker", "compiled", "--folder", folder, name], folder)}
    if options.ort and not trained:
        try:
            module, args = made(torch, name)
            torch.onnx.export(module, args, os.path.join(folder, "model.onnx"))
            sides["onnxruntime"] = turns.Turn([options.ort, me, "--worker", "onnx", "--folder", folder, name], folder)
        except Exception as error:
            print(f"{name}: no ONNX file: {str(error).splitlines()[0][:120]}", file=sys.stderr)
    if options.ggml:
        try:
            sides["ggml"] = turns.Turn([options.ggml, name], folder)
        except RuntimeError:
            pass  # it has no such model
    for _ in range(options.rounds):
        for t in sides.values():
            t.calls(5)
    work = int(sides["exact"].first)
    best = {k: 1e3 * min(t.times) for k, t in sides.items()}
    for t in sides.values():
        t.end()
    ours = best["fused"]
    print(f"| {name} | {len(text) / 1e3:.0f} kB | {size / 1e3:.0f} kB | {data / 1e6:.2f} MB | {work / 1e3:.0f} kB | {warnings} | {best['exact']:.3f} | {ours:.3f} | " +
          " | ".join(f"{best[k]:.3f} | {best[k] / ours:.2f}" if k in best else "- | -" for k in ("compiled", "onnxruntime", "ggml")) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--ort", default=os.environ.get("ORT"))
    parser.add_argument("--ggml")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--worker")
    parser.add_argument("--folder")
    parser.add_argument("models", nargs="*")
    options = parser.parse_args()
    if options.worker:
        worker_main(options.worker, options.models[0], options.folder)
        return
    sys.path.insert(0, HERE)
    import export_models
    print("| model | source | object | weights | work | warnings | C file, ms | fused, ms | compiled, ms | / C file | onnxruntime, ms | / C file | ggml, ms | / C file |\n" + "|---" * 14 + "|")
    for name in options.models or export_models.MODELS:
        with tempfile.TemporaryDirectory() as folder:
            measure(name, folder, options)


if __name__ == "__main__":
    main()
