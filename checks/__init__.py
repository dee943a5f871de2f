"""Judgements in Python; each is named by a rule. They import ``doctor.model`` only."""
