//! The spawner's side: one thread, one loop over the socket and child exits.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use portable_pty::{PtySize, native_pty_system};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Signal, WaitOptions, WaitStatus, wait};

use super::container_registry::ContainerRegistry;
use super::descriptor;
use super::direct::{self, Streams};
use super::protocol::{CgroupRequest, Confinement, ExitReport, LaunchKind, LaunchRequest, Request, Response};
use super::sealed::SealedProgram;
use super::signal_fd::{borrow_master, child_exits};
use crate::bwrap::AT_ONCE;
use crate::cgroup;
use crate::procs::{self, ProcessStat};

/// How long a spawner waits at its end for killed sandboxes before it kills harder, and for their cgroups.
const END_GRACE: Duration = Duration::from_secs(5);

/// Serves the harness at the other end of `socket` until that end is closed, then kills what is left.
///
/// # Errors
/// Only when the loop itself cannot continue; a failed spawn is reported to the harness.
pub fn serve(socket: OwnedFd) -> io::Result<()> {
    let exits = child_exits()?;
    let mut server = Server {
        socket,
        children: HashMap::new(),
        containers: ContainerRegistry::default(),
        unremoved: Vec::new(),
        own_binary: own_binary()?,
        sealed: None,
    };
    let mut buffer = Vec::new();
    loop {
        let (readable, exited) = wait_for(server.socket.as_fd(), exits.as_fd(), None)?;
        if exited {
            drain(&exits);
            server.reap()?;
        }
        if readable {
            match descriptor::receive::<Request>(server.socket.as_fd(), &mut buffer) {
                Ok(Some((Request::Spawn { id, launch, cgroup }, descriptors))) => {
                    server.spawn(id, *launch, cgroup, descriptors)?;
                }
                // A reset connection means that the harness died with unread messages.
                Ok(None) => break,
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break,
                Err(error) => return Err(error),
            }
        }
    }
    server.end(&exits)
}

struct Server {
    socket: OwnedFd,
    /// By process id; an entry is removed when the process was reaped.
    children: HashMap<u32, Child>,
    /// Containers whose terminals were started here: they end with the harness, even without a child in them.
    containers: ContainerRegistry,
    /// Folders that could not be removed, retried at every exit.
    unremoved: Vec<PathBuf>,
    own_binary: PathBuf,
    /// Created when a container is first joined.
    sealed: Option<SealedProgram>,
}

struct Child {
    id: u64,
    cgroup: Option<CgroupRequest>,
}

impl Server {
    fn spawn(
        &mut self,
        id: u64,
        mut launch: LaunchRequest,
        cgroup: Option<CgroupRequest>,
        descriptors: Vec<OwnedFd>,
    ) -> io::Result<()> {
        launch.parent = std::process::id();
        let started = create_cgroup(cgroup.as_ref()).and_then(|()| match launch.kind {
            LaunchKind::Pty { cols, rows } => self.spawn_on_pty(&launch, cols, rows),
            LaunchKind::Descriptors | LaunchKind::OwnTerminal | LaunchKind::Sockets => {
                self.spawn_on_descriptors(&launch, descriptors).map(|pid| (pid, None))
            }
        });
        match started {
            Ok((pid, master)) => {
                if let (LaunchKind::OwnTerminal, Some(container)) = (launch.kind, &launch.join) {
                    self.containers.add(container);
                }
                self.children.insert(pid, Child { id, cgroup });
                let master = master.as_ref().and_then(|master| borrow_master(master.as_ref()));
                self.answer(&Response::Spawned { id, pid }, master.as_slice())
            }
            Err(error) => {
                for folder in remove_cgroup(cgroup.as_ref()) {
                    self.unremoved.push(folder);
                }
                self.answer(&Response::Failed { id, message: error.to_string() }, &[])
            }
        }
    }

    fn spawn_on_pty(
        &self,
        launch: &LaunchRequest,
        cols: u16,
        rows: u16,
    ) -> io::Result<(u32, Option<Box<dyn portable_pty::MasterPty + Send>>)> {
        let size = PtySize { cols, rows, ..PtySize::default() };
        let pair = native_pty_system().openpty(size).map_err(|error| {
            io::Error::other(format!(
                "cannot open a terminal: {error:#}; /proc/sys/kernel/pty/max limits their number"
            ))
        })?;
        // Opened by name: portable-pty passes its own end only to programs that it starts itself.
        let name = pair.master.tty_name().ok_or_else(|| io::Error::other("the terminal has no name"))?;
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let terminal = rustix::fs::open(&name, flags, Mode::empty())
            .map_err(|error| io::Error::other(format!("cannot open {}: {error}", name.display())))?;
        let pid = direct::start(launch, Streams::Terminal(terminal), None)?;
        Ok((pid, Some(pair.master)))
    }

