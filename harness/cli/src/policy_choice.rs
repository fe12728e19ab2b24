//! `--policy`: who acts, as a person writes it.

use std::fs;
use std::path::PathBuf;

use clawrl_core::{PolicySpec, RunId};

use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::results::run_name;

/// The share of attempts in which the demonstrator is right, where nobody says otherwise.
const DEMONSTRATOR_PERCENT: u8 = 35;

/// Tokens of a reply of an embedded policy before it is cut; as in training, where nobody says otherwise.
const REPLY_TOKENS: u32 = 48;

const FORMS: &str = "noop, oracle, demonstrator, demonstrator:PERCENT, random:FILE, replay:RUN or torch:DIR";

/// A policy by its name and, after a colon, its setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PolicyChoice {
    /// Submits at once.
    Noop,
    /// Plays each task's oracle.
    Oracle,
    /// Plays the oracle sometimes, mistakes otherwise.
    Demonstrator { oracle_percent: u8 },
    /// Draws lines of a file.
    Random { file: PathBuf },
    /// Repeats a recorded run.
    Replay { run: RunId },
    /// The model in a folder, greedily.
    Torch { folder: PathBuf },
}

impl PolicyChoice {
    /// Reads it from an argument.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (name, setting) = match text.split_once(':') {
            Some((name, setting)) => (name, Some(setting)),
            None => (text, None),
        };
        match (name, setting) {
            ("noop", None) => Ok(Self::Noop),
            ("oracle", None) => Ok(Self::Oracle),
            ("demonstrator", None) => Ok(Self::Demonstrator { oracle_percent: DEMONSTRATOR_PERCENT }),
            ("demonstrator", Some(percent)) => {
                match percent.parse() {
                    Ok(oracle_percent @ 0..=100) => Ok(Self::Demonstrator { oracle_percent }),
                    _ => Err("the demonstrator takes a whole number from 0 to 100, as in demonstrator:35"
                        .to_owned()),
                }
            }
            ("random", Some(file)) if !file.is_empty() => Ok(Self::Random { file: file.into() }),
            ("random", _) => {
                Err("random takes a file of actions, one a line, as in random:actions.txt".to_owned())
            }
            ("torch", Some(folder)) if !folder.is_empty() => Ok(Self::Torch { folder: folder.into() }),
            ("torch", _) => Err(
                "torch takes the folder of a model, as in torch:results/runs/RUN/checkpoints/000050/model"
                    .to_owned(),
            ),
            ("replay", Some(run)) => Ok(Self::Replay { run: run_name(run)? }),
            ("replay", None) => Err("replay takes the name of a run, as in replay:my-run".to_owned()),
            ("noop" | "oracle", Some(_)) => Err(format!("{name} takes no setting")),
            _ => Err(format!("there is no policy `{name}`; write {FORMS}")),
        }
    }

    /// What goes into the plan.
    pub(crate) fn spec(&self) -> Result<PolicySpec, Failure> {
        Ok(match self {
            Self::Noop => PolicySpec::Noop,
            Self::Oracle => PolicySpec::Oracle,
            Self::Demonstrator { oracle_percent } => {
                PolicySpec::Demonstrator { oracle_percent: *oracle_percent }
            }
            Self::Replay { run } => PolicySpec::Replay { run: run.clone() },
            Self::Torch { folder } => PolicySpec::Torch {
                path: std::path::absolute(folder).unwrap_or_else(|_| folder.clone()),
                temperature_milli: 0,
                max_new_tokens: REPLY_TOKENS,
            },
            Self::Random { file } => PolicySpec::Random { actions: actions(file)? },
        })
    }
}

/// The lines of a file of actions.
fn actions(file: &std::path::Path) -> Result<Vec<String>, Failure> {
    let refused = |why: String| {
        let help = "give a text file with one action a line, such as `ls -l` or `submit`";
        Failure::with_help(
            Exit::Refused,
            format!("the actions of --policy random cannot be used: {why}"),
            help,
        )
    };
    let text = fs::read_to_string(file).map_err(|error| refused(format!("{}: {error}", file.display())))?;
    let lines: Vec<String> = text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect();
    if lines.is_empty() { Err(refused(format!("{} has no lines", file.display()))) } else { Ok(lines) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<PolicyChoice, &str>) {
        match (PolicyChoice::parse(text), expected) {
            (Ok(choice), Ok(expected)) => assert_eq!(choice, expected, "{text}"),
            (Err(why), Err(part)) => assert!(why.contains(part), "{text}: {why}"),
            (got, expected) => panic!("{text}: {got:?}, not {expected:?}"),
        }
    }

    #[test]
    fn names_and_settings() {
        check("noop", Ok(PolicyChoice::Noop));
        check("demonstrator", Ok(PolicyChoice::Demonstrator { oracle_percent: 35 }));
        check("demonstrator:0", Ok(PolicyChoice::Demonstrator { oracle_percent: 0 }));
        check("random:a:b", Ok(PolicyChoice::Random { file: "a:b".into() }));
        check("demonstrator:101", Err("0 to 100"));
        check("random", Err("takes a file"));
        check("replay:a/b", Err("a run's name"));
        check("torch:a/b", Ok(PolicyChoice::Torch { folder: "a/b".into() }));
        check("torch", Err("takes the folder of a model"));
        check("oracle:1", Err("takes no setting"));
        check("orcale", Err("write noop, oracle"));
    }
}
