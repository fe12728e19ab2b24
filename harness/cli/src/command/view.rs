//! `clawrl view`: shows the runs of a results folder in a browser.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clawrl_view::{Site, serve};
use tokio::net::TcpListener;
use tokio::signal::ctrl_c;

use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::log::Log;
use crate::results::ResultsArguments;

/// Serves a local web page with all runs, until Ctrl-C.
///
/// The page lists runs and trainings with links to their reports, which are generated on request. The folder is not
/// changed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  clawrl view\n  clawrl view results --port 8080")]
pub(crate) struct Arguments {
    /// Folder that holds `runs/` [default: $CLAWRL_RESULTS, or results].
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Port of 127.0.0.1; 0 takes a free one.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments, log: &Log) -> Result<Exit, Failure> {
    let results = ResultsArguments::of(arguments.dir.clone());
    let dir = results.dir();
    if !dir.is_dir() {
        let message = format!("there is no folder {}", dir.display());
        return Err(Failure::with_help(
            Exit::Refused,
            message,
            "name the results folder: the one that holds `runs/`",
        ));
    }
    let store = results.store()?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, arguments.port));
    let failed = |error: std::io::Error| {
        let message = format!("cannot listen on {address}: {error}");
        Failure::with_help(
            Exit::Refused,
            message,
            "choose another port with --port, or none for one that is free",
        )
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    runtime.block_on(async {
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        log.note(format_args!("the runs in {} are at http://127.0.0.1:{port}/ until Ctrl-C", dir.display()));
        let site = Site::new(store, dir, port);
        tokio::select! {
            () = serve(listener, move |request| site.answer(request)) => {}
            heard = ctrl_c() => heard.map_err(failed)?,
        }
        Ok::<(), Failure>(())
    })?;
    // Does not wait for pages in progress.
    runtime.shutdown_background();
    Ok(Exit::Success)
}
