"""Faults of a build from source, by the words of compilers, build tools and front ends."""

from __future__ import annotations

from typing import Tuple

from mamba_install import fault_tests as facts
from mamba_install.fault import FRESH, NO_ISOLATION, PICK, TOOLKIT, Fault

# a build that failed, by the compiler's and the build tools' words
BUILD: Tuple[Fault, ...] = (
    # no CUDA toolkit and no driver exist there: every other word of such a log is a consequence
    Fault("platform-macos", "PLATFORM_UNSUPPORTED", r"", ("ssh LINUX_MACHINE",), facts.system_is_macos),
    Fault(
        "static-metadata",
        "FRONTEND_BUG",
        r"match-runtime[^\n]*static metadata|does not declare static metadata",
        ("uv self update", "{python} -m pip install --upgrade uv"),
    ),
    Fault(
        "frontend",
        "FRONTEND_BUG",
        r"No module named ['\"](?:pkg_resources|distutils|imp|packaging|wheel|setuptools)['\"]|has no attribute ['\"](?:ImpImporter|canonicalize_version)|\binstall_layout\b|canonicalize_version\(\) got an unexpected|invalid command ['\"]bdist_wheel|Multiple \.egg-info directories|error: invalid-pyproject|AssertionError: Egg-link",
        ("{python} -m pip install --upgrade pip setuptools wheel packaging",),
    ),
    Fault(
        "metadata-version",
        "FARM_METADATA_VERSION",
        r"has inconsistent (?:version|name): expected",
        ("{python} -m pip install --no-deps URL_OF_THE_FILE",),
    ),
    Fault(
        "msvc",
        "MSVC_UNSUPPORTED",
        r"unsupported Microsoft Visual Studio|Microsoft Visual C\+\+ [\d.]+ or greater is required|\bcl\.exe\b|\berror C\d{4}:|vcvars\w*\.bat|identifier ['\"]M_[A-Z0-9_]+['\"] is undefined|Error checking compiler version for cl|\bLNK\d{4}\b",
        ("wsl --install -d Ubuntu",),
    ),
    Fault(
        "oom",
        "BUILD_OOM",
        r"Killed signal terminated program|(?:cc1plus|cicc|ptxas|cudafe\+\+|nvcc|c\+\+|g\+\+|clang)\b[^\n]*(?:\bKilled\b|signal 9|status (?:137|9)\b)|^\s*Killed\s*$|Killed\s+\S*(?:nvcc|cicc|ptxas|cc1plus)|virtual memory exhausted|(?:^|\s)out of memory allocating \d+|LLVM ERROR: out of memory|(?:Cannot|can't) allocate memory|exit(?:ed with)?\s*(?:code|status):?\s*-?(?:137|9)\b|\bOOM(?:[- ]?kill\w*| error while compil\w*)|oom-kill|\b(?:build|compil\w+|process|job)s?\b[^\n]{0,40}\bkilled\b|SIGKILL|r[ua]n\w* out of (?:host )?(?:memory|RAM)|(?:memory|RAM)[^\n]{0,20}\b(?:full|exhausted)\b",
        ("MAX_JOBS=1 NVCC_THREADS=1 " + NO_ISOLATION,),
    ),
    Fault(
        "cxx-standard",
        "CXX_STANDARD_TOO_OLD",
        r"C\+\+\s?(?P<standard>\d\d)(?: or later| or newer|\+)?[^\n]{0,40}(?:is )?required|requires? (?:at least |a )?C\+\+\s?(?P<needs>\d\d)|need(?:s)? (?:at least )?C\+\+\s?\d\d to (?:use|compile|build)|#error[^\n]*C\+\+\s?\d\d|(?:unrecognized|unknown|invalid)[^\n]*-std=|['\"‘]?concept['\"’]? does not name a type|requires clause|is only available (?:from|with) C\+\+\d\d",
        ('CXXFLAGS="-std=c++20" NVCC_APPEND_FLAGS="-std=c++20" ' + NO_ISOLATION,),
    ),
    Fault(
        "python-headers",
        "PYTHON_HEADERS_MISSING",
        r"['\"<]?\bPython\.h['\">]?\s*:? ?(?:No such file|file not found|not found|missing)|(?:fatal error|Cannot open include file)[^\n]*Python\.h",
        ("sudo apt-get install python{minor}-dev", "sudo dnf install python3-devel", "conda install python={minor}"),
    ),
    Fault(
        "cuda-headers",
        "CUDA_HEADERS_MISSING",
        r"(?:fatal error|error|Cannot open (?:include|source) file)[^\n]*?(?P<header>(?:cuda|cu(?:blas|sparse|solver|rand|dnn|fft|pti)|nv|crt/|thrust/|cub/|driver_types|device_launch|vector_types)[\w/]*\.(?:h|hpp|cuh)|(?:cuda/std|nv)/\w+)(?:['\"]? file not found|['\"]?:? ?No such file|['\"]?\s*$)|cannot find -l(?:cudart|cuda|cublas|nvrtc)\w*",
        (TOOLKIT, "conda install -c nvidia cuda-cudart-dev", "sudo apt-get install cuda-toolkit"),
    ),
    Fault(
        "host-compiler",
        "HOST_COMPILER_UNSUPPORTED",
        r"unsupported (?:GNU|clang|gcc|host compiler)[^\n]*version|(?:gcc|clang)[^\n]*versions? (?:later|newer|greater) than (?P<limit>\d+)[^\n]*not supported|installed version[^\n]*is (?:greater|less) than the (?:maximum|minimum)|host_config\.h[^\n]*error|parameter packs not expanded with|(?:/c\+\+/\d+/|/include/(?:c\+\+|bits|x86)|intrin\.h|gcc/)[^\n]*error:? (?:identifier|expected|no suitable|parameter)|__builtin_ia32_\w+[^\n]*undefined|identifier ['\"]_?_?(?:_Float\d+x?|Float\d+x?|bf16)['\"]|GCC \d+ or (?:later|newer)[^\n]*required|too old version of GCC|allow-unsupported-compiler",
        ("sudo apt-get install g++-{host}", "CC=gcc-{host} CXX=g++-{host} CUDAHOSTCXX=g++-{host} " + NO_ISOLATION),
        facts.host_limit,
    ),
    Fault(
        "arch-unknown",
        "ARCH_UNKNOWN_TO_NVCC",
        r"(?:Unsupported|unrecognized|unknown|invalid|not a recognized)[^\n]{0,40}(?:gpu|cuda|target)?[ -]?arch\w*[^\n]{0,30}?['\"(](?:(?:compute|sm)_)?(?P<arch>[\w.+]+)|Value ['\"](?P<value>(?:sm|compute)_\w+)['\"] is not defined for option|SM version specified by \.target is higher|invalid target ID",
        ('TORCH_CUDA_ARCH_LIST="{archs}" ' + NO_ISOLATION, "nvcc --list-gpu-arch"),
        facts.arch_range,
    ),
    Fault(
        "toolkit",
        "TOOLKIT_MISMATCH",
        r"detected CUDA version[^\n]*mismatches|major version mismatch[^\n]*(?:CUDA|torch)|CUDA[^\n]*major version mismatch"
        r"|nvcc[^\n]*(?:does not|doesn't|not) match[^\n]*torch|torch[^\n]*(?:does not|doesn't) match[^\n]*nvcc",
        ("nvcc --version", "export CUDA_HOME=/usr/local/cuda-{cuda}", TOOLKIT),
    ),
    Fault(
        "cuda-home-here",
        "CUDA_HOME_UNSET",
        facts.NO_NVCC,
        (
            'export CUDA_HOME="$(dirname "$(dirname "$(command -v nvcc)")")"',
            "export CUDA_HOME=/usr/local/cuda-{nvcc}",
            'export PATH="$CUDA_HOME/bin:$PATH"',
        ),
        facts.nvcc_is_here,
    ),
    Fault(
        "cuda-home",
        "CUDA_HOME_UNSET",
        r"CUDA_HOME (?:environment variable )?(?:is |was )?(?:not set|unset|None|undefined|empty)|set (?:it|CUDA_HOME) to (?:your|the) CUDA (?:install|toolkit)|Could not find CUDA_HOME|No CUDA_HOME|CUDA_HOME does not exist",
        ("export CUDA_HOME=/usr/local/cuda", TOOLKIT),
        facts.torch_may_have_cuda,
    ),
    Fault("nvcc", "NVCC_MISSING", facts.NO_NVCC, (PICK, TOOLKIT), facts.torch_may_have_cuda),
    Fault(
        "sdist",
        "SDIST_INCOMPLETE",
        r"missing and no known rule to make it|csrc/\S+[^\n]*(?:No such file|does not exist|not found)|[\w/]+\.(?:cpp|cu|cuh|cc)['\"]?:? ?(?:No such file|does not exist)|(?:no|missing) (?:source|input) files?\b",
        ("{python} -m pip install --no-build-isolation --no-deps {git}",),
    ),
    Fault("isolated-path", "ISOLATED_BUILD_TORCH_DIFFERS", facts.BUILD_ENV_PATH, (NO_ISOLATION,)),
    Fault(
        "cross-device",
        "CROSS_DEVICE",
        r"cross-device|Errno 18\b|\bEXDEV\b|different (?:disk|file ?system|device)[^\n]*(?:rename|move)",
        ('mkdir -p "$HOME/tmp" && export TMPDIR="$HOME/tmp"',),
    ),
    Fault(
        "build-lock",
        "STALE_BUILD_LOCK",
        r"torch_extensions\S*/lock\b|FileBaton|(?:stale|left-?over|waiting (?:for|on)|acquir\w+|hang\w*|stuck)[^\n]*\block\b|\block\b[^\n]*(?:stale|left-?over|exists|hang\w*|stuck)|blocked on lock|torch_extensions[^\n]*(?:hang|stuck|forever|waiting)|(?:hang|stuck|forever|waiting)\w*[^\n]*torch_extensions|torchrun[^\n]*compil",
        ('find "${{TORCH_EXTENSIONS_DIR:-$HOME/.cache/torch_extensions}}" -name lock -delete',),
    ),
    Fault(
        "build-dir",
        "STALE_BUILD_DIR",
        r"torch_extensions/\S+\.so|(?:stale|left-?over|old|previous)[^\n]*(?:build|torch_extensions)\b|CMakeCache\.txt[^\n]*different|ninja: (?:error: (?:dependency cycle|build\.ninja|manifest)|warning: premature end)|build/(?:temp|lib|bdist)\S*[^\n]*(?:exists|different|stale|cannot open shared|Permission)|could not (?:delete|remove|create) ['\"]?build|File exists[^\n]*\b(?:build|dist)\b|Destination path[^\n]*already exists|rm -rf build",
        ("rm -rf build *.egg-info", 'rm -rf "${{TORCH_EXTENSIONS_DIR:-$HOME/.cache/torch_extensions}}"'),
    ),
    Fault(
        "pip-cache",
        "STALE_PIP_CACHE",
        r"Using cached (?:mamba|causal|flash)\S*\.whl|(?:pip|uv)[ /\w]*cache\S*[^\n]*\.whl|Using cached built wheel|cached (?:wheel|version)[^\n]*(?:other|another|different|wrong|old)",
        ("{python} -m pip cache remove '{glob}*'", FRESH),
    ),
    Fault(
        "ninja",
        "NINJA_MISSING",
        r"ninja (?:is )?(?:required|not found|is not available)|could not find ninja|No such file[^\n]*['\"]ninja['\"]|ninja: (?:command )?not found|no module named ['\"]?ninja|Ninja is required",
        ("{python} -m pip install ninja",),
        facts.not_windows,
    ),
)
