"""Sensors read what is there, say None of what is not, and never raise or wait."""

import json
import os
import sys
import time
from pathlib import Path

import pytest

from doctor.hosts import sensors
from doctor.hosts.sensors import SENSORS, Ground


def ground(root: Path, files: dict[str, str], environ: dict[str, str] | None = None) -> Ground:
    for path, text in files.items():
        file = root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return Ground(str(root), environ or {})


@pytest.mark.parametrize("name", [name for name in SENSORS if name != "python"])
def test_every_sensor_answers_data_for_json_here_and_where_nothing_exists(name, tmp_path):
    for where in (Ground(), Ground(str(tmp_path), {})):
        assert json.loads(json.dumps(SENSORS[name](ground=where))) is not None


def test_only_relevant_variables_are_told_and_secrets_only_by_presence(tmp_path):
    found = sensors.env(
        Ground("/", {
            "HCCL_IF_IP": "198.51.100.1", "ASCEND_RT_VISIBLE_DEVICES": "0,1", "LD_PRELOAD": "x.so", "EDITOR": "vi",
            "https_proxy": "http://me:word@proxy", "MS_TOKEN": "abc", "AWS_SECRET_ACCESS_KEY": "x", "MASTER_PORT": "1",
        })
    )  # fmt: skip
    assert found == {
        "HCCL_IF_IP": "198.51.100.1", "ASCEND_RT_VISIBLE_DEVICES": "0,1", "LD_PRELOAD": "x.so", "https_proxy": "set",
        "MS_TOKEN": "set", "MASTER_PORT": "1",
    }  # fmt: skip


def test_memory_is_bytes_and_the_smallest_limit_of_the_cgroup_path_holds(tmp_path):
    files = {
        "/proc/meminfo": "MemTotal: 1000 kB\nMemAvailable: 400 kB\nSwapTotal: 0 kB\nHugePages_Total: 15\njunk\n",
        "/proc/self/cgroup": "0::/kubepods/pod1\n",
        "/sys/fs/cgroup/kubepods/memory.max": "2097152\n",
        "/sys/fs/cgroup/kubepods/pod1/memory.max": "1048576\n",
        "/sys/fs/cgroup/kubepods/memory.current": "1572864\n",
        "/sys/fs/cgroup/kubepods/pod1/memory.current": "1000000\n",
        "/sys/fs/cgroup/kubepods/pod1/memory.stat": "anon 524288\nactive_file 400000\ninactive_file 75712\nshmem 9\n",
        "/sys/fs/cgroup/kubepods/pod1/memory.events": "low 0\nhigh 0\noom 4\noom_kill 3\n",
        "/proc/sys/vm/swappiness": "60\n",
    }
    found = sensors.memory(ground(tmp_path, files))
    assert (found["total"], found["available"], found["swap_total"]) == (1024000, 409600, 0)
    assert (found["hugepages_total"], found["cgroup_limit"], found["cgroup_used"]) == (15, 1048576, 524288)
    assert (found["oom_kills"], found["swappiness"], found["numa_balancing"]) == (3, 60, None)


def test_version_1_of_cgroups_without_a_limit_is_no_limit(tmp_path):
    files = {
        "/proc/self/cgroup": "4:memory:/docker/abc\n1:cpu,cpuacct:/docker/abc\n",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
        "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
    }
    here = ground(tmp_path, files)
    assert sensors.memory(here)["cgroup_limit"] is None
    assert sensors.cpu(here)["quota"] is None


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/cpu.max": "250000 100000\n"}, 2.5),
        ({"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/cpu.max": "max 100000\n"}, None),
        (
            {
                "/proc/self/cgroup": "3:cpu:/\n",
                "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "400000",
                "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
            },
            4.0,
        ),
        ({"/sys/fs/cgroup/cpu.max": "\x00 junk"}, None),
    ],
)
def test_cpu_quota_of_both_cgroup_versions(tmp_path, files, quota):
    assert sensors.cpu(ground(tmp_path, files))["quota"] == quota


def test_governors_and_numa_nodes_are_counted(tmp_path):
    files = {f"/sys/devices/system/cpu/cpu{n}/cpufreq/scaling_governor": "powersave\n" for n in range(3)}
    files["/sys/devices/system/cpu/cpu3/cpufreq/scaling_governor"] = "performance\n"
    files |= {"/sys/devices/system/node/node0/cpulist": "0-1\n", "/sys/devices/system/node/node1/cpulist": "2-3\n"}
    found = sensors.cpu(ground(tmp_path, files))
    assert found["governors"] == {"powersave": 3, "performance": 1}
    assert found["numa"] == {"0": "0-1", "1": "2-3"}


def test_listening_ports_come_from_both_families(tmp_path):
    line = "   {n}: {a}:{p} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000 0 0 1\n"
    head = "  sl  local_address rem_address   st tx_queue\n"
    files = {
        "/proc/net/tcp": head + line.format(n=0, a="0100007F", p="1FB6", state="0A")
        + line.format(n=1, a="0100007F", p="EA60", state="01"),
        "/proc/net/tcp6": head + line.format(n=0, a="0" * 32, p="0016", state="0A") + "broken\n",
        "/proc/sys/net/ipv4/ip_local_reserved_ports": "60000-60031\n",
        "/proc/sys/net/ipv4/ip_local_port_range": "32768\t60999\n",
    }  # fmt: skip
    assert sensors.ports(ground(tmp_path, files)) == {
        "listening": [22, 8118], "reserved": "60000-60031", "range": [32768, 60999],
    }  # fmt: skip
    assert sensors.ports(Ground(str(tmp_path / "none"), {}))["listening"] is None


