"""torch's functorch.experimental."""
from ..._functorch.vmap import chunk_vmap
from ...func import functionalize, replace_all_batch_norm_modules_
from . import control_flow