    fn spawn_on_descriptors(&mut self, launch: &LaunchRequest, descriptors: Vec<OwnedFd>) -> io::Result<u32> {
        let mut descriptors = descriptors.into_iter();
        let streams: [OwnedFd; 3] = descriptors
            .by_ref()
            .take(3)
            .collect::<Vec<_>>()
            .try_into()
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "expected three descriptors"))?;
        let error_pipe = descriptors.next();
        let program = match &launch.join {
            None => return direct::start(launch, Streams::Separate(streams), None),
            Some(target) if target.container.is_some() => self.sealed_binary()?,
            Some(_) => self.own_binary.clone(),
        };
        direct::start(&joining(launch, program, error_pipe.as_ref())?, Streams::Separate(streams), error_pipe)
    }

    fn sealed_binary(&mut self) -> io::Result<PathBuf> {
        if self.sealed.is_none() {
            self.sealed = Some(SealedProgram::copy(&self.own_binary)?);
        }
        self.sealed
            .as_ref()
            .map(SealedProgram::path)
            .ok_or_else(|| io::Error::other("no program to join with"))
    }

    /// Reaps every child that ended and reports it.
    fn reap(&mut self) -> io::Result<()> {
        while let Some((pid, status)) = reap_one(WaitOptions::NOHANG)? {
            self.unremoved.retain(|folder| !removed(folder));
            let Some(child) = self.children.remove(&pid) else { continue };
            let out_of_memory = child.cgroup.as_ref().is_some_and(cgroup::ran_out_of_memory);
            let leftovers = remove_cgroup(child.cgroup.as_ref());
            self.unremoved.extend(leftovers.iter().cloned());
            let report = ExitReport {
                code: status.exit_status(),
                signal: status.terminating_signal(),
                leftovers,
                out_of_memory,
            };
            self.answer(&Response::Exited { id: child.id, report }, &[])?;
        }
        Ok(())
    }

    /// The harness is gone: nothing may outlive it (I1).
    fn end(mut self, exits: &OwnedFd) -> io::Result<()> {
        self.containers.end();
        let outer: HashSet<u32> = self.children.keys().copied().collect();
        // Killing the first process inside ends the whole namespace before the outer process notices, so that the
        // cgroups are empty by then.
        let inner = children_of(&outer);
        let outer: Vec<u32> = outer.into_iter().collect();
        for portion in outer.chunks(AT_ONCE) {
            for pid in portion {
                inner.get(pid).map_or_else(|| procs::kill_with_children(*pid), |&first| procs::kill(first));
                // A harness that ended while it was ending a program has left its launcher stopped.
                procs::signal(*pid, Signal::CONT);
            }
            if !self.wait_for_end(portion, exits, END_GRACE)? {
                portion
                    .iter()
                    .filter(|pid| self.children.contains_key(pid))
                    .for_each(|&pid| procs::kill_with_children(pid));
                self.wait_for_end(portion, exits, END_GRACE)?;
            }
        }
        let deadline = Instant::now() + END_GRACE;
        while !self.unremoved.is_empty() && Instant::now() < deadline {
            self.unremoved.retain(|folder| !removed(folder));
            // The kernel has no event for a version 1 cgroup that becomes empty; nothing else is left to do here.
            let pause = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
            poll(&mut [], Some(&pause))?;
        }
        Ok(())
    }

    /// Waits for these children; returns whether all have ended by the limit.
    fn wait_for_end(&mut self, portion: &[u32], exits: &OwnedFd, limit: Duration) -> io::Result<bool> {
        let deadline = Instant::now() + limit;
        loop {
            while let Some((pid, _)) = reap_one(WaitOptions::NOHANG)? {
                if let Some(child) = self.children.remove(&pid) {
                    self.unremoved.extend(remove_cgroup(child.cgroup.as_ref()));
                }
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let ended = !portion.iter().any(|pid| self.children.contains_key(pid));
            if ended || left.is_zero() {
                return Ok(ended);
            }
            let (_, exited) = wait_for(exits.as_fd(), exits.as_fd(), Some(left))?;
            if exited {
                drain(exits);
            }
        }
    }

    /// The socket is blocking: a slow harness slows the spawner down, which is the intended back-pressure.
    fn answer(&self, response: &Response, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        match descriptor::send(self.socket.as_fd(), response, descriptors) {
            // The harness died; the next receive reports it and ends the loop.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) =>
            {
                Ok(())
            }
            other => other,
        }
    }
}

