"""The code blocks of README.md, so that what it shows is what is run."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).resolve().parents[1] / "README.md"


def code_blocks(language: str) -> list[str]:
    """Every fenced block of README.md in `language`, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def example() -> str:
    """The Python that README shows, as one program."""
    return "\n".join(code_blocks("python"))
