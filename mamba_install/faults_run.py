"""Faults when the kernels are imported or run, by the words of CUDA, torch, Triton and the packages."""

from __future__ import annotations

from typing import Tuple

from mamba_install import fault_tests as facts
from mamba_install.fault import NO_ISOLATION, PICK, Fault

# what happened when the kernels ran or were imported
RUN: Tuple[Fault, ...] = (
    Fault(
        "bad-cubin",
        "KNOWN_BAD_CUBIN",
        facts.WRONG_NUMBERS,
        (PICK, "python -m mamba_install verify --package {package}"),
        facts.sm_103_by_cuda_13,
    ),
    Fault(
        "arch-rocm",
        "ARCH_NOT_IN_FATBIN",
        r"hipErrorNoBinaryForGpu|Unable to find code object for all current devices|hipErrorInvalidDeviceFunction",
        ("rocminfo | grep gfx", "HIP_ARCHITECTURES={gfx} " + NO_ISOLATION),
    ),
    Fault(
        "arch",
        "ARCH_NOT_IN_FATBIN",
        r"no kernel image (?:is )?available|cudaErrorNoKernelImageForDevice|CUDA_ERROR_NO_BINARY_FOR_GPU|device kernel image is invalid|cudaErrorInvalidDeviceFunction|invalid device function|CUDA capability sm_\d+ is not compatible|(?:lack|miss|without|no)\w* (?:sm_?\d+|kernels? for (?:sm|compute|this GPU))",
        ("cuobjdump --list-elf FILE.so", 'TORCH_CUDA_ARCH_LIST="{archs}" ' + NO_ISOLATION),
        facts.arch_words,
        True,
    ),
    Fault(
        "driver-ptx",
        "DRIVER_TOO_OLD",
        r"PTX was compiled with an unsupported toolchain|cudaErrorUnsupportedPtxVersion|driver version is insufficient|cudaErrorInsufficientDriver|driver on your system is too old",
        ("nvidia-smi",),
    ),
    Fault(
        "driver-probe",
        "DRIVER_PROBE",
        r"(?P<driver>\b\d{3}\.\d{2,3}(?:\.\d{2})?)\S*[^\n]*not part of a valid version|Found no NVIDIA driver|NVIDIA-SMI has failed|(?:Failed to|couldn't|could not) (?:initialize NVML|communicate with the NVIDIA driver)|Driver/library version mismatch|nvidia-smi: (?:command )?not found|(?:parse|read|detect|query)\w*[^\n]*(?:driver version|nvidia-smi)|could not select device driver|unknown or invalid runtime name: nvidia|libcuda\.so(?:\.1)?: cannot open|No CUDA GPUs are available|CUDA driver initialization failed|cudaErrorNoDevice|forward compatibility was attempted|cuda\.is_available\(\)[^\n]{0,20}False",
        (
            "nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -n 1",
            "docker run --rm --gpus all IMAGE nvidia-smi",
        ),
        facts.torch_may_have_cuda,
    ),
    Fault(
        "cpu-tensor",
        "CPU_TENSOR",
        r"\.?is_cuda\(?\)?[^\n]{0,30}(?:to be true|but got false|failed|Check failed)|must be (?:a |on )?(?:CUDA|the GPU)[^\n]*(?:tensor)?|cannot be accessed from Triton|at least two devices|backend 'CPU'|arguments from the 'CPU' backend|(?:tensor|input)s? (?:is|are) (?:on )?(?:the )?cpu\b|only (?:supports?|implemented (?:for|on)) (?:CUDA|GPU)",
        ("model.to('cuda'); x = x.to('cuda')",),
    ),
    Fault(
        "compile",
        "DYNAMO_BREAK",
        r"\bdynamo\b|torch\._?dynamo|torchdynamo|graph break|marked as skipped|BackendCompilerFailed|FakeTensor|Unsupported: (?:call|Attempted|Graph)|fullgraph=True|(?:no|missing|without)[^\n]*(?:meta|fake|abstract) (?:kernel|impl\w*)|torch\.compile[^\n]*(?:fail|error|break|cannot|unsupported|crash|raise)",
        ("torch.compiler.disable(FUNCTION)",),
    ),
    Fault(
        "fast-path",
        "SLOW_PATH",
        r"fast path is not available|(?:fall\w*|fell) back to[^\n]*(?:naive|slow|reference|eager|sequential|torch|python|pure)|(?:naive|slow|reference|sequential|pure[- ]?(?:py)?torch) (?:path|implementation|scan|fallback|version)[^\n]*(?:used|taken|instead|silently|slow)?|(?:times|x) slower|very slow|extremely slow",
        (
            "{python} -c 'import selective_scan_cuda, causal_conv1d_cuda'",
            "python -m mamba_install verify --package mamba_ssm",
        ),
    ),
    Fault(
        "hidden-import",
        "SWALLOWED_IMPORT_ERROR",
        r"'NoneType' object (?:is not callable|has no attribute)|name ['\"](?:selective_scan|causal_conv1d|mamba)\w* is not defined|name ['\"]\w*(?:selective_scan|causal_conv1d|mamba|rms_?norm)\w*['\"] is not defined|causal_conv1d_cuda is not available|is not available[^\n]*please install|(?:selective_scan|causal_conv1d|mamba)\w* is None|except ImportError|(?:swallow|hid|suppress)\w*[^\n]*import ?error|No module named ['\"](?:selective_scan|causal_conv1d)\w*['\"]|DLL load failed",
        ("{python} -c 'import selective_scan_cuda'", "{python} -c 'import causal_conv1d_cuda'"),
    ),
    Fault(
        "api-skew",
        "KERNEL_API_SKEW",
        r"(?P<function>\w*(?:causal_conv1d|selective_scan|ssm|_fwd|_bwd|_update)\w*)\(\)[^\n]*(?:incompatible function arguments|unexpected keyword|positional arguments?|missing \d+ required)|incompatible function arguments|following argument types are supported|has no attribute ['\"](?:causal_conv1d|selective_scan)\w*|cannot import name ['\"](?:causal_conv1d|selective_\w+|mamba_\w+)\w*|(?:expected|takes) (?:at most )?\d+ arguments?[^\n]*(?:but|got)",
        (
            "{python} -m pip show mamba_ssm causal_conv1d",
            '{python} -m pip install --no-deps --no-build-isolation "causal_conv1d{partner}"',
        ),
        facts.api_words,
    ),
    Fault(
        "shape",
        "SHAPE_CONSTRAINT",
        r"multiples? of \d+|divisible by \d+|must be divisible|channel[- _]?last|only supports? (?:width|dim|dstate|state|d_?conv|headdim)|(?:width|dstate|state dimension|headdim|d_conv|nheads)[^\n]*(?:between|only|at most|not supported|<=|must)|stride\(?[^\n]*(?:==|expected|must|requires?)|size mismatch|Expected \w+\.(?:size|stride|dim|shape|is_contiguous)\b|out of resource: shared memory|shape[^\n]*(?:must|mismatch|expected|invalid)",
        ("pad the dimension to a multiple of 8",),
    ),
    Fault(
        "dtype",
        "DTYPE_CONTRACT",
        r"Input type \([^)]*\) and (?:bias|weight) type|expected scalar type|must have the same (?:d?type|scalar)|(?:same|different|mismatch\w*|unsupported|incompatible)[^\n]{0,20}d-?type|d-?type[^\n]{0,30}(?:mismatch|must|expected|unsupported|differ)|scalar_type\(\) ==|ScalarType::|must (?:be|have)[^\n]{0,20}(?:d-?type|b?float16|float32|half|[bf]p?f?(?:16|32))\b|not implemented for ['\"](?:Half|BFloat16|ComplexFloat|Float)",
        ("with torch.autocast('cuda', dtype=torch.bfloat16): ...",),
    ),
    Fault(
        "grid",
        "GRID_LIMIT",
        r"invalid configuration argument|cudaErrorInvalidConfiguration|Triton Error \[CUDA\]: invalid argument|grid[^\n]*(?:65,?535|limit|too large|exceed)|65,?535",
        ("split the input along dim (or the batch) and join the results",),
    ),
    Fault(
        "int32",
        "INT32_OVERFLOW",
        r"illegal memory access|cudaErrorIllegalAddress|CUDA_ERROR_ILLEGAL_ADDRESS|(?:int(?:eger)?[ -]?32|32[- ]bit|index)[^\n]*overflow|overflow[^\n]*(?:int32|32[- ]bit|index)|canUse32BitIndexMath|2\^31|2\*\*31|2147483647|2147483648|misaligned address",
        (
            "CUDA_LAUNCH_BLOCKING=1 python YOUR_SCRIPT.py",
            "split the batch so that every tensor stays below 2**31 elements",
        ),
    ),
    Fault(
        "bad-kernel",
        "KNOWN_BAD_KERNEL",
        r"IndexError: map::at|mma[^\n]*layout conversion|mma16816|Unexpected mma|LLVM ERROR: [^\n]*(?:mma|not supported)|(?:wrong|incorrect|garbage|differ\w*|zeros|mismatch\w*|nan[^\n]{0,30}only)[^\n]{0,80}\b(?:on|with|between)\b[^\n]{0,30}\b(?:this GPU|sm_?\d+|[ABHLTV]\d{1,3}S?|GB\d{2,3}|RTX|Volta|Turing|Ampere|Ada|Hopper|Blackwell)\b",
        ("python -m mamba_install verify --package {package}",),
    ),
    Fault(
        "boundary",
        "KERNEL_BOUNDARY",
        r"padd(?:ed|ing)[^\n]{0,20}(?:lane|element|token|position|tail|step)|(?:ragged|odd|boundary|chunk|tail|(?:seq\w*|sequence)[ _-]?len\w*|seqlen|last (?:token|block|chunk))[^\n]*(?:wrong|differ|mismatch|incorrect|zero|garbage|nan|not (?:a multiple|divisible))|(?:wrong|differ|mismatch|incorrect)[^\n]*(?:ragged|odd|boundary|chunk|tail|seq\w*[ _-]?len|seqlen|last (?:token|block|chunk))",
        ("pad the sequence to a multiple of the chunk, and mask the rest",),
    ),
    Fault(
        "bad-numbers",
        "KNOWN_BAD_KERNEL",
        facts.WRONG_NUMBERS,
        ("python -m mamba_install verify --package {package}",),
        facts.gpu_is_known,
    ),
    Fault(
        "range",
        "NUMERIC_RANGE",
        r"\bloss\b[^\n]{0,20}\bnan\b|\bnan\b[^\n]{0,30}(?:loss|grad|value|output|after|in)|returned nan|(?:fp16|half|float16)[^\n]*(?:overflow|inf|nan)|\binf(?:inity)?\b[^\n]*(?:loss|grad|output)|overflow[^\n]*(?:fp16|half|float16)",
        ("torch.autocast('cuda', dtype=torch.bfloat16)",),
    ),
)
