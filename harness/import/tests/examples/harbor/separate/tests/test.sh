#!/bin/bash
reward=0
if [ "$(cat /app/out/word.txt)" = "$EXPECTED" ] && [ ! -e /app/out/left.tmp ] && [ ! -e /app/word.in ]; then
  grep -q word.txt /logs/agent/state.txt && reward=1
fi
echo "$reward" > /logs/verifier/reward.txt
