"""Where an iteration of a loader is, so that another one goes on behind it."""
import cresset


def _generators(loader):
    """The generators that give an iteration its order: the default one, the loader's and its samplers'."""
    samplers = (loader.batch_sampler, loader.sampler, getattr(loader.batch_sampler, "sampler", None))
    own = [loader.generator, *(getattr(s, "generator", None) for s in samplers)]
    found = [cresset.default_generator, *(g for g in own if isinstance(g, cresset.Generator))]
    return list({id(g): g for g in found}.values())


class Progress:
    """The number of batches that an iteration has given, and the generators' states before it drew its first numbers.

    Samplers draw when their first index is asked for, later than the iteration; between the two a program may draw.
    """

    def __init__(self, loader):
        self._all = _generators(loader)
        self.yielded, self.start, self.first = 0, self.states(), None
        self.resumed = loader._resumed
        loader._resumed, loader._progress = None, self
        if self.resumed is not None:
            self.kept = self.start
            self.set(self.resumed["start"])

    def states(self):
        return [g.get_state() for g in self._all]

    def set(self, states):
        if len(states) != len(self._all):
            raise RuntimeError(f"load_state_dict(): the state is of a loader with {len(states)} generators, this one has {len(self._all)}")
        for generator, state in zip(self._all, states):
            generator.set_state(state)

    def begin(self, indices, skips):
        """Goes behind the batches that were given before; `skips`: those of the sampler."""
        if self.resumed is None:
            return
        self.start, self.first, self.yielded = (self.resumed[k] for k in ("start", "first", "yielded"))
        if self.first is not None:
            self.set(self.first)
        for _ in range(self.yielded if skips else 0):
            next(indices, None)
        self.set(self.kept)

    def draws(self):
        """Before each index."""
        if self.first is None:
            self.first = self.states()

    def state_dict(self):
        return {"yielded": self.yielded, "start": self.start, "first": self.first}
