"""Whole hosts as PATH folders: fake tools that replay a recording, and traps that only write down that they ran."""

import json
import os
import shlex
import stat
import sys
from pathlib import Path

import yaml

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
HOSTS = ROOT / "fixtures" / "hosts"
SAMPLES = HOSTS / "samples"
TOOLS = (
    "npu-smi", "hccn_tool", "lspci", "lsmod", "dmesg", "timedatectl", "chronyc", "ntpq", "uname", "df", "free", "lscpu",
    "ldd", "gcc", "msrun", "numactl", "sysctl", "ulimit", "ip", "ss", "getent", "hostnamectl", "modinfo", "journalctl",
)  # fmt: skip
TRAPPED = (
    "rm", "mv", "cp", "dd", "ln", "touch", "tee", "truncate", "mkdir", "chmod", "chown", "chgrp", "mount", "umount",
    "mkfs", "kill", "killall", "pkill", "fuser", "reboot", "shutdown", "init", "systemctl", "service", "modprobe",
    "rmmod", "insmod", "sysctl", "ulimit", "prlimit", "renice", "taskset", "numactl", "ldconfig", "usermod", "useradd",
    "groupadd", "passwd", "su", "sudo", "doas", "pkexec", "docker", "podman", "nerdctl", "ctr", "crictl", "kubectl",
    "isula", "bash", "sh", "dash", "zsh", "env", "xargs", "nohup", "setsid", "timeout", "python", "python2", "python3",
    "python3.10", "python3.11", "pip", "pip3", "conda", "mamba", "uv", "perl", "apt", "apt-get", "yum", "dnf", "rpm",
    "dpkg", "curl", "wget", "ssh", "scp", "rsync", "nc", "ping", "telnet", "iptables", "nft", "firewall-cmd", "ip",
    "ifconfig", "ethtool", "ss", "netstat", "lsof", "strace", "gdb", "find", "grep", "cat", "head", "tail", "ls", "awk",
    "sed", "git", "make", "gcc", "cmake", "nvidia-smi", "npu-smi", "hccn_tool", "upgrade-tool", "msnpureport",
    "ascend-dmi", "msrun", "lspci", "setpci", "lsmod", "modinfo", "dmesg", "journalctl", "timedatectl", "chronyc",
    "ntpq", "hostnamectl", "localectl", "uname", "df", "du", "free", "lscpu", "ldd", "ldconfig.real", "getent", "id",
    "whoami", "groups", "hostname", "date", "stat", "readlink", "crontab", "at", "wall", "swapoff", "swapon",
    "cpupower", "tuned-adm", "ipmitool",
)  # fmt: skip


def load(name, folder=HOSTS):
    """The recording ``fixtures/hosts/<name>.yaml`` with the items of its base first; an item that is None is gone."""
    host = yaml.load((folder / f"{name}.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader)
    if host.get("base"):
        base = load(host["base"], folder)
        items = {**base["items"], **(host.get("items") or {})}
        host["items"] = {key: value for key, value in items.items() if value is not None}
    return host


def text_of(value):
    """The text an item stands for: of its sample, of its "out", or itself (data are JSON)."""
    if isinstance(value, dict) and {"out", "err", "code", "state"} & set(value):
        value = value.get("out", "")
    if not isinstance(value, str):
        return json.dumps(value)
    return (SAMPLES / value[7:]).read_text(encoding="utf-8") if value.startswith("sample:") else value


def replay(items):
    """The part of a recording's items that tools answer, as ``fake_tool.py`` reads it: {command line: answer}."""
    answers = {}
    for key, value in items.items():
        if not key.startswith("run "):
            continue
        answers[key[4:]] = {**(value if isinstance(value, dict) else {}), "out": text_of(value)}
    return answers


def fake_folder(path, items, change=None, tools=TOOLS):
    """Fill the folder ``path`` with tools that answer as ``items`` say; ``change`` {command line: answer} has the last
    word (see ``fakes/fake_tool.py`` for delays, hangs, garbage and signals). Returns the folder."""
    path = Path(path)
    path.mkdir(parents=True, exist_ok=True)
    answers = {**replay(items), **(change or {})}
    (path / "replay.json").write_text(json.dumps(answers), encoding="utf-8")
    script = (HERE / "fakes" / "fake_tool.py").read_text(encoding="utf-8")
    first = path / "fake_tool.py"
    first.write_text(f"#!{sys.executable} -IS\n{script}", encoding="utf-8")
    first.chmod(0o755)
    for name in {*tools, *(shlex.split(line)[0] for line in answers)}:
        if not any(line == name or line.startswith(name + " ") for line in answers):
            continue
        link = path / name
        if not link.is_symlink():
            link.symlink_to(first.name)
    return path


def calls(folder):
    """The command lines that the fake tools of ``folder`` were called with, in order."""
    log = Path(folder) / "calls.log"
    if not log.exists():
        return []
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]


def trap_folder(path, names=TRAPPED):
    """Fill the folder ``path`` with commands that only note that they were started. Returns the folder."""
    path = Path(path)
    path.mkdir(parents=True, exist_ok=True)
    script = (HERE / "fakes" / "trap.sh").read_text(encoding="utf-8")
    for name in names:
        trap = path / name
        trap.write_text(script, encoding="utf-8")
        trap.chmod(trap.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return path


def started(folder):
    """The command lines that fell into the traps of ``folder``."""
    log = Path(folder) / "started.log"
    if not log.exists():
        return []
    return [line.split("\x1f") for line in log.read_text(encoding="utf-8", errors="replace").splitlines()]


def alive(marker):
    """Processes of this machine whose command line or environment's PATH names ``marker``: what a call left behind."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            line = Path("/proc", entry, "cmdline").read_bytes()
        except OSError:
            continue
        if os.fsencode(str(marker)) in line:
            found.append(int(entry))
    return found
