"""cuDNN: not in this build; the switches keep what programs set."""
enabled = True
benchmark = False
deterministic = False
allow_tf32 = True


def is_available():
    return False


def version():
    return None
