test_list() { [ "$(cat files.txt)" = $'apple.txt\nbanana.txt' ]; }
test_nothing_of_the_task_is_visible() { [ ! -e solution.sh ] && [ ! -e tests ] && [ ! -e run-tests.sh ] && [ ! -e task.yaml ]; }
