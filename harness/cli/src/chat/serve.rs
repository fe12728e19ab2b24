//! `clawrl serve`: a policy behind OpenAI's interface.
//!
//! I1. What can be refused is refused before anything listens. I2. The record's thread ends after the last answer.

use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener as StdListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clawrl_config::{ChatPlan, load_chat};
use clawrl_core::Judge;
use clawrl_gateway::{Backend, LedgerError, Recorder, RecorderSettings, Server, ServerSettings, Trainer};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;

use super::judging::ChatJudge;
use super::key_file::{self, KeyFile};
use super::openclaw::{self, Filling};
use super::upstream::{is_policy_file, upstream_backend};
use crate::command::serve::Arguments;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::log::Log;
use crate::output::print_json_line;
use crate::program::training;
use crate::results::quoted;
use crate::training::ChatModel;
use crate::wiring::{judge_model_of, turn_judge};

/// SGLang's, too.
const USUAL_PORT: u16 = 30_000;

/// Where `clawrl chat` looks, where nobody says.
const USUAL_BASE_URL: &str = "http://127.0.0.1:30000/v1";

/// Does it.
pub(crate) fn serve(arguments: &Arguments, log: &Log) -> Result<Exit, Failure> {
    check(arguments)?;
    let plan = learning(arguments)?;
    let embedded = if is_policy_file(&arguments.policy) {
        None
    } else {
        // Hands over to the program that has libtorch, where this one has not.
        Some(training().chat_model(&arguments.policy, &arguments.name)?)
    };
    let backend = match &embedded {
        Some(embedded) => embedded.backend(),
        None => upstream_backend(&arguments.policy, &arguments.name)?,
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
    fs::create_dir_all(&data).map_err(|error| {
        Failure::new(Exit::Results, format!("{} cannot be made: {error}", data.display()))
    })?;
    let keys = key_file::keys(&data.join("keys"))?;
    let recorder = Recorder::open(RecorderSettings::new(data.join("ledger.sqlite"))).map_err(unrecordable)?;
    let runtime = Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Environment, format!("the server has no threads: {error}")))?;
    let learners = Learners::start(plan.as_ref(), judge, embedded, &data, &recorder, &runtime)?;
    let told = Told { arguments, log, data, plan: plan.as_ref() };
    let trainer = learners.trainer.clone();
    let served = runtime.block_on(run(told, (listener, keys), (Arc::clone(&backend), trainer), &recorder));
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
        plan: Option<&ChatPlan>,
        judge: Option<Arc<dyn Judge>>,
        embedded: Option<Box<dyn ChatModel>>,
        data: &Path,
        recorder: &Recorder,
        runtime: &Runtime,
    ) -> Result<Self, Failure> {
        let Some(plan) = plan else { return Ok(Self { judging: None, trainer: None }) };
        let trainer = embedded.map(|embedded| {
            let (folder, runtime) = (data.join("adapters"), runtime.handle().clone());
            embedded.into_trainer(plan, folder, recorder.handle(), runtime)
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

/// What a person is told when it listens.
struct Told<'a> {
    arguments: &'a Arguments,
    log: &'a Log,
    data: PathBuf,
    plan: Option<&'a ChatPlan>,
}

async fn run(
    told: Told<'_>,
    (listener, KeyFile { keys, first, is_new }): (StdListener, KeyFile),
    (backend, trainer): (Arc<dyn Backend>, Option<Arc<dyn Trainer>>),
    recorder: &Recorder,
) -> Result<Exit, Failure> {
    let Told { arguments, log, data, plan } = told;
    let unserved = |error: std::io::Error| unserved(arguments, &error);
    let listener = TcpListener::from_std(listener).map_err(unserved)?;
    let settings = ServerSettings { hosts: arguments.hosts.clone(), ..ServerSettings::default() };
    let context = backend.context();
    let learns = trainer.is_some();
    let mut server = Server::new(listener, settings, keys, backend, recorder.handle()).map_err(unserved)?;
    if let Some(trainer) = trainer {
        server = server.with_trainer(trainer);
    }
    let address = server.address().map_err(unserved)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(unserved)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(unserved)?;
    let key_file = data.join("keys");
    let openclaw = data.join("openclaw.json5");
    let base_url = format!("http://{address}/v1");
    let filling = Filling { base_url: &base_url, key: &first, model: &arguments.name, context };
    let written = openclaw::write(&openclaw, &filling);
    written.map_err(|error| {
        Failure::new(Exit::Results, format!("{} cannot be written: {error}", openclaw.display()))
    })?;
    if arguments.json {
        print_json_line(&json!({
            "base_url": base_url, "model": arguments.name, "key_file": key_file, "pid": std::process::id(),
            "learning": learns,
        }))?;
    } else {
        log.note(format_args!("{base_url} serves the model `{}`", arguments.name));
        if is_new {
            log.note(format_args!("key, which is told once and kept in {}: {first}", key_file.display()));
        } else {
            log.note(format_args!("keys are in {}", key_file.display()));
        }
        log.note(format_args!("what is said is recorded in {}", data.join("ledger.sqlite").display()));
        match plan.filter(|_| learns) {
            Some(plan) => log.note(format_args!(
                "it is learned from: {}, with {} samples or after {} s",
                plan.objective.name(),
                plan.train_every_turns,
                plan.train_every_secs
            )),
            None => log.note(format_args!("nothing is learned from it")),
        }
        log.note(format_args!("talk to it in a terminal: {}", client(arguments, &base_url)));
        log.note(format_args!("OpenClaw is set up by: openclaw config patch --file {}", openclaw.display()));
    }
    let (ended, end) = tokio::sync::oneshot::channel();
    let first = async {
        // The sender lives as long as this function.
        let _ = end.await;
    };
    let running = server.run(first);
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
    if !arguments.json {
        log.note(format_args!("answers that have begun come to their end; Ctrl-C again cuts them"));
    }
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

/// The command of the client that finds this server and its keys.
fn client(arguments: &Arguments, base_url: &str) -> String {
    let address = if base_url == USUAL_BASE_URL { String::new() } else { format!(" --base-url {base_url}") };
    let data = arguments.data.as_ref().map(|data| format!(" --data {}", quoted(data))).unwrap_or_default();
    format!("clawrl chat{address}{}{data}", arguments.results.repeated())
}

fn exit(cut: usize) -> Exit {
    if cut == 0 { Exit::Success } else { Exit::Interrupted }
}

/// What can be known to be wrong before anything is read.
fn check(arguments: &Arguments) -> Result<(), Failure> {
    if !arguments.policy.is_dir() && !is_policy_file(&arguments.policy) {
        let message = format!("there is no folder {}", arguments.policy.display());
        let help = "name the folder of a model, such as results/runs/RUN/checkpoints/000050/model, or a policy file, such \
                    as policy.yaml";
        return Err(Failure::with_help(Exit::Refused, message, help));
    }
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
    let taken = error.kind() == ErrorKind::AddrInUse;
    let help = match arguments.listen.port() {
        USUAL_PORT if taken => {
            "another server is there; 30000 is SGLang's port, too: write `--listen 127.0.0.1:0` for any other"
        }
        _ if taken => "another server is there; write `--listen 127.0.0.1:0` for any free port",
        _ => "write another address, as in `--listen 127.0.0.1:30000`",
    };
    Failure::with_help(Exit::Environment, message, help)
}

fn unrecordable(error: LedgerError) -> Failure {
    let help = "end the other server, or name another folder with `--data`";
    Failure::with_help(Exit::Results, error.to_string(), help)
}
