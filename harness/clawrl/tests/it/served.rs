//! Starts `clawrl serve` as users do, and sends requests.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use crate::place::{Live, Place, Said};

/// A server; dropping this ends it.
pub(crate) struct Served {
    live: Option<Live>,
    /// Host and port.
    pub(crate) address: String,
    pub(crate) key: String,
}

impl Served {
    /// Starts `clawrl serve` with this policy and reads the address and key that it prints.
    pub(crate) fn start(place: &Place, policy: &str, change: impl FnOnce(&mut Command)) -> Self {
        let mut command = place.command(&["serve", policy, "--listen", "127.0.0.1:0"]);
        change(&mut command);
        let command_words: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
        let mut live = place.start_command(command);
        live.hears("serves the model");
        let (base_url, _) = live.heard().trim_start().split_once(" serves").unwrap();
        let address =
            base_url.strip_prefix("http://").and_then(|it| it.strip_suffix("/v1")).unwrap().to_owned();
        let mut words = command_words.iter().skip_while(|word| *word != "--data").skip(1);
        let data = words.next().map_or_else(|| place.results().join("chat"), |data| place.path().join(data));
        let keys = std::fs::read_to_string(data.join("keys")).unwrap();
        let key = keys.lines().find_map(|line| line.strip_prefix("me ")).unwrap().to_owned();
        Self { live: Some(live), address, key }
    }

    /// Sends a request; returns status and response text.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, String) {
        self.try_ask(&self.key, method, path, body).unwrap()
    }

    /// Like [`Self::ask`] with another key; an error if the server ends before it answers.
    pub(crate) fn try_ask(
        &self,
        key: &str,
        method: &str,
        path: &str,
        body: &Value,
    ) -> std::io::Result<(u16, String)> {
        let mut stream = TcpStream::connect(&self.address)?;
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            self.address,
            key,
            body.len()
        );
        stream.write_all((head + &body).as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let cut = || std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(cut)?;
        Ok((status, answer))
    }

    /// Waits for a line of its standard error that contains this.
    #[track_caller]
    pub(crate) fn hears(&mut self, part: &str) {
        self.live.as_mut().unwrap().hears(part);
    }

    /// Kills the server.
    #[cfg(feature = "torch")]
    pub(crate) fn dies(&self) {
        if let Some(live) = &self.live {
            live.signal(Signal::KILL);
        }
    }

    /// Terminates the server as service managers do.
    pub(crate) fn ends(mut self) -> Said {
        let live = self.live.take().unwrap();
        live.signal(Signal::TERM);
        live.ended().ends(0)
    }
}

/// The Python interpreter with third-party clients, installed by `ci/setup.sh mcp`.
pub(crate) fn client_python() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache");
    cache.unwrap_or_else(home).join("clawrl/mcp/venv/bin/python")
}

/// The body of a response.
pub(crate) fn body_of(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").unwrap().1
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(live) = self.live.take() {
            live.signal(Signal::KILL);
            live.ended();
        }
    }
}
