"""The doctor is a pure function: an error in any of its spellings and the facts in, one code out, in two languages."""

from __future__ import annotations

import re
from dataclasses import replace
from string import Formatter
from typing import Any, Dict, List, Optional, Set

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mamba_install import catalogue, symbols
from mamba_install.doctor import clean, conclude, conclusion_lines, examine
from mamba_install.environment import Environment, Gpu
from mamba_install.faults import FAULTS
from mamba_install.records import Candidate, Decision, Policy
from mamba_install.resolve import resolve
from mamba_install.wheel_names import WheelName

HERE = Environment(
    python="3.10.12",
    platform="linux",
    machine="x86_64",
    glibc="2.35",
    torch="2.6.0+cu124",
    torch_cuda="12.4",
    cxx11abi=False,
    probed=True,
)
NOTHING = Environment()
B200 = Gpu("NVIDIA B200", "10.0")
B300 = Gpu("NVIDIA B300", "10.3")

# (the code, what the user sees, what differs from HERE)
SPELLINGS: List[Any] = [
    ("LIBC_MUSL", "Error relocating /usr/lib/libc10.so: __memcpy_chk: symbol not found", {}),
    ("LIBC_MUSL", "", {"platform": "linux (Alpine 3.20)"}),
    ("GLIBC_TOO_OLD", "ImportError: /lib64/libm.so.6: version 'GLIBC_2.29' not found (required by x.so)", {}),
    ("GLIBC_TOO_OLD", "/usr/lib/libc.so.6: version `GLIBC_2.34' not found", {}),
    ("LIBSTDCXX_TOO_OLD", "libstdc++.so.6: version `CXXABI_1.3.13' not found (required by selective_scan_cuda.so)", {}),
    ("LIBSTDCXX_TOO_OLD", "libstdc++.so.6: version `GLIBCXX_3.4.30' not found", {}),
    ("CXX11ABI_MISMATCH", "undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationESs", {"cxx11abi": True}),
    (
        "CXX11ABI_MISMATCH",
        "x.so: undefined symbol: _ZN3c106detail23torchInternalAssertFailEPKcS2_jS2_RKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
        {"torch": "2.5.1+cu124"},
    ),
    (
        "CXX11ABI_MISMATCH",
        "undefined symbol: c10::Error::Error(c10::SourceLocation, std::__cxx11::basic_string<char>)",
        {},
    ),
    ("TORCH_MINOR_MISMATCH", "undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationESs", {}),
    ("TORCH_MINOR_MISMATCH", "undefined symbol: _ZN3c104cuda9SetDeviceEi", {}),
    ("TORCH_MINOR_MISMATCH", "undefined symbol: _ZN3c104cuda9SetDeviceEa", {"torch": "2.8.0+cu128", "cxx11abi": True}),
    (
        "TORCH_MINOR_MISMATCH",
        "undefined symbol: _ZN2at4_ops10zeros_like4callERKNS_6TensorESt8optionalIN3c1010ScalarTypeEE",
        {},
    ),
    (
        "TORCH_MINOR_MISMATCH",
        "undefined symbol: _ZNK3c1011StorageImpl27throw_data_ptr_access_errorEv",
        {"torch": "2.5.1+cu124"},
    ),
    ("TORCH_MINOR_MISMATCH", "terminate called after 'std::length_error'\n  what():  vector::reserve", {}),
    ("TORCH_MINOR_MISMATCH", "installed mamba_ssm-2.2.4+cu12torch2.4cxx11abiFALSE-cp310-cp310-linux_x86_64.whl", {}),
    (
        "FARM_WRONG_ABI_LABEL",
        (
            "mamba_ssm-2.2.5+cu12torch2.6cxx11abiFALSE-cp310-cp310-linux_x86_64.whl\n"
            "undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
        ),
        {},
    ),
    ("NO_WHEEL_FOR_PYTHON", "x.so: undefined symbol: _PyGen_Send", {}),
    (
        "NO_WHEEL_FOR_PYTHON",
        "ERROR: Package 'mamba-ssm' requires a different Python: 3.8.10 not in '>=3.9'",
        {"python": "3.8.10"},
    ),
    (
        "NO_WHEEL_FOR_PYTHON",
        "mamba_ssm-2.2.4+cu12torch2.6cxx11abiFALSE-cp312-cp312-linux_x86_64.whl is not a supported wheel on this platform.",
        {},
    ),
    (
        "TOOLKIT_MISMATCH",
        "libcusparse.so.12: undefined symbol: __nvJitLinkAddData_12_1, version libnvJitLink.so.12",
        {},
    ),
    (
        "TORCH_NO_CUDA",
        "ImportError: libc10_cuda.so: cannot open shared object file",
        {"torch": "2.6.0+cpu", "torch_cuda": None},
    ),
    (
        "TORCH_NO_CUDA",
        "AssertionError: Torch not compiled with CUDA enabled",
        {"torch": None, "torch_cuda": None, "probed": False},
    ),
    ("TORCH_ROCM", "libamdhip64.so.6: cannot open shared object file: No such file or directory", {}),
    (
        "TORCH_ROCM",
        "/opt/rocm/include/hip/amd_detail/amd_hip_bf16.h:108:13: error: ...",
        {"torch": "2.4.0+rocm6.0", "torch_cuda": None},
    ),
    ("CUDA_MAJOR_MISMATCH", "OSError: libcudart.so.13: cannot open shared object file: No such file or directory", {}),
    ("CUDA_MAJOR_MISMATCH", "libcublasLt.so.11: cannot open shared object file", {}),
    ("STALE_PIP_CACHE", "  Using cached causal_conv1d-1.4.0-cp310-cp310-linux_x86_64.whl", {}),
    ("MACHINE_MISMATCH", "/x/causal_conv1d_cuda.cpython-310-aarch64-linux-gnu.so: wrong file", {}),
    ("MACHINE_MISMATCH", "OSError: selective_scan.so: wrong ELF class: ELFCLASS64", {}),
    ("ISOLATED_BUILD_TORCH_DIFFERS", "torch.__version__  = 2.9.1+cu128", {}),
    (
        "ISOLATED_BUILD_TORCH_DIFFERS",
        "Guessing wheel URL:  https://x/v2.2.5/mamba_ssm-2.2.5+cu12torch2.7cxx11abiTRUE-cp310-cp310-linux_x86_64.whl",
        {},
    ),
    (
        "ISOLATED_BUILD_TORCH_DIFFERS",
        "The detected CUDA version (12.4) mismatches the version that was used to compile PyTorch (13.0).",
        {"nvcc": "12.4"},
    ),
    ("NO_TORCH_IN_BUILD_ENV", "  File \"setup.py\", line 19\nModuleNotFoundError: No module named 'torch'", {}),
    ("FRONTEND_BUG", "ModuleNotFoundError: No module named 'pkg_resources'", {}),
    ("FARM_METADATA_VERSION", "has inconsistent version: expected '2.2.4+cu12', but metadata has '2.2.4'", {}),
    (
        "MSVC_UNSUPPORTED",
        "host_config.h(157): fatal error C1189: #error:  -- unsupported Microsoft Visual Studio version!",
        {"platform": "windows 11"},
    ),
    ("BUILD_OOM", "g++: fatal error: Killed signal terminated program cc1plus", {}),
    ("BUILD_OOM", "nvcc error   : 'cicc' died due to signal 9 (Kill signal)", {}),
    ("BUILD_OOM", 'sh: line 1: 4242 Killed   "$CICC_PATH/cicc" --c++17', {}),
    ("BUILD_OOM", "virtual memory exhausted: Cannot allocate memory", {}),
    ("CXX_STANDARD_TOO_OLD", "#error You need C++17 to compile PyTorch", {}),
    ("CXX_STANDARD_TOO_OLD", "error: #error C++20 or later compatible compiler is required to use PyTorch.", {}),
    ("PYTHON_HEADERS_MISSING", "/tmp/tmpab/main.c:5:10: fatal error: 'Python.h' file not found", {}),
    ("PYTHON_HEADERS_MISSING", "pybind11/detail/common.h:266:10: fatal error: Python.h: No such file or directory", {}),
    ("CUDA_HEADERS_MISSING", "ATen/cuda/CUDAContext.h:6:10: fatal error: cusparse.h: No such file or directory", {}),
    ("CUDA_HEADERS_MISSING", "fatal error: 'cuda_fp16.h' file not found", {}),
    ("CUDA_HEADERS_MISSING", "fatal error: crt/host_config.h: No such file or directory", {}),
    (
        "HOST_COMPILER_UNSUPPORTED",
        "error: #error -- unsupported GNU version! gcc versions later than 12 are not supported!",
        {"nvcc": "12.1"},
    ),
    (
        "HOST_COMPILER_UNSUPPORTED",
        "/usr/include/c++/11/bits/std_function.h:435:145: error: parameter packs not expanded with '...':",
        {},
    ),
    ("ARCH_UNKNOWN_TO_NVCC", "nvcc fatal   : Unsupported gpu architecture 'compute_120'", {"nvcc": "12.4"}),
    ("ARCH_UNKNOWN_TO_NVCC", "ptxas fatal   : Value 'sm_53' is not defined for option 'gpu-name'", {"nvcc": "13.0"}),
    (
        "TOOLKIT_MISMATCH",
        "The detected CUDA version (11.8) mismatches the version that was used to compile\nPyTorch (12.4).",
        {"nvcc": "11.8"},
    ),
    (
        "CUDA_HOME_UNSET",
        "OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install root.",
        {},
    ),
    ("CUDA_HOME_UNSET", "mamba_ssm was requested, but nvcc was not found.", {"nvcc": "12.4"}),
    ("NVCC_MISSING", "FileNotFoundError: [Errno 2] No such file or directory: '/usr/local/cuda/bin/nvcc'", {}),
    ("NVCC_MISSING", "/bin/sh: 1: nvcc: not found", {}),
    ("SDIST_INCOMPLETE", "cc1plus: fatal error: csrc/causal_conv1d.cpp: No such file or directory", {}),
    ("CROSS_DEVICE", "OSError: [Errno 18] Invalid cross-device link: 'a.whl' -> '/tmp/b.whl'", {}),
    ("STALE_BUILD_LOCK", "hangs forever; /home/me/.cache/torch_extensions/py310_cu124/x/lock exists", {}),
    (
        "STALE_BUILD_DIR",
        "ImportError: /home/u/.cache/torch_extensions/py310_cu121/x/x.so: cannot open shared object file",
        {},
    ),
    ("NINJA_MISSING", "RuntimeError: Ninja is required to load C++ extensions", {}),
    (
        "KNOWN_BAD_CUBIN",
        "bf16 output: max abs diff is large, results differ from reference, wrong values",
        {"gpus": (B300,), "nvcc": "13.1"},
    ),
    ("KNOWN_BAD_KERNEL", "silently wrong results in backward", {"gpus": (B200,)}),
    (
        "ARCH_NOT_IN_FATBIN",
        "hipErrorNoBinaryForGpu: Unable to find code object for all current devices!",
        {"torch": "2.4.0+rocm6.1", "torch_cuda": None},
    ),
    ("ARCH_NOT_IN_FATBIN", "CUDA error: no kernel image is available for execution on the device", {"gpus": (B200,)}),
    (
        "ARCH_NOT_IN_FATBIN",
        "NVIDIA RTX 5090 with CUDA capability sm_120 is not compatible with the current PyTorch installation.",
        {},
    ),
    ("DRIVER_TOO_OLD", "CUDA driver version is insufficient for CUDA runtime version", {}),
    ("DRIVER_PROBE", "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", {}),
    ("DRIVER_PROBE", "RuntimeError: Found no NVIDIA driver on your system.", {}),
    ("WRONG_FACT_SOURCE", "our script greps the CUDA version from nvidia-smi to pick the wheel", {}),
    (
        "CPU_TENSOR",
        "RuntimeError: Expected x.is_cuda() to be true, but got false.  (Could this error message be improved?)",
        {},
    ),
    ("CPU_TENSOR", "ValueError: Pointer argument (at 0) cannot be accessed from Triton (cpu tensor?)", {}),
    ("DYNAMO_BREAK", "torch._dynamo.exc.Unsupported: call_method UserDefinedObjectVariable", {}),
    (
        "KERNEL_API_SKEW",
        "TypeError: causal_conv1d_update(): incompatible function arguments. The following argument types are supported:",
        {},
    ),
    ("KERNEL_API_SKEW", "TypeError: causal_conv1d_fn() got an unexpected keyword argument 'seq_idx'", {}),
    (
        "SLOW_PATH",
        "The fast path is not available because one of `(selective_state_update)` is None. Falling back to the naive implementation.",
        {},
    ),
    ("SWALLOWED_IMPORT_ERROR", "TypeError: 'NoneType' object is not callable", {}),
    ("SWALLOWED_IMPORT_ERROR", "NameError: name 'selective_scan_cuda' is not defined", {}),
    ("SHAPE_CONSTRAINT", "RuntimeError: causal_conv1d only supports width between 2 and 4", {}),
    ("DTYPE_CONTRACT", "RuntimeError: Input type (c10::Half) and bias type (float) should be the same", {}),
    ("DTYPE_CONTRACT", "RuntimeError: expected scalar type Float but found Half", {}),
    ("GRID_LIMIT", "RuntimeError: CUDA error: invalid configuration argument", {}),
    ("INT32_OVERFLOW", "CUDA error: an illegal memory access was encountered", {}),
    ("KERNEL_BOUNDARY", "gradients are wrong when seqlen is not a multiple of the chunk", {}),
    (
        "KNOWN_BAD_KERNEL",
        'Assertion `!(srcMmaLayout && dstMmaLayout) && "Unexpected mma -> mma layout conversion"\' failed',
        {},
    ),
    ("NUMERIC_RANGE", "step 1200 loss: nan", {}),
    ("PLATFORM_UNSUPPORTED", "", {"platform": "windows 11"}),
    ("NETWORK", "<urlopen error [Errno 110] Connection timed out>", {}),
    ("NETWORK", "ssl.SSLCertVerificationError: [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed", {}),
    ("WOULD_REPLACE_TORCH", "  Attempting uninstall: torch\n    Found existing installation: torch 2.6.0+cu124", {}),
    ("NGC_CONTAINER", "import fails", {"torch": "2.9.0a0+145a3a7bda.nv25.09"}),
    ("TORCH_LOCAL_BUILD", "import fails", {"torch": "2.6.0a0+git1234567"}),
    ("TORCH_PRERELEASE_UNMATCHED", "import fails", {"torch": "2.9.0.dev20250801+cu128"}),
    ("NO_WHEEL_FOR_TORCH", "Precompiled wheel not found. Building from source...", {}),
    (
        "PLATFORM_UNSUPPORTED",
        "NameError: name 'bare_metal_version' is not defined",
        {"platform": "macos 15", "machine": "aarch64"},
    ),
    (
        "NGC_CONTAINER",
        "undefined symbol: _ZN3c104cuda9SetDeviceEi",
        {"torch": "2.2.0a0+81ea7a4", "platform": "linux (NGC 23.12)", "container": "NGC 23.12"},
    ),
    ("NGC_CONTAINER", "undefined symbol: _ZNK3c1010TensorImpl4sizeEv", {"torch": "2.9.0a0+145a3a7bda.nv25.09"}),
    ("TORCH_PRERELEASE_UNMATCHED", "undefined symbol: _ZN3c104cuda9SetDeviceEa", {"torch": "2.9.0.dev20250801+cu128"}),
    (
        "CXX11ABI_MISMATCH",
        "undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationESs",
        {"torch": "2.9.0a0+145a3a7bda.nv25.09", "cxx11abi": True},
    ),
    ("TORCH_MINOR_MISMATCH", "libtorch_cuda_cu.so: cannot open shared object file", {}),
    ("NETWORK", "Connection to github.com timed out. (connect timeout=15)", {"torch": "2.6.0+cpu", "torch_cuda": None}),
    ("NETWORK", "urllib.error.HTTPError: HTTP Error 503: Service Unavailable", {}),
    (
        "WOULD_REPLACE_TORCH",
        "Would install mamba-ssm-2.2.4 nvidia-nccl-cu12-2.21 torch-2.7.0 triton-3.3.0",
        {"torch": "2.9.0a0+1.nv25.09"},
    ),
    ("SWALLOWED_IMPORT_ERROR", "AttributeError: 'NoneType' object has no attribute 'causal_conv1d_fwd'", {}),
    (
        "SWALLOWED_IMPORT_ERROR",
        "AssertionError: causal_conv1d_cuda is not available. Please install causal-conv1d.",
        {},
    ),
    ("KERNEL_API_SKEW", "AttributeError: module 'causal_conv1d_cuda' has no attribute 'causal_conv1d_update'", {}),
    ("KERNEL_BOUNDARY", "the last chunk differs from the reference", {}),
    ("KNOWN_BAD_KERNEL", "outputs differ between A100 and H100", {}),
    (
        "DTYPE_CONTRACT",
        "Expected weight_type == at::ScalarType::Float || weight_type == at::ScalarType::ComplexFloat to be true",
        {},
    ),
    ("DYNAMO_BREAK", "Dynamo does not know how to trace the builtin `causal_conv1d_cuda.causal_conv1d_fwd`", {}),
    ("BUILD_OOM", "ninja: build stopped; the process was killed after 40 minutes", {}),
    ("STALE_BUILD_DIR", "shutil.Error: Destination path 'dist/x.whl' already exists", {}),
    ("CUDA_HEADERS_MISSING", "fatal error: cuda/std/type_traits: No such file or directory", {}),
    (
        "HOST_COMPILER_UNSUPPORTED",
        "RuntimeError: The current installed version of x86_64-linux-gnu-g++ (13.2.0) is greater than the maximum required version by CUDA 12.1.",
        {},
    ),
    ("HOST_COMPILER_UNSUPPORTED", 'amxtileintrin.h(42): error: identifier "__builtin_ia32_ldtilecfg" is undefined', {}),
    (
        "ISOLATED_BUILD_TORCH_DIFFERS",
        'File "/tmp/pip-build-env-x1/overlay/lib/python3.10/site-packages/torch/utils/cpp_extension.py", line 1',
        {},
    ),
    (
        "TORCH_NO_CUDA",
        "NameError: name 'bare_metal_version' is not defined",
        {"torch": "2.9.1+cpu", "torch_cuda": None},
    ),
    (
        "SDIST_INCOMPLETE",
        (
            "UserWarning: The detected CUDA version (12.6) has a minor version mismatch with the version that was used to compile PyTorch (12.4).\n"
            "ninja: error: '/tmp/csrc/x.cpp', needed by 'x.o', missing and no known rule to make it"
        ),
        {},
    ),
    ("FRONTEND_BUG", "ModuleNotFoundError: No module named 'packaging'", {}),
    ("FRONTEND_BUG", "AttributeError: install_layout. Did you mean: 'install_platlib'?", {}),
    (
        "TORCH_PRERELEASE_UNMATCHED",
        "Building from source... error: command '/usr/local/cuda/bin/nvcc' failed",
        {"torch": "2.7.0.dev20250310+cu128"},
    ),
    ("WOULD_REPLACE_TORCH", "the install downloads torch 2.7.0 and removes 2.5.1", {}),
    ("BUILD_OOM", "Command '['ninja', '-v']' died with <Signals.SIGKILL: 9>", {}),
    (
        "STALE_BUILD_LOCK",
        "hangs at 'Using /home/me/.cache/torch_extensions/py310_cu118 as PyTorch extensions root...'",
        {},
    ),
    ("DYNAMO_BREAK", "Attempted to call function marked as skipped: causal_conv1d_cuda.causal_conv1d_fwd", {}),
    ("SHAPE_CONSTRAINT", "RuntimeError: Expected B.stride(-1) == 1 to be true", {}),
    ("CUDA_HEADERS_MISSING", "fatal error: nv/target: No such file or directory", {}),
    ("DRIVER_PROBE", "Error 804: forward compatibility was attempted on non supported HW", {}),
    ("DRIVER_PROBE", "torch.cuda.is_available() is False inside the container", {}),
    ("TORCH_NO_CUDA", "torch.cuda.is_available() is False", {"torch": "2.6.0+cpu", "torch_cuda": None}),
    ("KNOWN_BAD_KERNEL", "IndexError: map::at", {}),
    ("SHAPE_CONSTRAINT", "OutOfResources: out of resource: shared memory, Required: 294912, Hardware limit: 49152", {}),
    ("SLOW_PATH", "training is very slow compared to the paper", {}),
    (
        "MSVC_UNSUPPORTED",
        "error: command 'C:\\\\VC\\\\bin\\\\cl.exe' failed with exit code 2",
        {"platform": "windows 10"},
    ),
]


