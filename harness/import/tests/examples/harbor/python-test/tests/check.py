import json
from pathlib import Path

try:
    passed = json.loads(Path("numbers.json").read_text()) == [1, 2, 3, 4, 5]
except (OSError, ValueError):
    passed = False
Path("/logs/verifier/reward.json").write_text(json.dumps(int(passed)))
