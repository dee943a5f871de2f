"""A recording, plain or redacted, gives the verdicts of its host; nothing of its owner is in the redacted one."""

import pytest
from fakes import HOSTS

from doctor import checkup
from doctor.hosts import recording, redact
from doctor.hosts.base import MemoryHost
from doctor.model import Verdict
from doctor.render import checks, text

NAMES = sorted(path.stem for path in HOSTS.glob("*.yaml"))


def verdicts(report):
    """What was found, without the words: (id, verdict, severity, device)."""
    return sorted((f.id, f.verdict.value, f.severity, str(f.place.device)) for f in report.findings)


@pytest.fixture(scope="module")
def recorded(base):
    """A host, recorded while it was checked: (report, answers)."""
    made = {}

    def record(name):
        if name not in made:
            recorder = recording.Recorder(recording.load(str(HOSTS / f"{name}.yaml")))
            made[name] = checkup.check(recorder, base=base), recorder.raws
        return made[name]

    return record


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_gives_the_same_verdicts(name, base, recorded, tmp_path):
    report, raws = recorded(name)
    path = tmp_path / ("rec.tar.gz" if len(name) % 2 else "rec")
    recording.save(raws, str(path), "host", redacted=False)
    assert verdicts(checkup.check(recording.load(str(path)), base=base)) == verdicts(report)


@pytest.mark.parametrize("name", NAMES)
def test_a_redacted_recording_gives_the_same_verdicts(name, base, recorded):
    report, raws = recorded(name)
    clean, host = redact.recording(raws, "node-a")
    assert verdicts(checkup.check(MemoryHost(clean, host), base=base)) == verdicts(report)


@pytest.mark.parametrize("name", ["a2-8p", "a2-two-node", "a2-cann-in-home", "a2-container", "cpu"])
def test_a_redacted_recording_names_nobody(name, recorded):
    import re

    _, raws = recorded(name)
    clean, host = redact.recording(raws, "node-a")
    whole = host + "".join(raw.key + raw.out + raw.err for raw in clean.values())
    for word in ("node-a", "trainer", "workstation", "3f2a9c7b1d04", "198.51.100.", "192.0.2.", "SN000000000000"):
        assert not re.search(rf"(?<![\w.]){re.escape(word)}", whole.replace("/usr/", "")), word


@pytest.mark.parametrize("lang", ["zh", "en"])
@pytest.mark.parametrize("name", NAMES)
def test_every_report_is_whole_sentences(name, lang, recorded):
    report, _ = recorded(name)
    for every in (False, True):
        shown = text.plain(checks.layout(report, lang, every=every))
        assert "{" not in shown.replace("HCCL_", "").replace("{0..7}", "") or not _holes(shown), _holes(shown)


def _holes(shown):
    """Placeholders that nothing filled."""
    import re

    return re.findall(r"\{[a-z_]+\??\}", shown)


@pytest.mark.parametrize("name", ["a2-8p", "a3-16d", "a2-two-node"])
def test_a_host_does_not_differ_from_itself(name, base, recorded):
    from doctor import compare

    host = recording.load(str(HOSTS / f"{name}.yaml"))
    run = checkup.Checkup(host, base=base)
    for _ in run.steps():
        pass
    found = compare.against(run.report(), run.facts, host, checkup.DEFAULTS, base).findings
    assert not [f for f in found if f.id.endswith(("590", "591")) and f.verdict is Verdict.FAIL]
