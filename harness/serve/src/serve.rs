//! `clawrl serve`: a policy behind OpenAI's interface.
//!
//! I1. Invalid requests are refused before the server listens. I2. The recorder thread ends after the last answer. I3.
//! An upstream server is probed and watched; nothing waits for it longer than [`FIRST_LOOK`].

use std::convert::Infallible;
use std::fs;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener as StdListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clawrl_config::{ChatPlan, load_chat};
use clawrl_core::Judge;
use clawrl_gateway::{Backend, LedgerError, Recorder, RecorderSettings, Server, ServerSettings, Trainer};
use clawrl_remote::Listed;
use clawrl_runtime::{ServerChoice, judge_model_of, turn_judge};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::error::ServeError;
use super::events::{Listening, ServeEvents};
use super::judging::ChatJudge;
use super::key_file::{self, KeyFile};
use super::model::{Announce, ChatModel, ChatModelLoader};
use super::openclaw::{Filling, set_up};
use super::source::Source;
use super::upstream::{News, UpstreamBackend, upstream_backend};

/// Also the default of SGLang.
const USUAL_PORT: u16 = 30_000;

/// How long the first probe of the upstream server may take before the start is reported without it.
const FIRST_LOOK: Duration = Duration::from_secs(2);

/// Reason why learning is off.
const NOT_WANTED: &str = "the server was started with `--learn off`";
const NOT_HERE: &str =
    "the model is behind another server; a model learns that `clawrl serve` runs itself, from its folder";

/// Settings of a server.
#[derive(Debug, Clone)]
pub struct ServeRequest {
    /// The folder of a model or adapter, a policy file, or `openai:MODEL`.
    pub policy: PathBuf,
    /// Address and key of `openai:MODEL`.
    pub server: ServerChoice,
    /// Where to listen. Port 0: any free one.
    pub listen: SocketAddr,
    /// Model name that clients request.
    pub name: String,
    /// Folder of the keys and the ledger. `None`: `chat` in the results folder.
    pub data: Option<PathBuf>,
    /// Names of this server besides 127.0.0.1 and localhost.
    pub hosts: Vec<String>,
    /// The chat file, or `off`. `None`: the default plan.
    pub learn: Option<PathBuf>,
    /// The results folder.
    pub results: PathBuf,
}

/// How a server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServeEnd {
    /// All answers were finished.
    Drained,
    /// Answers were cut off.
    Cut,
}

/// Serves until a signal ends it. Blocks.
///
/// # Errors
/// The request is invalid, the address is taken, or files cannot be read or written.
pub fn serve(
    request: &ServeRequest,
    loader: &dyn ChatModelLoader,
    events: &Arc<dyn ServeEvents>,
) -> Result<ServeEnd, ServeError> {
    check(request)?;
    let plan = learning(request)?;
    let (embedded, upstream) = match Source::of(&request.policy, &request.server, &request.results)? {
        Source::Folder(folder) => (Some(loader.load_chat_model(&folder, &request.name)?), None),
        Source::Server(settings) => (None, Some(upstream_backend(*settings, &request.name)?)),
    };
    let backend: Option<Arc<dyn Backend>> = match (&embedded, &upstream) {
        (Some(embedded), _) => Some(embedded.backend()),
        (None, upstream) => upstream.clone().map(|upstream| upstream as _),
    };
    let Some(backend) = backend else {
        return Err(ServeError::internal("nothing was found to serve"));
    };
    let judge =
        plan.as_ref().map(|plan| turn_judge(&plan.judging, judge_model_of(&plan.judging)?)).transpose()?;
    // Binds before a key is created, since only a started server reports its key.
    let listener = StdListener::bind(request.listen).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    let listener = listener.map_err(|error| unserved(request, &error))?;
    let data = request.data.clone().unwrap_or_else(|| request.results.join("chat"));
    // Absolute, since users copy commands with this path to terminals in other folders.
    let data = std::path::absolute(&data).unwrap_or(data);
    fs::create_dir_all(&data)
        .map_err(|error| ServeError::storage(format!("{} cannot be made: {error}", data.display())))?;
    let keys = key_file::keys(&data.join("keys"))?;
    let recorder = Recorder::open(RecorderSettings::new(data.join("ledger.sqlite"))).map_err(unrecordable)?;
    let runtime = Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| ServeError::unavailable(format!("the server has no threads: {error}")))?;
    let announcing = Arc::clone(events);
    let announce: Announce = Arc::new(move |line: &str| announcing.learned(line));
    let learners = Learners::start((plan.as_ref(), judge), embedded, (&data, announce), &recorder, &runtime)?;
    let learning = match (&plan, &learners.trainer) {
        (Some(plan), Some(_)) => Ok(plan),
        (None, _) => Err(NOT_WANTED),
        (Some(_), None) => Err(NOT_HERE),
    };
    let serving = Serving {
        backend: Arc::clone(&backend),
        upstream,
        trainer: learners.trainer.clone(),
        learning,
        recorder: &recorder,
    };
    let served = runtime.block_on(run(request, (&**events, &data), (listener, keys), serving));
    // An update in progress is still finished and used.
    learners.end();
    drop(backend);
    drop(runtime);
    // Flushes pending records.
    drop(recorder);
    served
}

