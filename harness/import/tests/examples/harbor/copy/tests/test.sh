#!/bin/bash
if [ "$(tr -d ' \n' < count.txt)" = 3 ]; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
