//! A bash on a pseudo-terminal without any sandbox, and short ways to take steps.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clawrl_core::CancelToken;
use clawrl_sandbox::{
    DirectKiller, Nonce, Pty, ShellConfig, ShellError, ShellSession, StepEnd, StepLimits, StepOutput,
    bash_arguments, rc_script, supervisor_script, terminal_environment,
};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// Far away: a test that gets here has failed.
pub(crate) const LONG: Duration = Duration::from_secs(60);
pub(crate) const NONCE: [u8; 16] = [0xc1; 16];

/// A program on a terminal of its own; killed and reaped when dropped.
pub(crate) struct Terminal {
    child: Child,
    pub(crate) home: tempfile::TempDir,
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Already gone is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A session under test. The session goes first, so that its terminal hangs up before the process is killed.
pub(crate) struct Shell {
    pub(crate) session: ShellSession,
    pub(crate) terminal: Terminal,
    cancel: CancelToken,
}

/// Starts `program` with the slave as its controlling terminal; gives the master.
pub(crate) fn spawn(program: &str, arguments: &[String], home: tempfile::TempDir) -> (OwnedFd, Terminal) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let slave_name = ptsname(&master, Vec::new()).unwrap();
    let slave = || {
        let path = Path::new(slave_name.to_str().unwrap());
        Stdio::from(std::fs::File::options().read(true).write(true).open(path).unwrap())
    };
    // setsid(1) makes its standard input the controlling terminal, without unsafe code here.
    let child = Command::new("setsid")
        .arg("--ctty")
        .arg(program)
        .args(arguments)
        .env_clear()
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .env("HOME", home.path())
        .env("LC_ALL", "C.UTF-8")
        .envs(terminal_environment())
        .current_dir(home.path())
        .stdin(slave())
        .stdout(slave())
        .stderr(slave())
        .spawn()
        .unwrap();
    (master, Terminal { child, home })
}

/// The nonce as the start file has it.
pub(crate) fn nonce() -> String {
    let script = rc_script(&Nonce::from_bytes(NONCE));
    let (_, rest) = script.split_once("__clawrl_k=").unwrap();
    rest.split_once(' ').unwrap().0.to_owned()
}

/// A bash with our start file, and with its keeper.
pub(crate) fn spawn_bash() -> (OwnedFd, Terminal) {
    let home = tempfile::tempdir().unwrap();
    let (rc, keep_alive) = (home.path().join(".rc"), home.path().join(".keeper"));
    let nonce = Nonce::from_bytes(NONCE);
    std::fs::write(&rc, rc_script(&nonce)).unwrap();
    std::fs::write(&keep_alive, supervisor_script(&nonce, ":")).unwrap();
    let mut arguments = vec![keep_alive.to_str().unwrap().to_owned(), "bash".to_owned()];
    arguments.extend(bash_arguments(rc.to_str().unwrap()));
    spawn("sh", &arguments, home)
}

pub(crate) fn config() -> ShellConfig {
    ShellConfig {
        idle: Duration::from_millis(150),
        patience: Duration::from_secs(20),
        kill_grace: Duration::from_millis(400),
        ..ShellConfig::new(Nonce::from_bytes(NONCE))
    }
}

pub(crate) async fn shell() -> Shell {
    shell_with(config()).await
}

/// For a test whose steps end by silence, and which must not mistake a busy machine for it.
pub(crate) async fn patient_shell() -> Shell {
    shell_with(ShellConfig { idle: Duration::from_secs(2), ..config() }).await
}

pub(crate) async fn shell_with(config: ShellConfig) -> Shell {
    let (master, terminal) = spawn_bash();
    let cancel = CancelToken::new();
    let limits = StepLimits { deadline: Instant::now() + LONG, cancel: &cancel };
    let pty = Pty::from_master(master).unwrap();
    let session = ShellSession::start(pty, config, Arc::new(DirectKiller), limits).await.unwrap();
    Shell { session, terminal, cancel }
}

impl Shell {
    fn limits(cancel: &CancelToken) -> StepLimits<'_> {
        StepLimits { deadline: Instant::now() + LONG, cancel }
    }

    pub(crate) async fn try_run(&mut self, command: &str) -> Result<StepOutput, ShellError> {
        self.session.run(command, Self::limits(&self.cancel)).await
    }

    pub(crate) async fn run(&mut self, command: &str) -> StepOutput {
        self.try_run(command).await.unwrap()
    }

    pub(crate) async fn run_for(&mut self, command: &str, time: Duration) -> StepOutput {
        let limits = StepLimits { deadline: Instant::now() + time, cancel: &self.cancel };
        self.session.run(command, limits).await.unwrap()
    }

    pub(crate) async fn keys(&mut self, keys: &str) -> StepOutput {
        self.session.send_keys(keys, Self::limits(&self.cancel)).await.unwrap()
    }

    pub(crate) async fn drop_line(&mut self) -> StepOutput {
        self.session.drop_line(Self::limits(&self.cancel)).await.unwrap()
    }

    pub(crate) async fn renew(&mut self) -> StepOutput {
        self.session.renew(Self::limits(&self.cancel)).await.unwrap()
    }

    pub(crate) async fn text(&mut self, text: &str) -> StepOutput {
        self.session.send_text(text, Self::limits(&self.cancel)).await.unwrap()
    }

    pub(crate) async fn wait(&mut self, time: Duration) -> StepOutput {
        self.session.wait(time, Self::limits(&self.cancel)).await.unwrap()
    }

    pub(crate) async fn signal(&mut self, name: &str) -> StepOutput {
        self.session.signal(name.parse().unwrap(), Self::limits(&self.cancel)).await.unwrap()
    }

    /// Runs a command that must come to its end with this text and code, and no notes.
    pub(crate) async fn check(&mut self, command: &str, text: &str, code: i32) {
        let output = self.run(command).await;
        assert_eq!((output.text.as_str(), output.end), (text, exited(code)), "{command:?}: {output:?}");
        assert_eq!(output.notes, [], "{command:?}");
    }

    /// Cancels the next step, or the one under way.
    pub(crate) fn cancel_token(&self) -> CancelToken {
        self.cancel.clone()
    }
}

pub(crate) fn exited(code: i32) -> StepEnd {
    StepEnd::Completed { exit_code: Some(code) }
}
