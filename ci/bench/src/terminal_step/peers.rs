//! Harbor and SWE-ReX, driven by small Python scripts.
//!
//! `ci/bench/peers/install.sh` installs both into a virtual environment in the user's cache folder. Its Python runs a
//! script in a bubblewrap sandbox; the script prints one JSON object with the time of each step and the total.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::Deserialize;

use super::Side;
use super::drive::Times;
use crate::Failure;
use crate::caches::peers_folder;

const HARBOR: &str = include_str!("../../peers/harbor_tmux.py");
const SWE_REX: &str = include_str!("../../peers/swe_rex.py");
const INSTALL: &str = "ci/bench/peers/install.sh";

/// Seconds after which a round of a peer counts as hung.
const LIMIT_S: &str = "900";

/// The installed peers.
#[derive(Debug, Clone)]
pub(super) struct Peers {
    tmux: bool,
    python: Option<PathBuf>,
}

/// Output of a script.
#[derive(Debug, Deserialize)]
struct Printed {
    steps_us: Vec<f64>,
    wall_us: f64,
}

impl Peers {
    /// Searches for the peers.
    pub(super) fn find() -> Self {
        // Sandboxes see /usr.
        let tmux = Path::new("/usr/bin/tmux").is_file();
        let python =
            peers_folder("peers").map(|folder| folder.join("bin/python")).filter(|path| path.is_file());
        Self { tmux, python }
    }

    /// Whether a side can be measured.
    pub(super) fn have(&self, side: Side) -> bool {
        match side {
            Side::Env | Side::Session | Side::Bare => true,
            Side::TmuxWait | Side::TmuxPoll => self.tmux,
            Side::Harbor => self.tmux && self.python.is_some(),
            Side::SweRex => self.python.is_some(),
        }
    }

    /// Which peers are installed, and how to install the others.
    pub(super) fn describe(&self) -> String {
        let here = |side: Side| if self.have(side) { "installed" } else { "missing" };
        let folder = peers_folder("peers")
            .map_or_else(|| "$XDG_CACHE_HOME".to_owned(), |path| path.display().to_string());
        format!(
            "tmux: {} (/usr/bin/tmux)\nharbor, swe-rex: {} ({folder})\n`{INSTALL}` installs harbor and swe-rex there; \
             `apt-get install tmux` installs tmux",
            here(Side::TmuxWait),
            here(Side::SweRex),
        )
    }

    /// A line below the table; empty if all peers are installed.
    pub(super) fn missing(&self) -> String {
        let missing = [(Side::TmuxWait, "tmux"), (Side::Harbor, "harbor"), (Side::SweRex, "swe-rex")];
        let names: Vec<&str> =
            missing.iter().filter(|(side, _)| !self.have(*side)).map(|&(_, name)| name).collect();
        if names.is_empty() {
            return String::new();
        }
        format!("not installed: {}; `--peers` explains how to install them\n", names.join(", "))
    }

    /// One round of a Python peer.
    pub(super) async fn measure(&self, side: Side, sessions: u32, steps: u32) -> Result<Times, Failure> {
        let python = self.python.clone().ok_or("the Python peers are not installed")?;
        let script = if side == Side::Harbor { HARBOR } else { SWE_REX };
        tokio::task::spawn_blocking(move || run(&python, script, sessions, steps)).await?
    }
}

fn run(python: &Path, script: &str, sessions: u32, steps: u32) -> Result<Times, Failure> {
    let mut child = Command::new("timeout")
        .args(["--kill-after=5", LIMIT_S, "bwrap"])
        .args(isolation(python)?)
        .arg("--")
        .arg(python)
        .args(["-", &sessions.to_string(), &steps.to_string()])
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    // Closing the input ends the script.
    let sent = child.stdin.take().map_or(Ok(()), |mut input| input.write_all(script.as_bytes()));
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        let end: String =
            errors.lines().rev().take(5).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("; ");
        return Err(format!("a peer's script: {}: {end}", output.status).into());
    }
    sent?;
    let last = said.lines().last().ok_or("a peer's script printed nothing")?;
    let Printed { steps_us, wall_us } = serde_json::from_str(last)?;
    let micros = |value: f64| Duration::from_secs_f64(value / 1e6);
    Ok(Times { steps: steps_us.into_iter().map(micros).collect(), wall: micros(wall_us) })
}

/// Namespaces and mounts as in ClawRL's sandboxes, plus the peers' Python.
fn isolation(python: &Path) -> Result<Vec<String>, Failure> {
    let environment =
        python.parent().and_then(Path::parent).ok_or("a virtual environment has a bin folder")?;
    let fixed = [
        "--unshare-all --unshare-user --die-with-parent --new-session --uid 1000 --gid 1000 --hostname sandbox",
        "--clearenv --setenv PATH /usr/local/bin:/usr/bin:/bin --setenv HOME /home/agent --setenv LANG C.UTF-8",
        "--setenv LC_ALL C.UTF-8 --setenv TERM xterm-256color --ro-bind /usr /usr",
        "--ro-bind-try /etc/alternatives /etc/alternatives --ro-bind-try /etc/ld.so.cache /etc/ld.so.cache",
        "--proc /proc --dev /dev --tmpfs /tmp --tmpfs /home/agent --tmpfs /work --chdir /work",
    ];
    let mut list: Vec<String> = fixed.iter().flat_map(|line| line.split(' ')).map(str::to_owned).collect();
    let mut add = |option: &str, from: &Path, to: &Path| {
        list.extend([option.to_owned(), from.display().to_string(), to.display().to_string()]);
    };
    for folder in ["/bin", "/sbin", "/lib", "/lib64"].map(Path::new) {
        match fs::read_link(folder) {
            Ok(target) => add("--symlink", &target, folder),
            Err(_) => add("--ro-bind-try", folder, folder),
        }
    }
    add("--ro-bind", environment, environment);
    // The virtual environment's base Python may be outside /usr.
    let settings = fs::read_to_string(environment.join("pyvenv.cfg"))?;
    let home = settings.lines().find_map(|line| line.strip_prefix("home = "));
    let base = home.and_then(|home| Path::new(home).parent()).ok_or("pyvenv.cfg names no home")?;
    if !base.starts_with("/usr") {
        add("--ro-bind", base, base);
    }
    Ok(list)
}