@pytest.mark.parametrize(("code", "text", "changes"), SPELLINGS)
def test_one_code_for_a_fault_in_any_spelling(code: str, text: str, changes: Dict[str, Any]) -> None:
    environment = replace(HERE, **changes)
    for language in catalogue.LANGUAGES:
        conclusion = conclude(environment, text, language=language)
        assert (conclusion.code, conclusion.also[:0]) == (code, ())
        assert "{" not in conclusion.cause + conclusion.remedy
        assert conclusion.remedy
        lines = conclusion_lines(conclusion, language)
        assert lines[0].endswith(code)
        assert all(command and "\n" not in command for command in conclusion.commands)


def test_every_row_is_met_by_a_spelling_or_by_facts() -> None:
    met = {finding.fault.code for _, text, changes in SPELLINGS for finding in examine(replace(HERE, **changes), text)}
    assert {fault.code for fault in FAULTS} == met


def fields(text: str) -> Set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name}


def test_no_message_is_missing_in_either_language() -> None:
    keys = {catalogue.ALIASES.get(fault.key, fault.key) for fault in FAULTS}
    assert keys == set(catalogue.ENTRIES)
    assert set(catalogue.ALIASES) <= {fault.key for fault in FAULTS}
    for key, entry in catalogue.ENTRIES.items():
        assert all(entry), key
        assert all(re.search(r"[\u4e00-\u9fff]", text) for text in (entry.cause_zh, entry.remedy_zh)), key
        assert not re.search(r"[\u4e00-\u9fff]", entry.cause + entry.remedy), key
        assert fields(entry.cause_zh) <= fields(entry.cause), key
        assert fields(entry.cause + entry.remedy) == fields(entry.cause_zh + entry.remedy_zh), key
    for key, (english, chinese) in catalogue.FRAME.items():
        assert english, key
        assert re.search(r"[\u4e00-\u9fff]", chinese), key


