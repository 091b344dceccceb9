"""Layers built from the ops."""
