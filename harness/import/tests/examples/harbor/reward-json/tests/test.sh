#!/bin/bash
right=0
for name in $NAMES; do
  [ "$(cat "$name.txt" 2> /dev/null)" = "$name" ] && right=$((right + 1))
done
{ [ -e notes.md ] || [ ! -e keep/README.md ] || [ "$(cat keep/data.txt)" != data ]; } && right=0
case $right in
  3) reward=1 ;;
  *) reward=0.$((right * 33)) ;;
esac
echo "{\"reward\": $reward, \"right\": $right}" > /logs/verifier/reward.json
