"""What is kept between runs, and what never is."""

import json
import os
from pathlib import Path

import pytest
from screen_helpers import diagnose, paste, settle

from doctor.tui.app import DoctorApp
from doctor.tui.state import INPUTS, LENGTH, RECENT, SIZE, State, folder


@pytest.fixture
def place(tmp_path):
    return str(tmp_path / "state" / "mindspore-doctor")


def test_switches_inputs_and_paths_come_back_from_a_private_file(place, tmp_path):
    state = State(place)
    state.choose("theme", "doctor-light")
    state.remember("smoke.python", "/opt/ms/bin/python")
    state.visit(str(tmp_path))
    again = State(place)
    assert again.choices == {"theme": "doctor-light"}
    assert again.recall("smoke.python") == "/opt/ms/bin/python" and again.recall("other") == ""
    assert again.recent == [str(tmp_path)]
    file = os.path.join(place, "state.json")
    assert os.stat(file).st_mode & 0o777 == 0o600 and os.stat(place).st_mode & 0o077 == 0
    assert os.listdir(place) == ["state.json"]
    again.forget()
    assert State(place).choices and not State(place).inputs and not State(place).recent


@pytest.mark.parametrize(
    "text",
    ["https://me:hunter2secret@git.example/x.git", "/data/hf_abcdefghijklmnopqrstuvwx", "--token abcd1234567890ef",
     "two\nlines", "\x1b[31mred", "x" * (LENGTH + 1), "a\u202eb"],
)  # fmt: skip
def test_secrets_pastes_and_control_characters_are_not_kept(place, text):
    state = State(place)
    state.remember("line", text)
    assert state.recall("line") == ""
    state.remember("line", "harmless")
    assert "hunter2secret" not in Path(place, "state.json").read_text(encoding="utf-8")


def test_a_path_is_kept_only_if_it_is_there_and_tells_no_secret(place, tmp_path):
    state = State(place)
    telling = tmp_path / "password=hunter2secret"
    telling.mkdir()
    for path in (tmp_path / "gone", telling, "\0"):
        state.visit(str(path))
    assert state.recent == []


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"\xff\xfe", b"[" * 5000, b'{"schema": "doctor.state/9", "recent": ["/"]}', b" " * (SIZE + 1),
     b'{"schema": "doctor.state/1", "choices": 3, "inputs": [1], "recent": {"a": 1}}',
     b'{"schema": "doctor.state/1", "choices": {"theme": 3}, "recent": [1, "", "relative", "/a\\u001b[31m"]}'],
)  # fmt: skip
def test_a_damaged_file_counts_as_none_and_is_written_anew(place, content):
    os.makedirs(place)
    with open(os.path.join(place, "state.json"), "wb") as file:
        file.write(content)
    state = State(place)
    assert (state.choices, state.inputs, state.recent) == ({}, {}, [])
    state.choose("theme", "doctor-dark")
    assert State(place).choices == {"theme": "doctor-dark"}


def test_the_file_does_not_grow(place, tmp_path):
    state = State(place)
    for n in range(200):
        (tmp_path / f"run-{n}").mkdir()
        state.visit(str(tmp_path / f"run-{n}"))
        state.remember(f"line {n}", "y" * 900)
    again = State(place)
    assert len(again.recent) == RECENT and again.recent[0].endswith("run-199")
    assert len(again.inputs) == INPUTS and "line 199" in again.inputs
    assert os.path.getsize(os.path.join(place, "state.json")) < SIZE


def test_links_pipes_and_folders_without_leave_cost_nothing(place, tmp_path):
    os.makedirs(place)
    secret = tmp_path / "secret.json"
    secret.write_text(json.dumps({"schema": "doctor.state/1", "choices": {"theme": "stolen"}}), encoding="utf-8")
    os.symlink(secret, os.path.join(place, "state.json"))
    assert State(place).choices == {}
    State(place).choose("theme", "mine")
    assert "stolen" in secret.read_text(encoding="utf-8") and State(place).choices == {"theme": "mine"}
    os.unlink(os.path.join(place, "state.json"))
    os.mkfifo(os.path.join(place, "state.json"))
    assert State(place).choices == {}
    (tmp_path / "file").write_text("x", encoding="utf-8")
    State(str(tmp_path / "file" / "below")).choose("theme", "x")


def test_the_folder_can_be_named_or_switched_off(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", "/there")
    monkeypatch.delenv("DOCTOR_STATE", raising=False)
    assert folder() == "/there/mindspore-doctor"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert folder() == "/home/me/.local/state/mindspore-doctor"
    monkeypatch.setenv("DOCTOR_STATE", str(tmp_path))
    assert folder() == str(tmp_path)
    monkeypatch.setenv("DOCTOR_STATE", "off")
    assert folder() == ""
    state = State(folder())
    state.choose("theme", "doctor-light")
    assert state.choices == {"theme": "doctor-light"}


async def test_a_second_run_begins_as_the_first_one_ended(run, place, tmp_path, monkeypatch):
    the = DoctorApp(lang="en", state=State(place))
    async with the.run_test() as pilot:
        the.action_theme()
        the.action_ascii()
        await pilot.press("l")
        await diagnose(pilot, "run")
        await paste(pilot, "first line\npassword=hunter2secret of a paste\n")
        await settle(pilot)
    kept = Path(place, "state.json").read_text(encoding="utf-8")
    assert "hunter2" not in kept and "paste" not in kept
    again = DoctorApp(state=State(place))
    async with again.run_test() as pilot:
        assert (again.lang, again.theme) == ("zh", "doctor-light")
        assert again.screen.has_class("-ascii")
        assert again.state.recent == [str(tmp_path / "run")]
    said = DoctorApp(lang="en", state=State(place), ascii_only=False)
    async with said.run_test() as pilot:
        assert said.lang == "en" and not said.screen.has_class("-ascii")
