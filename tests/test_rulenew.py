"""A rule of a log line: masked, cut up, its examples true from the start."""

import os

import pytest
import yaml

from doctor import rulenew, ruletest, ruletry
from doctor.hosts.redact import example_line
from doctor.rulesearch import Index

LINES = [
    "[ERROR] HCCL(4711,python):2026-03-01-08:15:02.1.2 [x.cc:30] link of rank 3 is gone after 120 s",
    "[ERROR] DEVICE(8,7f00,python):2026-03-18-09:02:00.100.200 [a.cc:9] Run] POOL EMPTY for Mul-op1, size 4",
    "RuntimeError: no '/data/alice/a.py' on host: gpu-node17 (172.16.3.4:22), token=hf_abcdefghijklmnopqrstuv",
    "EI0006: Getting socket times out. Reason: Remote Rank did not send the data, dst rank 5, errcode 0x0500000C",
    "2026-03-01 08:00:11,123 - mindformers[a.py:8] - WARNING - The learning rate 3e-4 (step 12) of group_3 is weird",
    "错误 7：端口 8080 被占用",
    'it\'s "quoted" \\d+ (a|b) [c] {d} $e ^f',
    "a" * 5000,
    "yes: no",
]


@pytest.fixture(scope="module")
def index(base):
    return Index(base)


@pytest.mark.parametrize("line", LINES, ids=range(len(LINES)))
def test_a_rule_of_a_line_is_sound_fires_on_it_and_is_quiet_on_its_misses(base, index, line, tmp_path):
    made = rulenew.draft(base, "", line, index=index, hosts=["gpu-node17"], users=["alice"])
    path = str(tmp_path / f"{made.id}.yaml")
    rulenew.write(path, made.text)
    ran, failed, problems = ruletest.alone(path, base)
    assert (ran, [str(f) for f in failed], problems) == (3, [], [])
    assert ruletry.try_text(ruletry.of_file(path, base), made.line).verdict == "fires"
    assert made.id not in base and made.literal in made.line
    assert "alice" not in made.text and "gpu-node17" not in made.text and "172.16" not in made.text
    assert "hf_abc" not in made.text


def test_what_varies_becomes_captures_named_by_what_stands_before(base, index, tmp_path):
    line = "[ERROR] link of rank 3 on device 1 to dst rank 9 is gone after 120 s, size 4096, port 8080, loss: 2.5, 0x1f"
    made = rulenew.draft(base, "HCCL", line, index=index)
    path = str(tmp_path / f"{made.id}.yaml")
    rulenew.write(path, made.text)
    args = ruletry.try_text(ruletry.of_file(path, base), line).hits[0].args
    assert args == {"rank": "3", "device": "1", "remote_rank": "9", "seconds": "120", "size": "4096", "port": "8080",
                    "loss": "2.5", "code": "0x1f"}  # fmt: skip
    other = line.replace("rank 3", "rank 17").replace("4096", "1")
    assert ruletry.try_text(ruletry.of_file(path, base), other).hits[0].args["rank"] == "17"


def test_codes_and_types_stay_in_the_expression():
    parts = rulenew.split("EI0006 in float16 of MatMul on Ascend910B: 12 of 0x1f, see a_3")
    assert [(text, kind) for text, kind in parts if kind] == [("12", "number"), ("0x1f", "hex"), ("3", "counter")]


def test_the_family_and_topic_come_from_the_rules_most_like_it(base, index):
    rule = next(r for r in base if r.id == "HCCL010")
    line = base.whole(rule.id)["tests"]["hit"][0]["log"].split("\n")[0]
    made = rulenew.draft(base, "", line, index=index)
    assert made.id.startswith("HCCL") and made.topic == rule.topic and "HCCL010" in made.known + made.alike
    assert rulenew.draft(base, "MEM", line, index=index).id.startswith("MEM")


def test_a_quiet_record_gets_its_level(base, index, tmp_path):
    made = rulenew.draft(base, "RUN", "plug-in zebra is absent", index=index, level="INFO")
    assert yaml.safe_load(made.text)["match"]["log"]["level"] == ["INFO"]
    made = rulenew.draft(base, "RUN", "[ERROR] plug-in zebra is absent", index=index, level="INFO")
    assert "level" not in yaml.safe_load(made.text)["match"]["log"]


@pytest.mark.parametrize(
    ("line", "masked"),
    [
        ("peer 10.2.3.4 and 10.2.3.4, 10.9.9.9", "peer 192.0.2.1 and 192.0.2.1, 192.0.2.2"),
        ("at 127.0.0.1, 0.0.0.0, mask 255.255.0.0", "at 127.0.0.1, 0.0.0.0, mask 255.255.0.0"),
        ("2026-03-01-08:15:02.1.2 and ms::abc::def", "2026-03-01-08:15:02.1.2 and ms::abc::def"),
        ("fe80:12:34:56::9 up", "2001:db8::1 up"),
        ("mac 3c:fd:fe:01:02:03", "mac 00:00:5e:00:53:01"),
        ("/home/lee/a.py /usr/lib/x.so /data/lee/b.py", "/home/user/a.py /usr/lib/x.so /path/to/b.py"),
        ("hostname: trainer7, host=localhost", "hostname: host1, host=localhost"),
        ("user lee at box.corp.intranet", "user user1 at name1.example.net"),
        ("lee@corp.com password=hunter22", "user@example.com password=***"),
    ],
)  # fmt: skip
def test_a_line_is_masked_as_an_example_must_be(line, masked):
    assert example_line(line, ["box"], ["lee"]) == masked


def test_nothing_is_overwritten_and_nothing_is_put_into_the_package(tmp_path):
    import doctor

    path = tmp_path / "deep" / "RUN901.yaml"
    rulenew.write(str(path), "a")
    with pytest.raises(FileExistsError):
        rulenew.write(str(path), "b")
    assert path.read_text() == "a"
    inside = os.path.join(os.path.dirname(doctor.__file__), "RUN901.yaml")
    with pytest.raises(PermissionError):
        rulenew.write(inside, "a")
    link = tmp_path / "link"
    link.symlink_to(os.path.dirname(doctor.__file__))
    with pytest.raises(PermissionError):
        rulenew.write(str(link / "RUN901.yaml"), "a")
    assert not os.path.exists(inside)


def test_the_next_free_id_passes_over_drafts_and_old_ids(tmp_path):
    (tmp_path / "RUN002.yaml").write_text("")
    assert rulenew.free_id("RUN", ["RUN001", "RUN004", "MEM003"], str(tmp_path)) == "RUN003"


def test_the_command_guesses_the_family_and_names_rules_that_fire_already(cli, tmp_path):
    line = "EI0006: Getting socket times out. Reason: Remote Rank did not send the data in time, dst rank 5"
    ran = cli("rules", "new", "--from", line, "--dir", tmp_path)
    assert ran.code == 0 and "HCCL020" in ran.err
    (path,) = tmp_path.iterdir()
    assert path.name.startswith("HCCL")
    assert cli("rules", "new", "--dir", tmp_path).code == 2
