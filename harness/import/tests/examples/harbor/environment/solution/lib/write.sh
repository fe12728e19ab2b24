write() {
	printf "%s\n" "$@" > answer.txt
}
# é
