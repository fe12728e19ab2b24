//! The policy as a user writes it in `--policy`.

use std::fs;
use std::path::{Path, PathBuf};

use clawrl_cassette::Cassette;
use clawrl_config::{AgentFilePlan, ConfigError, refuse_unnameable};
use clawrl_core::{AgentSpec, KeySource, PolicySpec, RemoteDialect, RemoteSpec, RunId};

use crate::agent::may_answer;
use crate::cassette::unreadable;
use crate::error::RuntimeError;
use crate::run_name::parse_run_name;

/// Default share of attempts in which the demonstrator plays the oracle, percent, unless the user sets it.
const DEMONSTRATOR_PERCENT: u8 = 35;

/// Maximum tokens of an embedded policy's reply. The default of training is the same.
const REPLY_TOKENS: u32 = 48;

const FORMS: &str = "noop, oracle, demonstrator, demonstrator:PERCENT, random:FILE, replay:RUN, torch:DIR, torch:DIR@TEMPERATURE, \
                     openai:MODEL, anthropic:MODEL, remote:FILE, cassette:FILE or agent:FILE";

const NO_MODEL: &str = "torch takes the folder of a model, as in torch:results/runs/RUN/checkpoints/000050/model, and after an @ the \
     temperature at which it is sampled, such as torch:DIR@0.7";

/// Maximum sampling temperature. Above it, samples are practically uniform.
const MAX_TEMPERATURE: f64 = 100.0;

/// A policy by its name and, after a colon, its setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyChoice {
    /// Submits at once.
    Noop,
    /// Plays each task's oracle.
    Oracle,
    /// Plays the oracle in a share of attempts, wrong solutions in the others.
    Demonstrator {
        /// Share of attempts that play the oracle, percent.
        oracle_percent: u8,
    },
    /// Plays random lines of a file.
    Random {
        /// The file, with one action per line.
        file: PathBuf,
    },
    /// Repeats a recorded run.
    Replay {
        /// The recorded run.
        run: RunId,
    },
    /// A model that this process runs.
    Torch {
        /// Folder of the model or adapter.
        folder: PathBuf,
        /// Thousandths of the sampling temperature; 0 is greedy.
        temperature_milli: u32,
    },
    /// A model behind a server, with default settings.
    Server {
        /// Protocol of the server.
        dialect: RemoteDialect,
        /// Name of the model at the server.
        model: String,
    },
    /// A model behind a server, with the settings of a policy file.
    Remote {
        /// The policy file.
        file: PathBuf,
    },
    /// Recorded replies, matched by request.
    Cassette {
        /// The recording.
        file: PathBuf,
    },
    /// Programs of the user, as an agent file says.
    Agent {
        /// The agent file.
        file: PathBuf,
    },
}

/// The server of a policy that names only its model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerChoice {
    /// Base URL without a trailing slash.
    pub base_url: Option<String>,
    /// The environment variable of the key, or `none`.
    pub key_env: Option<String>,
}

