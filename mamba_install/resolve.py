"""The decision: a pure function of the facts, the candidates and the policy. It reads nothing and changes nothing."""

from __future__ import annotations

from typing import Iterable, List, Tuple

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from mamba_install import public_wheels
from mamba_install.diagnosis import diagnose
from mamba_install.environment import Environment
from mamba_install.records import Candidate, Decision, Policy, Rejection
from mamba_install.rules import cuda_major, driver_is_below_toolkit, known_abi, numbers, objections


def resolve(environment: Environment, candidates: Iterable[Candidate], policy: Policy) -> Decision:
    """Hold every candidate against every rule; the best that fits, or the diagnosis of why none does."""
    offered = list(candidates)
    asked = [candidate for candidate in offered if _is_asked_for(candidate, policy)]
    fitting: List[Candidate] = []
    rejected: List[Rejection] = []
    for candidate in asked:
        reasons = objections(environment, candidate, policy)
        if reasons:
            rejected.append(Rejection(candidate, reasons))
        else:
            fitting.append(candidate)
    rejected.sort(key=_nearness)
    if not fitting:
        return diagnose(environment, offered, tuple(rejected), policy)
    fitting.sort(key=lambda candidate: _preference(candidate, environment, policy))
    best = fitting[0]
    return Decision(
        outcome="wheel",
        code=None,
        candidate=best,
        command=None,
        message=_explain(best, fitting, environment, policy),
        hint=None,
        rejected=tuple(rejected),
        fitting=tuple(fitting),
        notes=tuple(_notes(best, environment)),
    )


def _is_asked_for(candidate: Candidate, policy: Policy) -> bool:
    if candidate.name.canonical_name != canonicalize_name(policy.package):
        return False
    return policy.version is None or SpecifierSet(policy.version).contains(
        candidate.name.sort_version, prereleases=True
    )


def _newest_first(candidate: Candidate) -> Tuple[int, ...]:
    """A key that sorts newer public versions first."""
    version: Version = candidate.name.sort_version
    parts = (*version.release, 0, 0, 0, 0)[:4]
    post = version.post + 1 if version.post is not None else 0
    return (*(-part for part in parts), int(version.is_prerelease), -post)


def _nearness(rejection: Rejection) -> Tuple[object, ...]:
    """Sorts what does not fit: the fewest and most fixable reasons, then the newest of everything."""
    candidate, label = rejection.candidate, rejection.candidate.name.label
    torch = numbers(label.torch) if label is not None and label.torch is not None else (0, 0)
    newest = (-torch[0], -torch[1], -(cuda_major(candidate) or 0))
    return (rejection.distance, _newest_first(candidate), newest, candidate.filename)


def _kind_rank(candidate: Candidate, policy: Policy) -> int:
    label = candidate.name.label
    if label is None:
        return 2
    return int((label.kind == "classic") != policy.prefer_classic)


def _preference(candidate: Candidate, environment: Environment, policy: Policy) -> Tuple[object, ...]:
    """Sorts what fits: kernels for torch's own accelerator, the preferred kind, the newest, the nearest CUDA, a name."""
    label = candidate.name.label
    for_cuda = cuda_major(candidate) is not None
    wanted = environment.accelerator == "cuda" and not policy.accept_cpu
    return (
        label is not None and for_cuda != wanted and environment.accelerator is not None,
        _kind_rank(candidate, policy),
        _newest_first(candidate),
        _cuda_distance(candidate, environment),
        _build_number(candidate),
        candidate.location is None,
        candidate.filename,
    )


def _build_number(candidate: Candidate) -> int:
    digits = "".join(character for character in (candidate.name.build or "0")[:9] if character.isdecimal())
    return -int(digits or 0)


def _cuda_distance(candidate: Candidate, environment: Environment) -> int:
    """0 for torch's own CUDA minor, 1 for a label that names the major only, more for another minor."""
    label = candidate.name.label
    if label is None or not label.accelerator.startswith("cu") or environment.cuda is None:
        return 0
    digits = label.accelerator[2:]
    if len(digits) < 3:
        return 1
    distance = abs(int(digits[2:]) - numbers(environment.cuda)[1])
    return 0 if distance == 0 else 1 + distance


def _explain(best: Candidate, fitting: List[Candidate], environment: Environment, policy: Policy) -> str:
    label = best.name.label
    if label is None:
        return f"`{best.filename}` fits: it holds no compiled code, and no wheel with kernels fits"
    if label.kind == "universal":
        why = f"universal, holds a binding that serves torch {environment.torch}, and survives a torch upgrade"
    else:
        abi = known_abi(environment)
        why = f"classic, for exactly torch {label.torch}, C++11 ABI {int(bool(abi))} and {label.accelerator}"
    others = len(fitting) - 1
    if not others:
        return f"`{best.filename}` fits: {why}"
    order = "classic before universal, as asked" if policy.prefer_classic else "universal before classic"
    return f"`{best.filename}` fits best: {why}; preferred to {others} more by: {order}, then the newest, then the nearest CUDA"


def _notes(best: Candidate, environment: Environment) -> Iterable[str]:
    """What the user should know although the wheel fits."""
    label, torch = best.name.label, environment.torch_version
    if environment.accelerator == "cuda" and environment.has_gpu is False:
        if label is not None and label.accelerator == "cpu":
            yield f"no GPU is here and no wheel for CUDA {environment.cuda} was preferred: this one computes on the CPU only"
        else:
            yield "no GPU is here: the wheel will compute with its CPU kernels until there is one"
    elif environment.accelerator in ("cuda", "rocm", "xpu") and label is not None and label.accelerator == "cpu":
        yield f"CPU kernels only, as asked: the GPU of torch {environment.torch} stays idle"
    below = driver_is_below_toolkit(environment, best)
    if below is not None:
        yield below
    contents = best.contents
    if torch is not None and label is not None and label.kind == "universal":
        if torch.build != "release":
            yield f"torch {torch.text} is a {torch.build} build: served by the stable binding, which no test has seen with it"
        elif contents is not None and contents.tested and numbers(torch.minor) > numbers(contents.tested):
            yield f"torch {torch.minor} is newer than {contents.tested}, the newest that this wheel was tested with"
    if public_wheels.is_nightly_built(best) and label is not None:
        yield f"this public file was compiled against a pre-release of torch {label.torch}: prove it before relying on it"
    partner = public_wheels.partner(best)
    if partner is not None:
        yield f"this mamba_ssm calls causal_conv1d `{partner}`: install that with it, chosen by `--package causal_conv1d`"
    if environment.cxx11abi is None and label is not None and label.kind == "classic":
        yield "the C++11 ABI was not read from torch's library: taken from the table of official wheels"
    if environment.glibc is None and environment.system == "linux" and best.name.platform != "any":
        yield "the glibc version is not known: assumed to be new enough"
