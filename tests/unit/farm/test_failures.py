"""A failed build comes down to one line that says what is wrong, and one that says what helps."""

from __future__ import annotations

import inspect

import pytest

from farm import errors, ninja
from farm.process import Finished, first_error, hint_for

NINJA = """\
[1/4] build/a.o
[2/4] build/b.o
FAILED: [code=1] build/b.o
g++ -O3 -c b.cpp -o build/b.o
In file included from b.cpp:1:
b.h:3:10: fatal error: c.h: No such file or directory
    3 | #include "c.h"
compilation terminated.
[3/4] build/c.o
FAILED: build/c.o
nvcc -arch=sm_30 c.cu
nvcc fatal   : Unsupported gpu architecture 'compute_30'
[4/4] build/d.o
ninja: build stopped: subcommand failed.
"""


def test_failures_are_taken_apart() -> None:
    failures = ninja._failures(NINJA)
    assert [failure.output for failure in failures] == ["build/b.o", "build/c.o"]
    assert "fatal error" in failures[0].said
    assert "build/d.o" not in failures[1].said


def test_the_error_names_the_build_the_first_error_the_hint_and_the_log() -> None:
    finished = Finished(("ninja",), 1, NINJA)
    error = ninja.explain(finished, ninja._failures(NINJA), {"build/b.o": "mamba_ssm-x"})
    assert str(error) == (
        "mamba_ssm-x: `build/b.o` could not be made; 1 more failed: b.h:3:10: fatal error: c.h: No such file or directory\n"
        "hint: a file is missing: is the checkout or the toolkit complete?; the whole log: build/logs/mamba_ssm-x.log"
    )
    assert error.exit_code == 8


@pytest.mark.parametrize(
    "said, line, hint",
    [
        ("warning: x\nnvcc error   : 'cicc' died due to signal 9 (Kill signal)", "nvcc error   : 'cicc'", "MAX_JOBS=1"),
        ("g++: fatal error: Killed signal terminated program cc1plus", "g++: fatal error: Killed", "MAX_JOBS=1"),
        ("virtual memory exhausted: Cannot allocate memory\nKilled", "Killed", "MAX_JOBS=1"),
        ("fatal error: error writing to /tmp/x.s: No space left on device", "fatal error", "the disk is full"),
        (
            "ptxas fatal   : Value 'sm_130' is not defined for option 'gpu-name'",
            "ptxas fatal",
            "does not know the architecture",
        ),
        (
            "#error -- unsupported GNU version! gcc versions later than 15 are not supported!\nx: error: y",
            "",
            "older g++",
        ),
        (
            "torch/extension.h:1: fatal error: torch/x.h: No such file or directory",
            "torch/extension.h",
            "headers are incomplete",
        ),
        (
            "/usr/bin/ld: a.o: undefined reference to `f'\ncollect2: error: ld returned 1",
            "/usr/bin/ld: a.o",
            "remove the folder build/",
        ),
        ("something odd", "something odd", None),
    ],
)
def test_first_error_and_hint(said: str, line: str, hint: str | None) -> None:
    assert first_error(said).startswith(line)
    found = hint_for(said, 1)
    assert (found is None) if hint is None else (found is not None and hint in found)


def test_a_silent_command_and_a_killed_one() -> None:
    assert first_error("") == "the command said nothing"
    assert "MAX_JOBS" in (hint_for("", -9) or "")


def test_ninja_that_stops_without_a_failure_of_its_own() -> None:
    said = "ninja: error: 'csrc/a.cpp', needed by 'a.o', missing and no known rule to make it\n"
    assert "missing and no known rule" in str(ninja.explain(Finished(("ninja",), 1, said), (), {}))


def test_each_class_of_error_has_an_exit_code_of_its_own() -> None:
    classes = [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, errors.FarmError)]
    codes = [c.exit_code for c in classes]
    assert len(codes) == len(set(codes)) == 6
    assert str(errors.UsageError("what", "do this")) == "what\nhint: do this"
    assert str(errors.UsageError("what")) == "what"