def test_keys_are_unique_and_patterns_compile() -> None:
    assert len({fault.key for fault in FAULTS}) == len(FAULTS)
    for fault in FAULTS:
        re.compile(fault.pattern)


@given(
    text=st.text(max_size=400), torch=st.sampled_from([None, "", "2.6.0", "2.6.0+cpu", "rubbish", "2.8.0a0+x.nv25.05"])
)
def test_any_text_gets_an_answer(text: str, torch: Optional[str]) -> None:
    conclusion = conclude(Environment(torch=torch), text)
    assert conclusion.cause
    assert conclusion.as_dict()["outcome"] in ("diagnosis", "build", "wheel")


def test_a_word_in_braces_in_the_log_is_no_placeholder() -> None:
    text = "undefined symbol: _ZN3c104cuda9SetDeviceEi{0}{python}"
    assert conclude(HERE, text).code == "TORCH_MINOR_MISMATCH"


def test_nothing_known_says_so() -> None:
    conclusion = conclude(HERE, "all is well")
    assert (conclusion.outcome, conclusion.code, conclusion.commands) == ("diagnosis", None, ())
    assert "未" in conclude(HERE, "all is well", language="zh").cause


def test_what_is_not_known_is_a_blank_in_a_command_and_the_same_in_every_language() -> None:
    text = "nvcc fatal : Unsupported gpu architecture 'compute_120'"
    english = conclude(Environment(), text)
    chinese = conclude(Environment(), text, language="zh")
    assert english.commands == chinese.commands
    assert english.commands[0].startswith('TORCH_CUDA_ARCH_LIST="ARCHS" ')
    assert ">= 12.8" in english.cause
    two = replace(Environment(), gpus=(Gpu("H100", "9.0"), Gpu("A10", "8.6")))
    assert 'TORCH_CUDA_ARCH_LIST="8.6;9.0"' in conclude(two, text).commands[0]


