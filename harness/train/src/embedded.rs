//! A trained policy in a run without training.
//!
//! I1. Errors in the folder are reported before the run starts. I2. The sampler's thread starts with the first reply, because the
//! spawner of sandboxes has to start before any other thread.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use clawrl_core::{Action, AttemptId, Boundary, BoxFuture, Fault, Policy, PolicyRequest};
use clawrl_torch::{
    AdapterName, Chat, Device, Engine, EngineConfig, Params, ReplySampling, TorchPolicy, load_apart,
    policy_files,
};

use super::libtorch::check_libtorch;
use clawrl_runtime::RuntimeError;

/// The sampler's name for the acting adapter. A run or training has one.
pub(super) const ADAPTER: &str = "policy";

/// Loads the policy in a folder: a model, or an adapter together with its model.
///
/// # Errors
/// The folder does not contain a model, or this program cannot run it.
pub(crate) fn embedded_policy(
    folder: &Path,
    temperature_milli: u32,
    max_new_tokens: u32,
) -> Result<Arc<dyn Policy>, RuntimeError> {
    check_libtorch()?;
    let refused = |why: String| {
        let help =
            "name a folder in the format of Hugging Face, such as results/runs/RUN/checkpoints/000050/model";
        RuntimeError::refused(why).with_help(help)
    };
    let params = load_apart(folder, Device::Cpu).map_err(|error| refused(error.to_string()))?;
    let files = policy_files(folder).map_err(|error| refused(error.to_string()))?;
    let chat = Chat::load(&files).map_err(|error| refused(error.to_string()))?;
    let sampling = ReplySampling { max_new_tokens, temperature: temperature_milli as f32 / 1000.0 };
    Ok(Arc::new(Embedded {
        name: format!("torch:{}", folder.display()),
        chat: Arc::new(chat),
        sampling,
        // Tensors are `Send` but not `Sync`.
        params: std::sync::Mutex::new(Some(params)),
        running: OnceLock::new(),
    }))
}

struct Embedded {
    name: String,
    chat: Arc<Chat>,
    sampling: ReplySampling,
    /// The model and its adapter, until the sampler takes them.
    params: std::sync::Mutex<Option<(Params, Option<Params>)>>,
    running: OnceLock<Result<Running, Fault>>,
}

struct Running {
    policy: TorchPolicy,
    /// The sampler; it ends with the policy.
    _engine: Engine,
}

impl Embedded {
    fn running(&self) -> Result<&Running, Fault> {
        self.running.get_or_init(|| self.start()).as_ref().map_err(Clone::clone)
    }

    fn start(&self) -> Result<Running, Fault> {
        let gone = |why: String| Fault::permanent(Boundary::Policy, "engine-gone", why);
        let params = self.params.lock().ok().and_then(|mut params| params.take());
        let (model, adapter) = params.ok_or_else(|| gone("its weights are gone".to_owned()))?;
        let config = EngineConfig::default();
        let engine = Engine::start(config, 0, &model).map_err(|error| gone(error.to_string()))?;
        let name = adapter.as_ref().map(|_| AdapterName::from(ADAPTER));
        if let Some((name, adapter)) = name.as_ref().zip(adapter) {
            let handed_over = engine.handle().publish_adapter(name, 0, &adapter);
            // The adapter arrives before any later request, so there is no need to wait, which a runtime's thread must not do.
            drop(handed_over.map_err(|error| gone(error.to_string()))?);
        }
        let policy =
            TorchPolicy::new(self.name.clone(), engine.handle(), Arc::clone(&self.chat), self.sampling)
                .with_adapter(name);
        Ok(Running { policy, _engine: engine })
    }
}

impl Policy for Embedded {
    fn name(&self) -> &str {
        &self.name
    }

    fn act<'a>(&'a self, request: PolicyRequest<'a>) -> BoxFuture<'a, Result<Action, Fault>> {
        match self.running() {
            Ok(running) => running.policy.act(request),
            Err(fault) => Box::pin(std::future::ready(Err(fault))),
        }
    }

    fn attempt_ended(&self, attempt: AttemptId) {
        if let Some(Ok(running)) = self.running.get() {
            running.policy.attempt_ended(attempt);
        }
    }
}
