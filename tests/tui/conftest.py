"""An application with rules of its own and a run to diagnose."""

import asyncio

import pytest
from screen_helpers import HERE, failing_run, still
from textual.pilot import Pilot

from doctor.tui.app import DoctorApp


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """A key and a pause last until what they started is over, and notices stay: how long anything takes is the
    machine's affair."""
    press = Pilot.press

    async def patiently(pilot, *keys):
        for key in keys:
            await press(pilot, key)
            await still(pilot)

    async def pause(pilot, delay=None):
        await asyncio.sleep(delay or 0)
        await still(pilot)

    async def idle(*_):
        await asyncio.sleep(0)

    monkeypatch.setattr(Pilot, "press", patiently)
    monkeypatch.setattr(Pilot, "pause", pause)
    monkeypatch.setattr(DoctorApp, "NOTIFICATION_TIMEOUT", 3600.0)
    for module in ("app", "pilot"):
        monkeypatch.setattr(f"textual.{module}.wait_for_idle", idle)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A failing run in ``run`` below the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return failing_run(tmp_path / "run")


@pytest.fixture
def app(tmp_path, monkeypatch):
    """Builds an application: app("zh")."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def build(lang="en"):
        return DoctorApp(lang=lang, rules=str(HERE / "rules"))

    return build
