"""Faults of choosing and installing: a file for another torch, CUDA, ABI, Python, machine or system, and what the facts alone prove."""

from __future__ import annotations

from typing import Tuple

from mamba_install import fault_tests as facts
from mamba_install.fault import CUDA_TORCH, FRESH, NO_ISOLATION, PICK, TOOLKIT, Fault

_SOFILE = r"(?:\.so|\.dll|\.dylib|\.pyd)"

# what an error's own words prove
NAMED: Tuple[Fault, ...] = (
    Fault("musl", "LIBC_MUSL", r"\bmusl(?:linux|libc)?\b|ld-musl|Error relocating \S+: .*symbol not found"),
    Fault(
        "glibc",
        "GLIBC_TOO_OLD",
        r"version [`'\"‘]?GLIBC_(?P<needed>[\d.]+)['\"’]? not found",
        ("ldd --version", NO_ISOLATION),
        by_wheel=True,
    ),
    Fault(
        "libstdcxx",
        "LIBSTDCXX_TOO_OLD",
        r"version [`'\"‘]?(?P<needed>(?:GLIBCXX|CXXABI)_[\w.]+?)['\"’]? not found",
        (
            "conda install -c conda-forge 'libstdcxx-ng>=13'",
            'export LD_LIBRARY_PATH="$CONDA_PREFIX/lib:$LD_LIBRARY_PATH"',
        ),
    ),
    Fault(
        "false-label",
        "FARM_WRONG_ABI_LABEL",
        r"undefined symbol:?\s*(?P<symbol>[^\n]+)",
        (PICK,),
        facts.label_lies,
        True,
    ),
    Fault(
        "torch-symbol",
        "TORCH_MINOR_MISMATCH",
        r"undefined symbol:?\s*(?P<symbol>[^\n]+)",
        (PICK,),
        facts.torch_changed_symbol,
        True,
    ),
    Fault(
        "abi",
        "CXX11ABI_MISMATCH",
        r"undefined symbol:?\s*(?P<symbol>[^\n]+)",
        (PICK,),
        facts.symbol_of_other_abi,
        True,
    ),
    Fault(
        "python-symbol",
        "NO_WHEEL_FOR_PYTHON",
        r"undefined symbol:?\s*(?P<symbol>_?Py[A-Z_]\w+)",
        (PICK,),
        by_wheel=True,
    ),
    Fault(
        "second-cuda",
        "TOOLKIT_MISMATCH",
        r"undefined symbol:?\s*(?P<symbol>(?:__nvJitLink|cu|nv)\w+)|(?P<library>lib(?:cu|nv)\w+\.so\.\d+): (?:version|symbol) \S+ ",
        ("unset LD_LIBRARY_PATH", "conda list cuda"),
    ),
    Fault(
        "minor",
        "TORCH_MINOR_MISMATCH",
        r"undefined symbol:?\s*(?P<symbol>\S*(?:c10|2at|5torch|at::|torch::|aoti_torch)[^\n]*)",
        (PICK,),
        facts.symbol_of_torch,
        True,
    ),
    Fault(
        "minor-abort",
        "TORCH_MINOR_MISMATCH",
        r"what\(\):\s+vector::reserve|compiled (?:with|against|for) (?:a different|another) (?:version of )?(?:py)?torch",
        (PICK,),
        by_wheel=True,
    ),
    Fault(
        "minor-library",
        "TORCH_MINOR_MISMATCH",
        r"libtorch_cuda_(?:cu|cpp)\.so[^\n]*cannot open",  # torch 1.13 was the last with them
        (PICK,),
        by_wheel=True,
    ),
    Fault(
        "no-cuda-library",
        "TORCH_NO_CUDA",
        r"lib(?:c10|torch)_cuda" + _SOFILE + r"[^\n]*(?:cannot open|not found|No such)",
        (CUDA_TORCH,),
    ),
    Fault(
        "rocm-library",
        "TORCH_ROCM",
        r"lib(?:amdhip64|hip\w+|torch_hip|c10_hip|rocblas|roc\w+)\.so[^\n]*cannot open",
        ("rocminfo",),
    ),
    Fault("cuda-library", "CUDA_MAJOR_MISMATCH", facts.CUDA_LIBRARY, (PICK,), facts.library_of_other_cuda, True),
    Fault(
        "pip-cache-library",
        "STALE_PIP_CACHE",
        facts.CUDA_LIBRARY,
        ("{python} -m pip cache remove '{glob}*'", "{python} -m pip uninstall -y {package}", FRESH),
        facts.cuda_not_told,
    ),
    Fault(
        "cuda-library-hidden",
        "TOOLKIT_MISMATCH",
        facts.CUDA_LIBRARY,
        ("unset LD_LIBRARY_PATH", FRESH),
        facts.library_of_this_cuda,
    ),
    Fault("machine-name", "MACHINE_MISMATCH", facts.MACHINE_IN_NAME, (PICK,), facts.named_machine_differs, True),
    Fault(
        "machine",
        "MACHINE_MISMATCH",
        r"wrong ELF class|invalid ELF header|Exec format error|incompatible architecture|mach-o(?: file)?, but",
        (PICK,),
        by_wheel=True,
    ),
    Fault(
        "wheel-tag",
        "NO_WHEEL_FOR_PYTHON",
        r"(?P<wheel>\S+\.whl) is not a supported wheel on this platform",
        (PICK,),
        facts.tag_of_other_python,
        True,
    ),
    Fault(
        "requires-python",
        "NO_WHEEL_FOR_PYTHON",
        r"requires a different Python|Requires-Python|requires Python [<>=!~]|Python (?:version )?3\.\d+ is not supported",
        ("python -m mamba_install list",),
    ),
    Fault(
        "isolated-torch",
        "ISOLATED_BUILD_TORCH_DIFFERS",
        facts.TORCH_SAID,
        (NO_ISOLATION, "UV_NO_BUILD_ISOLATION=1 uv pip install {package}"),
        facts.said_torch_differs,
        True,
    ),
    Fault(
        "isolated-torch-guess",
        "ISOLATED_BUILD_TORCH_DIFFERS",
        facts.WHEEL_GUESSED,
        (NO_ISOLATION,),
        facts.guessed_torch_differs,
        True,
    ),
    Fault(
        "isolated-toolkit",
        "ISOLATED_BUILD_TORCH_DIFFERS",
        facts.BUILD_TORCH_CUDA,
        (NO_ISOLATION,),
        facts.build_cuda_differs,
        True,
    ),
    Fault(
        "rocm-isolated",
        "TORCH_ROCM",
        r"no ROCm runtime (?:is )?found|torch\.version\.hip\s*(?:=|==|is|:)\s*None",
        (NO_ISOLATION,),
        facts.torch_is_rocm,
    ),
    Fault(
        "rocm-patch",
        "TORCH_ROCM",
        r"amd_hip_bf16\.h|hip/\S*\.h[^\n]*error|rocm_patch|hip_bf(?:loat)?16[^\n]*(?:error|redefin|ambiguous)",
        ("hipconfig --version", NO_ISOLATION),
    ),
    Fault(
        "no-torch",
        "NO_TORCH_IN_BUILD_ENV",
        r"No module named ['\"‘]?torch['\"’]?\s*$|No module named ['\"]torch['\"]|torch (?:is )?(?:required|not (?:installed|found)) (?:to build|for building|in the build)",
        (NO_ISOLATION, "uv pip install --no-build-isolation {package}"),
    ),
)

