"""Time limits of tests, on machines that others use as well."""

import time


def busy():
    """How many times longer than on an idle machine everything takes at present."""
    wall, cpu = time.monotonic(), time.process_time()
    while time.process_time() - cpu < 0.2:
        pass
    return max(1.0, (time.monotonic() - wall) / 0.2)
