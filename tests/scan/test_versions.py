# ruff: noqa: E501  (a log line is as long as it is)
"""Version facts: every spelling that was seen, and the numbers that are none."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.scan.versions import KEYS, facts


def values(text: str) -> dict[str, str]:
    found = facts(text.encode())
    assert set(found) <= set(KEYS)
    return {key: value for key, (value, _) in found.items()}


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("mindspore", "2.3.0", "mindspore          2.3.0"),
        ("mindspore", "2.3.0", "mindspore==2.3.0"),
        ("mindspore", "2.0.0", "mindspore=2.0.0"),
        ("mindspore", "2.3.0rc2", "container MindSpore: 2.3.0rc2"),
        ("mindspore", "2.3.0", "MindSpore version: 2.3.0"),
        ("mindspore", "2.10.0", "MindSpore version:  2.10.0"),
        ("mindspore", "2.3", "MindSpore版本：2.3"),
        ("mindspore", "2.2.14", "- **MindSpore version**: `2.2.14`"),
        ("mindspore", "2.2.0", "-- MindSpore version (e.g., 1.7.0.Bxxx) : 2.2.0"),
        ("mindspore", "2.4.1", "| MindSpore | 2.4.1 |"),
        ("mindspore", "2.2.10.20231124", "mindspore: 2.2.10.20231124"),
        ("mindspore", "2.3.1", "Successfully installed mindspore-2.3.1 numpy-1.26.4"),
        ("mindspore", "2.3.0", "Processing ./mindspore-2.3.0-cp39-cp39-linux_aarch64.whl"),
        ("mindspore", "2.3.0", "ERROR: mindspore 2.3.0 requires numpy<2.0.0,>=1.20.0, but you have numpy 2.1.0 which is incompatible."),
        ("mindspore", "2.3.0", "MindSpore version 2.3.0 and Ascend AI software package version 1.84 does not match, expect one of ['7.3']"),
        ("mindspore", "2.5.0", '>>> print(mindspore.__version__)\n2.5.0'),
        ("mindformers", "1.3.0", "mindformers==1.3.0"),
        ("mindnlp", "0.4.0", "mindnlp 0.4.0"),
        ("cann", "8.0.RC1", "CANN 8.0.RC1"),
        ("cann", "8.0.RC2", "- CANN version: 8.0.RC2"),
        ("cann", "8.1.RC1", "[ASSERT] [CANN_VERSION : 8.1.RC1][TimeStamp : 0] /x.h:1"),
        ("cann", "8.0.RC1", "cann: 8.0.RC1"),
        ("cann", "8.0.0", "CANN版本：8.0.0"),
        ("cann", "5.0.4", "Ascend-cann-toolkit=5.0.4"),
        ("cann", "8.0.RC3", "./Ascend-cann-toolkit_8.0.RC3_linux-aarch64.run --install"),
        ("cann", "8.0.RC1", "source /usr/local/Ascend/ascend-toolkit/8.0.RC1/set_env.sh"),
        ("cann", "8.1.RC1", "package_name=Ascend-cann-toolkit\nversion=8.1.RC1\ninnerversion=V100R001C21"),
        ("cann", "8.0.RC2", "runtime_running_version=[7.3.0.1.231:8.0.RC2]"),
        ("driver", "24.1.rc3", "host driver: 24.1.rc3"),
        ("driver", "7.0.RC1.alpha003", "torch 2.1.0, driver 7.0.RC1.alpha003, python3.8"),
        ("driver", "24.1.rc1", "驱动版本：24.1.rc1"),
        ("driver", "22.0.2", "| npu-smi 22.0.0                       Version: 22.0.2                 |"),
        ("driver", "23.0.5", "\tSoftware Version               : 23.0.5"),
        ("driver", "23.0.7", "Version=23.0.7\nascendhal_version=7.35.19"),
        ("firmware", "7.1.0.7.220", "\tFirmware Version               : 7.1.0.7.220"),
        ("firmware", "7.1.0.11.220", "Version=7.1.0.11.220\nfirmware_version=1.0"),
        ("firmware", "7.1.0.11.220", "固件版本 7.1.0.11.220"),
        ("python", "3.9", '  File "/root/envs/a/lib/python3.9/site-packages/mindspore/nn/cell.py", line 4, in f'),
        ("python", "3.10.5", "/usr/local/python3.10.5/lib/python3.10/site-packages/x.py:1"),
        ("python", "3.9.18", "Python version: 3.9.18"),
        ("python", "3.7.5", "Python 3.7.5 (default, Jan  1 2024, 00:00:00)"),
        ("python", "3.8", "torch 2.1.0, driver 7.0.RC1, python3.8"),
        ("numpy", "1.26.4", "numpy                    1.26.4"),
        ("numpy", "2.1.0", "mindspore 2.3.0 requires numpy<2.0.0, but you have numpy 2.1.0 which is incompatible."),
        ("torch", "2.1.0", "PyTorch version: 2.1.0 (NPU)"),
        ("torch", "2.1.0", "torch==2.1.0+cpu"),
        ("torch_npu", "2.1.0.post3", "torch-npu==2.1.0.post3"),
        ("torch_npu", "2.2.0", "torch_npu          2.2.0"),
    ],
)  # fmt: skip
def test_versions(key: str, value: str, text: str) -> None:
    assert values(text)["version." + key] == value


@pytest.mark.parametrize(
    ("chip", "text"),
    [
        ("910B4", "device: Ascend 910B4"),
        ("910B3", "- NPU type: Ascend910B3"),
        ("910B1", "NPU: 910B1"),
        ("910B4-1", "| 6     910B4-1             | OK            | 84.2        34                0    / 0             |"),
        ("310P3", "| 2       310P3                 | OK              | NA           45                0     / 0         |"),
        ("910A", "\tChip Name                      : 910A"),
        ("910A", "\t3                              0                              3                              Ascend 910A"),
        ("310P3", "the socversion Ascend910B1 of bin package does not match the current device socversion Ascend310P3."),
        ("910ProB", "| 0     910ProB             | OK            | 65.8        45                0    / 0             |"),
    ],
)  # fmt: skip
def test_chip(chip: str, text: str) -> None:
    assert values(text)["device.chip"] == chip


def test_arch() -> None:
    assert values("OS: 4.19.90-vhulk2211.3.0.h1543.eulerosv2r10.aarch64")["platform.arch"] == "aarch64"
    assert values("Platform: Linux-5.10.0-60.x86_64-with-glibc2.28")["platform.arch"] == "x86_64"
    assert values("Linux host 5.10.0 arm64 GNU/Linux")["platform.arch"] == "aarch64"


@pytest.mark.parametrize(
    "text",
    [
        "this package requires mindspore>=2.3",
        "requires MindSpore 2.3.0",
        "mindspore>=2.3.0",
        "mindspore ~= 2.3.0",
        "MindSpore 2.3.0 or later",
        "Please install mindspore 2.3.0",
        "pip install mindspore==2.3.0",
        "ERROR: No matching distribution found for mindspore==2.3.0",
        "it is not MindSpore 2.3.0",
        "CANN 8.0.RC1 does not support this",
        "需要 MindSpore 2.3.0 以上",
        "建议升级到 CANN 8.0.RC3",
        "NVIDIA driver version: 535.104.05",
        "[WARNING] DEVICE(1,2,python):2025-03-02-11:31:00.001.002 [mindspore/ccsrc/x.cc:57] Init] 910.5 ms",
        "torchvision==0.16.0",
        "python train.py --lr 3.5",
    ],
)
def test_no_fact(text: str) -> None:
    assert values(text) == {}


def test_first_mention_wins_and_a_more_exact_one_refines() -> None:
    assert facts(b"MindSpore version: 2.3.0\nmindspore==2.4.0\n") == {"version.mindspore": ("2.3.0", 1)}
    assert facts(b"MindSpore 2.3\n\nmindspore==2.3.1\n") == {"version.mindspore": ("2.3.1", 3)}
    assert facts(b"MindSpore 2.1\nmindspore==2.10\n") == {"version.mindspore": ("2.1", 1)}
    assert facts(b"Ascend910\nChip Name : 910B3\n") == {"device.chip": ("910B3", 2)}


@pytest.mark.parametrize(
    ("text", "several"),
    [
        ("torch 2.1.0\nit worked with torch 2.4.0", {"version.torch"}),
        ("mindspore 2.3\nmindspore 2.3.0\nMindSpore: 2.3", set()),
        ("torch==2.1.0\ntorch-npu==2.1.0.post8", set()),
    ],
)
def test_what_has_several_values_is_told(text: str, several: set[str]) -> None:
    found: set[str] = set()
    facts(text.encode(), found)
    assert found == several


def test_the_version_of_a_driver_file_is_not_that_of_the_file_pasted_below() -> None:
    text = (
        "$ cat /usr/local/Ascend/driver/version.info\nVersion=22.0.4\nascendhal_version=6.12.0\n"
        "$ cat /usr/local/Ascend/ascend-toolkit/latest/aarch64-linux/ascend_toolkit_install.info\n"
        "package_name=Ascend-cann-toolkit\nversion=8.0.0\n"
    )
    assert {k: v for k, v in values(text).items() if k.startswith("version")} == {
        "version.driver": "22.0.4",
        "version.cann": "8.0.0",
    }


def test_lines_of_a_paste() -> None:
    text = "host driver: 24.1.rc3\r\ncontainer CANN: 8.0.RC1\r\n\r\n[rank0]: MindSpore version: 2.3.0\r\n"
    assert facts(text.encode("utf-16")) == {
        "version.driver": ("24.1.rc3", 1),
        "version.cann": ("8.0.RC1", 2),
        "version.mindspore": ("2.3.0", 4),
    }
    assert facts("驱动版本：24.1.rc1\nnumpy 1.26.4".encode("gbk"))["version.driver"] == ("24.1.rc1", 1)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=1500) | st.text(max_size=300).map(str.encode))
def test_any_bytes(data: bytes) -> None:
    assert set(facts(data)) <= set(KEYS)


@pytest.mark.parametrize(
    "unit", ["mindspore ", "python3.", "cann:", "driver is ", "910", "npu 1.", "ascend-toolkit/", "numpy (a "]
)
def test_time_grows_with_size_only(unit: str) -> None:
    line = (unit * 2000)[:2000] + "\n"
    data = (line * 32).encode()
    start = time.perf_counter()
    facts(data)
    assert time.perf_counter() - start < 0.25
