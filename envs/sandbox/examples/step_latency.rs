//! Latency of a step: `echo` in a shell session against a bare loop that writes a line and reads to a sentinel.
//!
//! Both sides use bash on a pseudo-terminal without sandbox, one after the other in turns, on one thread. Prints the
//! median, the 90th percentile and the ratio of the medians.
//!
//! `cargo run --release -p clawrl-sandbox --example step_latency [STEPS] [ROUNDS]`

#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[path = "../tests/it/shell_fixture.rs"]
#[allow(dead_code)]
mod shell_fixture;

use std::time::{Duration, Instant};

use clawrl_sandbox::{Pty, PtyRead};

const SENTINEL: &[u8] = b"<prompt>";

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<usize>().unwrap());
    let steps = arguments.next().unwrap_or(2_000);
    let rounds = arguments.next().unwrap_or(5);
    let (mut bare, mut session) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        bare.extend(bare_loop(steps).await);
        session.extend(shell_session(steps).await);
    }
    let bare = report("bare loop", &mut bare);
    let session = report("shell session", &mut session);
    println!("ratio of medians {:.2}", session.as_secs_f64() / bare.as_secs_f64());
}

fn report(name: &str, times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    let (median, high) = (times[times.len() / 2], times[times.len() * 9 / 10]);
    println!("{name:14} p50 {:7.1} us   p90 {:7.1} us", median.as_secs_f64() * 1e6, high.as_secs_f64() * 1e6);
    median
}

async fn shell_session(steps: usize) -> Vec<Duration> {
    let mut shell = shell_fixture::shell().await;
    let mut times = Vec::with_capacity(steps);
    for step in 0..steps {
        let start = Instant::now();
        let output = shell.run("echo hello").await;
        times.push(start.elapsed());
        assert_eq!(output.text, "hello\n", "step {step}");
    }
    times
}

async fn bare_loop(steps: usize) -> Vec<Duration> {
    let home = tempfile::tempdir().unwrap();
    let rc = home.path().join("rc");
    std::fs::write(&rc, "PS1='<prompt>'\n").unwrap();
    let arguments = ["--noprofile", "--rcfile", rc.to_str().unwrap(), "-i"].map(str::to_owned);
    let (master, terminal) = shell_fixture::spawn("bash", &arguments, home);
    let pty = Pty::from_master(master).unwrap();
    let mut seen = Vec::new();
    until_sentinel(&pty, &mut seen).await;
    let mut times = Vec::with_capacity(steps);
    for step in 0..steps {
        let start = Instant::now();
        pty.write_all(b"echo hello\r").await.unwrap();
        until_sentinel(&pty, &mut seen).await;
        times.push(start.elapsed());
        assert!(seen.windows(7).any(|window| window == b"hello\r\n"), "step {step}");
    }
    drop(pty);
    drop(terminal);
    times
}

async fn until_sentinel(pty: &Pty, seen: &mut Vec<u8>) {
    let mut buffer = [0; 4096];
    seen.clear();
    while !seen.ends_with(SENTINEL) {
        match pty.read(&mut buffer).await.unwrap() {
            PtyRead::Bytes(count) => seen.extend_from_slice(&buffer[..count]),
            PtyRead::Empty | PtyRead::HungUp => panic!("the shell ended"),
        }
    }
}
