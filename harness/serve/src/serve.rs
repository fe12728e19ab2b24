//! `clawrl serve`: a policy behind OpenAI's interface.
//!
//! I1. What can be refused is refused before anything listens. I2. The record's thread ends after the last answer. I3. A server that a model is
//! behind is looked at and watched; nothing waits for it longer than [`FIRST_LOOK`].

use std::convert::Infallible;
use std::fs;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener as StdListener};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clawrl_config::{ChatPlan, load_chat};
use clawrl_core::Judge;
use clawrl_gateway::{Backend, LedgerError, Recorder, RecorderSettings, Server, ServerSettings, Trainer};
use clawrl_remote::Listed;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::judging::ChatJudge;
use super::key_file::{self, KeyFile};
use super::source::Source;
use super::telling::Telling;
use super::upstream::{News, UpstreamBackend, upstream_backend};
use crate::command::serve::Arguments;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::log::Log;
use crate::program::training;
use crate::training::{Announce, ChatModel};
use crate::wiring::{judge_model_of, turn_judge};

/// SGLang's, too.
const USUAL_PORT: u16 = 30_000;

/// How long a server that the model is behind may take to say that it is there, before what is known is told.
const FIRST_LOOK: Duration = Duration::from_secs(2);

/// Why nothing is learned.
const NOT_WANTED: &str = "the server was started with `--learn off`";
const NOT_HERE: &str =
    "the model is behind another server; a model learns that `clawrl serve` runs itself, from its folder";

/// Does it.
pub(crate) fn serve(arguments: &Arguments, log: &Log) -> Result<Exit, Failure> {
    check(arguments)?;
    let plan = learning(arguments)?;
    let (embedded, upstream) = match Source::of(arguments)? {
        // Hands over to the program that has libtorch, where this one has not.
        Source::Folder(folder) => (Some(training().chat_model(&folder, &arguments.name)?), None),
        Source::Server(settings) => (None, Some(upstream_backend(*settings, &arguments.name)?)),
    };
    let backend: Option<Arc<dyn Backend>> = match (&embedded, &upstream) {
        (Some(embedded), _) => Some(embedded.backend()),
        (None, upstream) => upstream.clone().map(|upstream| upstream as _),
    };
    let Some(backend) = backend else {
        return Err(Failure::new(Exit::Internal, "nothing was found to serve"));
    };
    let judge =
        plan.as_ref().map(|plan| turn_judge(&plan.judging, judge_model_of(&plan.judging)?)).transpose()?;
    // Before a key is made, which is told only where there is a server.
    let listener = StdListener::bind(arguments.listen).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    let listener = listener.map_err(|error| unserved(arguments, &error))?;
    let data = arguments.data.clone().unwrap_or_else(|| arguments.results.dir().join("chat"));
    // Commands that name it are copied into terminals that are elsewhere.
    let data = std::path::absolute(&data).unwrap_or(data);
    fs::create_dir_all(&data).map_err(|error| {
        Failure::new(Exit::Results, format!("{} cannot be made: {error}", data.display()))
    })?;
    let keys = key_file::keys(&data.join("keys"))?;
    let recorder = Recorder::open(RecorderSettings::new(data.join("ledger.sqlite"))).map_err(unrecordable)?;
    let runtime = Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Environment, format!("the server has no threads: {error}")))?;
    let announce: Announce = if arguments.json {
        Arc::new(|_: &str| {})
    } else {
        let log = log.clone();
        Arc::new(move |line: &str| log.note(format_args!("{line}")))
    };
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
    let telling = |base_url, key| Telling { arguments, log, data: data.clone(), base_url, key };
    let served = runtime.block_on(run(arguments, telling, (listener, keys), serving));
    // An update that is being made is still put in use.
    learners.end();
    drop(backend);
    drop(runtime);
    // Writes what waits.
    drop(recorder);
    served
}

/// How chat is learned from; nothing where it is not to be.
fn learning(arguments: &Arguments) -> Result<Option<ChatPlan>, Failure> {
    match &arguments.learn {
        None => Ok(Some(ChatPlan::default())),
        Some(off) if off.as_os_str() == "off" => Ok(None),
        Some(file) => Ok(Some(load_chat(file)?)),
    }
}

/// Those who judge and learn beside the answers.
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
    ) -> Result<Self, Failure> {
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

    /// Ends them; an update that is being made comes to its end.
    fn end(self) {
        if let Some(judging) = self.judging {
            judging.abort();
        }
    }
}

/// What serves.
struct Serving<'a> {
    backend: Arc<dyn Backend>,
    /// The same, where the model is behind another server.
    upstream: Option<Arc<UpstreamBackend>>,
    trainer: Option<Arc<dyn Trainer>>,
    /// How it learns, or why it does not.
    learning: Result<&'a ChatPlan, &'static str>,
    recorder: &'a Recorder,
}

