"""Parts of the data loader."""
MP_STATUS_CHECK_INTERVAL = 5.0  # seconds between looks at whether the other side lives

from . import collate, fetch, pin_memory, worker