def test_pci_tells_huawei_functions_with_their_link(tmp_path):
    base = "/sys/bus/pci/devices/0000:9d:00.0"
    files = {
        f"{base}/vendor": "0x19e5\n", f"{base}/device": "0xd803\n", f"{base}/class": "0x120000\n",
        f"{base}/subsystem_device": "0x0110\n", f"{base}/current_link_speed": "16.0 GT/s PCIe\n",
        f"{base}/max_link_speed": "16.0 GT/s PCIe\n", f"{base}/current_link_width": "8\n",
        f"{base}/max_link_width": "16\n", f"{base}/numa_node": "1\n",
        "/sys/bus/pci/devices/0000:00:00.0/vendor": "0x8086\n",
    }  # fmt: skip
    found = sensors.pci(ground(tmp_path, files))
    assert found["total"] == 2
    assert found["devices"] == [
        {"bus": "0000:9d:00.0", "vendor": "19e5", "device": "d803", "subsystem": "0110", "class": "120000", "numa": 1,
         "speed": 16.0, "max_speed": 16.0, "width": 8, "max_width": 16, "driver": None}
    ]  # fmt: skip


def test_kernel_log_keeps_the_end_and_only_the_kernels_lines(tmp_path):
    noise = "Nov 29 10:00:00 node0 sshd[1]: session opened\n" * 30000
    last = "Nov 29 10:52:43 node0 kernel: Out of memory: Killed process 8123 (python)\n"
    found = sensors.kernel_log(ground(tmp_path, {"/var/log/messages": noise + last}))
    assert found == {"file": "/var/log/messages", "state": "ok", "text": last.strip()}
    assert sensors.kernel_log(Ground(str(tmp_path / "none"), {}))["state"] == "missing"


def test_folders_that_do_not_exist_yet_are_judged_by_their_nearest_parent(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    rows = {row["use"]: row for row in sensors.disks(Ground("/", {"HOME": str(home)}))}
    assert rows["ascend_log"]["path"] == f"{home}/ascend/log"
    assert rows["ascend_log"]["real"] == str(home)
    assert rows["home"]["size"] >= rows["home"]["available"] > 0


def test_a_file_system_that_hangs_costs_a_second_and_is_named(monkeypatch):
    monkeypatch.setattr(sensors, "WAIT_LIMIT", 0.1)
    began = time.monotonic()
    assert sensors._in_time({"nfs": lambda: time.sleep(10), "tmp": lambda: {"size": 1}}, 0.1) == {
        "nfs": "timeout", "tmp": {"size": 1},
    }  # fmt: skip
    assert time.monotonic() - began < 9


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["/usr/bin/python3.9", "-u", "train.py", "--password", "x"], ["python3.9", "train.py"]),
        (["python", "-m", "mindformers.run", "--token", "x"], ["python", "-m", "mindformers.run"]),
        (["python", "-c", "import secret"], ["python", "-c"]),
        (["msrun", "--worker_num=8", "train.py"], ["msrun", "train.py"]),
        (["vim", "train.py"], []),
        ([], []),
    ],
)
def test_of_a_process_only_program_and_script_are_told(words, told):
    assert sensors._program(words) == told


# --- the target interpreter ---


def interpreter(folder: Path, body: str, mode: int = 0o755) -> str:
    path = folder / "python3"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(mode)
    return str(path)


@pytest.fixture
def with_script(monkeypatch, tmp_path):
    """A folder that holds the script for the interpreter, whatever the checkout has."""
    (tmp_path / "ask_python.py").write_text("import json, sys; print(json.dumps({'version': sys.version}))")
    monkeypatch.setattr(sensors, "__file__", str(tmp_path / "sensors.py"))
    monkeypatch.setattr(sensors, "PYTHON_LIMIT", 1.0)
    return tmp_path


def test_a_real_interpreter_answers_for_itself(with_script, monkeypatch):
    monkeypatch.setattr(sensors, "PYTHON_LIMIT", 10.0)
    found = sensors.python(sys.executable, Ground("/", dict(os.environ)))
    assert (found["state"], found["asked"], found["version"]) == ("ok", sys.executable, sys.version)


@pytest.mark.parametrize(
    ("body", "state"),
    [
        ('echo noise; echo \'{"version": "3.9"}\'', "ok"),
        ("echo '{broken'", "not_understood"),
        ("exit 1", "failed"),
        ("kill -9 $$", "killed"),
        ("sleep 60 & sleep 60", "timeout"),
        ("yes '{\"version\": 1}'", "killed"),
    ],
)
def test_an_interpreter_that_fails_hangs_or_floods_is_a_state(with_script, body, state):
    folder = with_script / "bin"
    folder.mkdir()
    interpreter(folder, body)
    began = time.monotonic()
    found = sensors.python("", Ground("/", {"PATH": f"{folder}:/usr/bin:/bin"}))
    assert found["state"] == state
    assert time.monotonic() - began < 30  # they would take sixty


def test_no_interpreter_is_a_state(with_script):
    assert sensors.python("", Ground("/", {"PATH": str(with_script)}))["state"] == "missing"
    assert sensors.python("/no/such/python", Ground("/", {}))["state"] == "missing"