async fn run<'a>(
    arguments: &Arguments,
    telling: impl FnOnce(String, String) -> Telling<'a>,
    (listener, KeyFile { keys, first, is_new }): (StdListener, KeyFile),
    Serving { backend, upstream, trainer, learning, recorder }: Serving<'_>,
) -> Result<Exit, Failure> {
    let unserved = |error: std::io::Error| unserved(arguments, &error);
    let listener = TcpListener::from_std(listener).map_err(unserved)?;
    let settings = ServerSettings { hosts: arguments.hosts.clone(), ..ServerSettings::default() };
    let server =
        Server::new(listener, settings, keys, Arc::clone(&backend), recorder.handle()).map_err(unserved)?;
    let server = match (trainer, learning) {
        (Some(trainer), _) => server.with_trainer(trainer),
        (None, why) => server.without_trainer(why.err().unwrap_or(NOT_HERE)),
    };
    let address = server.address().map_err(unserved)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(unserved)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(unserved)?;
    let telling = telling(format!("http://{}/v1", reached(address)), first);
    let upstream = upstream.as_deref();
    let listed = match upstream {
        // What it does not say in time is told once it does (I3).
        Some(upstream) => timeout(FIRST_LOOK, upstream.look()).await.ok().flatten(),
        None => None,
    };
    telling.listens(is_new, learning, upstream)?;
    telling.set_up_openclaw(backend.context(), upstream.is_some())?;
    let (ended, end) = tokio::sync::oneshot::channel();
    let first = async {
        // The sender lives as long as this function.
        let _ = end.await;
    };
    let running = server.run(first);
    let watched = watched(upstream, listed, &telling);
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
        drained = &mut running => return Ok(exit(drained.cut)),
        () = signalled => {}
    }
    telling.ends();
    let _ = ended.send(());
    let again = async {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    tokio::select! {
        drained = running => Ok(exit(drained.cut)),
        // Requests that wait are recorded as failed when the ledger is opened again.
        () = again => Ok(Exit::Interrupted),
    }
}

/// Tells how it stands with the server that the model is behind, for as long as it is polled.
async fn watched(
    upstream: Option<&UpstreamBackend>,
    listed: Option<Listed>,
    telling: &Telling<'_>,
) -> Infallible {
    let Some(upstream) = upstream else { return std::future::pending().await };
    if let Some(listed) = &listed {
        telling.listed(upstream, listed);
    }
    let mut known = upstream.context();
    upstream
        .watch(|news| {
            match news {
                News::Standing(standing) => telling.standing(upstream, standing),
                News::Listed(listed) => telling.listed(upstream, listed),
            }
            // How much the model reads may be known only now.
            let context = upstream.context();
            if context != known {
                known = context;
                if let Err(failure) = telling.set_up_openclaw(context, true) {
                    telling.log.failure(&failure);
                }
            }
        })
        .await
}

/// Where a server of this address is reached from this machine.
fn reached(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(at) if at.ip().is_unspecified() => (Ipv4Addr::LOCALHOST, at.port()).into(),
        SocketAddr::V6(at) if at.ip().is_unspecified() => (Ipv6Addr::LOCALHOST, at.port()).into(),
        at => at,
    }
}

fn exit(cut: usize) -> Exit {
    if cut == 0 { Exit::Success } else { Exit::Interrupted }
}

/// What can be known to be wrong before anything is read.
fn check(arguments: &Arguments) -> Result<(), Failure> {
    if !arguments.listen.ip().is_loopback() && arguments.hosts.is_empty() {
        let message =
            format!("{} can be reached by others, and nothing says by which name", arguments.listen);
        let help = "write `--allow-host NAME:PORT` for the name that clients use; there is no TLS here, so put a proxy \
                    with TLS before it";
        return Err(Failure::with_help(Exit::Refused, message, help));
    }
    if arguments.name.is_empty() {
        return Err(Failure::new(Exit::Refused, "`--name` is empty"));
    }
    Ok(())
}

fn unserved(arguments: &Arguments, error: &std::io::Error) -> Failure {
    let message = format!("cannot serve at {}: {error}", arguments.listen);
    let port = arguments.listen.port();
    let ours = if port == USUAL_PORT {
        "clawrl chat".to_owned()
    } else {
        format!("clawrl chat --base-url http://{}/v1", reached(arguments.listen))
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
    Failure::with_help(Exit::Environment, message, help)
}

fn unrecordable(error: LedgerError) -> Failure {
    let help = "end the other server, or name another folder with `--data`";
    Failure::with_help(Exit::Results, error.to_string(), help)
}
