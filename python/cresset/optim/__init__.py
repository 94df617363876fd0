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


def __getattr__(name):
    if name == "swa_utils":
        from importlib import import_module
        return import_module(f"{__name__}.swa_utils")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
