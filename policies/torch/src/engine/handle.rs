//! The engine's public interface: the owner of its thread, and handles for callers.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;

use clawrl_core::FinishReason;
use crossbeam::channel::{Receiver, Sender, bounded, unbounded};
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::adapters::{AdapterName, AdapterWeights};
use super::config::EngineConfig;
use super::kv::{KvPool, pages_needed};
use super::prefixes::Owner;
use super::request::{EngineError, GenerateRequest, Generated, PublishError};
use super::scoring::{ScoreRequest, ScoreSubmission, Scored};
use super::stats::{EngineStats, SharedStats};
use super::streaming::{Listener, TokenStream};
use super::weights::Weights;
use super::worker::{Message, Published, Submission, Worker};
use crate::error::TorchError;
use crate::model::{ParamLayout, Params};

/// Owns the engine's thread. Dropping it ends the engine after the current step, answers all waiting requests with
/// [`EngineError::Gone`], and joins the thread.
#[derive(Debug)]
pub struct Engine {
    handle: EngineHandle,
    thread: Option<JoinHandle<()>>,
}

/// Sends requests to the engine. Cheap to clone.
#[derive(Debug, Clone)]
pub struct EngineHandle {
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(super) struct Shared {
    config: EngineConfig,
    layout: Arc<ParamLayout>,
    /// The queue's permits bound the number of requests, since each holds one, and at most one publication is in flight. A
    /// bounded channel would keep messages after the receiver is gone, and their senders would wait forever for an answer.
    messages: Sender<Message>,
    /// Free places of the queue. Closed when the engine has ended.
    places: Arc<Semaphore>,
    stats: SharedStats,
    /// Latest publication of the model and of each resident adapter.
    latest: Mutex<HashMap<Owner, Latest>>,
    cause: OnceLock<String>,
}

/// Receives an answer.
type Answer = oneshot::Receiver<Result<Generated, EngineError>>;

/// The latest publication of an owner.
#[derive(Debug)]
struct Latest {
    version: u64,
    /// Closed once the engine has taken it.
    taken: Option<Receiver<()>>,
}

/// A receipt for published weights, to wait for their use.
#[derive(Debug)]
#[must_use = "dropping it is fine where nobody has to know when the weights are in use"]
pub struct Applied {
    applied: oneshot::Receiver<()>,
    shared: Arc<Shared>,
}

impl Engine {
    /// Starts the thread with a copy of the parameters. The engine computes on the CPU, on whichever device the parameters are.
    ///
    /// # Errors
    /// [`TorchError`] if the parameters cannot be served or memory is exhausted.
    pub fn start(config: EngineConfig, version: u64, params: &Params) -> Result<Self, TorchError> {
        let config = config.at_least_one();
        let weights = Weights::snapshot(version, params, config.dtype)?;
        let (sender, messages) = unbounded();
        let shared = Arc::new(Shared {
            layout: Arc::clone(&weights.layout),
            messages: sender,
            places: Arc::new(Semaphore::new(config.queue.min(Semaphore::MAX_PERMITS))),
            stats: SharedStats::default(),
            latest: Mutex::new(HashMap::from([(None, Latest { version, taken: None })])),
            cause: OnceLock::new(),
            config,
        });
        let (started_sender, started) = bounded(1);
        let in_thread = Arc::clone(&shared);
        let body = move || serve(&in_thread, weights, messages, &started_sender);
        let thread = std::thread::Builder::new().name("clawrl-engine".to_owned()).spawn(body);
        let thread =
            thread.map_err(|error| TorchError::Model(format!("the engine has no thread: {error}")))?;
        let gone = || TorchError::Model("the engine ended while it started".to_owned());
        started.recv().map_err(|_| gone())??;
        Ok(Self { handle: EngineHandle { shared }, thread: Some(thread) })
    }

    /// A handle for requests.
    #[must_use]
    pub fn handle(&self) -> EngineHandle {
        self.handle.clone()
    }

