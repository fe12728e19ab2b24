#!/bin/bash
# Prints what pytest -rA would print at its end: these examples run where there is no pytest.
. "$TEST_DIR/cases.sh"
echo "=========================== short test summary info ============================"
for name in $(compgen -A function test_); do
  if "$name"; then
    echo "PASSED tests/test_outputs.py::$name"
  else
    echo "FAILED tests/test_outputs.py::$name - AssertionError"
  fi
done
