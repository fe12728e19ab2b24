#!/usr/bin/env python3
"""Prints what each direct third-party dependency brings on Linux: ci/dependencies.py [TIMING.html]

Columns: packages that would leave the build with it, seconds that rustc and build scripts take for these, whether only
tests or build scripts use it, and the crates that do. The seconds come from a page of `cargo build --timings`.
"""

import collections
import json
import re
import subprocess
import sys

arguments = ["--locked", "--format-version", "1", "--features", "clawrl/torch,clawrl-bench/torch"]
platform = ["--filter-platform", "x86_64-unknown-linux-gnu"]
metadata = json.loads(subprocess.check_output(["cargo", "metadata", *arguments, *platform]))
packages = {package["id"]: package for package in metadata["packages"]}
nodes = {node["id"]: node["deps"] for node in metadata["resolve"]["nodes"]}
members = set(metadata["workspace_members"])

seconds = collections.Counter()
if len(sys.argv) > 1:
    with open(sys.argv[1], encoding="utf-8") as page:
        units = json.loads(re.search(r"const UNIT_DATA = (\[.*?\]);\n", page.read(), re.DOTALL).group(1))
    for unit in units:
        seconds[unit["name"], unit["version"]] += unit["duration"]


def reached_without(name):
    """Ids of all packages that the workspace reaches where no member depends on `name`."""
    seen, open_ids = set(), list(members)
    while open_ids:
        package = open_ids.pop()
        if package in seen:
            continue
        seen.add(package)
        for dependency in nodes[package]:
            if package not in members or packages[dependency["pkg"]]["name"] != name:
                open_ids.append(dependency["pkg"])
    return seen


users, kinds = collections.defaultdict(set), collections.defaultdict(set)
for member in members:
    for dependency in nodes[member]:
        if dependency["pkg"] not in members:
            name = packages[dependency["pkg"]]["name"]
            users[name].add(packages[member]["name"].removeprefix("clawrl-"))
            kinds[name] |= {kind["kind"] or "normal" for kind in dependency["dep_kinds"]}

everything = reached_without(None)
rows = []
for name in users:
    gone = everything - reached_without(name)
    cost = sum(seconds[packages[package]["name"], packages[package]["version"]] for package in gone)
    kind = "" if "normal" in kinds[name] else "/".join(sorted(kinds[name]))
    rows.append((len(gone), cost, name, kind, " ".join(sorted(users[name]))))

print(f"{len(everything - members)} third-party packages, {len(rows)} of them direct dependencies\n")
print(f"{'packages':>8} {'seconds':>8}  dependency")
for count, cost, name, kind, by in sorted(rows, reverse=True):
    print(f"{count:8} {cost:8.1f}  {name}{f' ({kind})' if kind else ''}: {by}")
