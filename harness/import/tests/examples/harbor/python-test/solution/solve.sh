#!/usr/bin/env bash
echo '[1, 2, 3, 4, 5]' > numbers.json
