//! Makes samplers and learners from parameters.
//!
//! I1. An adapter is sampled and trained together with its model.

use std::sync::Arc;

use clawrl_config::{RlPlan, Teacher};
use clawrl_torch::{
    AdapterName, AdapterPublisher, Alone, Base, Checkpoint, Device, Dtype, Engine, EngineConfig,
    LearnerConfig, LearnerSetup, ModelFiles, Params, Publisher, TorchError, TorchLearner, init_adapter,
    load_params, policy_files, save_params,
};

use super::embedded::ADAPTER;
use super::session::Session;
use super::settings;
use clawrl_runtime::training::TrainError;

/// Folder of reinforcement learning's initial policy, in the training's folder.
const REFERENCE: &str = "reference";
/// The same, relative to the folder of a checkpoint's model.
const REFERENCE_OF_CHECKPOINT: &str = "../../../reference";

/// The initial state of a learner.
pub(super) struct LearnerStart {
    params: Params,
    base: Option<Base>,
    version: u64,
    reference: Option<Params>,
}

impl LearnerStart {
    /// A full model without training state.
    pub(super) fn whole(params: Params) -> Self {
        Self { params, base: None, version: 0, reference: None }
    }
}

/// Makes the publisher of a training's adapter.
fn adapter_of(engine: &Engine) -> AdapterPublisher {
    AdapterPublisher { engine: engine.handle(), name: AdapterName::from(ADAPTER) }
}

/// With acceptance, the learner's initial version counts as accepted.
fn accepting(rl: &RlPlan, mut learner: TorchLearner) -> Result<TorchLearner, TrainError> {
    if rl.gate.is_some() {
        learner.accept().map_err(unusable)?;
    }
    Ok(learner)
}

/// Whether the loss or a teacher needs the initial policy.
fn looks_back(rl: &RlPlan) -> bool {
    let teacher = rl.distillation.as_ref().map(|distillation| distillation.teacher);
    rl.loss.kl.is_some() || teacher == Some(Teacher::Frozen)
}

