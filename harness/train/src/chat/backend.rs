//! A model in this process as a chat backend.
//!
//! I1. The record stores the tokens as fed and as sampled. I2. A prompt that is too long is refused, never truncated: training
//! needs the whole prompt.
//!
//! Cancellation: dropping the stream of an answer ends it in the sampler before the next step.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clawrl_config::ChatPlan;
use clawrl_core::{Usage, openai};
use clawrl_gateway::{
    AnswerRequest, Backend, BackendError, End, Piece, Prompt, RecorderHandle, Refusal, StartedAnswer, Token,
    Trainer, UserId,
};
use clawrl_torch::{
    AdapterFiles, AdapterName, Chat, Context, ConversationError, ConversationState, Device, Engine,
    EngineConfig, EngineError, EngineHandle, GenerateRequest, Params, StreamedToken, TokenStream, TorchError,
    load_apart, policy_files,
};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::unfold;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

use super::super::embedded::ADAPTER;
use super::super::libtorch::check_libtorch;
use super::adapter_router::AdapterRouter;
use super::adapter_trainer::Model;
use super::messages::messages;
use super::online_trainer::{OnlineTrainer, OnlineTrainerSetup};
use clawrl_runtime::quoted;
use clawrl_runtime::training::TrainError;
use clawrl_serve::{Announce, ChatModel};

/// A model, its sampler, and its chat format.
struct EmbeddedBackend {
    name: String,
    engine: EngineHandle,
    chat: Arc<Chat>,
    router: Arc<AdapterRouter>,
    /// Maximum tokens of a prompt and its answer.
    positions: usize,
    /// The sampler; it ends with the backend.
    _engine: Engine,
}

/// A model that answers and can be trained.
struct Embedded {
    backend: Arc<EmbeddedBackend>,
    model: Model,
}

impl ChatModel for Embedded {
    fn backend(&self) -> Arc<dyn Backend> {
        Arc::clone(&self.backend) as Arc<dyn Backend>
    }

    fn into_trainer(
        self: Box<Self>,
        plan: &ChatPlan,
        folder: PathBuf,
        announce: Announce,
        recorder: RecorderHandle,
        runtime: Handle,
    ) -> Result<Arc<dyn Trainer>, TrainError> {
        let router = Arc::clone(&self.backend.router);
        let online_trainer = OnlineTrainer::start(OnlineTrainerSetup {
            model: self.model,
            router,
            plan: plan.clone(),
            folder,
            announce,
            recorder,
            runtime,
        })?;
        Ok(Arc::new(online_trainer))
    }
}

/// Loads the model in a folder, an adapter or a full model, under a name.
///
/// # Errors
/// The folder does not contain a model, or this program cannot run it.
pub(crate) fn embedded_model(folder: &Path, name: &str) -> Result<Box<dyn ChatModel>, TrainError> {
    check_libtorch()?;
    let refused = |why: String| {
        let model = quoted(folder);
        let help = format!(
            "name a folder in the format of Hugging Face, such as results/runs/RUN/checkpoints/000050/model; a model that is not supported \
             here is served by vLLM, with clawrl in front of it:\n  vllm serve {model} --port 8000\n  \
             clawrl serve openai:{model} --base-url http://127.0.0.1:8000/v1 --key-env none"
        );
        TrainError::refused(why).with_help(help)
    };
    let (model, adapter) = load_apart(folder, Device::Cpu).map_err(|error| refused(error.to_string()))?;
    let files = policy_files(folder).map_err(|error| refused(error.to_string()))?;
    let chat = Chat::load(&files).map_err(|error| refused(error.to_string()))?;
    let positions = model.layout().config().max_position_embeddings;
    let config = EngineConfig::default();
    let broken = |why: String| TrainError::internal(format!("the engine did not start: {why}"));
    let engine = Engine::start(config, 0, &model).map_err(|error| broken(error.to_string()))?;
    let adapter_name = adapter.as_ref().map(|_| AdapterName::from(ADAPTER));
    if let Some((name, adapter)) = adapter_name.as_ref().zip(adapter.as_ref()) {
        let applied = engine.handle().publish_adapter(name, 0, adapter);
        let applied = applied.map_err(|error| broken(error.to_string()))?;
        applied.wait_blocking().map_err(|error| broken(error.to_string()))?;
    }
    let chat = Arc::new(chat);
    let mark = mark(&model, adapter.as_ref()).map_err(|error| broken(error.to_string()))?;
    let model = Model {
        params: model,
        files,
        folder: model_folder(folder)?,
        first: adapter,
        mark,
        engine: engine.handle(),
        chat: Arc::clone(&chat),
    };
    let backend = Arc::new(EmbeddedBackend {
        name: name.to_owned(),
        engine: engine.handle(),
        chat,
        router: Arc::new(AdapterRouter::new(adapter_name)),
        positions: usize::try_from(positions).unwrap_or_default(),
        _engine: engine,
    });
    Ok(Box::new(Embedded { backend, model }))
}

