"""Proves an installed package by numbers: its self-check runs in the target interpreter, and its report is read here."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence

from mamba_install.process import Finished, Log, run
from mamba_install.records import SelfCheck

TIMEOUT = 900.0
# packages that bring `python -m PACKAGE.selfcheck --json`; of others only the import is tried
WITH_SELFCHECK = {"mamba_ssm"}


def verify(executable: str, package: str, log: Log, needs_binding: bool = False) -> SelfCheck:
    """Run the self-check away from any checkout, so that only what is installed is imported.

    With `needs_binding`, numbers that are right but come from the slow reference are a failure.
    """
    module = re.sub(r"[-.]+", "_", package)
    with tempfile.TemporaryDirectory(prefix="mamba-install-") as folder:
        if module in WITH_SELFCHECK:
            done = run([executable, "-m", f"{module}.selfcheck", "--json"], log, Path(folder), TIMEOUT)
            if is_not_installed(done, module):
                return SelfCheck(False, f"`{module}` is not installed beside `{executable}`", {})
            if not is_without_selfcheck(done, module):
                return read_report(done, needs_binding)
        done = run([executable, "-c", f"import {module}"], log, Path(folder), TIMEOUT)
    return import_verdict(done, module)


def is_without_selfcheck(done: Finished, module: str) -> bool:
    """A public package of the same name has no self-check; one that is there and fails is another matter."""
    return done.code != 0 and f"No module named {module}.selfcheck" in done.stderr


def is_not_installed(done: Finished, module: str) -> bool:
    """Not there at all, as opposed to there and broken."""
    return done.code != 0 and f"ModuleNotFoundError: No module named '{module}'" in done.stderr


def import_verdict(done: Finished, module: str) -> SelfCheck:
    """What a bare import proves."""
    if done.code != 0:
        last = (done.stderr.strip().splitlines() or [f"it ended with {done.code}"])[-1]
        return SelfCheck(False, f"`import {module}` failed: {last[:300]}", {})
    return SelfCheck(True, f"`import {module}` works; this package brings no self-check, so no numbers prove it", {})


def read_report(done: Finished, needs_binding: bool = False) -> SelfCheck:
    """The report of a self-check; one that crashed has none, and that is the verdict."""
    report = _last_object(done.stdout)
    if report is None or type(report.get("ok")) is not bool:
        if done.code < 0:
            return SelfCheck(False, f"the self-check was ended by signal {-done.code}", {})
        return SelfCheck(False, f"the self-check gave no report: {done.first_error}", {})
    checks = _checks(report)
    failed = [check for check in checks if not check.get("ok")]
    if failed or not report["ok"] or done.code != 0:
        first = f": {_describe(failed[0])}" if failed else f" (exit status {done.code})"
        return SelfCheck(False, f"{len(failed)} of {len(checks)} checks failed{first}", report)
    slow = _why_without_binding(report)
    if slow is not None and needs_binding:
        return SelfCheck(False, f"the compiled kernels of the wheel were not loaded: {slow}", report)
    beside = f"; only the reference in plain PyTorch serves: {slow}" if slow is not None else ""
    return SelfCheck(True, f"{len(checks)} checks passed against float64{beside}", report)


def _why_without_binding(report: Mapping[str, Any]) -> Optional[str]:
    info = report.get("backend_info")
    if not isinstance(info, dict) or "binding" not in info or info["binding"] is not None:
        return None
    return str(info.get("binding_reason") or "no reason given")


def _last_object(text: str) -> Any:
    """The JSON object that ends the output; warnings of other packages may stand before it."""
    for start in [match.start() for match in re.finditer(r"^\{", text, re.MULTILINE)][:20]:
        try:
            value = json.loads(text[start:])
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            return value
    return None


def _checks(report: Mapping[str, Any]) -> List[Dict[str, Any]]:
    listed = report.get("checks")
    return [check for check in listed if isinstance(check, dict)] if isinstance(listed, list) else []


def _describe(check: Mapping[str, Any]) -> str:
    what = check.get("message") or f"error {_number(check.get('max_error'))}"
    return f"{check.get('name')} on {check.get('device')} in {check.get('dtype')}, {what}"


def table(report: Mapping[str, Any]) -> List[str]:
    """The report as lines: one per check, then where the numbers come from."""
    rows: List[Sequence[str]] = [("check", "backend", "device", "dtype", "max error", "threshold", "")]
    for check in _checks(report):
        words = [str(check.get(key, "")) for key in ("name", "backend", "device", "dtype")]
        verdict = "ok" if check.get("ok") else f"FAILED {check.get('message') or ''}".strip()
        rows.append((*words, _number(check.get("max_error")), _number(check.get("threshold")), verdict))
    widths = [max(len(row[column]) for row in rows) for column in range(7)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    info = report.get("backend_info")
    if isinstance(info, dict) and info.get("binding"):
        lines.append(f"binding: {info['binding']} ({info.get('binding_reason')})")
    for key in ("torch", "peak_memory_mb"):
        if report.get(key) is not None:
            lines.append(f"{key.replace('_', ' ')}: {report[key]}")
    return lines if len(rows) > 1 else lines[1:]


def _number(value: object) -> str:
    return f"{value:.2e}" if isinstance(value, (int, float)) and not isinstance(value, bool) else str(value)
