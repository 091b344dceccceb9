"""Exit codes are a promise: one per class, none twice."""

from __future__ import annotations

import inspect

from mamba_install import errors


def test_exit_codes_are_unique() -> None:
    classes = [one for _, one in inspect.getmembers(errors, inspect.isclass) if issubclass(one, errors.InstallerError)]
    codes = [one.exit_code for one in classes]
    assert len(set(codes)) == len(codes)
    assert {errors.EXIT_DONE, errors.EXIT_INTERRUPTED}.isdisjoint(codes)


def test_exit_codes_stay_what_they_are() -> None:
    assert errors.UsageError.exit_code == 2
    assert errors.NothingFitsError.exit_code == 3
    assert errors.BuildNeededError.exit_code == 4
    assert errors.NetworkError.exit_code == 5
    assert errors.CheckError.exit_code == 6
    assert errors.SelfCheckError.exit_code == 7
    assert errors.InstallRefusedError.exit_code == 10
