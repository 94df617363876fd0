"""What a pass is and what it answers."""
import abc
from collections import namedtuple

__all__ = ["PassResult", "PassBase"]


class PassResult(namedtuple("PassResult", ["graph_module", "modified"])):
    """The module after a pass, and whether the pass changed it."""

    __slots__ = ()


class PassBase(abc.ABC):
    """A pass: `call` does the work, `requires` and `ensures` check the module around it."""

    def __call__(self, graph_module):
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    @abc.abstractmethod
    def call(self, graph_module):
        """Works on the module; returns a PassResult."""

    def requires(self, graph_module):
        """Raises when the module is not as the pass needs it."""

    def ensures(self, graph_module):
        """Raises when the module is not as the pass promises."""
