"""Options of the agent of remote procedure calls."""
from ... import device as _device
from . import constants

__all__ = ["TensorPipeRpcBackendOptions"]


class RpcBackendOptions:
    """What every backend's options have: rpc_timeout (seconds) and init_method (an address of a store)."""

    def __init__(self, rpc_timeout=constants.DEFAULT_RPC_TIMEOUT_SEC, init_method=constants.DEFAULT_INIT_METHOD):
        self.rpc_timeout, self.init_method = rpc_timeout, init_method


def _devices(devices):
    made = []
    for device in map(_device, devices):
        if device.type != "cuda":
            raise ValueError(f"`set_devices` expect a list of CUDA devices, but got device type {device.type}.")
        made.append(device)
    return made


def _device_map(device_map):
    made = {}
    for source, target in device_map.items():
        pair = []
        for device in (source, target):
            if isinstance(device, int) and device < 0:
                raise RuntimeError(f"Device index must not be negative, got {device}")
            pair.append(_device("cuda", device) if isinstance(device, int) else _device(device))
        if pair[1] in made.values():
            taken = next(s for s, t in made.items() if t == pair[1])
            raise ValueError("`set_device_map` only supports 1-to-1 mapping, trying to map "
                             f"{pair[0]} and {taken} to {pair[1]}")
        made[pair[0]] = pair[1]
    return made


class TensorPipeRpcBackendOptions(RpcBackendOptions):
    """Options of the agent: the threads that run the functions of other processes, the time limit of a call in seconds
    (0: none), the address of the store, and where tensors on GPUs go.  _transports and _channels are accepted and ignored:
    messages travel by TCP."""

    def __init__(self, *, num_worker_threads=constants.DEFAULT_NUM_WORKER_THREADS,
                 rpc_timeout=constants.DEFAULT_RPC_TIMEOUT_SEC, init_method=constants.DEFAULT_INIT_METHOD, device_maps=None,
                 devices=None, _transports=None, _channels=None):
        if isinstance(rpc_timeout, bool) or not isinstance(rpc_timeout, (int, float)):
            raise TypeError("__init__(): incompatible constructor arguments: rpc_timeout must be a number of seconds, not "
                            f"{type(rpc_timeout).__name__}")
        if num_worker_threads <= 0:
            raise ValueError(f"num_worker_threads must be positive, got {num_worker_threads}")
        super().__init__(rpc_timeout, init_method)
        self.num_worker_threads = num_worker_threads
        self._transports, self._channels = _transports, _channels
        self.device_maps = {to: _device_map(m) for to, m in (device_maps or {}).items()}
        self.devices = _devices(devices or ())

    def set_device_map(self, to, device_map):
        """Says on which device of worker `to` tensors of this process's devices arrive.  Its replies come back by the
        inverse map."""
        made, known = _device_map(device_map), self.device_maps.setdefault(to, {})
        for source, target in made.items():
            if known.get(source, target) != target:
                raise ValueError("`set_device_map` only supports 1-to-1 mapping, trying to map "
                                 f"{source} to {target} and {known[source]}")
            known[source] = target

    def set_devices(self, devices):
        """Names the devices that the agent uses."""
        self.devices = _devices(devices)
