"""Settings that cannot work are refused with the reason, in both languages, before anything starts."""

import pytest

from doctor.smoke.faults import FAULTS, NAMES, armed, caught
from doctor.smoke.settings import Settings, SettingsError, checked, from_mapping


def test_the_defaults_work():
    assert checked(Settings()) == Settings()
    assert Settings().training_steps == 40
    assert Settings(mode="pynative").training_steps == 20
    assert Settings(mode="pynative", steps=9).training_steps == 9


@pytest.mark.parametrize(
    ("knobs", "word"),
    [
        ({"hidden": 100, "heads": 12}, "divisible by heads"),
        ({"hidden": 36, "heads": 4, "positions": "rope"}, "even head size"),
        ({"heads": 4, "kv_heads": 3}, "divisible by kv_heads"),
        ({"hidden": 64, "heads": 4, "head_dim": 15, "positions": "rope"}, "even head size"),
        ({"batch": 4, "accumulation": 3}, "divisible by accumulation"),
        ({"steps": 3}, "at least 8"),
        ({"amp": "O1"}, "amp is one of"),
        ({"device": "gpu"}, "device is one of"),
        ({"layers": 0}, "between"),
        ({"ranks": -1}, "between"),
        ({"dropout": 1.5}, "between"),
        ({"dropout": float("nan")}, "between"),
        ({"limit": 0}, "between"),
    ],
)
def test_what_cannot_work_is_refused(knobs, word):
    with pytest.raises(SettingsError, match=word) as refused:
        checked(Settings(**knobs))
    assert refused.value.zh != refused.value.en


def test_an_unknown_name_is_refused():
    with pytest.raises(SettingsError, match="colour"):
        from_mapping({"colour": "red"})


def test_every_fault_names_a_rule_and_is_described(base):
    assert len(FAULTS) == len(set(NAMES)) == 15
    for fault in FAULTS:
        assert all(rule in base for rule in fault.named), fault.name
        assert fault.about["zh"] and fault.about["en"]


def test_a_fault_brings_what_it_needs():
    assert armed(Settings(inject="worker-missing")).ranks == 2
    assert armed(Settings()) == Settings()


def test_a_fault_is_caught_only_by_the_rule_that_heads():
    assert caught(Settings(inject="unshifted"), ["NUM606", "NUM605"]) is True
    assert caught(Settings(inject="unshifted"), ["NUM605", "NUM606"]) is False
    assert caught(Settings(inject="unshifted"), []) is False
    assert caught(Settings(), ["NUM606"]) is None
