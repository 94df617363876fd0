"""Files for `crc simulate`: a model's training step, and a machine as its ranks measure it.

    record(model, loss_of, inputs, "step.txt")      in one process, or the same in each
    calibrate("machine.txt")                         in all ranks of a process group

docs/sharding.md has the formats.  torch has no such module.
"""
import time

import cresset

from ..autograd.graph import saved_tensors_hooks
from ..utils._pytree import tree_leaves
from ..utils._python_dispatch import TorchDispatchMode
from ..utils.flop_counter import FlopCounterMode
from . import distributed_c10d as dist

__all__ = ["calibrate", "measured", "record", "step_times", "units_of"]


def units_of(model):
    """Returns {name: module}: the children of a model, those of containers one by one."""
    made, containers = {}, (cresset.nn.Sequential, cresset.nn.ModuleList)

    def visit(prefix, module):
        for name, child in module.named_children():
            if type(child) in containers:
                visit(f"{prefix}{name}.", child)
            else:
                made[prefix + name] = child
    visit("", model)
    return made or {"model": model}


def _bytes(value):
    return sum(t.numel() * t.element_size() for t in tree_leaves(value) if isinstance(t, cresset.Tensor))


class _Unit:
    def __init__(self):
        self.flops = self.saved = self.inputs = self.output = self.commands = 0


class _Commands(TorchDispatchMode):
    """Counts the operators of units."""

    def __init__(self, watch):
        super().__init__()
        self.watch = watch

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if self.watch.open:
            self.watch.open[0].commands += 1
        return func(*args, **(kwargs or {}))


class _Watch:
    """Counts what units do while a forward pass runs."""

    def __init__(self, units, parameters):
        self.found, self.open, self.storages = {}, [], {p.untyped_storage().data_ptr() for p in parameters}
        self.handles = []
        for name, module in units.items():
            self.handles.append(module.register_forward_pre_hook(lambda m, args, name=name: self._begin(name, args)))
            self.handles.append(module.register_forward_hook(lambda m, args, out, name=name: self._end(name, out)))

    def _begin(self, name, args):
        unit = self.found.setdefault(name, _Unit())
        unit.inputs += _bytes(args)
        self.open.append(unit)

    def _end(self, name, out):
        self.open.pop().output = _bytes(out)

    def keep(self, t):
        """Counts a tensor that forward saves."""
        place = t.untyped_storage().data_ptr()
        if self.open and place not in self.storages:
            self.storages.add(place)
            self.open[0].saved += t.untyped_storage().nbytes()
        return t

    def remove(self):
        for handle in self.handles:
            handle.remove()


def _ended(device):
    if device.type == "cuda":
        cresset.cuda.synchronize()


def _shortest_step(steps, device, group):
    """Returns the times of the phases of the shortest step; with a group, of the slowest rank in each phase."""
    if group is not None and dist.get_world_size(group) > 1:
        every = cresset.tensor(steps, dtype=cresset.float64, device=device)
        dist.all_reduce(every, dist.ReduceOp.MAX, group=group)
        steps = every.tolist()
    return min(steps, key=sum)


def step_times(model, loss_of, inputs, optimizer, repeats, group=None):
    """Returns the times of forward, backward and update of the shortest step, after three steps that are not timed; on a GPU those of its
    work, then those in which the host issues it.  Each kind is three numbers.  With a group all its ranks begin a step together, and the
    slowest one counts."""
    device = next(iter(model.parameters())).device

    def steps():
        yield lambda: kept.append(loss_of(model(*inputs)))
        yield lambda: kept.pop().backward()
        yield optimizer.step
    kept, found = [], []
    for _ in range(repeats + 3):
        _ended(device)
        if group is not None:
            dist.barrier(group)
        at = [time.perf_counter()]
        optimizer.zero_grad()
        for step in steps():
            step()
            at.append(time.perf_counter())
        found.append([b - a for a, b in zip(at, at[1:])])
        _ended(device)
    host = _shortest_step(found[3:], device, group)
    if device.type != "cuda":
        return [host]
    return [_shortest_step(_device_times(steps, optimizer, device, repeats, sum(host)), device, group), host]


