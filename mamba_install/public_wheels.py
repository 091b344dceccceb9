"""What is known of the public packages' wheels and their names cannot say: device code, false labels, partners.

Read from the public build files at their tags; our own wheels carry all of this inside.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Optional, Tuple

from mamba_install.records import Candidate
from mamba_install.wheel_names import parse_version
from mamba_install.world import OWN_VERSIONS

# (distribution, first version, device code, then what a toolkit from a version on adds); SASS only, never PTX
_SM_OLD = "5.3 6.2 7.0 7.2"
ARCHS: Tuple[Tuple[str, str, Tuple[Tuple[str, str, str], ...]], ...] = (
    # rows of (lowest toolkit, highest toolkit, archs); newest first
    (
        "mamba-ssm",
        "2.3.2",
        (("11", "99", "7.5 8.0 8.7 9.0"), ("12.8", "99", "10.0 12.0"), ("13.0", "99", "10.3 11.0 12.1")),
    ),
    (
        "mamba-ssm",
        "2.2.6",
        (
            ("11", "12.9", _SM_OLD),
            ("11", "99", "7.5 8.0 8.7 9.0"),
            ("12.8", "99", "10.0 12.0"),
            ("13.0", "99", "10.3 11.0 12.1"),
        ),
    ),
    ("mamba-ssm", "2.2.5", (("11", "99", f"{_SM_OLD} 8.0 8.7 9.0"), ("12.8", "99", "10.0"))),
    ("mamba-ssm", "1.2.1", (("11", "99", f"{_SM_OLD} 8.0 8.7 9.0"),)),
    ("mamba-ssm", "0", (("11", "99", "7.0 8.0 9.0"),)),
    (
        "causal-conv1d",
        "1.6.2.post1",
        (("11", "99", "7.5 8.0 8.7 9.0"), ("12.8", "99", "10.0 12.0"), ("13.0", "99", "10.3 11.0 12.1")),
    ),
    (
        "causal-conv1d",
        "1.5.3",
        (
            ("11", "12.9", "6.2 7.0 7.2"),
            ("11", "99", "7.5 8.0 8.7 9.0"),
            ("12.8", "99", "10.0 12.0"),
            ("13.0", "99", "10.3 11.0 12.1"),
        ),
    ),
    ("causal-conv1d", "1.5.1", (("11", "99", f"{_SM_OLD} 8.0 8.7 9.0"), ("12.8", "99", "10.0"))),
    ("causal-conv1d", "1.2.1", (("11", "99", f"{_SM_OLD} 8.0 8.7 9.0"),)),
    ("causal-conv1d", "0", (("11", "99", "7.0 8.0 9.0"),)),
)
# a label with the CUDA major only: the newest toolkit that the build of that time used
_TOOLKIT_OF_MAJOR = {"cu11": "11.8", "cu12": "12.9", "cu13": "13.0"}
# from these versions on, files labelled `cu12 torch2.6 cxx11abiFALSE` were compiled against torch 2.6+cu126, whose ABI is 1
# https://github.com/pytorch/pytorch/issues/152790
FALSE_LABELS = {"mamba-ssm": "2.2.5", "causal-conv1d": "1.5.1", "flash-attn": "2.8.0"}
# compiled against a pre-release of the torch that the label names
NIGHTLY_BUILT = {
    ("mamba-ssm", "1.0.1", "2.2"),
    ("mamba-ssm", "1.2.0.post1", "2.3"),
    ("mamba-ssm", "2.2.2", "2.4"),
    ("mamba-ssm", "2.2.4", "2.6"),
    ("causal-conv1d", "1.4.0", "2.4"),
    ("causal-conv1d", "1.5.0.post8", "2.6"),
}
# mamba_ssm from a version on, and the causal_conv1d it can call
PARTNERS: Tuple[Tuple[str, str], ...] = (
    ("2.2.5", ">=1.5.1"),
    ("1.2.0", ">=1.2.0,<1.5.1"),
    ("1.1.0", ">=1.1.0,<1.2.0"),
    ("0", ">=1.0.0,<1.1.0"),
)
PROJECTS = {
    "mamba-ssm": "state-spaces/mamba",
    "causal-conv1d": "Dao-AILab/causal-conv1d",
    "flash-attn": "Dao-AILab/flash-attention",
}


def is_public(candidate: Candidate) -> bool:
    """Whether a wheel is of a public package and not of this project."""
    own = OWN_VERSIONS.get(candidate.name.canonical_name)
    return candidate.name.canonical_name in PROJECTS and not (own and candidate.name.sort_version >= parse_version(own))


def public_archs(candidate: Candidate) -> Optional[Tuple[str, ...]]:
    """The device code that a public wheel holds; None where nothing is known of it."""
    label = candidate.name.label
    if not is_public(candidate) or label is None or not label.accelerator.startswith("cu"):
        return None
    return _archs(candidate.name.canonical_name, candidate.name.version, label.accelerator)


@lru_cache(maxsize=1024)
def _archs(canonical_name: str, version: str, accelerator: str) -> Optional[Tuple[str, ...]]:
    digits = accelerator[2:]
    toolkit = f"{digits[:2]}.{digits[2:]}" if len(digits) > 2 else _TOOLKIT_OF_MAJOR.get(accelerator)
    if toolkit is None:
        return None
    for distribution, first, rows in ARCHS:
        if canonical_name == distribution and parse_version(version) >= parse_version(first):
            built = parse_version(toolkit)
            found = [archs for low, high, archs in rows if parse_version(low) <= built <= parse_version(high)]
            return tuple(" ".join(found).split())
    return None


def has_false_label(candidate: Candidate) -> bool:
    """A file whose name says ABI 0 and whose code is ABI 1."""
    name, label = candidate.name, candidate.name.label
    first = FALSE_LABELS.get(name.canonical_name)
    if first is None or label is None or not is_public(candidate):
        return False
    return (
        label.torch == "2.6"
        and label.cxx11abi is False
        and label.accelerator.startswith("cu12")
        and name.sort_version >= parse_version(first)
    )


def is_nightly_built(candidate: Candidate) -> bool:
    name, label = candidate.name, candidate.name.label
    return label is not None and (name.canonical_name, name.version, label.torch) in NIGHTLY_BUILT


def partner(candidate: Candidate) -> Optional[str]:
    """The range of causal_conv1d that a public mamba_ssm can call."""
    if candidate.name.canonical_name != "mamba-ssm" or not is_public(candidate):
        return None
    return next(range_ for first, range_ in PARTNERS if candidate.name.sort_version >= parse_version(first))


def needs_python_310(candidate: Candidate) -> bool:
    """causal_conv1d 1.5.1 to 1.5.4 write annotations that Python 3.9 cannot read, and were published for it."""
    name = candidate.name
    return name.canonical_name == "causal-conv1d" and parse_version("1.5.1") <= name.sort_version < parse_version("1.6")


def asset_url(candidate: Candidate) -> Optional[str]:
    """Where the public project keeps this file."""
    project = PROJECTS.get(candidate.name.canonical_name)
    if project is None or not is_public(candidate):
        return None
    name = candidate.name
    return f"https://github.com/{project}/releases/download/v{name.version}/{name.filename.replace('+', '%2B')}"
