"""The action graph: what must be compiled, merged and linked for a set of builds. Equal actions are one action."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from farm import recipe
from farm.archs import Arch
from farm.errors import BuildError
from farm.facts import Facts
from farm.headers import Headers
from farm.plan import Build
from farm.toolchains import Toolchain

OBJECTS = "build/objects"


@dataclass(frozen=True)
class Action:
    """One command that makes one file. `depfile`: the compiler lists the headers it read."""

    output: str
    inputs: Tuple[str, ...]
    command: Tuple[str, ...]
    depfile: bool = False


@dataclass(frozen=True)
class Binding:
    """Which binding is wanted, and the headers it is compiled with. `torch` None: the stable one."""

    headers: Headers
    torch: str = ""
    cxx11abi: bool = True

    @property
    def file(self) -> str:
        return recipe.classic_file(self.torch, self.cxx11abi) if self.torch else recipe.STABLE_FILE


@dataclass(frozen=True)
class Native:
    """What goes into a wheel's mamba_ssm/_native: files by name, and the table that the loader reads."""

    files: Mapping[str, str]
    table: Mapping[str, Any]


@dataclass
class Graph:
    """All actions by output. Adding the same one twice is how builds share."""

    actions: Dict[str, Action] = field(default_factory=dict)

    def add(self, action: Action) -> str:
        known = self.actions.setdefault(action.output, action)
        if known != action:
            raise BuildError(
                f"two different actions make the same file: `{action.output}`", "report this to the project"
            )
        return action.output

    def closure(self, outputs: Sequence[str]) -> List[str]:
        """Everything that making `outputs` makes, themselves included."""
        seen: Dict[str, None] = {}
        stack = list(outputs)
        while stack:
            output = stack.pop()
            if output in self.actions and output not in seen:
                seen[output] = None
                stack.extend(self.actions[output].inputs)
        return list(seen)


def add_build(graph: Graph, build: Build, bindings: Sequence[Binding], facts: Facts) -> Native:
    """Add everything that one build needs, and say which files and which table its wheel carries."""
    files = {recipe.CPU_LIBRARY: cpu_library(graph, build.machine)}
    cuda = None
    if build.toolchain is not None and build.archs:
        files[recipe.CUDA_LIBRARY] = cuda_library(graph, build.toolchain, build.archs, build.machine)
        toolkit = facts.toolkits.get(build.toolchain.version)
        cuda = {
            "file": recipe.CUDA_LIBRARY,
            "toolkit": build.toolchain.version,
            "archs": [str(arch) for arch in build.archs],
            "minimum_driver": toolkit.minimum_driver if toolkit else None,
        }
    entries: List[Dict[str, Any]] = []
    for binding in bindings:
        files[binding.file] = binding_library(graph, binding, build.machine)
        if binding.torch:
            entry = {"file": binding.file, "kind": "classic", "torch": binding.torch, "cxx11abi": binding.cxx11abi}
            if not facts.was_run(binding.torch, binding.cxx11abi, build.machine):
                entry["not_run"] = True  # the loader says so
            entries.append(entry)
        else:
            floor, tested = facts.stable_floor, facts.newest_tested
            entries.append({"file": binding.file, "kind": "stable", "torch_floor": floor, "torch_tested": tested})
    table = {
        "format": recipe.TABLE_FORMAT,
        "kernels_abi": recipe.KERNELS_ABI,
        "cpu": {"file": recipe.CPU_LIBRARY},
        "cuda": cuda,
        "bindings": entries,
    }
    return Native(files, table)


def _compile(graph: Graph, source: str, output: str, flags: Sequence[str]) -> str:
    # ccache, when the user has made g++ a link to it, needs nothing of us; paths are relative, so nothing leaks.
    command = (recipe.CXX, *flags, "-MMD", "-MF", f"{output}.d", "-c", source, "-o", output)
    return graph.add(Action(output, (source,), command, depfile=True))


def cpu_library(graph: Graph, machine: str) -> str:
    folder = f"{OBJECTS}/cpu-{machine}"
    objects = [_compile(graph, recipe.CPU_DISPATCH, f"{folder}/dispatch.o", recipe.KERNEL_FLAGS)]
    for isa, flags in recipe.CPU_ISAS[machine].items():
        wanted = (*recipe.KERNEL_FLAGS, *flags, f"-DMAMBA_ISA={isa}")
        objects.append(_compile(graph, recipe.CPU_KERNELS, f"{folder}/kernels.{isa}.o", wanted))
    return _link_kernels(graph, f"{folder}/{recipe.CPU_LIBRARY}", objects)


def _link_kernels(graph: Graph, output: str, objects: Sequence[str]) -> str:
    soname = f"-Wl,-soname,{Path(output).name}"
    command = (recipe.LINKER, *objects, "-o", output, soname, *recipe.KERNEL_LINK_FLAGS)
    return graph.add(Action(output, tuple(objects), command))


def mark(archs: Sequence[Arch]) -> str:
    """A list of architectures as part of a file name."""
    return "_".join(arch.digits + ("ptx" if arch.ptx else "") for arch in archs)


