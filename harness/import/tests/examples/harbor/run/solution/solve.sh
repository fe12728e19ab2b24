#!/bin/bash -e
cat days/1 days/2 days/3 days/4 > all.txt
