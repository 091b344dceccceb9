"""`pip install .`: the wheel for this machine. What can be built here is built; what cannot is left out, and said."""

from __future__ import annotations

import platform
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import List, Optional, Sequence, Tuple

from farm import recipe
from farm.actions import Binding
from farm.archs import Arch, ArchError, fit, parse_archs, spell
from farm.builder import make, only_one
from farm.errors import BuildError, NetworkError, UsageError
from farm.facts import Facts, read_facts
from farm.headers import Headers, InstalledTorch, cached_headers, find_installed_torch, get_headers
from farm.matrix import Matrix, read_matrix
from farm.ninja import LOGS
from farm.pack import pack
from farm.plan import PACKAGE, Build
from farm.process import run
from farm.settings import Settings
from farm.toolchains import Toolchain, check_host_compiler, find_system_toolchain


@dataclass(frozen=True)
class World:
    """What is read before anything is decided."""

    root: Path
    facts: Facts
    matrix: Matrix
    settings: Settings
    machine: str
    python: str

    @classmethod
    def read(cls, root: Path) -> World:
        facts = read_facts(root / "facts.yaml")
        python = f"{sys.version_info[0]}.{sys.version_info[1]}"
        matrix = read_matrix(root / "matrix.yaml", facts)
        return cls(root, facts, matrix, Settings.from_environment(), platform.machine(), python)


def say(text: str) -> None:
    print(f"mamba_ssm: {text}", file=sys.stderr, flush=True)


def build_local(world: World, folder: Path) -> Path:
    """Build the wheel into `folder`."""
    build = Build("local", "local", "local", world.machine)
    why_pure = why_no_native(world)
    bindings: List[Binding] = []
    if why_pure is None:
        bindings = choose_bindings(world, find_installed_torch())
        if not bindings:
            why_pure = "no headers of any torch could be had, and without a binding no kernel can be called"
    if why_pure is not None:
        if world.settings.force_build:
            raise BuildError(
                f"MAMBA_FORCE_BUILD is set, but {why_pure}", "unset MAMBA_FORCE_BUILD for a pure-Python wheel"
            )
        say(f"a pure-Python wheel, which runs the references in plain PyTorch: {why_pure}")
        return pack(world.root, build, None, world.facts, world.settings, folder).path
    toolchain = choose_toolchain(world)
    if toolchain is not None:
        archs = choose_archs(world.settings, toolchain, default_archs(world, toolchain), find_gpus())
        build = Build("local", "local", "local", world.machine, archs=archs, toolchain=toolchain)
    with only_one(world.root):
        natives, _ = make(world.root, [(build, bindings)], world.facts, world.settings)
        return pack(world.root, build, natives[build.identifier], world.facts, world.settings, folder).path


def why_no_native(world: World) -> Optional[str]:
    """Why nothing can be compiled here; None when it can."""
    if sys.platform != "linux" or world.machine not in recipe.CPU_ISAS:
        return f"native code is built on Linux x86_64 and aarch64 only, this is {sys.platform} {world.machine}"
    if shutil.which(recipe.CXX) is None:
        return "there is no g++ on PATH"
    return None


def choose_toolchain(world: World) -> Optional[Toolchain]:
    if world.settings.skip_cuda:
        say("without CUDA kernels: MAMBA_SKIP_CUDA_BUILD is set")
        return None
    toolchain = find_system_toolchain()
    if toolchain is None:
        say("without CUDA kernels: no nvcc by CUDA_HOME, on PATH or in /usr/local/cuda")
        return None
    check_host_compiler(toolchain, world.facts)
    return toolchain


def default_archs(world: World, toolchain: Toolchain) -> Tuple[Arch, ...]:
    """Those of the universal wheel for the same CUDA major."""
    accelerator = f"cu{toolchain.version.split('.')[0]}"
    for row in world.matrix.rows:
        if row.kind == "universal" and row.accelerator == accelerator and world.machine in row.archs:
            return row.archs[world.machine]
    return (Arch(toolchain.archs[-1], True),)


def find_gpus() -> Tuple[str, ...]:
    """Compute capabilities of the GPUs of this machine, as nvidia-smi lists them."""
    if shutil.which("nvidia-smi") is None:
        return ()
    said = run(["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"], show=False)
    if said.returncode != 0:
        return ()
    return tuple(sorted({line.strip() for line in said.output.splitlines() if re.fullmatch(r"\d+\.\d", line.strip())}))