def cuda_library(graph: Graph, toolchain: Toolchain, archs: Sequence[Arch], machine: str) -> str:
    device = f"{OBJECTS}/cuda-{toolchain.release}"
    host = f"{OBJECTS}/host-{machine}"
    objects = [
        _compile(graph, source, f"{host}/{source.replace('/', '.')}.o", recipe.KERNEL_FLAGS)
        for source in recipe.CUDA_HOST_SOURCES
    ]
    fatbins = {unit: _fatbin(graph, unit, toolchain, archs, device) for unit in recipe.CUDA_UNITS}
    embed = f"{host}/embed-cuda-{toolchain.release}-{mark(archs)}.o"
    defines = [f'-DMAMBA_FATBIN_{unit.upper()}="{path}"' for unit, path in fatbins.items()]
    described = f"cuda {toolchain.version}: " + " ".join(f"sm_{a.digits}{'+PTX' if a.ptx else ''}" for a in archs)
    command = (recipe.LINKER, *defines, "-c", recipe.CUDA_EMBED, "-o", embed)
    objects.append(graph.add(Action(embed, (recipe.CUDA_EMBED, *fatbins.values()), command)))
    told = (*recipe.KERNEL_FLAGS, f'-DMAMBA_CUDA_DESCRIPTION="{described}"')
    objects.append(
        _compile(graph, recipe.CUDA_DESCRIBED, f"{host}/device-cuda-{toolchain.release}-{mark(archs)}.o", told)
    )
    output = f"{OBJECTS}/cuda-{toolchain.release}-{mark(archs)}-{machine}/{recipe.CUDA_LIBRARY}"
    return _link_kernels(graph, output, objects)


def _fatbin(graph: Graph, unit: str, toolchain: Toolchain, archs: Sequence[Arch], folder: str) -> str:
    """One file per (unit, architecture), merged. An added architecture compiles only itself."""
    images: List[Tuple[str, str]] = []
    for arch in archs:
        cubin = f"{folder}/{unit}.sm_{arch.digits}.cubin"
        images.append(
            (_device(graph, unit, toolchain, cubin, "-cubin", f"-arch=sm_{arch.digits}"), f"kind=elf,sm={arch.digits}")
        )
    for arch in archs:
        if arch.ptx:
            ptx = f"{folder}/{unit}.compute_{arch.digits}.ptx"
            made = _device(graph, unit, toolchain, ptx, "-ptx", f"-arch=compute_{arch.digits}")
            images.append((made, f"kind=ptx,sm={arch.digits}"))
    output = f"{folder}/{unit}-{mark(archs)}.fatbin"
    merged = [f"--image3={kind},file={path}" for path, kind in images]
    command = (toolchain.fatbinary, "-64", f"--create={output}", *merged)
    return graph.add(Action(output, tuple(path for path, _ in images), command))


def _device(graph: Graph, unit: str, toolchain: Toolchain, output: str, *flags: str) -> str:
    source = recipe.CUDA_UNITS[unit]
    command = (toolchain.nvcc, *recipe.NVCC_FLAGS, *flags, "-MD", "-MF", f"{output}.d", source, "-o", output)
    return graph.add(Action(output, (source,), command, depfile=True))


def binding_library(graph: Graph, binding: Binding, machine: str) -> str:
    headers = binding.headers
    # Another tree of headers is another object: an installed torch may differ from the release of the same number.
    tree = hashlib.sha256(os.fsencode(headers.include)).hexdigest()[:8] if headers.origin == "installed" else "release"
    abi = int(binding.cxx11abi)
    name = f"torch{binding.torch}-abi{abi}" if binding.torch else "stable"
    folder = f"{OBJECTS}/binding-{name}-{headers.version}-{tree}-{machine}"
    flags = [*recipe.BINDING_FLAGS, headers.standard, f"-D_GLIBCXX_USE_CXX11_ABI={abi}"]
    # torch's own assertions carry the path of their header: make it the same everywhere.
    flags += [f"-ffile-prefix-map={headers.include}=torch/include"]
    flags += ["-isystem", headers.include, "-isystem", f"{headers.include}/torch/csrc/api/include"]
    if binding.torch:
        source = recipe.BINDING_CLASSIC
    else:
        source = recipe.BINDING_STABLE
        flags.append(recipe.BINDING_STABLE_TARGET)
    made = _compile(graph, source, f"{folder}/binding.o", flags)
    floor_flags = (*recipe.BINDING_FLAGS, "-std=c++17", f"-D_GLIBCXX_USE_CXX11_ABI={abi}")
    floor = _compile(graph, recipe.BINDING_FLOOR, f"{OBJECTS}/binding-{machine}/floor-abi{abi}.o", floor_flags)
    stub = _stub(graph, machine)
    output = f"{folder}/{binding.file}"
    command = (
        recipe.CXX, made, floor, "-o", output, f"-Wl,-soname,{binding.file}",
        f"-Wl,--version-script={recipe.BINDING_EXPORTS}", "-Wl,--no-as-needed", f"-L{Path(stub).parent}", "-ltorch",
        "-Wl,--as-needed", *recipe.BINDING_LINK_FLAGS,
    )  # fmt: skip
    return graph.add(Action(output, (made, floor, stub, recipe.BINDING_EXPORTS), command))


def _stub(graph: Graph, machine: str) -> str:
    """An empty libtorch.so to link against: the binding then needs the one that is already loaded."""
    output = f"{OBJECTS}/binding-{machine}/libtorch.so"
    command = (recipe.LINKER, "-shared", "-fPIC", "-x", "c", os.devnull, "-o", output, "-Wl,-soname,libtorch.so")
    return graph.add(Action(output, (), command))
