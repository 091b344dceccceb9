"""The vocabulary of wheel names: written by the builder, read by the installer, and never a path."""

from __future__ import annotations

import pytest

from mamba_install.wheel_names import Label, WheelName, WheelNameError


@pytest.mark.parametrize(
    ("local", "label"),
    [
        ("cu12", Label("cu12")),
        ("cpu", Label("cpu")),
        ("cu128torch2.8cxx11abiTRUE", Label("cu128", "2.8", True)),
        ("cu128torch2.10cxx11abifalse", Label("cu128", "2.10", False)),
        ("cu12torch25.06cxx11abiTRUE", Label("cu12", "25.06", True)),
        ("hip62torch2.6cxx11abiTRUE", Label("hip62", "2.6", True)),
        ("cu128", None),
        ("something", None),
    ],
)
def test_labels(local: str, label: Label | None) -> None:
    assert Label.parse(local) == label
    if label is not None:
        assert Label.parse(str(label)) == label


def test_a_name_is_what_it_was_made_of() -> None:
    label = Label("cu128", "2.8", True)
    name = WheelName.of("mamba-ssm", "2.4.0", label, "cp312", "cp312", "manylinux_2_28_x86_64")
    assert name.filename == "mamba_ssm-2.4.0+cu128torch2.8cxx11abiTRUE-cp312-cp312-manylinux_2_28_x86_64.whl"
    assert WheelName.parse(name.filename) == name
    assert name.canonical_name == "mamba-ssm"
    assert WheelName.parse("torch-2.10.0-3-cp312-cp312-manylinux_2_28_x86_64.whl").build == "3"


@pytest.mark.parametrize(
    "filename",
    [
        "",
        "x.whl",
        "mamba_ssm-2.4.0.tar.gz",
        "mamba_ssm-nonsense-py3-none-any.whl",
        "mamba_ssm-2.4.0-1/../../../evil-py3-none-any.whl",
        "mamba_ssm-2.4.0-py3-none-any/../../evil.whl",
        "mamba_ssm-2.4.0-py3-none-..\\evil.whl",
        "mamba_ssm-2.4.0-py3-none-a\0b.whl",
        f"mamba_ssm-2.4.0-py3-none-{'a' * 300}.whl",
    ],
)
def test_what_is_no_name(filename: str) -> None:
    with pytest.raises(WheelNameError):
        WheelName.parse(filename)
