//! Prepares the host for plans: removes leftovers, probes, starts the spawner.
//!
//! I1. The spawner is started from the main thread before any other thread exists: the kernel ends it, and every sandbox with it,
//! when that thread ends. I2. Control groups are probed before the spawner is started, because version 2 requires this process to
//! be alone in its group for that.

use std::collections::BTreeMap;
use std::sync::Arc;

use clawrl_container::{ContainerBackend, ContainerConfig, EngineReport};
use clawrl_core::{EnvProvider, EnvSpec, Judge, PolicySpec, RemoteSpec, RunPlan, SandboxKind, TaskSpec};
use clawrl_custom::{CustomConfig, CustomProvider};
use clawrl_gui::{BrowserKind, BrowserSource, GuiConfig, GuiProvider};
use clawrl_record::LimitNotSet;
use clawrl_sandbox::spawner::{Spawner, SpawnerClient};
use clawrl_sandbox::{
    Backends, BubblewrapBackend, BubblewrapConfig, CgroupHost, HostReport, LocalBackend, SweepReport,
    WarmMarks, probe_host, sweep_orphans,
};
use clawrl_swe::{SweConfig, SweProvider};
use clawrl_terminal::{TerminalConfig, TerminalProvider};
use clawrl_toolcall::{Secrets, ToolcallConfig, ToolcallProvider};

use super::images::ImageSettings;
use super::judge::Judges;
use super::programs::Programs;
use super::{isolation, secrets};
use crate::error::RuntimeError;
use crate::host::browser::{self, Browsers};
use crate::host::{engine, facts, open_files};
use crate::progress::Progress;

/// Environments made in advance, for each core.
const WARM_PER_CPU: u32 = 2;

/// The resources of this machine that plans need.
pub struct Machine {
    bubblewrap: Option<HostReport>,
    /// Empty if no task of a plan needs containers.
    engines: Vec<EngineReport>,
    images: Option<ImageSettings>,
    /// `None` if no task of a plan has a browser.
    browser: Option<Browsers>,
    /// `None` if no task of a plan starts a program.
    spawner: Option<Spawner>,
    /// Whether a task has `sandbox: none`.
    unboxed: bool,
    judges: Judges,
    /// The slot for the spawner, for a policy that starts programs.
    programs: Programs,
    /// Environments of this process.
    hosted: Option<Arc<dyn EnvProvider>>,
}

impl Machine {
    /// Removes leftovers, probes, and starts the spawner. Call on the main thread, before anything starts a thread.
    ///
    /// # Errors
    /// [`RuntimeError::Unavailable`] if something that the plan needs is missing.
    pub fn prepare(plans: &[&RunPlan], progress: &dyn Progress) -> Result<Self, RuntimeError> {
        Self::prepare_judged(plans, None, progress)
    }

    /// The same for a training whose turns a model judges.
    ///
    /// # Errors
    /// As [`Machine::prepare`].
    pub fn prepare_judged(
        plans: &[&RunPlan],
        judge_of_turns: Option<&RemoteSpec>,
        progress: &dyn Progress,
    ) -> Result<Self, RuntimeError> {
        for plan in plans {
            secrets::of(plan)?;
        }
        let judges = Judges::of(plans, judge_of_turns)?;
        let has_browser = plans.iter().flat_map(|plan| &plan.tasks).any(|task| task.env.kind() == "gui");
        let browser = if has_browser { Some(browser::find()?) } else { None };
        open_files::raise_limit();
        isolation::warn_of_openness(plans, progress);
        let cgroups = CgroupHost::detect();
        tell_of_sweep(&sweep_orphans(&cgroups), progress);
        let kinds = isolation::kinds(plans);
        let bubblewrap = if kinds.contains(&SandboxKind::Bubblewrap) {
            Some(probe_host(cgroups).map_err(RuntimeError::from)?)
        } else {
            None
        };
        let (engines, images) = if kinds.contains(&SandboxKind::Container) {
            let images = ImageSettings::of_environment()?;
            (engine::prepare(progress)?, images)
        } else {
            (Vec::new(), None)
        };
        let has_agents = plans.iter().any(|plan| matches!(plan.policy, PolicySpec::Agent(_)));
        let spawner = if kinds.is_empty() && !has_agents { None } else { Some(start_spawner()?) };
        let unboxed = kinds.contains(&SandboxKind::None);
        let programs = Programs::default();
        Ok(Self { bubblewrap, engines, images, browser, spawner, unboxed, judges, programs, hosted: None })
    }

