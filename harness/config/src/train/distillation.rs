//! Learning from a teacher that reads more than the policy did: file form, checks, and plan form.
//!
//! I1. No setting is ignored: a setting without effect is refused. I2. The objective determines the defaults.

use std::fmt;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::Checker;
use super::check_rl::ABOVE_0;
use super::file::RlFile;
use super::plan::{Objective, RlPlan, Surrogate};
use super::teacher::{RemoteTeacherPlan, TeacherFile};
use crate::bounds;
use crate::file::Located;
use crate::numbers::Reals;
use crate::problem::Problem;
use crate::source::Span;

const WEIGHT: Reals = Reals {
    accepts: |weight| weight > 0.0 && weight <= bounds::MAX_TERM_WEIGHT,
    words: "above 0 and up to 10",
};
const OUTCOME_WEIGHT: Reals =
    Reals { accepts: |weight| (0.0..=bounds::MAX_TERM_WEIGHT).contains(&weight), words: "from 0 to 10" };
const DECAY: Reals = Reals { accepts: |decay| (0.0..1.0).contains(&decay), words: "from 0 to below 1" };

/// Default maximum tokens of a hint.
const HINT_TOKENS: u32 = 256;

/// What is learned from a teacher, who reads a hint beside what the policy read.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Distillation")]
pub(crate) struct DistillationFile {
    /// What the teacher's term is multiplied by. That of the outcome is `outcome_weight`. Default: 1.
    #[schemars(range(min = 0.0, max = bounds::MAX_TERM_WEIGHT))]
    weight: Option<Located<f64>>,
    /// Updates in which `weight` falls along a line to 0; from then on nobody is asked. Default: it stays as it is.
    #[schemars(range(min = 1, max = bounds::MAX_UPDATES))]
    fade_updates: Option<Located<i64>>,
    /// The most that teacher and policy may differ at a token, in nats. Default: 1.
    #[schemars(range(min = 0.0))]
    bound: Option<Located<f64>>,
    /// Whose parameters the teacher has, or which model behind a server it is. Default: ema.
    pub(super) teacher: Option<Located<TeacherFile>>,
    /// What remains of the average at each version. Of the teacher `ema` alone. Default: 0.95.
    #[schemars(range(min = 0.0, max = 1.0))]
    ema_decay: Option<Located<f64>>,
    /// Asks the teacher about so many of the policy's most probable tokens, by a loss of their own, instead of about the
    /// sampled one. Default: 4 of the objective `opd_top_k`, none of the others.
    #[schemars(range(min = 1, max = bounds::MAX_TOP_K))]
    pub(super) top_k: Option<Located<i64>>,
    /// What each of those counts. Default: renormalised.
    candidate_weight: Option<Located<CandidateWeight>>,
    /// Where hints come from: of each episode, the first of these that has one. Default: that of the objective; of a remote teacher
    /// none, who then reads episodes as they are.
    pub(super) hints: Option<Located<Vec<HintSource>>>,
    /// Which episodes are hinted at. Default: all.
    episodes: Option<HintedEpisodes>,
    /// Longer hints are left out, and counted. Default: 256.
    #[schemars(range(min = 1, max = bounds::MAX_NEW_TOKENS))]
    pub(super) max_hint_tokens: Option<Located<i64>>,
}

/// Settings of learning from a teacher.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DistillationPlan {
    /// Factor of the teacher's term.
    pub weight: f64,
    /// Updates over which the factor falls linearly to 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fade_updates: Option<u32>,
    /// Bound of a difference of log-probabilities, nats.
    pub bound: f64,
    /// Parameters of the teacher.
    pub teacher: Teacher,
    /// Server and model, for [`Teacher::Remote`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<RemoteTeacherPlan>,
    /// Decay of the average at each version, for [`Teacher::Ema`].
    pub ema_decay: f64,
    /// Candidates per token in a request to the teacher; `None` for the sampled token.
    pub top_k: Option<u32>,
    /// Weight of a candidate.
    pub candidate_weight: CandidateWeight,
    /// Sources of hints; each episode uses the first that has a hint. At least one, except for a remote teacher, which reads episodes
    /// unchanged without hints.
    pub hints: Vec<HintSource>,
    /// Episodes that get hints.
    pub episodes: HintedEpisodes,
    /// Longer hints are left out.
    pub max_hint_tokens: u32,
}

/// Whose parameters a teacher has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Teacher {
    /// Those that learn.
    Current,
    /// Those that learn, averaged over the versions.
    #[default]
    Ema,
    /// Those that reinforcement learning began with.
    Frozen,
    /// Those of a model behind a server.
    Remote,
}

/// What a candidate counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum CandidateWeight {
    /// Its probability among the candidates.
    #[default]
    Renormalised,
    /// Its probability.
    Mass,
}

/// Where hints come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum HintSource {
    /// What another member of the group did that passed: the shortest.
    Sibling,
    /// The task's oracle, where it is a list of actions.
    Demonstration,
    /// What the checks said about an episode that did not pass.
    Feedback,
    /// What `judging` says should have been known before single turns.
    Judge,
}

