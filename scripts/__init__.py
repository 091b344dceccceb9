"""Short entry points that CI, nox and people call."""
