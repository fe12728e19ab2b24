//! What a judge's reply says: it ends with `\boxed{…}`, or says nothing.

use clawrl_core::{Verdict, Vote};

use crate::prompt::plain;

const BOX: &str = r"\boxed{";

/// Characters of the reason that are kept.
const REASON_CHARS: usize = 120;

/// What stands before a hint.
pub(crate) const HINT: &str = "HINT:";

/// Longest hint: three long sentences. A judge that says more has written the solution, or an essay.
const HINT_CHARS: usize = 600;

/// What may stand behind the box: marks of mathematics and of emphasis, and the end of a sentence.
const BEHIND: &[char] = &['$', ')', ']', '\\', '*', '`', '.'];

/// What may stand before it, of marks of mathematics.
const BEFORE: [char; 6] = ['$', '(', '[', '\\', ' ', '\n'];

/// The vote at the end of a reply; `None` where its last box holds none, or is not its end: a judge that goes on has
/// quoted somebody.
pub(crate) fn read(reply: &str) -> Option<Vote> {
    let (before, rest) = reply.rsplit_once(BOX)?;
    let (verdict, behind) = rest.split_once('}')?;
    if !behind.chars().all(|character| character.is_whitespace() || BEHIND.contains(&character)) {
        return None;
    }
    let verdict = match verdict.trim() {
        "1" | "+1" => Verdict::Met,
        "-1" => Verdict::NotMet,
        "0" => Verdict::Undecided,
        _ => return None,
    };
    Some(Vote { verdict, reason: reason(before), hint: None })
}

/// The same of a question for a hint: with `\boxed{1}` the hint stands before it. What is undecided is no hint.
pub(crate) fn read_hint(reply: &str) -> Option<Vote> {
    let vote = read(reply)?;
    if vote.verdict != Verdict::Met {
        return Some(Vote { verdict: Verdict::NotMet, ..vote });
    }
    let (before, _) = reply.rsplit_once(BOX)?;
    let (before, hint) = before.rsplit_once(HINT)?;
    let words: Vec<&str> = hint.trim_end_matches(BEFORE).split_whitespace().collect();
    // It becomes part of what a teacher reads: no mark of a chat template may stand in it.
    let hint = plain(words.join(" ").trim_matches(['*', ' ']));
    let fits = (1..=HINT_CHARS).contains(&hint.chars().count());
    fits.then(|| Vote { verdict: Verdict::Met, reason: reason(before), hint: Some(hint) })
}

/// The end of what was said before the verdict, where judges sum up.
fn reason(before: &str) -> String {
    let said: Vec<&str> = before.trim_end_matches(BEFORE).split_whitespace().collect();
    let said = said.join(" ");
    let surplus = said.chars().count().saturating_sub(REASON_CHARS);
    if surplus == 0 {
        return said;
    }
    let end: String = said.chars().skip(surplus + 1).collect();
    format!("…{end}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_last_box_counts() {
        let check = |reply: &str, expected: Option<(Verdict, &str)>| {
            let vote = read(reply);
            let found = vote.as_ref().map(|vote| (vote.verdict, vote.reason.as_str()));
            assert_eq!(found, expected, "{reply}");
        };
        check(r"It names a cause. \boxed{1}", Some((Verdict::Met, "It names a cause.")));
        check(
            r"\boxed{1} No,
 wait: \boxed{ -1 } .",
            Some((Verdict::NotMet, r"\boxed{1} No, wait:")),
        );
        check(r"Unclear: $\boxed{0}$", Some((Verdict::Undecided, "Unclear:")));
        check(r"\boxed{+1}", Some((Verdict::Met, "")));
        check(r"\boxed{1} or rather \boxed{yes}", None);
        check(r"\boxed{1} or rather \boxed{", None);
        check(r"**\boxed{-1}**.", Some((Verdict::NotMet, "**")));
        check(r"It ends with \boxed{1}; I cannot judge that.", None);
        check(r"\boxed{10}", None);
        check("1", None);
        check("", None);
        let long = format!("{} end. \\boxed{{1}}", "é".repeat(200));
        let kept = format!("…{} end.", "é".repeat(114));
        check(&long, Some((Verdict::Met, &kept)));
    }

    #[test]
    fn a_hint_stands_before_its_box() {
        let check = |reply: &str, expected: Option<(Verdict, Option<&str>)>| {
            let vote = read_hint(reply);
            let found = vote.as_ref().map(|vote| (vote.verdict, vote.hint.as_deref()));
            assert_eq!(found, expected, "{reply}");
        };
        let hint = |text| Some((Verdict::Met, Some(text)));
        check("It looked in a.\nHINT: Look in b.\n Then in c.\n\\boxed{1}", hint("Look in b. Then in c."));
        check("HINT: not this. No, HINT: that. $\\boxed{1}$", hint("that."));
        check("**HINT:** **Look in b.** \\boxed{1}", hint("Look in b."));
        check("HINT: say <|im_end|> \\boxed{1}", hint("say < |im_end| >"));
        check("Nothing to tell. \\boxed{-1}", Some((Verdict::NotMet, None)));
        check("HINT: maybe. \\boxed{0}", Some((Verdict::NotMet, None)));
        check("Look in b. \\boxed{1}", None);
        check("HINT: \\boxed{1}", None);
        check("HINT: look in b.", None);
        check(&format!("HINT: {} \\boxed{{1}}", "é".repeat(600)), hint(&"é".repeat(600)));
        check(&format!("HINT: {} \\boxed{{1}}", "é".repeat(601)), None);
    }

    proptest! {
        #[test]
        fn any_hint_is_read(reply in r"([a-z ]|HINT:|\\boxed\{|\}|-?[01]|<\||é|\n){0,60}") {
            if let Some(Vote { hint: Some(hint), verdict, .. }) = read_hint(&reply) {
                prop_assert!(verdict == Verdict::Met && !hint.trim().is_empty());
                prop_assert!(!hint.contains("<|") && !hint.contains('\n'));
            }
        }

        #[test]
        fn any_reply_is_read(reply in r"([a-z ]|\\boxed\{|\}|-?[012]|é|\n){0,60}") {
            if let Some(vote) = read(&reply) {
                prop_assert!(vote.reason.chars().count() <= REASON_CHARS);
                prop_assert!(reply.contains(BOX));
            }
        }
    }
}
