"""Options of a command line whose defaults are in the environment, under PET_ and the option's name."""
import os
from argparse import Action

__all__ = ["env", "check_env"]


def _text_of(dest):
    return os.environ.get(f"PET_{dest.upper()}")


class env(Action):
    """An option with a value."""

    def __init__(self, dest, default=None, required=False, **kwargs):
        text = _text_of(dest)
        default = default if text is None else text
        super().__init__(dest=dest, default=default, required=required and not default, **kwargs)

    def __call__(self, parser, namespace, values, option_string=None):
        setattr(namespace, self.dest, values)


class check_env(Action):
    """An option without a value: True where it is given.  In the environment a number other than 0 stands for True."""

    def __init__(self, dest, default=False, **kwargs):
        text = _text_of(dest)
        super().__init__(dest=dest, const=True, nargs=0, default=bool(int(text)) if text else bool(default), **kwargs)

    def __call__(self, parser, namespace, values, option_string=None):
        setattr(namespace, self.dest, self.const)
