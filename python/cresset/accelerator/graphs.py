"""Graphs of the accelerator: work that is captured once and launched often."""
import gc

__all__ = ["Graph"]


class Graph:
    """Work that was captured: `with stream, graph:` captures it, `graph.replay()` launches it.  Only CUDA devices have graphs.

    keep_graph: the graph is kept after the capture, and becomes launchable by instantiate() or the first replay().
    pool: the pool of another graph, whose memory this one may use, as pool() of that graph returns it.
    capture_error_mode: "default", "global", "thread_local" or "relaxed": what other work may do during the capture.

        g = torch.accelerator.Graph()
        with torch.Stream(), g:
            y = x + 1
        g.replay()
    """

    def __init__(self, keep_graph=False, *, pool=None, capture_error_mode="default"):
        from . import _cuda, _need, current_accelerator
        _need()
        if _cuda() is None:
            raise RuntimeError(f"devices of {current_accelerator().type} have no graphs")
        self._graph = _cuda().CUDAGraph(keep_graph)
        self.graph_pool, self.capture_error_mode = pool, capture_error_mode

    def capture_begin(self):
        """Captures the work of the current stream, which must not be the default one."""
        mode = "global" if self.capture_error_mode == "default" else self.capture_error_mode
        self._graph.capture_begin(self.graph_pool, mode)

    def capture_end(self):
        """Ends the capture.  Without keep_graph the graph becomes launchable."""
        self._graph.capture_end()

    def instantiate(self):
        """Makes a graph launchable that was made with keep_graph=True."""
        self._graph.instantiate()

    def replay(self):
        """Launches the captured work on the current stream."""
        self._graph.replay()

    def reset(self):
        """Drops the captured work.  The next capture uses the attributes graph_pool and capture_error_mode of then."""
        self._graph.reset()

    def pool(self):
        """The graph's pool of memory, for the argument `pool` of other graphs."""
        return self._graph.pool()

    def enable_debug_mode(self):
        """Keeps the graph for debug_dump()."""
        self._graph.enable_debug_mode()

    def debug_dump(self, path):
        """Writes the graph in the language of Graphviz."""
        self._graph.debug_dump(path)

    def __enter__(self):
        from . import empty_cache, empty_host_cache, synchronize
        synchronize()
        gc.collect()
        empty_cache()
        empty_host_cache()
        self.capture_begin()

    def __exit__(self, *exception):
        self.capture_end()
