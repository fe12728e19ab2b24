"""Times steps of SWE-ReX's own bash session in its local deployment.

Arguments: number of sessions, steps per session. Prints one JSON object with the time of each step and of all, in microseconds.

All sessions share one runtime, as in SWE-ReX's own server. Its session blocks the event loop while a command runs, so sessions
alternate.
"""

import asyncio
import json
import logging
import sys
import time

from swerex.deployment.local import LocalDeployment
from swerex.runtime.abstract import BashAction, CreateBashSessionRequest

WARM_UP = 3


async def step(runtime, name):
    observation = await runtime.run_in_session(BashAction(session=name, command="echo hello"))
    assert observation.output.split() == ["hello"] and observation.exit_code == 0, observation


async def stepped(runtime, name, steps):
    times = []
    for _ in range(steps):
        begun = time.perf_counter_ns()
        await step(runtime, name)
        times.append((time.perf_counter_ns() - begun) / 1e3)
        # Yields to the other sessions.
        await asyncio.sleep(0)
    return times


async def main():
    sessions, steps = map(int, sys.argv[1:])
    deployment = LocalDeployment()
    await deployment.start()
    names = [f"s{number}" for number in range(sessions)]
    for name in names:
        await deployment.runtime.create_session(CreateBashSessionRequest(session=name))
        for _ in range(WARM_UP):
            await step(deployment.runtime, name)
    begun = time.perf_counter_ns()
    times = await asyncio.gather(*(stepped(deployment.runtime, name, steps) for name in names))
    wall = (time.perf_counter_ns() - begun) / 1e3
    await deployment.stop()
    print(json.dumps({"steps_us": [value for each in times for value in each], "wall_us": wall}))


logging.disable(logging.CRITICAL)
asyncio.run(main())
