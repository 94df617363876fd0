"""Files for `crc simulate`: a model's training step, and a machine as its ranks measure it.

    record(model, loss_of, inputs, "step.txt")      in one process, or the same in each
    calibrate("machine.txt")                         in all ranks of a process group

docs/sharding.md has the formats.  torch has no such module.
"""
import time

import cresset

from ..autograd.graph import saved_tensors_hooks
from ..utils._pytree import tree_leaves
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
        self.flops = self.saved = self.inputs = self.output = 0


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


def step_times(model, loss_of, inputs, optimizer, repeats):
    """Returns the shortest times of forward, backward and update, after three steps that are not timed."""
    device = next(iter(model.parameters())).device
    found = [[], [], []]
    for k in range(repeats + 3):
        optimizer.zero_grad()
        at = [time.perf_counter()]
        loss = loss_of(model(*inputs))
        for step in (lambda: None, loss.backward, optimizer.step):
            step()
            _ended(device)
            at.append(time.perf_counter())
        if k >= 3:
            for times, a, b in zip(found, at, at[1:]):
                times.append(b - a)
    return [min(times) for times in found]


def measured(forward, backward, update):
    """Returns the line of a step file with times."""
    return f"measured forward {forward:.9g} backward {backward:.9g} update {update:.9g}"


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
        with saved_tensors_hooks(watch.keep, lambda t: t), FlopCounterMode(display=False) as counter:
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
        count = sum(p.numel() for k, p in own[name].items() if k not in seen)
        seen |= set(own[name])
        moved = count * element + unit.inputs + unit.output + 2 * unit.saved
        lines.append(f"unit {name} parameters {count} flops {unit.flops} moved {moved} saved {unit.saved} output {unit.output}")
    rest = sum(p.numel() for p in parameters if id(p) not in seen)
    if rest:
        lines.append(f"unit rest parameters {rest} flops 0 moved {rest * element} saved 0 output 0")
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


def _unit_time(device, group, ranks):
    """Returns the time that a sharded unit adds to a pass, beside its calls: half of what forward and backward take longer."""
    from .device_mesh import DeviceMesh
    from .fsdp import fully_shard
    mesh = DeviceMesh.from_group(group, device.type)
    count, wide = 6, 64

    def made():
        return cresset.nn.Sequential(*[cresset.nn.Linear(wide, wide) for _ in range(count)]).to(device)
    plain, divided, x = made(), made(), cresset.ones(4, wide, device=device)
    for layer in divided:
        fully_shard(layer, mesh=mesh)

    def step(net):
        net(x).sum().backward()
    times = {name: _shortest(lambda net=net: step(net), device, 15) for name, net in (("plain", plain), ("divided", divided))}
    each = (wide + 1) * wide * 4
    calls = 2 * _shortest(lambda: _gather(each, device, group, ranks), device) + _shortest(lambda: _scatter(each, device, group, ranks), device)
    return max(0., ((times["divided"] - times["plain"]) / count - calls) / 2)


def _gather(bytes_, device, group, ranks):
    part = cresset.ones(bytes_ // 4 // ranks, device=device)
    dist.all_gather_into_tensor(part.new_empty(part.numel() * ranks), part, group=group)


def _scatter(bytes_, device, group, ranks):
    part = cresset.ones(bytes_ // 4 // ranks, device=device)
    dist.reduce_scatter_tensor(part, part.new_ones(part.numel() * ranks), group=group)


def calibrate(path=None, group=None, device=None, name="measured"):
    """Measures this rank and the calls of a group, which all ranks of the group call; returns a machine file's text.  The links beyond
    the group are those of the group: edit them for a larger machine."""
    group = dist._get_default_group() if group is None else group
    ranks, device = dist.get_world_size(group), cresset.device("cpu" if device is None else device)
    flops, memory = _speeds(device)
    calls = _undisturbed(list(_call_times(device, group, ranks))) if ranks > 1 else []
    capacity = cresset.cuda.get_device_properties(device).total_memory if device.type == "cuda" else 0
    lines = [f"machine {name}", f"flops {flops:.6g}", f"memory {memory:.6g}", f"capacity {capacity}",
             f"blocking {int(device.type == 'cpu')}"]
    latency, bandwidth = 0., memory
    if calls:
        small, large = calls[0][2], calls[-3][2]
        latency = small / (2 * (ranks - 1))
        bandwidth = 2 * (ranks - 1) / ranks * (calls[-3][1] - calls[0][1]) / max(large - small, 1e-9)
        lines += [f"share {_share(device, group):.4g}", f"unit {_unit_time(device, group, ranks):.6g}"]
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