impl PolicyChoice {
    /// Parses an argument.
    pub fn parse(text: &str) -> Result<Self, String> {
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
            ("torch", Some(setting)) => torch(setting),
            ("torch", None) => Err(NO_MODEL.to_owned()),
            ("openai", Some(model)) if !model.is_empty() => Ok(Self::server(RemoteDialect::Openai, model)),
            ("anthropic", Some(model)) if !model.is_empty() => {
                Ok(Self::server(RemoteDialect::Anthropic, model))
            }
            ("openai" | "anthropic", _) => {
                Err(format!("{name} takes the name of a model, as the server knows it: {name}:MODEL"))
            }
            ("remote", Some(file)) if !file.is_empty() => Ok(Self::Remote { file: file.into() }),
            ("remote", _) => Err("remote takes a policy file, as in remote:policy.yaml".to_owned()),
            ("agent", Some(file)) if !file.is_empty() => Ok(Self::Agent { file: file.into() }),
            ("agent", _) => Err("agent takes an agent file, as in agent:agent.yaml".to_owned()),
            ("cassette", Some(file)) if !file.is_empty() => Ok(Self::Cassette { file: file.into() }),
            ("cassette", _) => Err("cassette takes a recording, as in cassette:my-run.cassette".to_owned()),
            ("replay", Some(run)) => Ok(Self::Replay { run: parse_run_name(run)? }),
            ("replay", None) => Err("replay takes the name of a run, as in replay:my-run".to_owned()),
            ("noop" | "oracle", Some(_)) => Err(format!("{name} takes no setting")),
            _ => Err(format!("there is no policy `{name}`; write {FORMS}")),
        }
    }

    /// Resolves the file or folder relative to this folder.
    pub fn seen_from(self, home: &Path) -> Self {
        match self {
            Self::Random { file } => Self::Random { file: home.join(file) },
            Self::Torch { folder, temperature_milli } => {
                Self::Torch { folder: home.join(folder), temperature_milli }
            }
            Self::Remote { file } => Self::Remote { file: home.join(file) },
            Self::Cassette { file } => Self::Cassette { file: home.join(file) },
            Self::Agent { file } => Self::Agent { file: home.join(file) },
            Self::Noop
            | Self::Oracle
            | Self::Demonstrator { .. }
            | Self::Replay { .. }
            | Self::Server { .. } => self,
        }
    }

    fn server(dialect: RemoteDialect, model: &str) -> Self {
        Self::Server { dialect, model: model.to_owned() }
    }

    /// The policy of the plan.
    pub fn spec(&self, server: &ServerChoice) -> Result<PolicySpec, RuntimeError> {
        if !matches!(self, Self::Server { .. }) && *server != ServerChoice::default() {
            let help = match self {
                Self::Remote { .. } => "write `base_url:` and `key_env:` into the policy file",
                _ => "write `--policy openai:MODEL`, or leave them out",
            };
            let message = "--base-url and --key-env go with --policy openai:MODEL and anthropic:MODEL";
            return Err(RuntimeError::refused(message).with_help(help));
        }
        Ok(match self {
            Self::Noop => PolicySpec::Noop,
            Self::Oracle => PolicySpec::Oracle,
            Self::Demonstrator { oracle_percent } => {
                PolicySpec::Demonstrator { oracle_percent: *oracle_percent }
            }
            Self::Replay { run } => PolicySpec::Replay { run: run.clone() },
            Self::Torch { folder, temperature_milli } => PolicySpec::Torch {
                path: planned(folder)?,
                temperature_milli: *temperature_milli,
                max_new_tokens: REPLY_TOKENS,
            },
            Self::Random { file } => PolicySpec::Random { actions: actions(file)? },
            Self::Server { dialect, model } => {
                let base_url = server.base_url.clone().unwrap_or_else(|| dialect.usual_base_url().to_owned());
                let mut settings = RemoteSpec::usual(*dialect, base_url, model.clone());
                settings.key = match server.key_env.as_deref() {
                    None => KeySource::Usual,
                    Some("none") => KeySource::None,
                    Some(name) => KeySource::Env(name.to_owned()),
                };
                PolicySpec::Remote(Box::new(settings))
            }
            Self::Agent { file } => PolicySpec::Agent(Box::new(agent(file)?)),
            Self::Cassette { file } => {
                let (origin, sha256) = Cassette::read_origin(file).map_err(|error| unreadable(&error))?;
                PolicySpec::Cassette { path: planned(file)?, sha256, recorded: Box::new(origin.policy) }
            }
            Self::Remote { file } => PolicySpec::Remote(Box::new(clawrl_config::load_policy(file)?)),
        })
    }
}

/// An absolute path, for the plan.
fn planned(path: &Path) -> Result<PathBuf, RuntimeError> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    refuse_unnameable(&path).map_err(ConfigError::from)?;
    Ok(path)
}

