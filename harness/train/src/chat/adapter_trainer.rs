//! Training of one adapter from chat: its learner, its acceptance bounds, its checkpoints.
//!
//! I1. The checkpoint of a version lists its samples and is on disk before the version answers. I2. A rejected version leaves
//! only its number behind. I3. Samples of abandoned versions and of other adapters are not trained on, because their staleness is
//! unknown.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use clawrl_config::{ChatObjective, ChatPlan};
use clawrl_core::derive_seed;
use clawrl_gateway::{NEUTRAL, SampleId, TakenSample, TrainerError};
use clawrl_learn::{
    Baselines, Collapse, CollapseBounds, CollapseGuard, EntropyControl, FeedbackBatch, FeedbackRules,
    GateBounds, GateFindings, Learner, LeftOut, Lineage, TrainSample, UpdateReport, Vitals, build_samples,
    repetition,
};
use clawrl_torch::{
    AdapterName, AdapterPublisher, Alone, Base, Branch, Chat, Checkpoint, Checkpoints, Device, EngineHandle,
    LearnerSetup, ModelFiles, Params, Retention, TorchError, TorchLearner, init_adapter,
};
use serde::{Deserialize, Serialize};

use super::super::learning::gave_up;
use super::super::settings;
use super::super::setup::unusable;
use super::feedback_sample::Reading;
use clawrl_runtime::training::TrainError;

/// Versions to which a rollback is possible. Adapters are small.
const KEPT: Retention = Retention { weights: 32, moments: 2 };
/// Number of replies on which the drift from the first policy is measured.
const REPLIES: usize = 32;
/// If at least this many of them were liked or not complained about, only those count.
const LIKED: usize = 8;

/// An update that goes too far is scaled down to a 64th at least, otherwise dropped.
const MIN_SHARE: f64 = 1.0 / 64.0;

/// Signs of a collapse, which pause learning. Repetition is measured as the increase since the first update.
const COLLAPSE: CollapseBounds =
    CollapseBounds { entropy: 0.05, shortest: 0.5, longest: 2.0, repetition: 0.2, updates: 3 };

/// The policy that adapters are trained for.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) params: Params,
    pub(crate) files: ModelFiles,
    /// The policy's folder, absolute.
    pub(crate) folder: PathBuf,
    /// The policy's own adapter, from which others start.
    pub(crate) first: Option<Params>,
    /// A fingerprint of the policy's weights.
    pub(crate) mark: String,
    pub(crate) engine: EngineHandle,
    pub(crate) chat: Arc<Chat>,
}

/// The content of a checkpoint beside the weights.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Progress {
    /// The policy that the adapter is for.
    model: String,
    /// Samples that the weights were trained on.
    samples: Vec<u64>,
    baselines: Baselines,
    /// Users, in the order of their numbers in the baselines.
    users: Vec<String>,
    /// First and last version of each range that was abandoned.
    given_up: Vec<(u64, u64)>,
    /// The older version that these weights equal, after a rollback.
    back_to: Option<u64>,
}

pub(crate) struct AdapterTrainer {
    pub(crate) name: AdapterName,
    plan: ChatPlan,
    learner: TorchLearner,
    checkpoints: Checkpoints,
    progress: Progress,
    lineage: Lineage,
    /// Parameters before the first update.
    first: Params,
    replies: Replies,
    /// `None` before the first update, which is its reference.
    guard: Option<CollapseGuard>,
    seed: u64,
}

/// The result of an update.
#[derive(Debug)]
pub(crate) struct Learned {
    /// Samples that were left out, with reasons.
    pub(crate) left_out: Vec<(SampleId, String)>,
    pub(crate) outcome: UpdateOutcome,
    /// Metrics by name.
    pub(crate) metrics: BTreeMap<String, f64>,
    /// The sign of a collapse, if there was one.
    pub(crate) collapse: Option<Collapse>,
}

/// The outcome of the version that an update made.
#[derive(Debug)]
pub(crate) enum UpdateOutcome {
    /// There was nothing to learn from.
    Nothing,
    /// The version may answer.
    Accepted { version: u64, checkpoint: PathBuf },
    /// The version never answers.
    Rejected { why: String },
}

