"""Driver, firmware, CANN and packages as facts: files of every generation, links, several installations, junk."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.hosts.base import MemoryHost
from doctor.hosts.compose import folder
from doctor.hosts.live import LiveHost
from doctor.model import Fact, Raw, Unknown
from doctor.probes import base, versions
from doctor.probes.pasted_versions import from_text, packages

NAMES = (
    "ver.driver",
    "ver.firmware",
    "ver.cann",
    "ver.python",
    "ver.mindspore",
    "ver.mindformers",
    "ver.wheel",
    "ver.chain",
)


DRIVER = "file /usr/local/Ascend/driver/version.info"


def sample(name):
    with open(f"{folder()}/samples/{name}", encoding="utf-8") as file:
        return file.read()


def look(*paths, kind="dir", target=""):
    return json.dumps([{"path": p, "kind": kind, "mode": "755", "target": target, "size": 0} for p in paths])


def ask(host, **facts):
    known = {name.replace("_", ".", 1): Fact(name.replace("_", ".", 1), value) for name, value in facts.items()}
    found = {}
    for probe in versions.PROBES:
        found.update({fact.name: fact for fact in probe.read(host, {**known, **found})})
    return found


# ------------------------------------------------------------------ driver and firmware


def test_driver_and_firmware_files():
    driver = versions.driver_of(sample("driver_version.info__23.0.7.info"))
    assert driver == {
        "version": "23.0.7", "inner": "V100R001C15SPC012B220", "family": "C15", "line": 1,
        "families": ["C29", "C30", "C13", "C15"], "firmware": [["7.0.0", "7.1.99"]],
    }  # fmt: skip
    firmware = versions.firmware_of(sample("firmware_version.info__7.1.0.11.220.info"))
    assert firmware == {"version": "7.1.0.11.220", "package": "23.0.7", "drivers": ["23.0.rc3", "23.0.0"], "line": 1}


@pytest.mark.parametrize(
    "text", ["", "Version", "version=25.2.0", "Version=", "Version=none", "\0" * 99, "Version=x.y"]
)
def test_a_file_without_a_version_is_none(text):
    assert versions.driver_of(text) is None and versions.firmware_of(text) is None


def test_the_registry_says_where_the_driver_is():
    host = MemoryHost({
        "file /etc/ascend_install.info": "Driver_Install_Path_Param=/opt/hdk\n",
        "file /opt/hdk/driver/version.info": "Version=25.2.1\n",
    }, absent=True)  # fmt: skip
    fact = ask(host)["ver.driver"]
    assert fact.value["version"] == "25.2.1" and fact.evidence.source == "/opt/hdk/driver/version.info"
    assert fact.evidence.line == 1


def test_npu_smi_answers_where_the_file_is_not_mounted():
    seen = ("npu-smi info", 2, "| npu-smi 25.2.0  Version: 25.2.0 |")
    board = [{"driver": "25.2.0", "firmware": "7.7.0.6.236", "compatibility": "OK", "seen": ("npu-smi", 5, "Firmware")}]
    found = ask(MemoryHost({}, absent=True), npu_smi={"driver": "25.2.0", "seen": seen}, npu_board=board)
    assert (found["ver.driver"].value["version"], found["ver.driver"].value["origin"]) == ("25.2.0", "npu-smi")
    assert found["ver.driver"].evidence.line == 2
    assert found["ver.firmware"].value["version"] == "7.7.0.6.236"


@pytest.mark.parametrize(
    ("host", "facts", "why", "applies"),
    [
        (MemoryHost({}, absent=True), {}, "no_file", True),
        (MemoryHost({}, absent=True), {"npu_pci": {"count": 0}}, "no_npu", False),
        (MemoryHost({}, absent=True), {"npu_pci": {"count": 8}}, "no_file", True),
        (MemoryHost({}), {}, "not_recorded", True),
        (MemoryHost({DRIVER: "junk"}, absent=True), {}, "not_understood", True),
        (MemoryHost({DRIVER: Raw("", "denied")}, absent=True), {}, "denied", True),
    ],
)  # fmt: skip
def test_a_driver_that_cannot_be_read_says_why(host, facts, why, applies):
    fact = ask(host, **facts)["ver.driver"]
    assert isinstance(fact, Unknown) and (fact.why, fact.applies) == (why, applies)


# ------------------------------------------------------------------ CANN


OLD_FILE = "Version=7.7.0.1.238\nversion_dir=8.1.RC1\n"
OLD = {
    "look /usr/local/Ascend/ascend-toolkit/*": look(
        "/usr/local/Ascend/ascend-toolkit/8.1.RC1", "/usr/local/Ascend/ascend-toolkit/latest"
    ),
    "look /usr/local/Ascend/ascend-toolkit/latest/*": look(
        "/usr/local/Ascend/ascend-toolkit/latest/compiler", kind="link", target="../8.1.RC1/compiler"
    ),
    "look /usr/local/Ascend/ascend-toolkit/8.1.RC1/*": look(
        "/usr/local/Ascend/ascend-toolkit/8.1.RC1/compiler", "/usr/local/Ascend/ascend-toolkit/8.1.RC1/opp_kernel"
    ),
    "file /usr/local/Ascend/ascend-toolkit/8.1.RC1/compiler/version.info": OLD_FILE,
    "file /usr/local/Ascend/ascend-toolkit/8.1.RC1/opp_kernel/version.info": OLD_FILE,
    "file /usr/local/Ascend/ascend-toolkit/8.1.RC1/aarch64-linux/ascend_toolkit_install.info": sample(
        "ascend_toolkit_install.info__8.1.RC1.info"
    ),
}
NEW = {
    "look /usr/local/Ascend/cann*": json.dumps([
        {"path": "/usr/local/Ascend/cann", "kind": "link", "target": "cann-8.5.0"},
        {"path": "/usr/local/Ascend/cann-8.5.0", "kind": "dir", "target": ""},
    ]),
    "look /usr/local/Ascend/cann-8.5.0/*": look(
        "/usr/local/Ascend/cann-8.5.0/compiler", "/usr/local/Ascend/cann-8.5.0/set_env.sh"
    ),
    "look /usr/local/Ascend/cann-8.5.0/share/info/*": look(
        "/usr/local/Ascend/cann-8.5.0/share/info/ops_nn", "/usr/local/Ascend/cann-8.5.0/share/info/runtime"
    ),
    "file /usr/local/Ascend/cann-8.5.0/compiler/version.info": "Version=8.5.0.2.220\nversion_dir=cann\n",
    "file /usr/local/Ascend/cann-8.5.0/share/info/ops_nn/version.info": "Version=8.5.0.2.220\nversion_dir=8.5.0\n",
}  # fmt: skip


def cann(items, **env):
    fact = ask(MemoryHost(items, absent=True), **({"host_env": env} if env else {}))["ver.cann"]
    assert isinstance(fact, Fact)
    return fact.value


def test_up_to_8_3_latest_is_a_folder_of_links():
    value = cann(OLD, ASCEND_HOME_PATH="/usr/local/Ascend/ascend-toolkit/latest")
    (one,) = value["installs"]
    assert (one["root"], one["names"]) == (
        "/usr/local/Ascend/ascend-toolkit/8.1.RC1", ["/usr/local/Ascend/ascend-toolkit/latest"],
    )  # fmt: skip
    assert (one["version"], one["internal"], one["arch"], one["layout"]) == (
        "8.1.RC1", "7.7.0.1.238", "aarch64", "closed",
    )  # fmt: skip
    assert one["inner"] == "V100R001C21SPC001B238" and one["families"] == ["C15", "C18", "C19", "C20", "C21"]
    assert one["ops"] == [{"package": "kernels", "version": "8.1.RC1"}] and one["opp_kernel"] is True
    assert one["sourced"] and value["sourced"] == one["root"] and value["mixed"] == []


def test_from_8_5_cann_is_a_link():
    value = cann(
        NEW, ASCEND_HOME_PATH="/usr/local/Ascend/cann-8.5.0", LD_LIBRARY_PATH="/usr/local/Ascend/cann/lib64:/lib"
    )
    (one,) = value["installs"]
    assert (one["root"], one["version"], one["internal"], one["layout"]) == (
        "/usr/local/Ascend/cann-8.5.0", "8.5.0", "8.5.0.2.220", "open",
    )  # fmt: skip
    assert one["ops"] == [{"package": "ops_nn", "version": "8.5.0"}] and one["opp_kernel"] is False
    assert one["set_env"] == "/usr/local/Ascend/cann/set_env.sh" and value["mixed"] == [], "two spellings of one root"


def test_two_roots_in_one_shell_are_mixed():
    value = cann({**OLD, **NEW}, ASCEND_HOME_PATH="/usr/local/Ascend/cann",
                 PYTHONPATH="/usr/local/Ascend/ascend-toolkit/latest/python/site-packages:/home/me")  # fmt: skip
    assert len(value["installs"]) == 2
    assert value["mixed"] == ["/usr/local/Ascend/cann-8.5.0", "/usr/local/Ascend/ascend-toolkit/8.1.RC1"]


def test_a_folder_that_is_only_called_cann_mixes_nothing():
    home = {"look /home/me/cann": look("/home/me/cann"), "look /home/me/cann/*": look("/home/me/cann/src")}
    value = cann({**NEW, **home}, ASCEND_HOME_PATH="/usr/local/Ascend/cann", PYTHONPATH="/home/me/cann/src")
    assert value["mixed"] == [] and len(value["installs"]) == 1


def test_a_variable_that_leads_nowhere_is_kept():
    value = cann(OLD, ASCEND_HOME_PATH="/usr/local/Ascend/ascend-toolkit/7.0.0")
    assert value["home"].endswith("7.0.0") and value["sourced"] is None and not value["installs"][0]["sourced"]


def test_no_cann_at_all():
    assert cann({}, HOME="/root")["env_known"] is False, "a few exported lines are not the whole"
    value = cann({}, HOME="/root", PATH="/usr/bin")
    assert value["installs"] == [] and value["home"] == "" and value["env_known"] is True
    assert isinstance(ask(MemoryHost({}))["ver.cann"], Unknown)


@pytest.mark.parametrize(
    ("env", "marks"),
    [
        ({"ASCEND_HOME": "/usr/local/Ascend"}, ["ASCEND_HOME"]),
        ({"ASCEND_HOME": "/x", "ASCEND_HOME_PATH": "/y"}, []),
        ({"LD_LIBRARY_PATH": "/usr/local/Ascend/fwkacllib/lib64:/lib"}, ["LD_LIBRARY_PATH"]),
        ({"LD_LIBRARY_PATH": "/usr/local/Ascend/latest/fwkacllib/lib64:/usr/local/Ascend/latest/lib64"}, []),
        ({"MS_DEV_CLOSE_VERSION_CHECK": "ON"}, ["MS_DEV_CLOSE_VERSION_CHECK"]),
        ({}, []),
    ],
)
def test_settings_of_old_manuals(env, marks):
    assert [name for name, _ in versions.legacy_marks(env)] == marks


def test_links_that_lead_in_a_circle_end():
    row = [{"path": "/usr/local/Ascend/cann", "kind": "link", "target": "/usr/local/Ascend/cann-1.0.0"}]
    back = [{"path": "/usr/local/Ascend/cann-1.0.0", "kind": "link", "target": "cann"}]
    value = cann({"look /usr/local/Ascend/cann*": json.dumps(row + back)})
    assert value["installs"] == []


@pytest.mark.parametrize(
    "junk", ["", "7", "{}", '{"path": 3}', "[1, null]", '[{"path": "/usr/local/Ascend/cann", "kind": 3}]']
)
def test_junk_from_the_file_system_is_no_cann(junk):
    items = {"look /usr/local/Ascend/cann*": junk, "look /usr/local/Ascend/ascend-toolkit/*": junk}
    assert cann(items, ASCEND_HOME_PATH=7, PATH=None, LD_LIBRARY_PATH="::/:/x")["installs"] == []


def test_version_cfg_and_nnal():
    cfg = versions.parse_version_cfg(
        "# version: 1.0\nruntime_running_version=[7.3.0.9.999:8.0.RC2]\n"
        "runtime_installed_version=[7.1.0.9.999:7.0.0][7.3.0.9.999:8.0.RC2]\nx_version=[]\n"
    )
    assert cfg["runtime_running_version"] == [("7.3.0.9.999", "8.0.RC2")]
    assert cfg["runtime_installed_version"] == [("7.1.0.9.999", "7.0.0"), ("7.3.0.9.999", "8.0.RC2")]
    nnal = versions.parse_nnal("    Ascend-cann-atb : 8.2.RC9\n    Ascend-cann-atb Version : 8.2.RC9.B001\n")
    assert nnal["ascend-cann-atb"] == "8.2.RC9"


# ------------------------------------------------------------------ Python


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        ({"state": "missing", "error": ""}, "no_python"),
        ({"state": "timeout"}, "timeout"),
        ({"state": "failed", "error": "Fatal Python error: no module named encodings"}, "python_failed"),
        ({"state": "ok"}, "python_failed"),
        ([1, 2], "python_failed"),
    ],
)
def test_a_python_that_does_not_answer(raw, why):
    found = ask(MemoryHost({"ask python": json.dumps(raw)}, absent=True))
    for name in versions.PYTHON_FACTS:
        assert isinstance(found[name], Unknown) and found[name].why == why


@pytest.mark.parametrize(
    ("requires", "name", "spec"),
    [
        (["mindspore~=2.7.0rc1"], "mindspore", "~=2.7.0rc1"),
        (["mindspore (>=2.0,<3)"], "mindspore", ">=2.0,<3"),
        (["numpy<2.0.0,>=1.20.0"], "numpy", "<2.0.0,>=1.20.0"),
        (["numpy==1.26 ; python_version < '3.9'"], "numpy", "==1.26"),
        (["numpydoc>=1"], "numpy", ""),
        (["numpy"], "numpy", ""),
        ([], "numpy", ""),
    ],
)
def test_requirements(requires, name, spec):
    assert versions.requirement({"requires": requires}, name) == spec


@pytest.mark.parametrize(
    "junk",
    ["", "{}", "[]", "null", '{"version": 3}', '{"version": "3.11", "packages": []}',
     '{"version": "3.11", "mindspore": 7, "packages": {"mindspore": 3, "numpy": []}}',
     '{"version": "3.11", "mindspore": {"version": [], "accepted": 3, "ascend": 1, "elf": 5, "built_with": []}}'],
)  # fmt: skip
def test_an_answer_of_another_form_is_a_state(junk):
    probes = [p for p in versions.PROBES if p.name == "ver.python"]
    (done,) = base.run(MemoryHost({"ask python": junk}, absent=True), probes)
    assert set(done.facts) == set(versions.PYTHON_FACTS)


# ------------------------------------------------------------------ everywhere


@pytest.mark.parametrize("host", [MemoryHost({}), MemoryHost({}, absent=True)])
def test_a_host_with_nothing_gives_every_fact(host):
    found = ask(host)
    assert set(NAMES) <= set(found)


def test_this_machine():
    began = time.process_time()
    found = {}
    for done in base.run(LiveHost(), base.wanted(base.all_probes(), ["ver.cann", "ver.python"])):
        found.update(done.facts)
    assert isinstance(found["ver.python"], Fact) and isinstance(found["ver.cann"], Fact)
    assert time.process_time() - began < 5


@given(st.text(max_size=400))
def test_no_text_ends_a_parser(text):
    versions.parse_info(text)
    versions.parse_version_cfg(text)
    versions.parse_nnal(text)
    versions.driver_of(text)
    from_text(text)


def test_long_junk_is_read_in_no_time():
    began = time.process_time()
    for junk in (
        "a=" * 500_000,
        "[" * 1_000_000,
        "Version=" + "1." * 500_000,
        "x==1\n" * 200_000,
        "pip list " * 100_000,
    ):
        versions.parse_version_cfg(junk)
        versions.driver_of(junk)
        from_text(junk)
    assert time.process_time() - began < 3


# ------------------------------------------------------------------ pasted texts


PIP_LIST = """$ pip list
Package            Version
------------------ -----------
mindformers        1.6.0
mindspore          2.7.1
numpy              1.26.4
requests           2.32.0      /opt/src/requests
"""


def test_pip_list():
    assert packages(PIP_LIST) == {"mindformers": "1.6.0", "mindspore": "2.7.1", "numpy": "1.26.4", "requests": "2.32.0"}
    value = json.loads(from_text("$ python -V\nPython 3.11.4\n" + PIP_LIST)["ask python"].out)
    assert value["version"] == "3.11.4" and set(value["packages"]) == {"mindformers", "mindspore", "numpy"}


@pytest.mark.parametrize(
    ("text", "some"),
    [
        ("(ms) user@host:~$ pip freeze\nmindspore==2.7.0\nnumpy==2.1.0\n", {"mindspore": "2.7.0", "numpy": "2.1.0"}),
        ("# packages in environment at /opt/conda/envs/ms:\n#\n# Name  Version  Build  Channel\n"
         "numpy                     1.26.4          py311h64a7726_0    conda-forge\n"
         "mindspore                 2.7.0                    pypi_0    pypi\n",
         {"numpy": "1.26.4", "mindspore": "2.7.0"}),
        ("mindspore==2.2.14\nmindformers==1.0.2\nnumpy==1.26.4\n", {}),
        ("numpy>=1.20\nmindspore==2.7.0\n", {}),
        ("The package has version 2.7.0\n", {}),
    ],
)  # fmt: skip
def test_what_is_installed_and_what_is_wanted(text, some):
    assert packages(text) == some


def test_freeze_without_its_command():
    names = ["absl-py", "attrs", "mindspore", "numpy", "pillow", "protobuf", "scipy", "six"]
    assert len(packages("\n".join(f"{n}==1.0" for n in names))) == 8
    assert packages("\n".join(f"{n}==1.0" for n in reversed(names))) == {}, "people do not sort, pip freeze does"


def test_version_files():
    keys = from_text(
        sample("driver_version.info__23.0.7.info") + "\n" + sample("firmware_version.info__7.1.0.11.220.info")
    )
    assert set(keys) == {"file /usr/local/Ascend/driver/version.info", "file /usr/local/Ascend/firmware/version.info"}
    found = ask(MemoryHost({k: v if isinstance(v, Raw) else Raw(k, "ok", v) for k, v in keys.items()}))
    assert found["ver.driver"].value["version"] == "23.0.7"
    keys = from_text("$ cat install.info\n" + sample("ascend_toolkit_install.info__8.1.RC1.info"))
    assert "file /usr/local/Ascend/ascend-toolkit/8.1.RC1/aarch64-linux/ascend_toolkit_install.info" in keys
    found = ask(MemoryHost({k: v if isinstance(v, Raw) else Raw(k, "ok", v) for k, v in keys.items()}))
    assert found["ver.cann"].value["installs"][0]["version"] == "8.1.RC1"


def test_a_pasted_list_is_judged(tmp_path):
    from doctor.engine import diagnose

    path = tmp_path / "pip.txt"
    path.write_text(PIP_LIST)
    report = diagnose([str(path)])
    assert [d.rule for d in report.diagnoses][:1] == ["VER526"]
    assert report.diagnoses[0].severity == "warning"
    whole = tmp_path / "whole.txt"
    whole.write_text(PIP_LIST.replace("2.7.1", "2.7.0"))
    assert not diagnose([str(whole)]).diagnoses
