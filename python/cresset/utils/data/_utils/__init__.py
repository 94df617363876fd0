"""Parts of the data loader."""
MP_STATUS_CHECK_INTERVAL = 5.0  # seconds between checks that the other side is alive

from . import collate, fetch, pin_memory, worker
