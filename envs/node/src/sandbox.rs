//! A sandbox on a node.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use clawrl_core::{Boundary, BoxFuture, Fault, Retry};
use clawrl_sandbox::{
    CopyOptions, CopyReport, Exclusions, ExecError, ExecOutput, ExecSpec, FillRequest, KeepAlive, Live,
    ProcessFacts, Program, ProgramSpec, PutFile, SafeDir, SafeReadError, SafeWriteError, Sandbox,
    SandboxSpec, TransferError, TransferRequest, TreeBound, TreeBounds, TreeError, copy_part,
};
use serde::de::DeserializeOwned;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::body::PieceReader;
use crate::client::Node;
use crate::program;
use crate::tree::{ReceiveError, ReceivedTree, TreeStream};
use crate::wire::{Exec, Request, SandboxRequest, WireExecError, WireReadError, WireTreeError};

/// What an image may add to a workspace, besides what the agent may write.
const IMAGE_BOUNDS: TreeBounds = TreeBounds { entries: 1_000_000, depth: 256, bytes: 4 << 30 };

/// Dropping it ends the sandbox on the node; then the container may be removed.
#[derive(Debug)]
pub(crate) struct NodeSandbox {
    node: Node,
    number: u64,
    identity: (u32, u32),
    /// Limits on transfers of the workspace.
    bounds: TreeBounds,
    runtime: Handle,
    /// Dropped when the sandbox has ended.
    live: Arc<Mutex<Option<Live>>>,
    /// Notices the end of the connection.
    watch: AbortHandle,
    /// Kept until its files can no longer be read.
    keep_alive: Option<KeepAlive>,
}

impl NodeSandbox {
    pub(crate) fn new(
        node: Node,
        number: u64,
        identity: (u32, u32),
        bounds: TreeBounds,
        keep_alive: KeepAlive,
        live: Live,
    ) -> Self {
        let (live, keep_alive) = (Arc::new(Mutex::new(Some(live))), Some(keep_alive));
        let (mut gone, counted) = (node.gone(), Arc::clone(&live));
        let watch = tokio::spawn(async move {
            let _ = gone.changed().await;
            // Everything on the node ends with the connection.
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
            keep_alive,
        }
    }

    /// As large as anything that a sandbox of this specification can leave.
    pub(crate) fn bounds(spec: &SandboxSpec) -> TreeBounds {
        let own = u64::from(spec.limits.disk_mib) << 20;
        TreeBounds { bytes: IMAGE_BOUNDS.bytes + own, ..IMAGE_BOUNDS }
    }

    fn about(&self, question: SandboxRequest) -> Request {
        Request::Sandbox(self.number, question)
    }

    async fn ask<T: DeserializeOwned>(&self, question: SandboxRequest) -> Result<T, Fault> {
        self.node.ask(&self.about(question)).await
    }

    fn ended(&self) -> Option<Live> {
        taken(&self.live)
    }

    /// A tree that follows a response.
    async fn fetch(&self, question: SandboxRequest) -> Result<Result<ReceivedTree, TreeError>, Fault> {
        let (answer, arriving) =
            self.node.listen::<Result<Result<(), WireTreeError>, Fault>>(&self.about(question)).await?;
        if let Err(trouble) = answer? {
            return Ok(Err(trouble.into()));
        }
        let mut reader = PieceReader::of(arriving);
        match blocking(move || ReceivedTree::read(&mut reader)).await? {
            Ok(arrived) => Ok(Ok(arrived)),
            Err(ReceiveError::Tree(error)) => Ok(Err(error)),
            Err(ReceiveError::Storage(error)) => Err(ReceiveError::place(&error)),
            Err(ReceiveError::Stream(error)) => {
                Err(self.node.lost(&format_args!("fetching a tree: {error}")))
            }
        }
    }

    /// Sends a tree after a request. Entries that cannot be read here are left out.
    async fn send(
        &self,
        tree_stream: TreeStream,
        question: SandboxRequest,
    ) -> Result<Result<CopyReport, TreeError>, Fault> {
        let question = self.about(question);
        let answer: Result<Result<CopyReport, WireTreeError>, Fault> =
            self.node.tell(&question, tree_stream.stream()).await?;
        Ok(answer?.map_err(TreeError::from))
    }
}

fn taken(live: &Mutex<Option<Live>>) -> Option<Live> {
    live.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// A workspace that was not transferred: the agent's fault if it could not be transferred in any case.
fn transfer_failure(
    error: TreeError,
    bounds: TreeBounds,
) -> Result<Result<Arc<SafeDir>, SafeReadError>, Fault> {
    match error {
        TreeError::Read(error) if !error.is_infrastructure() => Ok(Err(error)),
        TreeError::Bound { path, bound, limit } => Ok(Err(SafeReadError::Bound { path, bound, limit })),
        // The local file system, and so its largest file, is not the agent's choice.
        TreeError::Write(SafeWriteError::TooLarge { path }) | TreeError::NoRoom { path } => {
            Ok(Err(SafeReadError::Bound { path, bound: TreeBound::Bytes, limit: bounds.bytes }))
        }
        // Names and links that only the other file system supports are the agent's choice.
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
        let held = (self.keep_alive.take(), self.ended());
        self.runtime.spawn(async move {
            // The result does not matter: the container is removed next.
            let _: Result<(), Fault> = node.ask(&leave).await;
            drop(held);
        });
    }
}

impl Sandbox for NodeSandbox {
    fn put(&self, files: Vec<PutFile>) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(async move {
            if files.is_empty() {
                Ok(())
            } else {
                self.ask::<Result<_, _>>(SandboxRequest::Put { files }).await?
            }
        })
    }

    /// A copy, transferred each time.
    fn workspace(&self) -> BoxFuture<'_, Result<Result<Arc<SafeDir>, SafeReadError>, Fault>> {
        Box::pin(async move {
            let bounds = self.bounds;
            match self.fetch(SandboxRequest::Workspace { bounds }).await? {
                Ok(arrived) => {
                    let tree = blocking(move || arrived.into_tree()).await?;
                    Ok(Ok(Arc::new(tree.map_err(|error| ReceiveError::place(&error))?)))
                }
                Err(error) => transfer_failure(error, bounds),
            }
        })
    }

