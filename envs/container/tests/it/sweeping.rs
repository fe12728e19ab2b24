//! A harness that is killed, and the sweep after it.

use std::io::{BufRead, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use clawrl_container::{probe_engine, sweep_containers};
use clawrl_sandbox::spawner::{Spawner, SpawnerClient};
use clawrl_sandbox::{ProcessFacts, SandboxBackend};

use crate::engine::{backend, containers, sh_as, start, with_engine};

/// Names the engine to the process that is to be killed.
const SOCKET: &str = "CLAWRL_TEST_ENGINE";

/// What the process is doing with its container when it is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    /// The agent works in it.
    Acting,
    /// Everything of the agent was ended, and a verifier runs.
    Verifying,
    /// Everything in it is stopped, to be ended.
    Halting,
}

#[test]
fn sweep_removes_containers_of_killed_harness() {
    killed("sweeping::sweep_removes_containers_of_killed_harness", Work::Acting);
}

#[test]
fn a_container_is_ended_also_when_its_verifier_runs() {
    killed("sweeping::a_container_is_ended_also_when_its_verifier_runs", Work::Verifying);
}

#[test]
fn a_container_is_ended_also_when_it_is_being_halted() {
    killed("sweeping::a_container_is_ended_also_when_it_is_being_halted", Work::Halting);
}

/// Kills a harness, this program once more, at its work.
fn killed(name: &'static str, work: Work) {
    if let Ok(socket) = std::env::var(SOCKET) {
        return hold(&socket, work);
    }
    with_engine(|engine, client| async move {
        let socket = engine.socket();
        let living = backend(&socket, client, "living").await;
        let kept = start(&living).await;
        let mut harness = Command::new(std::env::current_exe().unwrap())
            .args([name, "--exact", "--nocapture"])
            .env(SOCKET, &socket)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = std::io::BufReader::new(harness.stdout.take().unwrap()).lines();
        let first: u32 = lines
            .find_map(|line| {
                line.unwrap().rsplit_once("first process ").and_then(|(_, pid)| pid.parse().ok())
            })
            .unwrap();
        assert_eq!(containers(&socket).await, 2);
        harness.kill().unwrap();
        harness.wait().unwrap();
        // Its spawner ends the container at once; the sweep deletes the rest.
        let until = Instant::now() + Duration::from_secs(60);
        while std::fs::read_to_string(format!("/proc/{first}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
        {
            assert!(Instant::now() < until, "{work:?}");
            tokio::task::yield_now().await;
        }
        let report = sweep_containers(&probe_engine(&socket, None).await.unwrap()).await.unwrap();
        assert_eq!((report.containers, report.leftovers), (1, Vec::new()));
        assert_eq!(containers(&socket).await, 1);
        assert_eq!(kept.sandbox.lost().await, None);
        drop(kept);
        assert_eq!(living.shutdown().await, Vec::<String>::new());
    });
}

/// The process that is to be killed: tells the number of its container's first process, and waits.
fn hold(socket: &str, work: Work) {
    let spawner = Spawner::start().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let backend = backend(socket, SpawnerClient::attach(spawner).unwrap(), "killed").await;
        let started = start(&backend).await;
        let inside = started.sandbox.processes().await;
        let namespace = std::fs::read_link(format!("/proc/{}/ns/pid", inside[0].host_pid)).unwrap();
        let first = std::fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
            let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
            let own = std::fs::read_link(format!("/proc/{pid}/ns/pid")).ok()? == namespace;
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            (own && status.lines().any(|line| line.starts_with("NSpid:") && line.ends_with("\t1")))
                .then_some(pid)
        });
        let first = first.unwrap();
        let sandbox = started.sandbox.as_ref();
        let verifying = async {
            if work == Work::Verifying {
                sandbox.halt().await.unwrap();
                sh_as(sandbox, None, "sleep 4711", Duration::from_secs(100)).await;
            }
            std::future::pending::<()>().await;
        };
        let ready = async {
            match work {
                Work::Acting => {}
                Work::Verifying => {
                    let runs = |process: &ProcessFacts| process.command_line == "sleep 4711";
                    while !sandbox.processes().await.iter().any(runs) {
                        tokio::task::yield_now().await;
                    }
                }
                Work::Halting => freeze(first),
            }
            tell(first);
        };
        tokio::join!(verifying, ready);
    });
}

fn tell(first: u32) {
    let line = format!("first process {first}\n");
    std::io::stdout().write_all(line.as_bytes()).unwrap();
}

/// Stops a container by its control group, as halting it begins.
fn freeze(pid: u32) {
    let own = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let path = own.lines().find_map(|line| line.split_once(":freezer:").map(|(_, path)| path.to_owned()));
    let (file, stop) = match path {
        Some(path) => (format!("/sys/fs/cgroup/freezer{path}/freezer.state"), "FROZEN"),
        None => {
            let path = own.lines().find_map(|line| line.strip_prefix("0::")).unwrap();
            (format!("/sys/fs/cgroup{path}/cgroup.freeze"), "1")
        }
    };
    std::fs::write(&file, stop).unwrap();
    while std::fs::read_to_string(&file).unwrap().trim() != stop {
        std::thread::yield_now();
    }
}
