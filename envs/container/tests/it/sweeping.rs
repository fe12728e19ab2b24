//! A harness that is killed, and the sweep after it.

use std::io::{BufRead, Write};
use std::process::{Command, Stdio};

use clawrl_container::{probe_engine, sweep_containers};
use clawrl_sandbox::SandboxBackend;
use clawrl_sandbox::spawner::{Spawner, SpawnerClient};

use crate::engine::{backend, containers, start, with_engine};

/// Names the engine to the process that is to be killed.
const SOCKET: &str = "CLAWRL_TEST_ENGINE";

#[test]
fn what_a_killed_harness_left_is_ended_and_swept() {
    if let Ok(socket) = std::env::var(SOCKET) {
        return hold(&socket);
    }
    with_engine(|engine, client| async move {
        let socket = engine.socket();
        let living = backend(&socket, client, "living").await;
        let kept = start(&living).await;
        let mut harness = Command::new(std::env::current_exe().unwrap())
            .args(["sweeping::what_a_killed_harness_left_is_ended_and_swept", "--exact", "--nocapture"])
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
        // Its spawner ends the container at once; the sweep deletes what is left of it.
        while std::fs::read_to_string(format!("/proc/{first}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
        {
            tokio::task::yield_now().await;
        }
        let report = sweep_containers(&probe_engine(&socket).await.unwrap()).await.unwrap();
        assert_eq!((report.containers, report.leftovers), (1, Vec::new()));
        assert_eq!(containers(&socket).await, 1);
        assert_eq!(kept.sandbox.lost().await, None);
        drop(kept);
        assert_eq!(living.shutdown().await, Vec::<String>::new());
    });
}

/// The process that is to be killed: tells the number of its container's first process, and waits.
fn hold(socket: &str) {
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
        let line = format!("first process {}\n", first.unwrap());
        std::io::stdout().write_all(line.as_bytes()).unwrap();
        std::future::pending::<()>().await;
    });
}
