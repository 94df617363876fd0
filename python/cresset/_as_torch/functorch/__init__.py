"""Cresset as functorch."""
import torch.functorch

torch._root.add_alias("functorch", f"{torch.__name__}.functorch")
