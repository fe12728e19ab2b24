//! Shortens texts to fit a common budget, keeping the head and tail of each.
//!
//! F1. All texts together have at most the budget's characters, markers included. F2. A text that fits an equal share stays
//! whole, and the room it leaves goes to longer texts: no text is cut in favour of a longer one. F3. The marker states the
//! exact number of characters and line ends that are left out.
//!
//! Units: characters (Unicode scalar values). Pure; nothing to cancel.

/// The texts that have to be cut, cut; `None` where one stays whole.
#[must_use]
pub fn fit_texts(texts: &[&str], budget: usize) -> Vec<Option<String>> {
    let lengths: Vec<usize> = texts.iter().map(|text| text.chars().count()).collect();
    let share = largest_share(&lengths, budget);
    let one = |(text, length): (&&str, &usize)| (*length > share).then(|| cut(text, *length, share));
    texts.iter().zip(&lengths).map(one).collect()
}

/// The largest size per text at which all texts fit.
fn largest_share(lengths: &[usize], budget: usize) -> usize {
    let mut sorted = lengths.to_vec();
    sorted.sort_unstable();
    let mut left = budget;
    for (index, length) in sorted.iter().enumerate() {
        let share = left / (sorted.len() - index);
        if *length > share {
            return share;
        }
        left -= length;
    }
    usize::MAX
}

fn cut(text: &str, length: usize, budget: usize) -> String {
    let lines = count_lines(text);
    let room = budget.saturating_sub(marker(length, lines).chars().count());
    if room == 0 {
        return first(text, budget).to_owned();
    }
    let head = first(text, room / 2);
    let tail = &text[text.len() - last_bytes(text, room - room / 2)..];
    let left_out = marker(length - room, lines - count_lines(head) - count_lines(tail));
    format!("{head}{left_out}{tail}")
}

fn marker(chars: usize, lines: usize) -> String {
    format!("\n[... {chars} characters with {lines} line ends left out ...]\n")
}

fn count_lines(text: &str) -> usize {
    text.bytes().filter(|&byte| byte == b'\n').count()
}

fn first(text: &str, count: usize) -> &str {
    text.char_indices().nth(count).map_or(text, |(end, _)| &text[..end])
}

/// Bytes of the last characters.
fn last_bytes(text: &str, count: usize) -> usize {
    text.chars().rev().take(count).map(char::len_utf8).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(texts: &[&str], budget: usize, expected: &[Option<&str>]) {
        let found = fit_texts(texts, budget);
        let found: Vec<Option<&str>> = found.iter().map(Option::as_deref).collect();
        assert_eq!(found, expected, "{texts:?} in {budget}");
    }

    #[test]
    fn long_texts_make_room_for_each_other() {
        check(&["abc", "de"], 5, &[None, None]);
        check(&["abc", "defg"], 6, &[None, Some("def")]);
        check(&["abcd", "e", "fghi"], 7, &[Some("abc"), None, Some("fgh")]);
        check(&[], 0, &[]);
        check(&["a"], 0, &[Some("")]);
        let long = format!("{}\n{}", "a".repeat(100), "b".repeat(100));
        let cut = "aaaaaaaaaaa\n[... 178 characters with 1 line ends left out ...]\nbbbbbbbbbbbb";
        check(&[&long, "é"], 76, &[Some(cut), None]);
    }

    proptest! {
        #[test]
        fn f1_f2_f3(texts in prop::collection::vec("[aé\n]{0,200}", 0..6), budget in 0usize..600) {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let found = fit_texts(&texts, budget);
            let length = |text: &str| text.chars().count();
            let shown: Vec<usize> =
                texts.iter().zip(&found).map(|(whole, cut)| length(cut.as_deref().unwrap_or(whole))).collect();
            prop_assert!(shown.iter().sum::<usize>() <= budget, "F1");
            let longest_whole = texts.iter().zip(&found).filter(|(_, cut)| cut.is_none()).map(|(text, _)| length(text)).max();
            for (text, cut) in texts.iter().zip(&found) {
                if let Some(cut) = cut {
                    prop_assert!(length(text) > budget / texts.len() && Some(length(text)) > longest_whole, "F2");
                    if let Some((head, rest)) = cut.split_once("\n[... ") {
                        let (count, tail) = rest.split_once(" left out ...]\n").unwrap();
                        let chars: usize = count.split(' ').next().unwrap().parse().unwrap();
                        prop_assert_eq!(length(head) + chars + length(tail), length(text), "F3");
                        prop_assert!(text.starts_with(head) && text.ends_with(tail));
                    }
                }
            }
        }
    }
}
