#!/bin/bash
head -c 500M /dev/zero > big; head -c 500M /dev/zero > /tmp/big; head -c 100M /dev/zero > /logs/verifier/big; true
