"""What the doctor says, in English and Chinese, side by side: one cause and one remedy per key of `faults`.

Both languages use the same words in braces; a test holds them together and misses none.
"""

from __future__ import annotations

from typing import Dict, NamedTuple, Tuple

LANGUAGES: Tuple[str, ...] = ("en", "zh")


class Entry(NamedTuple):
    """The cause and the remedy of one kind of fault, in each language."""

    cause: str
    remedy: str
    cause_zh: str
    remedy_zh: str


# lines around the findings
FRAME: Dict[str, Tuple[str, str]] = {
    "code": ("code", "代码"),
    "cause": ("cause", "原因"),
    "evidence": ("evidence", "依据"),
    "remedy": ("what to do", "处理办法"),
    "commands": ("commands", "命令"),
    "also": ("also seen", "另外发现"),
    "wheel": ("wheel that fits", "合适的 wheel"),
    "build": ("a build from source is right here", "此处应当从源码构建"),
    "unknown": ("not known", "未知"),
    "facts": ("facts", "环境信息"),
    "nothing": ("no known fault in this text", "未在文本中发现已知故障"),
    "nothing-hint": (
        "give the whole log with `--log`, from its first error on; open a report with `doctor --json`",
        "请用 `--log` 给出完整日志（从第一个错误开始）；可附上 `doctor --json` 的输出提交报告",
    ),
}

