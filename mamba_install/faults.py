"""The kinds of fault as rows of data: the wording that compilers, loaders and installers use, the facts that decide, the commands.

The order is the order of telling: what names its own cause stands before what could be the consequence of anything.
"""

from __future__ import annotations

from typing import Tuple

from mamba_install.fault import Fault
from mamba_install.faults_build import BUILD
from mamba_install.faults_install import GENERAL, NAMED
from mamba_install.faults_run import RUN

FAULTS: Tuple[Fault, ...] = (*NAMED, *BUILD, *RUN, *GENERAL)