    fn has_workspace(&self) -> BoxFuture<'_, Result<Result<(), SafeReadError>, Fault>> {
        Box::pin(async move {
            let answer: Result<Result<(), WireReadError>, Fault> =
                self.ask(SandboxRequest::HasWorkspace).await?;
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
            let output: Result<ExecOutput, WireExecError> = self.ask(SandboxRequest::Exec(exec)).await?;
            Ok(output?)
        })
    }

    fn processes(&self) -> BoxFuture<'_, Vec<ProcessFacts>> {
        Box::pin(async move { self.ask(SandboxRequest::Processes).await.unwrap_or_default() })
    }

    fn kill_processes<'a>(&'a self, victims: &'a [ProcessFacts]) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let question = SandboxRequest::KillProcesses { victims: victims.to_vec() };
            self.ask(question).await.unwrap_or_default()
        })
    }

    fn identity(&self) -> (u32, u32) {
        self.identity
    }

    fn kill(&self) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(async move {
            let killed = match self.ask::<Result<(), Fault>>(SandboxRequest::Kill).await {
                Ok(killed) => killed,
                // The node ends with its connection, and so does all that it started; the engine removes the container.
                Err(_lost) => Ok(()),
            };
            drop(self.ended());
            killed
        })
    }

    fn halt(&self) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(async move { self.ask::<Result<_, _>>(SandboxRequest::Halt).await? })
    }

    fn lost(&self) -> BoxFuture<'_, Option<Fault>> {
        Box::pin(async move { self.ask(SandboxRequest::Lost).await.unwrap_or_else(Some) })
    }

    fn verifies_in_place(&self) -> bool {
        true
    }

    fn replace_folder(&self, folder: String, files: Vec<PutFile>) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(async move { self.ask::<Result<_, _>>(SandboxRequest::Lay { folder, files }).await? })
    }

    fn read(&self, path: String, cap: u64) -> BoxFuture<'_, Result<Option<Vec<u8>>, Fault>> {
        Box::pin(async move {
            let answer: Result<Option<PutFile>, Fault> = self.ask(SandboxRequest::Read { path, cap }).await?;
            Ok(answer?.map(|file| file.content.to_vec()))
        })
    }

    fn fill(&self, filling: FillRequest) -> BoxFuture<'_, Result<Result<CopyReport, TreeError>, Fault>> {
        Box::pin(async move {
            let FillRequest { tree, folder, exclude, bounds } = filling;
            let question = SandboxRequest::Fill { folder, bounds };
            let (from, report) = (PathBuf::from("."), CopyReport::default());
            self.send(TreeStream { tree, from, exclude, bounds, report, _turn: None }, question).await
        })
    }

    fn copy_out(&self, request: TransferRequest) -> BoxFuture<'_, Result<CopyReport, TransferError>> {
        Box::pin(async move {
            let TransferRequest { inside, outside, name, exclude, bounds } = request;
            let question = SandboxRequest::CarryOut { inside, exclude, bounds };
            let mut arrived = self.fetch(question).await??;
            let there = std::mem::take(&mut arrived.report);
            let options = CopyOptions { bounds, ..CopyOptions::default() };
            let copied = blocking(move || {
                let (folder, from) = arrived.into_folder()?;
                Ok::<_, io::Error>(copy_part(&folder, from, &outside, name, &Exclusions::default(), options))
            });
            let report = copied.await?.map_err(|error| ReceiveError::place(&error))??;
            Ok(CopyReport { skipped: there.skipped.and(report.skipped), ..report })
        })
    }

    fn copy_in(&self, request: TransferRequest) -> BoxFuture<'_, Result<CopyReport, TransferError>> {
        Box::pin(async move {
            let TransferRequest { inside, outside, name, exclude, bounds } = request;
            let question = SandboxRequest::CarryIn { inside, bounds };
            let (from, report) = (PathBuf::from(name), CopyReport::default());
            Ok(self
                .send(TreeStream { tree: outside, from, exclude, bounds, report, _turn: None }, question)
                .await??)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn untransferable_workspace_is_not_a_fault() {
        let check = |error: TreeError, expected: Result<&str, Retry>| {
            let found = transfer_failure(error, IMAGE_BOUNDS);
            let found = found.map(|refused| refused.unwrap_err().to_string()).map_err(|fault| fault.retry);
            assert_eq!(found, expected.map(str::to_owned));
        };
        let entries = TreeError::Bound { bound: TreeBound::Entries, limit: 1_000_000, path: "a".into() };
        check(entries, Ok("the tree has more than 1000000 entries (exceeded at \"a\")"));
        let large = SafeWriteError::TooLarge { path: "a".into() };
        check(large.into(), Ok("the tree has more than 4294967296 bytes (exceeded at \"a\")"));
        check(SafeReadError::Missing { path: "a".into() }.into(), Ok("\"a\" does not exist"));
        let written =
            |errno: rustix::io::Errno| SafeWriteError::Io { path: "a".into(), source: errno.into() };
        check(written(rustix::io::Errno::IO).into(), Err(Retry::Sound));
        check(written(rustix::io::Errno::ROFS).into(), Err(Retry::Never));
        check(SafeWriteError::Full { path: "a".into() }.into(), Err(Retry::Sound));
    }
}
