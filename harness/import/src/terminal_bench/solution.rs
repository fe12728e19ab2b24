//! The reference solution of a task: a script, or keys for a terminal.
//!
//! Source: Terminal-Bench types `solution.yaml` into tmux, command by command: it waits for a blocking command, and
//! gives another one some seconds. A text that tmux knows as a key is pressed, any other is typed.

use std::path::Path;

use clawrl_config::NodeValue;

use crate::document::Document;
use crate::draft::Action;
use crate::findings::Findings;
use crate::keys::{KeyRow, sort_keys, taken};
use crate::oracle::{self, SOLUTION, SolutionFile};

/// Maximum seconds of one call of the `wait` tool.
const MAX_WAIT: f64 = 600.0;
/// tmux's names of keys, and ours.
const TMUX_KEYS: [(&str, &str); 14] = [
    ("BSpace", "Backspace"),
    ("DC", "Delete"),
    ("IC", "Insert"),
    ("NPage", "PageDown"),
    ("PPage", "PageUp"),
    ("PgDn", "PageDown"),
    ("PgUp", "PageUp"),
    ("BTab", "S-Tab"),
    ("Enter", "Enter"),
    ("Escape", "Escape"),
    ("Tab", "Tab"),
    ("Space", "Space"),
    ("Home", "Home"),
    ("End", "End"),
];

/// Keys of an entry.
const KEYS: &[KeyRow] = &[
    taken("entries.command", "what is typed"),
    taken("entries.block", "whether it is waited for"),
    taken("entries.append_enter", "whether Enter follows"),
    taken("entries.min_timeout_sec", "seconds that are given to it"),
    taken("entries.max_timeout_sec", "a step may take as long as the agent"),
];

/// The actions of a task's solution; none without one.
pub(super) fn solution(folder: &Path, findings: &mut Findings) -> Vec<Action> {
    let script = folder.join("solution.sh");
    if script.exists() {
        return by_script(&script, findings);
    }
    let keys = folder.join("solution.yaml");
    if keys.exists() {
        return by_keys(&keys, findings);
    }
    findings.note("no `solution.sh` and no `solution.yaml`: the task has no oracle, so `clawrl validate` cannot check that it is solvable");
    Vec::new()
}

fn by_script(path: &Path, findings: &mut Findings) -> Vec<Action> {
    let source = match crate::document::read_text(path) {
        Ok(source) => source,
        Err(problem) => {
            findings.adopt(&problem.into());
            return Vec::new();
        }
    };
    let bytes = source.text().as_bytes().to_vec();
    let file = SolutionFile { path: "solution.sh".to_owned(), bytes, executable: true };
    let mut commands = oracle::writing(&[file], SOLUTION);
    commands.push(format!("bash {SOLUTION}/solution.sh"));
    commands.into_iter().map(Action::Run).collect()
}

fn by_keys(path: &Path, findings: &mut Findings) -> Vec<Action> {
    let mut document = match Document::yaml(path) {
        Ok(document) => document,
        Err(error) => {
            findings.adopt(&error);
            return Vec::new();
        }
    };
    let NodeValue::List(_) = &document.root.value else {
        let help = "write `- command: ls` entries";
        findings.refuse(
            &document.source,
            document.root.span,
            "no list",
            "the solution is not a list of commands",
            help,
        );
        return Vec::new();
    };
    let list = std::mem::replace(&mut document.root, clawrl_config::Node::map(Vec::new()));
    document.root = clawrl_config::Node::map(vec![("entries", list)]);
    sort_keys(&document, KEYS, findings);
    let mut actions = Vec::new();
    for entry in document.section().each("entries") {
        let Some(command) = entry.text("command", findings) else {
            if !entry.has("command") {
                entry.refuse(
                    "command",
                    findings,
                    "an entry of the solution has no command",
                    "add `command: ls`",
                );
            }
            continue;
        };
        if command.value.contains('\0') {
            entry.refuse("command", findings, "a command holds a NUL character", "remove it");
            continue;
        }
        let block = entry.flag("block", findings).is_some_and(|block| block.value);
        let enter = entry.flag("append_enter", findings).is_none_or(|enter| enter.value);
        let seconds = entry.number("min_timeout_sec", findings).map_or(0.0, |seconds| seconds.value);
        actions.extend(played(&command.value, block, enter, seconds));
    }
    actions
}

/// Turns one entry into actions.
fn played(command: &str, block: bool, enter: bool, seconds: f64) -> Vec<Action> {
    let mut actions = match (key(command), enter) {
        (None, true) if block => return vec![Action::Run(command.to_owned())],
        (Some(key), true) => vec![Action::Keys(format!("{key} Enter"))],
        (Some(key), false) => vec![Action::Keys(key)],
        (None, true) => vec![Action::Text(format!("{command}\n"))],
        (None, false) if command.is_empty() => Vec::new(),
        (None, false) => vec![Action::Text(command.to_owned())],
    };
    let mut left = seconds;
    while left > 0.0 {
        actions.push(Action::Wait(left.clamp(0.001, MAX_WAIT)));
        left -= MAX_WAIT;
    }
    actions
}

/// The key that tmux would press for this text, if any.
fn key(text: &str) -> Option<String> {
    let (modifiers, base) = match text.char_indices().rev().find(|(at, c)| *c == '-' && *at + 1 < text.len())
    {
        Some((at, _)) => text.split_at(at + 1),
        None => ("", text),
    };
    let known = modifiers.split_terminator('-').all(|modifier| matches!(modifier, "C" | "M" | "S"));
    if !known {
        return None;
    }
    let arrow = matches!(base, "Up" | "Down" | "Left" | "Right");
    let function = base
        .strip_prefix('F')
        .and_then(|digits| digits.parse::<u8>().ok())
        .is_some_and(|n| (1..=12).contains(&n));
    let named = TMUX_KEYS.iter().find(|(tmux, _)| *tmux == base).map(|(_, ours)| *ours);
    let single = base.chars().count() == 1 && !modifiers.is_empty() && base.is_ascii();
    let base = named.or((arrow || function || single).then_some(base))?;
    Some(format!("{modifiers}{base}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<&str>) {
        assert_eq!(key(text).as_deref(), expected, "{text}");
    }

    #[test]
    fn tmux_keys_are_translated() {
        check("C-c", Some("C-c"));
        check("Escape", Some("Escape"));
        check("C-Up", Some("C-Up"));
        check("PgDn", Some("PageDown"));
        check("F5", Some("F5"));
        check("ls -l", None);
        check("ls -", None);
        check(":wq", None);
        check("q", None);
        check("x-y", None);
    }

    #[test]
    fn solution_entries_become_actions() {
        assert_eq!(played("make", true, true, 3.0), [Action::Run("make".to_owned())]);
        assert_eq!(played("vi a", false, true, 1.5), [Action::Text("vi a\n".to_owned()), Action::Wait(1.5)]);
        assert_eq!(played("ihello", false, false, 0.0), [Action::Text("ihello".to_owned())]);
        assert_eq!(played("Escape", true, false, 0.0), [Action::Keys("Escape".to_owned())]);
        assert_eq!(played("", false, false, 601.0), [Action::Wait(600.0), Action::Wait(1.0)]);
    }
}
