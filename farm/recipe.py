"""What is compiled, from which files, with which flags: the data that the actions are made of. Paths are relative to the checkout."""

from __future__ import annotations

from typing import Dict, Tuple

CXX = "g++"
LINKER = "gcc"  # not g++: the kernel libraries do without libstdc++

# Kernels, for the CPU and for the host side of CUDA. fp-contract: a product and a sum become one rounding, as on a GPU.
# No exceptions, RTTI or guarded statics: they would bring libstdc++ and new glibc symbols in.
KERNEL_FLAGS = (
    "-O3", "-std=c++17", "-fPIC", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics",
    "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast", "-Wall", "-Wextra", "-Icsrc", "-Icsrc/include",
)  # fmt: skip
KERNEL_LINK_FLAGS = (
    "-shared", "-Wl,-O1", "-Wl,-s", "-Wl,-z,defs", "-Wl,-z,noexecstack", "-Wl,--no-as-needed", "-l:libdl.so.2",
    "-l:libpthread.so.0", "-Wl,--as-needed", "-lm",
)  # fmt: skip

CPU_LIBRARY = "libmamba_cpu.so"
CPU_DISPATCH = "csrc/cpu/dispatch.cpp"
CPU_KERNELS = "csrc/cpu/kernels.cpp"
# machine -> instruction set -> flags; kernels.cpp is compiled once for each, dispatch.cpp chooses at run time
CPU_ISAS: Dict[str, Dict[str, Tuple[str, ...]]] = {
    "x86_64": {
        "baseline": (),
        "avx2": ("-mavx2", "-mfma", "-mf16c"),
        "avx512": (
            "-mavx512f", "-mavx512vl", "-mavx512bw", "-mavx512dq", "-mfma", "-mf16c", "-mprefer-vector-width=512",
        ),
    },
    "aarch64": {"baseline": ()},
}  # fmt: skip

CUDA_LIBRARY = "libmamba_cuda.so"
# unit -> source; each is compiled once per architecture, and its cubins are merged into one fatbin
CUDA_UNITS = {
    "selective_scan": "csrc/selective_scan/selective_scan.cu",
    "causal_conv1d": "csrc/causal_conv1d/causal_conv1d.cu",
}
CUDA_HOST_SOURCES = (
    "csrc/cuda/driver.cpp", "csrc/cuda/status.cpp", "csrc/cuda/table.cpp", "csrc/selective_scan/launch.cpp",
    "csrc/causal_conv1d/launch.cpp",
)  # fmt: skip
# the one host file that is told what device code it sits beside
CUDA_DESCRIBED = "csrc/cuda/device.cpp"
CUDA_EMBED = "csrc/cuda/embed.S"
# objtemp: without it the names of nvcc's temporary files get into its output, and no two builds are alike.
NVCC_FLAGS = ("-O3", "-std=c++17", "-objtemp", "-Icsrc", "-Icsrc/include")

# Bindings. -O1: they only check and forward; more costs time and size (facts: 2.9 s and 56 kB against 3.5 s and 76 kB).
BINDING_FLAGS = ("-O1", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-DAT_PER_OPERATOR_HEADERS")
BINDING_CLASSIC = "csrc/bindings/classic.cpp"
BINDING_STABLE = "csrc/bindings/stable.cpp"
BINDING_FLOOR = "csrc/bindings/floor.cpp"
BINDING_EXPORTS = "csrc/bindings/exports.map"
BINDING_STABLE_TARGET = "-DTORCH_TARGET_VERSION=0x0209000000000000"
BINDING_LINK_FLAGS = ("-shared", "-Wl,-O1", "-Wl,-s", "-Wl,-z,noexecstack")
CXX20_FROM = (2, 13)  # torch's headers need C++20 from here on

KERNELS_ABI = 1  # MAMBA_KERNELS_ABI_VERSION of csrc/include/mamba_kernels.h
TABLE_FORMAT = 1  # of bindings.json


def classic_file(torch: str, cxx11abi: bool) -> str:
    return f"binding_torch{torch}_abi{int(cxx11abi)}.so"


STABLE_FILE = "binding_stable.so"
