//! Containers that end with the harness, made without an engine: namespaces of a program that only waits.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clawrl_sandbox::spawner::{
    Confinement, ContainerJoin, JoinTarget, LaunchKind, LaunchRequest, SpawnerClient,
};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};

use crate::support::spawner;
use crate::traps::is_root;

const PATIENCE: Duration = Duration::from_secs(20);

/// Ended when dropped, whatever became of the test.
struct Container {
    unshare: Child,
    first: u32,
    /// Its control group, where it has one.
    freezer: Option<PathBuf>,
}

impl Container {
    fn start(freezer: Option<PathBuf>) -> Self {
        let unshare = Command::new("unshare")
            .args(["--mount", "--pid", "--fork", "--kill-child", "sleep", "1000"])
            // It prints an error when it is ended.
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let children = format!("/proc/{0}/task/{0}/children", unshare.id());
        let mut container = Self { unshare, first: 0, freezer };
        container.first = until(|| std::fs::read_to_string(&children).ok()?.trim().parse().ok());
        until(|| (comm(container.first)? == "sleep").then_some(()));
        if let Some(freezer) = &container.freezer {
            std::fs::create_dir(freezer).unwrap();
            std::fs::write(freezer.join("tasks"), container.first.to_string()).unwrap();
        }
        container
    }

    fn target(&self) -> JoinTarget {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.first)).unwrap();
        let start_ticks = stat.rsplit_once(") ").unwrap().1.split(' ').nth(19).unwrap().parse().unwrap();
        let entrances = self.freezer.iter().map(|freezer| freezer.join("tasks")).collect();
        JoinTarget {
            pid: self.first,
            start_ticks,
            inside_identity: (0, 0),
            container: Some(ContainerJoin { entrances, ..ContainerJoin::default() }),
        }
    }

    fn freeze(&self) {
        let Some(freezer) = &self.freezer else { return };
        let state = freezer.join("freezer.state");
        std::fs::write(&state, "FROZEN").unwrap();
        until(|| (std::fs::read_to_string(&state).ok()?.trim() == "FROZEN").then_some(()));
    }

    fn has_ended(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.first));
        stat.is_err() || stat.is_ok_and(|stat| stat.contains(") Z ") || stat.contains(") X "))
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        if let Some(freezer) = &self.freezer {
            let _ = std::fs::write(freezer.join("freezer.state"), "THAWED");
        }
        let _ = self.unshare.kill();
        let _ = self.unshare.wait();
        if let Some(freezer) = &self.freezer {
            // Busy until the last process is gone.
            let until = Instant::now() + PATIENCE;
            while std::fs::remove_dir(freezer).is_err() && Instant::now() < until {
                std::thread::yield_now();
            }
        }
    }
}

fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until);
        std::thread::yield_now();
    }
}

fn comm(pid: u32) -> Option<String> {
    Some(std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim().to_owned())
}

fn terminal() -> (OwnedFd, OwnedFd) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
    let master = openpt(flags).unwrap();
    unlockpt(&master).unwrap();
    let terminal = ioctl_tiocgptpeer(&master, flags).unwrap();
    (master, terminal)
}

/// Its main program starts and ends, as it does when a container is halted for its verifier; then the harness goes.
fn ends_with_the_harness(container: &Container) {
    let spawner = spawner();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let client = SpawnerClient::attach(spawner).unwrap();
        let launch = LaunchRequest {
            kind: LaunchKind::OwnTerminal,
            confinement: Confinement::default(),
            join: Some(container.target()),
            parent: 0,
            label: String::new(),
            program: "/bin/true".into(),
            hidden_arguments: Vec::new(),
            data: Vec::new(),
            arguments: Vec::new(),
            environment: Vec::new(),
            working_folder: None,
        };
        let (_master, terminal) = terminal();
        let ends = [terminal.as_fd(), terminal.as_fd(), terminal.as_fd()];
        let mut process = client.spawn(launch, None, &ends).await.unwrap();
        assert_eq!(process.exit.ended().await.code, Some(0));
        assert!(!container.has_ended());
        container.freeze();
        // The spawner sees its socket close, as when the harness is killed; returns when the spawner has ended.
        drop(client);
    });
    until(|| container.has_ended().then_some(()));
}

#[test]
fn idle_container_ends_with_the_harness() {
    if is_root("joining a container") {
        ends_with_the_harness(&Container::start(None));
    }
}

#[test]
fn frozen_container_ends_with_the_harness() {
    let hierarchy = Path::new("/sys/fs/cgroup/freezer");
    if !is_root("joining a container") {
        return;
    }
    if !hierarchy.join("tasks").exists() {
        println!("note: no control groups of version 1 can be stopped here, so that is not tested");
        return;
    }
    let freezer = hierarchy.join(format!("clawrl-test-{}", std::process::id()));
    ends_with_the_harness(&Container::start(Some(freezer)));
}
