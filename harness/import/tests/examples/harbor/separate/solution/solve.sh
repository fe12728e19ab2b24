#!/bin/bash
mkdir out
cp word.in out/word.txt
touch out/left.tmp
