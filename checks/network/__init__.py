"""Judgements about collectives: rank tables, variables, the launch, the device network."""
