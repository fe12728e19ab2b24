//! A peer written in Python that stays alive while an area runs: what it takes to load is not measured.
//!
//! The packages live in a virtual environment in the user's folder for caches, which `ci/bench/peers/install.sh torch`
//! makes. A script prints one JSON object when it has loaded; then it reads one JSON object a line and answers each
//! with one. It ends where its input ends; dropping the peer kills it.
//!
//! Both sides run as they are, without a sandbox; on the CPU, unless a GPU is what is measured.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Failure;
use crate::caches::peers_folder;

const INSTALL: &str = "ci/bench/peers/install.sh torch";
/// Lines of its error output that a message about a broken peer repeats.
const LAST_WORDS: usize = 5;

/// A script that runs.
#[derive(Debug)]
pub(crate) struct Peer {
    child: Child,
    requests: ChildStdin,
    replies: BufReader<ChildStdout>,
    errors: File,
    /// What it printed when it had loaded: the versions of its packages.
    pub(crate) versions: String,
}

impl Peer {
    /// Starts a script that sees no GPU and waits until it has loaded. `folder` is its first argument.
    pub(crate) fn start(script: &str, folder: &Path) -> Result<Self, Failure> {
        Self::start_in(script, folder, &[("CUDA_VISIBLE_DEVICES", "")])
    }

    /// The same, with the GPUs that this process sees.
    pub(crate) fn start_with_gpus(script: &str, folder: &Path) -> Result<Self, Failure> {
        Self::start_in(script, folder, &[])
    }

    fn start_in(script: &str, folder: &Path, variables: &[(&str, &str)]) -> Result<Self, Failure> {
        let python =
            python().ok_or_else(|| format!("the Python peers are not here; `{INSTALL}` installs them"))?;
        let errors = tempfile::tempfile()?;
        let mut child = Command::new(python)
            .args(["-c", script])
            .arg(folder)
            // Nothing is fetched.
            .envs([("HF_HUB_OFFLINE", "1"), ("TOKENIZERS_PARALLELISM", "false")])
            .envs(variables.iter().copied())
            // `run.sh` sets it for our side.
            .env_remove("GOMP_SPINCOUNT")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors.try_clone()?)
            .spawn()?;
        let (Some(requests), Some(replies)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("a peer without pipes".into());
        };
        let mut peer =
            Self { child, requests, replies: BufReader::new(replies), errors, versions: String::new() };
        peer.versions = peer.read()?;
        Ok(peer)
    }

    /// One request and its answer.
    pub(crate) fn ask<T: DeserializeOwned>(&mut self, request: &impl Serialize) -> Result<T, Failure> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        // If it is gone, reading says why.
        let _ = self.requests.write_all(&line);
        self.read()
    }

    fn read<T: DeserializeOwned>(&mut self) -> Result<T, Failure> {
        let mut line = String::new();
        self.replies.read_line(&mut line)?;
        if line.is_empty() {
            let (status, words) = (self.child.wait()?, self.last_words()?);
            return Err(format!("a peer's script: {status}: {words}").into());
        }
        serde_json::from_str(&line).map_err(|error| format!("a peer's script said {line:?}: {error}").into())
    }

    fn last_words(&mut self) -> Result<String, Failure> {
        let mut bytes = Vec::new();
        self.errors.rewind()?;
        self.errors.read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().collect();
        Ok(lines[lines.len().saturating_sub(LAST_WORDS)..].join("; "))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Fails only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The Python of the virtual environment.
fn python() -> Option<PathBuf> {
    Some(peers_folder("torch-peers")?.join("bin/python")).filter(|path| path.is_file())
}
