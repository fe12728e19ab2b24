//! `clawrl metrics`: exports metrics over time.
//!
//! I1. Runs are not changed or delayed: only `metrics.jsonl` is read. I2. A run's event file has a fixed name, so that
//! a new export replaces the old one.

use std::fs;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use clawrl_core::RunId;
use clawrl_record::Run;
use clawrl_report::{EventLog, exposition, history};
use clawrl_runtime::{parse_run_name, training::is_trained};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::{Method, Request, Response, StatusCode};
use tokio::net::TcpListener;

use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::log::Log;
use crate::output::print;
use crate::results::ResultsArguments;

/// Interval between two reads of a running run.
const LOOK: Duration = Duration::from_secs(2);

/// Exports the metrics of a run for TensorBoard, Prometheus or Weights & Biases.
///
/// Without --tensorboard and --listen, prints the history as JSON lines in the format of Weights & Biases.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  clawrl metrics my-run > history.jsonl\n  \
                  clawrl metrics my-run --tensorboard events --follow\n  \
                  clawrl metrics my-run --listen 127.0.0.1:9464")]
pub(crate) struct Arguments {
    /// Name of the run or training.
    #[arg(value_parser = parse_run_name)]
    run: RunId,
    #[command(flatten)]
    results: ResultsArguments,
    /// Write a TensorBoard event file to this folder (`tensorboard --logdir DIR`).
    #[arg(long, value_name = "DIR")]
    tensorboard: Option<PathBuf>,
    /// With --tensorboard: continue until the run ends.
    #[arg(long, requires = "tensorboard")]
    follow: bool,
    /// Serve current metrics to Prometheus at /metrics of this address, until interrupted.
    #[arg(long, value_name = "ADDRESS", conflicts_with = "tensorboard")]
    listen: Option<SocketAddr>,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments, log: &Log) -> Result<Exit, Failure> {
    let run = arguments.results.store()?.run(&arguments.run)?;
    match (&arguments.tensorboard, arguments.listen) {
        (Some(folder), _) => draw(&run, folder, arguments.follow, log)?,
        (None, Some(address)) => serve(run, address, log)?,
        (None, None) => print(&history(&run.metrics()?))?,
    }
    Ok(Exit::Success)
}

/// Writes the event file to a folder per run, since TensorBoard draws one curve per folder.
fn draw(run: &Run, folder: &Path, follow: bool, log: &Log) -> Result<(), Failure> {
    let folder = folder.join(run.plan().run.as_str());
    let path = folder.join("events.out.tfevents.0.clawrl");
    let failed = |error: std::io::Error| {
        let message = format!("cannot write {}: {error}", path.display());
        Failure::with_help(Exit::Results, message, "choose another place with --tensorboard")
    };
    fs::create_dir_all(&folder).map_err(failed)?;
    let mut file = fs::File::create(&path).map_err(failed)?;
    let mut events = EventLog::default();
    let mut written = 0;
    loop {
        // Checked before the rows are read, since later rows would be missed otherwise.
        let more = follow && (run.is_held() || is_trained(run.dir()));
        let bytes = events.bring_up(&run.metrics()?);
        written += bytes.len();
        file.write_all(&bytes).and_then(|()| file.flush()).map_err(failed)?;
        if !more {
            break;
        }
        // timer: files do not notify readers of new lines.
        std::thread::sleep(LOOK);
    }
    log.note(format_args!("{written} bytes in {}", path.display()));
    Ok(())
}

/// Serves the newest metrics until the process ends.
fn serve(run: Run, address: SocketAddr, log: &Log) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        let message = format!("cannot listen on {address}: {error}");
        Failure::with_help(Exit::Refused, message, "choose another address with --listen")
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    runtime.block_on(async {
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        log.note(format_args!("listening on http://{}/metrics", listener.local_addr().map_err(failed)?));
        clawrl_view::serve(listener, move |request| answer(request, &run)).await;
        Ok(())
    })
}

fn answer(request: &Request<Incoming>, run: &Run) -> Response<Full<Bytes>> {
    let (status, text) = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/metrics") => match run.metrics() {
            Ok(rows) => (StatusCode::OK, exposition(&run.plan().run, &rows)),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
        },
        (_, "/metrics") => (StatusCode::METHOD_NOT_ALLOWED, "only GET\n".to_owned()),
        _ => (StatusCode::NOT_FOUND, "figures are at /metrics\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let kind = hyper::header::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
