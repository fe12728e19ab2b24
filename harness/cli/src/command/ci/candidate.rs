//! Turns a gate file into a run plan: suites, policy and repeats.

use std::path::{Path, PathBuf};

use clawrl_config::{CiPlan, PlanOptions, Suite, load_suites, resolve_plan};
use clawrl_core::{PolicySpec, RunPlan, derive_seed};
use clawrl_record::RunStore;
use clawrl_runtime::{PolicyChoice, ServerChoice, host::capacity, refuse_unpriced, stamp, unused_name};

use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::judge_choice::JudgeArguments;
use crate::log::Log;
use crate::plan_request::{base_url, key_env};

/// Maximum retries per attempt, as in `clawrl run`; equal for baseline and candidate.
const MAX_RETRIES: u32 = 1;

/// The policy under test and its concurrency.
#[derive(Debug, clap::Args)]
pub(super) struct CandidateArguments {
    /// Test this policy instead of the gate file's; takes the same values as `clawrl run --policy`.
    #[arg(long, value_name = "POLICY", value_parser = PolicyChoice::parse)]
    policy: Option<PolicyChoice>,
    /// With openai:MODEL and anthropic:MODEL: URL of the server, including /v1 [default: the vendor's].
    #[arg(long, value_name = "URL", value_parser = base_url)]
    base_url: Option<String>,
    /// With openai:MODEL and anthropic:MODEL: environment variable with the key, or `none` [default: OPENAI_API_KEY or
    /// ANTHROPIC_API_KEY, if set].
    #[arg(long, value_name = "NAME", value_parser = key_env)]
    key_env: Option<String>,
    /// Seed of the policy's sampling, if it takes seeds [default: the gate's, so that an unchanged policy samples the
    /// same].
    #[arg(long, value_name = "N")]
    sampling_seed: Option<u64>,
    #[command(flatten)]
    judge: JudgeArguments,
    /// Maximum concurrent attempts [default: computed from memory and process limits].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    concurrency: Option<u32>,
}

impl CandidateArguments {
    /// The plan of a run of the gate.
    ///
    /// # Errors
    /// Suites or policy cannot be run.
    pub(super) fn run_plan(
        &self,
        gate: &CiPlan,
        repeats: u32,
        store: &RunStore,
        log: &Log,
    ) -> Result<RunPlan, Failure> {
        let judge = self.judge.spec()?;
        let options = PlanOptions {
            concurrency: self.concurrency,
            judge,
            repeats,
            ..options(gate, self.policy(gate)?, store)?
        };
        let mut plan = plan_of(gate, options, log)?;
        if gate.budget.cost_usd.is_some() {
            refuse_unpriced(&format!("the gate `{}`", gate.gate), &plan)?;
        }
        if let Some(root) = self.sampling_seed {
            for slot in &mut plan.slots {
                slot.policy_seed = derive_seed(root, "sampling", &[slot.policy_seed]);
            }
        }
        Ok(plan)
    }

    fn policy(&self, gate: &CiPlan) -> Result<PolicySpec, Failure> {
        let server = ServerChoice { base_url: self.base_url.clone(), key_env: self.key_env.clone() };
        match &self.policy {
            Some(choice) => Ok(choice.spec(&server)?),
            None => Ok(policy_of_file(gate)?.spec(&server)?),
        }
    }
}

/// The plan that fixes a gate's conditions: tasks and seeds. They do not depend on the policy.
///
/// # Errors
/// Suites cannot be run.
pub(super) fn conditions_plan(gate: &CiPlan, store: &RunStore, log: &Log) -> Result<RunPlan, Failure> {
    let options = options(gate, PolicySpec::Noop, store)?;
    plan_of(gate, options, log)
}

fn options(gate: &CiPlan, policy: PolicySpec, store: &RunStore) -> Result<PlanOptions, Failure> {
    let run = unused_name(store, &format!("{}-{}", stamp(), gate.gate))?;
    Ok(PlanOptions {
        seed: gate.seed,
        max_retries: MAX_RETRIES,
        ..PlanOptions::new(run, policy, capacity::probe())
    })
}

fn plan_of(gate: &CiPlan, options: PlanOptions, log: &Log) -> Result<RunPlan, Failure> {
    let paths: Vec<PathBuf> = gate.suites.iter().map(|suite| suite.path.clone()).collect();
    let suites = load_suites(&paths)?;
    for warning in suites.iter().flat_map(Suite::warnings) {
        log.diagnostic(warning);
    }
    let options = PlanOptions { choices: gate.choices(&suites), ..options };
    Ok(resolve_plan(&suites, &options)?)
}

/// The policy of the gate file, with paths relative to that file.
fn policy_of_file(gate: &CiPlan) -> Result<PolicyChoice, Failure> {
    let choice = PolicyChoice::parse(&gate.policy).map_err(|why| {
        let message = format!("`policy: {}` of {} is none: {why}", gate.policy, gate.file.display());
        Failure::with_help(Exit::Refused, message, "write it as `--policy` of `clawrl run` takes it")
    })?;
    Ok(choice.seen_from(gate.file.parent().unwrap_or(Path::new(""))))
}
