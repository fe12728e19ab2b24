//! `clawrl eval`: measure what learning is worth.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::log::Log;
use crate::program::training;
use crate::results::ResultsArguments;

/// Measures what learning is worth, by protocols that were published.
#[derive(Debug, clap::Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Examples:\n  clawrl eval personal\n  clawrl eval personal --seeds 2 --personas student --arms none,combined,memory"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    Personal(Box<Personal>),
}

/// Simulated users with a preference each talk with a tiny policy: how many sessions until it has the preference, by what is learned from.
///
/// The policy is made first, in minutes, and kept in the results folder. Tables go to standard output, the report into a folder.
#[derive(Debug, clap::Args)]
pub struct Personal {
    /// Seeds: users of each persona, paired over the arms.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub seeds: u32,
    /// The first of them.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub first_seed: u64,
    /// Who talks.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Persona::ALL)]
    pub personas: Vec<Persona>,
    /// What becomes of what they say.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Arm::ALL)]
    pub arms: Vec<Arm>,
    /// Sessions of a user; who has no three in a row by then counts with as many.
    #[arg(long, value_name = "N", default_value_t = 72, value_parser = clap::value_parser!(u32).range(3..=1000))]
    pub sessions: u32,
    /// Complaints about style that say what is wanted, in percent; others say that it is not wanted so.
    #[arg(long, value_name = "PERCENT", default_value_t = 50, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub telling: u8,
    /// Held-out questions at the end, for each user and arm.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub held_out: u32,
    /// Steps of imitation that the policy is made with.
    #[arg(long, value_name = "N", default_value_t = 1200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub warm_start_steps: u32,
    /// The optimizer's step size, instead of the one that each arm was tuned to.
    #[arg(long, value_name = "X", value_parser = above_0)]
    pub learning_rate: Option<f64>,
    /// Most divergence of a version from the one before, nats a token, instead of the tuned number.
    #[arg(long, value_name = "NATS", value_parser = above_0)]
    pub max_kl: Option<f64>,
    /// Samples of an update, instead of the tuned number.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub train_every_turns: Option<u32>,
    /// Users that are talked with at once [default: as many as this machine has processors].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub jobs: Option<u32>,
    /// A policy of yours, instead of the tiny one. Not there yet: it needs users that judge free text.
    #[arg(long, value_name = "FOLDER_OR_FILE")]
    pub policy: Option<PathBuf>,
    /// A model (policy file) that plays the users. Not there yet.
    #[arg(long, value_name = "FILE")]
    pub users: Option<PathBuf>,
    /// Folder of the report, new or empty [default: personal/ in the results folder, by date and time].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    /// The results folder.
    pub results: ResultsArguments,
    /// Print everything as JSON.
    #[arg(long)]
    pub json: bool,
    /// No progress and no notes; warnings and errors only.
    #[arg(long)]
    pub quiet: bool,
}

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Persona {
    /// Wants the answer plain: not bold, in no list, in no box.
    Student,
    /// Wants to be told how the answer was found.
    Assistant,
    /// Wants a warm word.
    Teacher,
}

impl Persona {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Student, Self::Assistant, Self::Teacher];

    /// As arguments and reports have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Student => "student",
            Self::Assistant => "assistant",
            Self::Teacher => "teacher",
        }
    }
}

/// What becomes of what users say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Arm {
    /// Nothing.
    None,
    /// Learned from: whether users were satisfied.
    Binary,
    /// Learned from: what they said, read by a teacher as a hint.
    Opd,
    /// Learned from: both.
    Combined,
    /// Written into the system prompt of later sessions; nothing is learned.
    Memory,
}

impl Arm {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::None, Self::Binary, Self::Opd, Self::Combined, Self::Memory];

    /// As arguments and reports have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Binary => "binary",
            Self::Opd => "opd",
            Self::Combined => "combined",
            Self::Memory => "memory",
        }
    }
}

/// Does it.
pub(crate) fn run(arguments: &Arguments, log: &Log) -> Result<Exit, Failure> {
    let Verb::Personal(personal) = &arguments.verb;
    training().evaluate_personal(personal, log)
}

fn above_0(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
        _ => Err("write a number above 0".to_owned()),
    }
}
