"""Containers are told by their marks, and a host is no container."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.hosts.base import MemoryHost
from doctor.model import Unknown
from doctor.probes.container import parse_mountinfo, read_container

DOCKER_MOUNTS = """\
622 561 0:60 / / rw,relatime master:209 - overlay overlay rw,lowerdir=/var/lib/docker/overlay2/l/A
623 622 0:63 / /proc rw,nosuid - proc proc rw
630 622 8:2 /usr/local/Ascend/driver/lib64 /usr/local/Ascend/driver/lib64 ro,relatime - ext4 /dev/sda2 rw
631 622 8:2 /data/my\\040set /data rw - ext4 /dev/sda2 rw
640 622 8:2 /var/lib/docker/containers/0a/hostname /etc/hostname rw - ext4 /dev/sda2 rw
broken line
"""


def container(raws, absent=True):
    return read_container(MemoryHost(raws, absent=absent), {})[0]


def test_mounts_tell_source_target_and_kind():
    found = {row["target"]: row for row in parse_mountinfo(DOCKER_MOUNTS)}
    assert set(found) == {"/", "/usr/local/Ascend/driver/lib64", "/data", "/etc/hostname"}
    assert found["/data"] == {"source": "/data/my set", "target": "/data", "type": "ext4", "options": "rw"}
    assert found["/"]["type"] == "overlay"


@pytest.mark.parametrize(
    ("raws", "runtime"),
    [
        ({"look /.dockerenv": '[{"path": "/.dockerenv"}]'}, "docker"),
        ({"look /run/.containerenv": '[{"path": "/run/.containerenv"}]'}, "podman"),
        ({"look /.singularity.d": '[{"path": "/.singularity.d"}]'}, "singularity"),
        ({"file /proc/1/cgroup": "12:memory:/docker/0a1b\n"}, "docker"),
        ({"file /proc/1/cgroup": "0::/kubepods.slice/kubepods-burstable.slice/cri-containerd-1.scope\n"}, "kubernetes"),
        ({"file /proc/1/cgroup": "1:name=systemd:/kubepods/besteffort/pod1\n"}, "kubernetes"),
        ({"file /proc/1/cgroup": "0::/../../lxc/web\n"}, "lxc"),
        ({"ask env": '{"KUBERNETES_SERVICE_HOST": "set"}'}, "kubernetes"),
        ({"ask env": '{"container": "podman"}'}, "podman"),
        ({"file /proc/self/mountinfo": DOCKER_MOUNTS.splitlines()[0]}, "docker"),
        ({"file /proc/self/mountinfo": DOCKER_MOUNTS, "file /proc/1/cgroup": "0::/\n"}, "docker"),
    ],
)
def test_marks_of_containers(raws, runtime):
    found = container(raws).value
    assert (found["inside"], found["runtime"]) == (True, runtime)


@pytest.mark.parametrize(
    "raws",
    [
        {},
        {"file /proc/1/cgroup": "0::/init.scope\n"},
        {
            "file /proc/1/cgroup": "1:name=systemd:/\n",
            "file /proc/self/mountinfo": "22 1 8:2 / / rw - ext4 /dev/sda2 rw\n",
        },
        {"file /proc/1/cgroup": "0::/user.slice/docker-build-user.slice\n"},
    ],
)
def test_a_host_is_no_container(raws):
    assert container(raws).value["inside"] is False


@pytest.mark.parametrize(
    ("mask", "privileged"), [("000001ffffffffff", True), ("00000000a80425fb", False), ("zz", None)]
)
def test_privileged_is_told_by_the_capabilities(mask, privileged):
    raws = {"look /.dockerenv": '[{"path": "/.dockerenv"}]', "file /proc/self/status": f"Name:\tx\nCapBnd:\t{mask}\n"}
    assert container(raws).value["privileged"] is privileged


def test_what_was_not_recorded_is_unknown():
    assert isinstance(container({}, absent=False), Unknown)


@given(st.text(), st.text())
def test_junk_never_raises(cgroup, mounts):
    raws = {"file /proc/1/cgroup": cgroup, "file /proc/self/mountinfo": mounts, "look /.dockerenv": json.dumps(mounts)}
    container(raws)