    /// Ends the engine, as dropping it does. Blocks for at most one step.
    pub fn shutdown(self) {
        drop(self);
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Fails only when the thread has ended already.
        let _ = self.handle.shared.messages.send(Message::Stop);
        if let Some(thread) = self.thread.take() {
            // The thread's panic was caught; every caller gets it as the cause.
            let _ = thread.join();
        }
    }
}

/// The body of the thread.
fn serve(
    shared: &Arc<Shared>,
    weights: Weights,
    messages: Receiver<Message>,
    started: &Sender<Result<(), TorchError>>,
) {
    // libtorch initialises a thread's setting when it is first read, so a value that was set earlier is lost.
    let _ = tch::get_num_threads();
    tch::set_num_threads(shared.config.threads.try_into().unwrap_or(i32::MAX));
    let _guard = tch::no_grad_guard();
    let stats = shared.stats.clone();
    let mut worker = match Worker::new(shared.config.clone(), weights, messages, stats) {
        Ok(worker) => worker,
        Err(error) => {
            let _ = started.send(Err(error));
            return;
        }
    };
    let _ = started.send(Ok(()));
    let cause = match catch_unwind(AssertUnwindSafe(|| worker.run())) {
        Ok(Ok(())) => "it was shut down".to_owned(),
        Ok(Err(error)) => error.to_string(),
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            format!("it panicked: {}", text.unwrap_or_default())
        }
    };
    // The cause must be set before a closed channel shows a caller that the engine has ended.
    let _ = shared.cause.set(cause);
    shared.places.close();
    drop(worker);
}

impl EngineHandle {
    /// Continues a prompt. Waits for a place in the queue, then for memory, then for the tokens. Dropping the future frees
    /// all of it before the next step.
    ///
    /// # Errors
    /// [`EngineError`] if the request cannot be computed or the engine has ended.
    pub async fn generate(&self, request: GenerateRequest) -> Result<Generated, EngineError> {
        let answer = self.submit(request, None).await?;
        answer.await.unwrap_or_else(|_| Err(self.shared.gone()))
    }

    /// The same as a stream of tokens, each with the `most_probable` most probable tokens at its position. Waits for a
    /// place in the queue; later errors arrive through the stream.
    ///
    /// # Errors
    /// [`EngineError`] if the request cannot be computed or the engine has ended.
    pub async fn stream(
        &self,
        request: GenerateRequest,
        most_probable: usize,
    ) -> Result<TokenStream, EngineError> {
        let vocabulary = usize::try_from(self.shared.layout.config().vocab_size).unwrap_or(usize::MAX);
        let (sender, tokens) = mpsc::unbounded_channel();
        let listener = Listener { tokens: sender, most_probable: most_probable.min(vocabulary) };
        let answer = self.submit(request, Some(listener)).await?;
        Ok(TokenStream { tokens, answer, shared: Arc::clone(&self.shared) })
    }

    async fn submit(
        &self,
        request: GenerateRequest,
        listener: Option<Listener>,
    ) -> Result<Answer, EngineError> {
        let shared = &self.shared;
        let config = shared.layout.config();
        request.check(config)?;
        let most_tokens = request.most_tokens(config);
        let (reply, answer) = oneshot::channel();
        if most_tokens == request.prompt.len() {
            // The receiver is held here, so sending cannot fail.
            let _ = reply.send(Ok(Generated {
                ids: Vec::new(),
                logprobs: Vec::new(),
                set_logprobs: None,
                versions: Vec::new(),
                finish: FinishReason::Length,
            }));
            return Ok(answer);
        }
        let page_bytes = KvPool::page_bytes(config);
        let pages = pages_needed(most_tokens - 1, 0, shared.config.share_prefixes) as u64;
        let (needed, budget) = (pages * page_bytes, shared.config.kv_budget_bytes);
        if needed > budget {
            return Err(EngineError::NeverFits { needed, budget });
        }
        let places = Arc::clone(&shared.places);
        let place = places.acquire_owned().await.map_err(|_| shared.gone())?;
        // The engine checks whether the adapter exists: it may be removed while the request waits.
        let message = Message::Generate(Submission { request, listener, reply, place });
        shared.messages.send(message).map_err(|_| shared.gone())?;
        Ok(answer)
    }

