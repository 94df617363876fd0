"""The usual plans: every rank writes what it has, copies are written once, boxes are read from whatever boxes there are."""
import dataclasses
import io
import logging
import math
from collections import ChainMap, defaultdict

import cresset

from . import _version
from ._nested_dict import flatten_state_dict, set_element
from .metadata import BytesStorageMetadata, Metadata, TensorStorageMetadata
from .planner import LoadPlan, LoadPlanner, SavePlan, SavePlanner, WriteItemType
from .planner_helpers import (_create_default_metadata_only_plan, _create_read_items, _create_write_items,
                              find_state_dict_object)

__all__ = ["DefaultSavePlanner", "DefaultLoadPlanner", "create_default_local_load_plan", "create_default_global_load_plan",
           "create_default_local_save_plan", "create_default_global_save_plan"]

logger = logging.getLogger(__name__)


# --- saving ------------------------------------------------------------------------------------------------------

def create_default_local_save_plan(state_dict, is_coordinator):
    """Returns a plan of all parts that this rank has."""
    return SavePlan([item for fqn, obj in state_dict.items() for item in _create_write_items(fqn, obj)])


def _dedup_save_plans(plans, save_to_lowest_rank=False):
    """Each part that several ranks have is written by one of them: the lowest, or the one with the fewest bytes so far."""
    owners, bytes_of, load = defaultdict(list), {}, [0] * len(plans)
    for rank, plan in enumerate(plans):
        for item in plan.items:
            owners[item.index].append(rank)
            bytes_of[item.index] = item._bytes()
    for index, ranks in owners.items():
        if len(ranks) == 1:
            load[ranks[0]] += bytes_of[index]
    chosen = {}
    for index in sorted(owners, key=bytes_of.get, reverse=True):
        ranks = owners[index]
        chosen[index] = ranks[0] if len(ranks) == 1 or save_to_lowest_rank else min(ranks, key=lambda r: (load[r], r))
        if len(ranks) > 1:
            load[chosen[index]] += bytes_of[index]
    return [dataclasses.replace(plan, items=[item for item in plan.items if chosen[item.index] == rank])
            for rank, plan in enumerate(plans)]


def _place(metadata, item):
    """Adds an item to the index; returns it with its box's number."""
    fqn, data = item.index.fqn, item.tensor_data
    if item.type == WriteItemType.BYTE_IO:
        if fqn in metadata:
            raise AssertionError(f"two ranks save different objects as {fqn}")
        metadata[fqn] = BytesStorageMetadata()
        return item
    if data is None:
        raise AssertionError(f"the item of {fqn} has no data of a tensor")
    tensor = metadata.setdefault(fqn, TensorStorageMetadata(data.properties, data.size, []))
    tensor.chunks.append(data.chunk)
    return dataclasses.replace(item, index=dataclasses.replace(item.index, index=len(tensor.chunks) - 1))


def create_default_global_save_plan(all_plans, rewrite_index_hints=True):
    """Returns (the plans with the numbers of boxes, Metadata)."""
    metadata, plans = {}, []
    for plan in all_plans:
        items = [_place(metadata, item) for item in plan.items]
        plans.append(dataclasses.replace(plan, items=items) if rewrite_index_hints else plan)
    return plans, Metadata(metadata)


def _boxes_overlap(a, b):
    return all(p < q + m and q < p + n for p, n, q, m in zip(a.offsets, a.sizes, b.offsets, b.sizes))


def _overlapping(chunks):
    """Returns whether two boxes share elements; boxes are sorted by their first dim, so far ones are not compared."""
    order = sorted((c for c in chunks if math.prod(c.sizes)), key=lambda c: tuple(c.offsets))
    for i, a in enumerate(order):
        for b in order[i + 1:]:
            if a.offsets and b.offsets[0] >= a.offsets[0] + a.sizes[0]:
                break
            if _boxes_overlap(a, b):
                return True
    return False


