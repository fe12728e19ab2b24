//! A sandbox on a node.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use clawrl_core::{Boundary, BoxFuture, Fault, Retry};
use clawrl_sandbox::{
    CarryError, CarryRequest, CopyOptions, CopyReport, Exclusions, ExecError, ExecOutput, ExecSpec, Filling,
    Keeper, Live, ProcessFacts, Program, ProgramSpec, PutFile, SafeDir, SafeReadError, SafeWriteError,
    Sandbox, SandboxSpec, TreeBound, TreeBounds, TreeError, copy_part,
};
use serde::de::DeserializeOwned;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::body::PieceReader;
use crate::client::Node;
use crate::program;
use crate::tree::{Arrived, Lost, Parcel};
use crate::wire::{Exec, ExecTrouble, OfSandbox, ReadTrouble, Request, TreeTrouble};

/// What an image may bring into a workspace, beside what the agent may write there.
const MOST_OF_AN_IMAGE: TreeBounds = TreeBounds { entries: 1_000_000, depth: 256, bytes: 4 << 30 };

/// Dropping it has it ended there; then the container may go.
#[derive(Debug)]
pub(crate) struct NodeSandbox {
    node: Node,
    number: u64,
    identity: (u32, u32),
    /// On what is fetched of the workspace.
    bounds: TreeBounds,
    runtime: Handle,
    /// Dropped when it has ended.
    live: Arc<Mutex<Option<Live>>>,
    /// Sees the end of the connection.
    watch: AbortHandle,
    /// Until nobody can look at its files.
    keeper: Option<Keeper>,
}

impl NodeSandbox {
    pub(crate) fn new(
        node: Node,
        number: u64,
        identity: (u32, u32),
        bounds: TreeBounds,
        keeper: Keeper,
        live: Live,
    ) -> Self {
        let (live, keeper) = (Arc::new(Mutex::new(Some(live))), Some(keeper));
        let (mut gone, counted) = (node.gone(), Arc::clone(&live));
        let watch = tokio::spawn(async move {
            let _ = gone.changed().await;
            // With the connection everything there ends.
            drop(taken(&counted));
        });
        Self {
            node,
            number,
            identity,
            bounds,
            runtime: Handle::current(),
            live,
            watch: watch.abort_handle(),
            keeper,
        }
    }

    /// As large as what a sandbox of this kind can leave.
    pub(crate) fn bounds(spec: &SandboxSpec) -> TreeBounds {
        let own = u64::from(spec.limits.disk_mib) << 20;
        TreeBounds { bytes: MOST_OF_AN_IMAGE.bytes + own, ..MOST_OF_AN_IMAGE }
    }

    fn about(&self, question: OfSandbox) -> Request {
        Request::OfSandbox(self.number, question)
    }

    async fn ask<T: DeserializeOwned>(&self, question: OfSandbox) -> Result<T, Fault> {
        self.node.ask(&self.about(question)).await
    }

    fn ended(&self) -> Option<Live> {
        taken(&self.live)
    }

    /// A tree that follows an answer.
    async fn fetch(&self, question: OfSandbox) -> Result<Result<Arrived, TreeError>, Fault> {
        let (answer, arriving) =
            self.node.listen::<Result<Result<(), TreeTrouble>, Fault>>(&self.about(question)).await?;
        if let Err(trouble) = answer? {
            return Ok(Err(trouble.into()));
        }
        let mut reader = PieceReader::of(arriving);
        match blocking(move || Arrived::read(&mut reader)).await? {
            Ok(arrived) => Ok(Ok(arrived)),
            Err(Lost::Tree(error)) => Ok(Err(error)),
            Err(Lost::Place(error)) => Err(Lost::place(&error)),
            Err(Lost::Stream(error)) => Err(self.node.lost(&format_args!("fetching a tree: {error}"))),
        }
    }

    /// Sends a tree after a question. What cannot be read here is left out there.
    async fn send(
        &self,
        parcel: Parcel,
        question: OfSandbox,
    ) -> Result<Result<CopyReport, TreeError>, Fault> {
        let question = self.about(question);
        let answer: Result<Result<CopyReport, TreeTrouble>, Fault> =
            self.node.tell(&question, parcel.stream()).await?;
        Ok(answer?.map_err(TreeError::from))
    }
}

