for name in a b c; do echo "$name" > "$name.txt"; done
