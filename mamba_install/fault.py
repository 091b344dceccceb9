"""One kind of fault as a value, and the commands that many rows share."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import Callable, Dict, Match, Optional, Tuple

from mamba_install.environment import Environment

# a log may repeat a line without end
PLACES = 200
Words = Dict[str, object]
# None: this row does not apply; otherwise the words of its sentence
Test = Callable[[Environment, Match[str]], Optional[Words]]


@dataclass(frozen=True)
class Fault:
    """One row. `key` names its sentences in the catalogue; `by_wheel`: another wheel, where one fits, is the cure."""

    key: str
    code: str
    pattern: str
    commands: Tuple[str, ...] = ()
    test: Optional[Test] = None
    by_wheel: bool = False

    def find(self, text: str, environment: Environment) -> Optional[Tuple[Match[str], Words]]:
        """The first place in the text that the facts agree with, and the words of the sentence."""
        places = re.finditer(self.pattern, text, re.IGNORECASE | re.MULTILINE)
        for match in itertools.islice(places, PLACES if self.pattern else 1):
            words: Optional[Words] = {} if self.test is None else self.test(environment, match)
            if words is not None:
                named = {name: value for name, value in match.groupdict().items() if value}
                return match, {**named, **words}
        return None


# in the commands {python} is the target interpreter, {package} the distribution
NO_ISOLATION = "{python} -m pip install --no-build-isolation --no-deps --no-cache-dir {package}"
PICK = "{pick}"  # this installer, for the package and the interpreter in question
FRESH = "{python} -m pip install --force-reinstall --no-deps --no-cache-dir {package}"
TOOLKIT = "{python} -m pip install nvidia-cuda-nvcc nvidia-cuda-runtime nvidia-cuda-crt"
CUDA_TORCH = "{python} -m pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/{flavour}"
