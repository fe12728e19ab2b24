"""Times steps of Harbor's own tmux session.

Arguments: number of sessions, steps per session. Prints one JSON object with the time of each step and of all, in microseconds.

Harbor's environments run each command with `bash -c` in a container; here `bash -c` runs in the sandbox of tmux. A step uses the
fastest method of the class: send keys, wait for the end of the command (`block=True`), read the new output. Harbor's own agent
sleeps for a time that the model chooses instead. Each session has its own tmux server, as in Harbor's containers.
"""

import asyncio
import json
import sys
import tempfile
import time
from pathlib import PurePosixPath

from harbor.agents.terminus_2.tmux_session import TmuxSession
from harbor.environments.base import ExecResult

WARM_UP = 3


class Local:
    """The interface that TmuxSession needs of an environment."""

    def __init__(self, name):
        self.session_id = name
        self.folder = tempfile.mkdtemp()

    async def exec(self, command, user=None, **_):
        process = await asyncio.create_subprocess_exec(
            "bash",
            "-c",
            command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C.UTF-8", "TMUX_TMPDIR": self.folder},
        )
        output, errors = await process.communicate()
        return ExecResult(stdout=output.decode(), stderr=errors.decode(), return_code=process.returncode)


async def step(session):
    await session.send_keys(["echo hello", "Enter"], block=True)
    output = await session.get_incremental_output()
    assert "hello" in output.splitlines(), output


async def started(number):
    environment = Local(f"bench-{number}")
    log = PurePosixPath(environment.folder) / "log"
    session = TmuxSession("main", environment, log, None, None)
    await session.start()
    for _ in range(WARM_UP):
        await step(session)
    return session


async def stepped(session, steps):
    times = []
    for _ in range(steps):
        begun = time.perf_counter_ns()
        await step(session)
        times.append((time.perf_counter_ns() - begun) / 1e3)
    return times


async def main():
    sessions, steps = map(int, sys.argv[1:])
    ready = await asyncio.gather(*(started(number) for number in range(sessions)))
    begun = time.perf_counter_ns()
    times = await asyncio.gather(*(stepped(session, steps) for session in ready))
    wall = (time.perf_counter_ns() - begun) / 1e3
    print(json.dumps({"steps_us": [value for each in times for value in each], "wall_us": wall}))


asyncio.run(main())
