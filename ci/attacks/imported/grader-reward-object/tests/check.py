import json
import pathlib

assert json.loads(pathlib.Path("count.json").read_text()) == {"lines": 3}
