"""Puts the programs into the wheel, and names the Linux that they need."""

import os
import pathlib
import platform
import re

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PROGRAMS = ["clawrl", "clawrl-torch", "clawrl-sbx", "clawrl-node"]


class Programs(BuildHookInterface):
    def initialize(self, version, build_data):
        folder = pathlib.Path(os.environ["CLAWRL_PROGRAMS"])
        files = [folder / name for name in PROGRAMS]
        build_data["shared_scripts"] = {str(file): file.name for file in files}
        # The newest glibc symbol that a program asks for: pip refuses the wheel where glibc is older.
        needed = max(int(minor) for file in files for minor in re.findall(rb"\0GLIBC_2\.(\d+)(?=\0)", file.read_bytes()))
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-manylinux_2_{needed}_{platform.machine()}"
