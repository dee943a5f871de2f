"""What profilers wrote goes into a partial result like everything else."""

import pytest

from doctor import engine
from doctor.render.json import report_dict
from doctor.run import partial


@pytest.mark.parametrize("name", ["msprof", "slow"])
def test_profiles_that_were_read_elsewhere_give_the_same_report(tmp_path, name):
    parts = []
    keep = engine.Options(kept=lambda kept, problems: parts.append(partial.dump(kept, problems)))
    at_once = report_dict(engine.diagnose([f"fixtures/profiles/{name}"], keep))
    path = tmp_path / "node.part"
    path.write_bytes(parts[0])
    merged = report_dict(engine.diagnose([str(path)]))
    assert at_once["diagnoses"]
    for key in ("verdict", "diagnoses", "findings", "facts"):
        assert merged[key] == at_once[key], key