/// Fingerprint of a policy's weights.
fn mark(model: &Params, adapter: Option<&Params>) -> Result<String, TorchError> {
    let of = |params: &Params| Ok::<_, TorchError>(format!("{:016x}", params.norm()?.to_bits()));
    let adapter = adapter.map(of).transpose()?.unwrap_or_default();
    Ok(format!("{}-{}{adapter}", model.layout().parameters(), of(model)?))
}

/// Absolute path of the model that adapters are for.
fn model_folder(folder: &Path) -> Result<PathBuf, TrainError> {
    let lost =
        |why: String| TrainError::refused(format!("{} cannot be found again: {why}", folder.display()));
    let adapter = AdapterFiles::of(folder);
    let of_model = if adapter.exist() {
        adapter.base().map_err(|error| lost(error.to_string()))?
    } else {
        folder.to_owned()
    };
    of_model.canonicalize().map_err(|error| lost(error.to_string()))
}

impl Backend for EmbeddedBackend {
    fn models(&self) -> Vec<String> {
        vec![self.name.clone()]
    }

    fn context(&self) -> Option<usize> {
        Some(self.positions)
    }

    fn version(&self, user: &UserId) -> Option<u64> {
        Some(self.router.of(user).map_or(0, |(_, version)| version))
    }

    fn refusal(&self, ask: &AnswerRequest, demands: &[Refusal]) -> Option<Refusal> {
        let greedy_of_many = ask.sampling.temperature > 0.0 && ask.sampling.temperature < 1e-3;
        let too_cold = greedy_of_many.then(|| Refusal {
            field: "temperature",
            message: "`temperature` is 0, or at least 0.001 with this model".to_owned(),
        });
        demands.first().cloned().or(too_cold)
    }

    fn start(&self, ask: AnswerRequest) -> BoxFuture<'_, Result<StartedAnswer, BackendError>> {
        Box::pin(async move {
            let chat = Arc::clone(&self.chat);
            let (body, prompt) = (Arc::clone(&ask.body), ask.prompt.clone());
            // Long conversations take milliseconds to encode; other requests must not wait for that.
            let written = spawn_blocking(move || prompt_ids(&chat, &body, prompt)).await;
            let ids: Arc<[u32]> = written.map_err(|error| BackendError::Broken(error.to_string()))??.into();
            if ids.len() >= self.positions {
                return Err(BackendError::TooLong { tokens: ids.len(), limit: self.positions });
            }
            let sampling = &ask.sampling;
            let adapter = self.router.of(&ask.user).map(|(name, _)| name);
            let request = GenerateRequest {
                prompt: Arc::clone(&ids),
                max_new_tokens: sampling.max_tokens.unwrap_or(u32::MAX),
                temperature: sampling.temperature,
                top_p: sampling.top_p,
                top_k: sampling.top_k,
                seed: sampling.seed,
                stop_ids: self.chat.stop_ids().to_vec(),
                adapter: adapter.clone(),
            };
            let most_probable = sampling.top_logprobs.unwrap_or_default();
            let stream = self.engine.stream(request, most_probable).await.map_err(backend_error)?;
            let reading =
                Reading { stream, chat: Arc::clone(&self.chat), prompt: ids.len() as u64, sampled: 0 };
            let pieces = unfold(Some(reading), |reading| async move { reading?.next().await }).boxed();
            let adapter = adapter.as_deref().map(str::to_owned);
            Ok(StartedAnswer { prompt_ids: Some(ids), in_reasoning: false, adapter, pieces })
        })
    }

    fn ready(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async {
            // The answer has to be one token of the vocabulary.
            let request = GenerateRequest {
                prompt: Arc::from([self.chat.end_id()]),
                max_new_tokens: 1,
                temperature: 0.0,
                top_p: 1.0,
                top_k: 0,
                seed: 0,
                stop_ids: Vec::new(),
                adapter: None,
            };
            self.engine.generate(request).await.map(drop).map_err(|error| error.to_string())
        })
    }
}

