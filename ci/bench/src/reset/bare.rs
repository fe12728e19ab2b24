//! The other sides: programs that isolate less, and Docker.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Instant;

use super::{Round, Side};
use crate::terminals::Failure;

/// A user without rights.
const NOBODY: u32 = 65_534;

/// A Docker daemon that answers, and an image that it has.
pub(super) struct Docker {
    image: String,
}

impl Docker {
    /// Asks the daemon; says why not when there is no use in measuring it.
    pub(super) fn find(image: &str) -> Result<Self, String> {
        let asked = |arguments: &[&str]| {
            let output = Command::new("docker").args(arguments).stdin(Stdio::null()).output();
            output.map(|output| output.status.success())
        };
        match asked(&["version", "--format", "{{.Server.Version}}"]) {
            Err(_) => return Err("docker is not installed".to_owned()),
            Ok(false) => return Err("no docker daemon answers".to_owned()),
            Ok(true) => {}
        }
        match asked(&["image", "inspect", image]) {
            Ok(true) => Ok(Self { image: image.to_owned() }),
            _ => Err(format!("docker has no image {image}")),
        }
    }
}

/// One round of everything that is not ours.
pub(super) fn others(starts: u32, docker: Option<&Docker>) -> Result<Round, Failure> {
    let mut round = Round::new();
    for _ in 0..starts {
        time(
            &mut round,
            Side::Namespace,
            unprivileged("unshare").args(["--user", "--map-root-user", "--pid", "--fork", "--mount", "true"]),
        )?;
        time(
            &mut round,
            Side::Bwrap,
            unprivileged("bwrap").args(["--unshare-user", "--ro-bind", "/", "/", "true"]),
        )?;
    }
    if let Some(Docker { image }) = docker {
        // Two orders slower than the rest: a few say enough.
        for _ in 0..starts.div_ceil(10) {
            let mut command = Command::new("docker");
            command.args(["run", "--rm", "--network", "none", image, "true"]);
            time(&mut round, Side::Docker, &mut command)?;
        }
    }
    Ok(round)
}

/// As an unprivileged user, whoever we are.
fn unprivileged(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", "/usr/bin:/bin").current_dir("/");
    if rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

fn time(round: &mut Round, side: Side, command: &mut Command) -> Result<(), Failure> {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let begun = Instant::now();
    let status = command.status()?;
    let took = begun.elapsed();
    if !status.success() {
        return Err(format!("{}: {status}", side.label()).into());
    }
    round.entry(side).or_default().push(took);
    Ok(())
}