def test_a_later_line_may_be_the_one_that_the_facts_agree_with() -> None:
    text = "a.cpython-310-x86_64-linux-gnu.so\nb.cpython-310-aarch64-linux-gnu.so"
    finding = examine(HERE, text)[0]
    assert finding.fault.code == "MACHINE_MISMATCH"
    assert finding.evidence == text.splitlines()[1]


def decide(environment: Environment, *names: str) -> Decision:
    return resolve(environment, [Candidate(WheelName.parse(name), None, "a list") for name in names], Policy())


def test_the_wheel_that_cures_comes_with_the_code() -> None:
    good = "mamba_ssm-2.2.4+cu12torch2.6cxx11abiFALSE-cp310-cp310-linux_x86_64.whl"
    text = "undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx1112basic_string"
    conclusion = conclude(HERE, text, decision=decide(HERE, good))
    assert (conclusion.outcome, conclusion.code) == ("wheel", "CXX11ABI_MISMATCH")
    assert conclusion.wheel is not None
    assert conclusion.as_dict()["wheel"] == good
    assert "releases/download/v2.2.4/mamba_ssm-2.2.4%2Bcu12torch2.6" in conclusion.commands[0]
    # a wheel is no cure for a missing header
    assert conclude(HERE, "fatal error: Python.h: No such file", decision=decide(HERE, good)).outcome == "diagnosis"