    /// Scores given tokens with one version. Waits for a place in the queue, then for earlier requests. Dropping the future
    /// frees all of it before the next step. If a new version is published meanwhile, scoring restarts with it.
    ///
    /// # Errors
    /// [`EngineError`] if the request cannot be computed or the engine has ended.
    pub async fn score(&self, request: ScoreRequest) -> Result<Scored, EngineError> {
        let shared = &self.shared;
        let config = shared.layout.config();
        request.check(config)?;
        let pages = request.most_pages(shared.config.share_prefixes) as u64;
        let (needed, budget) = (pages * KvPool::page_bytes(config), shared.config.kv_budget_bytes);
        if needed > budget {
            return Err(EngineError::NeverFits { needed, budget });
        }
        let places = Arc::clone(&shared.places);
        let place = places.acquire_owned().await.map_err(|_| shared.gone())?;
        let (reply, answer) = oneshot::channel();
        let message = Message::Score(ScoreSubmission { request, reply, place });
        shared.messages.send(message).map_err(|_| shared.gone())?;
        answer.await.unwrap_or_else(|_| Err(shared.gone()))
    }

    /// Hands over a copy of the parameters, which the engine uses from the next step. Running requests keep their tokens.
    /// Blocks while it copies, and until the previous version is in use: at most one step.
    ///
    /// # Errors
    /// [`PublishError`]; the engine keeps its weights. The model cannot change while adapters for it are resident.
    pub fn publish(&self, version: u64, params: &Params) -> Result<Applied, PublishError> {
        let shared = &self.shared;
        if params.layout() != &shared.layout {
            return Err(PublishError::OtherShape);
        }
        let weights = Box::new(Weights::snapshot(version, params, shared.config.dtype)?);
        self.hand_over(None, version, Published::Model(weights))
    }

    /// Publishes an adapter, which stays resident under its name: a new adapter at any version, or a newer version of a
    /// resident one. Requests that run with it continue with the newer version.
    ///
    /// # Errors
    /// [`PublishError`]; the engine keeps what it has.
    pub fn publish_adapter(
        &self,
        name: &AdapterName,
        version: u64,
        params: &Params,
    ) -> Result<Applied, PublishError> {
        let (model, layout) = (&self.shared.layout, params.layout());
        if layout.lora().is_none() || layout.config() != model.config() {
            return Err(PublishError::OtherShape);
        }
        let weights = Box::new(AdapterWeights::snapshot(version, params, self.shared.config.dtype)?);
        self.hand_over(Some(Arc::clone(name)), version, Published::Adapter(Arc::clone(name), weights))
    }

    /// Removes an adapter. Requests that run or wait for it end with [`EngineError::NoAdapter`]. Returns false if it is not
    /// resident.
    pub fn remove_adapter(&self, name: &AdapterName) -> bool {
        let mut latest = self.shared.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(removed) = latest.remove(&Some(Arc::clone(name))) else { return false };
        if let Some(taken) = removed.taken {
            // As in publishing: at most one copy of an adapter is in flight.
            let _ = taken.recv();
        }
        // An engine that has ended has no adapters.
        self.shared.messages.send(Message::RemoveAdapter(Arc::clone(name))).is_ok()
    }

    /// Names of the adapters that are resident, ascending.
    #[must_use]
    pub fn adapters(&self) -> Vec<AdapterName> {
        let latest = self.shared.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let mut names: Vec<AdapterName> = latest.keys().flatten().cloned().collect();
        names.sort_unstable();
        names
    }

