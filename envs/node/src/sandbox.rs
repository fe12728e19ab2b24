//! A sandbox on a node.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use clawrl_core::{Boundary, BoxFuture, Fault};
use clawrl_sandbox::{
    CarryError, CarryRequest, CopyOptions, CopyReport, Exclusions, ExecError, ExecOutput, ExecSpec, Filling,
    Keeper, Live, ProcessFacts, Program, ProgramSpec, PutFile, SafeDir, SafeReadError, Sandbox, SandboxSpec,
    TreeBound, TreeBounds, TreeError, copy_part,
};
use serde::de::DeserializeOwned;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::body::{PieceReader, PieceStream, pieces};
use crate::client::Node;
use crate::program;
use crate::tree::Aside;
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
    async fn fetch<E: DeserializeOwned>(
        &self,
        question: OfSandbox,
    ) -> Result<Result<(Aside, CopyReport), E>, Fault> {
        let (answer, arriving) =
            self.node.listen::<Result<Result<CopyReport, E>, Fault>>(&self.about(question)).await?;
        let report = match answer? {
            Ok(report) => report,
            Err(error) => return Ok(Err(error)),
        };
        let reader = PieceReader::of(arriving);
        match blocking(move || Aside::unpack(reader, rustix::process::geteuid().is_root())).await? {
            Ok(aside) => Ok(Ok((aside, report))),
            Err(error) => Err(self.node.lost(&format_args!("fetching a tree: {error}"))),
        }
    }

    /// Copies a tree aside and sends it after a question.
    async fn send(
        &self,
        (source, from): (Arc<SafeDir>, String),
        exclude: Exclusions,
        bounds: TreeBounds,
        question: OfSandbox,
    ) -> Result<Result<CopyReport, TreeError>, Fault> {
        let copied = blocking(move || {
            Aside::copy(&source, Path::new(&from), &exclude, CopyOptions { bounds, ..CopyOptions::default() })
        })
        .await?;
        let (aside, report) = match copied.map_err(|error| stage(&error))? {
            Ok(copied) => copied,
            Err(error) => return Ok(Err(error)),
        };
        let question = self.about(question);
        let answer: Result<Result<CopyReport, TreeTrouble>, Fault> =
            self.node.tell(&question, packed(aside)).await?;
        Ok(answer?.map_err(TreeError::from).map(|there| CopyReport {
            skipped: report.skipped.into_iter().chain(there.skipped).collect(),
            ..there
        }))
    }
}

fn taken(live: &Mutex<Option<Live>>) -> Option<Live> {
    live.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// The stream of a tree that was copied aside.
pub(crate) fn packed(aside: Aside) -> PieceStream {
    let (writer, stream) = pieces();
    tokio::task::spawn_blocking(move || aside.pack(writer));
    stream
}

pub(crate) fn stage(error: &io::Error) -> Fault {
    Fault::transient(Boundary::Env, "stage", format!("a folder for a tree on its way: {error}"))
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
            match self.fetch::<TreeTrouble>(OfSandbox::Workspace { bounds }).await? {
                Ok((aside, _)) => {
                    let tree = blocking(move || aside.into_tree()).await?;
                    Ok(Ok(Arc::new(tree.map_err(|error| stage(&error))?)))
                }
                Err(trouble) => match TreeError::from(trouble) {
                    TreeError::Read(error) if error.is_infrastructure() => {
                        let message = format!("the workspace: {error}");
                        Err(Fault::transient(Boundary::Env, "workspace-unreadable", message))
                    }
                    TreeError::Read(error) => Ok(Err(error)),
                    TreeError::Bound { limit, path, bound } => Ok(Err(SafeReadError::TooLarge {
                        path,
                        size: limit.saturating_add(1),
                        cap: if bound == TreeBound::Bytes { limit } else { bounds.bytes },
                    })),
                    other => Err(Fault::transient(Boundary::Env, "workspace-unreadable", other.to_string())),
                },
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
            self.send((tree, ".".to_owned()), exclude, bounds, question).await
        })
    }

    fn carry_out(&self, request: CarryRequest) -> BoxFuture<'_, Result<CopyReport, CarryError>> {
        Box::pin(async move {
            let CarryRequest { inside, outside, name, exclude, bounds } = request;
            let question = OfSandbox::CarryOut { inside, exclude, bounds };
            let fetched = self.fetch::<TreeTrouble>(question).await?;
            let (aside, report) = fetched.map_err(TreeError::from)?;
            let options = CopyOptions { bounds, ..CopyOptions::default() };
            let copied = blocking(move || {
                let (folder, from) = aside.into_folder()?;
                Ok::<_, io::Error>(copy_part(&folder, from, &outside, name, &Exclusions::default(), options))
            });
            copied.await?.map_err(|error| stage(&error))??;
            Ok(report)
        })
    }

    fn carry_in(&self, request: CarryRequest) -> BoxFuture<'_, Result<CopyReport, CarryError>> {
        Box::pin(async move {
            let CarryRequest { inside, outside, name, exclude, bounds } = request;
            let question = OfSandbox::CarryIn { inside, bounds };
            Ok(self.send((outside, name), exclude, bounds, question).await??)
        })
    }
}