def _device_times(steps, optimizer, device, repeats, host):
    """Returns the times of a GPU's work.  It begins when the host has issued all of it: the GPU computes products until then."""
    a, found = cresset.zeros(4096, 4096, device=device), []
    one = _shortest(lambda: a @ a, device, together=False)
    for _ in range(repeats):
        optimizer.zero_grad()
        _ended(device)
        for _ in range(2 + int(1.5 * host / one)):
            a @ a
        events = [cresset.cuda.Event(enable_timing=True) for _ in range(4)]
        events[0].record()
        for step, event in zip(steps(), events[1:]):
            step()
            event.record()
        _ended(device)
        found.append([x.elapsed_time(y) / 1e3 for x, y in zip(events, events[1:])])
    return found


def measured(times, host=None):
    """Returns the lines of a step file with times."""
    lines = [("measured", times)] + ([("host", host)] if host else [])
    return "\n".join(f"{word} forward {forward:.9g} backward {backward:.9g} update {update:.9g}"
                     for word, (forward, backward, update) in lines)


def record(model, loss_of, inputs, path=None, units=None, optimizer=None, states=None, repeats=10):
    """Measures a training step of a module of one process, and returns it as text.

        loss_of    the loss of the module's result
        inputs     a tuple
        path       where the text is written, too
        units      {name: module} of parts that follow each other; units_of() by default
        optimizer  SGD with momentum by default; it steps the module's parameters
        states     numbers that it keeps for each parameter; counted by default
        repeats    timed steps; 0: the file has no times, and those of the machine file's speeds count
    """
    units = units_of(model) if units is None else units
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = cresset.optim.SGD(parameters, lr=0.01, momentum=0.9) if optimizer is None else optimizer
    watch = _Watch(units, parameters)
    try:
        with saved_tensors_hooks(watch.keep, lambda t: t), FlopCounterMode(display=False) as counter, _Commands(watch):
            loss = loss_of(model(*inputs))
    finally:
        watch.remove()
    loss.backward()
    optimizer.step()
    if states is None:
        states = sum(t.numel() for s in optimizer.state.values() for t in tree_leaves(s)
                     if isinstance(t, cresset.Tensor) and t.dim()) / max(1, sum(p.numel() for p in parameters))
    element = parameters[0].element_size()
    lines = [f"step {type(model).__name__}", f"states {states:g}", f"element {element}"]
    if repeats:
        lines.append(measured(*step_times(model, loss_of, inputs, optimizer, repeats)))
    optimizer.zero_grad()
    own, seen = {name: {id(p): p for p in module.parameters()} for name, module in units.items()}, set()
    counts = counter.get_flop_counts()
    for name, unit in watch.found.items():
        unit.flops = sum(counts.get(f"{type(model).__name__}.{name}", {}).values())
        fresh = [p for k, p in own[name].items() if k not in seen]
        count, tensors = sum(p.numel() for p in fresh), len(fresh)
        seen |= set(own[name])
        moved = count * element + unit.inputs + unit.output + 2 * unit.saved
        buffers = len({id(b) for b in units[name].buffers()})
        lines.append(f"unit {name} parameters {count} flops {unit.flops} moved {moved} saved {unit.saved} output {unit.output} "
                     f"tensors {tensors} buffers {buffers} commands {unit.commands}")
    rest = [p for p in parameters if id(p) not in seen]
    if rest:
        count = sum(p.numel() for p in rest)
        lines.append(f"unit rest parameters {count} flops 0 moved {count * element} saved 0 output 0 tensors {len(rest)} commands 0")
    text = "\n".join(lines) + "\n"
    if path is not None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    return text


# --- machines ---

def _shortest(run, device, repeats=7, together=True):
    times = []
    for _ in range(repeats + 2):
        if together:
            dist.barrier()
        start = time.perf_counter()
        run()
        _ended(device)
        times.append(time.perf_counter() - start)
    return min(times[2:])


def _speeds(device):
    """Returns operations and bytes a second of this rank."""
    a = cresset.randn(1024, 1024, device=device)
    big = cresset.zeros(1 << 24, device=device)
    other = cresset.empty_like(big)
    products = 1 if device.type == "cpu" else 20
    flops = 2 * 1024 ** 3 * products / _shortest(lambda: [a @ a for _ in range(products)], device)
    return flops, 2 * 4 * (1 << 24) / _shortest(lambda: other.copy_(big), device)


