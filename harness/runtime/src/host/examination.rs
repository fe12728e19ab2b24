//! The checks of `clawrl doctor`.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use clawrl_sandbox::spawner::Spawner;
use clawrl_sandbox::{CgroupHost, probe_host};

use super::finding::{Finding, Health};
use super::{browser, capacity, engine, facts, open_files};
use crate::environment::Variable;

/// With fewer pseudo-terminals, runs of hundreds of sandboxes do not fit.
const FEW_TERMINALS: u64 = 512;
const FEW_PROCESSES: u64 = 4_096;
const FEW_FILES: u64 = 4_096;
const LITTLE_MEMORY_MIB: u64 = 1_024;
const LITTLE_DISK_MIB: u64 = 1_024;

/// Examines the host. `results`: the folder of runs. `training`: whether the calling program can train.
pub fn examine(results: &Path, training: Finding) -> Vec<Finding> {
    let mut findings = vec![
        Finding::ok("clawrl", facts::PROGRAM),
        Finding::ok(
            "system",
            &format!("{}, {}", facts::system().unwrap_or("unknown".to_owned()), facts::kernel()),
        ),
        Finding::ok(
            "user",
            if rustix::process::geteuid().is_root() {
                "root: a user id for each sandbox"
            } else {
                "normal: sandboxes share your user id"
            },
        ),
        spawner(),
    ];
    findings.extend(sandboxes());
    findings.push(engine::finding());
    findings.push(browser::finding());
    findings.push(few("cpus", facts::cpus().into(), 2, "", "more cores run more at once"));
    findings.push(few(
        "memory",
        capacity::memory_available_mib(),
        LITTLE_MEMORY_MIB,
        " MiB free",
        "free some memory: a shell in its sandbox takes about 4 MiB",
    ));
    findings.push(few(
        "terminals",
        capacity::ptys_free(),
        FEW_TERMINALS,
        " free",
        "`sysctl -w kernel.pty.max=8192`",
    ));
    findings.push(few(
        "processes",
        capacity::pids_free(),
        FEW_PROCESSES,
        " free",
        "raise `ulimit -u`, `sysctl kernel.pid_max` or the pids limit of the container",
    ));
    findings.push(few(
        "open-files",
        open_files::limit(),
        FEW_FILES,
        " at most",
        "raise the hard limit: `ulimit -Hn`",
    ));
    findings.extend(results_folder(results));
    findings.push(training);
    findings.push(optional("python3", "tasks that use Python"));
    findings.push(optional("tmux", "watching a run from several windows"));
    findings
}

fn spawner() -> Finding {
    match Spawner::find() {
        Ok(path) => Finding::ok("clawrl-sbx", &path.display().to_string()),
        Err(error) => Finding::bad(
            "clawrl-sbx",
            Health::Missing,
            error.to_string(),
            "`cargo build -p clawrl -p clawrl-sandbox` builds both programs into one folder",
        ),
    }
}

/// bubblewrap, namespaces, control groups, and the limits that cannot be set.
fn sandboxes() -> Vec<Finding> {
    let cgroups = CgroupHost::detect();
    let mut findings = Vec::new();
    match probe_host(cgroups.clone()) {
        Ok(report) => {
            findings.push(Finding::ok(
                "bubblewrap",
                &format!("{} ({})", report.version, report.program.display()),
            ));
            findings.push(Finding::ok("namespaces", "user namespaces can be made"));
        }
        Err(fault) => {
            let (found, advice) =
                fault.message.split_once("; ").unwrap_or((&fault.message, "see the message"));
            let name = if fault.code == "namespaces-forbidden" { "namespaces" } else { "bubblewrap" };
            findings.push(Finding::bad(name, Health::Missing, found.to_owned(), advice));
        }
    }
    let unavailable = cgroups.unavailable();
    let versions = cgroup_versions(&fs::read_to_string("/proc/self/mountinfo").unwrap_or_default());
    findings.push(if unavailable.is_empty() {
        Finding::ok("control-groups", &format!("{versions}: memory, processes and cpu of each sandbox are limited"))
    } else {
        let advice = "run as root, or under `systemd-run --user --scope -p Delegate=yes`; without, process limits stand in";
        Finding::bad("control-groups", Health::Warn, format!("{versions}; not limited: {}", unavailable.join(", ")), advice)
    });
    findings
}

/// The mounted versions, usable or not.
fn cgroup_versions(mountinfo: &str) -> &'static str {
    let mounted = |kind: &str| mountinfo.lines().any(|line| line.contains(kind));
    match (mounted(" - cgroup "), mounted(" - cgroup2 ")) {
        (true, true) => "versions 1 and 2",
        (true, false) => "version 1",
        (false, true) => "version 2",
        (false, false) => "none mounted",
    }
}

fn few(name: &'static str, found: u64, enough: u64, unit: &str, advice: &str) -> Finding {
    let text = if found == u64::MAX { "no limit".to_owned() } else { format!("{found}{unit}") };
    if found >= enough { Finding::ok(name, &text) } else { Finding::bad(name, Health::Warn, text, advice) }
}

fn results_folder(results: &Path) -> Vec<Finding> {
    // If the folder does not exist yet, its nearest existing ancestor decides.
    let existing = results.ancestors().find(|folder| folder.is_dir()).unwrap_or(Path::new("/"));
    let probe = existing.join(format!(".clawrl-doctor-{}", std::process::id()));
    let written = fs::File::create_new(&probe).and_then(|mut file| file.write_all(b"x"));
    let _ = fs::remove_file(&probe);
    let folder = match written {
        Ok(()) => Finding::ok("results", &format!("{} can be written", results.display())),
        Err(error) => Finding::bad(
            "results",
            Health::Missing,
            format!("{} cannot be written: {error}", existing.display()),
            format!("make it writable, or choose another with --results or {}", Variable::Results.name()),
        ),
    };
    let disk = rustix::fs::statvfs(existing).map_or(u64::MAX, |stat| (stat.f_bavail * stat.f_frsize) >> 20);
    vec![
        folder,
        few("disk", disk, LITTLE_DISK_MIB, " MiB free", "`clawrl clean --older-than 7d` deletes old runs"),
    ]
}

fn optional(program: &'static str, purpose: &str) -> Finding {
    match in_path(program) {
        Some(path) => {
            let output = Command::new(&path).arg(if program == "tmux" { "-V" } else { "--version" }).output();
            let version = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
            Finding::ok(program, &version.unwrap_or_else(|_| path.display().to_string()))
        }
        None => Finding::bad(
            program,
            Health::Warn,
            "not there".to_owned(),
            format!("optional, for {purpose}: `apt-get install {program}`"),
        ),
    }
}

fn in_path(program: &str) -> Option<PathBuf> {
    let path = Variable::Path.path().unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_told_by_their_mounts() {
        let check = |text: &str, expected: &str| assert_eq!(cgroup_versions(text), expected);
        let one = "30 23 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let two = "31 23 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        check(one, "version 1");
        check(two, "version 2");
        check(&format!("{one}{two}"), "versions 1 and 2");
        check("", "none mounted");
    }
}
