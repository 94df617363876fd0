"""Norms of rows without columns have defined numbers in their second results, as in torch, and not what the memory had."""
import pytest

import cresset as torch

CALLS = {
    "layer": (lambda x: torch.native_layer_norm(x, [0], None, None, 1e-5)[2], (2, 3, 0), (2, 3, 1)),
    "group": (lambda x: torch.native_group_norm(x, None, None, 2, 4, 0, 2, 1e-5)[2], (2, 4, 0), (2, 2)),
    "rms": (lambda x: torch._fused_rms_norm(x, [0], None, None)[1], (2, 3, 0), (2, 3, 1)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("name", CALLS)
def test_deviations_are_nan(name, dtype):
    call, size, result = CALLS[name]
    x = torch.zeros(size, dtype=dtype)
    for f in (call, torch.compile(call)):
        for _ in range(8):
            torch.full(result, 7., dtype=dtype), torch.full(result, 7.)  # their memory is used again
            made = f(x)
            assert made.shape == result and made.isnan().all()
    with torch.lazy():
        made = [call(x) for _ in range(8)]
    assert all(r.isnan().all() for r in made) and call(x.to("meta")).shape == result
