"""What the PCI bus, device files, modules and driver files say of an NPU; expectations from the samples' INDEX."""

import json
import os
from pathlib import Path

import pytest

from doctor.hosts.base import MemoryHost
from doctor.model import Fact, Raw, Unknown
from doctor.probes import devices
from doctor.probes.base import run

SAMPLES = Path(os.environ.get("DOCTOR_SAMPLES", Path(__file__).parents[2] / "fixtures/hosts/samples"))


def sample(name: str) -> str:
    path = SAMPLES / name
    if not path.exists():
        pytest.skip(f"no sample {name}")
    return path.read_text(encoding="utf-8", errors="replace")


def facts(raws, absent=True):
    out = {}
    from doctor.probes import system

    for done in run(MemoryHost(raws, absent=absent), [*devices.PROBES, *system.PROBES]):
        out.update(done.facts)
    return out


@pytest.mark.parametrize(
    ("name", "count", "device", "family"),
    [
        ("lspci__910A__8cards.txt", 8, "d801", "910A"),
        ("lspci__910A__one-card-dropped.txt", 7, "d801", "910A"),
        ("lspci__910B__8cards.txt", 8, "d802", "A2"),
        ("lspci__A3__16dies.txt", 16, "d803", "A3"),
    ],
)
def test_lspci_samples_give_the_stated_chips(name, count, device, family):
    rows = devices.parse_lspci(sample(name))
    assert len(rows) == count
    assert {(row["id"], row["family"]) for row in rows} == {(device, family)}


@pytest.mark.parametrize(
    ("line", "device", "bus"),
    [
        ("0000:9d:00.0 1200: 19e5:d803 (rev 20)", "d803", "0000:9d:00.0"),
        ("c1:00.0 Processing accelerators [1200]: Huawei Technologies Co., Ltd. Ascend 910B [19e5:d802]", "d802",
         "0000:c1:00.0"),
        ("c1:00.0 Processing accelerators: Huawei Technologies Co., Ltd. Ascend 310P Series AI Processor", "d500",
         "0000:c1:00.0"),
        ("01:00.0 Processing accelerators: Huawei Technologies Co., Ltd. Device d999", "d999", "0000:01:00.0"),
        ("02:00.0 Ethernet controller: Huawei Technologies Co., Ltd. Hi1822 Family (2*100GE) (rev 45)", None, ""),
        ("03:00.0 VGA compatible controller: Huawei Technologies Co., Ltd. Hi171x Series [iBMC]", None, ""),
        ("7d:00.0 0200: 19e5:a222 (rev 21)", None, ""),
        ("04:00.0 3D controller: NVIDIA Corporation GA100 (rev a1)", None, ""),
        ("junk", None, ""),
    ],
)  # fmt: skip
def test_only_ascend_chips_of_any_lspci_form_are_chips(line, device, bus):
    rows = devices.parse_lspci(line)
    assert [(row["id"], row["bus"]) for row in rows] == ([(device, bus)] if device else [])


def test_the_bus_is_read_from_sysfs_where_there_is_no_lspci_and_none_is_an_answer():
    rows = {"total": 90, "devices": [
        {"bus": "0000:c1:00.0", "device": "d802", "class": "120000", "speed": 16.0, "width": 8, "max_width": 16},
        {"bus": "0000:01:00.0", "device": "1822", "class": "020000"}, "junk", {"bus": 3},
    ]}  # fmt: skip
    found = facts({"ask pci": json.dumps(rows)})["npu.pci"]
    assert (found.value["count"], found.value["family"], found.value["devices"][0]["width"]) == (1, "A2", 8)
    assert facts({"ask pci": json.dumps({"total": 12, "devices": []})})["npu.pci"].value["count"] == 0
    assert facts({"run lspci": ""})["npu.pci"].value["count"] == 0


@pytest.mark.parametrize(
    "raws", [{}, {"ask pci": "{}"}, {"ask pci": "[1]"}, {"ask pci": '{"total": 0, "devices": []}'}]
)
def test_a_bus_that_cannot_be_seen_is_unknown(raws):
    assert isinstance(facts(raws)["npu.pci"], Unknown)


USER = {"user": "train", "uid": 1000, "groups": ["train"], "root": False}
MEMBER = {**USER, "groups": ["HwHiAiUser", "train"]}


