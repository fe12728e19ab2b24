//! `clawrl eval`: measures the benefit of learning.

use std::path::PathBuf;

use clawrl_runtime::training::{Arm, Persona, PersonalRequest};

use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::log::Log;
use crate::output::{print, print_json_text};
use crate::program::linked;
use crate::results::ResultsArguments;
use crate::table::aligned;

/// Measures the benefit of learning from feedback, by published protocols.
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

/// Simulates users with one preference each, and measures how many sessions a tiny policy needs to adapt.
///
/// First trains the policy, which takes minutes, and stores it in the results folder. Prints tables, and writes a
/// report to a folder.
#[derive(Debug, clap::Args)]
struct Personal {
    /// Users of each persona, one per seed; the same seeds are used in every arm.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    seeds: u32,
    /// First seed.
    #[arg(long, value_name = "N", default_value_t = 0)]
    first_seed: u64,
    /// Personas to simulate.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = PersonaChoice::ALL)]
    personas: Vec<PersonaChoice>,
    /// Arms: how the policy uses what users say.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = ArmChoice::ALL)]
    arms: Vec<ArmChoice>,
    /// Maximum sessions per user (users who never adapt are censored at this value).
    #[arg(long, value_name = "N", default_value_t = 72, value_parser = clap::value_parser!(u32).range(3..=1000))]
    sessions: u32,
    /// Percentage of complaints that state the preference explicitly.
    #[arg(long, value_name = "PERCENT", default_value_t = 50, value_parser = clap::value_parser!(u8).range(0..=100))]
    telling: u8,
    /// Held-out questions at the end of each user and arm.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    held_out: u32,
    /// Imitation steps that train the policy.
    #[arg(long, value_name = "N", default_value_t = 1200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    warm_start_steps: u32,
    /// Learning rate, instead of the one tuned for each arm.
    #[arg(long, value_name = "X", value_parser = above_0)]
    learning_rate: Option<f64>,
    /// Maximum divergence from the previous version, in nats per token, instead of the tuned one.
    #[arg(long, value_name = "NATS", value_parser = above_0)]
    max_kl: Option<f64>,
    /// Samples per update, instead of the tuned number.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    train_every_turns: Option<u32>,
    /// Concurrent users [default: number of CPUs].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    jobs: Option<u32>,
    /// Your own policy, instead of the tiny one. Not implemented yet: it needs users that judge free text.
    #[arg(long, value_name = "FOLDER_OR_FILE")]
    policy: Option<PathBuf>,
    /// Policy file of a model that plays the users. Not implemented yet.
    #[arg(long, value_name = "FILE")]
    users: Option<PathBuf>,
    /// Folder of the report, new or empty [default: personal/ in the results folder, by date and time].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    /// The results folder.
    results: ResultsArguments,
    /// Print all results as JSON.
    #[arg(long)]
    json: bool,
    /// Print only warnings and errors, no progress or notes.
    #[arg(long)]
    quiet: bool,
}

/// Simulated users.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum PersonaChoice {
    /// Wants plain answers: no bold text, lists or boxes.
    Student,
    /// Wants an explanation of how the answer was found.
    Assistant,
    /// Wants a friendly tone.
    Teacher,
}

impl PersonaChoice {
    const ALL: [Self; 3] = [Self::Student, Self::Assistant, Self::Teacher];
}

impl From<PersonaChoice> for Persona {
    fn from(choice: PersonaChoice) -> Self {
        match choice {
            PersonaChoice::Student => Self::Student,
            PersonaChoice::Assistant => Self::Assistant,
            PersonaChoice::Teacher => Self::Teacher,
        }
    }
}

/// Uses of what users say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ArmChoice {
    /// Ignore it.
    None,
    /// Learn from whether users were satisfied.
    Binary,
    /// Learn from what users said, which a teacher reads as a hint.
    Opd,
    /// Learn from both.
    Combined,
    /// Add it to the system prompt of later sessions, without learning.
    Memory,
}

impl ArmChoice {
    const ALL: [Self; 5] = [Self::None, Self::Binary, Self::Opd, Self::Combined, Self::Memory];
}

impl From<ArmChoice> for Arm {
    fn from(choice: ArmChoice) -> Self {
        match choice {
            ArmChoice::None => Self::None,
            ArmChoice::Binary => Self::Binary,
            ArmChoice::Opd => Self::Opd,
            ArmChoice::Combined => Self::Combined,
            ArmChoice::Memory => Self::Memory,
        }
    }
}

/// Runs the evaluation, and prints its tables.
pub(crate) fn run(arguments: &Arguments, log: &Log) -> Result<Exit, Failure> {
    let Verb::Personal(arguments) = &arguments.verb;
    let training = linked()?;
    refuse_what_is_not_there(arguments)?;
    let request = PersonalRequest {
        seeds: arguments.seeds,
        first_seed: arguments.first_seed,
        personas: arguments.personas.iter().copied().map(Persona::from).collect(),
        arms: arguments.arms.iter().copied().map(Arm::from).collect(),
        sessions: arguments.sessions,
        telling: arguments.telling,
        held_out: arguments.held_out,
        warm_start_steps: arguments.warm_start_steps,
        learning_rate: arguments.learning_rate,
        max_kl: arguments.max_kl,
        train_every_turns: arguments.train_every_turns,
        jobs: arguments.jobs,
        results: arguments.results.dir(),
        out: arguments.out.clone(),
    };
    let outcome = training.evaluate_personal(&request, &log.quieted(arguments.quiet))?;
    if arguments.json {
        print_json_text(&outcome.json)?;
    } else {
        let right = [false, true, true, true, true, true, true];
        let mut text = aligned(outcome.headings, right, &outcome.rows) + "\n";
        for comparison in &outcome.comparisons {
            text += &format!("{comparison}\n");
        }
        print(&format!("{text}\nreport  {}\n", outcome.report.display()))?;
    }
    Ok(Exit::Success)
}

fn refuse_what_is_not_there(arguments: &Personal) -> Result<(), Failure> {
    let refuse = |message: &str, help: &str| Err(Failure::with_help(Exit::Refused, message, help));
    if arguments.policy.is_some() {
        return refuse(
            "`--policy` is not there yet: questions and users are those of the tiny policy's world",
            "leave it out; `clawrl serve --learn` learns from people's chat with any policy",
        );
    }
    if arguments.users.is_some() {
        return refuse("`--users` is not there yet: users are rules", "leave it out");
    }
    Ok(())
}

fn above_0(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
        _ => Err("write a number above 0".to_owned()),
    }
}