impl AdapterTrainer {
    /// Loads the adapter of this name from its last checkpoint in `folder`.
    ///
    /// # Errors
    /// Checkpoints cannot be read or belong to another policy.
    pub(crate) fn begin(
        model: &Model,
        plan: &ChatPlan,
        name: &str,
        folder: &Path,
    ) -> Result<Self, TrainError> {
        let name = AdapterName::from(name);
        let checkpoints = Checkpoints::new(&folder.join("checkpoints"), KEPT);
        let found = checkpoints.latest().map_err(unusable)?;
        found.damaged.iter().for_each(|damaged| tracing::warn!("passed over: {damaged}"));
        let seed = derive_seed(0, &name, &[]);
        let params = match &model.first {
            Some(first) => first.copy(),
            None => {
                let lora = settings::lora(&plan.lora);
                init_adapter(model.params.layout().config(), &lora, seed, Device::Cpu)
            }
        };
        let params = params.map_err(unusable)?;
        let first = params.copy().map_err(unusable)?;
        let setup = LearnerSetup {
            config: settings::chat_learner(plan),
            params,
            base: Some(Base { params: model.params.share(), found: model.folder.display().to_string() }),
            version: 0,
            reference: None,
            publisher: Box::new(AdapterPublisher { engine: model.engine.clone(), name: name.clone() }),
            collective: Box::new(Alone),
            checkpoints: checkpoints.clone(),
            model: &model.files,
        };
        let mut learner = TorchLearner::new(setup).map_err(unusable)?;
        let mut progress = Progress { model: model.mark.clone(), ..Progress::default() };
        match found.checkpoint {
            Some(checkpoint) => {
                progress = read_progress(&checkpoint.progress)?;
                if progress.model != model.mark {
                    let message = format!("{} is of another policy", folder.display());
                    let help =
                        "serve the policy that it was learned for, or name another folder with `--data`";
                    return Err(TrainError::refused(message).with_help(help));
                }
                // Another shape: the plan has changed.
                let other = |error: TorchError| TrainError::storage(error.to_string());
                learner.restore(checkpoint).map_err(other)?;
            }
            None => learner.checkpoint(&written(&progress)?).map_err(|error| gave_up(&error))?,
        }
        learner.accept().map_err(unusable)?;
        let version = learner.version();
        Ok(Self {
            name,
            plan: plan.clone(),
            lineage: Lineage::at(version, version),
            learner,
            checkpoints,
            progress,
            first,
            replies: Replies::default(),
            guard: None,
            seed,
        })
    }

    /// The version of the current weights.
    pub(crate) fn version(&self) -> u64 {
        self.lineage.accepted()
    }

    /// All samples that the current weights were trained on.
    pub(super) fn samples(&self) -> Vec<SampleId> {
        self.progress.samples.iter().copied().map(SampleId).collect()
    }

    /// The version that was rolled back to, if that was the last change.
    pub(super) fn back_to(&self) -> Option<u64> {
        self.progress.back_to
    }

    /// Number of rollbacks of this adapter.
    pub(super) fn branch(&self) -> u64 {
        self.progress.given_up.len() as u64
    }

    /// Folder of the checkpoint of a version while it is kept.
    pub(super) fn checkpoint_of(&self, version: u64) -> PathBuf {
        self.checkpoints.folder_of(version)
    }

