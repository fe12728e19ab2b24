//! The process of a side: serves until its input ends, and reports its costs.
//!
//! It prints a line of JSON when it listens. It answers the input line `look` with [`Look`]. Any other line, or the end of the
//! input, ends it, and [`Ended`] is its last line. An answer costs some microseconds of processor time.

use std::fs;
use std::io::{self, BufRead, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clawrl_gateway::{
    Keys, LedgerError, Page, Recorder, RecorderHandle, RecorderSettings, Server, ServerSettings, UserId,
};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::Side;
use super::ours::StubBackend;
use super::stub::Stub;
use super::{bare, stub};
use crate::Failure;
use crate::cpu::cpu_time;

/// Requests a [`Look`].
pub(super) const LOOK: &str = "look";
/// Ends the process.
pub(super) const END: &str = "end";
/// Sessions per page: the ledger's maximum.
const PAGE: u32 = 500;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[arg(value_enum)]
    pub(super) side: Side,
    #[arg(long)]
    pub(super) tokens: u32,
    #[arg(long)]
    pub(super) token_micros: u64,
    #[arg(long)]
    pub(super) users: u32,
    /// An empty folder.
    #[arg(long)]
    pub(super) ledger: PathBuf,
}

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Listening {
    pub(super) address: SocketAddr,
}

/// Resources used so far.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Look {
    /// User and system time of all threads.
    pub(super) cpu_ns: u64,
    /// Commits of the ledger, if there is one.
    pub(super) commits: Option<u64>,
}

/// The last line.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Ended {
    pub(super) record: Option<Record>,
}

/// Contents of the ledger at the end.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) turns: u64,
    pub(super) sessions: u64,
    /// Size of its files after closing.
    pub(super) bytes: u64,
}

/// A listening server.
struct Served {
    address: SocketAddr,
    end: oneshot::Sender<()>,
    running: JoinHandle<()>,
    recorder: Option<Recorder>,
}

/// Key of a user by number.
pub(super) fn key(user: u32) -> String {
    format!("key-{user}-{}", stub::MODEL)
}

fn user(number: u32) -> UserId {
    UserId(format!("user-{number}"))
}

/// Serves until the input ends.
pub(crate) fn serve(arguments: &Arguments) -> Result<(), Failure> {
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    let served = runtime.block_on(start(arguments))?;
    say(&Listening { address: served.address })?;
    for line in io::stdin().lock().lines() {
        if line? != LOOK {
            break;
        }
        let cpu_ns = u64::try_from(cpu_time().as_nanos()).unwrap_or(u64::MAX);
        let commits = served.recorder.as_ref().map(|recorder| recorder.handle().commits());
        say(&Look { cpu_ns, commits })?;
    }
    let Served { end, running, recorder, .. } = served;
    let recorded = runtime.block_on(async {
        // The server may have ended; its task reports why.
        let _ = end.send(());
        running.await?;
        let Some(recorder) = &recorder else { return Ok(None) };
        let recorded = recorded(&recorder.handle(), arguments.users).await?;
        Ok::<_, Failure>(Some(recorded))
    })?;
    drop(runtime);
    // Closes the ledger; then it is one file.
    drop(recorder);
    let record = match recorded {
        Some((turns, sessions)) => Some(Record { turns, sessions, bytes: bytes_in(&arguments.ledger)? }),
        None => None,
    };
    say(&Ended { record })?;
    Ok(())
}

fn say(what: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    let mut output = io::stdout().lock();
    output.write_all(&line)?;
    output.flush()
}

async fn start(arguments: &Arguments) -> Result<Served, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let stub = Stub::new(arguments.tokens, Duration::from_micros(arguments.token_micros));
    let (end, ended) = oneshot::channel::<()>();
    let (running, recorder) = match arguments.side {
        Side::Stub => {
            let running = tokio::spawn(async move {
                tokio::select! {
                    _ = ended => {}
                    // Accepting failed; the load fails too.
                    _ = bare::serve(listener, stub) => {}
                }
            });
            (running, None)
        }
        Side::Gateway => {
            let recorder = Recorder::open(RecorderSettings::new(arguments.ledger.join("ledger.sqlite")))?;
            let mut keys = Keys::default();
            for number in 0..arguments.users {
                keys.add(&key(number), user(number))?;
            }
            let backend = Arc::new(StubBackend::new(stub));
            let settings = ServerSettings::default();
            let server = Server::new(listener, settings, keys, backend, recorder.handle())?;
            let running = tokio::spawn(async move {
                let end = async {
                    // The sender lives as long as this process serves.
                    let _ = ended.await;
                };
                server.run(end).await;
            });
            (running, Some(recorder))
        }
    };
    Ok(Served { address, end, running, recorder })
}

/// Turns and sessions of all users.
async fn recorded(handle: &RecorderHandle, users: u32) -> Result<(u64, u64), LedgerError> {
    let (mut turns, mut sessions) = (0, 0);
    for number in 0..users {
        let user = user(number);
        let mut before = None;
        loop {
            let page = handle.sessions(Some(&user), Page { before, limit: PAGE }).await?;
            turns += page.iter().map(|session| session.turn_count).sum::<u64>();
            sessions += page.len() as u64;
            match page.last() {
                Some(oldest) => before = Some(oldest.session),
                None => break,
            }
        }
    }
    Ok((turns, sessions))
}

fn bytes_in(folder: &Path) -> io::Result<u64> {
    fs::read_dir(folder)?.map(|entry| Ok(entry?.metadata()?.len())).sum()
}
