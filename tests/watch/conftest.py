"""A folder of logs that grows."""

import pytest
from run_helpers import Clock, Run


@pytest.fixture
def run(tmp_path):
    return Run(tmp_path / "run")


@pytest.fixture
def clock():
    return Clock()
