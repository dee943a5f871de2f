"""What is wrong in Python sources. Each check gets one file as ``doctor.source.tree.Module``."""
