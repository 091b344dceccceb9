"""The rings of the test suite in order, from the quickest to the one that installs real torch releases.

The wheels are built once, by the farm, and everything after that tests those files.
"""

from __future__ import annotations

import argparse
import sys
import zipfile
from pathlib import Path
from typing import Optional, Sequence

from scripts.quickstart import ROOT, StepError, Stopwatch, builds_for_this_machine, run

EXAMPLES = """\
examples:
  nox -s tests                        everything
  nox -s tests -- --no-ring           without the ring of torch releases (large downloads)
  nox -s tests -- --only unit         one ring of tests
"""
RINGS = ("unit", "kernels", "ops", "integration", "ring")
FOLDERS = {
    "unit": ["tests/unit", "tests/cases"],
    "kernels": ["tests/kernels", "tests/kernels_cpu", "tests/gpu"],
    "ops": ["tests/ops"],
    "integration": ["tests/integration"],
    "ring": ["tests/ring"],
}


def build_wheelhouse(folder: Path) -> None:
    """Build, check and index the wheels that the later rings install."""
    only = [word for build in builds_for_this_machine(None) for word in ("--only", build)]
    farm = [sys.executable, "-m", "farm"]
    run([*farm, "build", *only, "--output", str(folder)])
    run([*farm, "check", *map(str, sorted(folder.glob("mamba_ssm-*.whl")))])
    run([*farm, "index", str(folder)])


def unpack_native(wheelhouse: Path, folder: Path) -> Path:
    """The native libraries out of the CPU wheel, for tests that run against the checkout."""
    (wheel,) = wheelhouse.glob("mamba_ssm-*+cpu-py3-none-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder, [name for name in archive.namelist() if name.startswith("mamba_ssm/_native/")])
    return folder / "mamba_ssm" / "_native"


def pytest(folders: Sequence[str], environment: dict[str, str]) -> None:
    existing = [folder for folder in folders if (ROOT / folder).is_dir()]
    run([sys.executable, "-m", "pytest", "-ra", "--durations=5", *existing], environment=environment)


def main(argv: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(
        prog="tests", description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--no-ring", action="store_true", help="leave out the ring of real torch releases")
    parser.add_argument("--only", choices=RINGS, action="append", help="run only this ring (may be repeated)")
    arguments = parser.parse_args(argv)
    rings = [ring for ring in RINGS if not arguments.only or ring in arguments.only]
    if arguments.no_ring and "ring" in rings:
        rings.remove("ring")

    watch = Stopwatch()
    wheelhouse = ROOT / "build" / "tests" / "wheelhouse"
    environment: dict[str, str] = {}
    try:
        for ring in rings:
            if ring in ("ops", "integration", "ring") and not environment:
                with watch.step("build the wheels under test"):
                    build_wheelhouse(wheelhouse)
                environment["MAMBA_TEST_WHEELHOUSE"] = str(wheelhouse)
                native = unpack_native(wheelhouse, ROOT / "build" / "tests" / "native")
            with watch.step(f"tests: {ring}"):
                extra = {"MAMBA_SSM_NATIVE_DIR": str(native)} if ring == "ops" else {}
                pytest(FOLDERS[ring], {**environment, **extra})
    except StepError as error:
        print(f"tests stopped: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        print("\n" + watch.report())
    return 0


if __name__ == "__main__":
    sys.exit(main())
