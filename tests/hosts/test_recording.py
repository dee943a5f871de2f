"""Recordings: what was answered comes back the same, and a broken one is one clear line."""

from __future__ import annotations

import io
import json
import os
import tarfile
import time
from pathlib import Path

import pytest

from doctor.cli import run
from doctor.hosts import redact
from doctor.hosts.base import MemoryHost
from doctor.hosts.compose import example
from doctor.hosts.recording import Recorder, RecordingError, load, save
from doctor.model import Raw

RAWS = {
    "run npu-smi info": Raw("run npu-smi info", "ok", "table\n", "", 0, 0.5),
    "run hccn_tool -i 0 -link -g": Raw("run hccn_tool -i 0 -link -g", "timeout", "", "half", None, 10.0, True),
    "file /etc/hccn.conf": Raw("file /etc/hccn.conf", "missing"),
    "ask env": Raw("ask env", "ok", '{"A": "\\u00e9\\ud800"}'),
}


@pytest.mark.parametrize("name", ["rec", "rec.tar.gz", "rec.tgz"])
def test_a_recording_comes_back_as_it_was(tmp_path: Path, name: str) -> None:
    path = str(tmp_path / name)
    assert save(RAWS, path, "host1", redacted=True) == len(RAWS)
    host = load(path)
    assert host.name == "host1" and not host.live
    assert host.raws == RAWS
    assert host.run("lspci").state == "not_recorded"


def test_nothing_is_written_over(tmp_path: Path) -> None:
    for name in ("rec", "rec.tar.gz"):
        save(RAWS, str(tmp_path / name), "h", redacted=True)
        with pytest.raises(FileExistsError):
            save(RAWS, str(tmp_path / name), "h", redacted=True)


@pytest.mark.parametrize("name", ["rec.tar.gz", "rec"])
def test_a_full_disk_leaves_no_half_recording(tmp_path: Path, name: str) -> None:
    import resource

    raws = {"file /a": Raw("file /a", "ok", os.urandom(40_000).hex())}
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            save(raws, str(tmp_path / name), "h", redacted=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list(tmp_path.iterdir())


def test_an_archive_packed_again_by_hand_is_read(tmp_path: Path) -> None:
    save(RAWS, str(tmp_path / "rec"), "h", redacted=True)
    with tarfile.open(tmp_path / "again.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "rec", arcname="./some-folder")
    assert load(str(tmp_path / "again.tar.gz")).raws == RAWS


def break_manifest(path: Path, change: object) -> None:
    manifest = json.loads((path / "manifest.json").read_text())
    change(manifest)  # type: ignore[operator]
    (path / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda m: m.update(schema="doctor.recording/2"), "newer"),
        (lambda m: m.update(schema="other"), "not_one"),
        (lambda m: m.update(items={}), "damaged"),
        (lambda m: m["items"].append(3), "damaged"),
        (lambda m: m["items"][0].update(state="fine"), "damaged"),
        (lambda m: m["items"][0].update(out="../../etc/passwd"), "damaged"),
        (lambda m: m["items"][0].update(out="/etc/passwd"), "damaged"),
        (lambda m: m["items"][0].update(out=["x"]), "damaged"),
        (lambda m: m["items"][0].update(out="answers/none.txt"), "damaged"),
        (lambda m: m.update(items=m["items"] * 6000), "too_large"),
    ],
)
def test_a_broken_recording_is_refused_with_its_reason(tmp_path: Path, change: object, code: str) -> None:
    save(RAWS, str(tmp_path / "rec"), "h", redacted=True)
    break_manifest(tmp_path / "rec", change)
    with pytest.raises(RecordingError) as caught:
        load(str(tmp_path / "rec"))
    assert caught.value.code == code


def test_what_is_no_recording_is_one_clear_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.txt").write_text("x")
    (tmp_path / "cut.tar.gz").write_bytes(b"\x1f\x8b\x08\x00cut")
    (tmp_path / "bad.yaml").write_text("a: [")
    (tmp_path / "other.yaml").write_text("a: 1")
    for name in ("empty", "text.txt", "cut.tar.gz", "bad.yaml", "other.yaml", "none", "none.yaml"):
        assert run(["check", "--lang", "en", "--from", str(tmp_path / name)]) == 2
        out = capsys.readouterr()
        assert out.out == "" and len(out.err.splitlines()) == 1 and name in out.err


