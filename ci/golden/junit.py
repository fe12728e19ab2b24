"""Shows JUnit XML of `clawrl ci`, and files of `clawrl report --junit`, to junitparser, which tools that read such files are built on, and to the rules of its shape.

Reads the snapshots harness/regression/tests/it/snapshots/*junit_*.snap, which a test holds against what is written, and
writes harness/regression/tests/golden/junit.json: versions, and the SHA-256 of each text that was accepted. The test
fails for a text that is not listed there. Other files can be named to be shown instead.

    python3 -m venv /tmp/junit && /tmp/junit/bin/pip install junitparser==5.0.3
    /tmp/junit/bin/python ci/golden/junit.py                 # writes junit.json
    /tmp/junit/bin/python ci/golden/junit.py FILE...         # only looks
"""

import pathlib
import tempfile
import xml.etree.ElementTree as ElementTree

from junitparser import Error, Failure, JUnitXml, TestSuite

import committed

TESTS = pathlib.Path(__file__).resolve().parents[2] / "harness/regression/tests"
# What junit-10.xsd of Jenkins' xUnit plugin lets stand in each element.
ATTRIBUTES = {
    "testsuites": {"name", "tests", "failures", "errors", "time"},
    "testsuite": {"name", "tests", "failures", "errors", "skipped", "time"},
    "properties": set(),
    "property": {"name", "value"},
    "testcase": {"name", "classname", "time"},
    "failure": {"type", "message"},
    "error": {"type", "message"},
    "skipped": {"message"},
    "system-out": set(),
}
CHILDREN = {
    "testsuites": {"testsuite"},
    "testsuite": {"properties", "testcase"},
    "properties": {"property"},
    "testcase": {"failure", "error", "skipped", "system-out"},
}


def check_shape(element):
    """Raises for an element, or an attribute, where the schema has none."""
    if extra := element.attrib.keys() - ATTRIBUTES[element.tag]:
        raise ValueError(f"{element.tag} has {extra}")
    for child in element:
        if child.tag not in CHILDREN.get(element.tag, set()):
            raise ValueError(f"{element.tag} holds {child.tag}")
        check_shape(child)


def accept(text):
    """Raises for what junitparser does not read, and where its counts are not those that the file states."""
    check_shape(ElementTree.fromstring(text.encode()))
    with tempfile.NamedTemporaryFile("w", suffix=".xml", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        read = JUnitXml.fromfile(file.name)
    stated = [(suite.tests, suite.failures, suite.errors) for suite in read]
    for suite, counts in zip(read, stated):
        if not isinstance(suite, TestSuite):
            raise ValueError(f"{suite} is not a suite")
        results = [type(result) for case in suite for result in case.result]
        found = (len(list(suite)), results.count(Failure), results.count(Error))
        suite.update_statistics()
        if not found == counts == (suite.tests, suite.failures, suite.errors):
            raise ValueError(f"suite {suite.name!r} states {counts} and has {found}")
        # Of a gate; a run has none.
        outcome = {prop.name: prop.value for prop in suite.properties()}.get("outcome")
        if outcome and outcome != ("fail" if found[1] else "inconclusive" if found[2] else "pass"):
            raise ValueError(f"suite {suite.name!r} is {outcome} and has {found}")
    if (read.tests, read.failures, read.errors) != tuple(map(sum, zip(*stated, (0, 0, 0)))):
        raise ValueError("the sums are not those of the suites")


if __name__ == "__main__":
    committed.judge(accept, TESTS, "junit", ("junitparser",))
