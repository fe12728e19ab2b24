//! Control groups, version 1 or 2, which set the limits that all processes of a sandbox share.
//!
//! In each hierarchy, the harness's own cgroup gets one folder per harness process, `clawrl-<run>-<pid>-<start>`, which
//! holds one folder per sandbox. The name identifies the maker, so that a later start can tell what a dead harness left
//! (see [`sweep`]).
//!
//! Limits that cannot be set on a machine are listed in [`CgroupHost::unavailable`], shown at the start of a run and
//! kept in its record; they are never skipped silently.
//!
//! Version 1 was run on the development machines. Version 2 with delegated controllers compiles but was not run.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clawrl_core::{RunId, SandboxLimits};

use crate::procs;
use crate::spawner::CgroupRequest;

/// The version 1 controllers that are used.
const CONTROLLERS: [Controller; 3] = [Controller::Memory, Controller::Pids, Controller::Cpu];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Controller {
    Memory,
    Pids,
    Cpu,
}

impl Controller {
    fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Cpu => "cpu",
        }
    }

    /// The limit that is lost without the controller.
    fn meaning(self) -> &'static str {
        match self {
            Self::Memory => "memory of a sandbox (only each process's own memory is limited)",
            Self::Pids => "processes of a sandbox (limited per user namespace instead)",
            Self::Cpu => "cpu share of a sandbox",
        }
    }

    /// Settings of version 1, file name and value.
    fn settings_v1(self, limits: &SandboxLimits) -> Vec<(&'static str, String)> {
        match self {
            Self::Memory => vec![("memory.limit_in_bytes", bytes(limits.memory_mib).to_string())],
            Self::Pids => vec![("pids.max", pids(limits).to_string())],
            Self::Cpu => vec![
                ("cpu.cfs_period_us", CPU_PERIOD_US.to_string()),
                ("cpu.cfs_quota_us", cpu_quota_us(limits).to_string()),
            ],
        }
    }

    fn settings_v2(self, limits: &SandboxLimits) -> Vec<(&'static str, String)> {
        match self {
            Self::Memory => {
                vec![("memory.max", bytes(limits.memory_mib).to_string()), ("memory.oom.group", "0".into())]
            }
            Self::Pids => vec![("pids.max", pids(limits).to_string())],
            Self::Cpu => vec![("cpu.max", format!("{} {CPU_PERIOD_US}", cpu_quota_us(limits)))],
        }
    }
}

const CPU_PERIOD_US: u64 = 100_000;

/// Bubblewrap's own two processes do not count as the agent's.
const OWN_PIDS: u32 = 2;

fn bytes(mib: u32) -> u64 {
    u64::from(mib) << 20
}

fn pids(limits: &SandboxLimits) -> u32 {
    limits.pids + OWN_PIDS
}

fn cpu_quota_us(limits: &SandboxLimits) -> u64 {
    (u64::from(limits.cpu_percent) * CPU_PERIOD_US / 100).max(1_000)
}

/// One hierarchy in which we may create cgroups.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Hierarchy {
    /// The folder in which the harness's folder is created.
    parent: PathBuf,
    controllers: Vec<Controller>,
    unified: bool,
}

/// The control groups that are available to this user on this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CgroupHost {
    hierarchies: Vec<Hierarchy>,
}

impl CgroupHost {
    /// Reads the mounts and tries them: a hierarchy counts only if a folder can be created in it.
    #[must_use]
    pub fn detect() -> Self {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let candidates = candidates(&mounts, &own);
        Self { hierarchies: candidates.into_iter().filter(usable).collect() }
    }

    /// A machine without control groups, for tests and for users who disable them.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Limits that cannot be set, as sentence fragments.
    #[must_use]
    pub fn unavailable(&self) -> Vec<String> {
        let missing = CONTROLLERS.iter().filter(|controller| !self.has(**controller));
        missing.map(|controller| controller.meaning().to_owned()).collect()
    }

    /// Whether the memory of a whole sandbox is limited.
    #[must_use]
    pub fn limits_memory(&self) -> bool {
        self.has(Controller::Memory)
    }

    fn has(&self, controller: Controller) -> bool {
        self.hierarchies.iter().any(|hierarchy| hierarchy.controllers.contains(&controller))
    }

