#!/usr/bin/env python3
"""Prints the tests that took longest, from a JUnit file of nextest: ci/slowest-tests.py FILE [HOW_MANY]."""

import sys
import xml.etree.ElementTree as xml

path, how_many = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 50
tests = [
    (float(case.get("time")), suite.get("name"), case.get("name"))
    for suite in xml.parse(path).getroot().iter("testsuite")
    for case in suite.iter("testcase")
]
tests.sort(reverse=True)
for seconds, suite, name in tests[:how_many]:
    print(f"{seconds:7.1f} s  {suite}  {name}")
over_10 = [seconds for seconds, *_ in tests if seconds > 10]
total = sum(seconds for seconds, *_ in tests)
print(f"{len(tests)} tests in {total:.0f} s, {len(over_10)} of them over 10 s with {sum(over_10):.0f} s together")