def _call_times(device, group, ranks):
    """Yields (call, whole bytes, seconds)."""
    for bytes_ in (4096, 65536, 1 << 20, 4 << 20, 16 << 20):
        times = 40 if bytes_ <= 1 << 20 else 15
        count = bytes_ // 4 // ranks * ranks
        whole, part = cresset.ones(count, device=device), cresset.ones(count // ranks, device=device)
        yield "all_reduce", bytes_, _shortest(lambda: dist.all_reduce(whole, group=group), device, times)
        yield "all_gather", bytes_, _shortest(lambda: dist.all_gather_into_tensor(whole, part, group=group), device, times)
        yield "reduce_scatter", bytes_, _shortest(lambda: dist.reduce_scatter_tensor(part, whole, group=group), device, times)


def _undisturbed(calls):
    """Returns calls that take no longer than the same call of more bytes: other programs disturbed a time that is longer."""
    made, least = [], {}
    for call, bytes_, seconds in reversed(calls):
        least[call] = min(seconds, least.get(call, seconds))
        made.append((call, bytes_, least[call]))
    return made[::-1]


def _share(device, group):
    """Returns the part of the speed that a rank loses while calls are in progress."""
    a, whole = cresset.randn(512, 512, device=device), cresset.ones(4 << 20, device=device)

    def compute():
        for _ in range(20):
            a @ a
    alone = _shortest(compute, device)

    def beside():
        works = [dist.all_reduce(whole, group=group, async_op=True) for _ in range(8)]
        start = time.perf_counter()
        compute()
        _ended(device)
        took.append(time.perf_counter() - start)
        for work in works:
            work.wait()
    took = []
    _shortest(beside, device)
    return min(0.9, max(0., 1 - alone / min(took[2:])))


def _command_time(device):
    """Returns the time in which the host issues an operator."""
    x, found = cresset.ones(16, device=device), []
    for _ in range(9):
        _ended(device)
        start = time.perf_counter()
        for _ in range(100):
            x.add_(1)
        found.append((time.perf_counter() - start) / 100)
    return min(found)


def _buffer_times(device, group):
    """Returns how long a GPU sends buffers after the host has issued the call: the time without buffers, and that of each buffer."""
    from ._reducer import _broadcast_coalesced
    few, many, found = 2, 34, []
    tensors = [cresset.zeros(64, device=device) for _ in range(many)]
    for n in (few, many):
        took = []
        for _ in range(20):
            dist.barrier(group)
            _ended(device)
            _broadcast_coalesced(group, tensors[:n])
            issued = time.perf_counter()
            _ended(device)
            took.append(time.perf_counter() - issued)
        found.append(min(took))
    each = max(0., (found[1] - found[0]) / (many - few))
    return max(0., found[0] - few * each), each


class _Divided:
    """A net of equal layers, as it is and under a class of data parallel ranks, and what the class adds to the host's time."""

    units, repeats = 6, 12

    def __init__(self, how, wide, layers, device, mesh, group, buffers=0):
        from ..nn.parallel import DistributedDataParallel
        from .fsdp import fully_shard
        self.group, self.x = group, cresset.ones(4, wide, device=device)
        plain, divided = (cresset.nn.Sequential(*[cresset.nn.Sequential(*[cresset.nn.Linear(wide, wide) for _ in range(layers)])
                                                  for _ in range(self.units)]).to(device) for _ in range(2))
        for net in (plain, divided):
            for k in range(buffers):
                net.register_buffer(f"buffer{k}", cresset.zeros(64, device=device))
        self.tensors, self.bytes = len(list(plain.parameters())), sum(p.numel() * p.element_size() for p in plain.parameters())
        if how == "ddp":
            divided = DistributedDataParallel(divided, process_group=mesh.get_group())
        else:
            for unit in (*divided, divided):  # the root keeps whole parameters, of which it has none: those of units are freed
                fully_shard(unit, mesh=mesh)
        self.nets = [(net, cresset.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)) for net in (plain, divided)]

    def added(self):
        """Returns what is added to forward, backward and update, at the slowest rank of the group; the nets take turns."""
        times = [[], []]
        for _ in range(self.repeats):
            for (net, optimizer), kept in zip(self.nets, times):
                kept += step_times(net, lambda y: y.sum(), (self.x,), optimizer, 1, self.group)[-1:]
        return [max(0., min(d) - min(p)) for p, d in zip(zip(*times[0]), zip(*times[1]))]


