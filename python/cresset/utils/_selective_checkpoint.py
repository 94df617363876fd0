"""Checkpoints that keep the results of chosen operators.

In the first run a mode stores results that the policy keeps; in the recomputation another mode returns
them instead of calling the operator.  Both are below autograd, so the tape records the call.
"""
import enum
from collections import defaultdict

from .. import ops
from .._C import Tensor
from .._ops import OpOverload
from ._python_dispatch import TorchDispatchMode
from ._pytree import tree_map


class CheckpointPolicy(enum.Enum):
    """Whether the result of an operator is kept or computed again."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3


_KEPT = (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)
SAC_IGNORED_OPS = {ops.aten.detach.default}


class SelectiveCheckpointContext:
    """What a policy is told: whether the call belongs to the recomputation."""

    def __init__(self, *, is_recompute):
        self.is_recompute = is_recompute


class _Kept:
    """A tensor without its history, and its version."""

    def __init__(self, x, may_change):
        self.value, self.may_change = x.detach() if isinstance(x, Tensor) else x, may_change
        self.version = x._version if isinstance(x, Tensor) else None

    def get(self):
        if self.version is not None and not self.may_change and self.value._version != self.version:
            raise RuntimeError("Tensor cached during selective activation checkpoint has been mutated")
        return self.value


class _Mode(TorchDispatchMode):
    def __init__(self, policy, stored, again, may_change):
        self.policy, self.stored, self.may_change = policy, stored, may_change
        self.context = SelectiveCheckpointContext(is_recompute=again)

    def keeps(self, func, args, kwargs):
        policy = self.policy(self.context, func, *args, **kwargs)
        if isinstance(policy, bool):
            return policy
        return policy in _KEPT


class _Storing(_Mode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if func not in SAC_IGNORED_OPS and self.keeps(func, args, kwargs):
            if func._schema.is_mutable:
                raise RuntimeError("In-place operations are not supported in selective checkpoints: an operator that "
                                   "writes its argument cannot be kept")
            self.stored[func].append(tree_map(lambda x: _Kept(x, self.may_change), out))
        return out


class _Giving(_Mode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in SAC_IGNORED_OPS or not self.keeps(func, args, kwargs):
            return func(*args, **kwargs)
        if func not in self.stored:
            raise RuntimeError(f"{func} encountered during backward, but not found in storage")
        if not self.stored[func]:
            raise RuntimeError("Trying to backward an extra time. You are only allowed to backward once on any region "
                               "computed under selective activation checkpoint.")
        return tree_map(lambda kept: kept.get(), self.stored[func].pop(0))


def create_selective_checkpoint_contexts(policy_fn_or_list, allow_cache_entry_mutation=False):
    """Returns two contexts for checkpoint's `context_fn`: for the first run and the recomputation.

        policy_fn_or_list  policy(context, operator, *args, **kwargs) -> CheckpointPolicy, or a list of
                           operators whose results are kept
    """
    if isinstance(policy_fn_or_list, list):
        for op in policy_fn_or_list:
            if not isinstance(op, OpOverload):
                raise ValueError(f"Expected op in `op_list` to be an OpOverload but got: {op} of type {type(op)}.")

        def policy(context, op, *args, **kwargs):
            kept = op in policy_fn_or_list
            return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE
    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    stored = defaultdict(list)
    return (_Storing(policy, stored, False, allow_cache_entry_mutation),
            _Giving(policy, stored, True, allow_cache_entry_mutation))
