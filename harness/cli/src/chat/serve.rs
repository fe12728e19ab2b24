//! `clawrl serve`: a policy behind OpenAI's interface.
//!
//! I1. What can be refused is refused before anything listens. I2. The record's thread ends after the last answer.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

use clawrl_gateway::{Backend, LedgerError, Recorder, RecorderSettings, Server, ServerSettings};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use super::key_file::{self, KeyFile};
use super::openclaw::{self, Filling};
use super::upstream::{is_policy_file, upstream_backend};
use crate::command::serve::Arguments;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::log::Log;
use crate::output::print_json_line;

/// SGLang's, too.
const USUAL_PORT: u16 = 30_000;

/// Does it.
pub(crate) fn serve(arguments: &Arguments, log: &Log) -> Result<Exit, Failure> {
    check(arguments)?;
    let backend = if is_policy_file(&arguments.policy) {
        upstream_backend(&arguments.policy, &arguments.name)?
    } else {
        // Hands over to the program that has libtorch, where this one has not.
        crate::training::embedded_backend(&arguments.policy, &arguments.name)?
    };
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
    let told = Told { arguments, log, data };
    let served = runtime.block_on(run(told, keys, backend, &recorder));
    drop(runtime);
    // Writes what waits.
    drop(recorder);
    served
}

/// What a person is told when it listens.
struct Told<'a> {
    arguments: &'a Arguments,
    log: &'a Log,
    data: PathBuf,
}

async fn run(
    told: Told<'_>,
    KeyFile { keys, first, is_new }: KeyFile,
    backend: Arc<dyn Backend>,
    recorder: &Recorder,
) -> Result<Exit, Failure> {
    let Told { arguments, log, data } = told;
    let unserved = |error: std::io::Error| unserved(arguments, &error);
    let listener = TcpListener::bind(arguments.listen).await.map_err(unserved)?;
    let settings = ServerSettings { hosts: arguments.hosts.clone(), ..ServerSettings::default() };
    let context = backend.context();
    let server = Server::new(listener, settings, keys, backend, recorder.handle()).map_err(unserved)?;
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
        }))?;
    } else {
        log.note(format_args!("{base_url} serves the model `{}`", arguments.name));
        if is_new {
            log.note(format_args!("key, which is told once and kept in {}: {first}", key_file.display()));
        } else {
            log.note(format_args!("keys are in {}", key_file.display()));
        }
        log.note(format_args!("what is said is recorded in {}", data.join("ledger.sqlite").display()));
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
