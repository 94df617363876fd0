"""Keys of torch's dispatcher, as names: this package has no dispatcher.

The autocast key of a device can be excluded: autocast is off meanwhile.
"""
from enum import IntEnum

from . import _C

_DEVICES = "CPU CUDA HIP XLA MPS IPU XPU HPU VE Lazy MTIA MAIA PrivateUse1 PrivateUse2 PrivateUse3 Meta".split()
_KINDS = {"Dense": "", "Quantized": "Quantized", "Sparse": "Sparse", "SparseCsr": "SparseCsr",
          "NestedTensor": "NestedTensor", "AutogradFunctionality": "Autograd"}
_SINGLE = """Undefined CompositeExplicitAutogradNonFunctional CompositeExplicitAutograd
CompositeImplicitAutogradNestedTensor CompositeImplicitAutograd AutogradNestedTensor AutogradOther
Autograd Conjugate ZeroTensor Negative BackendSelect ADInplaceOrView PythonTLSSnapshot Python
FuncTorchDynamicLayerFrontMode FuncTorchDynamicLayerBackMode FuncTorchBatchedDecomposition
FuncTorchBatched FuncTorchVmapMode FuncTorchGradWrapper PythonDispatcher PreDispatch Functionalize
AutocastCPU AutocastMPS AutocastXPU AutocastHPU AutocastIPU AutocastCUDA
AutocastPrivateUse1""".split()
_BY_DEVICE = [kind + device for kind in _KINDS.values() for device in _DEVICES]

DispatchKey = IntEnum("DispatchKey", [*_SINGLE, *_BY_DEVICE], start=0, module=f"{__package__}._C")
DispatchKey.__str__ = lambda key: f"DispatchKey.{key.name}"
_AUTOCAST = {DispatchKey[name]: name.removeprefix("Autocast").lower()
             for name in _SINGLE if name.startswith("Autocast")}


class DispatchKeySet:
    """A set of keys."""

    def __init__(self, key):
        self._keys = frozenset((DispatchKey(key),))

    @classmethod
    def _of(cls, keys):
        made = object.__new__(cls)
        made._keys = frozenset(keys)
        return made

    def add(self, key):
        """The set with a key."""
        return self._of(self._keys | {DispatchKey(key)})

    def remove(self, key):
        """The set without a key."""
        return self._of(self._keys - {DispatchKey(key)})

    def has(self, key):
        """Whether a key is in the set."""
        return key in self._keys

    def __or__(self, other):
        return self._of(self._keys | other._keys)

    def __and__(self, other):
        return self._of(self._keys & other._keys)

    def __sub__(self, other):
        return self._of(self._keys - other._keys)

    def __eq__(self, other):
        return isinstance(other, DispatchKeySet) and self._keys == other._keys

    def __hash__(self):
        return hash(self._keys)

    def __repr__(self):
        return f"DispatchKeySet({', '.join(key.name for key in sorted(self._keys))})"


class _ExcludeDispatchKeyGuard:
    """with _ExcludeDispatchKeyGuard(keys): autocast is off on the devices of the keys."""

    def __init__(self, keys):
        others = keys._keys - _AUTOCAST.keys()
        if others:
            raise RuntimeError(f"only autocast can be excluded, not {DispatchKeySet._of(others)}: "
                               "operators are not dispatched by keys")
        self._devices = [_AUTOCAST[key] for key in sorted(keys._keys)]

    def __enter__(self):
        self._before = [(device, True) for device in self._devices if _is_on(device)]
        for device, _ in self._before:
            _C.set_autocast_enabled(device, False)

    def __exit__(self, *exception):
        for device, was_on in self._before:
            _C.set_autocast_enabled(device, was_on)


def _is_on(device):
    try:
        return _C.is_autocast_enabled(device)
    except RuntimeError:  # a device that this package does not know
        return False