/// Which episodes are hinted at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum HintedEpisodes {
    /// Every one.
    #[default]
    All,
    /// Those that did not pass.
    Failed,
    /// Those of groups whose members all got the same reward, from whose outcomes nothing is learned.
    Constant,
}

impl Default for DistillationPlan {
    fn default() -> Self {
        Self {
            weight: 1.0,
            fade_updates: None,
            bound: 1.0,
            teacher: Teacher::default(),
            remote: None,
            ema_decay: 0.95,
            top_k: None,
            candidate_weight: CandidateWeight::default(),
            hints: vec![HintSource::Sibling],
            episodes: HintedEpisodes::default(),
            max_hint_tokens: HINT_TOKENS,
        }
    }
}

impl fmt::Display for DistillationPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let teacher = match self.teacher {
            Teacher::Current => "current parameters".to_owned(),
            Teacher::Ema => format!("parameters averaged with {} a version", self.ema_decay),
            Teacher::Frozen => "first parameters".to_owned(),
            Teacher::Remote => self
                .remote
                .as_ref()
                .map_or_else(|| "a server".to_owned(), |remote| remote.server.model.clone()),
        };
        let source = |source: &HintSource| match source {
            HintSource::Sibling => "siblings",
            HintSource::Demonstration => "demonstrations",
            HintSource::Feedback => "checks",
            HintSource::Judge => "judges",
        };
        let sources: Vec<&str> = self.hints.iter().map(source).collect();
        let episodes = match self.episodes {
            HintedEpisodes::All => "",
            HintedEpisodes::Failed => " for what failed",
            HintedEpisodes::Constant => " for groups of one reward",
        };
        let hints = match sources.as_slice() {
            [] => "no hints".to_owned(),
            sources => format!("hints of {}", sources.join(" or ")),
        };
        write!(f, "{teacher}, {hints}{episodes}, weight {}", self.weight)?;
        self.fade_updates.map_or(Ok(()), |updates| write!(f, " that falls to 0 in {updates} updates"))?;
        self.top_k.map_or(Ok(()), |k| write!(f, ", {k} candidates a token"))
    }
}

impl Objective {
    /// Factor of the outcome's term.
    #[must_use]
    pub fn outcome_weight(self) -> f64 {
        match self {
            Self::Opd | Self::OpdTopK | Self::Sdft | Self::Sdpo => 0.0,
            Self::Grpo
            | Self::DrGrpo
            | Self::Dapo
            | Self::Gspo
            | Self::Cispo
            | Self::Binary
            | Self::Combined => 1.0,
        }
    }

    /// Settings of learning from a teacher, if there is one.
    #[must_use]
    pub fn distillation(self) -> Option<DistillationPlan> {
        use HintSource::{Demonstration, Feedback, Sibling};
        let of =
            |hints: &[HintSource]| DistillationPlan { hints: hints.to_vec(), ..DistillationPlan::default() };
        match self {
            Self::Grpo | Self::DrGrpo | Self::Dapo | Self::Gspo | Self::Cispo | Self::Binary => None,
            Self::Opd => Some(of(&[Sibling, Demonstration])),
            Self::OpdTopK => Some(DistillationPlan { top_k: Some(4), ..of(&[Sibling, Demonstration]) }),
            Self::Sdft => Some(of(&[Demonstration])),
            Self::Sdpo => Some(of(&[Sibling, Feedback])),
            Self::Combined => Some(of(&[Sibling])),
        }
    }
}

impl Checker {
    pub(super) fn outcome_weight(&mut self, file: &RlFile, objective: Objective) -> f64 {
        let given = file.outcome_weight.as_ref();
        self.findings.real("outcome_weight", given, &OUTCOME_WEIGHT, objective.outcome_weight())
    }

    pub(super) fn distillation(
        &mut self,
        folder: &Path,
        file: &RlFile,
        objective: Objective,
    ) -> Option<DistillationPlan> {
        let default = objective.distillation();
        let Some(file) = &file.distillation else { return default };
        let default = default.unwrap_or_default();
        let remote = file.teacher.as_ref().and_then(|teacher| self.remote_teacher(folder, teacher));
        let teacher = match file.teacher.as_ref().map(|teacher| &teacher.value) {
            None => default.teacher,
            Some(TeacherFile::Own(own)) => *own,
            Some(TeacherFile::Remote(_)) => Teacher::Remote,
        };
        // A remote teacher may know more than the policy even without hints.
        let usual_hints = if teacher == Teacher::Remote { Vec::new() } else { default.hints };
        let findings = &mut self.findings;
        let top_k = file.top_k.as_ref();
        let plan = DistillationPlan {
            weight: findings.real("weight", file.weight.as_ref(), &WEIGHT, default.weight),
            fade_updates: file
                .fade_updates
                .as_ref()
                .map(|number| findings.whole("fade_updates", Some(number), 1..=bounds::MAX_UPDATES, 1)),
            bound: findings.real("bound", file.bound.as_ref(), &ABOVE_0, default.bound),
            teacher,
            remote,
            ema_decay: findings.real("ema_decay", file.ema_decay.as_ref(), &DECAY, default.ema_decay),
            top_k: top_k
                .map(|number| findings.whole("top_k", Some(number), 1..=bounds::MAX_TOP_K, 4))
                .or(default.top_k),
            candidate_weight: file
                .candidate_weight
                .as_ref()
                .map_or(default.candidate_weight, |weight| weight.value),
            hints: file.hints.as_ref().map_or(usual_hints, |hints| hints.value.clone()),
            episodes: file.episodes.unwrap_or(default.episodes),
            max_hint_tokens: findings.whole(
                "max_hint_tokens",
                file.max_hint_tokens.as_ref(),
                1..=bounds::MAX_NEW_TOKENS,
                default.max_hint_tokens,
            ),
        };
        self.unused_of_distillation(file, &plan);
        if let Some(hints) = &file.hints {
            self.hints(hints, plan.teacher);
        }
        Some(plan)
    }