fn taken(live: &Mutex<Option<Live>>) -> Option<Live> {
    live.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// A workspace that did not come: the agent's doing, where it is one that nobody could bring.
fn unfetched(error: TreeError, bounds: TreeBounds) -> Result<Result<Arc<SafeDir>, SafeReadError>, Fault> {
    match error {
        TreeError::Read(error) if !error.is_infrastructure() => Ok(Err(error)),
        TreeError::Bound { path, bound, limit } => Ok(Err(SafeReadError::Bound { path, bound, limit })),
        // The file system here, and so the largest file that it has, is none of the agent's.
        TreeError::Write(SafeWriteError::TooLarge { path }) | TreeError::NoRoom { path } => {
            Ok(Err(SafeReadError::Bound { path, bound: TreeBound::Bytes, limit: bounds.bytes }))
        }
        // Names and links that another file system has and this one has not are the agent's choice.
        TreeError::Write(SafeWriteError::Io { path, source })
            if matches!(source.kind(), io::ErrorKind::InvalidFilename | io::ErrorKind::AlreadyExists)
                || source.raw_os_error() == Some(rustix::io::Errno::ILSEQ.raw_os_error()) =>
        {
            Ok(Err(SafeReadError::Unreadable { path, source }))
        }
        error => {
            let message = format!("the workspace: {error}");
            let fault = Fault::transient(Boundary::Env, "workspace-unreadable", message);
            Err(if error.is_lasting() { Fault { retry: Retry::Never, ..fault } } else { fault })
        }
    }
}

pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Fault> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| Fault::permanent(Boundary::Harness, "panic", error.to_string()))
}

impl Drop for NodeSandbox {
    fn drop(&mut self) {
        let (node, leave) = (self.node.clone(), Request::Leave(self.number));
        self.watch.abort();
        let held = (self.keeper.take(), self.ended());
        self.runtime.spawn(async move {
            // Whatever comes of it: the container goes next.
            let _: Result<(), Fault> = node.ask(&leave).await;
            drop(held);
        });
    }
}

