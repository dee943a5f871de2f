"""Checks of the device network, rank tables, communication variables and launch settings."""