impl fmt::Debug for EmbeddedBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedBackend").field("name", &self.name).finish_non_exhaustive()
    }
}

/// An answer that is being sampled.
struct Reading {
    stream: TokenStream,
    chat: Arc<Chat>,
    prompt: u64,
    sampled: u64,
}

type Next = (Result<Piece, BackendError>, Option<Reading>);

impl Reading {
    async fn next(mut self) -> Option<Next> {
        if let Some(token) = self.stream.next().await {
            self.sampled += 1;
            return Some((Ok(Piece::Token(told(&self.chat, token))), Some(self)));
        }
        let usage = Some(Usage::reported(self.prompt, self.sampled));
        let end = self.stream.end().await.map_err(backend_error);
        let end = end.map(|whole| Piece::End(End { finish: whole.finish, usage }));
        Some((end, None))
    }
}

fn told(chat: &Chat, token: StreamedToken) -> Token {
    let tokenizer = chat.tokenizer();
    let StreamedToken { id, logprob, version, most_probable } = token;
    let said = |id| tokenizer.token_bytes(id).unwrap_or_default();
    let name = String::from_utf8_lossy(&said(id)).into_owned();
    // The stop token is not part of a reply, whether it is marked special or not.
    let is_markup = tokenizer.is_special(id) || chat.stop_ids().contains(&id);
    let bytes = if is_markup { Vec::new() } else { said(id) };
    let most_probable = most_probable.into_iter().map(|(id, logprob)| (said(id), logprob)).collect();
    Token { id, bytes, logprob, version, most_probable, name }
}

fn prompt_ids(
    chat: &Chat,
    body: &serde_json::Map<String, serde_json::Value>,
    prompt: Prompt,
) -> Result<Vec<u32>, BackendError> {
    match prompt {
        Prompt::Ids(ids) => Ok(ids),
        // A raw text prompt may contain markup.
        Prompt::Text(text) => {
            let refused = |error: clawrl_torch::TokenizerError| refused("prompt", error.to_string());
            chat.tokenizer().encode_markup(&text).map_err(refused)
        }
        Prompt::Chat => {
            let invalid = |error: openai::RequestError| refused("messages", error.to_string());
            let (messages, tools) =
                (messages(body).map_err(invalid)?, openai::usable_tools(body).map_err(invalid)?);
            let mut conversation = ConversationState::default();
            let ids = conversation.prompt(chat, Context { messages: &messages, tools: &tools });
            ids.map(<[u32]>::to_vec).map_err(|error| match error {
                ConversationError::ForgedTool { .. } => refused("tools", error.to_string()),
                error => refused("messages", error.to_string()),
            })
        }
    }
}

fn refused(field: &'static str, message: String) -> BackendError {
    BackendError::Refused { field, message }
}

fn backend_error(error: EngineError) -> BackendError {
    match error {
        EngineError::PromptTooLong { tokens, positions } => {
            BackendError::TooLong { tokens, limit: positions }
        }
        EngineError::NeverFits { .. } => refused("max_tokens", error.to_string()),
        EngineError::EmptyPrompt => refused("prompt", error.to_string()),
        EngineError::UnknownToken { .. } => refused("prompt", error.to_string()),
        EngineError::BadSampling(_) => refused("temperature", error.to_string()),
        // A rollback, or the end of a user's adapter: the next request uses the adapter that exists then.
        EngineError::NoAdapter(_) => BackendError::Unavailable {
            message: "the model is being exchanged".to_owned(),
            retry_after: None,
        },
        EngineError::NotFinite { .. }
        | EngineError::Gone { .. }
        | EngineError::TooLong { .. }
        | EngineError::BadScoring(_) => BackendError::Broken(error.to_string()),
    }
}
