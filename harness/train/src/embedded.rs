//! A trained policy in a run of its own.
//!
//! I1. What is wrong with the folder is told before the run begins. I2. The engine's thread starts with the first
//! reply: until then the spawner of sandboxes may not have any thread beside it.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use clawrl_core::{Action, AttemptId, Boundary, BoxFuture, Fault, Policy, PolicyRequest};
use clawrl_torch::{
    AdapterName, Chat, Device, Engine, EngineConfig, Params, ReplySampling, TorchPolicy, load_apart,
    policy_files,
};

use super::libtorch::check_libtorch;
use clawrl_cli::exit_code::Exit;
use clawrl_cli::failure::Failure;

/// What the engine calls the adapter that acts, of which a run and a training have one.
pub(super) const ADAPTER: &str = "policy";

/// The policy in a folder: a model's, or an adapter's, whose model is served with it.
///
/// # Errors
/// A folder that holds no model, or one that this program cannot run.
pub(crate) fn embedded_policy(
    folder: &Path,
    temperature_milli: u32,
    max_new_tokens: u32,
) -> Result<Arc<dyn Policy>, Failure> {
    check_libtorch()?;
    let refused = |why: String| {
        let help =
            "name a folder in the format of Hugging Face, such as results/runs/RUN/checkpoints/000050/model";
        Failure::with_help(Exit::Refused, why, help)
    };
    let params = load_apart(folder, Device::Cpu).map_err(|error| refused(error.to_string()))?;
    let files = policy_files(folder).map_err(|error| refused(error.to_string()))?;
    let chat = Chat::load(&files).map_err(|error| refused(error.to_string()))?;
    let sampling = ReplySampling { max_new_tokens, temperature: temperature_milli as f32 / 1000.0 };
    Ok(Arc::new(Embedded {
        name: format!("torch:{}", folder.display()),
        chat: Arc::new(chat),
        sampling,
        // A tensor goes from thread to thread, but is not shared.
        params: std::sync::Mutex::new(Some(params)),
        running: OnceLock::new(),
    }))
}

struct Embedded {
    name: String,
    chat: Arc<Chat>,
    sampling: ReplySampling,
    /// The model, and an adapter of it, until the engine has them.
    params: std::sync::Mutex<Option<(Params, Option<Params>)>>,
    running: OnceLock<Result<Running, Fault>>,
}

struct Running {
    policy: TorchPolicy,
    /// Ends with the policy.
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
            // It is there before any request that comes later: no need to wait, which a runtime's thread must not.
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
