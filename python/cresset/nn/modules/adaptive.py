"""Softmax over many classes, the rare ones in clusters."""
from collections import namedtuple

import cresset
from .. import functional as F
from .container import ModuleList, Sequential
from .linear import Linear
from .module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]

_ASMoutput = namedtuple("_ASMoutput", ["output", "loss"])


def _check_cutoffs(cutoffs, n_classes):
    if not cutoffs:
        raise ValueError("cutoffs should be a sequence of length larger than 0")
    if (cutoffs != sorted(set(cutoffs)) or min(cutoffs) <= 0 or max(cutoffs) > n_classes - 1
            or any(int(c) != c for c in cutoffs)):
        raise ValueError("cutoffs should be a sequence of unique, positive integers sorted in an "
                         "increasing order, where each value is between 1 and n_classes-1")


class AdaptiveLogSoftmaxWithLoss(Module):
    """Frequent classes in a head, other classes in clusters with smaller and smaller
    projections.

    Shape: input (N, in_features) or (in_features); target (N) or () of class numbers; output: `output` of target's
    sizes and `loss` ().

    Example::

        >>> nn.AdaptiveLogSoftmaxWithLoss(4, 10, [3, 6])(torch.randn(2, 4), torch.tensor([1, 9])).output.shape
        torch.Size([2])
    """

    def __init__(self, in_features, n_classes, cutoffs, div_value=4.0, head_bias=False,
                 device=None, dtype=None):
        factory_kwargs = {"device": device, "dtype": dtype}
        super().__init__()
        cutoffs = list(cutoffs)
        _check_cutoffs(cutoffs, n_classes)
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = cutoffs + [n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = cutoffs[0]
        self.n_clusters = len(cutoffs)
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, **factory_kwargs)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            hidden = int(in_features // div_value ** (i + 1))
            size = self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(Sequential(
                Linear(in_features, hidden, bias=False, **factory_kwargs),
                Linear(hidden, size, bias=False, **factory_kwargs)))

    def reset_parameters(self):
        self.head.reset_parameters()
        for inner, outer in self.tail:
            inner.reset_parameters()
            outer.reset_parameters()

    def _check_forward(self, input, target):
        ndim = target.dim()
        if ndim == 1 and input.size(0) != target.size(0):
            raise RuntimeError(
                "Input and target should have the same size in the batch dimension.")
        if ndim > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if input.dim() != ndim + 1:
            raise RuntimeError(f"{ndim}D target tensor expects {ndim + 1}D input tensors, but "
                               f"found inputs with size {input.size()}")

    def forward(self, input_, target_):
        self._check_forward(input_, target_)
        batched = target_.dim() > 0
        input = input_ if batched else input_.unsqueeze(0)
        target = target_ if batched else target_.unsqueeze(0)
        output, columns = self._in_clusters(input, target)
        head = F.log_softmax(self.head(input), dim=1)
        output = output + head.gather(1, columns.unsqueeze(1)).squeeze(1)
        loss = (-output).mean()
        return _ASMoutput(output if batched else output.squeeze(0), loss)

    def _in_clusters(self, input, target):
        """Returns (log-probability within the cluster, column of the head) of every target."""
        low, high = int(target.min()), int(target.max())
        if low < 0 or high >= self.n_classes:
            raise RuntimeError(f"Target values should be in [0, {self.n_classes - 1}], but "
                               f"values in range [{low}, {high}] were found. ")
        columns = target.clone()
        output = input.new_zeros(target.size(0))
        for i, (start, end) in enumerate(zip(self.cutoffs, self.cutoffs[1:])):
            rows = ((target >= start) & (target < end)).nonzero().squeeze(1)
            if rows.numel() == 0:
                continue
            inside = F.log_softmax(self.tail[i](input.index_select(0, rows)), dim=1)
            place = target.index_select(0, rows) - start
            output = output.index_copy(0, rows, inside.gather(1, place.unsqueeze(1)).squeeze(1))
            columns = columns.index_fill(0, rows, self.shortlist_size + i)
        return output, columns

    def _get_full_log_prob(self, input, head_output):
        head = F.log_softmax(head_output, dim=1)
        parts = [head[:, :self.shortlist_size]]
        for i, cluster in enumerate(self.tail):
            inside = F.log_softmax(cluster(input), dim=1)
            parts.append(inside + head[:, self.shortlist_size + i].unsqueeze(1))
        return cresset.cat(parts, dim=1)

    def log_prob(self, input):
        """The log-probabilities of all classes."""
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input):
        """The most probable class of every row."""
        head = self.head(input)
        output = head.argmax(dim=1)
        rare = output >= self.shortlist_size
        if rare.any():
            output[rare] = self._get_full_log_prob(input[rare], head[rare]).argmax(dim=1)
        return output
