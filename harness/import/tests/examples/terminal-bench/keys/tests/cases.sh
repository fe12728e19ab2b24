test_poem() { [ "$(cat poem.txt)" = $'river\nstone' ]; }
test_draft() { cmp poem.txt drafts/poem.txt; }
