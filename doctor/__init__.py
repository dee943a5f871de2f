"""MindSpore Doctor: diagnostics for MindSpore training on Ascend NPUs."""

__version__ = "0.1.0"
