"""The choice of a backend per call, forced or free, and what backend_info says of it."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, replace

import pytest
import torch

import mamba_ssm
from mamba_ssm import backend
from mamba_ssm._native import Kernels, Native
from mamba_ssm.backend import BackendError, backend_info, choose_backend

CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)
NOTHING = Native("folder", None, "no native library here", None, {})


class FakeKernels(Kernels):
    """Kernels that say how many devices they see."""

    def device_count(self) -> int:
        return 1 if self.device == "cpu" or self.description == "with a GPU" else 0

    def why_no_device(self) -> tuple[str, str]:
        return "no CUDA device: libcuda.so.1 cannot be opened", "install the driver"


def native(cuda: str) -> Native:
    kernels = {
        "cpu": FakeKernels("cpu", 1, "loaded", "libmamba_cpu.so", "avx2"),
        "cuda": FakeKernels("cuda", 1, "loaded", "libmamba_cuda.so", cuda),
    }
    return Native("folder", "binding_stable.so", "serves it", None, kernels)


def pretend(monkeypatch: pytest.MonkeyPatch, loaded: Native, forced: str = "") -> None:
    monkeypatch.setenv(backend.BACKEND_VARIABLE, forced)
    monkeypatch.setattr(backend, "native", lambda: loaded)
    monkeypatch.setattr(backend, "_serving", {})


def test_free_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, native("with a GPU"))
    assert choose_backend("op", CPU) == "cpu"
    assert choose_backend("op", CUDA) == "cuda"
    assert choose_backend("op", torch.device("meta")) == "reference"


def test_free_choice_without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, NOTHING)
    assert choose_backend("op", CPU) == "reference"
    assert choose_backend("op", CUDA, "`seq_idx`") == "reference"  # no warning: nothing faster is here


def test_free_choice_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, native("without"))
    assert choose_backend("op", CUDA) == "reference"
    assert backend_info().reasons["cuda"] == "no CUDA device: libcuda.so.1 cannot be opened"


def test_what_kernels_do_not_serve_is_said_once_per_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, native("with a GPU"))
    with pytest.warns(RuntimeWarning, match="op runs on the slow reference, since the cpu kernels do not serve `x`"):
        assert choose_backend("op", CPU, "`x`") == "reference"
    assert choose_backend("op", CPU, "`x`") == "reference"
    with pytest.warns(RuntimeWarning, match="cuda kernels do not serve `x`"):
        choose_backend("op", CUDA, "`x`")


@pytest.mark.parametrize("value", ["gpu", "CPU", "reference ", "1"])
def test_nonsense_is_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, native("with a GPU"), value)
    for call in (backend_info, lambda: choose_backend("op", CPU)):
        with pytest.raises(BackendError) as caught:
            call()
        assert str(caught.value) == (
            f"MAMBA_SSM_BACKEND does not name a backend: `{value}`\nhint: use one of reference, cpu, cuda, or unset it"
        )


def test_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, native("without"), "reference")
    assert choose_backend("op", CPU) == "reference"
    pretend(monkeypatch, native("without"), "cpu")
    assert choose_backend("op", CPU) == "cpu"
    with pytest.raises(
        BackendError, match="MAMBA_SSM_BACKEND=cpu, but it cannot serve op: the tensors are on `cuda:0`"
    ):
        choose_backend("op", CUDA)
    with pytest.raises(BackendError, match="its kernels do not serve `seq_idx`\nhint: unset"):
        choose_backend("op", CPU, "`seq_idx`")
    pretend(monkeypatch, native("with a GPU"), "cuda")
    with pytest.raises(BackendError, match="the tensors are on `cpu`\nhint: move them to cuda"):
        choose_backend("op", CPU)
    pretend(monkeypatch, native("without"), "cuda")
    with pytest.raises(
        BackendError,
        match=r"no CUDA device: libcuda\.so\.1 cannot be opened\nhint: install the driver, or unset MAMBA_SSM_BACKEND",
    ):
        choose_backend("op", CUDA)
    pretend(monkeypatch, NOTHING, "cpu")
    with pytest.raises(BackendError, match="no native"):
        choose_backend("op", CPU)


def test_info(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, replace(native("with a GPU"), note="newer than tested"))
    info = backend_info()
    assert info.backends == {"cpu": "cpu", "cuda": "cuda"}
    assert info.mamba_ssm == mamba_ssm.__version__
    assert info.kernels == {"cpu": "avx2", "cuda": "with a GPU"}
    assert json.loads(json.dumps(info.as_dict()))["binding"] == "binding_stable.so"
    assert "tensors on cpu: cpu (kernels loaded: avx2)" in str(info)
    assert "note: newer than tested" in str(info)
    with pytest.raises(FrozenInstanceError):
        info.torch = "3"  # type: ignore[misc]


def test_info_of_a_forced_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, native("without"), "cuda")
    info = backend_info()
    assert info.forced == "cuda"
    assert info.backends == {"cpu": "none", "cuda": "none"}
    assert "forces the cuda kernels" in info.reasons["cpu"]
    assert "no CUDA device" in info.reasons["cuda"]


def test_info_here() -> None:
    assert set(backend_info().backends) == {"cpu", "cuda"}