# weaker words, and what the facts alone prove; these come after everything above
GENERAL: Tuple[Fault, ...] = (
    Fault(
        "network",
        "NETWORK",
        r"urlopen error|\btimed out\b|CERTIFICATE_VERIFY_FAILED|(?:connection|read|operation|connect) ?timed? ?out|Errno 1(?:10|11|01|04)\b|name resolution|Name or service not known|getaddrinfo failed|Connection (?:reset|refused|aborted|broken)|Network is unreachable|Max retries exceeded|ProxyError|ReadTimeout\w*|ConnectTimeout\w*|SSLError|IncompleteRead|ContentTooShort|retrieval incomplete|Remote end closed|HTTP (?:Error|status)?:? ?(?:403|407|429|5\d\d)|File is not a zip file|BadZipFile|Could not fetch URL|rate limit",
        ("curl -I https://github.com", "python -m mamba_install --index FOLDER_OR_MIRROR"),
    ),
    Fault(
        "replaces-torch",
        "WOULD_REPLACE_TORCH",
        r"(?:Attempting uninstall|Uninstalling|Found existing installation)[: ]+torch\b|(?:Would install|Installing collected packages|Successfully installed)[^\n]*\btorch(?:-\d|,|\s)|- torch==[^\n]*\n[^\n]*\+ torch==|(?:up|down)graded? torch|replace[sd]? (?:the |my )?(?:installed )?torch|torch (?:was|is|got) (?:replaced|upgraded|downgraded|reinstalled|uninstalled)|(?:remov|uninstall|replac|downgrad|upgrad|overwr)\w*[^\n]{0,60}\btorch\b|\btorch\b[^\n]{0,60}\b(?:remov|uninstall|replac|downgrad|overwr)\w*|Collecting torch(?:[=<>~!]|\s|$)",
        ("{python} -m pip install --no-deps {package}", PICK),
    ),
    Fault(
        "fact-source",
        "WRONG_FACT_SOURCE",
        r"(?:cuda|version)[^\n]{0,40}\b(?:from|of|by|via|parsed?|reads?|grep\w*|uses?|using)\b[^\n]{0,20}(?<![/\w])(?:nvidia-smi|nvcc)\b|nvidia-smi[^\n]*(?:cuda|version)[^\n]*(?:wheel|tag|select|pick|choose|url|cu1)|(?:cxx11)?abi(?:TRUE|FALSE)?[^\n]{0,20}(?:fixed|hard-?coded|always)|(?:always|hard-?coded|fixed)[^\n]{0,20}abi\s?(?:TRUE|FALSE)",
        (
            '{python} -c "import torch; print(torch.__version__, torch.version.cuda, torch._C._GLIBCXX_USE_CXX11_ABI)"',
            PICK,
        ),
    ),
    Fault("no-cuda", "TORCH_NO_CUDA", r"", (CUDA_TORCH,), facts.torch_without_cuda),
    Fault(
        "no-cuda-said",
        "TORCH_NO_CUDA",
        r"Torch not compiled with CUDA|torch\.version\.cuda[^\n]*None|expected string or bytes-like object, got ['\"]NoneType|CUDA is not available|\+cpu\b",
        (CUDA_TORCH,),
        facts.torch_not_told,
    ),
    Fault("musl-system", "LIBC_MUSL", r"", ("docker run --rm -it python:3.12-slim bash",), facts.system_is_musl),
    Fault("rocm", "TORCH_ROCM", r"", (NO_ISOLATION,), facts.torch_is_rocm),
    Fault("platform", "PLATFORM_UNSUPPORTED", r"", ("wsl --install -d Ubuntu",), facts.system_is_foreign),
    Fault(
        "platform-tag",
        "PLATFORM_UNSUPPORTED",
        r"\bwin_(?:amd64|arm64)\.whl|macosx_\w+\.whl|WinError",
        ("wsl --install -d Ubuntu",),
    ),
    Fault("vendor", "NGC_CONTAINER", r"", (PICK,), facts.torch_is_vendors, True),
    Fault("local", "TORCH_LOCAL_BUILD", r"", (NO_ISOLATION,), facts.torch_is_local),
    Fault("prerelease", "TORCH_PRERELEASE_UNMATCHED", r"", (NO_ISOLATION,), facts.torch_is_prerelease),
    Fault("named-wheel", "TORCH_MINOR_MISMATCH", facts.WHEEL_NAMED, (PICK,), facts.named_torch_differs, True),
    Fault(
        "toolkit-minor",
        "TOOLKIT_MISMATCH",
        r"minor version mismatch|version that was used to compile PyTorch|CUDA version[^\n]*mismatch",
        ("nvcc --version", "export CUDA_HOME=/usr/local/cuda-{cuda}", TOOLKIT),
    ),
    Fault(
        "slow",
        "SLOW_PATH",
        r"\bslow(?:er|ly|ness)?\b",
        ("python -m mamba_install verify --package {package}",),
    ),
    Fault(
        "no-wheel",
        "NO_WHEEL_FOR_TORCH",
        r"Precompiled wheel not found|HTTP Error 404|No matching distribution|Could not find a version|Building from source|no (?:matching |prebuilt |pre-built )?wheels?\b",
        (PICK, NO_ISOLATION),
        by_wheel=True,
    ),
    Fault("bad-cubin-facts", "KNOWN_BAD_CUBIN", r"", (PICK,), facts.sm_103_by_cuda_13),
)