ENTRIES: Dict[str, Entry] = {
    "musl": Entry(
        "this system has musl instead of glibc: neither torch's CUDA wheels nor these exist for it",
        "use an image with glibc (Debian, Ubuntu, RHEL)",
        "本系统使用 musl 而不是 glibc：torch 的 CUDA wheel 和本包都没有 musl 版本",
        "改用带 glibc 的镜像（Debian、Ubuntu、RHEL）",
    ),
    "glibc": Entry(
        "the compiled file needs glibc {needed}, this system has {glibc}; a plain `linux_x86_64` name hides that need",
        "take a wheel with a lower floor (public files up to mamba 2.2.4 and causal_conv1d 1.5.0.post8), or build here",
        "该二进制文件需要 glibc {needed}，本系统为 {glibc}；文件名 `linux_x86_64` 看不出这一要求",
        "选择要求更低的 wheel（公开发布的 mamba 2.2.4 及以前、causal_conv1d 1.5.0.post8 及以前），或在本机构建",
    ),
    "libstdcxx": Entry(
        "the libstdc++ that was loaded first lacks {needed}: it is older than the compiler of the file",
        "let the environment's newer libstdc++ be found first, or take an older wheel; replace no system library",
        "首先加载的 libstdc++ 缺少 {needed}：它比编译该文件的编译器旧",
        "让环境中较新的 libstdc++ 优先加载，或换用较旧的 wheel；不要替换系统库",
    ),
    "false-label": Entry(
        "the file's name says C++11 ABI {label}, but its code asks for `{symbol}` with ABI {theirs}: the label is false",
        "do not use that file; take one whose code has the ABI of this torch",
        "文件名标注的 C++11 ABI 为 {label}，但其代码需要 ABI {theirs} 的 `{symbol}`：标签有误",
        "不要使用该文件；选择 ABI 与当前 torch 一致的文件",
    ),
    "torch-symbol": Entry(
        "the file was compiled for {built}, but it runs with torch {torch}: `{symbol}` is not in {lacking}",
        "install the file for exactly this torch minor, or build it here",
        "该文件是为 {built} 编译的，当前为 torch {torch}：{lacking} 中没有 `{symbol}`",
        "安装与当前 torch 次版本完全一致的文件，或在本机构建",
    ),
    "abi": Entry(
        "the file was compiled with C++11 ABI {theirs}, this torch {torch} has ABI {ours}: `{symbol}` differs between them",
        "take the file whose label has this torch's ABI; read it from torch, never from the version number",
        "该文件以 C++11 ABI {theirs} 编译，而当前 torch {torch} 的 ABI 为 {ours}：两者的 `{symbol}` 不同",
        "选择标签与当前 torch 的 ABI 一致的文件；ABI 要从 torch 读取，不能从版本号推断",
    ),
    "python-symbol": Entry(
        "the file was compiled for another Python: this one ({python_version}) has no `{symbol}`",
        "install the file for this Python",
        "该文件是为其他 Python 版本编译的：当前 Python（{python_version}）没有 `{symbol}`",
        "安装适用于当前 Python 的文件",
    ),
    "second-cuda": Entry(
        "a CUDA library of another release was found before torch's own (conda, LD_LIBRARY_PATH or the system)",
        "take the second CUDA out of the search path; torch brings its own libraries",
        "先于 torch 自带库找到了另一版本的 CUDA 库（conda、LD_LIBRARY_PATH 或系统）",
        "把第二套 CUDA 从搜索路径中移除；torch 自带所需的库",
    ),
    "minor": Entry(
        "the file was compiled for another torch than {torch}: a symbol of torch is missing",
        "install the file for exactly this torch minor, CUDA major and ABI, or build it here",
        "该文件不是为 torch {torch} 编译的：缺少 torch 的某个符号",
        "安装与当前 torch 次版本、CUDA 主版本和 ABI 完全一致的文件，或在本机构建",
    ),
    "no-cuda-library": Entry(
        "torch's CUDA library is missing: the torch {torch} that is installed is a CPU build",
        "replace torch by a build with CUDA first, then install the wheel for it",
        "缺少 torch 的 CUDA 库：已安装的 torch {torch} 是 CPU 版本",
        "先换成带 CUDA 的 torch，再安装与之对应的 wheel",
    ),
    "rocm-library": Entry(
        "the file was compiled for ROCm, whose libraries are not here",
        "take a CUDA file for a CUDA torch, or install ROCm with its own torch",
        "该文件是为 ROCm 编译的，而此处没有 ROCm 的库",
        "CUDA 版 torch 请用 CUDA 文件；否则安装 ROCm 及其对应的 torch",
    ),
    "cuda-library": Entry(
        "the file needs the CUDA {theirs} runtime (lib{library}), this torch is built for CUDA {ours}",
        "take the file for torch's CUDA major; an old name cu122 stands for any 12.x, cu118 for any 11.x",
        "该文件需要 CUDA {theirs} 运行库（lib{library}），而当前 torch 为 CUDA {ours}",
        "选择与 torch 的 CUDA 主版本一致的文件；旧名称 cu122 适用于所有 12.x，cu118 适用于所有 11.x",
    ),
    "pip-cache-library": Entry(
        "the file needs CUDA {theirs} (lib{library}), which no torch here brings: a wheel cached for another environment was reused",
        "remove the cached wheel and install again without the cache, by the file's full name",
        "该文件需要 CUDA {theirs}（lib{library}），而这里的 torch 并不带它：复用了为其他环境缓存的 wheel",
        "删除缓存的 wheel，不使用缓存重新安装，并指定完整文件名",
    ),
    "cuda-library-hidden": Entry(
        "torch is for CUDA {cuda}, yet lib{library} of CUDA {theirs} is not found: its libraries are hidden or were removed",
        "import torch first, and take other CUDA folders out of LD_LIBRARY_PATH; then reinstall torch's nvidia packages",
        "torch 对应 CUDA {cuda}，但找不到 CUDA {theirs} 的 lib{library}：库被遮蔽或已被删除",
        "先 import torch，并从 LD_LIBRARY_PATH 中移除其他 CUDA 目录；必要时重装 torch 的 nvidia 包",
    ),
    "machine-name": Entry(
        "the file is for {theirs}, this machine is {ours}: its name was guessed, and nothing looked inside",
        "take the `{ours}` file; the ELF machine of every library is checked before this installer installs",
        "该文件适用于 {theirs}，本机为 {ours}：文件名是猜测出来的，没有检查内容",
        "选择 `{ours}` 的文件；本安装器会在安装前检查每个库的 ELF 架构",
    ),
    "machine": Entry(
        "the compiled file is for another machine than this one ({machine})",
        "take the file for this machine",
        "该二进制文件不适用于本机架构（{machine}）",
        "选择适用于本机架构的文件",
    ),
    "wheel-tag": Entry(
        "the wheel is for Python {theirs}, this is {python_version}",
        "take the file for this Python, or make an environment with that one",
        "该 wheel 适用于 Python {theirs}，当前为 {python_version}",
        "选择适用于当前 Python 的文件，或用对应版本的 Python 建环境",
    ),
    "requires-python": Entry(
        "this version is not for Python {python_version}",
        "take another version of the package, or an environment with a Python that has wheels",
        "该版本不支持 Python {python_version}",
        "换用其他版本的包，或使用有 wheel 的 Python 建环境",
    ),
    "isolated-torch": Entry(
        "the build looked at torch {said}, which its isolated environment fetched; yours is torch {torch}",
        "decide from your own torch: install a file for it, or build with --no-build-isolation",
        "构建时看到的是隔离环境中下载的 torch {said}；您的环境是 torch {torch}",
        "应以您环境中的 torch 为准：安装与之对应的文件，或使用 --no-build-isolation 构建",
    ),
    "isolated-path": Entry(
        "the build used a torch of its own, fetched into an isolated environment; yours is torch {torch}",
        "build with --no-build-isolation, so that your torch is used",
        "构建使用了隔离环境中另行下载的 torch；您的环境是 torch {torch}",
        "使用 --no-build-isolation 构建，以使用您自己的 torch",
    ),
    "rocm": Entry(
        "this torch is a ROCm build ({torch}): no wheel is published for it",
        "build from source with --no-build-isolation, beside a ROCm toolchain",
        "当前 torch 是 ROCm 版本（{torch}）：没有为其发布的 wheel",
        "在有 ROCm 工具链的环境中使用 --no-build-isolation 从源码构建",
    ),
    "rocm-patch": Entry(
        "the headers of ROCm do not compile as they are; ROCm 6.0 needs its vendor's patch of the bfloat16 header",
        "use ROCm 6.1 or newer, or apply the patch of the package's `rocm_patch` folder, then build without isolation",
        "ROCm 自带的头文件无法直接编译；ROCm 6.0 需要打上厂商的 bfloat16 头文件补丁",
        "使用 ROCm 6.1 或更新版本，或应用包内 `rocm_patch` 目录的补丁，然后不隔离构建",
    ),
    "no-torch": Entry(
        "the build runs in an environment of its own that has no torch, and the package does not declare it",
        "install torch first and pass --no-build-isolation (uv: --no-build-isolation or extra-build-dependencies)",
        "构建在独立环境中进行，其中没有 torch，而该包未声明此依赖",
        "先安装 torch，再加 --no-build-isolation（uv：--no-build-isolation 或 extra-build-dependencies）",
    ),
    "static-metadata": Entry(
        "uv 0.11.0 refuses `match-runtime` for packages without static metadata: a fault of that release",
        "upgrade uv to 0.11.1 or newer",
        "uv 0.11.0 对没有静态元数据的包拒绝 `match-runtime`：这是该版本的缺陷",
        "将 uv 升级到 0.11.1 或更新版本",
    ),
    "frontend": Entry(
        "pip, setuptools or the build front end is too old or too new for this package; its sources are not at fault",
        "upgrade pip, setuptools, wheel and packaging together",
        "pip、setuptools 或构建前端对该包来说过旧或过新；源码本身没有问题",
        "一起升级 pip、setuptools、wheel 和 packaging",
    ),
    "metadata-version": Entry(
        "the version in the file's name is not the one in its METADATA: pip refuses it from an index",
        "install it by its direct address, or from an index that keeps both equal",
        "文件名中的版本与 METADATA 中的版本不一致：pip 会拒绝从索引安装",
        "用文件的直接地址安装，或使用两者一致的索引",
    ),
    "msvc": Entry(
        "the sources do not compile with this Windows compiler",
        "use WSL2, where Linux wheels fit, or the versions of Visual Studio that nvcc takes",
        "源码无法用当前的 Windows 编译器编译",
        "使用 WSL2（可用 Linux wheel），或使用 nvcc 支持的 Visual Studio 版本",
    ),
    "oom": Entry(
        "the compiler was killed: too many compile jobs for the memory of this machine (3 to 5 GB each)",
        "build with fewer jobs, MAX_JOBS=1 and NVCC_THREADS=1, and for one GPU architecture only",
        "编译器被系统终止：并行任务数超出本机内存（每个约需 3 至 5 GB）",
        "减少并行任务：MAX_JOBS=1 与 NVCC_THREADS=1，并只为一种 GPU 架构构建",
    ),
    "cxx-standard": Entry(
        "torch's headers need a newer C++ standard than this build asks for; C++20 from torch 2.13 on",
        "take a release of the package that knows this torch, or raise -std for compiler and nvcc",
        "torch 头文件需要比本次构建更新的 C++ 标准；torch 2.13 起需要 C++20",
        "使用支持该 torch 的包版本，或同时提高编译器和 nvcc 的 -std",
    ),
    "python-headers": Entry(
        "Python.h is missing: the development files of Python {python_version} are not installed; Triton needs them too",
        "install the development package of exactly this Python, or a Python that carries headers",
        "缺少 Python.h：未安装 Python {python_version} 的开发文件；Triton 运行时同样需要",
        "安装与当前 Python 完全对应的开发包，或使用自带头文件的 Python",
    ),
    "cuda-headers": Entry(
        "the CUDA headers are missing: nvcc alone was installed, or include paths lead elsewhere",
        "install the runtime's development package of nvcc's version, or use a devel image",
        "缺少 CUDA 头文件：只安装了 nvcc，或包含路径不正确",
        "安装与 nvcc 同版本的运行时开发包，或使用 devel 镜像",
    ),
    "host-compiler": Entry(
        "nvcc {nvcc} refuses this host compiler (gcc {gcc}): it takes gcc up to {host}",
        "install g++-{host} and name it by CUDAHOSTCXX; no flag that silences the check makes it right",
        "nvcc {nvcc} 不接受当前主机编译器（gcc {gcc}）：最高支持 gcc {host}",
        "安装 g++-{host} 并通过 CUDAHOSTCXX 指定；关闭检查的选项并不能解决问题",
    ),
    "arch-unknown": Entry(
        "this nvcc does not know the architecture {arch}; CUDA releases that do: {range}; this GPU: {gpu}",
        "build for the local GPU only, or use a toolkit that knows {arch}",
        "当前 nvcc 不认识架构 {arch}；支持它的 CUDA 版本：{range}；本机 GPU：{gpu}",
        "只为本机 GPU 构建，或使用支持 {arch} 的工具包",
    ),
    "toolkit": Entry(
        "nvcc {nvcc} is not of the CUDA that torch was built with ({cuda})",
        "use a toolkit of torch's CUDA major, and point CUDA_HOME at it; conda may have put a second nvcc first",
        "nvcc {nvcc} 与 torch 构建所用的 CUDA（{cuda}）不一致",
        "使用与 torch 的 CUDA 主版本一致的工具包并设置 CUDA_HOME；conda 可能把另一个 nvcc 放在了前面",
    ),
    "cuda-home-here": Entry(
        "nvcc {nvcc} exists but the build does not find it: CUDA_HOME is not set",
        "export CUDA_HOME as the folder above nvcc's bin",
        "nvcc {nvcc} 已存在，但构建找不到它：未设置 CUDA_HOME",
        "将 CUDA_HOME 设置为 nvcc 所在 bin 目录的上一级",
    ),
    "cuda-home": Entry(
        "CUDA_HOME is not set and no toolkit was found",
        "point CUDA_HOME at the toolkit, or install one of torch's CUDA {cuda}; a wheel needs neither",
        "未设置 CUDA_HOME，也没有找到工具包",
        "将 CUDA_HOME 指向工具包，或安装与 torch 的 CUDA {cuda} 一致的工具包；使用 wheel 则都不需要",
    ),
    "nvcc": Entry(
        "there is no CUDA compiler (nvcc) here, and the build asks for it before it even looks for a wheel",
        "install a wheel by its full name, which needs no compiler; else the toolkit of CUDA {cuda}",
        "此处没有 CUDA 编译器（nvcc），而构建在查找 wheel 之前就需要它",
        "按完整文件名安装 wheel（不需要编译器）；否则安装 CUDA {cuda} 的工具包",
    ),
    "sdist": Entry(
        "the source archive lacks its C++ and CUDA sources (public mamba up to 2.2.4, causal_conv1d 1.5.1)",
        "build from the git tag, or take a later version, whose archive is whole",
        "源码包缺少 C++ 和 CUDA 源文件（公开的 mamba 2.2.4 及以前、causal_conv1d 1.5.1）",
        "从 git 标签构建，或使用源码包完整的较新版本",
    ),
    "cross-device": Entry(
        "a file was moved by rename between two file systems: TMPDIR and the build folder are on different ones",
        "put TMPDIR on the file system of the build folder",
        "文件在两个文件系统之间用重命名方式移动：TMPDIR 与构建目录不在同一文件系统",
        "把 TMPDIR 设置到构建目录所在的文件系统",
    ),
    "build-lock": Entry(
        "a lock file of an earlier or parallel compile is left over, and everybody waits for it",
        "delete the lock; compile once in one process before torchrun starts the others",
        "先前或并行编译遗留了锁文件，所有进程都在等待",
        "删除锁文件；在 torchrun 启动其他进程之前先用单个进程完成编译",
    ),
    "build-dir": Entry(
        "a folder of an earlier build, for another torch or compiler, is reused",
        "delete the build folder and the cache of torch extensions, then build again",
        "复用了先前为其他 torch 或编译器构建的目录",
        "删除构建目录和 torch 扩展缓存，然后重新构建",
    ),
    "pip-cache": Entry(
        "a wheel cached for another torch or CUDA was reused: the cache knows it by name and version only",
        "remove it from the cache and install again without the cache",
        "复用了为其他 torch 或 CUDA 缓存的 wheel：缓存只按名称和版本识别",
        "将其从缓存中删除，并在不使用缓存的情况下重新安装",
    ),
    "ninja": Entry(
        "ninja, which runs the compile, is not installed",
        "install ninja into the environment that builds",
        "未安装负责编译的 ninja",
        "在用于构建的环境中安装 ninja",
    ),
    "bad-cubin": Entry(
        "GPU {gpu} runs an sm_103 cubin made by nvcc 13.x, which is known to compute wrongly and silently",
        "use a file with sm_100 code only (CUDA 12.9), and run the numeric self-check after installing",
        "GPU {gpu} 运行了 nvcc 13.x 生成的 sm_103 cubin，已知其会无提示地计算错误",
        "使用只含 sm_100 代码的文件（CUDA 12.9），安装后运行数值自检",
    ),
    "arch-rocm": Entry(
        "the file holds no code for this AMD GPU",
        "build for exactly this GPU: read its gfx name with rocminfo",
        "该文件不含适用于此 AMD GPU 的代码",
        "只为此 GPU 构建：用 rocminfo 查看其 gfx 名称",
    ),
    "arch": Entry(
        "the file holds no device code that GPU {gpu} runs: public files carry cubins only, no PTX (6.0 and 6.1 never; "
        "10.0 from mamba 2.2.5 and causal_conv1d 1.5.1, 12.0 from 2.2.6 and 1.5.3, by CUDA 12.8 or newer)",
        "list the cubins of the file; upgrade both packages, or build for exactly this GPU (6.x: CUDA 12.9 at most)",
        "该文件不含 GPU {gpu} 可运行的设备代码：公开文件只有 cubin，没有 PTX（6.0 和 6.1 从未包含；"
        "10.0 自 mamba 2.2.5 与 causal_conv1d 1.5.1 起，12.0 自 2.2.6 与 1.5.3 起，需 CUDA 12.8 或更新）",
        "列出文件中的 cubin；同时升级两个包，或只为此 GPU 构建（6.x：最高 CUDA 12.9）",
    ),
    "driver-ptx": Entry(
        "the driver ({driver}) is older than this CUDA needs",
        "update the driver on the host, or take torch and wheel for a CUDA that this driver runs",
        "驱动（{driver}）低于该 CUDA 的要求",
        "在主机上更新驱动，或使用该驱动支持的 CUDA 版本的 torch 和 wheel",
    ),
    "driver-probe": Entry(
        "the driver was read wrongly or not at all: on WSL and in containers its files are elsewhere, and with several GPUs "
        "nvidia-smi prints one line for each",
        "take the first line, check the driver on the host, start containers with --gpus all, or name the backend by hand",
        "驱动信息读取错误或未能读取：WSL 和容器中驱动文件位置不同，多块 GPU 时 nvidia-smi 每块输出一行",
        "取第一行；在主机上检查驱动；启动容器时加 --gpus all；或手动指定后端",
    ),
    "fact-source": Entry(
        "the choice was made from the wrong fact: nvidia-smi shows what the driver could run, nvcc what is installed; "
        "neither is torch's own CUDA, and the C++11 ABI is torch's too",
        "take CUDA from torch.version.cuda and the ABI from torch; use nvidia-smi only to test the driver",
        "判断依据有误：nvidia-smi 显示驱动最高支持的 CUDA，nvcc 显示已安装的工具包；二者都不是 torch 的 CUDA，ABI 同样取决于 torch",
        "CUDA 取自 torch.version.cuda，ABI 取自 torch；nvidia-smi 只用于确认驱动是否够新",
    ),
    "cpu-tensor": Entry(
        "a CPU tensor reached an op that has CUDA kernels only; the install is not broken",
        "move model and input to the same GPU first, or use the reference implementation on the CPU",
        "CPU 张量传给了只有 CUDA 内核的算子；安装本身没有问题",
        "先把模型和输入移到同一块 GPU，或在 CPU 上使用参考实现",
    ),
    "compile": Entry(
        "torch.compile cannot trace this compiled op",
        "keep the op out of the graph, or use a version that registers it with torch.library",
        "torch.compile 无法追踪该编译算子",
        "将该算子排除在图之外，或使用通过 torch.library 注册算子的版本",
    ),
    "api-skew": Entry(
        "the Python side and the compiled side are of different eras: `{function}` here takes the arguments of causal_conv1d {era}",
        "install a pair: mamba 1.0 with 1.0; 1.1 with 1.1; 1.2.0 to 2.2.4 with 1.2.0 to 1.5.0.post8; 2.2.5 and newer with 1.5.1 and newer",
        "Python 部分与编译部分版本不匹配：此处的 `{function}` 使用 causal_conv1d {era} 的参数",
        "成对安装：mamba 1.0 配 1.0；1.1 配 1.1；1.2.0 至 2.2.4 配 1.2.0 至 1.5.0.post8；2.2.5 及以上配 1.5.1 及以上",
    ),
    "fast-path": Entry(
        "it works, but on a slow path: the compiled kernels were not found or not used",
        "import the compiled modules to see the real error, then install the wheel that fits",
        "可以运行，但走的是慢速路径：编译内核未找到或未使用",
        "直接导入编译模块查看真正的错误，然后安装合适的 wheel",
    ),
    "hidden-import": Entry(
        "an import error was caught and hidden earlier; this is only its consequence",
        "import the compiled modules directly: the real error is the one to give to this doctor",
        "先前的导入错误被捕获并隐藏；这里只是其后果",
        "直接导入编译模块：请把真正的错误交给 doctor 诊断",
    ),
    "shape": Entry(
        "the op does not take this shape or stride: channel-last needs multiples of 8, widths are 2 to 4",
        "pad the dimension (d_model * expand / headdim) to a multiple of 8, or take mamba 2.3.0 or newer",
        "该算子不接受此形状或步长：channel-last 要求 8 的倍数，卷积宽度为 2 至 4",
        "将维度（d_model * expand / headdim）补齐到 8 的倍数，或使用 mamba 2.3.0 及以上",
    ),
    "dtype": Entry(
        "the op was given dtypes that it does not take together, usually half inputs with float weights",
        "convert input and weights to one dtype, or run under autocast; keep A and D in float32",
        "传给算子的 dtype 不能混用，通常是半精度输入配单精度权重",
        "将输入和权重转换为同一 dtype，或使用 autocast；A 和 D 保持 float32",
    ),
    "grid": Entry(
        "the launch grid is above the hardware's limit: more than 65535 in its second or third dimension",
        "split the input along dim, or use kernels that do not put dim there",
        "启动网格超过硬件上限：第二或第三维大于 65535",
        "沿 dim 拆分输入，或使用不受此限制的内核",
    ),
    "int32": Entry(
        "an index overflowed: a tensor passes 2**31 elements where the kernel counts with 32 bits",
        "split the batch; an autotuned first call on the full size meets this before a small one does",
        "索引溢出：张量元素数超过 2**31，而内核使用 32 位计数",
        "拆分批次；首次以完整尺寸自动调优时最容易触发",
    ),
    "bad-kernel": Entry(
        "a kernel is known to be wrong, or not to compile, on this GPU ({gpu})",
        "run the numeric self-check, and use another version of the package or of Triton",
        "已知某内核在此 GPU（{gpu}）上结果错误或无法编译",
        "运行数值自检，并换用其他版本的包或 Triton",
    ),
    "boundary": Entry(
        "results are wrong at the end of a sequence or chunk: padded lanes do not stay neutral after bias and softplus",
        "pad the sequence to a multiple of the chunk, and compare gradients at ragged lengths with the reference",
        "序列或分块末尾结果错误：填充位置在加偏置和 softplus 之后不再为中性值",
        "将序列补齐到分块的倍数，并在非整除长度上与参考实现比较梯度",
    ),
    "range": Entry(
        "kernel and install are fine: values left the range of the dtype (float16 overflows in the recurrence)",
        "use bfloat16, or float32 for the scan and its parameters; lower the learning rate",
        "内核和安装都没有问题：数值超出了 dtype 的范围（float16 在递推中溢出）",
        "使用 bfloat16，或对扫描及其参数使用 float32；降低学习率",
    ),
    "no-cuda": Entry(
        "this torch is a CPU build ({torch}): no CUDA wheel can fit it; pip takes it for any `torch>=`",
        "replace torch by a build with CUDA, then ask again",
        "当前 torch 是 CPU 版本（{torch}）：没有任何 CUDA wheel 适用；pip 会认为它满足任意 `torch>=`",
        "换成带 CUDA 的 torch，然后重试",
    ),
    "platform": Entry(
        "no wheels are published for this system ({platform})",
        "use WSL2 or Linux; a build of the public sources here needs MSVC changes and Triton, which is missing too",
        "没有为本系统（{platform}）发布的 wheel",
        "使用 WSL2 或 Linux；在此构建公开源码需要修改 MSVC 相关代码，并且同样缺少 Triton",
    ),
    "vendor": Entry(
        "torch comes from a vendor's container ({torch}): it lies between two releases, so no wheel for X.Y fits",
        "take the wheel whose torch part is the container's release (torch25.06), else build inside the container",
        "torch 来自厂商容器（{torch}）：介于两个正式版之间，任何 X.Y 的 wheel 都不适用",
        "选择 torch 部分为容器版本号（如 torch25.06）的 wheel，否则在容器内构建",
    ),
    "network": Entry(
        "the download failed for reasons of the network or of the server; it says nothing about which wheels exist",
        "try again, set a proxy or a mirror, or carry the wheel over and install it from a folder",
        "下载因网络或服务器原因失败；这并不说明没有合适的 wheel",
        "重试，设置代理或镜像，或把 wheel 拷贝过来从本地目录安装",
    ),
    "replaces-torch": Entry(
        "this installation would change the torch that is there ({torch}), and every file compiled for it would break",
        "install without dependencies, by the exact file; put torch under a constraint",
        "此安装会更换现有的 torch（{torch}），为其编译的所有文件都会失效",
        "用确切的文件安装并且不带依赖；对 torch 加约束",
    ),
    "local": Entry(
        "torch was built locally ({torch}): a wheel for a release of that number need not fit",
        "build from source with --no-build-isolation",
        "torch 是本地构建的（{torch}）：同版本号的 wheel 不一定适用",
        "使用 --no-build-isolation 从源码构建",
    ),
    "prerelease": Entry(
        "torch is a pre-release ({torch}), for which no wheel is published",
        "move to a release, or build from source with --no-build-isolation",
        "torch 是预发布版本（{torch}），没有为其发布的 wheel",
        "换成正式版，或使用 --no-build-isolation 从源码构建",
    ),
    "no-wheel": Entry(
        "no published wheel fits torch {torch} with this Python and CUDA; what follows is a build from source",
        "ask for the wheel of another version of the package, or build with --no-build-isolation",
        "没有适合 torch {torch} 及当前 Python 和 CUDA 的 wheel；随后会进入源码构建",
        "查询该包其他版本的 wheel，或使用 --no-build-isolation 构建",
    ),
}
# rows that say the same
ALIASES: Dict[str, str] = {
    "minor-abort": "minor",
    "minor-library": "minor",
    "platform-macos": "platform",
    "slow": "fast-path",
    "toolkit-minor": "toolkit",
    "named-wheel": "torch-symbol",
    "isolated-torch-guess": "isolated-torch",
    "isolated-toolkit": "isolated-torch",
    "rocm-isolated": "rocm",
    "no-cuda-said": "no-cuda",
    "musl-system": "musl",
    "platform-tag": "platform",
    "bad-numbers": "bad-kernel",
    "bad-cubin-facts": "bad-cubin",
}


def entry(key: str) -> Entry:
    return ENTRIES[ALIASES.get(key, key)]


def frame(key: str, language: str) -> str:
    return FRAME[key][LANGUAGES.index(language)]
