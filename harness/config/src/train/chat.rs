//! Learning from chat: file form, checks, and plan form of the chat file.
//!
//! I1. No setting is ignored: a setting without effect is refused. I2. The objective determines the defaults; without a file, all
//! settings have defaults.
//!
//! Errors: [`ConfigError`], each problem at its place.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::Checker;
use super::check_rl::{ABOVE_0, LEARNING_RATE};
use super::judging::{JudgingFile, JudgingPlan, RulePlan, RuleTarget};
use super::lora::{LoraFile, LoraPlan};
use crate::bounds;
use crate::dialect;
use crate::file::{Located, present_or_default};
use crate::parse::parse;
use crate::problem::{ConfigError, Findings};
use crate::read::read;

/// Default seconds that a turn waits for the votes of a model.
const TIMEOUT_SECS: u32 = 60;

/// Texts that begin like a complaint but are not.
const NEITHER: &str =
    r"(?i)^\s*(no,? (problem|worries|thanks|thank you|need)\b|never mind\b|(do not|don't) (worry|bother)\b)";
/// Frequent beginnings of messages after a good answer.
const THANKS: &str = r"(?i)^\s*(thank(s| you)|perfect|great|exactly|well done|(that is|that's) (it|right|correct|what i (want|like|need)))\b";
/// And when it was not.
const COMPLAINT: &str = r"(?i)^\s*(no\b[,.! ]|wrong\b|incorrect\b|not what i\b|i (said|asked|meant)\b|(that is|that's) (wrong|not)\b|please (do not|don't|stop|never)\b|(do not|don't|stop|never) )";

/// How chat is learned from.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Chat file")]
pub(crate) struct ChatFile {
    /// Version of this format: 1.
    #[schemars(range(min = 1, max = bounds::CHAT_FORMAT))]
    format: Located<i64>,
    /// What is learned from: `binary`, what turns were worth; `opd`, hints; `combined`, both. Default: combined.
    objective: Option<ChatObjective>,
    /// Samples with which an update begins. Default: 16.
    #[schemars(range(min = 1, max = bounds::MAX_BATCH))]
    train_every_turns: Option<Located<i64>>,
    /// Seconds after which an update begins with the samples that wait, however few. Default: 600.
    #[schemars(range(min = 1, max = bounds::MAX_CHAT_SECS))]
    train_every_secs: Option<Located<i64>>,
    /// The optimizer's step size. Default: 1e-4.
    #[schemars(range(min = 0.0))]
    learning_rate: Option<Located<f64>>,
    /// The adapters that are learned. Nothing below it: the defaults.
    #[serde(default, deserialize_with = "present_or_default")]
    lora: Option<LoraFile>,
    /// What hints are learned by: the teacher, who reads the hint, is asked about so many of the policy's most probable tokens; 0 for the
    /// sampled one. Default: 4.
    #[schemars(range(min = 0, max = bounds::MAX_TOP_K))]
    top_k: Option<Located<i64>>,
    /// Tokens that are older are not trained, in versions. Default: 16.
    #[schemars(range(min = 1, max = bounds::MAX_STALENESS))]
    max_staleness: Option<Located<i64>>,
    /// What a new version has to pass before it answers. Nothing below it: the defaults.
    #[serde(default, deserialize_with = "present_or_default")]
    gate: Option<ChatGateFile>,
    /// Who says what turns were worth, beside what people say of them. Default: rules about what users say first in the next message.
    judging: Option<Located<JudgingFile>>,
}

/// What a new version has to pass before it answers. One that does not is given up, and its samples are not tried again.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ChatGate")]
struct ChatGateFile {
    /// Most divergence from the version before, estimated at the replies of the update, mean over tokens, in nats. Default: 0.1.
    #[schemars(range(min = 0.0))]
    max_kl: Option<Located<f64>>,
    /// Maximum KL divergence from the reference policy, from before training, at replies that were liked or not complained of; mean over
    /// tokens, in nats. Default: 1.
    #[schemars(range(min = 0.0))]
    #[serde(alias = "max_drift")]
    max_reference_kl: Option<Located<f64>>,
    /// Versions in a row that may be rejected before learning pauses. Default: 3.
    #[schemars(range(min = 1, max = bounds::MAX_UPDATES))]
    failures: Option<Located<i64>>,
}

/// What is learned from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum ChatObjective {
    /// What turns were worth.
    Binary,
    /// Hints: what should have been known before them.
    Opd,
    /// Both.
    #[default]
    Combined,
}

impl ChatObjective {
    /// Name in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Binary => "binary",
            Self::Opd => "opd",
            Self::Combined => "combined",
        }
    }
}