/// The learning plan; `None` if learning is off.
fn learning(request: &ServeRequest) -> Result<Option<ChatPlan>, ServeError> {
    match &request.learn {
        None => Ok(Some(ChatPlan::default())),
        Some(off) if off.as_os_str() == "off" => Ok(None),
        Some(file) => Ok(Some(load_chat(file)?)),
    }
}

/// Background judge and trainer.
struct Learners {
    judging: Option<JoinHandle<()>>,
    trainer: Option<Arc<dyn Trainer>>,
}

impl Learners {
    fn start(
        (plan, judge): (Option<&ChatPlan>, Option<Arc<dyn Judge>>),
        embedded: Option<Box<dyn ChatModel>>,
        (data, announce): (&Path, Announce),
        recorder: &Recorder,
        runtime: &Runtime,
    ) -> Result<Self, ServeError> {
        let Some(plan) = plan else { return Ok(Self { judging: None, trainer: None }) };
        let trainer = embedded.map(|embedded| {
            let (folder, runtime) = (data.join("adapters"), runtime.handle().clone());
            embedded.into_trainer(plan, folder, announce, recorder.handle(), runtime)
        });
        let trainer = trainer.transpose()?;
        let judging =
            judge.map(|judge| runtime.spawn(ChatJudge::new(judge, &plan.judging, recorder.handle()).run()));
        Ok(Self { judging, trainer })
    }

    /// Ends judge and trainer after the update in progress.
    fn end(self) {
        if let Some(judging) = self.judging {
            judging.abort();
        }
    }
}

/// Parts of a running server.
struct Serving<'a> {
    backend: Arc<dyn Backend>,
    /// The backend again, if the model is on an upstream server.
    upstream: Option<Arc<UpstreamBackend>>,
    trainer: Option<Arc<dyn Trainer>>,
    /// How it learns, or why it does not.
    learning: Result<&'a ChatPlan, &'static str>,
    recorder: &'a Recorder,
}

