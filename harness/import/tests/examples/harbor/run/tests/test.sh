#!/bin/bash
expected=$'river\nstone\na cloud\nriver'
reward=0
[ "$(cat all.txt)" = "$expected" ] && [ "$(cat greeting.txt)" = "hello you" ] && reward=1
echo "$reward" > /logs/verifier/reward.txt