/// Settings of learning from chat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatPlan {
    /// Source of the learning signal.
    pub objective: ChatObjective,
    /// Samples with which an update begins; at least 1.
    pub train_every_turns: u32,
    /// Seconds after which one begins with what waits; at least 1.
    pub train_every_secs: u32,
    /// The optimizer's step size.
    pub learning_rate: f64,
    /// The adapters.
    pub lora: LoraPlan,
    /// Candidates per token in a request to the teacher; `None` for the sampled token.
    pub top_k: Option<u32>,
    /// Tokens that are older are not trained, in versions.
    pub max_staleness: u32,
    /// Maximum divergence from the previous version, nats per token.
    pub max_kl: f64,
    /// Maximum KL divergence from the policy before training, nats per token. Stored under its earlier name, which earlier programs
    /// read.
    #[serde(rename = "max_drift", alias = "max_reference_kl")]
    pub max_reference_kl: f64,
    /// Versions in a row that are rejected before learning pauses; at least 1.
    pub failures: u32,
    /// Judges besides users.
    pub judging: JudgingPlan,
}

impl Default for ChatPlan {
    fn default() -> Self {
        let lora = LoraPlan::default();
        Self {
            objective: ChatObjective::default(),
            train_every_turns: 16,
            train_every_secs: 600,
            learning_rate: 1e-4,
            lora,
            top_k: Some(4),
            max_staleness: 16,
            max_kl: 0.1,
            max_reference_kl: 1.0,
            failures: 3,
            judging: usual_judging(),
        }
    }
}

/// Rules about what users say first.
fn usual_judging() -> JudgingPlan {
    let rule = |matches: &str, verdict| RulePlan {
        place: RuleTarget::User,
        matches: matches.to_owned(),
        verdict: Some(verdict),
        hint: None,
    };
    let rules = vec![rule(NEITHER, 0), rule(COMPLAINT, -1), rule(THANKS, 1)];
    JudgingPlan { judge: None, votes: 3, timeout_secs: TIMEOUT_SECS, concurrency: 32, rules }
}

/// Reads and checks a chat file.
///
/// # Errors
/// A file that cannot be read or has the wrong shape is one problem; otherwise every problem that there is.
pub fn load_chat(path: &Path) -> Result<ChatPlan, ConfigError> {
    let source = read(path, &dialect::CHAT)?;
    let file: ChatFile = parse(&source, &dialect::CHAT)?;
    let mut checker = Checker { findings: Findings::new(&source), reproducible: None };
    let folder = Path::new(&source.shown).parent().unwrap_or(Path::new("")).to_owned();
    let plan = checker.chat(&folder, &file);
    checker.findings.finish()?;
    Ok(plan)
}

impl Checker {
    fn chat(&mut self, folder: &Path, file: &ChatFile) -> ChatPlan {
        let default = ChatPlan::default();
        if *file.format < 1 {
            let help = format!("write `format: {}`", bounds::CHAT_FORMAT);
            self.problem(file.format.span, "there is no such format", "not a format", help);
        }
        let objective = file.objective.unwrap_or_default();
        let findings = &mut self.findings;
        let gate = file.gate.as_ref();
        let top_k = findings.whole("top_k", file.top_k.as_ref(), 0..=bounds::MAX_TOP_K, 4);
        let plan = ChatPlan {
            objective,
            train_every_turns: findings.whole(
                "train_every_turns",
                file.train_every_turns.as_ref(),
                1..=bounds::MAX_BATCH,
                default.train_every_turns,
            ),
            train_every_secs: findings.whole(
                "train_every_secs",
                file.train_every_secs.as_ref(),
                1..=bounds::MAX_CHAT_SECS,
                default.train_every_secs,
            ),
            learning_rate: findings.real(
                "learning_rate",
                file.learning_rate.as_ref(),
                &LEARNING_RATE,
                default.learning_rate,
            ),
            top_k: (top_k > 0).then_some(top_k),
            max_staleness: findings.whole(
                "max_staleness",
                file.max_staleness.as_ref(),
                1..=bounds::MAX_STALENESS,
                default.max_staleness,
            ),
            max_kl: findings.real(
                "max_kl",
                gate.and_then(|gate| gate.max_kl.as_ref()),
                &ABOVE_0,
                default.max_kl,
            ),
            max_reference_kl: findings.real(
                "max_reference_kl",
                gate.and_then(|gate| gate.max_reference_kl.as_ref()),
                &ABOVE_0,
                default.max_reference_kl,
            ),
            failures: findings.whole(
                "failures",
                gate.and_then(|gate| gate.failures.as_ref()),
                1..=bounds::MAX_UPDATES,
                default.failures,
            ),
            lora: file.lora.as_ref().map_or(default.lora, |lora| self.lora(lora)),
            judging: file
                .judging
                .as_ref()
                .map_or(default.judging, |judging| self.judging(folder, &judging.value)),
        };
        if let Some(given) = file.top_k.as_ref().filter(|_| objective == ChatObjective::Binary) {
            let message = "nobody is asked about candidates: hints are not learned from";
            let help = "leave it out, or write `objective: combined`";
            self.problem(given.span, message, "never looked at", help);
        }
        if let Some(judging) = file.judging.as_ref()
            && judging.value.is_of_nobody()
        {
            let help = "name a policy file (`judge: judge.yaml`), give `rules`, or leave `judging` out for the usual ones";
            self.problem(judging.span, "there is nobody who judges", "neither a model nor rules", help);
        }
        plan
    }
}
