"""What `pip install .` decides, from facts that are passed in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from farm import local
from farm.archs import Arch, parse_archs, spell
from farm.errors import BuildError, NetworkError, UsageError
from farm.headers import Headers, InstalledTorch, cached_headers, read_installed_torch
from farm.local import World, binding_for, choose_archs, choose_bindings
from farm.settings import Settings
from tests.unit.farm.samples import CUDA_13, ROOT, real_facts, real_matrix

DEFAULT = parse_archs("7.5;8.0;12.0+PTX")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(ROOT, real_facts(), real_matrix(), Settings(1, cache=tmp_path), "x86_64", "3.11")


def cache_headers(world: World, *releases: str) -> None:
    for release in releases:
        (world.settings.cache / "headers" / f"{release}-aarch64" / "include" / "torch").mkdir(parents=True)


def no_network(version: str, cache: Path, log: Path) -> Headers:
    raise NetworkError("no network")


@pytest.mark.parametrize(
    "settings, gpus, chosen",
    [
        (Settings(1, torch_arch_list="8.0 9.0+PTX", mamba_archs="7.5"), ["8.6"], "8.0;9.0+PTX"),
        (Settings(1, mamba_archs="7.5"), ["8.6"], "7.5"),
        (Settings(1), ["8.6", "9.0"], "8.6;9.0"),
        (Settings(1), ["8.6", "6.1"], "8.6"),
        (Settings(1), ["6.1"], "7.5;8.0;12.0+PTX"),
        (Settings(1), [], "7.5;8.0;12.0+PTX"),
    ],
)
def test_the_order_of_the_architectures(settings: Settings, gpus: list[str], chosen: str) -> None:
    assert spell(choose_archs(settings, CUDA_13, DEFAULT, gpus)) == chosen


@pytest.mark.parametrize("text, words", [("Ampere", "names such as"), ("7.0", "does not know 7.0"), (";", "is empty")])
def test_a_list_that_cannot_be_served(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        choose_archs(Settings(1, torch_arch_list=text), CUDA_13, DEFAULT, [])


def test_the_default_is_the_universal_rows(world: World) -> None:
    assert spell(local.default_archs(world, CUDA_13)) == "7.5;8.0;9.0;10.0;12.0+PTX"
    odd = replace(CUDA_13, version="14.0")
    assert local.default_archs(world, odd) == (Arch("12.1", True),)


def test_without_torch_every_binding_whose_headers_can_be_had(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def unreachable(version: str, cache: Path, log: Path) -> Headers:
        asked.append(version)
        raise NetworkError("no network")

    monkeypatch.setattr(local, "get_headers", unreachable)
    cache_headers(world, "2.6.0", "2.10.0")
    bindings = choose_bindings(world, None)
    assert [binding.file for binding in bindings] == [
        "binding_torch2.6_abi0.so",
        "binding_torch2.6_abi1.so",
        "binding_stable.so",
    ]
    assert asked == ["1.13.1"], "after the first failure the network is not tried again"


def test_named_torches_only(world: World) -> None:
    cache_headers(world, "2.6.0", "2.10.0")
    named = replace(world, settings=replace(world.settings, torch_versions=("2.14",)))
    assert [binding.file for binding in choose_bindings(named, None)] == ["binding_stable.so"]
    wrong = replace(world, settings=replace(world.settings, torch_versions=("9.9",)))
    with pytest.raises(UsageError, match=r"facts\.yaml does not have: 9\.9"):
        choose_bindings(wrong, None)


@pytest.mark.parametrize(
    "torch, file",
    [
        (InstalledTorch("2.6.0+cu124", "2.6", True, False, "/i"), "binding_torch2.6_abi0.so"),
        (InstalledTorch("2.6.0+cu126", "2.6", True, True, "/i"), "binding_torch2.6_abi1.so"),
        (InstalledTorch("2.13.0+cpu", "2.13", True, True, "/i"), "binding_stable.so"),
        (InstalledTorch("2.16.0a0+gitabc", "2.16", False, True, "/i"), "binding_stable.so"),
        (InstalledTorch("2.5.0a0+e000cf0ad9.nv24.10", "2.5", False, True, "/i"), None),
        (InstalledTorch("2.6.0", "2.6", True, None, "/i"), None),
        (InstalledTorch("1.12.1", "1.12", True, False, "/i"), None),
    ],
)
def test_the_binding_of_an_installed_torch_without_network(
    world: World, torch: InstalledTorch, file: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "get_headers", no_network)
    binding = binding_for(world, torch)
    assert (binding.file if binding else None) == file
    if binding is not None:
        assert binding.headers.origin == "installed"


@pytest.mark.parametrize("minor", ["2.9", "2.13"])
def test_the_stable_binding_is_the_farms_whatever_torch_is_installed(world: World, minor: str) -> None:
    cache_headers(world, "2.10.0")
    binding = binding_for(world, InstalledTorch(f"{minor}.0", minor, True, True, "/i"))
    assert binding is not None
    assert (binding.headers.version, binding.headers.origin == "installed") == ("2.10.0", False)


def test_force_build_turns_the_fallback_into_an_error(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "why_no_native", lambda world: "there is no g++ on PATH")
    pure = local.build_local(world, tmp_path / "w")
    assert pure.name.endswith("-py3-none-any.whl")
    forced = replace(world, settings=replace(world.settings, force_build=True))
    with pytest.raises(BuildError, match=r"MAMBA_FORCE_BUILD is set, but there is no g\+\+"):
        local.build_local(forced, tmp_path / "w")


def test_an_installed_torch_is_read_from_its_files(tmp_path: Path) -> None:
    assert read_installed_torch(tmp_path) is None
    (tmp_path / "version.py").write_text("__version__ = '2.6.0+cu126'\ncuda = '12.6'\n")
    assert read_installed_torch(tmp_path) is None, "without headers it serves nothing"
    (tmp_path / "include" / "torch").mkdir(parents=True)
    (tmp_path / "lib").mkdir()
    new = b"\0_ZN3c105ErrorC1ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE\0"
    (tmp_path / "lib" / "libc10.so").write_bytes(new)
    torch = read_installed_torch(tmp_path)
    assert torch is not None
    assert (torch.version, torch.minor, torch.is_release, torch.cxx11abi) == ("2.6.0+cu126", "2.6", True, True)
    (tmp_path / "lib" / "libc10.so").write_bytes(b"\0_ZN3c105ErrorC1ENS_14SourceLocationESs\0")
    torch = read_installed_torch(tmp_path)
    assert torch is not None and torch.cxx11abi is False
    (tmp_path / "lib" / "libc10.so").unlink()
    torch = read_installed_torch(tmp_path)
    assert torch is not None and torch.cxx11abi is None


@pytest.mark.parametrize(
    "version, release",
    [
        ("2.0.1+cu117.with.pypi.cudnn", True),
        ("2.4.0+rocm6.1", True),
        ("2.6.0+xpu", True),
        ("2.6.0a0+gitabc", False),
        ("2.5.0a0+e000cf0ad9.nv24.10", False),
        ("2.6.0+mine", False),
    ],
)
def test_farm_and_installer_agree_on_what_is_a_release(version: str, release: bool, tmp_path: Path) -> None:
    (tmp_path / "include" / "torch").mkdir(parents=True)
    (tmp_path / "version.py").write_text(f"__version__ = '{version}'\n")
    torch = read_installed_torch(tmp_path)
    assert torch is not None
    assert (torch.version, torch.is_release) == (version, release)


def test_half_unpacked_headers_are_no_headers(world: World) -> None:
    (world.settings.cache / "headers" / ".2.6.0-abc").mkdir(parents=True)
    assert cached_headers("2.6.0", world.settings.cache) is None
    cache_headers(world, "2.6.0")
    assert cached_headers("2.6.0", world.settings.cache) is not None
