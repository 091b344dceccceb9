"""Generated examples are not timed: on a busy machine one may take long without anything being wrong."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
