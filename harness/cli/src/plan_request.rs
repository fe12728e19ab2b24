//! Turns arguments into a plan; shared by `run`, `plan` and `validate`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clawrl_config::{PlanOptions, Suite, refuse_unnameable, resolve_plan};
use clawrl_core::{ActionFormat, ImageSource, PolicySpec, RunId, RunPlan, Split, check_base_url};
use clawrl_record::RunStore;
use clawrl_runtime::host::capacity;
use clawrl_runtime::{PolicyChoice, ServerChoice, parse_run_name, read_suites, stamp, unused_name};

use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::judge_choice::JudgeArguments;
use crate::log::Log;
use crate::redaction;

/// Maximum characters of a suite's name in a run's name.
const SUITE_CHARS: usize = 36;

/// Arguments of a new run.
#[derive(Debug, clap::Args)]
pub(crate) struct PlanArguments {
    /// Suites: a suite.yaml, its folder, or the name of a folder under ./tasks.
    #[arg(value_name = "SUITE")]
    pub(crate) suites: Vec<PathBuf>,
    /// Policy: noop, oracle, demonstrator[:PERCENT], random:FILE, torch:DIR (folder of a model), openai:MODEL or
    /// anthropic:MODEL (model behind a server), remote:FILE (policy file of such a model), cassette:FILE (recorded
    /// replies to the same requests), agent:FILE (your own program) or replay:RUN (actions of a recorded run; without
    /// SUITE, under that run's plan).
    #[arg(long, value_name = "POLICY", default_value = "oracle", value_parser = PolicyChoice::parse)]
    pub(crate) policy: PolicyChoice,
    /// With openai:MODEL and anthropic:MODEL: URL of the server, including /v1, such as http://localhost:11434/v1
    /// [default: the vendor's].
    #[arg(long, value_name = "URL", value_parser = base_url)]
    base_url: Option<String>,
    /// With openai:MODEL and anthropic:MODEL: environment variable with the key, or `none` [default: OPENAI_API_KEY or
    /// ANTHROPIC_API_KEY, if set].
    #[arg(long, value_name = "NAME", value_parser = key_env)]
    key_env: Option<String>,
    /// Name of the run [default: date, time and suite].
    #[arg(long, value_name = "RUN", value_parser = parse_run_name)]
    pub(crate) name: Option<RunId>,
    /// Seed from which all others are derived.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// GRPO group size; leave at 1 to evaluate.
    #[arg(long, value_name = "G", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    group_size: u32,
    /// Run every task N times, with different environment seeds.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeats: u32,
    /// Part of the tasks to run.
    #[arg(long, value_name = "PART", default_value = "all")]
    split: SplitChoice,
    /// Select only tasks whose id matches, such as `copy-*` or `terminal-basics/write-word#3`; may be repeated.
    #[arg(long, value_name = "GLOB")]
    filter: Vec<String>,
    /// Maximum tasks of each suite, spread over its templates.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// How replies are parsed; overrides suites and policy files: raw (the whole reply is the command), fenced (one
    /// code block), tool_calls (those of the server) or hermes (calls in the text). Default: tool_calls for a model
    /// behind a server, fenced if its policy file has `tools: text`; for other policies, the suite's.
    #[arg(long, value_name = "FORMAT")]
    action_format: Option<ActionFormatChoice>,
    /// Image for tasks that name none: its name, to run them in containers, or a folder with an unpacked root file
    /// system (/..., ./... or ../...), to run them in sandboxes.
    #[arg(long, value_name = "IMAGE", value_parser = image)]
    image: Option<ImageSource>,
    /// Maximum concurrent attempts [default: computed from memory and process limits].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) concurrency: Option<u32>,
    /// Environments to prepare before the first attempt.
    #[arg(long, value_name = "N", default_value_t = 0)]
    prewarm: u32,
    /// Maximum retries per attempt after a retryable fault.
    #[arg(long, value_name = "N", default_value_t = 1)]
    max_retries: u32,
    /// Abort the run after this many faulted slots.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_faults: Option<u32>,
    /// Scheduling weight of a suite relative to the others, as SUITE=N; may be repeated.
    #[arg(long, value_name = "SUITE=N", value_parser = weight)]
    weight: Vec<(String, u32)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
enum ActionFormatChoice {
    Raw,
    Fenced,
    ToolCalls,
    Hermes,
}

impl From<ActionFormatChoice> for ActionFormat {
    fn from(choice: ActionFormatChoice) -> Self {
        match choice {
            ActionFormatChoice::Raw => Self::Raw,
            ActionFormatChoice::Fenced => Self::Fenced,
            ActionFormatChoice::ToolCalls => Self::ToolCalls,
            ActionFormatChoice::Hermes => Self::Hermes,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum SplitChoice {
    All,
    Train,
    HeldOut,
}

impl From<SplitChoice> for Split {
    fn from(choice: SplitChoice) -> Self {
        match choice {
            SplitChoice::All => Self::All,
            SplitChoice::Train => Self::Train,
            SplitChoice::HeldOut => Self::HeldOut,
        }
    }
}

fn weight(text: &str) -> Result<(String, u32), String> {
    let parsed = text.split_once('=').and_then(|(suite, weight)| Some((suite, weight.parse().ok()?)));
    match parsed {
        Some((suite, weight)) if weight > 0 && !suite.is_empty() => Ok((suite.to_owned(), weight)),
        _ => Err("write the name of a suite and a whole number from 1, as in terminal-basics=2".to_owned()),
    }
}

/// Parses the name of an image or the path of an existing folder.
pub(crate) fn image(text: &str) -> Result<ImageSource, String> {
    if !["/", "./", "../"].iter().any(|start| text.starts_with(start)) {
        return Ok(ImageSource::Name(text.to_owned()));
    }
    let real = std::fs::canonicalize(text).map_err(|error| format!("{error}; unpack an image there"))?;
    refuse_unnameable(&real).map_err(|problem| format!("{problem}; {}", problem.help_text()))?;
    if real == Path::new("/") || !real.join("etc").is_dir() {
        return Err(
            "this is no unpacked root file system: it should be a folder with `etc` and `usr/bin`".to_owned()
        );
    }
    Ok(ImageSource::Rootfs(real))
}

pub(crate) fn base_url(text: &str) -> Result<String, String> {
    check_base_url(text).map_err(|bad| format!("{bad}; {}", bad.help))
}

pub(crate) fn key_env(text: &str) -> Result<String, String> {
    if text == "none" { Ok(text.to_owned()) } else { redaction::variable_name(text) }
}

/// A plan with its suites and options.
#[derive(Debug)]
pub(crate) struct Resolved {
    pub(crate) suites: Vec<Suite>,
    pub(crate) options: PlanOptions,
    pub(crate) plan: RunPlan,
}

impl PlanArguments {
    /// Refuses options that a train file sets itself.
    pub(crate) fn refuse_with_train_file(&self) -> Result<(), Failure> {
        let Self { policy, base_url, key_env, name, group_size, repeats, filter, limit, .. } = self;
        let Self {
            seed,
            action_format,
            image,
            concurrency,
            prewarm,
            max_retries,
            max_faults,
            weight,
            split,
            ..
        } = self;
        let given = [
            ("--policy", *policy != PolicyChoice::Oracle),
            ("--base-url", base_url.is_some()),
            ("--key-env", key_env.is_some()),
            ("--name", name.is_some()),
            ("--seed", *seed != 0),
            ("--group-size", *group_size != 1),
            ("--repeats", *repeats != 1),
            ("--split", *split != SplitChoice::All),
            ("--filter", !filter.is_empty()),
            ("--limit", limit.is_some()),
            ("--action-format", action_format.is_some()),
            ("--image", image.is_some()),
            ("--concurrency", concurrency.is_some()),
            ("--prewarm", *prewarm != 0),
            ("--max-retries", *max_retries != 1),
            ("--max-faults", max_faults.is_some()),
            ("--weight", !weight.is_empty()),
        ];
        let Some((option, _)) = given.into_iter().find(|&(_, given)| given) else { return Ok(()) };
        let help = "leave it out, or write it into the train file: harness/docs/guides/train.md";
        Err(Failure::with_help(Exit::Refused, format!("{option} does not go with a train file"), help))
    }

    /// Reads the suites and resolves the plan. Logs warnings about the suites.
    pub(crate) fn resolve(
        &self,
        judge: &JudgeArguments,
        store: &RunStore,
        log: &Log,
    ) -> Result<Resolved, Failure> {
        let suites = read_suites(&self.suites, log)?;
        let run = match &self.name {
            Some(name) => name.clone(),
            None => unused_name(store, &usual_name(&suites))?,
        };
        if self.action_format.is_some() && matches!(self.policy, PolicyChoice::Agent { .. }) {
            let help = "leave --action-format out";
            let message = "an agent program acts by calls, whatever its model writes";
            return Err(Failure::with_help(Exit::Refused, message, help));
        }
        let server = ServerChoice { base_url: self.base_url.clone(), key_env: self.key_env.clone() };
        let options = PlanOptions {
            seed: self.seed,
            group_size: self.group_size,
            repeats: self.repeats,
            split: self.split.into(),
            filter: self.filter.clone(),
            limit: self.limit,
            concurrency: self.concurrency,
            prewarm: self.prewarm,
            max_retries: self.max_retries,
            max_faults: self.max_faults,
            action_format: self.action_format.map(Into::into),
            image: self.image.clone(),
            judge: judge.spec()?,
            weights: self.weight.iter().cloned().collect::<BTreeMap<_, _>>(),
            ..PlanOptions::new(run, self.policy.spec(&server)?, capacity::probe())
        };
        let plan = resolve_plan(&suites, &options)?;
        if options.judge.is_some() && plan.judge.is_none() {
            log.warn(format_args!("no task has an `answer_rubric`: --judge is not used"));
        }
        Ok(Resolved { suites, options, plan })
    }

    /// The plan of a recorded run with another name and policy, for an exact replay.
    pub(crate) fn recorded(
        &self,
        of: &RunId,
        judge: &JudgeArguments,
        store: &RunStore,
    ) -> Result<RunPlan, Failure> {
        let mut plan = store.run(of)?.plan().clone();
        plan.policy = PolicySpec::Replay { run: of.clone() };
        plan.run = match &self.name {
            Some(name) => name.clone(),
            None => unused_name(store, &format!("{}-replay-{of}", stamp()))?,
        };
        if let Some(other) = judge.spec()?
            && plan.judge.is_some()
        {
            plan.judge = Some(Box::new(other.judging()));
        }
        let slots = u32::try_from(plan.slots.len()).unwrap_or(u32::MAX);
        if let Some(concurrency) = self.concurrency {
            plan.limits.concurrency = concurrency.min(slots);
        }
        plan.limits.prewarm = self.prewarm.min(plan.limits.concurrency);
        plan.limits.max_retries = self.max_retries;
        plan.limits.max_faults = self.max_faults;
        Ok(plan)
    }
}

fn usual_name(suites: &[Suite]) -> String {
    let first: String = suites.first().map_or("run", Suite::name).chars().take(SUITE_CHARS).collect();
    match suites.len() {
        0 | 1 => format!("{}-{first}", stamp()),
        several => format!("{}-{first}-and-{}", stamp(), several - 1),
    }
}