def _faults_of(fqn, tensor):
    """Returns why the boxes of a tensor are not a tensor."""
    faults = [f"chunk {chunk} of {fqn} is out of bounds of {tuple(tensor.size)}" for chunk in tensor.chunks
              if len(chunk.offsets) != len(tensor.size)
              or any(o < 0 or o + n > s for o, n, s in zip(chunk.offsets, chunk.sizes, tensor.size))]
    if not faults and _overlapping(tensor.chunks):
        faults.append(f"chunks of {fqn} overlap")
    elements, there = math.prod(tensor.size), sum(math.prod(c.sizes) for c in tensor.chunks)
    if not faults and there != elements:
        faults.append(f"the chunks of {fqn} have {there} elements, but the tensor has {elements}")
    return faults


def _validate_global_plan(global_plan, metadata):
    """Returns the faults of an index; none when it is whole."""
    return [fault for fqn, value in metadata.state_dict_metadata.items() if isinstance(value, TensorStorageMetadata)
            for fault in _faults_of(fqn, value)]


class DefaultSavePlanner(SavePlanner):
    """Saves all parts, each once."""

    def __init__(self, flatten_state_dict=True, flatten_sharded_tensors=True, dedup_replicated_tensors=None,
                 dedup_save_to_lowest_rank=False, enable_plan_caching=False):
        if dedup_replicated_tensors is not None:
            logger.warning("DefaultSavePlanner's `dedup_replicated_tensors` argument is being deprecated, and no longer has "
                           "any effect. Please remove this argument from your call.")
        self.flatten_state_dict, self.flatten_sharded_tensors = flatten_state_dict, flatten_sharded_tensors
        self.dedup_save_to_lowest_rank = dedup_save_to_lowest_rank
        self.mappings = {}

    def set_up_planner(self, state_dict, storage_meta=None, is_coordinator=False):
        if self.flatten_state_dict:
            state_dict, self.mappings = flatten_state_dict(state_dict)
        self.state_dict, self.is_coordinator = state_dict, is_coordinator

    def create_local_plan(self):
        plan = create_default_local_save_plan(self.state_dict, self.is_coordinator)
        self.plan = dataclasses.replace(plan, planner_data=self.mappings) if self.flatten_state_dict else plan
        return self.plan

    def create_global_plan(self, all_plans):
        plans = _dedup_save_plans(all_plans, self.dedup_save_to_lowest_rank)
        plans, metadata = create_default_global_save_plan(plans)
        if self.flatten_state_dict:
            metadata = dataclasses.replace(metadata, planner_data=dict(ChainMap(*(p.planner_data for p in plans))))
        faults = _validate_global_plan(plans, metadata)
        if faults:
            raise ValueError(f"Failed to validate global plan: {'; '.join(faults)}")
        self.global_plan, self.metadata = plans, metadata
        return plans, metadata

    def finish_plan(self, new_plan):
        self.plan = new_plan
        return new_plan

    def resolve_data(self, write_item):
        return self.transform_object(write_item, self.lookup_object(write_item.index))

    def lookup_object(self, index):
        """Returns the object of a part."""
        return find_state_dict_object(self.state_dict, index)

    def transform_object(self, write_item, object):
        """Returns the object as it is written: pickled, unless it is a tensor."""
        if write_item.type == WriteItemType.BYTE_IO:
            stream = io.BytesIO()
            cresset.save(object, stream)
            object = stream
        return object


# --- loading -----------------------------------------------------------------------------------------------------

def create_default_local_load_plan(state_dict, metadata, strict=True):
    """Returns a plan that fills all parts of a dict that this rank has."""
    items = []
    for fqn, obj in state_dict.items():
        if fqn not in metadata.state_dict_metadata:
            if strict:
                raise RuntimeError(f"Missing key in checkpoint state_dict: {fqn}.")
            continue
        md = metadata.state_dict_metadata[fqn]
        if isinstance(md, TensorStorageMetadata) and getattr(obj, "size", None) is not None and md.size != obj.size():
            raise ValueError(f"Size mismatch between saved {md.size} and current: {obj.size()} for {fqn}")
        items += _create_read_items(fqn, md, obj)
    return LoadPlan(items)