async fn run(
    request: &ServeRequest,
    (events, data): (&dyn ServeEvents, &Path),
    (listener, KeyFile { keys, first, is_new }): (StdListener, KeyFile),
    Serving { backend, upstream, trainer, learning, recorder }: Serving<'_>,
) -> Result<ServeEnd, ServeError> {
    let unserved = |error: std::io::Error| unserved(request, &error);
    let listener = TcpListener::from_std(listener).map_err(unserved)?;
    let settings = ServerSettings { hosts: request.hosts.clone(), ..ServerSettings::default() };
    let server =
        Server::new(listener, settings, keys, Arc::clone(&backend), recorder.handle()).map_err(unserved)?;
    let server = match (trainer, learning) {
        (Some(trainer), _) => server.with_trainer(trainer),
        (None, why) => server.without_trainer(why.err().unwrap_or(NOT_HERE)),
    };
    let address = server.address().map_err(unserved)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(unserved)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(unserved)?;
    let base_url = format!("http://{}/v1", reached(address));
    let openclaw = OpenClaw { events, data, base_url: &base_url, key: &first, model: &request.name };
    let upstream = upstream.as_deref();
    let listed = match upstream {
        // A late reply is reported when it arrives (I3).
        Some(upstream) => timeout(FIRST_LOOK, upstream.look()).await.ok().flatten(),
        None => None,
    };
    events
        .listens(&Listening {
            base_url: &base_url,
            data,
            key: &first,
            is_new_key: is_new,
            learning,
            upstream: upstream.map(UpstreamBackend::server),
        })
        .map_err(ServeError::Report)?;
    openclaw.set_up(backend.context(), upstream.is_some())?;
    let (ended, end) = tokio::sync::oneshot::channel();
    let first = async {
        // The sender outlives this future.
        let _ = end.await;
    };
    let running = server.run(first);
    let watched = watched(upstream, listed, &openclaw);
    let running = async {
        tokio::select! {
            drained = running => drained,
            never = watched => match never {},
        }
    };
    tokio::pin!(running);
    let signalled = async {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    tokio::select! {
        drained = &mut running => return Ok(end_of(drained.cut)),
        () = signalled => {}
    }
    events.ends();
    let _ = ended.send(());
    let again = async {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    tokio::select! {
        drained = running => Ok(end_of(drained.cut)),
        // Requests that wait are recorded as failed when the ledger is opened again.
        () = again => Ok(ServeEnd::Cut),
    }
}

/// Reports the state of the upstream server while it is polled.
async fn watched(
    upstream: Option<&UpstreamBackend>,
    listed: Option<Listed>,
    openclaw: &OpenClaw<'_>,
) -> Infallible {
    let Some(upstream) = upstream else { return std::future::pending().await };
    if let Some(listed) = &listed {
        openclaw.events.upstream_models(upstream.server(), listed);
    }
    let mut known = upstream.context();
    upstream
        .watch(|news| {
            match news {
                News::UpstreamState(standing) => openclaw.events.upstream_state(upstream.server(), standing),
                News::Listed(listed) => openclaw.events.upstream_models(upstream.server(), listed),
            }
            // The model's context may become known only now.
            let context = upstream.context();
            if context != known {
                known = context;
                if let Err(error) = openclaw.set_up(context, true) {
                    openclaw.events.failed(error);
                }
            }
        })
        .await
}

/// The address under which this machine reaches the server.
fn reached(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(at) if at.ip().is_unspecified() => (Ipv4Addr::LOCALHOST, at.port()).into(),
        SocketAddr::V6(at) if at.ip().is_unspecified() => (Ipv6Addr::LOCALHOST, at.port()).into(),
        at => at,
    }
}

fn end_of(cut: usize) -> ServeEnd {
    if cut == 0 { ServeEnd::Drained } else { ServeEnd::Cut }
}

/// The set-up for OpenClaw.
struct OpenClaw<'a> {
    events: &'a dyn ServeEvents,
    data: &'a Path,
    base_url: &'a str,
    key: &'a str,
    model: &'a str,
}

impl OpenClaw<'_> {
    /// Writes the set-up files and reports them, or why there are none.
    ///
    /// # Errors
    /// A file that cannot be written.
    fn set_up(&self, context: Option<usize>, is_upstream: bool) -> Result<(), ServeError> {
        let Self { base_url, key, model, .. } = *self;
        let set_up =
            set_up(self.data, &Filling { base_url, key, model, context }).map_err(|(path, error)| {
                ServeError::storage(format!("{} cannot be written: {error}", path.display()))
            })?;
        self.events.openclaw(&set_up, is_upstream);
        Ok(())
    }
}

/// Checks the request without reading files.
fn check(request: &ServeRequest) -> Result<(), ServeError> {
    if !request.listen.ip().is_loopback() && request.hosts.is_empty() {
        let message = format!("{} can be reached by others, and nothing says by which name", request.listen);
        let help = "write `--allow-host NAME:PORT` for the name that clients use; there is no TLS here, so put a proxy \
                    with TLS before it";
        return Err(ServeError::refused(message).with_help(help));
    }
    if request.name.is_empty() {
        return Err(ServeError::refused("`--name` is empty"));
    }
    Ok(())
}

fn unserved(request: &ServeRequest, error: &std::io::Error) -> ServeError {
    let message = format!("cannot serve at {}: {error}", request.listen);
    let port = request.listen.port();
    let ours = if port == USUAL_PORT {
        "clawrl chat".to_owned()
    } else {
        format!("clawrl chat --base-url http://{}/v1", reached(request.listen))
    };
    let others = if port == USUAL_PORT { "; 30000 is SGLang's port, too" } else { "" };
    let help = match error.kind() {
        ErrorKind::AddrInUse => format!(
            "another server is there{others}: if it is `clawrl serve`, `{ours}` talks to it; else write `--listen 0` for any free port"
        ),
        ErrorKind::PermissionDenied => {
            "ports below 1024 are for root: write another, as in `--listen 30000`".to_owned()
        }
        _ => "write an address of this machine, as in `--listen 127.0.0.1:30000`".to_owned(),
    };
    ServeError::unavailable(message).with_help(help)
}

fn unrecordable(error: LedgerError) -> ServeError {
    let help = "end the other server, or name another folder with `--data`";
    ServeError::storage(error.to_string()).with_help(help)
}
