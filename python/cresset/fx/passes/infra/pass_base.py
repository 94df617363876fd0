"""The base class of passes, and their result."""
import abc
from collections import namedtuple

__all__ = ["PassResult", "PassBase"]


class PassResult(namedtuple("PassResult", ["graph_module", "modified"])):
    """The module after a pass, and whether the pass changed it."""

    __slots__ = ()


class PassBase(abc.ABC):
    """A pass: `call` does the work; `requires` and `ensures` check the module before and after
    it."""

    def __call__(self, graph_module):
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    @abc.abstractmethod
    def call(self, graph_module):
        """Transforms the module.  Returns a PassResult."""

    def requires(self, graph_module):
        """Raises when the module does not meet the pass's preconditions."""

    def ensures(self, graph_module):
        """Raises when the module does not meet the pass's postconditions."""
