"""An environment of mini-swe-agent that is one attempt of a task of ClawRL.

A process of `clawrl env open` holds the attempt, or, where this runs as a policy, the run that started it (`CLAWRL_ENV_URL`); each command is a step of its shell. As in mini-swe-agent's own
environments, every command has a fresh bash in the repository, without input: neither folder nor variables last. What
breaks is raised as a `ClawrlFault` and never comes back as an output, since an agent could not mend it.

Written for mini-swe-agent 2.4.
"""

import json
import os
import platform
import re
import shlex
import subprocess
import time
import urllib.request
from typing import Any

from minisweagent.exceptions import InterruptAgentFlow, Submitted
from minisweagent.utils.serialize import recursive_merge
from pydantic import BaseModel

PROTOCOL = 1
# What an agent prints first, in a line of its own, when it is done.
DONE = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
CONTROL = re.compile(r"[\x01-\x08\x0b-\x1f\x7f]")
# How long `clawrl` may take to end once it was told to close, in seconds.
PATIENCE = 60


class ClawrlError(RuntimeError):
    """`clawrl` refused a request, or is gone. `data` has what it said in fields, if it said anything."""

    def __init__(self, message: str, data: dict[str, Any] | None = None):
        super().__init__(message)
        self.data = data or {}


class ClawrlFault(ClawrlError):
    """Something broke, and there is no score. `fault` has `boundary`, `code`, `message`, `retry`."""

    @property
    def fault(self) -> dict[str, Any]:
        return self.data["fault"]


class ClawrlEnvironmentConfig(BaseModel):
    suite: str = ""
    """A suite.yaml, its folder, or the name of a folder under ./tasks."""
    task: str = ""
    """Id of the task in the suite."""
    image: str = ""
    """For a task that names no image: the name of one, or a folder with an unpacked root file system."""
    seed: int = 0
    """Root of all seeds."""
    cwd: str = ""
    """Folder in which commands are run; by default the repository's root."""
    env: dict[str, str] = {}
    """Variables for commands."""
    timeout: int = 30
    """Seconds for a command. The task's `step_timeout_secs` goes before a longer time."""
    grade: bool = False
    """Grade as soon as the agent is done, so that the grade is in the trajectory; commands cannot follow then."""
    executable: str = os.getenv("CLAWRL", "clawrl")
    """The program `clawrl`; `clawrl-sbx` lies beside it."""


