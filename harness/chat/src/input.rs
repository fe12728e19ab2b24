//! Parses a line: a message or a command.
//!
//! I1. A line that begins with `/` but is not a command is never sent: it may be a mistyped command.

use std::path::PathBuf;

/// The commands and their help texts.
pub(super) const COMMANDS: [(&str, &str); 12] = [
    ("/good", "the last answer is good"),
    ("/bad [TEXT]", "the last answer is bad, and what is wrong with it"),
    ("/fix TEXT", "the last answer is bad, and what it should have been"),
    ("/retry", "asks the last message again, without its answer"),
    ("/new", "closes the session and begins another"),
    ("/status", "tells who answers, and what is learned from you"),
    ("/train", "learns now from what waits"),
    ("/rollback [VERSION]", "goes back to the version before, or to this one"),
    ("/model [NAME]", "tells the models, or asks this one from now on"),
    ("/save FILE", "writes the conversation as JSON, into a new file"),
    ("/help", "this list; `//text` sends `/text`"),
    ("/quit", "ends, as Ctrl-D does"),
];

/// A parsed line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Input {
    /// An empty line.
    Nothing,
    Message(String),
    Command(Command),
    /// A refused line; the reason.
    Wrong(String),
}

/// A command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Command {
    Good,
    Bad(Option<String>),
    Fix(String),
    Retry,
    New,
    Status,
    Train,
    RollBack(Option<u64>),
    Model(Option<String>),
    Save(PathBuf),
    Help,
    Quit,
}

/// Parses a line.
pub(super) fn read(line: &str) -> Input {
    let words = line.trim();
    if words.is_empty() {
        return Input::Nothing;
    }
    let Some(rest) = words.strip_prefix('/') else { return Input::Message(line.trim_end().to_owned()) };
    if rest.starts_with('/') {
        return Input::Message(rest.to_owned());
    }
    let (word, text) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let text = Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    let command = match (word, text) {
        ("good", None) => Command::Good,
        ("bad", text) => Command::Bad(text),
        ("fix", Some(text)) => Command::Fix(text),
        ("model", name) => Command::Model(name),
        ("save", Some(file)) => Command::Save(file.into()),
        ("retry", None) => Command::Retry,
        ("status", None) => Command::Status,
        ("train", None) => Command::Train,
        ("rollback", None) => Command::RollBack(None),
        ("rollback", Some(version)) => match version.trim_start_matches('v').parse() {
            Ok(version) => Command::RollBack(Some(version)),
            Err(_) => {
                return Input::Wrong(
                    "`/rollback` takes the number of a version, as in `/rollback 3`; `/status` lists them"
                        .to_owned(),
                );
            }
        },
        ("new", None) => Command::New,
        ("help", None) => Command::Help,
        ("quit", None) => Command::Quit,
        ("fix", None) => {
            return Input::Wrong(
                "`/fix` needs a text: what the answer should have been, as in `/fix It is Canberra.`"
                    .to_owned(),
            );
        }
        ("save", None) => {
            return Input::Wrong(
                "`/save` needs a file that is not there yet, as in `/save chat.json`".to_owned(),
            );
        }
        // The text of `/good` would be read as a hint.
        ("good", Some(_)) => {
            return Input::Wrong(
                "`/good` stands alone, and nothing was sent; `/bad TEXT` says what should be otherwise"
                    .to_owned(),
            );
        }
        ("retry" | "new" | "status" | "train" | "help" | "quit", Some(_)) => {
            return Input::Wrong(format!("`/{word}` stands alone; nothing was done"));
        }
        _ => return Input::Wrong(unknown(word)),
    };
    Input::Command(command)
}

fn unknown(word: &str) -> String {
    let known = COMMANDS.map(|(usage, _)| format!("`{usage}`")).join(", ");
    format!(
        "there is no command `/{word}`, and nothing was sent; there is {known}; `//{word}` sends `/{word}`"
    )
}

/// The list for `/help`.
pub(super) fn help() -> Vec<(&'static str, String)> {
    COMMANDS.iter().map(|(usage, does)| (*usage, (*does).to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: Input) {
        assert_eq!(read(line), expected, "{line:?}");
    }

    #[test]
    fn messages() {
        let says = |line, text: &str| check(line, Input::Message(text.to_owned()));
        says("hi there \r", "hi there");
        says("  indented", "  indented");
        says("1/2", "1/2");
        says("//etc/passwd", "/etc/passwd");
        says(" //good", "/good");
        says("///", "//");
        check(" \t", Input::Nothing);
    }

    #[test]
    fn commands() {
        let is = |line, command| check(line, Input::Command(command));
        is("/good", Command::Good);
        is(" /bad  too long ", Command::Bad(Some("too long".to_owned())));
        is("/fix\tCanberra", Command::Fix("Canberra".to_owned()));
        is("/model", Command::Model(None));
        is("/model a b", Command::Model(Some("a b".to_owned())));
        is("/save my chat.json", Command::Save("my chat.json".into()));
        is("/retry ", Command::Retry);
        is("/new", Command::New);
        is("/help", Command::Help);
        is("/quit", Command::Quit);
        is("/status", Command::Status);
        is("/train", Command::Train);
        is("/rollback", Command::RollBack(None));
        is("/rollback 3", Command::RollBack(Some(3)));
        is("/rollback v0", Command::RollBack(Some(0)));
    }

    #[test]
    fn i1_what_is_no_command_is_refused() {
        let wrong = |line: &str, told: &str| match read(line) {
            Input::Wrong(why) => assert!(why.contains(told), "{why}"),
            other => panic!("{line}: {other:?}"),
        };
        wrong("/god", "there is no command `/god`");
        wrong("/", "`/quit`");
        wrong("/srv/data is full", "`//srv/data` sends `/srv/data`");
        wrong("/Good", "`/good`");
        wrong("/good and short", "`/good` stands alone");
        wrong("/fix", "needs a text");
        wrong("/save ", "needs a file");
        wrong("/quit now", "stands alone");
        wrong("/train now", "stands alone");
        wrong("/rollback last", "takes the number of a version");
        wrong("/rollback -1", "takes the number of a version");
    }

    #[test]
    fn help_has_every_command_that_is_read() {
        for (usage, _) in COMMANDS {
            let line = usage.replace(['[', ']'], "").replace("VERSION", "3");
            assert!(matches!(read(&line), Input::Command(_)), "{line}");
            assert!(help().iter().any(|(listed, _)| *listed == usage), "{usage}");
        }
    }
}
