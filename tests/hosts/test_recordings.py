"""Every recorded host gives the failures it must give, and no others.

What a host must give stands in its file, under ``expect``, and was written from the facts before the checks:
``fail`` maps an id (or "A|B?", alternatives and globs) to what is known of the finding: its severity, and arguments as
text; ``device`` names all devices that fail, one or a list. ``advice`` are ids that may be advised, ``advice: any``
leaves it open; ``may`` are ids that say the same trouble again and are not asked for. Everything else that fails is
wrong. ``first`` is the rule that heads the report where several could.
"""

import fnmatch

import pytest
from fakes import HOSTS, load

from doctor import checkup
from doctor.hosts import recording
from doctor.model import Verdict

NAMES = sorted(path.stem for path in HOSTS.glob("*.yaml"))
HEALTHY = [name for name in NAMES if not load(name)["expect"]["fail"]]
BROKEN = [name for name in NAMES if name not in HEALTHY]
WHOLE = ["a2-8p", "a2-container", "a2-two-node", "a3-16d", "cpu"]


def same(pattern, rule_id):
    """Whether an expectation speaks of a rule."""
    return any(fnmatch.fnmatchcase(rule_id, one) for one in pattern.split("|"))


def device_of(finding):
    """The device a finding speaks of, as text; None if it speaks of none."""
    device = finding.args.get("device", finding.place.device)
    return None if device is None else str(device)


def told(finding):
    """A finding in one line, for the message of a test."""
    return f"{finding.id} {finding.severity} device={device_of(finding)} {dict(finding.args)}"


def differences(expect, findings):
    """What is not as it should be, one line each."""
    failed = [finding for finding in findings if finding.verdict is Verdict.FAIL]
    wrong = [f"crashed: {f.id} {f.args.get('what')}" for f in findings if f.verdict is Verdict.CRASH]
    advice = expect.get("advice") or []
    for pattern, wanted in expect["fail"].items():
        mine = [finding for finding in failed if same(pattern, finding.id)]
        if not mine:
            wrong.append(f"missing: {pattern} {wanted}")
            continue
        for name, value in wanted.items():
            if name == "device":
                devices = {str(one) for one in (value if isinstance(value, list) else [value])}
                seen = {device_of(finding) for finding in mine}
                if seen != devices:
                    wrong.append(f"{pattern}: devices {sorted(map(str, seen))}, not {sorted(devices)}")
            elif name == "severity":
                if value not in {finding.severity for finding in mine}:
                    wrong.append(f"{pattern}: {sorted({f.severity for f in mine})}, not {value}")
            elif not any(str(value) in str(finding.args.get(name)) for finding in mine):
                wrong.append(f"{pattern}: {name} is {[f.args.get(name) for f in mine]}, not {value}")
    for finding in failed:
        if any(same(pattern, finding.id) for pattern in (*expect["fail"], *(expect.get("may") or ()))):
            continue
        if finding.severity == "advice" and (advice == "any" or any(same(one, finding.id) for one in advice)):
            continue
        wrong.append(f"unexpected: {told(finding)}")
    return wrong


@pytest.fixture(scope="module")
def report_of(base):
    """The report of a recorded host, made once."""
    made = {}

    def report(name):
        if name not in made:
            made[name] = checkup.check(recording.load(str(HOSTS / f"{name}.yaml")), base=base)
        return made[name]

    return report


def rules_or_skip(base, name):
    """Skip a host whose rules do not exist yet."""
    there = [rule.id for rule in base if rule.kind == "check"]
    for pattern in load(name)["expect"]["fail"]:
        if not any(same(pattern, rule_id) for rule_id in there):
            pytest.skip(f"no rule {pattern}")


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_host_gives_its_failures_and_no_others(name, base, report_of):
    rules_or_skip(base, name)
    expect, report = load(name)["expect"], report_of(name)
    assert differences(expect, report.findings) == []
    if "first" in expect:
        assert same(expect["first"], report.diagnoses[0].rule), [one.rule for one in report.diagnoses]


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_host_gives_no_error_and_no_warning(name, report_of):
    report = report_of(name)
    assert differences(load(name)["expect"], report.findings) == []
    assert report.verdict in ("healthy", "advice", "unknown")


@pytest.mark.parametrize("name", WHOLE)
def test_most_checks_can_tell_on_a_host_that_answers_everything(name, report_of):
    findings = report_of(name).findings
    if len(findings) < 60:
        pytest.skip("few checks yet")
    untold = {f.id for f in findings if f.verdict is Verdict.UNKNOWN}
    assert len(untold) <= 0.08 * len({f.id for f in findings}), sorted(untold)


def test_a_host_without_an_npu_is_a_state_and_no_failure(report_of):
    findings = [f for f in report_of("cpu").findings if f.id.startswith("NPU")]
    if not findings:
        pytest.skip("no NPU checks yet")
    assert {f.verdict for f in findings} <= {Verdict.NOT_APPLICABLE, Verdict.PASS}


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_host_has_two_titles_and_a_base_that_exists(name):
    import yaml

    host = yaml.safe_load((HOSTS / f"{name}.yaml").read_text(encoding="utf-8"))
    assert host["schema"] == "doctor.host/1" and host["title"]["zh"] and host["title"]["en"].isascii() is not None
    assert set(host) <= {"schema", "title", "base", "absent", "expect", "items"}
    assert "base" not in host or (HOSTS / f"{host['base']}.yaml").is_file()
    assert all(key.split(" ")[0] in ("run", "file", "look", "ask") for key in host["items"])
    assert recording.load(str(HOSTS / f"{name}.yaml")).raws


def test_every_sample_is_in_the_index_and_the_index_names_no_other():
    import re

    listed = re.findall(r"^\| `([^`]+)` \|", (HOSTS / "samples" / "INDEX.md").read_text(encoding="utf-8"), re.M)
    there = {path.name for path in (HOSTS / "samples").iterdir()} - {"INDEX.md"}
    assert set(listed) == there and len(listed) == len(there) == 214


def test_there_are_enough_hosts():
    assert len(BROKEN) >= 28 and len(HEALTHY) >= 5


@pytest.mark.parametrize(
    ("name", "code", "strictly"),
    [
        ("a2-8p", 0, 0),
        ("cpu", 0, 0),
        ("npu-pair-without-hccs", 0, 1),
        ("npu-alarm-hbm-ecc", 1, 1),
        ("ver-cann-mixed", 1, 1),
    ],
)
def test_the_exit_code_says_what_was_found(cli, name, code, strictly):
    path = HOSTS / f"{name}.yaml"
    ran = cli("check", "--from", path)
    assert (ran.code, cli("check", "--from", path, "--fail-on", "warning").code) == (code, strictly)
    assert ran.out and not ran.err
