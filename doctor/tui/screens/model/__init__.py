"""Configurations before a run: findings by file, memory, the plan's values, patches, and what was patched so far."""

from doctor.tui.screens.model.screen import ModelScreen

__all__ = ["ModelScreen"]
