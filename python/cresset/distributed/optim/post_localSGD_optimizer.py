"""An optimizer that averages the parameters now and then."""
from ...optim import Optimizer

__all__ = ["PostLocalSGDOptimizer"]


class PostLocalSGDOptimizer(Optimizer):
    """Steps with `optim`, then lets `averager` average the parameters."""

    def __init__(self, optim, averager):
        self.optim, self.averager = optim, averager
        self.param_groups = optim.param_groups

    @property
    def state(self):
        """The state of the optimizer inside."""
        return self.optim.state

    def __repr__(self):
        return repr(self.optim)

    def state_dict(self):
        """Returns the optimizer's state, and the averager's step."""
        return {**self.optim.state_dict(), "step": self.averager.step}

    def load_state_dict(self, state_dict):
        """Loads a state."""
        self.optim.load_state_dict(state_dict)
        self.averager.step = state_dict.get("step", 0)

    def step(self):
        """Steps and averages."""
        self.optim.step()
        self.averager.average_parameters(params=self.param_groups)

    def zero_grad(self, set_to_none=True):
        """Clears gradients."""
        self.optim.zero_grad(set_to_none=set_to_none)

    def add_param_group(self, param_group):
        """Adds parameters."""
        self.optim.add_param_group(param_group)
