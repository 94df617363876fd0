"""Optimizers and learning-rate schedules."""
from . import lr_scheduler
from ._adafactor import Adafactor
from ._muon import Muon
from .adadelta import Adadelta
from .adagrad import Adagrad
from .adam import Adam
from .adamax import Adamax
from .adamw import AdamW
from .asgd import ASGD
from .lbfgs import LBFGS
from .nadam import NAdam
from .optimizer import Optimizer
from .radam import RAdam
from .rmsprop import RMSprop
from .rprop import Rprop
from .sgd import SGD
from .sparse_adam import SparseAdam

import contextlib as _contextlib


@_contextlib.contextmanager
def swap_in_optimizer_params_and_state(optimizer, swapin_parameters, swapin_optim_state):
    """Gives an optimizer other parameters, by name, and another state inside."""
    groups, state = [list(group["params"]) for group in optimizer.param_groups], optimizer.state
    given = iter(swapin_parameters.values())
    names = {id(p): name for group in optimizer.param_groups
             for p, name in zip(group["params"], group.get("param_names", ()))}
    try:
        for group in optimizer.param_groups:
            group["params"] = [swapin_parameters[names[id(p)]] if id(p) in names else next(given) for p in group["params"]]
        optimizer.state = swapin_optim_state
        yield
    finally:
        for group, params in zip(optimizer.param_groups, groups):
            group["params"] = params
        optimizer.state = state


def __getattr__(name):
    if name == "swa_utils":
        from importlib import import_module
        return import_module(f"{__name__}.swa_utils")
    from .._absent_names import missing
    raise missing(__name__, name)
