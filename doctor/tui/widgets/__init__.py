"""Widgets that are more than a line of text."""
