"""Judgements about the host: its parts, its limits, its versions, its NPUs."""