def test_members_of_an_archive_that_are_no_files_are_passed_over(tmp_path: Path) -> None:
    save(RAWS, str(tmp_path / "rec"), "h", redacted=True)
    with tarfile.open(tmp_path / "x.tar.gz", "w:gz") as archive:
        link = tarfile.TarInfo("rec/answers/0001.out.txt")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
        archive.add(tmp_path / "rec" / "manifest.json", arcname="rec/manifest.json")
    with pytest.raises(RecordingError) as caught:
        load(str(tmp_path / "x.tar.gz"))
    assert caught.value.code == "damaged"


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "bomb.tar.gz", "w:gz") as archive:
        info = tarfile.TarInfo("rec/answers/1")
        info.size = 300 << 20
        archive.addfile(info, io.BytesIO(bytes(300 << 20)))
    with pytest.raises(RecordingError) as caught:
        load(str(tmp_path / "bomb.tar.gz"))
    assert caught.value.code == "too_large"


def test_a_recorder_keeps_every_answer() -> None:
    recorder = Recorder(MemoryHost(RAWS))
    recorder.run("npu-smi", "info")
    recorder.read("/etc/hccn.conf")
    recorder.look("/dev/davinci*")
    recorder.ask("env")
    assert set(recorder.raws) == {"run npu-smi info", "file /etc/hccn.conf", "look /dev/davinci*", "ask env"}


# ------------------------------------------------------------------ redaction


def cleaned(texts: dict[str, str], name: str = "node-a.example.org") -> dict[str, str]:
    out, _ = redact.recording({k: Raw(k, "ok", v) for k, v in texts.items()}, name)
    return {key: raw.out for key, raw in out.items()}


def test_names_and_addresses_get_the_same_stand_in_everywhere() -> None:
    out = cleaned(
        {
            "ask system": json.dumps({"hostname": "node-a.example.org", "user": "zhangsan"}),
            "file /etc/hosts": "172.16.5.9 node-a.example.org node-a\n",
            "run lsmod": "home of zhangsan: /home/zhangsan/x and /home/lisi/y\nping 172.16.5.9",
        }
    )
    whole = "\n".join(out.values())
    for secret in ("node-a", "zhangsan", "lisi", "172.16.5.9", "example.org"):
        assert secret not in whole
    assert out["run lsmod"].count("user1") == 2 and "/home/user2/y" in out["run lsmod"]
    address = out["run lsmod"].rsplit(" ", 1)[1]
    assert out["file /etc/hosts"].startswith(address + " host1 ")


def test_networks_keep_their_members() -> None:
    addresses = ["192.168.10.5", "192.168.10.77", "192.168.11.5", "10.9.8.7", "255.255.255.0", "127.0.0.1", "0.0.0.0"]
    out = cleaned({"file /etc/hccn.conf": "\n".join(f"x={address}" for address in addresses)})
    a, b, c, d, mask, loop, unset = [line.partition("=")[2] for line in out["file /etc/hccn.conf"].split("\n")]
    assert a.rsplit(".", 1)[0] == b.rsplit(".", 1)[0] != c.rsplit(".", 1)[0]
    assert a.split(".")[:2] == c.split(".")[:2] != d.split(".")[:2]
    assert (mask, loop, unset) == ("255.255.255.0", "127.0.0.1", "0.0.0.0")
    assert a.endswith(".5") and b.endswith(".77")


def test_versions_times_and_bus_addresses_are_no_network_addresses() -> None:
    text = "Version=7.8.0.2\nfirmware 7.1.0.11\n8.0.0.1.220\n12:34:56 up\n0000:C1:00.0 d802\nLnkSta 3:4:5"
    assert cleaned({"file /x": text})["file /x"] == text


def test_secrets_serials_and_hardware_addresses_are_gone() -> None:
    out = cleaned(
        {"ask env": json.dumps({"HTTP": "http://me:hunter22@proxy:80"}),
         "run npu-smi info -t board -i 0": "\tSerial Number                  : 0334ABCDE\n\tNDIE ID : 1A2B 3C4D\n",
         "run lspci": "ether 3c:1a:2b:44:55:66 and fe80::3e1a:2bff:fe44:5566"}
    )  # fmt: skip
    whole = "\n".join(out.values())
    for secret in ("hunter22", "0334ABCDE", "1A2B", "3c:1a:2b", "3e1a:2bff"):
        assert secret not in whole


