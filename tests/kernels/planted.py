"""The bugs that test_emulation.py plants, one edit each, and what must be said of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict

from tests.kernels import abi
from tests.kernels.arrays import Memory
from tests.kernels.test_causal_conv1d import check as check_conv
from tests.kernels.test_causal_conv1d import check_update
from tests.kernels.test_selective_scan import Case
from tests.kernels.test_selective_scan import check as check_scan

RACE, BLOCKS, UNSET = "race: ", "race between blocks: ", "read of uninitialised "
OUTSIDE = "runs past|wild |race between blocks"  # arrays of a test may be neighbours in memory
WRONG = "off by "  # a result that float64 contradicts
REFUSED = "launch|invalid|emulated error"


@dataclass(frozen=True)
class Bug:
    """An edit of one source file that must apply exactly once; `found` is a pattern for what must be said."""

    name: str
    file: str
    old: str
    new: str
    found: str
    call: Dict[str, Any] = field(default_factory=dict)

    @property
    def unit(self) -> str:
        return "causal_conv1d" if isinstance(self, ConvBug) else "selective_scan"

    @property
    def in_launcher(self) -> bool:
        return self.file.endswith(("launch.cpp", "arguments.h"))

    def run(self, kernels: abi.Kernels, memory: Memory) -> None:
        check_scan(kernels, memory, Case(**{"length": 300, "initial_state": True, "dlast_state": True, **self.call}))


class ConvBug(Bug):
    """The same for the convolution; a call with a `state_length` is an update."""

    def run(self, kernels: abi.Kernels, memory: Memory) -> None:
        common = {"dtype": "float32", "width": 3, "layout": "contiguous"}
        if "state_length" in self.call:
            check_update(kernels, memory, **{**common, "length": 2, **self.call})
            return
        more = {"weight_dtype": "float32", "length": 300, "silu": True, "with_bias": True}
        check_conv(kernels, memory, **{**common, **more, **self.call})


FORWARD, BACKWARD = "selective_scan/forward.cuh", "selective_scan/backward.cuh"
NUMERIC, WARP = "common/numeric.cuh", "common/warp.cuh"
SIZES, LAUNCH = "selective_scan/arguments.h", "selective_scan/launch.cpp"
TWO_CHUNKS = {"length": 1100}

SCAN_BARRIERS = (
    Bug("forward without its barrier", FORWARD, "__syncthreads();", "", RACE),
    Bug("backward without its loop barrier", BACKWARD, "__syncthreads();\n      float h", "float h", RACE),
    Bug("backward without its last barrier", BACKWARD, "__syncthreads();\n  for (int n", "for (int n", RACE),
    Bug("no warp barrier before reading", BACKWARD, "= x[i];\n  __syncwarp();", "= x[i];", f"{RACE}|{UNSET}"),
    Bug("no warp barrier after reading", BACKWARD, "  }\n  __syncwarp();", "  }", RACE),
    Bug("barrier for some", FORWARD, "__syncthreads();", "if (lane < 16) __syncthreads();", "deadlock|race"),
    Bug("barrier without idle threads", FORWARD, "__syncthreads();", "if (valid > 0) __syncthreads();", "deadlock|race"),
    Bug("barriers on two lines", FORWARD, "__syncthreads();",
        "if (thread == 0) {\n__syncthreads();\n} else {\n__syncthreads();\n}", "divergent barrier"),
    Bug("idle threads leave", FORWARD, "unsigned step = 0;",
        "if (thread * kItems > 300) return;\n  unsigned step = 0;", "exited"),
    Bug("half a warp in a shuffle", WARP, "0xffffffffu", "0xffffu", "is not in mask 0x0000ffff"),
    Bug("shuffle for some", FORWARD, "const Affine before = from_lane_below(own, lane);",
        "Affine before = {1.f, 0.f};\n      if (lane) before = from_lane_below(own, lane);", "deadlock|meets|mask|race"),
)  # fmt: skip
SCAN_SHARED = (
    Bug("warp totals in one buffer", FORWARD, "n++, step++", "n++", RACE),
    Bug("carry in one buffer", FORWARD, "carry[(parity ^ 1) * state + n] = h", "carry[parity * state + n] = h", RACE),
    Bug("carry not initialised", FORWARD, "carry[n] = ", "(void)", UNSET + "dynamic shared memory"),
    Bug("sums not initialised", BACKWARD, "dA_sum[n] = dB_sum[n] = dC_sum[n] = 0.f;", "", UNSET),
    Bug("carry of the last chunk by the wrong parity", BACKWARD, "carry[((chunks - 1) & 1) * state + n]", "carry[n]",
        UNSET, TWO_CHUNKS),
    Bug("warp totals one too far", FORWARD, "totals[step & 1][warp] = own", "totals[step & 1][warp + 1] = own", UNSET),
    Bug("twice the index of the state", BACKWARD, "carry[parity * state + n];\n      for (int w = warps",
        "carry[parity * state + n * 2];\n      for (int w = warps", f"{UNSET}|{RACE}|{WRONG}"),
    Bug("transpose row too long", BACKWARD, "lane * kTransposeRow + i", "lane * (kTransposeRow + 1) + i",
        f"{RACE}|{UNSET}|{OUTSIDE}"),
    Bug("transpose read off by one", BACKWARD, "+ at % kItems]", "+ at % kItems + 1]", f"{RACE}|{UNSET}|{OUTSIDE}"),
    Bug("shared sum without atomics", BACKWARD, "atomicAdd(shared_sum, value)", "*shared_sum += value", RACE),
    Bug("transpose without padding", SIZES, "threads * kTransposeRow", "threads * kItems", OUTSIDE),
    Bug("half of the carry", SIZES, "return 2 * state;", "return state;", OUTSIDE),
    Bug("300 KB of shared memory", SIZES, "return 2 * state;", "return 2 * state + 75000;", REFUSED),
)  # fmt: skip
SCAN_MEMORY = (
    Bug("dA without atomics", BACKWARD, "atomicAdd(g.dA + channel * state + n, dA_sum[n]);",
        "g.dA[channel * state + n] += dA_sum[n];", BLOCKS + "dA"),
    Bug("dB without atomics", BACKWARD, "atomicAdd(out + at, transpose[at / kItems * kTransposeRow + at % kItems]);",
        "out[at] += transpose[at / kItems * kTransposeRow + at % kItems];", BLOCKS + "d[BC]"),
    Bug("loads not masked", NUMERIC, "i < valid ? to_float(from[i * row.step]) : 0.f", "to_float(from[i * row.step])",
        OUTSIDE),
    Bug("stores not masked", NUMERIC, "if (i < valid) from_float(to", "from_float(to", OUTSIDE),
    Bug("vectors without alignment", NUMERIC,
        "if (row.vector && valid >= kItems) {\n    DEV_UNROLL\n    for (int k = 0; k < kItems / P::kWidth; k++) {\n"
        "      const P pack",
        "if (valid >= kItems) {\n    DEV_UNROLL\n    for (int k = 0; k < kItems / P::kWidth; k++) {\n"
        "      const P pack", "misaligned 16-byte", {"layout": "padded"}),
    Bug("checkpoint of its own chunk", BACKWARD, "+ chunk - 1) * state + n]", "+ chunk) * state + n]",
        f"{OUTSIDE}|{WRONG}", TWO_CHUNKS),
    Bug("block of 1056 threads", LAUNCH, "return smaller(warps, kMaxWarps) * kWarp;", "return (smaller(warps, kMaxWarps) + 31) * kWarp;",
        f"{REFUSED}|threads"),
    Bug("grid without the batch", LAUNCH, "p->batch * p->dim, threads_for", "p->dim, threads_for", f"{WRONG}|{UNSET}"),
)  # fmt: skip
SCAN_FORMULAS = (
    Bug("forward step not masked", FORWARD, "i < valid ? (p.delta_softplus ? softplus(biased) : biased) : 0.f;",
        "p.delta_softplus ? softplus(biased) : biased;", WRONG),
    Bug("backward step not masked", BACKWARD, "i < valid ? (p.delta_softplus ? softplus(biased) : biased) : 0.f;",
        "p.delta_softplus ? softplus(biased) : biased;", WRONG),
    Bug("prefix with its own warp", FORWARD, "w < warp; w++", "w <= warp; w++", WRONG),
    Bug("C of the next step", FORWARD, "y[i] += c[i] * h;", "y[i] += c[(i + 1) % kItems] * h;", WRONG),
    Bug("softplus not derived", BACKWARD, "ddt[i] *= softplus_derivative(raw[i] + bias);", "ddt[i] *= 1.f;", WRONG),
    Bug("group left out of the row", BACKWARD, "(batch * p.groups + group) * p.state", "batch * p.groups * p.state",
        WRONG, {"groups": 2}),
)  # fmt: skip

CONV_BACKWARD, TILES, UPDATE = "causal_conv1d/backward.cuh", "causal_conv1d/tiles.cuh", "causal_conv1d/update.cuh"
ONE_STEP = {"state_length": 3, "width": 4, "length": 1}
CONV = (
    ConvBug("halo of the first tile", TILES, "first > 0 && valid > 0 ?", "valid > 0 ?", f"{OUTSIDE}|{UNSET}|{WRONG}"),
    ConvBug("no halo in the second tile", TILES, "first > 0 && valid > 0 ?", "first > kItems && valid > 0 ?", WRONG),
    ConvBug("taps from the wrong end", TILES, "+ (k - taps.unused) * weight.stride[1]", "+ k * weight.stride[1]",
            f"{OUTSIDE}|{WRONG}"),
    ConvBug("surplus threads go on", TILES, "if (mine.batch >= p.batch) mine.end = mine.tile;", "", OUTSIDE,
            {"layout": "transposed"}),
    ConvBug("dweight without atomics", CONV_BACKWARD,
            "atomicAdd(g.dweight + mine.channel * p.width + (k - taps.unused), dtap[k]);",
            "g.dweight[mine.channel * p.width + (k - taps.unused)] += dtap[k];", f"{BLOCKS}dweight|{RACE}"),
    ConvBug("idle lanes miss the sums", CONV_BACKWARD, "if (channels_fast && mine.tile", "if (mine.tile", "exited"),
    ConvBug("every lane adds", CONV_BACKWARD, "channels_fast || threadIdx.x % kWarp == 0", "true", WRONG),
    ConvBug("newer steps left out", CONV_BACKWARD, "i < valid_after ? to_float(dout", "i < 0 ? to_float(dout", WRONG),
    ConvBug("newer steps not masked", CONV_BACKWARD, "i < valid_after ? to_float(dout", "true ? to_float(dout",
            f"{OUTSIDE}|{WRONG}"),
    ConvBug("silu not derived", CONV_BACKWARD, "e[i] *= silu_derivative(taps(window + i));", "e[i] *= 1.f;", WRONG),
    ConvBug("grid without segments", "causal_conv1d/launch.cpp", "p.batch * p.dim * grid.spread.segments;\n  }",
            "p.batch * p.dim;\n  }", f"{WRONG}|{UNSET}", {"length": 5000}),
    ConvBug("surplus rows of an update", UPDATE, "if (batch >= p.batch) return;", "", OUTSIDE, ONE_STEP),
    ConvBug("state moved one short", UPDATE, "from = i + p.length;", "from = i + p.length - 1;", "assert|Assert|array",
            ONE_STEP),
    ConvBug("oldest inputs of the state", UPDATE, "at = p.state_length - kHalo + k;", "at = k;", WRONG,
            {"state_length": 6, "width": 4, "length": 1}),
)  # fmt: skip

BUGS = (*SCAN_BARRIERS, *SCAN_SHARED, *SCAN_MEMORY, *SCAN_FORMULAS, *CONV)
