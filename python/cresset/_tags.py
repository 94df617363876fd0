"""Tags of operators (torch.Tag): properties that an overload has."""
import enum


class Tag(enum.Enum):
    """torch's tags.  `tags_of` gives those that the table states."""

    core = enum.auto()
    cudagraph_unsafe = enum.auto()
    data_dependent_output = enum.auto()
    dynamic_output_shape = enum.auto()
    flexible_layout = enum.auto()
    generated = enum.auto()
    inplace_view = enum.auto()
    maybe_aliasing_or_mutating = enum.auto()
    needs_contiguous_strides = enum.auto()
    needs_exact_strides = enum.auto()
    needs_fixed_stride_order = enum.auto()
    nondeterministic_bitwise = enum.auto()
    nondeterministic_seeded = enum.auto()
    out = enum.auto()
    pointwise = enum.auto()
    pt2_compliant_tag = enum.auto()
    reduction = enum.auto()
    view_copy = enum.auto()


Tag.__module__ = "torch"


def changes_sizes(overload):
    """Returns whether an overload changes the sizes or strides of its first argument."""
    from . import ops
    if "resets" in overload.words:
        return True
    plain = overload._opname.removesuffix("_")
    packet = getattr(ops.aten, plain, None) if plain != overload._opname else None
    return packet is not None and any(getattr(packet, name).is_view for name in packet.overloads())


def tags_of(overload, record):
    """Returns the tags that follow from an entry of the table."""
    found = [(Tag.nondeterministic_seeded, overload._nondeterministic_seeded),
             (Tag.pointwise, record["does"] == "body"),
             (Tag.reduction, record["does"] == "fold"),
             (Tag.inplace_view, changes_sizes(overload)),
             (Tag.dynamic_output_shape, record["sized_by_values"]),
             (Tag.data_dependent_output, any(not r.type.endswith(("Tensor", "Tensor]")) for r in overload._schema.returns))]
    return [tag for tag, holds in found if holds]