/// Reads an agent file, with the model that it names.
fn agent(file: &Path) -> Result<AgentSpec, RuntimeError> {
    let plan = clawrl_config::load_agent(file)?;
    let refused = |why: String| {
        let help = "write `model: remote:policy.yaml`, `openai:MODEL`, `anthropic:MODEL`, `torch:DIR`, `cassette:FILE` \
                    or `random:FILE`, with files relative to the agent file, or leave it out";
        RuntimeError::refused(format!("the model in {} is none: {why}", file.display())).with_help(help)
    };
    let model = match &plan.model {
        None => None,
        Some(words) => {
            let choice = PolicyChoice::parse(words).map_err(refused)?.seen_from(&plan.home);
            let spec = choice.spec(&ServerChoice::default())?;
            if !may_answer(&spec) {
                return Err(refused(format!("`{words}` plays tasks, and answers no program")));
            }
            Some(Box::new(spec))
        }
    };
    let AgentFilePlan { command, folder, env, secrets, door, limits, .. } = plan;
    Ok(AgentSpec { command, folder, env, secrets, door, model, limits })
}

/// Parses `FOLDER` or `FOLDER@TEMPERATURE`. The folder's name may contain an `@`.
fn torch(setting: &str) -> Result<PolicyChoice, String> {
    let temperature = |(folder, number): (&str, &str)| Some((folder.to_owned(), number.parse::<f64>().ok()?));
    let (folder, temperature) =
        setting.rsplit_once('@').and_then(temperature).unwrap_or_else(|| (setting.to_owned(), 0.0));
    if folder.is_empty() || !(0.0..=MAX_TEMPERATURE).contains(&temperature) {
        return Err(NO_MODEL.to_owned());
    }
    let temperature_milli = (1000.0 * temperature).round() as u32;
    if temperature > 0.0 && temperature_milli == 0 {
        return Err(format!("the temperature of {setting} is less than a thousandth"));
    }
    Ok(PolicyChoice::Torch { folder: folder.into(), temperature_milli })
}

/// The lines of a file of actions.
fn actions(file: &Path) -> Result<Vec<String>, RuntimeError> {
    let refused = |why: String| {
        let help = "give a text file with one action a line, such as `ls -l` or `submit`";
        RuntimeError::refused(format!("the actions of --policy random cannot be used: {why}")).with_help(help)
    };
    let text = fs::read_to_string(file).map_err(|error| refused(format!("{}: {error}", file.display())))?;
    let text = text.trim_start_matches('\u{feff}');
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
        let torch = |folder: &str, temperature_milli| PolicyChoice::Torch {
            folder: folder.into(),
            temperature_milli,
        };
        check("torch:a/b", Ok(torch("a/b", 0)));
        check("torch:a/b@0.7", Ok(torch("a/b", 700)));
        check("torch:a@b/c@1", Ok(torch("a@b/c", 1_000)));
        check("torch:a@b/c", Ok(torch("a@b/c", 0)));
        check("torch:@1", Err("takes the folder of a model"));
        check("torch:a@-1", Err("takes the folder of a model"));
        check("torch:a@NaN", Err("takes the folder of a model"));
        check("torch:a@0.0001", Err("less than a thousandth"));
        check("torch", Err("takes the folder of a model"));
        check("oracle:1", Err("takes no setting"));
        check("openai:org/model:4b", Ok(PolicyChoice::server(RemoteDialect::Openai, "org/model:4b")));
        check("anthropic", Err("takes the name of a model"));
        check("remote:policy.yaml", Ok(PolicyChoice::Remote { file: "policy.yaml".into() }));
        check("remote:", Err("takes a policy file"));
        check("cassette:a:b", Ok(PolicyChoice::Cassette { file: "a:b".into() }));
        check("agent:agent.yaml", Ok(PolicyChoice::Agent { file: "agent.yaml".into() }));
        check("agent", Err("takes an agent file"));
        check("cassette:", Err("takes a recording"));
        check("orcale", Err("write noop, oracle"));
    }
}
