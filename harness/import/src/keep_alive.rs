//! Distinguishes commands that only keep a container alive from those that start something.
//!
//! A framework that enters containers needs a first program that waits; environments here have one of their own. So a
//! program that waits, or a shell without a task, can be left out of a suite. A service cannot.
//!
//! I1. A command that is not known to wait counts as starting something.

use std::sync::Arc;

use clawrl_config::{Source, Span};

use crate::dockerfile::simple_commands;
use crate::findings::Findings;

/// Shells, and programs that give a shell a terminal.
const SHELLS: [&str; 8] = ["ash", "bash", "dash", "ksh", "login", "sh", "tmux", "zsh"];
/// First processes that start another one and wait for it.
const INITS: [&str; 4] = ["catatonit", "docker-init", "dumb-init", "tini"];
/// Commands that start nothing with any arguments.
const HARMLESS: [&str; 14] = [
    ":", "[", "cd", "done", "echo", "exit", "export", "fi", "false", "printf", "set", "test", "true", "wait",
];
/// Words that may precede a command.
const BEFORE: [&str; 10] = ["!", "do", "elif", "else", "exec", "if", "then", "until", "while", "{"];

/// Advice for a task that starts something with its container.
pub(crate) const IN_SETUP: &str = "remove it, and start what the task needs in the imported suite, such as `setup: [\"my-server > /tmp/log 2>&1 &\"]`: an environment here starts only a shell";
/// The same for a verifier's own container.
pub(crate) const IN_TESTS: &str =
    "remove it, and start what the tests need in `test.sh`: an environment here starts only a shell";

/// Refuses a command, with advice: [`IN_SETUP`] or [`IN_TESTS`].
pub(crate) fn refuse_start(
    source: &Arc<Source>,
    span: Span,
    written: &str,
    instead: &str,
    findings: &mut Findings,
) {
    const MOST: usize = 80;
    let written = written.split_whitespace().collect::<Vec<_>>().join(" ");
    let shown = match written.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}…", &written[..at]),
        None => written,
    };
    findings.refuse(source, span, "starts something", format!("`{shown}` would not run"), instead);
}

/// Whether this program with these arguments starts nothing else.
pub(crate) fn only_waits(words: &[String]) -> bool {
    let Some((program, arguments)) = words.split_first() else { return true };
    let name = program.rsplit('/').next().unwrap_or(program);
    match name {
        "" => arguments.is_empty(),
        "sleep" => arguments.iter().all(|word| is_duration(word)),
        "tail" => arguments.iter().all(|word| word == "/dev/null" || word.starts_with('-')),
        "cat" | "true" | "false" => arguments.is_empty(),
        _ if INITS.contains(&name) => {
            let options = arguments.iter().take_while(|word| word.starts_with('-') && *word != "--").count();
            let rest = &arguments[options..];
            only_waits(rest.strip_prefix(&["--".to_owned()]).unwrap_or(rest))
        }
        _ if SHELLS.contains(&name) => shell_only_waits(arguments),
        _ => false,
    }
}

/// Whether a shell text starts nothing else.
pub(crate) fn script_only_waits(text: &str) -> bool {
    let mut text = text.replace("||", ";");
    for nowhere in
        ["2>&1", "2>/dev/null", "2> /dev/null", ">/dev/null", "> /dev/null", "</dev/null", "< /dev/null"]
    {
        text = text.replace(nowhere, " ");
    }
    // Substitutions and pipes may run anything.
    if text.contains("$(") || text.contains(['`', '|']) {
        return false;
    }
    simple_commands(&text).iter().all(|words| {
        let before = words.iter().take_while(|word| BEFORE.contains(&word.as_str())).count();
        let words = &words[before..];
        match words.first().map(String::as_str) {
            None | Some("}") => true,
            // These arguments are the framework's own command, which waits.
            Some("$@") => true,
            // The text of a trap runs when the container ends.
            Some("trap") => true,
            Some(word) if HARMLESS.contains(&word) => !words.iter().any(|word| word.contains(['<', '>'])),
            Some(_) => only_waits(words),
        }
    })
}

/// The words of a command that no shell reads, without quotes.
pub(crate) fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(open), c) if open == c => quote = None,
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(characters.next()),
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// A shell without a text or a file to read waits for input.
fn shell_only_waits(arguments: &[String]) -> bool {
    let mut arguments = arguments.iter();
    while let Some(word) = arguments.next() {
        match word.strip_prefix(['-', '+']) {
            Some(letters) if !letters.starts_with('-') && letters.contains('c') => {
                return arguments.next().is_none_or(|text| script_only_waits(text));
            }
            // `-o pipefail`
            Some(letters) if !letters.starts_with('-') && letters.ends_with(['o', 'O']) => {
                arguments.next();
            }
            Some(_) => {}
            None => return false,
        }
    }
    true
}

fn is_duration(word: &str) -> bool {
    let amount = word.strip_suffix(['s', 'm', 'h', 'd']).unwrap_or(word);
    amount.parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: bool) {
        assert_eq!(only_waits(&words(text)), expected, "{text}");
    }

    fn check_script(text: &str, expected: bool) {
        assert_eq!(script_only_waits(text), expected, "{text}");
    }

    #[test]
    fn waiting_programs_are_known() {
        for waits in [
            "",
            "sleep infinity",
            "/usr/bin/sleep 30d",
            "tail -f /dev/null",
            "tail -F -n0 /dev/null",
            "cat",
            "bash",
            "/bin/bash -il",
            "bash --login",
            "sh -c",
            "sh -c 'sleep infinity'",
            "bash -lc 'tail -f /dev/null'",
            "bash -e -o pipefail -c 'sleep 1'",
            "tini -g -- sleep infinity",
            "dumb-init bash",
            "tmux",
        ] {
            check(waits, true);
        }
    }

    #[test]
    fn working_programs_are_refused() {
        for starts in [
            "python3 server.py",
            "nginx -g 'daemon off;'",
            "/entrypoint.sh",
            "sh /entrypoint.sh",
            "bash -c '/start-server & sleep infinity'",
            "tini -- /entrypoint.sh",
            "tail -f /var/log/server",
            "cat /dev/random",
            "sleep infinity; server",
            "tmux new-session server",
            "sleeper",
            "$SERVER",
        ] {
            check(starts, false);
        }
    }

    #[test]
    fn shell_texts_are_split_into_commands() {
        for waits in [
            "sleep infinity",
            "while true; do sleep 1000; done",
            "trap 'exit 0' TERM; tail -f /dev/null & wait $!",
            "echo ready && exec sleep infinity > /dev/null 2>&1",
            "set -e; exec \"$@\"",
            "# nothing\n",
        ] {
            check_script(waits, true);
        }
        for starts in [
            "service ssh start && sleep infinity",
            "echo $(server)",
            "echo `server`",
            "echo x | sh",
            "echo x > /etc/motd; sleep infinity",
            "touch /ready; sleep infinity",
            "bash < script",
            ". /start",
        ] {
            check_script(starts, false);
        }
    }

    #[test]
    fn compose_commands_are_split_into_words() {
        let check = |text: &str, expected: &[&str]| assert_eq!(words(text), expected, "{text}");
        check("sh -c \"a 'b' \\\"c\\\"\"  d", &["sh", "-c", "a 'b' \"c\"", "d"]);
        check("a\\ b '' 'c\\d'", &["a b", "", "c\\d"]);
    }
}
