//! `clawrl-sbx`: the spawner, and the joiner of sandboxes. Started by `clawrl`, not by users.
//!
//! It is a small program of its own, without the libraries of `clawrl`: it forks once per sandbox, and forking a
//! process that has a learner's libraries mapped would cost more than the sandbox.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::process::ExitCode;

use clawrl_sandbox::spawner::{close_inherited_on_exec, join, serve};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let outcome = match (arguments.next().as_deref(), arguments.next()) {
        (Some("spawner"), None) => {
            close_inherited_on_exec().and_then(|()| own_socket()).and_then(serve).map(|()| 0)
        }
        (Some("join"), Some(request)) => join(&request, arguments.next().as_deref()),
        _ => Err(std::io::Error::other("this program is started by `clawrl`; run `clawrl --help` instead")),
    };
    match outcome {
        Ok(code) => ExitCode::from(u8::try_from(code).unwrap_or(126)),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "clawrl-sbx: {error}");
            ExitCode::from(126)
        }
    }
}

/// The socket to the harness is standard input.
fn own_socket() -> std::io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), 3)?)
}
