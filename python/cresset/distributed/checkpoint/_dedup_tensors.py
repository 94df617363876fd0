"""The former way to write parts that several ranks have: the lowest rank writes them."""
import dataclasses

from .planner import WriteItemType


def dedup_tensors(all_plans):
    """Returns plans in which each tensor is an item of the lowest rank that has it; objects stay."""
    seen, made = set(), []
    for plan in all_plans:
        kept = []
        for item in plan.items:
            if item.type == WriteItemType.BYTE_IO or item.index not in seen:
                kept.append(item)
            if item.type != WriteItemType.BYTE_IO:
                seen.add(item.index)
        made.append(dataclasses.replace(plan, items=kept))
    return made
