"""An application with rules of its own and a run to diagnose."""

import pytest
from screen_helpers import HERE, failing_run

from doctor.tui.app import DoctorApp


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
