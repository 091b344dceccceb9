"""The bytes that the CUDA kernels move per element of their main input, against the fewest that any kernel could.

Counted from the kernels' own loads and stores; tests/kernels/test_every_kernel.py holds these numbers to what the
emulated GPU counts. An element is one (batch, channel, time step).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, Tuple

TILE, HALO = 8, 3  # kItems and kHalo of csrc
HALO_SHARE = HALO / TILE  # what a tile's neighbours add to it
SHARED = ("B", "C", "dB", "dC")  # by all channels of a group


@dataclass(frozen=True)
class Traffic:
    """One op's bytes per element, by array, as its threads ask for them."""

    op: str
    moved: Dict[str, float]
    minimum: float  # each input once, each output once
    channels: int  # of a group

    @property
    def asked(self) -> float:
        return sum(self.moved.values())

    @property
    def from_memory(self) -> float:
        """What is left when a group's channels find B and C, and their sums, in the L2 cache."""
        return sum(count / self.channels if name in SHARED else count for name, count in self.moved.items())


def expected_traffic(size: int, state: int, channels: int, width: int) -> Tuple[Traffic, ...]:
    """The ops with every option, for elements of `size` bytes; B and C vary; one group has `channels` channels."""
    s, projection, sums = float(size), float(size * state), 4.0 * state
    shared = 2 * projection / channels
    history = width - 1  # inputs that a state holds
    return (
        Traffic(
            "selective_scan_fwd",
            {"u": s, "delta": s, "z": s, "B": projection, "C": projection, "out": s},
            4 * s + shared,
            channels,
        ),
        # delta, z and dout are read a second time after the loop over the states: registers are scarcer.
        Traffic(
            "selective_scan_bwd",
            {
                "u": s, "delta": 2 * s, "z": 2 * s, "dout": 2 * s, "B": projection, "C": projection,
                "du": s, "ddelta": s, "dz": s, "dB": sums, "dC": sums,
            },
            7 * s + shared + 2 * sums / channels,
            channels,
        ),
        # The halo was read by a neighbouring thread and comes from the L1 cache.
        Traffic("causal_conv1d_fwd", {"x": s * (1 + HALO_SHARE), "out": s}, 2 * s, channels),
        Traffic(
            "causal_conv1d_bwd",
            {"x": s * (1 + 2 * HALO_SHARE), "dout": s * (1 + HALO_SHARE), "dx": s},
            3 * s,
            channels,
        ),
        # One step: the state is read for the sum and again to be moved along, and the input likewise.
        Traffic(
            "causal_conv1d_update",
            {"x": 2 * s, "conv_state": s * (history + (history - 1) + history), "out": s},
            s * (2 + 2 * history),
            channels,
        ),
    )  # fmt: skip