    /// Lets a policy start its programs here.
    pub fn lending(self, programs: Programs) -> Self {
        Self { programs, ..self }
    }

    /// Provides the environments of kind `in_process`.
    #[must_use]
    pub fn hosting(self, environments: Arc<dyn EnvProvider>) -> Self {
        Self { hosted: Some(environments), ..self }
    }

    /// Limits that the plan asks for and this machine cannot set.
    pub fn limits_not_set(&self) -> Vec<LimitNotSet> {
        let bubblewrap = self.bubblewrap.iter().flat_map(|report| &report.unavailable);
        // A limit that several engines lack is listed once.
        let mut engines: Vec<&String> = Vec::new();
        for text in self.engines.iter().flat_map(|report| &report.unavailable) {
            if !engines.contains(&text) {
                engines.push(text);
            }
        }
        bubblewrap.chain(engines).map(|text| limit_not_set(text)).collect()
    }

    /// Facts for the lock file.
    pub fn facts(&self) -> BTreeMap<String, String> {
        let mut facts = facts::of_every_machine();
        if let Some(report) = &self.bubblewrap {
            facts.insert("bubblewrap".to_owned(), report.version.clone());
        }
        if let Some(browsers) = &self.browser {
            facts.insert("browser".to_owned(), browsers.version.clone());
        }
        if !self.engines.is_empty() {
            let each = self.engines.iter().map(|report| format!("{}, {}", report.version, report.storage));
            facts.insert("engine".to_owned(), each.collect::<Vec<_>>().join("; "));
        }
        facts
    }

    /// Connects to the spawner. Call inside a runtime.
    ///
    /// # Errors
    /// The spawner cannot be reached.
    pub fn attach(self) -> Result<Runtime, RuntimeError> {
        let client = self.spawner.map(SpawnerClient::attach).transpose();
        let client = client
            .map_err(|error| RuntimeError::internal(format!("cannot listen to the spawner: {error}")))?;
        let Self { bubblewrap, engines, images, browser, unboxed, judges, programs, hosted, .. } = self;
        programs.lend(client.clone());
        Ok(Runtime { bubblewrap, engines, images, browser, client, unboxed, judges, programs, hosted })
    }
}

/// A machine with a connected spawner. Its drop waits for the spawner's end, after all providers are dropped.
pub struct Runtime {
    bubblewrap: Option<HostReport>,
    engines: Vec<EngineReport>,
    images: Option<ImageSettings>,
    browser: Option<Browsers>,
    client: Option<SpawnerClient>,
    unboxed: bool,
    judges: Judges,
    programs: Programs,
    hosted: Option<Arc<dyn EnvProvider>>,
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.programs.lend(None);
    }
}