def create_default_global_load_plan(all_plans):
    """Returns the plans: each rank reads what it wants."""
    return all_plans


class DefaultLoadPlanner(LoadPlanner):
    """Loads into the tensors of a dict; other objects are replaced."""

    def __init__(self, flatten_state_dict=True, flatten_sharded_tensors=True, allow_partial_load=False):
        self.flatten_state_dict, self.flatten_sharded_tensors = flatten_state_dict, flatten_sharded_tensors
        self.allow_partial_load = allow_partial_load
        self.original_state_dict, self.mappings = {}, {}

    def set_up_planner(self, state_dict, metadata=None, is_coordinator=False):
        self.original_state_dict = state_dict
        if self.flatten_state_dict:
            state_dict, self.mappings = self._flat(state_dict, metadata)
        self.state_dict, self.metadata, self.is_coordinator = state_dict, metadata, is_coordinator

    @staticmethod
    def _flat(state_dict, metadata):
        """Takes a dict apart as today; or as torch 2.3 did, if the checkpoint has these parts and not today's."""
        made = flatten_state_dict(state_dict)
        known = () if metadata is None else metadata.state_dict_metadata
        if metadata is None or all(key in known for key in made[0]):
            return made
        before, _version._derived_version = _version._derived_version, "2_3"
        try:
            former = flatten_state_dict(state_dict)
        finally:
            _version._derived_version = before
        return former if all(key in known for key in former[0]) else made

    def create_local_plan(self):
        return create_default_local_load_plan(self.state_dict, self.metadata, not self.allow_partial_load)

    def create_global_plan(self, global_plan):
        return create_default_global_load_plan(global_plan)

    def finish_plan(self, new_plan):
        return new_plan

    def load_bytes(self, read_item, value):
        fqn = read_item.dest_index.fqn
        loaded = cresset.load(value, weights_only=False)
        if self.flatten_state_dict:
            set_element(self.original_state_dict, self.mappings[fqn], loaded)
        else:
            self.state_dict[fqn] = loaded

    def resolve_tensor(self, read_item):
        return self.transform_tensor(read_item, self.lookup_tensor(read_item.dest_index))

    def commit_tensor(self, read_item, tensor):
        pass

    def lookup_tensor(self, index):
        """Returns the tensor of a part."""
        return find_state_dict_object(self.state_dict, index)

    def transform_tensor(self, read_item, tensor):
        """Returns the box of a tensor that an item fills."""
        for dim, (start, n) in enumerate(zip(read_item.dest_offsets, read_item.lengths)):
            tensor = tensor.narrow(dim, start, n)
        return tensor


class _EmptyStateDictLoadPlanner(DefaultLoadPlanner):
    """Fills an empty dict with the checkpoint's whole tensors and objects; of `keys` alone, if given."""

    def __init__(self, keys=None, *args, **kwargs):
        self.keys = keys
        super().__init__(*args, **kwargs)

    def _wants(self, key, metadata):
        if self.keys is None:
            return True
        path = metadata.planner_data.get(key, (key,)) if metadata.planner_data else (key,)
        names = {".".join(map(str, path[:n])) for n in range(1, len(path) + 1)}
        return key in self.keys or bool(names & set(self.keys))

    def set_up_planner(self, state_dict, metadata=None, is_coordinator=False):
        if state_dict:
            raise AssertionError("the dict must be empty")
        for key, value in metadata.state_dict_metadata.items():
            if not self._wants(key, metadata):
                continue
            made = cresset.empty(value.size, dtype=value.properties.dtype) if isinstance(value, TensorStorageMetadata) else value
            if metadata.planner_data and key in metadata.planner_data:
                set_element(state_dict, metadata.planner_data[key], made)
            else:
                state_dict[key] = made
        super().set_up_planner(state_dict, metadata, is_coordinator)


def _create_default_local_metadata(state_dict):
    """Returns the index of a dict whose objects know their parts in all processes."""
    return create_default_global_save_plan([_create_default_metadata_only_plan(state_dict)])[1]