    /// Creates this process's folders.
    ///
    /// # Errors
    /// When a folder cannot be created although detection could.
    pub(crate) fn open(&self, run: &RunId) -> io::Result<CgroupRoot> {
        let name = owner_name(run);
        let mut roots = Vec::new();
        for hierarchy in &self.hierarchies {
            let folder = hierarchy.parent.join(&name);
            if let Err(error) = fs::create_dir(&folder)
                && error.kind() != io::ErrorKind::AlreadyExists
            {
                return Err(io::Error::new(error.kind(), format!("cgroup {}: {error}", folder.display())));
            }
            if hierarchy.unified {
                let enable: Vec<String> = hierarchy
                    .controllers
                    .iter()
                    .map(|controller| format!("+{}", controller.name()))
                    .collect();
                fs::write(folder.join("cgroup.subtree_control"), enable.join(" "))?;
            }
            roots.push((folder, hierarchy.clone()));
        }
        Ok(CgroupRoot { roots })
    }
}

/// The folders of this harness process. Removed when dropped, if they hold no sandbox.
#[derive(Debug)]
pub(crate) struct CgroupRoot {
    roots: Vec<(PathBuf, Hierarchy)>,
}

impl CgroupRoot {
    /// The folders and settings that the spawner creates for one sandbox; `None` without control groups.
    pub(crate) fn request(&self, name: &str, limits: &SandboxLimits) -> Option<CgroupRequest> {
        if self.roots.is_empty() {
            return None;
        }
        let mut request = CgroupRequest::default();
        for (root, hierarchy) in &self.roots {
            let folder = root.join(name);
            for controller in &hierarchy.controllers {
                let settings = if hierarchy.unified {
                    controller.settings_v2(limits)
                } else {
                    controller.settings_v1(limits)
                };
                request.settings.extend(settings.into_iter().map(|(file, value)| (folder.join(file), value)));
            }
            // Through `tasks` of version 1, a single thread moves itself without the lock over all thread groups, whose
            // grace period costs a third of a millisecond each.
            request.entrances.push(folder.join(if hierarchy.unified { "cgroup.procs" } else { "tasks" }));
            request.folders.push(folder);
        }
        Some(request)
    }

    /// The folders themselves, so that the end of a run can name those left.
    pub(crate) fn folders(&self) -> impl Iterator<Item = &Path> {
        self.roots.iter().map(|(folder, _)| folder.as_path())
    }
}

impl Drop for CgroupRoot {
    fn drop(&mut self) {
        for (folder, _) in &self.roots {
            // The next start's sweep removes what is still in use.
            let _ = fs::remove_dir(folder);
        }
    }
}

/// Process ids of a sandbox, read from its first folder, including bubblewrap's two.
pub(crate) fn members(request: &CgroupRequest) -> Option<Vec<u32>> {
    request.folders.first().map(|folder| members_of(folder))
}

/// Whether the kernel killed a process because the memory was used up. Files in memory count.
pub(crate) fn ran_out_of_memory(request: &CgroupRequest) -> bool {
    // The counter's file in version 2 and in version 1.
    let files = request
        .folders
        .iter()
        .flat_map(|folder| ["memory.events", "memory.oom_control"].map(|file| folder.join(file)));
    files.filter_map(|file| fs::read_to_string(file).ok()).any(|text| has_killed(&text))
}

fn has_killed(counters: &str) -> bool {
    let counts = counters.lines().filter_map(|line| line.strip_prefix("oom_kill "));
    counts.filter_map(|count| count.trim().parse::<u64>().ok()).any(|count| count > 0)
}

