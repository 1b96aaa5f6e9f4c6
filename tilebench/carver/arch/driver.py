"""Numbers that a program asks of the device before it writes its kernel."""

from __future__ import annotations

from typing import Any, cast


def get_num_sms(device_id: int = 0) -> int:
    """Multiprocessors of the GPU; of an H200 (132) where there is none, as the CPU runs its programs."""
    import torch

    if torch.cuda.is_available():
        cuda: Any = cast("Any", torch).cuda
        return int(cuda.get_device_properties(device_id).multi_processor_count)
    return 132
