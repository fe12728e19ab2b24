//! Exit codes: the only list, from which `clawrl help exit-codes` is generated.
//!
//! I1. Every regular end of `clawrl` has one of these codes; a panic is [`Exit::Internal`]. I2. Codes and meanings are
//! a public interface.

/// How the program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The command succeeded.
    Success,
    /// Internal error.
    Internal,
    /// Arguments or suites were refused; nothing was started.
    Refused,
    /// `validate` found invalid tasks.
    ValidationFailed,
    /// The run is over, and faults closed some of its slots.
    Faulted,
    /// A user ended the run; slots are open.
    Interrupted,
    /// The machine lacks a requirement.
    Environment,
    /// Results could not be written or read.
    Results,
    /// The run does not exist, is running, or already exists.
    NoSuchRun,
    /// A training was aborted.
    TrainingFailed,
    /// A gate failed.
    GateFailed,
    /// A gate was inconclusive.
    GateInconclusive,
}

impl Exit {
    /// All, by code.
    pub const ALL: [Self; 12] = [
        Self::Success,
        Self::Internal,
        Self::Refused,
        Self::ValidationFailed,
        Self::Faulted,
        Self::Interrupted,
        Self::Environment,
        Self::Results,
        Self::NoSuchRun,
        Self::TrainingFailed,
        Self::GateFailed,
        Self::GateInconclusive,
    ];

    /// The number that the shell sees.
    pub fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Internal => 1,
            Self::Refused => 2,
            Self::ValidationFailed => 3,
            Self::Faulted => 4,
            Self::Interrupted => 5,
            Self::Environment => 6,
            Self::Results => 7,
            Self::NoSuchRun => 8,
            Self::TrainingFailed => 9,
            Self::GateFailed => 10,
            Self::GateInconclusive => 11,
        }
    }

    /// Meaning and remedy, for help texts.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Success => {
                "Success. For `run`: every slot is closed without a fault; tasks may have failed."
            }
            Self::Internal => "Internal error, or cleanup failed. Recorded results are valid.",
            Self::Refused => "Invalid arguments or suites. Nothing was started.",
            Self::ValidationFailed => {
                "`validate`: the no-op passes a task, or its oracle does not. `env check`: an environment does not conform."
            }
            Self::Faulted => {
                "The run ended with faulted attempts; retry them with `run --resume RUN --retry-faulted`. For `chat` without \
                 a terminal: an answer is incomplete, or a command failed."
            }
            Self::Interrupted => {
                "Stopped early by Ctrl-C, a signal or a cost limit; slots are open. Continue with `run --resume RUN`."
            }
            Self::Environment => "The machine lacks a requirement. `doctor` lists what is missing.",
            Self::Results => {
                "Results cannot be written or read: full disk, read-only folder, damaged journal. Recorded results are kept."
            }
            Self::NoSuchRun => "Run not found, still running, or already exists.",
            Self::TrainingFailed => {
                "Training aborted: non-finite values or no learning signal. Checkpoints are intact."
            }
            Self::GateFailed => {
                "`ci`: a result is worse than a gate tolerates, or a required task did not pass."
            }
            Self::GateInconclusive => {
                "`ci`: gate inconclusive: too few attempts, too many faults, an interrupted run, or a budget. The output \
                 lists what is missing."
            }
        }
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_their_places() {
        let codes: Vec<u8> = Exit::ALL.iter().map(|exit| exit.code()).collect();
        assert_eq!(codes, (0..12).collect::<Vec<u8>>());
    }

    /// Published meanings do not change by accident (I2).
    #[test]
    fn meanings_are_locked() {
        let line = |exit: &Exit| format!("| {} | {} |\n", exit.code(), exit.meaning());
        let lines: String = Exit::ALL.iter().map(line).collect();
        let table = format!("| code | meaning |\n| --- | --- |\n{lines}");
        insta::assert_snapshot!(table);
    }
}
