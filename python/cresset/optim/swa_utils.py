"""Averages of a model's parameters over its training."""
import itertools
import math
from copy import deepcopy

import cresset
from ..nn.modules.batchnorm import _BatchNorm
from ..nn.modules.module import Module
from .lr_scheduler import LRScheduler, _format_param, _warn_get_lr_called_within_step

__all__ = ["AveragedModel", "update_bn", "SWALR", "get_ema_multi_avg_fn",
           "get_swa_multi_avg_fn", "get_ema_avg_fn", "get_swa_avg_fn"]


def _check_decay(decay):
    if decay < 0.0 or decay > 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] "
                         "range.")


def get_ema_avg_fn(decay=0.999):
    """An exponential average of one parameter."""
    _check_decay(decay)

    def update(averaged, current, num_averaged):
        with cresset.no_grad():
            return decay * averaged + (1 - decay) * current

    return update


def get_swa_avg_fn():
    """The plain average of one parameter."""
    def update(averaged, current, num_averaged):
        with cresset.no_grad():
            return averaged + (current - averaged) / (num_averaged + 1)

    return update


def get_ema_multi_avg_fn(decay=0.999):
    """An exponential average of a list of parameters, in place."""
    _check_decay(decay)

    def update(averaged, current, num_averaged):
        with cresset.no_grad():
            for a, c in zip(averaged, current):
                if a.is_floating_point() or a.is_complex():
                    a.lerp_(c, 1 - decay)
                else:
                    a.copy_(a * decay + c * (1 - decay))

    return update


def get_swa_multi_avg_fn():
    """The plain average of a list of parameters, in place."""
    def update(averaged, current, num_averaged):
        share = 1 / (float(num_averaged) + 1)
        with cresset.no_grad():
            for a, c in zip(averaged, current):
                if a.is_floating_point() or a.is_complex():
                    a.lerp_(c, share)
                else:
                    a.copy_(a + (c - a) * share)

    return update


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of the model's."""

    def __init__(self, model, device=None, avg_fn=None, multi_avg_fn=None, use_buffers=False):
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged",
                             cresset.tensor(0, dtype=cresset.long, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def _tensors(self, model):
        if self.use_buffers:
            return itertools.chain(model.parameters(), model.buffers())
        return model.parameters()

    def update_parameters(self, model):
        """Updates the averages with the model's present parameters."""
        mine = [p.detach() for p in self._tensors(self.module)]
        theirs = [p.detach().to(m.device) for p, m in zip(self._tensors(model), mine)]
        if self.n_averaged == 0:
            for a, c in zip(mine, theirs):
                a.copy_(c)
        elif self.avg_fn is not None:
            for a, c in zip(mine, theirs):
                a.copy_(self.avg_fn(a, c, self.n_averaged.to(a.device)))
        else:
            (self.multi_avg_fn or get_swa_multi_avg_fn())(mine, theirs, self.n_averaged)
        if not self.use_buffers:
            for a, c in zip(self.module.buffers(), model.buffers()):
                a.detach().copy_(c.detach().to(a.device))
        self.n_averaged += 1


def update_bn(loader, model, device=None):
    """Recomputes the running statistics of all batch normalization in `model`."""
    norms = {m: m.momentum for m in model.modules() if isinstance(m, _BatchNorm)}
    if not norms:
        return
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # a plain average
    was_training = model.training
    model.train()
    with cresset.no_grad():
        for batch in loader:
            batch = batch[0] if isinstance(batch, (list, tuple)) else batch
            model(batch if device is None else batch.to(device))
    for norm, momentum in norms.items():
        norm.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """The learning rate changes to swa_lr and stays there."""

    def __init__(self, optimizer, swa_lr, anneal_epochs=10, anneal_strategy="cos",
                 last_epoch=-1):
        rates = _format_param("swa_lr", optimizer, swa_lr)
        for rate, group in zip(rates, optimizer.param_groups):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError("anneal_strategy must be one of 'cos' or 'linear', instead got "
                             f"{anneal_strategy}")
        self._anneal_strategy = anneal_strategy
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError("anneal_epochs must be equal or greater than 0, got "
                             f"{anneal_epochs}")
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def anneal_func(self, t):
        """Returns the share of swa_lr at time `t` from 0 to 1."""
        return t if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * t)) / 2

    def _share(self, step):
        return self.anneal_func(max(0, min(1, step / max(1, self.anneal_epochs))))

    def get_lr(self):
        _warn_get_lr_called_within_step(self)
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._share(step - 1), self._share(step)
        out = []
        for group in self.optimizer.param_groups:
            target = group["swa_lr"]
            start = target if before == 1 else (group["lr"] - before * target) / (1 - before)
            out.append(target * now + start * (1 - now))
        return out
