#!/bin/sh
[ "$(head -n 1 answer.txt)" = "$EXPECTED" ] && [ "$(tail -n 1 answer.txt)" = "$GREETING" ] && [ "$TOLERANCE" = 0 ]
echo $((1 - $?)) > /logs/verifier/reward.txt
