"""The training plan: what a run is about to do, in one normal form, each value with the place it stands."""
