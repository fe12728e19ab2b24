//! Drivers started outside of sandboxes, as for remote browsers.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use clawrl_gui::find_programs;
use rustix::net::{self, AddressFamily, SocketType};
use rustix::process::{Pid, Signal, geteuid, kill_process_group};
use serde_json::Value;

/// User of a driver that root starts: a browser of root's would not have its own sandbox.
const NOBODY: u32 = 65_534;

/// A driver. Dropped, it is killed, and its browsers with it.
pub(crate) struct BareDriver {
    program: Child,
    port: u16,
    /// Of its profiles.
    _home: tempfile::TempDir,
}

impl BareDriver {
    /// Starts one at a free port of the loopback.
    pub(crate) fn start() -> Self {
        Self::start_at(0)
    }

    pub(crate) fn start_at(port: u16) -> Self {
        let path = std::env::var("PATH").unwrap();
        let home = tempfile::tempdir().unwrap();
        let mut command = Command::new(find_programs(&path).unwrap().driver);
        command
            .args([format!("--port={port}"), "--log-level=SEVERE".to_owned()])
            .env_clear()
            .envs([
                ("PATH", path.as_ref()),
                ("HOME", home.path().as_os_str()),
                ("TMPDIR", home.path().as_os_str()),
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0);
        if geteuid().is_root() {
            chown(home.path(), Some(NOBODY), Some(NOBODY)).unwrap();
            command.uid(NOBODY).gid(NOBODY);
        }
        let mut program = command.spawn().unwrap();
        let mut lines = BufReader::new(program.stdout.take().unwrap()).lines();
        let told = |line: String| {
            let (_, port) = line.split_once("started successfully on port ")?;
            port.trim_end_matches('.').trim().parse().ok()
        };
        let port = lines.by_ref().find_map(|line| told(line.unwrap())).unwrap();
        // Later output is read and discarded, so that the driver never blocks.
        std::thread::spawn(move || lines.for_each(drop));
        Self { program, port, _home: home }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// How many sessions it has.
    pub(crate) fn sessions(&self) -> usize {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(b"GET /sessions HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        // It keeps the connection open.
        let (mut lines, mut length) = (BufReader::new(stream), 0);
        loop {
            let mut line = String::new();
            lines.read_line(&mut line).unwrap();
            let line = line.trim_end().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        lines.read_exact(&mut body).unwrap();
        let answer: Value = serde_json::from_slice(&body).unwrap();
        answer["value"].as_array().unwrap().len()
    }

    /// Ends it as nothing else could, with its browsers.
    pub(crate) fn kill(&mut self) {
        let group = Pid::from_child(&self.program);
        let _ = kill_process_group(group, Signal::KILL);
        let _ = self.program.wait();
    }
}

impl Drop for BareDriver {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A loopback port that refuses connections, and that no other process can listen on while this value lives.
pub(crate) struct SilentPort {
    port: u16,
    _bound: OwnedFd,
}

impl SilentPort {
    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }
}

pub(crate) fn silent_port() -> SilentPort {
    let bound = net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    net::bind(&bound, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = SocketAddrV4::try_from(net::getsockname(&bound).unwrap()).unwrap();
    SilentPort { port: address.port(), _bound: bound }
}
