"""Checks of the machine: host, NPU, versions."""