impl Sandbox for NodeSandbox {
    fn put(&self, files: Vec<PutFile>) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(async move {
            if files.is_empty() { Ok(()) } else { self.ask::<Result<_, _>>(OfSandbox::Put { files }).await? }
        })
    }

    /// A copy, fetched each time.
    fn workspace(&self) -> BoxFuture<'_, Result<Result<Arc<SafeDir>, SafeReadError>, Fault>> {
        Box::pin(async move {
            let bounds = self.bounds;
            match self.fetch(OfSandbox::Workspace { bounds }).await? {
                Ok(arrived) => {
                    let tree = blocking(move || arrived.into_tree()).await?;
                    Ok(Ok(Arc::new(tree.map_err(|error| Lost::place(&error))?)))
                }
                Err(error) => unfetched(error, bounds),
            }
        })
    }

    fn has_workspace(&self) -> BoxFuture<'_, Result<Result<(), SafeReadError>, Fault>> {
        Box::pin(async move {
            let answer: Result<Result<(), ReadTrouble>, Fault> = self.ask(OfSandbox::HasWorkspace).await?;
            Ok(answer?.map_err(SafeReadError::from))
        })
    }

    fn open(&self, spec: ProgramSpec) -> BoxFuture<'_, Result<Program, ExecError>> {
        Box::pin(async move { program::open(self.node.clone(), self.number, spec).await })
    }

    fn exec(&self, spec: ExecSpec) -> BoxFuture<'_, Result<ExecOutput, ExecError>> {
        Box::pin(async move {
            let ExecSpec { command, input, output_cap, deadline, user } = spec;
            let left = deadline.saturating_duration_since(std::time::Instant::now());
            let exec = Exec { command, input, output_cap, left, user };
            let output: Result<ExecOutput, ExecTrouble> = self.ask(OfSandbox::Exec(exec)).await?;
            Ok(output?)
        })
    }

    fn processes(&self) -> BoxFuture<'_, Vec<ProcessFacts>> {
        Box::pin(async move { self.ask(OfSandbox::Processes).await.unwrap_or_default() })
    }

    fn kill_processes<'a>(&'a self, victims: &'a [ProcessFacts]) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let question = OfSandbox::KillProcesses { victims: victims.to_vec() };
            self.ask(question).await.unwrap_or_default()
        })
    }

    fn identity(&self) -> (u32, u32) {
        self.identity
    }

    fn kill(&self) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(async move {
            let killed = match self.ask::<Result<(), Fault>>(OfSandbox::Kill).await {
                Ok(killed) => killed,
                // With its connection the node ends, and all that it started; the engine removes the container.
                Err(_lost) => Ok(()),
            };
            drop(self.ended());
            killed
        })
    }

    fn halt(&self) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(async move { self.ask::<Result<_, _>>(OfSandbox::Halt).await? })
    }

    fn lost(&self) -> BoxFuture<'_, Option<Fault>> {
        Box::pin(async move { self.ask(OfSandbox::Lost).await.unwrap_or_else(Some) })
    }

    fn verifies_in_place(&self) -> bool {
        true
    }

    fn lay(&self, folder: String, files: Vec<PutFile>) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(async move { self.ask::<Result<_, _>>(OfSandbox::Lay { folder, files }).await? })
    }

    fn read(&self, path: String, cap: u64) -> BoxFuture<'_, Result<Option<Vec<u8>>, Fault>> {
        Box::pin(async move {
            let answer: Result<Option<PutFile>, Fault> = self.ask(OfSandbox::Read { path, cap }).await?;
            Ok(answer?.map(|file| file.content.to_vec()))
        })
    }

    fn fill(&self, filling: Filling) -> BoxFuture<'_, Result<Result<CopyReport, TreeError>, Fault>> {
        Box::pin(async move {
            let Filling { tree, folder, exclude, bounds } = filling;
            let question = OfSandbox::Fill { folder, bounds };
            let (from, report) = (PathBuf::from("."), CopyReport::default());
            self.send(Parcel { tree, from, exclude, bounds, report, _turn: None }, question).await
        })
    }

    fn carry_out(&self, request: CarryRequest) -> BoxFuture<'_, Result<CopyReport, CarryError>> {
        Box::pin(async move {
            let CarryRequest { inside, outside, name, exclude, bounds } = request;
            let question = OfSandbox::CarryOut { inside, exclude, bounds };
            let mut arrived = self.fetch(question).await??;
            let there = std::mem::take(&mut arrived.report);
            let options = CopyOptions { bounds, ..CopyOptions::default() };
            let copied = blocking(move || {
                let (folder, from) = arrived.into_folder()?;
                Ok::<_, io::Error>(copy_part(&folder, from, &outside, name, &Exclusions::default(), options))
            });
            let report = copied.await?.map_err(|error| Lost::place(&error))??;
            Ok(CopyReport { skipped: there.skipped.and(report.skipped), ..report })
        })
    }

    fn carry_in(&self, request: CarryRequest) -> BoxFuture<'_, Result<CopyReport, CarryError>> {
        Box::pin(async move {
            let CarryRequest { inside, outside, name, exclude, bounds } = request;
            let question = OfSandbox::CarryIn { inside, bounds };
            let (from, report) = (PathBuf::from(name), CopyReport::default());
            Ok(self
                .send(Parcel { tree: outside, from, exclude, bounds, report, _turn: None }, question)
                .await??)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_could_bring_is_no_fault() {
        let check = |error: TreeError, expected: Result<&str, Retry>| {
            let found = unfetched(error, MOST_OF_AN_IMAGE);
            let found = found.map(|refused| refused.unwrap_err().to_string()).map_err(|fault| fault.retry);
            assert_eq!(found, expected.map(str::to_owned));
        };
        let entries = TreeError::Bound { bound: TreeBound::Entries, limit: 1_000_000, path: "a".into() };
        check(entries, Ok("the tree has more than 1000000 entries (met at \"a\")"));
        let large = SafeWriteError::TooLarge { path: "a".into() };
        check(large.into(), Ok("the tree has more than 4294967296 bytes (met at \"a\")"));
        check(SafeReadError::Missing { path: "a".into() }.into(), Ok("\"a\" does not exist"));
        let written =
            |errno: rustix::io::Errno| SafeWriteError::Io { path: "a".into(), source: errno.into() };
        check(written(rustix::io::Errno::IO).into(), Err(Retry::Sound));
        check(written(rustix::io::Errno::ROFS).into(), Err(Retry::Never));
        check(SafeWriteError::Full { path: "a".into() }.into(), Err(Retry::Sound));
    }
}