    fn unused_of_distillation(&mut self, file: &DistillationFile, plan: &DistillationPlan) {
        if let Some(decay) = file.ema_decay.as_ref().filter(|_| plan.teacher != Teacher::Ema) {
            let message = "only the teacher `ema` has an `ema_decay`";
            self.problem(decay.span, message, "never looked at", "leave it out, or write `teacher: ema`");
        }
        if let Some(weight) = file.candidate_weight.as_ref().filter(|_| plan.top_k.is_none()) {
            let message = "there are no candidates to weigh: the teacher is asked about the sampled token";
            self.problem(weight.span, message, "never looked at", "leave it out, or write `top_k: 4`");
        }
    }

    fn hints(&mut self, hints: &Located<Vec<HintSource>>, teacher: Teacher) {
        if hints.is_empty() && teacher != Teacher::Remote {
            let help = "write `hints: [sibling]`, or leave it out";
            self.problem(hints.span, "a teacher without hints reads what the policy read", "no source", help);
        }
        let twice = hints.iter().enumerate().any(|(at, source)| hints[..at].contains(source));
        if twice {
            let help = "name each once, the first choice first";
            self.problem(hints.span, "a source of hints is given twice", "the same again", help);
        }
    }

    /// Checks the combination of settings.
    pub(super) fn terms_fit(&mut self, file: &RlFile, plan: &RlPlan, name: Span) {
        let of_outcome = file.outcome_weight.as_ref().map(|weight| weight.span);
        if plan.outcome_weight == 0.0 && plan.distillation.is_none() {
            let help = "write an `outcome_weight` above 0, or `distillation: {}`";
            let message = "nothing is learned from: outcomes count nothing, and there is no teacher";
            self.problem(of_outcome.unwrap_or(name), message, "nothing else counts", help);
            return;
        }
        if plan.outcome_weight == 0.0 {
            let unused = [
                ("advantage", file.advantage.as_ref().map(|advantage| advantage.span)),
                ("process_weight", file.process_weight.as_ref().map(|weight| weight.span)),
            ];
            for (key, span) in unused {
                let Some(span) = span else { continue };
                let message = format!("`{key}` has no effect where outcomes count nothing");
                let help = "leave it out, or write an `outcome_weight` above 0, or `objective: combined`";
                self.problem(span, message, "never looked at", help);
            }
        }
        let fade = file.distillation.as_ref().and_then(|distillation| distillation.fade_updates.as_ref());
        if let Some(fade) = fade.filter(|_| plan.outcome_weight == 0.0) {
            let message = "without its teacher nothing is learned from, since outcomes count nothing";
            let help =
                "leave out `fade_updates`, or write an `outcome_weight` above 0, or `objective: combined`";
            self.problem(fade.span, message, "falls to nothing", help);
        }
        let candidates = plan.distillation.as_ref().is_some_and(|distillation| distillation.top_k.is_some());
        if candidates && plan.outcome_weight == 0.0 {
            let loss = file.loss.as_ref();
            let unused = [
                ("dual_clip", loss.and_then(|loss| loss.dual_clip.as_ref()).map(|clip| clip.span)),
                ("importance", loss.and_then(|loss| loss.importance.as_ref()).map(|kind| kind.span)),
            ];
            for (key, span) in unused {
                let Some(span) = span else { continue };
                let message = format!("`{key}` is of sampled tokens, and candidates alone are learned from");
                let help = "leave it out, or write an `outcome_weight` above 0";
                self.problem(span, message, "never looked at", help);
            }
        }
        if candidates && plan.loss.surrogate != Surrogate::Token {
            let given = file.distillation.as_ref().and_then(|distillation| distillation.top_k.as_ref());
            let message = "candidates are clipped as single tokens are, so `top_k` goes with the surrogate `token` alone";
            let help = "leave out `top_k`, or write `surrogate: token`";
            let span = given.map_or(name, |number| number.span);
            self.contradiction(Problem::new(message, help), (span, "does not go with the surrogate"), None);
        }
    }
}