class ClawrlEnvironment:
    def __init__(self, *, config_class: type = ClawrlEnvironmentConfig, **kwargs):
        """Starts the attempt. See `ClawrlEnvironmentConfig` for the arguments."""
        self.config = config_class(**kwargs)
        self._last_id = 0
        self._grade: dict[str, Any] | None = None
        self._url = os.getenv("CLAWRL_ENV_URL")
        self._process = None if self._url else self._start()
        begun = self._ask("reset", protocol=PROTOCOL)
        self.instruction: str = begun["instruction"]
        self._tool = next((tool for tool in begun["tools"] if tool.get("text_argument")), None)
        if self._tool is None:
            self.close()
            raise ClawrlError(f"the environment of {self.config.task} has no tool that takes a command")

    def _start(self) -> subprocess.Popen:
        arguments = [self.config.executable, "env", "open", self.config.suite, "--task", self.config.task]
        arguments += ["--seed", str(self.config.seed)]
        if self.config.image:
            arguments += ["--image", self.config.image]
        # In a session of its own: Ctrl-C is for the agent. It ends with its input, and so with this process.
        return subprocess.Popen(
            arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8", start_new_session=True
        )

    def execute(self, action: dict, cwd: str = "", *, timeout: int | None = None) -> dict[str, Any]:
        """Runs a command and returns its output, with standard error in it, and its exit code."""
        command = action.get("command", "")
        within = timeout or self.config.timeout
        started = time.monotonic()
        call = {"name": self._tool["name"], "arguments": {self._tool["text_argument"]: self._line(command, cwd)}}
        result = self._ask("step", calls=[call], timeout_secs=within)
        took = min(within, round(time.monotonic() - started, 1))
        output = _output(result["observation"], command, took)
        if "done" in result:
            raise InterruptAgentFlow(_exit_message("EnvironmentEnded", result["done"], ""))
        self._check_finished(output)
        return output

    def _line(self, command: str, cwd: str) -> str:
        """The text typed into the persistent shell to run a command in a fresh one."""
        words = ["env", *(f"{name}={value}" for name, value in self.config.env.items()), "bash", "-c", command]
        line = " ".join(_quoted(word) for word in words)
        if folder := cwd or self.config.cwd:
            line = f"cd {shlex.quote(folder)} && {line}"
        return f"({line}) </dev/null"

    def _check_finished(self, output: dict[str, Any]) -> None:
        first, _, submission = output["output"].lstrip().partition("\n")
        if first.strip() != DONE or output["returncode"] != 0:
            return
        message = _exit_message("Submitted", submission, submission)
        if self.config.grade:
            message["extra"]["grade"] = self.grade()
        raise Submitted(message)

    def grade(self) -> dict[str, Any]:
        """Tests what the agent left: `score`, `passed`, `checks`, `flags`, `patch`. Commands cannot follow."""
        if self._grade is None:
            self._grade = self._ask("grade")
        return self._grade

    def close(self) -> None:
        """Ends the attempt and everything in it. May be called again."""
        process = self._process
        if process is None:
            # The run closes it, when this program has ended.
            return
        if process.poll() is None:
            try:
                self._ask("close")
                process.stdin.close()
                process.wait(PATIENCE)
            except (ClawrlError, OSError, subprocess.TimeoutExpired):
                # Its sandboxes end with it.
                process.kill()
                process.wait()
        for pipe in (process.stdin, process.stdout):
            try:
                pipe.close()
            except OSError:
                pass

    def cleanup(self) -> None:
        """The name that mini-swe-agent's environments have for it."""
        self.close()

    def __del__(self):
        if hasattr(self, "_process"):
            self.close()

    def get_template_vars(self, **kwargs) -> dict[str, Any]:
        own = {"instruction": self.instruction}
        return recursive_merge(self.config.model_dump(), platform.uname()._asdict(), own, kwargs)

    def serialize(self) -> dict:
        config = {
            "environment": self.config.model_dump(mode="json"),
            "environment_type": f"{self.__class__.__module__}.{self.__class__.__name__}",
        }
        graded = {} if self._grade is None else {"grade": self._grade}
        return {"info": {"config": config, **graded}}

    def _ask(self, method: str, **params) -> dict[str, Any]:
        self._last_id += 1
        request = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
        # A lone surrogate is not text and cannot be passed to a program.
        text = json.dumps(request, ensure_ascii=False).encode("utf-8", "replace").decode()
        answer = self._posted(text) if self._url else self._piped(text, method)
        if "result" in answer:
            return answer["result"]
        error = answer["error"]
        data = error.get("data", {})
        raise (ClawrlFault if "fault" in data else ClawrlError)(error["message"], data)

    def _posted(self, text: str) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}", "Content-Type": "application/json"}
        try:
            with urllib.request.urlopen(urllib.request.Request(self._url, text.encode(), headers)) as answer:
                return json.load(answer)
        except OSError as error:
            raise ClawrlError(f"the run does not take it: {error}") from error

    def _piped(self, text: str, method: str) -> dict[str, Any]:
        try:
            self._process.stdin.write(text + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except (OSError, ValueError) as error:
            raise ClawrlError(f"`clawrl env open` does not take `{method}`: {error}") from error
        if not line:
            code = self._process.wait()
            raise ClawrlError(f"`clawrl env open` ended with {code} before it answered `{method}`; it said why above")
        return json.loads(line)



def _quoted(word: str) -> str:
    """One word of bash. A terminal takes no control characters but tabs and line ends, so others are spelled out."""
    if not CONTROL.search(word):
        return shlex.quote(word)
    escaped = word.replace("\\", "\\\\").replace("'", "\\'")
    return "$'" + CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", escaped) + "'"


def _output(observation: dict[str, Any], command: str, took: float) -> dict[str, Any]:
    """An observation as mini-swe-agent has the results of commands."""
    facts = observation.get("facts", {})
    code = facts.get("exit_code")
    if (output := observation.get("full_text")) is None:
        # The last line says how the step ended.
        output, _, _ = ("\n" + observation["text"]).rpartition("\n")
        output = output[1:] + "\n" if output[1:] else ""
    if facts.get("end") == "completed" and code is not None:
        return {"output": output, "returncode": code, "exception_info": ""}
    if facts.get("end") == "timed_out":
        kind, why = "TimeoutExpired", str(subprocess.TimeoutExpired(command, took))
    else:
        kind, why = "NotCompleted", observation["text"].rpartition("\n")[2]
    return {
        "output": output,
        "returncode": -1,
        "exception_info": f"An error occurred while executing the command: {why}",
        "extra": {"exception_type": kind, "exception": why},
    }


def _exit_message(status: str, content: str, submission: str) -> dict[str, Any]:
    return {"role": "exit", "content": content, "extra": {"exit_status": status, "submission": submission}}