impl Runtime {
    /// Makes providers for one of the plans. Call inside the runtime.
    ///
    /// # Errors
    /// Control groups cannot be created.
    pub fn providers(&self, plan: &RunPlan, settings: ProviderSettings) -> Result<Providers, RuntimeError> {
        // Shared by all providers: two backends of one kind would give the same user ids and control groups.
        let backends = match &self.client {
            Some(client) if !isolation::kinds(&[plan]).is_empty() => self.backends(client, plan)?,
            _ => Backends::new(),
        };
        // The share of open slots is assumed to equal the share of all slots.
        let marks = |needing: u64| {
            let open = (settings.open_slots as u64 * needing).div_ceil(plan.slots.len().max(1) as u64);
            warm_marks(open, plan.limits.concurrency, facts::cpus())
        };
        let mut providers = Providers::new();
        let terminals = expected(plan, |task| match &task.env {
            EnvSpec::Terminal(terminal) => Some(terminal.clone()),
            _ => None,
        });
        if !terminals.is_empty() {
            let provider = TerminalProvider::new(TerminalConfig {
                backends: backends.clone(),
                marks: marks(slots_of(&terminals, |_| true)),
                expected: terminals,
                determinism: plan.determinism.clone(),
                cast_bytes: settings.cast_bytes,
            });
            providers.insert("terminal", Arc::new(provider));
        }
        let repositories = expected(plan, |task| match &task.env {
            EnvSpec::Swe(swe) => Some(swe.as_ref().clone()),
            _ => None,
        });
        if !repositories.is_empty() {
            let provider = SweProvider::new(SweConfig {
                backends: backends.clone(),
                marks: marks(slots_of(&repositories, |_| true)),
                expected: repositories,
                determinism: plan.determinism.clone(),
                cast_bytes: settings.cast_bytes,
            });
            providers.insert("swe", Arc::new(provider));
        }
        let toolcalls = expected(plan, |task| match &task.env {
            EnvSpec::Toolcall(toolcall) => Some(toolcall.clone()),
            _ => None,
        });
        if !toolcalls.is_empty() {
            let provider = ToolcallProvider::new(ToolcallConfig {
                backends: backends.clone(),
                marks: marks(slots_of(&toolcalls, |toolcall| toolcall.workspace.is_some())),
                expected: toolcalls,
                determinism: plan.determinism.clone(),
                secrets: Secrets::new(secrets::of(plan)?),
                judge: self.judges.of_plan(plan),
            });
            providers.insert("toolcall", Arc::new(provider));
        }
        let browsers = expected(plan, |task| match &task.env {
            EnvSpec::Gui(gui) => Some(BrowserKind { sandbox: gui.sandbox, memory_mib: gui.memory_mib }),
            _ => None,
        });
        if let (Some(found), false) = (&self.browser, browsers.is_empty()) {
            let provider = GuiProvider::new(GuiConfig {
                backends: backends.clone(),
                source: found.source.clone(),
                // Sessions of an endpoint are few and may be shared with other users, so none are opened in advance.
                marks: match found.source {
                    BrowserSource::Here(_) => marks(slots_of(&browsers, |_| true)),
                    BrowserSource::Endpoints(_) => WarmMarks { low: 0, high: 0 },
                },
                expected: browsers,
                judge: self.judges.of_plan(plan),
            });
            providers.insert("gui", Arc::new(provider));
        }
        if let Some(task) = plan.tasks.iter().find(|task| matches!(task.env, EnvSpec::InProcess(_))) {
            let hosted = self.hosted.clone().ok_or_else(|| {
                let message =
                    format!("task {} has an environment of the program that wrote its suite", task.id);
                RuntimeError::refused(message).with_help("run that program; it registers the environment")
            })?;
            providers.insert("in_process", hosted);
        }
        for kind in ["process", "http", "openenv"] {
            let customs = expected(plan, |task| match &task.env {
                EnvSpec::Custom(custom) if custom.kind() == kind => Some(custom.clone()),
                _ => None,
            });
            if !customs.is_empty() {
                let provider = CustomProvider::new(CustomConfig {
                    backends: backends.clone(),
                    marks: marks(slots_of(&customs, |custom| custom.workspace().is_some())),
                    expected: customs,
                    determinism: plan.determinism.clone(),
                    run: plan.run.clone(),
                });
                providers.insert(kind, Arc::new(provider));
            }
        }
        Ok(providers)
    }

    /// The judge with these settings, if it was prepared.
    pub fn judge(&self, named: &RemoteSpec) -> Option<Arc<dyn Judge>> {
        self.judges.find(named)
    }

    /// Waits for the programs of the policy. Returns how many have not ended.
    pub(super) async fn programs_ended(&self) -> u32 {
        self.programs.ended().await
    }

    /// Reports images that were removed to make space.
    pub(crate) fn tell_of_images(&self, progress: &dyn Progress) {
        self.images.iter().for_each(|images| images.tell(progress));
    }

    /// One backend for each kind of isolation that plans need.
    fn backends(&self, client: &SpawnerClient, plan: &RunPlan) -> Result<Backends, RuntimeError> {
        let mut backends = Backends::new();
        if let Some(host) = &self.bubblewrap {
            let determinism = plan.determinism.clone();
            let config = BubblewrapConfig { host: host.clone(), run: plan.run.clone(), determinism };
            let backend = BubblewrapBackend::new(client.clone(), config).map_err(RuntimeError::from)?;
            backends.insert(SandboxKind::Bubblewrap, Arc::new(backend));
        }
        if !self.engines.is_empty() {
            let determinism = plan.determinism.clone();
            let images = self.images.as_ref().map(|images| images.keeping(plan));
            let engines = self.engines.clone();
            let config = ContainerConfig { engines, run: plan.run.clone(), determinism, images };
            let backend = ContainerBackend::new(client.clone(), config).map_err(RuntimeError::from)?;
            backends.insert(SandboxKind::Container, Arc::new(backend));
        }
        if self.unboxed {
            let backend = LocalBackend::new(client.clone(), &plan.run, plan.determinism.clone());
            backends.insert(SandboxKind::None, Arc::new(backend));
        }
        Ok(backends)
    }
}

