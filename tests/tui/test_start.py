"""The first picture: what it costs, and what it does not wait for."""

import subprocess
import sys

from textual.binding import Binding

from doctor.i18n import texts
from doctor.tui.app import DoctorApp
from doctor.tui.places import PLACES, RESULT

CHILD = """
import sys, time
import textual.app
began = time.process_time()
from doctor.tui.app import DoctorApp
from doctor.tui.screens.home import HomeScreen
app = DoctorApp(lang="en", glance=True)
show = app._display

def display(screen, what):
    show(screen, what)
    if isinstance(screen, HomeScreen):
        print(time.process_time() - began, *[m for m in sys.modules if m.startswith("doctor.tui.screens.")],
              app.checking is None, *[m for m in sys.modules if m in ("doctor.patch.apply", "doctor.smoke", "yaml")],
              file=sys.__stdout__)
        sys.__stdout__.flush()
        import os
        os._exit(0)

app._display = display
app.run(headless=True)
"""


def test_the_first_picture_takes_little_and_loads_no_other_screen():
    done = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, check=True, timeout=60)
    seconds, *modules = done.stdout.split()
    assert float(seconds) < 0.6  # of CPU: how long others keep the machine busy is not of our making
    assert modules == ["doctor.tui.screens.home", "True"]


def test_every_place_has_its_screen_its_action_and_its_texts():
    for place in (*PLACES, RESULT):
        screen = place.load()
        assert screen.KEY_SECTION is not None
    for place in PLACES:
        assert callable(getattr(DoctorApp, f"action_{place.name}"))
        for lang in ("zh", "en"):
            for kind in ("key", "about", "home"):
                assert texts(lang)[f"tui.{kind}.{place.name}"]
    keys = [place.key for place in PLACES]
    assert len(set(keys)) == len(keys)


def test_every_key_of_a_screen_leads_to_an_action():
    for screen in (place.load() for place in (*PLACES, RESULT)):
        for binding in screen.BINDINGS:
            assert isinstance(binding, Binding)
            target, _, name = binding.action.partition("(")[0].rpartition(".")
            assert hasattr(DoctorApp if target == "app" else screen, f"action_{name}"), (screen, binding.action)
