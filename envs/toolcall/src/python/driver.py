"""The interpreter of an episode: runs one piece of code after another in one namespace.

Requests and replies are JSON, one document a line, on private descriptors that programs do not inherit:

    {"begin": {"seed": N, "hash_seed": TEXT or null}}    no reply
    {"id": N, "code": TEXT}                              {"id", "ok", "result", "error"}
    {"interrupt": N}                                     ends the code of that request by KeyboardInterrupt

The first line is {"ready": [major, minor, micro]}. Whatever code, its children or C libraries write to 1 or 2 goes to the
standard error that this program was started with, in the order in which it was written. Standard input is empty.

Requests are announced by SIGIO, not watched by a thread: code that forks must not find another thread.
"""

import sys

# No file of the workspace may shadow a module that is needed here.
sys.path[:] = [entry for entry in sys.path if entry not in ("", ".")]

import ast
import collections
import fcntl
import json
import linecache
import os
import random
import select
import signal
import traceback
import types

# Maximum characters kept of a result or an error.
MOST = 100000

# Private descriptors begin here, because code may rely on small numbers.
PRIVATE = 200

OWNER = os.getpid()

# As compiled, for tracebacks.
DRIVER = (lambda: None).__code__.co_filename


def private(descriptor):
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, PRIVATE)


REQUESTS = private(0)
REPLIES = private(1)

nothing = os.open(os.devnull, os.O_RDONLY)
os.dup2(nothing, 0)
os.close(nothing)
os.dup2(2, 1)


def stream(descriptor):
    # Line by line, so that output of children stays in order.
    return open(descriptor, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)


sys.stdout = sys.__stdout__ = stream(1)
sys.stderr = sys.__stderr__ = stream(2)
STREAMS = (sys.stdout, sys.stderr)

messages = collections.deque()
unfinished = b""

# Id of the request whose code runs.
running = None


def take():
    """Receives requests, and waits for one; false when no more can come."""
    global unfinished
    chunk = os.read(REQUESTS, 65536)
    if not chunk:
        return False
    lines = (unfinished + chunk).split(b"\n")
    unfinished = lines.pop()
    messages.extend(json.loads(line) for line in lines)
    return True


def is_interrupted():
    """Whether the running code must end; drops messages about other requests."""
    found = any(message.get("interrupt") == running for message in messages)
    kept = [message for message in messages if "interrupt" not in message]
    messages.clear()
    messages.extend(kept)
    return found


def on_input(number, frame):
    if running is None or os.getpid() != OWNER:
        return
    while select.select([REQUESTS], [], [], 0)[0]:
        if not take():
            os._exit(0)
    if is_interrupted():
        raise KeyboardInterrupt


signal.signal(signal.SIGIO, on_input)
fcntl.fcntl(REQUESTS, fcntl.F_SETOWN, OWNER)
fcntl.fcntl(REQUESTS, fcntl.F_SETFL, fcntl.fcntl(REQUESTS, fcntl.F_GETFL) | os.O_ASYNC)


def reply(document):
    line = json.dumps(document).encode("ascii") + b"\n"
    while line:
        line = line[os.write(REPLIES, line):]


def plain(text):
    # Other languages cannot represent a lone surrogate.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def shortened(text):
    """The text; for a long one its beginning, the number of characters left out, and its end."""
    if len(text) <= MOST:
        return plain(text)
    half = MOST // 2
    return [plain(text[:half]), len(text) - 2 * half, plain(text[-half:])]


def clean(report):
    """Removes this program's frames from a traceback."""
    report.stack[:] = [frame for frame in report.stack if frame.filename != DRIVER]
    others = [report.__cause__, report.__context__] + list(getattr(report, "exceptions", None) or [])
    for other in others:
        if other is not None:
            clean(other)


def told(error):
    try:
        report = traceback.TracebackException(type(error), error, error.__traceback__)
        clean(report)
        lines = report.format() if report.stack else report.format_exception_only()
        return shortened("".join(lines))
    except BaseException:
        # Formatting the error failed, or ran out of memory.
        return type(error).__name__


# The main module, as seen by the code.
main = types.ModuleType("__main__")
sys.modules["__main__"] = main
sys.argv = [""]


def evaluate(name, code):
    """Runs code; the representation of its last expression, unless that is None."""
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
    tree = compile(code, name, "exec", ast.PyCF_ONLY_AST, True)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec", dont_inherit=True), main.__dict__)
    if last is None:
        return None
    value = eval(compile(ast.Expression(last.value), name, "eval", dont_inherit=True), main.__dict__)
    return None if value is None else shortened(repr(value))


def flush():
    for each in STREAMS + (sys.stdout, sys.stderr):
        try:
            each.flush()
        except Exception:
            # The code may have closed or replaced it.
            pass


def run(request, code):
    global running
    result = error = None
    try:
        try:
            running = request
            if is_interrupted():
                raise KeyboardInterrupt
            result = evaluate("<call %d>" % request, code)
        finally:
            running = None
    except BaseException as caught:
        error = told(caught)
    flush()
    if os.getpid() != OWNER:
        # The code forked, and this is the child: only one program may answer.
        os._exit(0)
    return {"id": request, "ok": error is None, "result": result, "error": error}


def serve():
    while True:
        while not messages:
            if not take():
                return
        message = messages.popleft()
        if "code" in message:
            reply(run(message["id"], message["code"]))
        elif "begin" in message:
            random.seed(message["begin"]["seed"])
            if message["begin"]["hash_seed"] is not None:
                os.environ["PYTHONHASHSEED"] = message["begin"]["hash_seed"]


reply({"ready": list(sys.version_info[:3])})
# From here on modules of the workspace can be imported.
sys.path.insert(0, "")
serve()
flush()
os._exit(0)