def test_a_build_where_the_facts_ask_for_one() -> None:
    name = "mamba_ssm-2.2.4+cu12torch2.5cxx11abiFALSE-cp310-cp310-linux_x86_64.whl"
    for changes, code in (
        ({"torch": "2.9.0a0+145a3a7bda.nv25.09"}, "NGC_CONTAINER"),
        ({"torch": "2.6.0+rocm6.2.4", "torch_cuda": None}, "TORCH_ROCM"),
        ({}, "NO_WHEEL_FOR_TORCH"),
    ):
        environment = replace(HERE, **changes)
        decision = decide(environment, name)
        assert (decision.outcome, decision.code) == ("build", code)
        assert decision.command is not None
        assert "git+https://github.com/state-spaces/mamba@v2.2.4" in decision.command
        assert conclude(environment, "Precompiled wheel not found.", decision=decision).outcome == "build"
    assert decide(replace(HERE, torch="2.14.0+cu130", torch_cuda="13.0"), name).outcome == "diagnosis"


def test_a_guess_that_was_not_found_says_what_that_version_lacks() -> None:
    good = "mamba_ssm-2.2.4+cu12torch2.6cxx11abiFALSE-cp310-cp310-linux_x86_64.whl"
    guess = "Guessing wheel URL: https://x/mamba_ssm-2.2.2+cu122torch2.6cxx11abiFALSE-cp310-cp310-linux_x86_64.whl\nPrecompiled wheel not found."
    for other, code in (
        ("mamba_ssm-2.2.2+cu122torch2.4cxx11abiFALSE-cp310-cp310-linux_x86_64.whl", "NO_WHEEL_FOR_TORCH"),
        ("mamba_ssm-2.2.2+cu122torch2.6cxx11abiFALSE-cp39-cp39-linux_x86_64.whl", "NO_WHEEL_FOR_PYTHON"),
    ):
        conclusion = conclude(HERE, guess, decision=decide(HERE, good, other))
        assert (conclusion.outcome, conclusion.code) == ("wheel", code)


