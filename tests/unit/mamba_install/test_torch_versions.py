"""A torch that is not a plain release is never rounded to X.Y."""

from __future__ import annotations

from typing import Optional

import pytest

from mamba_install.torch_versions import TorchVersion, cuda_of_flavour


@pytest.mark.parametrize(
    ("text", "build", "minor", "flavour"),
    [
        ("2.8.0", "release", "2.8", None),
        ("2.8.0+cu128", "release", "2.8", "cu128"),
        ("2.13.0+cpu", "release", "2.13", "cpu"),
        ("2.6.0+cpu.cxx11.abi", "release", "2.6", "cpu"),
        ("2.6.0+rocm6.2.4", "release", "2.6", "rocm6.2.4"),
        ("1.13.1+cu117.with.pypi.cudnn", "release", "1.13", "cu117"),
        ("2.1 (cu118)", "release", "2.1", None),
        ("2.7.0.dev20250301+cu126", "prerelease", "2.7", "cu126"),
        ("2.9.0rc1", "prerelease", "2.9", None),
        ("2.14 nightly", "prerelease", "2.14", None),
        ("2.5.0a0+git1234abc", "local", "2.5", None),
        ("2.8.0+mybuild", "local", "2.8", None),
        ("2.5.0a0+e000cf0ad9.nv24.10", "vendor", "2.5", None),
        ("2.10 (NGC 25.11)", "vendor", "2.10", None),
    ],
)
def test_what_a_version_says(text: str, build: str, minor: str, flavour: Optional[str]) -> None:
    version = TorchVersion.parse(text)
    assert version is not None
    assert (version.build, version.minor, version.flavour) == (build, minor, flavour)


def test_a_vendor_build_carries_its_containers_release() -> None:
    for text, release in (("2.5.0a0+e000cf0ad9.nv24.10", "24.10"), ("2.10 (NGC 25.11)", "25.11")):
        version = TorchVersion.parse(text)
        assert version is not None
        assert version.vendor_release == release


@pytest.mark.parametrize("text", [">=2.5.0 (cu124 index)", "present in env only", "", "2.6+"])
def test_what_is_no_version(text: str) -> None:
    assert TorchVersion.parse(text) is None


def test_the_cuda_of_a_flavour() -> None:
    assert cuda_of_flavour("cu126") == "12.6"
    assert cuda_of_flavour("cpu") is None
    assert cuda_of_flavour(None) is None
