//! A folder with suites and results, and ways to run `clawrl` in it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};

use clawrl_record::{Run, RunStore};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Twelve tasks in three templates; wrong solutions score less than oracles, so that attempts differ.
pub(crate) const SMALL: &str = r#"
format: 1
suite: small
vars:
  words: [river, stone, cloud, maple]
defaults:
  env: { terminal: { memory_mib: 64, disk_mib: 4, pids: 32, idle_millis: 300 } }
tasks:
  - id: write
    template: { word: { from: words } }
    instruction: Write {{ word }} into out.txt.
    checks:
      - file_equals: { path: out.txt, expected: "{{ word }}\n" }
    oracle: { commands: ["echo {{ word }} > out.txt"] }
    mistakes:
      - ["echo {{ word }} >> other.txt"]
  - id: copy
    template: { word: { from: words } }
    instruction: Copy in.txt to out.txt.
    env: { terminal: { files: { in.txt: "{{ word }}\n" } } }
    checks:
      - file_equals: { path: out.txt, expected: "{{ word }}\n" }
        weight: 3
      - file_equals: { path: in.txt, expected: "{{ word }}\n" }
    oracle: { commands: ["cp in.txt out.txt"] }
    mistakes:
      - ["mv in.txt out.txt"]
      - ["touch out.txt"]
  - id: note
    template: { word: { from: words } }
    instruction: Put the word in note.txt behind the one that is there.
    env: { terminal: { files: { note.txt: "first\n" } } }
    checks:
      - file_equals: { path: note.txt, expected: "first\n{{ word }}\n" }
    oracle: { commands: ["cat note.txt", "echo {{ word }} >> note.txt"] }
    mistakes:
      - ["echo {{ word }} > note.txt"]
"#;

/// An unused user id.
const NORMAL_USER: u32 = 1_899_999_998;

/// A test folder, removed on drop.
pub(crate) struct Place {
    folder: TempDir,
    user: Option<u32>,
}

/// Output and exit status of a `clawrl` process.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    pub(crate) fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        // The next process cleans up after runs that other tests killed, and reports it.
        let swept = |line: &&str| line.starts_with("swept what a dead run had left");
        let err = text(&output.stderr).split_inclusive('\n').filter(|line| !swept(line)).collect();
        Self { code: output.status.code(), out: text(&output.stdout), err }
    }

    /// Checks the exit code.
    #[track_caller]
    pub(crate) fn ends(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.out, self.err);
        self
    }

    /// Standard output as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}", self.out))
    }
}

impl Place {
    /// Creates a folder with the suite `small` under `tasks`.
    pub(crate) fn new() -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap(), user: None };
        place.suite("small", SMALL);
        place
    }

    /// Like [`Self::new`] for an unprivileged user, with copies of the programs, since the build folder may be
    /// unreadable.
    pub(crate) fn of_normal_user() -> Self {
        let mut place = Self::new();
        let open = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        open(place.path());
        for program in [program(), spawner()] {
            let copy = place.path().join(program.file_name().unwrap());
            fs::copy(program, &copy).unwrap();
            open(&copy);
        }
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(place.path(), Some(NORMAL_USER), Some(NORMAL_USER)).unwrap();
            place.user = Some(NORMAL_USER);
        }
        place
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn results(&self) -> PathBuf {
        self.path().join("results")
    }

    /// Writes a suite under `tasks`.
    pub(crate) fn suite(&self, name: &str, text: &str) {
        let folder = self.path().join("tasks").join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("suite.yaml"), text).unwrap();
    }

    /// `clawrl` in this folder with an empty environment.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.command_of(&self.program(), arguments)
    }

    /// The built program or this folder's copy.
    pub(crate) fn program(&self) -> PathBuf {
        let copy = self.path().join("clawrl");
        if copy.exists() { copy } else { program() }
    }

    fn command_of(&self, program: &Path, arguments: &[&str]) -> Command {
        assert!(spawner().is_file(), "build the workspace first: {} is not there", spawner().display());
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.path()).env_clear();
        command.env("PATH", "/usr/bin:/bin").stdin(Stdio::null());
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        command
    }

    /// Runs `clawrl` on a machine that bubblewrap restricts by these arguments.
    pub(crate) fn worse(&self, worse: &[&str], arguments: &[&str]) -> Said {
        let own = self.program();
        let own = own.to_str().unwrap();
        let all = [&["--dev-bind", "/", "/"], worse, &["--", own], arguments].concat();
        Said::of(&self.command_of(Path::new("bwrap"), &all).output().unwrap())
    }

    /// Runs it to the end.
    pub(crate) fn clawrl(&self, arguments: &[&str]) -> Said {
        Said::of(&self.command(arguments).output().unwrap())
    }

    /// Starts `clawrl`; the test can follow its standard error.
    pub(crate) fn start(&self, arguments: &[&str]) -> Live {
        self.start_command(self.command(arguments))
    }

    /// Starts a command that the test has changed.
    pub(crate) fn start_command(&self, mut command: Command) -> Live {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let err = BufReader::new(child.stderr.take().unwrap());
        Live { child, err, heard: String::new() }
    }

    /// A run, as recorded.
    pub(crate) fn run(&self, name: &str) -> Run {
        let store = RunStore::open(&self.results()).unwrap();
        store.run(&clawrl_core::RunId::new(name).unwrap()).unwrap()
    }

    /// Replaces text that depends on machine and time, for snapshots.
    pub(crate) fn settled(&self, text: &str) -> String {
        let text = text.replace(self.path().to_str().unwrap(), "[folder]");
        let filters = [
            (r"\d{8}-\d{6}", "[time]"),
            (r"\d+(\.\d+)? (us|ms|s|min)\b", "[duration]"),
            (r" +\[duration\]", " [duration]"),
            // Column widths depend on durations; missing limits depend on machine and user.
            (r"(?m)^phase +p50 +p95$", "phase p50 p95"),
            (r"(?m)^not limited .*\n", ""),
        ];
        filters.iter().fold(text, |text, (pattern, instead)| {
            regex::Regex::new(pattern).unwrap().replace_all(&text, *instead).into_owned()
        })
    }
}

/// A running `clawrl` process.
pub(crate) struct Live {
    child: Child,
    err: BufReader<ChildStderr>,
    heard: String,
}

impl Live {
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Standard error read so far.
    pub(crate) fn heard(&self) -> &str {
        &self.heard
    }

    /// Waits for a line of standard error that contains `part`.
    #[track_caller]
    pub(crate) fn hears(&mut self, part: &str) {
        assert!(self.hears_before_its_end(part), "it ended without `{part}`:\n{}", self.heard);
    }

    /// Like [`Self::hears`]; false if the process ended without such a line.
    pub(crate) fn hears_before_its_end(&mut self, part: &str) -> bool {
        loop {
            let mut line = String::new();
            let read = self.err.read_line(&mut line).unwrap();
            self.heard += &line;
            if read == 0 || line.contains(part) {
                return read > 0;
            }
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Waits for its end.
    pub(crate) fn ended(mut self) -> Said {
        let mut err = String::new();
        // Standard output is small enough for its pipe.
        std::io::Read::read_to_string(&mut self.err, &mut err).unwrap();
        let output = self.child.wait_with_output().unwrap();
        Said { err: self.heard + &err, ..Said::of(&output) }
    }
}

/// The built program.
fn program() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_clawrl"))
}

fn spawner() -> PathBuf {
    program().with_file_name("clawrl-sbx")
}