/// The launch of our own program, which joins the sandbox. Not every user may execute it, so it takes on the sandbox's
/// identity itself.
fn joining(
    launch: &LaunchRequest,
    program: PathBuf,
    error_pipe: Option<&OwnedFd>,
) -> io::Result<LaunchRequest> {
    let words = ["join".to_owned(), serde_json::to_string(launch)?].into_iter();
    Ok(LaunchRequest {
        confinement: Confinement { identity: None, ..launch.confinement.clone() },
        label: "clawrl-sbx".to_owned(),
        program,
        hidden_arguments: Vec::new(),
        data: Vec::new(),
        arguments: words.chain(error_pipe.map(|fd| fd.as_raw_fd().to_string())).collect(),
        environment: Vec::new(),
        working_folder: None,
        ..launch.clone()
    })
}

/// Path of our own program, through a link that stays valid when an update replaces the file.
fn own_binary() -> io::Result<PathBuf> {
    let link = PathBuf::from(format!("/proc/{}/exe", std::process::id()));
    // The kernel follows the link at exec; reading it here only verifies that /proc is there.
    std::fs::read_link(&link)
        .map_err(|error| io::Error::new(error.kind(), format!("cannot read {}: {error}", link.display())))?;
    Ok(link)
}

fn wait_for(
    first: BorrowedFd<'_>,
    second: BorrowedFd<'_>,
    limit: Option<Duration>,
) -> io::Result<(bool, bool)> {
    let mut fds =
        [PollFd::from_borrowed_fd(first, PollFlags::IN), PollFd::from_borrowed_fd(second, PollFlags::IN)];
    let limit =
        limit.map(|limit| Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() });
    match poll(&mut fds, limit.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    Ok((!fds[0].revents().is_empty(), !fds[1].revents().is_empty()))
}

fn drain(exits: &OwnedFd) {
    let mut buffer = [0u8; 1024];
    while matches!(rustix::io::read(exits, &mut buffer), Ok(read) if read > 0) {}
}

fn reap_one(options: WaitOptions) -> io::Result<Option<(u32, WaitStatus)>> {
    match wait(options) {
        Ok(Some((pid, status))) => Ok(Some((pid.as_raw_nonzero().get() as u32, status))),
        Ok(None) | Err(rustix::io::Errno::CHILD) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// One child of each of these processes, from one pass over /proc.
fn children_of(parents: &HashSet<u32>) -> HashMap<u32, u32> {
    let mut found = HashMap::new();
    for pid in procs::all() {
        if let Some(stat) = ProcessStat::read(pid).filter(|stat| parents.contains(&stat.parent)) {
            found.insert(stat.parent, pid);
        }
    }
    found
}

fn create_cgroup(cgroup: Option<&CgroupRequest>) -> io::Result<()> {
    let Some(cgroup) = cgroup else { return Ok(()) };
    let context = |path: &Path, error: io::Error| {
        io::Error::new(error.kind(), format!("cgroup {}: {error}", path.display()))
    };
    for folder in &cgroup.folders {
        std::fs::create_dir(folder).map_err(|error| context(folder, error))?;
    }
    for (file, value) in &cgroup.settings {
        std::fs::write(file, value).map_err(|error| context(file, error))?;
    }
    Ok(())
}

/// Removes what can be removed and returns the rest.
fn remove_cgroup(cgroup: Option<&CgroupRequest>) -> Vec<PathBuf> {
    let folders = cgroup.map(|cgroup| cgroup.folders.as_slice()).unwrap_or_default();
    folders.iter().filter(|folder| !removed(folder)).cloned().collect()
}

fn removed(folder: &Path) -> bool {
    match std::fs::remove_dir(folder) {
        Ok(()) => true,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}
