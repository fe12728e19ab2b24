//! A Python peer that stays alive during a benchmark, so that its loading time is not measured.
//!
//! `ci/bench/peers/install.sh torch` installs the packages into a virtual environment in the user's cache folder. A script
//! prints one JSON object when it has loaded; then it answers each line of its input, a JSON object, with another. It ends
//! with its input; dropping the peer kills it. Both sides run without a sandbox.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Failure;
use crate::caches::peers_folder;

const INSTALL: &str = "ci/bench/peers/install.sh torch";
/// Last lines of standard error that an error message includes.
const LAST_WORDS: usize = 5;

/// A running script.
#[derive(Debug)]
pub(crate) struct Peer {
    child: Child,
    requests: ChildStdin,
    replies: BufReader<ChildStdout>,
    errors: File,
    /// Versions of its packages, which it printed after loading.
    pub(crate) versions: String,
}

impl Peer {
    /// Starts a script without GPUs and waits until it has loaded. `folder` is its first argument.
    pub(crate) fn start(script: &str, folder: &Path) -> Result<Self, Failure> {
        Self::start_in(script, folder, &[("CUDA_VISIBLE_DEVICES", "")])
    }

    /// Starts a script with the GPUs of this process.
    pub(crate) fn start_with_gpus(script: &str, folder: &Path) -> Result<Self, Failure> {
        Self::start_in(script, folder, &[])
    }

    fn start_in(script: &str, folder: &Path, variables: &[(&str, &str)]) -> Result<Self, Failure> {
        let python = python()
            .ok_or_else(|| format!("the Python peers are not installed; `{INSTALL}` installs them"))?;
        let errors = tempfile::tempfile()?;
        let mut child = Command::new(python)
            .args(["-c", script])
            .arg(folder)
            // No downloads.
            .envs([("HF_HUB_OFFLINE", "1"), ("TOKENIZERS_PARALLELISM", "false")])
            .envs(variables.iter().copied())
            // `run.sh` sets it for ClawRL's side.
            .env_remove("GOMP_SPINCOUNT")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors.try_clone()?)
            .spawn()?;
        let (Some(requests), Some(replies)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("the peer has no pipes".into());
        };
        let mut peer =
            Self { child, requests, replies: BufReader::new(replies), errors, versions: String::new() };
        peer.versions = peer.read()?;
        Ok(peer)
    }

    /// Sends a request and returns the answer.
    pub(crate) fn ask<T: DeserializeOwned>(&mut self, request: &impl Serialize) -> Result<T, Failure> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        // If the peer has ended, reading reports why.
        let _ = self.requests.write_all(&line);
        self.read()
    }

    fn read<T: DeserializeOwned>(&mut self) -> Result<T, Failure> {
        let mut line = String::new();
        self.replies.read_line(&mut line)?;
        if line.is_empty() {
            let (status, words) = (self.child.wait()?, self.last_words()?);
            return Err(format!("the peer ended with {status}: {words}").into());
        }
        serde_json::from_str(&line)
            .map_err(|error| format!("unexpected answer {line:?} of the peer: {error}").into())
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
        // Fails only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Python of the virtual environment, if installed.
fn python() -> Option<PathBuf> {
    Some(peers_folder("torch-peers")?.join("bin/python")).filter(|path| path.is_file())
}