def _host_times(device, group):
    """Yields the lines of what DistributedDataParallel and fully_shard add to the host's time.

    Three nets differ in the number of parameters and in their bytes: small layers, three times as many, and large ones.  Where the host
    waits for calls, their groups have this rank alone; the fourth net has buffers, which rank 0 sends in each forward."""
    from .device_mesh import DeviceMesh
    alone = group if device.type == "cuda" else dist.new_group([dist.get_rank()], use_local_synchronization=True)
    mesh, whole, buffers = DeviceMesh.from_group(alone, device.type), DeviceMesh.from_group(group, device.type), 24
    for how in ("ddp", "fsdp"):
        nets = [_Divided(how, wide, layers, device, mesh, group) for wide, layers in ((64, 1), (64, 3), (768, 1))]
        small, many, large = nets
        each = 0.
        if how == "ddp":
            every = [_Divided(how, 64, 1, device, whole, group, n).added()[0] for n in (0, buffers)]
            each = max(0., every[1] - every[0]) / buffers
        for phase, a, b, c in zip(("forward", "backward", "update"), *(net.added() for net in nets)):
            byte = max(0., c - a) / (large.bytes - small.bytes)
            tensor = max(0., b - a - byte * (many.bytes - small.bytes)) / (many.tensors - small.tensors)
            rest = max(0., a - tensor * small.tensors - byte * small.bytes)
            yield (f"host {how} {phase} unit {rest / (1 if how == 'ddp' else small.units):.6g} tensor {tensor:.6g} "
                   f"buffer {each if phase == 'forward' else 0:.6g} byte {byte:.6g}")


def calibrate(path=None, group=None, device=None, name="measured"):
    """Measures this rank and the calls of a group, which all ranks of the group call; returns a machine file's text.  The links beyond
    the group are those of the group: edit them for a larger machine."""
    group = dist._get_default_group() if group is None else group
    ranks, device = dist.get_world_size(group), cresset.device("cpu" if device is None else device)
    flops, memory = _speeds(device)
    calls = _undisturbed(list(_call_times(device, group, ranks))) if ranks > 1 else []
    capacity = cresset.cuda.get_device_properties(device).total_memory if device.type == "cuda" else 0
    lines = [f"machine {name}", f"flops {flops:.6g}", f"memory {memory:.6g}", f"capacity {capacity}", "blocking 1",
             f"device {int(device.type != 'cpu')}", f"command {_command_time(device):.6g}"]
    latency, bandwidth = 0., memory
    if calls:
        small, large = calls[0][2], calls[-3][2]
        latency = small / (2 * (ranks - 1))
        bandwidth = 2 * (ranks - 1) / ranks * (calls[-3][1] - calls[0][1]) / max(large - small, 1e-9)
        lines += [f"share {_share(device, group):.4g}", *_host_times(device, group)]
        if device.type == "cpu":  # pieces of buckets (reducer.h)
            lines.append(f"bucket {ranks * (2 << 20)}")
        else:
            seconds, each = _buffer_times(device, group)
            lines.append(f"buffers seconds {seconds:.6g} each {each:.6g}")
    lines += [f"link ranks {max(ranks, 2)} latency {latency:.6g} bandwidth {bandwidth:.6g}",
              f"link ranks 65536 latency {latency:.6g} bandwidth {bandwidth:.6g}"]
    lines += [f"call {call} ranks {ranks} bytes {bytes_} seconds {seconds:.6g}" for call, bytes_, seconds in calls]
    text = "\n".join(lines) + "\n"
    if path is not None and dist.get_rank(group) == 0:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    return text


def main():
    import sys
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: torchrun --nproc-per-node N -m cresset.distributed.simulation MACHINE [cpu|cuda]")
    device = sys.argv[2] if len(sys.argv) > 2 else "cpu"
    dist.init_process_group("nccl" if device == "cuda" else None)
    if device == "cuda":
        device = f"cuda:{dist.get_node_local_rank() if hasattr(dist, 'get_node_local_rank') else dist.get_rank()}"
        cresset.cuda.set_device(device)
    calibrate(sys.argv[1], device=device)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
