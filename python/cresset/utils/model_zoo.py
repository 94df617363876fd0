"""torch.hub's downloads under their earlier names."""
from ..hub import _Faketqdm, load_state_dict_from_url as load_url

try:
    from tqdm.auto import tqdm
except ImportError:
    tqdm = _Faketqdm
