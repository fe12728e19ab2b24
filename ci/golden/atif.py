"""Shows exports of `clawrl report --atif` to Harbor's own models of ATIF, which forbid what the format does not have.

Reads the snapshots harness/report/tests/it/snapshots/*atif_*.snap, which a test holds against what is exported, and
writes harness/report/tests/golden/atif.json: versions, and the SHA-256 of each text that Harbor accepted. The test
fails for a text that is not listed there. Other files can be named to be shown instead.

    python3.12 -m venv /tmp/harbor && /tmp/harbor/bin/pip install --no-deps harbor==0.25.0
    /tmp/harbor/bin/pip install pydantic==2.14.3
    /tmp/harbor/bin/python ci/golden/atif.py                 # writes atif.json
    /tmp/harbor/bin/python ci/golden/atif.py DIR/*.json      # only looks
"""

import hashlib
import importlib.metadata
import json
import pathlib
import sys

from harbor.models.trajectories import Trajectory

TESTS = pathlib.Path(__file__).resolve().parents[2] / "harness/report/tests"


def accept(text):
    """Harbor's reading of the text, which raises for what it does not accept; nothing may be lost in it."""
    read = Trajectory.model_validate_json(text)
    again = json.loads(read.model_dump_json(exclude_unset=True))
    if again != json.loads(text):
        raise ValueError("Harbor reads it as something else")
    return read


def main():
    if sys.argv[1:]:
        for name in sys.argv[1:]:
            accept(pathlib.Path(name).read_text())
        print(f"{len(sys.argv) - 1} accepted")
        return
    accepted = {}
    for path in sorted((TESTS / "it/snapshots").glob("*atif_*.snap")):
        text = path.read_text().split("---\n", 2)[2].strip()
        accept(text)
        accepted[path.stem.split("__")[-1]] = hashlib.sha256(text.encode()).hexdigest()
    versions = {name: importlib.metadata.version(name) for name in ("harbor", "pydantic")}
    versions["python"] = ".".join(map(str, sys.version_info[:3]))
    content = {"versions": versions, "sha256": accepted}
    (TESTS / "golden/atif.json").write_text(json.dumps(content, indent=1) + "\n")
    print(f"{len(accepted)} accepted")


if __name__ == "__main__":
    main()