impl Session<'_> {
    /// A sampler with these parameters; for an adapter, together with its model.
    pub(super) fn engine(
        &self,
        version: u64,
        params: &Params,
        model: Option<&Params>,
    ) -> Result<Engine, TrainError> {
        let config = EngineConfig { turns: self.turns.clone(), ..settings::engine(&self.plan) };
        let Some(model) = model else {
            return Engine::start(config, version, params).map_err(unusable);
        };
        let engine = Engine::start(config, 0, model).map_err(unusable)?;
        adapter_of(&engine).publish(version, params).map_err(unusable)?;
        Ok(engine)
    }

    pub(super) fn learner(
        &self,
        config: LearnerConfig,
        from: LearnerStart,
        publisher: Box<dyn Publisher>,
    ) -> Result<TorchLearner, TrainError> {
        let LearnerStart { params, base, version, reference } = from;
        let model = policy_files(&self.policy_folder).map_err(unusable)?;
        let setup = LearnerSetup {
            config: settings::computing(&self.plan, config),
            params,
            base,
            version,
            reference,
            publisher,
            collective: Box::new(Alone),
            checkpoints: self.checkpoints(),
            model: &model,
        };
        let mut learner = TorchLearner::new(setup).map_err(unusable)?;
        learner.take_turns(self.turns.clone());
        Ok(learner)
    }

    /// The initial policy of reinforcement learning, if the loss or a teacher needs it, or if an adapter is trained on it. It is
    /// stored at the start, because early checkpoints are deleted. The result is in CPU memory; parts are moved to the device
    /// that computes with them.
    fn first_policy(&self, rl: &RlPlan, checkpoint: &Checkpoint) -> Result<Option<Params>, TrainError> {
        if !looks_back(rl) && rl.lora.is_none() {
            return Ok(None);
        }
        let folder = self.files.folder().join(REFERENCE);
        let files = ModelFiles::of(&folder);
        if files.has_weights() {
            return load_params(&files, Device::Cpu).map(Some).map_err(unusable);
        }
        if checkpoint.version > 0 {
            let message = format!("the policy that this training began with is not in {}", folder.display());
            let help = "the training needs it, for `kl`, as a teacher or for its adapter; train anew";
            return Err(TrainError::storage(message).with_help(help));
        }
        let unfinished = self.files.folder().join(format!("{REFERENCE}.part"));
        let failed = |error: std::io::Error| {
            TrainError::storage(format!("cannot write {}: {error}", folder.display()))
        };
        std::fs::create_dir_all(&unfinished).map_err(failed)?;
        let written = ModelFiles::of(&unfinished);
        let params = &checkpoint.params;
        let kept =
            written.write_config(params.layout().config()).and_then(|()| save_params(&written, params));
        kept.map_err(|error| TrainError::storage(error.to_string()))?;
        std::fs::rename(&unfinished, &folder).map_err(failed)?;
        std::fs::File::open(self.files.folder()).and_then(|folder| folder.sync_all()).map_err(failed)?;
        params.copy().map(Some).map_err(unusable)
    }

    /// The sampler and the learner from a checkpoint.
    ///
    /// `accepted`: the version whose parameters the checkpoint contains; an earlier one if later versions were rejected.
    ///
    /// # Errors
    /// The policy cannot be sampled or trained.
    pub(super) fn take_up(
        &self,
        rl: &RlPlan,
        checkpoint: Checkpoint,
        accepted: u64,
    ) -> Result<(Engine, TorchLearner), TrainError> {
        let config = settings::learner(rl, self.tasks.max_episode_tokens().unwrap_or(1));
        let first = self.first_policy(rl, &checkpoint)?;
        let version = checkpoint.version;
        let Some((lora, model)) = rl.lora.as_ref().zip(first.as_ref()) else {
            let engine = self.engine(accepted, &checkpoint.params, None)?;
            let params = checkpoint.params.on(self.device, Dtype::Fp32).map_err(unusable)?;
            let from = LearnerStart { params, base: None, version, reference: first };
            let mut learner = self.learner(config, from, Box::new(engine.handle()))?;
            learner.restore(checkpoint).map_err(unusable)?;
            return Ok((engine, accepting(rl, learner)?));
        };
        let is_adapter = checkpoint.params.layout().lora().is_some();
        // A full model's moments are useless for an adapter, and are twice as large as the model.
        let moments = checkpoint.moments.filter(|_| is_adapter);
        let checkpoint = Checkpoint { moments, ..checkpoint };
        // Before the first update, the checkpoint contains a full model.
        let params = if is_adapter {
            checkpoint.params.on(self.device, Dtype::Fp32).map_err(unusable)?
        } else {
            init_adapter(model.layout().config(), &settings::lora(lora), self.plan.seed, self.device)
                .map_err(unusable)?
        };
        let engine = self.engine(accepted, &params, Some(model))?;
        // A zero adapter equals the initial model.
        let unchanged = || Params::zeros(Arc::clone(params.layout()), self.device).map_err(unusable);
        let reference = looks_back(rl).then(unchanged).transpose()?;
        let base = Some(Base { params: model.share(), found: REFERENCE_OF_CHECKPOINT.to_owned() });
        let from = LearnerStart { params, base, version, reference };
        let mut learner = self.learner(config, from, Box::new(adapter_of(&engine)))?;
        if is_adapter {
            learner.restore(checkpoint).map_err(unusable)?;
        }
        Ok((engine, accepting(rl, learner)?))
    }
}

/// The error of a policy that cannot be read, sampled or trained.
pub(super) fn unusable(error: TorchError) -> TrainError {
    let message = error.to_string();
    match error {
        TorchError::Checkpoint(_) => TrainError::storage(message),
        TorchError::Model(_) => TrainError::refused(message),
        _ => TrainError::unavailable(message),
    }
}
