#!/bin/bash
. /solution/lib/write.sh
write "$PLACE" "$GREETING"
test "$SUFFIX" = '!'
