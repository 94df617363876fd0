"""Scales losses so that small gradients in half precision do not underflow."""
import enum
import warnings

from .. import _C
from .._C import Tensor

__all__ = ["OptState", "GradScaler"]


class OptState(enum.Enum):
    """The state of an optimizer in this iteration."""
    READY = 0
    UNSCALED = 1
    STEPPED = 2


class GradScaler:
    """Multiplies losses by a factor that decreases when gradients overflow and grows otherwise.

    Call scale(loss).backward(); unscale_(optimizer) if the program reads gradients;
    step(optimizer), which does nothing after an overflow; update().
    """

    def __init__(self, device="cuda", init_scale=2.0 ** 16, growth_factor=2.0, backoff_factor=0.5,
                 growth_interval=2000, enabled=True):
        self._device = device
        self._enabled = enabled
        if device == "cuda" and enabled:
            from .. import cuda
            if not cuda.is_available():
                warnings.warn("torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  "
                              "Disabling.", stacklevel=2)
                self._enabled = False
        if not self._enabled:
            return
        if growth_factor <= 1.0:
            raise AssertionError("The growth factor must be > 1.0.")
        if backoff_factor >= 1.0:
            raise AssertionError("The backoff factor must be < 1.0.")
        self._init_scale = init_scale
        self._scale = None  # made on first use, on the device of the loss
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._init_growth_tracker = 0
        self._growth_tracker = None
        self._per_optimizer = {}

    def _state_of(self, optimizer):
        return self._per_optimizer.setdefault(
            id(optimizer), {"stage": OptState.READY, "found_inf": {}})

    def _prepare(self):
        if self._scale is None:
            self._scale = _C.full((), self._init_scale, dtype=_C.float32, device=self._device)
            self._growth_tracker = _C.full((), self._init_growth_tracker, dtype=_C.int32,
                                           device=self._device)

    def _expect_scale(self, name):
        fix = "This may indicate your script did not use scaler.scale(loss or outputs) earlier in "\
              "the iteration."
        if self._scale is None:
            raise AssertionError(f"Attempted {name} but _scale is None.  " + fix)
        if self._growth_tracker is None:
            raise AssertionError(f"Attempted {name} but _growth_tracker is None.  " + fix)

    def scale(self, outputs):
        """Returns the outputs times the factor."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            self._prepare()
            return outputs * self._scale
        if isinstance(outputs, (list, tuple)):
            made = [self.scale(value) for value in outputs]
            return type(outputs)(made)
        if hasattr(outputs, "__iter__"):
            return map(self.scale, outputs)
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def _unscale_grads_(self, optimizer, inverse, allow_fp16):
        """Divides the gradients.  Returns for each device type whether one is not finite."""
        found = {}
        with _C.no_grad():
            for group in optimizer.param_groups:
                for param in group["params"]:
                    if param.grad is None:
                        continue
                    if param.grad.dtype is _C.float16 and not allow_fp16:
                        raise ValueError("Attempting to unscale FP16 gradients.")
                    param.grad.mul_(inverse.to(param.grad.dtype))
                    bad = param.grad.isfinite().all().logical_not().to(_C.float32)
                    device = param.grad.device
                    found[device] = bad if device not in found else _C.maximum(found[device], bad)
        return found

    def unscale_(self, optimizer):
        """Divides the optimizer's gradients by the factor, for example before clipping."""
        if not self._enabled:
            return
        self._expect_scale("unscale_")
        state = self._state_of(optimizer)
        if state["stage"] is OptState.UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the "
                               "last update().")
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        inverse = self._scale.double().reciprocal().float()
        state["found_inf"] = self._unscale_grads_(optimizer, inverse, False)
        state["stage"] = OptState.UNSCALED

    def step(self, optimizer, *args, **kwargs):
        """Calls optimizer.step() unless a gradient is infinite or NaN."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._expect_scale("step")
        state = self._state_of(optimizer)
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if state["stage"] is OptState.READY:
            self.unscale_(optimizer)
        if not state["found_inf"]:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        result = None
        if not any(v.item() for v in state["found_inf"].values()):
            result = optimizer.step(*args, **kwargs)
        state["stage"] = OptState.STEPPED
        return result

    def update(self, new_scale=None):
        """Sets the factor for the next iteration: to `new_scale`, or by whether gradients
        overflowed."""
        if not self._enabled:
            return
        self._expect_scale("update")
        if new_scale is not None:
            self._set_scale(new_scale)
        else:
            self._adapt()
        self._per_optimizer.clear()

    def _set_scale(self, new):
        if isinstance(new, float):
            self._scale.fill_(new)
            return
        reason = "new_scale should be a float or a 1-element torch.cuda.FloatTensor or \
                torch.FloatTensor with requires_grad=False."
        if new.device.type != self._device or new.numel() != 1 or new.requires_grad:
            raise AssertionError(reason)
        self._scale.copy_(new)

    def _adapt(self):
        found = [v for state in self._per_optimizer.values() for v in state["found_inf"].values()]
        if not found:
            raise AssertionError("No inf checks were recorded prior to update.")
        if any(v.item() for v in found):
            self._scale.mul_(self._backoff_factor)
            self._growth_tracker.zero_()
            return
        self._growth_tracker.add_(1)
        if self._growth_tracker.item() == self._growth_interval:
            grown = self._scale * self._growth_factor
            if grown.isfinite().item():
                self._scale.copy_(grown)
            self._growth_tracker.zero_()

    def _get_scale_async(self):
        return self._scale

    def get_scale(self):
        """Returns the factor."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def get_growth_factor(self):
        return self._growth_factor

    def set_growth_factor(self, new_factor):
        self._growth_factor = new_factor

    def get_backoff_factor(self):
        return self._backoff_factor

    def set_backoff_factor(self, new_factor):
        self._backoff_factor = new_factor

    def get_growth_interval(self):
        return self._growth_interval

    def set_growth_interval(self, new_interval):
        self._growth_interval = new_interval

    def _get_growth_tracker(self):
        if not self._enabled:
            return 0
        return (self._init_growth_tracker if self._growth_tracker is None
                else self._growth_tracker.item())

    def is_enabled(self):
        return self._enabled

    def state_dict(self):
        """Returns the state for load_state_dict; empty when the scaler is disabled."""
        if not self._enabled:
            return {}
        return {"scale": self.get_scale(), "growth_factor": self._growth_factor,
                "backoff_factor": self._backoff_factor, "growth_interval": self._growth_interval,
                "_growth_tracker": self._get_growth_tracker()}

    def load_state_dict(self, state_dict):
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError("The source state dict is empty, possibly because it was saved "
                               "from a disabled instance of GradScaler.")
        self._init_scale = state_dict["scale"]
        if self._scale is not None:
            self._scale.fill_(state_dict["scale"])
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._growth_tracker is not None:
            self._growth_tracker.fill_(state_dict["_growth_tracker"])

    def __getstate__(self):
        if not self._enabled:
            return self.__dict__
        if self._per_optimizer:
            raise AssertionError("A GradScaler instance may only be pickled at the beginning of "
                                 "an iteration, or at the end after scaler.update().")
        state = dict(self.__dict__)
        state.update(_init_scale=self.get_scale(), _scale=None, _growth_tracker=None,
                     _init_growth_tracker=self._get_growth_tracker())
        return state

    def __setstate__(self, state):
        self.__dict__.update(state)
