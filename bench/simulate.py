"""Steps that `crc simulate` predicts, beside measured ones of the same ranks.

    bench/simulate.py [--ranks N] [--backend gloo|nccl] [--nets gpt,resnet] [--rounds R] [--folder OUT]

Each rank measures its machine and the step of each net in one process, then trains with DistributedDataParallel and fully_shard.  A
line for each: the predicted time, the measured one (the best of the rounds) and the error.  The files stay in --folder."""
import argparse
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import dist as bench  # noqa: E402


def sharded(torch, net):
    """Divides a net's parameters: its layers, then the rest."""
    from cresset.distributed.fsdp import fully_shard
    from cresset.distributed.simulation import units_of
    for unit in units_of(net).values():
        if len(list(unit.children())) > 1:
            fully_shard(unit)
    return fully_shard(net)


def step_of(torch, model, x, loss_of):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step():
        optimizer.zero_grad()
        loss_of(model(x)).backward()
        optimizer.step()
    return step


def measure(torch, dist, name, rounds):
    """Returns {"text": the step file, "ddp": seconds, "fsdp": seconds}; the steps take turns, because the machine's load changes."""
    from cresset.distributed.simulation import measured, record, step_times
    nets = {}
    for how in ("alone", "ddp", "fsdp"):
        torch.manual_seed(0)
        nets[how] = bench.nets(torch)[name]
    net, x, loss_of = nets["alone"]
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    text = record(net, loss_of, (x,), optimizer=optimizer, repeats=0)
    runs = {"ddp": step_of(torch, torch.nn.parallel.DistributedDataParallel(nets["ddp"][0]), x, loss_of),
            "fsdp": step_of(torch, sharded(torch, nets["fsdp"][0]), x, loss_of)}
    parts, times = [], {how: [] for how in runs}
    for _ in range(rounds):
        dist.barrier()
        parts.append(step_times(net, loss_of, (x,), optimizer, 4, dist.group.WORLD))
        for how, step in runs.items():
            for k in range(6):  # two that are not timed
                if k == 2:
                    dist.barrier()
                    bench.ended(torch)
                start = time.perf_counter()
                step()
                bench.ended(torch)
                if k >= 2:
                    times[how].append([time.perf_counter() - start])
    best = [min(kind, key=sum) for kind in zip(*parts)]
    return {"text": f"{text}{measured(*best)}\n", **{how: min(found)[0] for how, found in times.items()}}


def in_rank():
    import cresset as torch
    import cresset.distributed as dist
    from cresset.distributed.simulation import calibrate
    backend, rank, size, path, nets, rounds, folder = sys.argv[2:9]
    rank, size, rounds = int(rank), int(size), int(rounds)
    device = torch.device(f"cuda:{rank}" if backend == "nccl" else "cpu")
    bench.DEVICE = str(device)
    torch.set_num_threads(1)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group(backend, init_method=f"file://{path}", rank=rank, world_size=size)
    calibrate(f"{folder}/machine.txt", device=device)
    for name in nets.split(","):
        found = measure(torch, dist, name, rounds)
        if rank == 0:
            with open(f"{folder}/{name}.txt", "w", encoding="utf-8") as file:
                file.write(found.pop("text"))
            for how, seconds in found.items():
                print(name, how, seconds, flush=True)
    dist.barrier()
    dist.destroy_process_group()


def predicted(folder, name, how, size):
    out = subprocess.run([sys.executable, "-m", "cresset", "crc", "simulate", f"{folder}/{name}.txt", f"{folder}/machine.txt", "--ranks",
                          str(size), "--data", how, "--svg", f"{folder}/{name}-{how}.svg"], capture_output=True, text=True, check=True)
    return float(out.stdout.splitlines()[1].split()[4]) / 1e3, out.stdout


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--backend", default="gloo")
    parser.add_argument("--nets", default="gpt,resnet")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--folder")
    o = parser.parse_args()
    folder = o.folder or tempfile.mkdtemp()
    os.makedirs(folder, exist_ok=True)
    env = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "OMP_WAIT_POLICY": "passive"}
    ranks = [subprocess.Popen([sys.executable, __file__, "rank", o.backend, str(r), str(o.ranks), f"{folder}/store", o.nets, str(o.rounds),
                               folder], stdout=subprocess.PIPE, env=env) for r in range(o.ranks)]
    texts = [p.communicate()[0].decode() for p in ranks]
    os.unlink(f"{folder}/store") if os.path.exists(f"{folder}/store") else None
    if any(p.returncode for p in ranks):
        sys.exit("a rank failed")
    for line in texts[0].splitlines():
        name, how, best = line.split()
        time_, text = predicted(folder, name, how, o.ranks)
        print(f"{name:12} {how:5} predicted {time_ * 1e3:9.3f} ms, measured {float(best) * 1e3:9.3f} ms, "
              f"error {100 * (time_ / float(best) - 1):+.1f} %")
        print(text, end="")
    print(f"files: {folder}")


if __name__ == "__main__":
    in_rank() if sys.argv[1:2] == ["rank"] else main()
