"""Checks of a training run: what loss, gradient norm, loss scale and step time say."""
