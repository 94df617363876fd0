"""The environment, free ports, and texts with places for a worker's number."""
import os
import socket
from string import Template


def get_env_variable_or_raise(env_name):
    """Returns a variable of the environment.  ValueError where it is not set."""
    value = os.environ.get(env_name)
    if value is None:
        raise ValueError(f"Environment variable {env_name} expected, but not set")
    return value


def get_socket_with_port():
    """Returns a socket that listens at a free port of this host."""
    for family, kind, proto, _, address in socket.getaddrinfo("localhost", None, socket.AF_UNSPEC, socket.SOCK_STREAM):
        s = socket.socket(family, kind, proto)
        try:
            s.bind((address[0], 0))
            s.listen(0)
            return s
        except OSError:
            s.close()
    raise RuntimeError("Failed to create a socket")


class macros:
    """Places in arguments that the launcher fills in."""

    local_rank = "${local_rank}"

    @staticmethod
    def substitute(args, local_rank):
        """Returns arguments with a worker's number in its places."""
        return [Template(a).safe_substitute(local_rank=local_rank) if isinstance(a, str) else a for a in args]