/// Process ids in a folder; none when the folder is gone.
pub(crate) fn members_of(folder: &Path) -> Vec<u32> {
    let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

/// Removes a folder whose processes were just killed; false when it is still in use after two seconds.
pub(crate) fn remove_when_empty(folder: &Path) -> bool {
    let deadline = Instant::now() + Duration::from_secs(2);
    loop {
        match fs::remove_dir(folder) {
            Ok(()) => return true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return true,
            Err(_) if Instant::now() >= deadline => return false,
            // timer: version 1 has no event for a group that becomes empty.
            Err(_) => std::thread::sleep(Duration::from_millis(2)),
        }
    }
}

/// Sandbox folders still below a harness's folder, as sentences.
pub(crate) fn remains_of(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.map(|entry| entry.path()).filter(|path| path.is_dir() && !remove_when_empty(path));
    folders.map(|path| format!("control group {} is still in use", path.display())).collect()
}

/// `clawrl-<run>-<pid>-<start ticks>` of this process.
#[must_use]
pub fn owner_name(run: &RunId) -> String {
    let pid = std::process::id();
    let start = procs::ProcessStat::read(pid).map_or(0, |stat| stat.start_ticks);
    format!("{OWNER_PREFIX}{run}-{pid}-{start}")
}

const OWNER_PREFIX: &str = "clawrl-";

/// Whether a name made by [`owner_name`] belongs to a live process; `None` for any other name.
#[must_use]
pub fn owner_is_alive(name: &str) -> Option<bool> {
    let mut parts = name.strip_prefix(OWNER_PREFIX)?.rsplitn(3, '-');
    let start: u64 = parts.next()?.parse().ok()?;
    let pid: u32 = parts.next()?.parse().ok()?;
    parts.next()?;
    Some(procs::ProcessStat::read(pid).is_some_and(|stat| stat.start_ticks == start && !stat.zombie))
}

/// Folders that dead harness processes left in the hierarchies of `host`.
pub(crate) fn orphaned_folders(host: &CgroupHost) -> Vec<PathBuf> {
    let mut orphans = Vec::new();
    for hierarchy in &host.hierarchies {
        for entry in fs::read_dir(&hierarchy.parent).into_iter().flatten().flatten() {
            if entry.file_name().to_str().and_then(owner_is_alive) == Some(false) {
                orphans.push(entry.path());
            }
        }
    }
    orphans
}

/// Mounted hierarchies that contain a folder of ours, from the texts of `mountinfo` and `cgroup`.
fn candidates(mountinfo: &str, own: &str) -> Vec<Hierarchy> {
    let mut found = Vec::new();
    for line in mountinfo.lines() {
        let Some((left, right)) = line.split_once(" - ") else { continue };
        let left: Vec<&str> = left.split(' ').collect();
        let right: Vec<&str> = right.split(' ').collect();
        let (Some(root), Some(mount), Some(&kind)) = (left.get(3), left.get(4), right.first()) else {
            continue;
        };
        let options = right.get(2).copied().unwrap_or_default();
        let (controllers, path) = match kind {
            "cgroup" => {
                let controllers: Vec<Controller> = CONTROLLERS
                    .into_iter()
                    .filter(|controller| options.split(',').any(|option| option == controller.name()))
                    .collect();
                let Some(first) = controllers.first() else { continue };
                (controllers.clone(), own_path(own, |names| names.split(',').any(|n| n == first.name())))
            }
            "cgroup2" => {
                let path = own_path(own, str::is_empty);
                let folder = path.as_deref().map(|path| joined(mount, root, path));
                let text = folder
                    .and_then(|folder| fs::read_to_string(folder.join("cgroup.controllers")).ok())
                    .unwrap_or_default();
                let has =
                    |controller: &Controller| text.split_whitespace().any(|name| name == controller.name());
                (CONTROLLERS.into_iter().filter(has).collect(), path)
            }
            _ => continue,
        };
        let Some(path) = path else { continue };
        if controllers.is_empty() {
            continue;
        }
        // An earlier detection may have moved this process one folder down.
        let path = path.strip_suffix(HARNESS_FOLDER).unwrap_or(&path).to_owned();
        found.push(Hierarchy { parent: joined(mount, root, &path), controllers, unified: kind == "cgroup2" });
    }
    found
}

/// The path of our own cgroup in the hierarchy whose controller list fits.
fn own_path(own: &str, fits: impl Fn(&str) -> bool) -> Option<String> {
    own.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let names = parts.next()?;
        let path = parts.next()?;
        fits(names).then(|| path.to_owned())
    })
}

/// A path of `/proc/self/cgroup` below a mount that may show only a part of the hierarchy.
pub(crate) fn joined(mount: &str, root: &str, path: &str) -> PathBuf {
    let below = path.strip_prefix(root.trim_end_matches('/')).unwrap_or(path);
    Path::new(mount).join(below.trim_start_matches('/'))
}

