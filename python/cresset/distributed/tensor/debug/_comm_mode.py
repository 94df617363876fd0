"""CommDebugMode: counts the calls between ranks: of DTensors, of functional collectives and of groups."""
from collections import defaultdict

from ....nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from ....utils._python_dispatch import TorchDispatchMode
from .. import _redistribute
from .._api import DTensor

__all__ = ["CommDebugMode"]

# Calls of groups that move no data among all ranks.
_UNCOUNTED = ("barrier", "monitored_barrier_", "check_for_nan", "send", "recv_", "recv_any_source_", "isend", "irecv", "batch_p2p_ops",
              "wait_tensor")


class CommDebugMode(TorchDispatchMode):
    """A context manager that counts calls, in all and by module, and lists the parameters of the modules that are called."""

    def __init__(self):
        super().__init__()
        self._clear()

    def _clear(self):
        self.comm_counts = defaultdict(int)  # {operator: calls}
        self.comm_module_counts = {"Global": {"forward": defaultdict(int)}}
        self._params, self._shards, self._names, self._stack = {}, {}, {}, []

    def __enter__(self):
        self._clear()
        _redistribute.watchers.append(self._count)
        self._hooks = [register_module_forward_pre_hook(self._enter_module), register_module_forward_hook(self._leave_module)]
        return super().__enter__()

    def __exit__(self, *error):
        _redistribute.watchers.remove(self._count)
        for hook in self._hooks:
            hook.remove()
        return super().__exit__(*error)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        packet = func.overloadpacket
        if func.namespace in ("_c10d_functional", "c10d") and func._opname not in _UNCOUNTED:
            self._count(packet)
        return func(*args, **(kwargs or {}))

    def _count(self, packet):
        self.comm_counts[packet] += 1
        for name in ("Global", *(name for _, name in self._stack)):
            self.comm_module_counts.setdefault(name, {"forward": defaultdict(int)})["forward"][packet] += 1

    def _enter_module(self, module, args):
        if not self._stack:
            top = type(module).__name__
            self._names = {m: f"{top}.{n}" if n else top for n, m in module.named_modules()}
        name = self._names.get(module, type(module).__name__)
        self._stack.append((module, name))
        for key, p in module.named_parameters(recurse=False):
            self._params.setdefault(name, {})[key] = p.data
            if isinstance(p.data, DTensor):
                self._shards[f"{name}.{key}"] = p.data.placements

    def _leave_module(self, module, args, output):
        if self._stack and self._stack[-1][0] is module:
            self._stack.pop()

    def get_total_counts(self):
        """Returns the number of calls."""
        return sum(self.comm_counts.values())

    def get_comm_counts(self):
        """Returns the number of calls of each operator."""
        return self.comm_counts

    def get_parameter_info(self):
        """Returns {module: {name: parameter}} of the modules whose forward was called."""
        return self._params

    def get_sharding_info(self):
        """Returns {name: placements} of their parameters that are DTensors."""
        return self._shards

    def generate_comm_debug_tracing_table(self, noise_level=3):
        """Returns lines of the modules and the calls in their forward, and of all calls."""
        lines = []
        for name, found in self.comm_module_counts.items():
            if noise_level > 0 or found["forward"]:
                lines.append(name)
                lines += [f"  {packet}: {count}" for packet, count in found["forward"].items()]
        return "\n".join(lines)

    def log_comm_debug_tracing_table_to_file(self, file_name="comm_mode_log.txt", noise_level=3):
        """Writes these lines to a file."""
        with open(file_name, "w") as file:
            file.write(self.generate_comm_debug_tracing_table(noise_level) + "\n")
