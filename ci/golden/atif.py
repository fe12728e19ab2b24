"""Shows exports of `clawrl report --atif` to Harbor's own models of ATIF, which forbid what the format does not have.

Reads the snapshots harness/report/tests/it/snapshots/*atif_*.snap, which a test holds against what is exported, and
writes harness/report/tests/golden/atif.json: versions, and the SHA-256 of each text that Harbor accepted. The test
fails for a text that is not listed there. Other files can be named to be shown instead.

    python3.12 -m venv /tmp/harbor && /tmp/harbor/bin/pip install --no-deps harbor==0.25.0
    /tmp/harbor/bin/pip install pydantic==2.14.3
    /tmp/harbor/bin/python ci/golden/atif.py                 # writes atif.json
    /tmp/harbor/bin/python ci/golden/atif.py DIR/*.json      # only looks
"""

import json
import pathlib

from harbor.models.trajectories import Trajectory

import committed

TESTS = pathlib.Path(__file__).resolve().parents[2] / "harness/report/tests"


def accept(text):
    """Harbor's reading of the text, which raises for what it does not accept; nothing may be lost in it."""
    read = Trajectory.model_validate_json(text)
    again = json.loads(read.model_dump_json(exclude_unset=True))
    if again != json.loads(text):
        raise ValueError("Harbor reads it as something else")
    return read


if __name__ == "__main__":
    committed.judge(accept, TESTS, "atif", ("harbor", "pydantic"))