def choose_archs(
    settings: Settings, toolchain: Toolchain, default: Sequence[Arch], gpus: Sequence[str]
) -> Tuple[Arch, ...]:
    """TORCH_CUDA_ARCH_LIST, then MAMBA_CUDA_ARCHITECTURES, then the GPUs present, then the default list."""
    for name, text in (
        ("TORCH_CUDA_ARCH_LIST", settings.torch_arch_list),
        ("MAMBA_CUDA_ARCHITECTURES", settings.mamba_archs),
    ):
        if text is None:
            continue
        try:
            archs = parse_archs(text)
        except ArchError as error:
            raise UsageError(f"{name}: {error}", f"for example {name}='8.0;9.0+PTX'") from error
        unknown = [arch.capability for arch in archs if arch.capability not in toolchain.archs]
        if unknown:
            raise UsageError(
                f"{name}: CUDA {toolchain.version} does not know {', '.join(unknown)}",
                f"it knows {', '.join(toolchain.archs)}",
            )
        say(f"architectures by {name}: {spell(archs)}")
        return archs
    known, unknown_gpus = fit([Arch(gpu) for gpu in gpus], toolchain.archs)
    if unknown_gpus:
        say(f"CUDA {toolchain.version} has no code for the GPUs here of {spell(unknown_gpus)}")
    if known:
        say(f"architectures by the GPUs here: {spell(known)}")
        return known
    kept, dropped = fit(default, toolchain.archs)
    if dropped:
        say(f"left out, unknown to CUDA {toolchain.version}: {spell(dropped)}")
    say(f"architectures by default: {spell(kept)}")
    return kept


def choose_bindings(world: World, torch: Optional[InstalledTorch]) -> List[Binding]:
    """For the torch that can be imported; else for every torch that this Python can have and whose headers can be had."""
    if torch is not None and not world.settings.torch_versions:
        binding = binding_for(world, torch)
        return [binding] if binding is not None else []
    wanted = [*world.facts.classic_bindings(world.machine, "cpu", world.python), ("", True)]
    if world.settings.torch_versions:
        unknown = [minor for minor in world.settings.torch_versions if minor not in world.facts.torch]
        if unknown:
            raise UsageError(
                f"MAMBA_TORCH_VERSIONS names what facts.yaml does not have: {', '.join(unknown)}",
                f"known: {', '.join(world.facts.torch)}",
            )
        named = {"" if world.facts.is_stable(minor) else minor for minor in world.settings.torch_versions}
        wanted = [choice for choice in wanted if choice[0] in named]
    say(f"bindings for torch {', '.join(minor or world.facts.stable_floor + ' and newer' for minor, _ in wanted)}")
    bindings: List[Binding] = []
    reachable = True
    for minor, abi in wanted:
        headers, reachable = _headers(world, minor, reachable)
        if headers is not None:
            bindings.append(Binding(headers, minor, abi))
    return bindings


def _headers(world: World, minor: str, reachable: bool) -> Tuple[Optional[Headers], bool]:
    """The headers of a minor ("" for the stable binding), and whether the network is still worth trying."""
    release = world.facts.torch[minor].release if minor else world.facts.stable_release
    headers = cached_headers(release, world.settings.cache)
    if headers is None and reachable:
        try:
            headers = get_headers(release, world.settings.cache, world.root / LOGS / f"headers-{release}.log")
        except NetworkError as error:
            say(str(error).splitlines()[0])
            reachable = False
    if headers is None:
        say(f"without a binding for torch {minor or world.facts.stable_floor + ' and newer'}: its headers are not here")
    return headers, reachable


def binding_for(world: World, torch: InstalledTorch) -> Optional[Binding]:
    """The one binding for an installed torch.

    The stable one is compiled with the headers that the farm takes, so that the file is the farm's; the installed ones
    serve where those cannot be had. A classic one is compiled with the installed headers, which are that release's.
    """
    own = Headers(torch.version, torch.include, "installed")
    if torch.minor in world.facts.torch and not world.facts.is_stable(torch.minor):
        if not torch.is_release or torch.cxx11abi is None:
            say(
                f"torch {torch.version} is no release of the PyTorch project: below {world.facts.stable_floor} only those are served"
            )
            return None
        say(f"binding for the installed torch {torch.version}")
        return Binding(own, torch.minor, torch.cxx11abi)
    from farm.facts import pair

    if pair(torch.minor) < pair(world.facts.stable_floor):
        say(f"torch {torch.version} is older than any that is served")
        return None
    say(f"binding for the installed torch {torch.version} and every one from {world.facts.stable_floor} on")
    headers, _ = _headers(world, "", True)
    if headers is None and pair(torch.minor) >= pair(world.facts.stable_release):
        say(f"it is compiled with the headers of torch {torch.version}, so it is not the farm's file to the byte")
        headers = own
    return Binding(headers) if headers is not None else None


def requires_for_build() -> List[str]:
    """What a build needs beside the packer: nothing where nothing can be compiled."""
    if sys.platform != "linux" or shutil.which(recipe.CXX) is None:
        return []
    return ["ninja>=1.11"] + ([] if find_installed_torch() else ["pip"])


__all__ = ["PACKAGE", "World", "build_local", "requires_for_build"]