/// Call on the main thread, before anything starts a thread (I1).
pub(super) fn start_spawner() -> Result<Spawner, RuntimeError> {
    Spawner::start().map_err(|error| {
        let help = "`cargo build -p clawrl -p clawrl-sandbox` builds both programs into one folder";
        RuntimeError::unavailable(error.to_string()).with_help(help)
    })
}

/// Providers by kind of environment.
pub type Providers = BTreeMap<&'static str, Arc<dyn EnvProvider>>;

/// Settings of providers that are not part of a plan.
#[derive(Debug, Clone, Copy)]
pub struct ProviderSettings {
    /// Number of slots that will be filled.
    pub open_slots: usize,
    /// Maximum memory of one session's recording, bytes; 0 records nothing.
    pub cast_bytes: usize,
}

/// The different needs of the plan's tasks for one kind of environment, with the number of slots of each.
fn expected<T>(plan: &RunPlan, need: impl Fn(&TaskSpec) -> Option<T>) -> Vec<(T, u32)> {
    let mut slots = vec![0u32; plan.tasks.len()];
    for slot in &plan.slots {
        slots[slot.task.0 as usize] += 1;
    }
    plan.tasks.iter().zip(slots).filter_map(|(task, slots)| Some((need(task)?, slots))).collect()
}

fn slots_of<T>(expected: &[(T, u32)], counts: impl Fn(&T) -> bool) -> u64 {
    expected.iter().filter(|(need, _)| counts(need)).map(|&(_, slots)| u64::from(slots)).sum()
}

/// Reports leftovers of dead processes.
pub(crate) fn tell_of_sweep(report: &SweepReport, progress: &dyn Progress) {
    if report.processes > 0 || report.cgroups > 0 {
        progress.note(format_args!(
            "swept what a dead run had left: {} processes, {} control groups",
            report.processes, report.cgroups
        ));
    }
    for leftover in &report.leftovers {
        progress.warn(format_args!("a dead run left {}, which cannot be removed", leftover.display()));
    }
}

/// Splits `what (why)`.
fn limit_not_set(text: &str) -> LimitNotSet {
    let (limit, reason) = match text.split_once(" (") {
        Some((limit, reason)) => (limit, reason.trim_end_matches(')')),
        None => (text, "this machine has no control group for it"),
    };
    LimitNotSet { limit: limit.to_owned(), reason: reason.to_owned() }
}

/// Environments are made in advance only while slots wait: a run that starts all slots at once would discard the spare ones.
fn warm_marks(open_slots: u64, concurrency: u32, cpus: u32) -> WarmMarks {
    let slots = u32::try_from(open_slots).unwrap_or(u32::MAX);
    let waiting = slots.saturating_sub(concurrency);
    let high = (cpus * WARM_PER_CPU).min(waiting / 4).min(concurrency);
    WarmMarks { low: high.div_ceil(2), high }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spare_environments_have_use() {
        let check = |slots, concurrency, cpus, expected| {
            let marks = warm_marks(slots, concurrency, cpus);
            assert_eq!(
                (marks.low, marks.high),
                expected,
                "{slots} slots, {concurrency} at once, {cpus} cores"
            );
        };
        check(3, 64, 2, (0, 0));
        check(64, 64, 2, (0, 0));
        check(416, 64, 2, (2, 4));
        check(416, 1, 2, (1, 1));
        check(10_000, 256, 64, (64, 128));
    }

    #[test]
    fn limits_are_split_from_their_reasons() {
        let check = |text: &str, limit: &str, reason: &str| {
            let found = limit_not_set(text);
            assert_eq!((found.limit.as_str(), found.reason.as_str()), (limit, reason));
        };
        check("memory of a sandbox (only each own)", "memory of a sandbox", "only each own");
        check("cpu share of a sandbox", "cpu share of a sandbox", "this machine has no control group for it");
    }
}
