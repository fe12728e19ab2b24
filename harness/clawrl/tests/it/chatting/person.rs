//! A simulated user at a pseudo-terminal, which controls the started program.

use std::io::{Read, Write};
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

/// Deadline that only a failure reaches.
const PATIENCE: Duration = Duration::from_secs(30);

/// Bound of pieces read ahead of the test.
const PIECES: usize = 1024;

/// The simulated user.
pub(super) struct Person {
    child: Box<dyn Child + Send + Sync>,
    writer: Option<Box<dyn Write + Send>>,
    pieces: Receiver<Vec<u8>>,
    reading: Option<JoinHandle<()>>,
    /// Everything that the terminal received.
    pub(super) seen: String,
    /// Bytes of `seen` already checked.
    looked: usize,
    _terminal: Box<dyn MasterPty + Send>,
}

impl Person {
    /// Starts a command with all three streams on a terminal.
    pub(super) fn start(command: &Command) -> Self {
        Self::start_at(command, 100)
    }

    /// Like [`Self::start`], at a terminal of `cols` columns.
    pub(super) fn start_at(command: &Command, cols: u16) -> Self {
        let size = PtySize { rows: 24, cols, ..PtySize::default() };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut builder = CommandBuilder::new(command.get_program());
        builder.args(command.get_args());
        builder.cwd(command.get_current_dir().unwrap());
        builder.env_clear();
        for (name, value) in command.get_envs() {
            builder.env(name, value.unwrap());
        }
        builder.env("TERM", "xterm");
        let child = pair.slave.spawn_command(builder).unwrap();
        let mut reader = pair.master.try_clone_reader().unwrap();
        let (sender, pieces) = sync_channel(PIECES);
        let reading = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = reader.read(&mut bytes) {
                if sender.send(bytes[..read].to_vec()).is_err() {
                    return;
                }
            }
        });
        let writer = Some(pair.master.take_writer().unwrap());
        Self {
            child,
            writer,
            pieces,
            reading: Some(reading),
            seen: String::new(),
            looked: 0,
            _terminal: pair.master,
        }
    }

    /// Waits until the terminal shows this text after the last one seen.
    #[track_caller]
    pub(super) fn sees(&mut self, part: &str) {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.seen[self.looked..].find(part) {
                self.looked += at + part.len();
                return;
            }
            let left = end.saturating_duration_since(Instant::now());
            match self.pieces.recv_timeout(left) {
                // The tests' texts are ASCII, so no piece ends within a character.
                Ok(piece) => self.seen += &String::from_utf8_lossy(&piece),
                Err(why) => panic!("no `{part}` ({why}) in:\n{}", self.seen),
            }
        }
    }

    /// Types a text.
    pub(super) fn types(&mut self, text: &str) {
        self.writer.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// Waits for the end; returns the exit code. `seen` keeps the output.
    #[track_caller]
    pub(super) fn ended(&mut self) -> u32 {
        loop {
            match self.pieces.recv_timeout(PATIENCE) {
                Ok(piece) => self.seen += &String::from_utf8_lossy(&piece),
                // The program closes the terminal at its end.
                Err(RecvTimeoutError::Disconnected) => return self.child.wait().unwrap().exit_code(),
                Err(RecvTimeoutError::Timeout) => panic!("it goes on:\n{}", self.seen),
            }
        }
    }
}

impl Drop for Person {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Empties the channel so that the thread can end.
        while self.pieces.recv_timeout(PATIENCE).is_ok() {}
        self.reading.take().map(JoinHandle::join);
    }
}