    /// Learns from samples and decides about the new version. Answers do not change before [`Self::publish`].
    ///
    /// # Errors
    /// The learner failed; its state is restored.
    pub(crate) fn learn(
        &mut self,
        chat: &Chat,
        taken: &[TakenSample],
        is_first: impl Fn(Option<&str>) -> bool,
    ) -> Result<Learned, TrainError> {
        let began = Instant::now();
        let most_tokens = self.learner.params().layout().config().max_position_embeddings;
        let reading = Reading {
            chat,
            most_tokens: usize::try_from(most_tokens).unwrap_or_default(),
            wants_hints: self.plan.objective != ChatObjective::Binary,
        };
        let (mut left_out, mut all, mut hints_too_long) = (Vec::new(), Vec::new(), 0_u32);
        for sample in taken {
            let user = self.number_of(&sample.user.0);
            let read = if sample.adapter.as_deref() == Some(&*self.name) {
                self.kept(sample).and_then(|()| reading.feedback(sample, user))
            } else if is_first(sample.adapter.as_deref()) {
                reading.feedback(sample, user)
            } else {
                Err("another adapter has sampled it".to_owned())
            };
            match read {
                Ok(read) => {
                    hints_too_long += u32::from(read.is_hint_too_long);
                    all.push(read.feedback);
                }
                Err(why) => left_out.push((sample.sample, why)),
            }
        }
        let rules = FeedbackRules {
            outcome_counts: self.plan.objective != ChatObjective::Opd,
            max_staleness: u64::from(self.plan.max_staleness),
            seed: derive_seed(self.seed, "chat", &[self.learner.version()]),
        };
        let made = build_samples(all, &self.progress.baselines, &self.lineage, rules);
        let left = made.left_out.iter().map(|(sample, why)| {
            let why = if *why == LeftOut::Neutral { NEUTRAL.to_owned() } else { why.to_string() };
            (SampleId(u64::from(*sample)), why)
        });
        left_out.extend(left);
        let mut metrics = BTreeMap::from([("hints_too_long".to_owned(), f64::from(hints_too_long))]);
        if made.batch.samples.is_empty() {
            return Ok(Learned { left_out, outcome: UpdateOutcome::Nothing, metrics, collapse: None });
        }
        let report = self.learner.update(&made.batch).map_err(|error| gave_up(&error))?;
        let decided =
            self.shorten(&made.batch.samples).map(|way| self.decide(&made, &report, way, &mut metrics));
        let refused = match decided {
            Ok(refused) => refused,
            Err(error) => {
                self.back()?;
                return Err(unusable(error));
            }
        };
        metrics.insert("update_seconds".to_owned(), began.elapsed().as_secs_f64());
        let is_disliked =
            |id: u32| taken.iter().any(|sample| sample.sample.0 == u64::from(id) && sample.reward < 0.0);
        self.replies.add(&made.batch.samples, is_disliked);
        if let Some(why) = refused {
            self.back()?;
            return Ok(Learned {
                left_out,
                outcome: UpdateOutcome::Rejected { why },
                metrics,
                collapse: None,
            });
        }
        let before = self.progress.clone();
        self.progress
            .samples
            .extend(made.batch.samples.iter().map(|sample| u64::from(sample.attempt.slot.0)));
        made.rewards.iter().for_each(|(user, reward)| self.progress.baselines.add(*user, *reward));
        self.progress.back_to = None;
        let kept = written(&self.progress)
            .and_then(|text| self.learner.checkpoint(&text).map_err(|error| gave_up(&error)));
        if let Err(failure) = kept {
            self.progress = before;
            self.back()?;
            return Err(failure);
        }
        self.learner.accept().map_err(unusable)?;
        let version = self.learner.version();
        self.lineage.rise(version);
        let checkpoint = self.checkpoint_of(version);
        let vitals = vitals(&made, &report);
        // A policy that has always repeated itself has not collapsed.
        let repetition = COLLAPSE.repetition + vitals.repetition;
        let begun = || CollapseGuard::new(CollapseBounds { repetition, ..COLLAPSE });
        let collapse = self.guard.get_or_insert_with(begun).after(vitals);
        Ok(Learned { left_out, outcome: UpdateOutcome::Accepted { version, checkpoint }, metrics, collapse })
    }

    /// A user has seen the signs of a collapse and resumes learning: the detector starts anew.
    pub(super) fn watch_anew(&mut self) {
        self.guard = None;
    }

    /// Publishes the current version.
    ///
    /// # Errors
    /// The sampler has ended.
    pub(crate) fn publish(&mut self) -> Result<(), TrainError> {
        self.learner.publish().map_err(|error| gave_up(&error))
    }