@pytest.mark.parametrize(
    ("symbol", "name", "built", "abi"),
    [
        ("_ZN3c104cuda9SetDeviceEab", "c10::cuda::SetDevice", "torch >= 2.8", None),
        ("_ZN3c104cuda9SetDeviceEa", "c10::cuda::SetDevice", "torch 2.3 to 2.7", None),
        ("_ZN3c104cuda9SetDeviceEi", "c10::cuda::SetDevice", "torch 2.1 or 2.2", None),
        ("_ZN3c105ErrorC2ENS_14SourceLocationESs", "c10::Error::Error", None, False),
        ("_ZN5torch3jit11parseSchemaERKSsb", "torch::jit::parseSchema", None, False),
        ("_ZN3c105ErrorC1ENS_14SourceLocationENSt7__cxx1112basic_stringIcE", "c10::Error::Error", None, True),
        (
            "_ZN2at4_ops5zeros4callEN3c108ArrayRefINS2_6SymIntEEENS2_8optionalI",
            "at::_ops::zeros::call",
            "torch <= 2.1",
            None,
        ),
        (
            "_ZN3c104impl3cow23materialize_cow_storageERNS_11StorageImplE",
            "c10::impl::cow::materialize_cow_storage",
            "torch <= 2.12",
            None,
        ),
        ("puts", "puts", None, None),
        ("_ZN99x", "_ZN99x", None, None),
    ],
)
def test_what_a_symbol_says(symbol: str, name: str, built: Optional[str], abi: Optional[bool]) -> None:
    hint = symbols.torch_hint(symbol)
    assert symbols.readable(symbol) == name
    assert (hint.built_with if hint else None) == built
    assert symbols.needed_abi(symbol) is abi


def test_a_long_log_is_shortened_before_it_is_read() -> None:
    line = "a word " * 2000 + "end of the line"
    text = clean(f"\x1b[31m{line}\x1b[0m\r\n" * 1000)
    assert len(text) < 1000
    assert text.endswith("end of the line")
    chatter = "[1/9] /usr/local/cuda/bin/nvcc -c a.cu -o a.o\ncopying a -> b\n"
    assert clean(chatter) == ""
    assert clean(chatter + "nvcc fatal   : x") == "nvcc fatal   : x"
    assert "died" in clean("[2/9] nvcc -c a.cu: 'cicc' died due to signal 9")