    fn hand_over(&self, owner: Owner, version: u64, published: Published) -> Result<Applied, PublishError> {
        let shared = &self.shared;
        // The lock is held until the message is sent, so that versions arrive in order.
        let mut latest = shared.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if owner.is_none() && latest.len() > 1 {
            return Err(PublishError::HasAdapters { adapters: latest.len() - 1 });
        }
        if let Some(latest) = latest.get_mut(&owner) {
            if version <= latest.version {
                return Err(PublishError::NotNewer { version, latest: latest.version });
            }
            if let Some(taken) = latest.taken.take() {
                // The channel is closed without a message, so `recv` returns an error.
                let _ = taken.recv();
            }
        }
        let (applied_sender, applied) = oneshot::channel();
        let (taken_sender, taken) = bounded(1);
        let message = Message::Publish { published, taken: taken_sender, applied: applied_sender };
        shared.messages.send(message).map_err(|_| shared.cannot_publish())?;
        latest.insert(owner, Latest { version, taken: Some(taken) });
        Ok(Applied { applied, shared: Arc::clone(shared) })
    }

    /// The engine's counters.
    #[must_use]
    pub fn stats(&self) -> EngineStats {
        self.shared.stats.read()
    }

    #[cfg(test)]
    pub(super) fn panic(&self) {
        self.shared.messages.send(Message::Panic).unwrap();
    }
}

impl Applied {
    /// Waits until the weights are in use.
    ///
    /// # Errors
    /// [`PublishError::Gone`].
    pub async fn wait(self) -> Result<(), PublishError> {
        self.applied.await.map_err(|_| self.shared.cannot_publish())
    }

    /// The blocking form, for a thread without an async runtime.
    ///
    /// # Errors
    /// [`PublishError::Gone`].
    pub fn wait_blocking(self) -> Result<(), PublishError> {
        self.applied.blocking_recv().map_err(|_| self.shared.cannot_publish())
    }
}

impl Shared {
    fn cause(&self) -> String {
        self.cause.get().cloned().unwrap_or_else(|| "it did not start".to_owned())
    }

    pub(super) fn gone(&self) -> EngineError {
        EngineError::Gone { cause: self.cause() }
    }

    fn cannot_publish(&self) -> PublishError {
        PublishError::Gone { cause: self.cause() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ModelConfig, init_params};

    #[test]
    fn a_handle_goes_to_every_thread() {
        fn check<T: Clone + Send + Sync + 'static>() {}
        check::<EngineHandle>();
    }

    #[tokio::test]
    async fn a_defect_answers_all_and_hangs_nobody() {
        let layout = Arc::new(ParamLayout::new(ModelConfig::tiny(64, 0)));
        let params = init_params(layout, 1, tch::Device::Cpu).unwrap();
        let engine = Engine::start(EngineConfig::default(), 0, &params).unwrap();
        let handle = engine.handle();
        let request = |seed| GenerateRequest {
            prompt: Arc::from([1, 2]),
            max_new_tokens: 2_000,
            temperature: 1.0,
            top_p: 1.0,
            top_k: 0,
            seed,
            stop_ids: Vec::new(),
            adapter: None,
        };
        let waiting: Vec<_> = (0..5)
            .map(|seed| {
                let handle = engine.handle();
                tokio::spawn(async move { handle.generate(request(seed)).await })
            })
            .collect();
        // Lets all tasks send their requests.
        tokio::task::yield_now().await;
        handle.panic();
        let gone = Err(EngineError::Gone { cause: "it panicked: a defect".to_owned() });
        for waiting in waiting {
            assert_eq!(waiting.await.unwrap(), gone);
        }
        assert_eq!(handle.generate(request(9)).await, gone);
        let publish = handle.publish(1, &params).unwrap_err();
        assert_eq!(publish.to_string(), "the engine is gone: it panicked: a defect");
    }
}