    /// Restores an older version under a new number, which is returned. Answers do not change before [`Self::publish`].
    ///
    /// # Errors
    /// [`TrainerError`]; the state is unchanged.
    pub(super) fn roll_back(&mut self, to: u64) -> Result<u64, TrainerError> {
        let now = self.version();
        if to == now {
            return Err(TrainerError::Refused(format!("version {to} answers already")));
        }
        let broken = |error: TorchError| TrainerError::Refused(error.to_string());
        let (kept, _) = self.checkpoints.list().map_err(broken)?;
        let found = kept.into_iter().find(|facts| facts.version == to);
        if found.is_none() && to > 0 {
            let why = format!("the last {} of an adapter are", KEPT.weights);
            return Err(TrainerError::NoVersion(to, why));
        }
        let refused = |failure: TrainError| TrainerError::Refused(failure.to_string());
        let (last, version) = (self.learner.version(), self.learner.version() + 1);
        let mut progress = match &found {
            Some(found) => read_progress(&found.progress).map_err(refused)?,
            None => Progress { model: self.progress.model.clone(), ..Progress::default() },
        };
        progress.given_up.clone_from(&self.progress.given_up);
        progress.given_up.push((to + 1, last));
        progress.back_to = Some(to);
        let branch = Branch { from: to, instead_of: now };
        let text = written(&progress).map_err(refused)?;
        if found.is_some() {
            self.checkpoints.branch(branch, version, &text).map_err(broken)?;
            let checkpoint = self.checkpoints.load(version).map_err(broken)?;
            self.learner.restore(checkpoint).map_err(broken)?;
        } else {
            self.begin_anew(branch, version, text)?;
        }
        self.learner.accept().map_err(broken)?;
        self.progress = progress;
        self.lineage = Lineage::at(version, version);
        Ok(version)
    }

    /// Starts a branch from the first parameters, which need no checkpoint.
    fn begin_anew(&mut self, branch: Branch, version: u64, progress: String) -> Result<(), TrainerError> {
        let broken = |error: TorchError| TrainerError::Refused(error.to_string());
        let first = Checkpoint {
            version,
            optimizer_steps: 0,
            moments_since: 0,
            branch: Some(branch),
            entropy: EntropyControl::default(),
            progress: progress.clone(),
            params: self.first.copy().map_err(broken)?,
            moments: None,
            teacher: None,
            folder: self.checkpoint_of(version),
        };
        self.learner.restore(first).map_err(broken)?;
        self.learner.checkpoint(&progress).map_err(|error| {
            // Restores the state. This fails only if libtorch is broken.
            let _ = self.learner.reject();
            TrainerError::Refused(error.to_string())
        })
    }

    /// Halves the step from the accepted version until its divergence is within the bound, so that feedback is used as far as the
    /// bound allows. The drift does not shorten steps: a flood of feedback would continue in ever smaller steps, and has to be
    /// stopped.
    fn shorten(&mut self, samples: &[TrainSample]) -> Result<Way, TorchError> {
        let (mut share, mut kl) = (1.0, self.learner.divergence(samples)?);
        while kl > self.plan.max_kl && share > MIN_SHARE {
            self.learner.shorten(0.5)?;
            (share, kl) = (share / 2.0, self.learner.divergence(samples)?);
        }
        let replies = self.replies.chosen();
        let at = if replies.is_empty() { samples } else { &replies };
        Ok(Way { share, kl, drift: self.learner.divergence_from(&self.first, at)? })
    }

    /// The reason why the version may not answer, if there is one.
    fn decide(
        &self,
        made: &FeedbackBatch,
        report: &UpdateReport,
        Way { share, kl, drift }: Way,
        metrics: &mut BTreeMap<String, f64>,
    ) -> Option<String> {
        let samples = &made.batch.samples;
        let count = samples.len() as f64;
        let tokens: usize = samples.iter().map(|sample| sampled(sample).len()).sum();
        let rewards: f64 = made.rewards.iter().map(|(_, reward)| reward).sum();
        let figures = [
            ("samples", count),
            ("hinted", f64::from(made.taught)),
            ("reward_mean", rewards / made.rewards.len() as f64),
            ("step_share", share),
            ("kl", kl),
            ("drift", drift),
            ("loss", report.loss),
            ("entropy", report.entropy),
            ("grad_norm", report.grad_norm),
            ("reply_tokens", tokens as f64 / count),
            ("trained_tokens", report.trained_tokens as f64),
            ("outcome_rms", report.outcome_rms),
            ("teacher_rms", report.teacher_rms),
        ];
        // Without values there is no mean.
        let known = figures.into_iter().filter(|(_, figure)| figure.is_finite());
        metrics.extend(known.map(|(name, figure)| (name.to_owned(), figure)));
        let bounds = GateBounds { max_kl: self.plan.max_kl, max_drop_points: 100.0 };
        let findings =
            GateFindings { kl, loss: report.loss, grad_norm: report.grad_norm, unsound_rewards: 0 };
        if report.steps == 0 {
            return Some("no step was made: nothing in it has a gradient".to_owned());
        }
        if let Some(rejection) = bounds.check(findings) {
            return Some(rejection.to_string());
        }
        let most = self.plan.max_reference_kl;
        // NaN is not within bounds.
        (drift.is_nan() || drift > most).then(|| {
            format!("it is {drift:.4} nats a token from the policy that learning began with, and {most} are allowed")
        })
    }