def test_an_address_beside_a_word_of_versions_in_one_line_of_json_is_replaced() -> None:
    env = {"HCCL_IF_IP": "172.16.5.9", "PYTHONPATH": "/opt/lib/python3.11/site-packages", "X": "version 8.2.0.1"}
    packages = {"packages": {"opencv": {"version": "4.9.0.80"}}, "near": "172.16.5.9"}
    out = cleaned({"ask env": json.dumps(env), "ask python": json.dumps(packages)})
    assert "172.16.5.9" not in "".join(out.values())
    assert "8.2.0.1" in out["ask env"] and "4.9.0.80" in out["ask python"]
    assert json.loads(out["ask env"])["HCCL_IF_IP"] == json.loads(out["ask python"])["near"]


def test_names_of_others_are_gone_and_stay_apart() -> None:
    net = {
        "interfaces": {"eth0": ["10.9.8.7"]},
        "hosts": ["127.0.0.1 localhost", "10.9.8.7 gpu-07.corp.lan gpu-07", "10.9.8.6 gpu-08 gateway eth0 # old"],
        "resolves": {"gpu-08": ["10.9.8.6"], "master01.acme.com": []},
    }
    out = cleaned({
        "ask net": json.dumps(net),
        "ask user": json.dumps({"user": "li", "groups": ["li", "secret-team", "docker", "HwHiAiUser"]}),
        "look /dev/davinci0": json.dumps([{"path": "/dev/davinci0", "group": "secret-team"}]),
        "run hccn_tool -i 0 -lldp -g": "System Name TLV\n\tBJ-LEAF-01\n",
        "run hccn_tool -i 1 -lldp -g": "System Name TLV\n\tBJ-LEAF-02\n",
        "run hccn_tool -i 0 -tls -g": "dev_id:0, [pub cert] info:\n         subject[/C=CN/O=Acme/CN=d.acme.com]\n",
        "run dmesg": "default gateway 10.9.8.1; nfs: server nas.acme.com not responding; mail li.si@acme.com\n",
        "file /proc/self/mountinfo": "37 35 0:51 / /x rw - cifs //f.acme.com/s username=svc_train,password=hunter22\n",
    })  # fmt: skip
    whole = "".join(out.values())
    for word in ("gpu-0", "corp.lan", "acme", "Acme", "secret-team", "BJ-LEAF", "li.si", "svc_train", "hunter22"):
        assert word not in whole, word
    switches = {text for key, text in out.items() if "-lldp" in key}
    assert len(switches) == 2 and "gateway" in out["run dmesg"] and "HwHiAiUser" in whole and '"docker"' in whole
    assert '"eth0"' in out["ask net"]
    group = json.loads(out["look /dev/davinci0"])[0]["group"]
    assert group in json.loads(out["ask user"])["groups"]


def test_a_line_made_to_be_slow_is_cleaned_quickly() -> None:
    began = time.monotonic()
    for text in ('["' + '\\"' * 200_000, "a." * 200_000, "x@" * 200_000, '{"a",' * 100_000):
        cleaned({"file /x": text})
    assert time.monotonic() - began < 5


def test_accounts_of_the_driver_stay() -> None:
    assert (
        "HwHiAiUser"
        in cleaned({"ask system": json.dumps({"user": "HwHiAiUser"}), "file /x": "HwHiAiUser root"})["file /x"]
    )


# ------------------------------------------------------------------ composed hosts


def test_an_example_may_be_made_of_texts_alone() -> None:
    host = example(
        {
            "file /a": "x",
            "run lsmod": {"out": "o", "err": "e", "code": 1},
            "ask env": {"A": "1"},
            "file /b": {"state": "denied"},
            "file /c": None,
        }
    )
    assert host.read("/a").out == "x" and host.run("lsmod").code == 1 and host.read("/b").state == "denied"
    assert host.read("/c").state == "missing" and json.loads(host.ask("env").out) == {"A": "1"}


def test_a_sample_is_a_name_and_no_path() -> None:
    with pytest.raises(RecordingError):
        example({"file /a": "sample:../../pyproject.toml"})
    with pytest.raises(OSError, match="No such file"):
        example({"file /a": "sample:none.txt"})


def test_recording_this_machine_and_judging_it_give_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "me.tar.gz")
    assert run(["record", path, "--lang", "en", "--no-redact"]) == 0
    assert os.path.exists(path) and "answers in" in capsys.readouterr().out
    said = []
    for more in ([], ["--from", path]):
        run(["check", "--format", "json", *more])
        report = json.loads(capsys.readouterr().out)
        said.append({(f["id"], f["verdict"]) for f in report["findings"] if f["verdict"] != "unknown"})
    assert said[0] == said[1]