@pytest.mark.parametrize(
    ("name", "numbers", "present", "user", "use"),
    [
        ("ls-l_dev__A2__host-8cards.txt", list(range(8)), "msh", USER, False),
        ("ls-l_dev__A2__host-8cards.txt", list(range(8)), "msh", MEMBER, True),
        ("ls-l_dev__A2__for-all-666.txt", list(range(8)), "msh", USER, True),
        (
            "ls-l_dev__A2__container-one-card.txt",
            [4],
            "msh",
            {"uid": 0, "root": True, "user": "root", "groups": []},
            True,
        ),
        ("ls-l_dev__A2__container-missing-manager.txt", [0, 1], "s", USER, False),
    ],
)
def test_ls_samples_give_the_stated_device_files(name, numbers, present, user, use):
    found = facts({"look /dev/davinci*": sample(name), "ask user": json.dumps(user), "ask system": "{}"})[
        "npu.nodes"
    ].value
    assert [row["number"] for row in found["devices"]] == numbers
    assert "".join(k[0] for k in ("manager", "svm", "hdc") if found[k]) == present.replace("h", "h")
    assert {row["use"] for row in found["devices"]} == {use}


def test_what_was_tried_on_the_machine_beats_the_mode():
    row = {"r": True, "w": False, "mode": "666", "user": "a", "group": "b"}
    assert devices.may_use(row, {}) is False
    assert devices.may_use({**row, "w": None, "mode": "660"}, {}) is None
    assert devices.may_use({**row, "w": None, "mode": "x"}, {"root": True}) is None


def test_device_files_from_json_and_junk():
    rows = [{"path": "/dev/davinci0", "kind": "char", "mode": "660", "user": "u", "group": "g", "r": True, "w": True},
            {"path": "/etc/passwd"}, 7]  # fmt: skip
    found = facts({"look /dev/davinci*": json.dumps(rows), "look /dev/devmm_svm": "[broken"})["npu.nodes"].value
    assert [row["path"] for row in found["devices"]] == ["/dev/davinci0"]
    assert found["svm"] is None
    assert isinstance(facts({}, absent=False)["npu.nodes"], Unknown)


def test_modules_of_lsmod_and_proc():
    text = sample("lsmod__A2__loaded.txt")
    found = facts({"run lsmod": text, "file /proc/modules": Raw("", "missing")})["npu.modules"].value
    assert found["count"] == 17
    assert "drv_pcie_host" in found["loaded"]
    look = json.dumps([{"path": "/lib/modules/5.10.0-60/updates/drv_pcie_host.ko"}, {"path": "/x"}])
    found = facts({"file /proc/modules": "ext4 1 0 - Live 0x0\n",
                   "look /lib/modules/*/updates/drv_pcie_host.ko*": look})["npu.modules"].value  # fmt: skip
    assert (found["loaded"], found["built_for"]) == ([], ["5.10.0-60"])
    assert isinstance(facts({})["npu.modules"], Unknown)


@pytest.mark.parametrize(
    ("name", "status", "mode", "everyone"),
    [
        ("etc_ascend_install.info__host__complete.info", "complete", "normal", "no"),
        ("etc_ascend_install.info__host__for-all.info", "complete", "normal", "yes"),
        ("etc_ascend_install.info__host__not-complete.info", None, "normal", "no"),
        ("etc_ascend_install.info__container__image.info", None, None, "no"),
    ],
)
def test_install_info_samples(name, status, mode, everyone):
    found = facts({"file /etc/ascend_install.info": sample(name)})["npu.driver_files"].value
    assert found["root"] == "/usr/local/Ascend"
    assert found["info"].get("Driver_Install_Status") == status
    assert found["info"].get("Driver_Install_Mode") == mode
    assert found["info"]["Driver_Install_For_All"] == everyone


def test_files_of_a_driver_elsewhere_and_a_folder_made_by_a_broken_mount():
    raws = {
        "file /etc/ascend_install.info": "Driver_Install_Path_Param=/opt/npu/\n",
        "file /opt/npu/driver/version.info": "Version=24.1.0\n",
        "look /usr/local/sbin/npu-smi": json.dumps([{"path": "/usr/local/sbin/npu-smi", "kind": "dir"}]),
    }
    found = facts(raws)["npu.driver_files"].value
    assert (found["root"], found["files"]["version"]) == ("/opt/npu", "/opt/npu/driver/version.info")
    assert (found["files"]["npu_smi"], found["kinds"]["npu_smi"]) == (None, "dir")
    bad = facts({"file /etc/ascend_install.info": "Driver_Install_Path_Param=/a/[*]\n"})["npu.driver_files"].value
    assert bad["root"] == "/usr/local/Ascend"
    assert isinstance(facts({}, absent=False)["npu.driver_files"], Unknown)


def test_tools_of_core_binding():
    found = facts({"run lscpu": "Architecture: aarch64"})["host.tools"]
    assert isinstance(found, Fact)
    assert found.value == {"lspci": "missing", "lscpu": "ok"}
