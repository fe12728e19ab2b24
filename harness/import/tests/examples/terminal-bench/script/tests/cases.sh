test_hello_file_exists() { [ -f hello.txt ]; }
test_hello_file_content() { [ "$(cat hello.txt)" = "Hello, world!" ]; }
