//! `clawrl-node`: runs beside a container engine whose containers the harness cannot enter. Started by `clawrl`, in its
//! own container; it communicates over its standard input and output.

use std::io::{self, Write as _};
use std::process::ExitCode;

use clawrl_node::serve;
use clawrl_sandbox::spawner::{Spawner, SpawnerClient, close_inherited_on_exec};
use tokio::net::unix::pipe;

fn main() -> ExitCode {
    match talk() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "clawrl-node: {error}");
            ExitCode::FAILURE
        }
    }
}

fn talk() -> io::Result<()> {
    close_inherited_on_exec()?;
    // The parent reads it, and informs the user.
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_max_level(tracing::Level::WARN)
        .with_ansi(false)
        .without_time()
        .init();
    // From the main thread, before any other exists.
    let spawner = Spawner::start().map_err(io::Error::other)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let talked = runtime.block_on(async {
        let spawner = SpawnerClient::attach(spawner)?;
        let input = pipe::Receiver::from_owned_fd(rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3)?);
        let output = pipe::Sender::from_owned_fd(rustix::io::fcntl_dupfd_cloexec(io::stdout(), 3)?);
        let (Ok(input), Ok(output)) = (input, output) else {
            return Err(io::Error::other("this program is started by `clawrl`, on pipes"));
        };
        serve(tokio::io::join(input, output), spawner).await
    });
    // Remaining threads have no client any more.
    runtime.shutdown_background();
    talked
}