    /// Restores the learner to the state before its last update.
    fn back(&mut self) -> Result<(), TrainError> {
        self.learner.reject().map_err(unusable)?;
        self.lineage.reject(self.learner.version());
        Ok(())
    }

    /// Refuses a sample of an abandoned version (I3).
    fn kept(&self, sample: &TakenSample) -> Result<(), String> {
        let given_up = |version: u64| {
            self.progress.given_up.iter().any(|(first, last)| (*first..=*last).contains(&version))
        };
        match sample.versions.iter().find(|segment| given_up(segment.version)) {
            Some(segment) => Err(format!("version {}, which was given up, has sampled it", segment.version)),
            None => Ok(()),
        }
    }

    fn number_of(&mut self, user: &str) -> u32 {
        let users = &mut self.progress.users;
        let place = users.iter().position(|known| known == user).unwrap_or_else(|| {
            users.push(user.to_owned());
            users.len() - 1
        });
        place as u32
    }
}

/// The distance that an update has covered.
#[derive(Debug, Clone, Copy)]
struct Way {
    /// Share of the full step.
    share: f64,
    /// Divergence from the accepted version, nats a token.
    kl: f64,
    /// Divergence from the first policy, nats a token.
    drift: f64,
}

/// Recent replies, on which the drift from the first policy is measured.
#[derive(Debug, Default)]
struct Replies {
    liked: Vec<TrainSample>,
    others: Vec<TrainSample>,
}

impl Replies {
    fn add(&mut self, samples: &[TrainSample], is_disliked: impl Fn(u32) -> bool) {
        for sample in samples {
            let place = if is_disliked(sample.attempt.slot.0) { &mut self.others } else { &mut self.liked };
            if place.len() == REPLIES {
                place.remove(0);
            }
            // Reward and teacher views are not needed for this.
            place.push(TrainSample { teacher: Vec::new(), candidates: Vec::new(), ..sample.clone() });
        }
    }

    /// The replies that count.
    fn chosen(&self) -> Vec<TrainSample> {
        let others = if self.liked.len() < LIKED { self.others.as_slice() } else { &[] };
        self.liked.iter().chain(others).cloned().collect()
    }
}

fn sampled(sample: &TrainSample) -> Vec<u32> {
    let segment = &sample.segment;
    segment.ids.iter().zip(&segment.mask).filter(|(_, trained)| **trained).map(|(id, _)| *id).collect()
}

fn vitals(made: &FeedbackBatch, report: &UpdateReport) -> Vitals {
    let replies: Vec<Vec<u32>> = made.batch.samples.iter().map(sampled).collect();
    let count = replies.len() as f64;
    Vitals {
        entropy: report.entropy,
        reply_tokens: replies.iter().map(|reply| reply.len() as f64).sum::<f64>() / count,
        repetition: replies.iter().map(|reply| repetition(reply)).sum::<f64>() / count,
    }
}

fn written(progress: &Progress) -> Result<String, TrainError> {
    serde_json::to_string(progress)
        .map_err(|error| TrainError::internal(format!("progress cannot be written: {error}")))
}

fn read_progress(text: &str) -> Result<Progress, TrainError> {
    serde_json::from_str(text)
        .map_err(|error| TrainError::storage(format!("the checkpoint's progress cannot be read: {error}")))
}