/// Version 2 gives controllers to children only if the folder itself holds no process: moves this process one folder
/// down if it is alone there, then enables the controllers. Fails if the folder is not delegated to this user, which
/// `systemd-run --user --scope -p Delegate=yes` does.
fn pass_controllers_on(hierarchy: &Hierarchy) -> io::Result<()> {
    let control = hierarchy.parent.join("cgroup.subtree_control");
    let enabled = fs::read_to_string(&control)?;
    let missing =
        |controller: &&Controller| !enabled.split_whitespace().any(|name| name == controller.name());
    let missing: Vec<String> = hierarchy
        .controllers
        .iter()
        .filter(missing)
        .map(|controller| format!("+{}", controller.name()))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let members = fs::read_to_string(hierarchy.parent.join("cgroup.procs"))?;
    let own = std::process::id().to_string();
    if members.lines().any(|pid| pid != own) {
        return Err(io::Error::other("other processes share our cgroup"));
    }
    if !members.is_empty() {
        let below = hierarchy.parent.join(HARNESS_FOLDER);
        fs::create_dir(&below).or_else(|error| {
            if error.kind() == io::ErrorKind::AlreadyExists { Ok(()) } else { Err(error) }
        })?;
        fs::write(below.join("cgroup.procs"), &own)?;
    }
    fs::write(control, missing.join(" "))
}

/// Folder for the harness itself when its own must be empty (version 2).
const HARNESS_FOLDER: &str = "clawrl-harness";

fn usable(hierarchy: &Hierarchy) -> bool {
    if hierarchy.unified && pass_controllers_on(hierarchy).is_err() {
        return false;
    }
    let probe = hierarchy.parent.join(format!("clawrl-probe-{}", std::process::id()));
    if fs::create_dir(&probe).is_err() {
        return false;
    }
    let file = hierarchy.controllers.first().and_then(|controller| {
        let limits = SandboxLimits::default();
        let settings =
            if hierarchy.unified { controller.settings_v2(&limits) } else { controller.settings_v1(&limits) };
        settings.into_iter().next()
    });
    let works = file.is_some_and(|(file, value)| fs::write(probe.join(file), value).is_ok());
    let _ = fs::remove_dir(&probe);
    works
}

/// Creates a sandbox's folders below those of an owner of any name, as a harness would have.
#[cfg(test)]
pub(crate) fn make_for_tests(host: &CgroupHost, owner: &str, name: &str) -> Vec<PathBuf> {
    let folders: Vec<PathBuf> =
        host.hierarchies.iter().map(|hierarchy| hierarchy.parent.join(owner).join(name)).collect();
    folders.iter().for_each(|folder| fs::create_dir_all(folder).unwrap());
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kills_for_want_of_memory_are_counted() {
        let check = |text: &str, expected: bool| assert_eq!(has_killed(text), expected, "{text}");
        check("low 0\nhigh 0\nmax 9\noom 1\noom_kill 1\noom_group_kill 0\n", true);
        check("oom_kill_disable 0\nunder_oom 1\noom_kill 0\n", false);
        check("oom_kill_disable 1\nunder_oom 0\noom_kill 12\n", true);
        check("", false);
    }

    #[test]
    fn hierarchies_are_read_from_mountinfo() {
        let mountinfo = "\
30 23 0:26 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
31 23 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
32 23 0:28 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer
33 23 0:29 /docker/x /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
";
        let own = "8:pids:/docker/x/y\n4:memory:/a/b\n2:cpu,cpuacct:/\n0::/\n";
        let found = candidates(mountinfo, own);
        let parents: Vec<&str> = found.iter().map(|hierarchy| hierarchy.parent.to_str().unwrap()).collect();
        assert_eq!(
            parents,
            ["/sys/fs/cgroup/memory/a/b", "/sys/fs/cgroup/cpu,cpuacct/", "/sys/fs/cgroup/pids/y"]
        );
    }

    #[test]
    fn owner_names_identify_processes() {
        let run = RunId::new("a-b-1-2").unwrap();
        assert_eq!(owner_is_alive(&owner_name(&run)), Some(true));
        assert_eq!(owner_is_alive("clawrl-x-1-1"), Some(false));
        for foreign in ["system.slice", "clawrl-probe-7", "clawrl-", "clawrl-a-b"] {
            assert_ne!(owner_is_alive(foreign), Some(false), "{foreign}");
        }
    }
}
