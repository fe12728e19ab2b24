//! The steps of a training, from its plan to its page.
//!
//! Each step leaves the input of the next one on disk and is skipped if its output exists: the policy's folder, the run of the
//! demonstrations, the checkpoint of the warm start, evaluations, checkpoints of reinforcement learning. A killed training
//! therefore resumes at the interrupted step.
//!
//! I1. A resumed training is a function of the last checkpoint and the plan: groups that the checkpoint had not consumed run
//! again completely. With `reproducible: true` its result has the same bits as that of an uninterrupted training. I2. Held-out
//! tasks are used for evaluation only.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use clawrl_config::{
    Advantage, DeviceSplit, PolicySource, Preset, RlPlan, TrainPlan, TrainRun, TrainTasks, WarmStartPlan,
};
use clawrl_core::{EnvProvider, EpisodeSink, Policy, RunId, RunPlan, SlotId, SlotSpec};
use clawrl_learn::{CollapseGuard, GroupStream, PolicyLoss, StreamEnd, StreamSnapshot};
use clawrl_record::{
    HeldOut, LockFile, Metric, MetricRow, PassRate, RecordError, ResumeMode, RunEnd, RunStore, RunWriter,
    fall_of, fall_text,
};
use clawrl_remote::Secret;
use clawrl_scheduler::{Demand, Interrupt};
use clawrl_scripted::Demonstrator;
use clawrl_torch::{
    AdapterName, Chat, Checkpoint, Checkpoints, Device, Engine, LearnerConfig, ModelFiles, Params,
    PresetRequest, ReplySampling, TorchPolicy, Turns, Unpublished, configure_threads, init_policy,
    load_merged, policy_files,
};
use tokio::sync::watch;

use super::acceptance::{UpdateAcceptance, UpdateOutcome, accepted_success};
use super::attempt_sink::{attempt_sink, channel_size};
use super::best;
use super::corpus::corpus;
use super::embedded::ADAPTER;
use super::evaluation::{WholeRun, account, held_out, interrupted};
use super::files::TrainingFiles;
use super::hints::HINT_MARK;
use super::judging::{Incoming, ScoredAttempts, TurnJudge};
use super::layout::Layout;
use super::learning::{Learning, LoopChannels, gave_up, now_ms, progress_of, vitals};
use super::libtorch::{check_libtorch, gpus};
use super::no_signal::NoSignalGuard;
use super::settings;
use super::setup::{LearnerStart, unusable};
use super::teacher::{Arriving, RemoteTeacher};
use super::versions::{VersionLog, checkpoints_of};
use super::warm_start::{Demonstrations, Imitation};
use clawrl_runtime::host::{capacity, facts, room};
use clawrl_runtime::training::{TrainError, TrainOutcome, TrainRequest, TrainStart};
use clawrl_runtime::{Executor, FirstInterrupt, Machine, Progress, Work, key_of, refuse_unseen_pictures};

/// Maximum terminal recording of one session, bytes. Only evaluations record terminals, because people look at those.
const EVALUATION_CAST_BYTES: usize = 64 << 10;

/// State that the steps share.
pub(super) struct Session<'a> {
    pub(super) plan: TrainPlan,
    /// Slots of reinforcement learning.
    slots: Vec<SlotSpec>,
    /// The family number of each task of reinforcement learning.
    kinds: Vec<u32>,
    pub(super) tasks: TrainTasks,
    pub(super) files: TrainingFiles,
    pub(super) policy_folder: PathBuf,
    /// The learner's device.
    pub(super) device: Device,
    /// Shares a device between the learner and the sampler.
    pub(super) turns: Turns,
    executor: &'a Executor,
    /// The judge of turns, if the plan has one.
    judge: Option<Arc<TurnJudge>>,
    /// The key of the teacher's server, if it requires one.
    teacher_key: Option<Secret>,
    progress: Arc<dyn Progress>,
}

/// The judge of reinforcement learning's turns, if the plan has one.
fn turn_judge(plan: &TrainPlan, executor: &Executor) -> Result<Option<Arc<TurnJudge>>, TrainError> {
    let Some((rl, judging)) = plan.rl.as_ref().and_then(|rl| Some((rl, rl.judging.as_ref()?))) else {
        return Ok(None);
    };
    let model = judging.judge.as_deref().and_then(|named| executor.runtime().judge(named));
    TurnJudge::new(rl, judging, model, plan.seed).map(|judge| Some(Arc::new(judge)))
}

/// The number of each task's family in the alphabetical order of all suites' families.
fn kinds<'a>(suites_and_families: impl Iterator<Item = (&'a str, &'a str)> + Clone) -> Vec<u32> {
    let names: BTreeSet<(&str, &str)> = suites_and_families.clone().collect();
    let numbers: BTreeMap<(&str, &str), u32> = names.into_iter().zip(0..).collect();
    suites_and_families.map(|name| numbers[&name]).collect()
}

/// A training whose plan fits the host, before anything is started.
pub struct Trainer {
    plan: TrainPlan,
    split: DeviceSplit,
    tasks: TrainTasks,
    layout: Layout,
    teacher_key: Option<Secret>,
    is_named: bool,
    start: TrainStart,
    progress: Arc<dyn Progress>,
    hosted: Option<Arc<dyn EnvProvider>>,
}

impl Trainer {
    /// Checks the plan against suites, policy and host. Nothing is written.
    ///
    /// # Errors
    /// The plan is invalid, or the host lacks something.
    pub fn plan(request: TrainRequest, progress: Arc<dyn Progress>) -> Result<Self, TrainError> {
        check_libtorch()?;
        let TrainRequest { plan, run, is_named, results, start } = request;
        let split = room::split(&plan, gpus(plan.engine.device)?)?;
        let tasks = TrainTasks::load(&plan)?;
        for warning in tasks.warnings() {
            progress.file_warning(warning);
        }
        let layout = Layout::new(run, results, &plan, &tasks, start)?;
        layout.plans().into_iter().try_for_each(refuse_unseen_pictures)?;
        room::budget(&plan, &split, layout.rl.limits.concurrency)?;
        let teacher = plan.rl.as_ref().and_then(|rl| rl.distillation.as_ref()?.remote.as_ref());
        let teacher_key = teacher.map(|teacher| key_of(&teacher.server)).transpose()?.flatten();
        Ok(Self { plan, split, tasks, layout, teacher_key, is_named, start, progress, hosted: None })
    }

    /// Provides the environments of kind `in_process`.
    #[must_use]
    pub fn hosting(self, environments: Arc<dyn EnvProvider>) -> Self {
        Self { hosted: Some(environments), ..self }
    }

    /// Trains. Blocks. Call on the main thread, before anything starts a thread: the host's spawner needs that.
    ///
    /// # Errors
    /// The host lacks something, an operation failed, or a signal ended the training. It can be resumed after the last two.
    pub fn run(self) -> Result<TrainOutcome, TrainError> {
        let Self { plan, split, tasks, mut layout, teacher_key, is_named, start, progress, hosted } = self;
        let judging = plan.rl.as_ref().and_then(|rl| rl.judging.as_ref());
        let judge = judging.and_then(|judging| judging.judge.as_deref());
        let mut machine = Machine::prepare_judged(&layout.plans(), judge, &*progress)?;
        if let Some(environments) = hosted {
            machine = machine.hosting(environments);
        }
        let lock = LockFile::new(&layout.rl, facts::PROGRAM, machine.facts(), machine.limits_not_set());
        if start == TrainStart::New {
            layout = layout.create(is_named, &plan, &tasks, &lock)?;
        }
        let Layout { files, policy_folder, rl: rl_plan, demonstrations, .. } = layout;
        progress.training_started(files.run());
        // Held to the end: between two stretches no writer holds the run, but other processes must not take it.
        let _alone = files.lock()?;
        let executor = Executor::start(machine, FirstInterrupt::Drain, Arc::clone(&progress))?;
        let judge = turn_judge(&plan, &executor)?;
        let takes_turns = plan.engine.turns.unwrap_or_else(|| split.shares_a_gpu());
        let session = Session {
            plan,
            judge,
            teacher_key,
            kinds: kinds(rl_plan.tasks.iter().map(|task| (task.suite.as_str(), task.family.as_str()))),
            slots: rl_plan.slots,
            tasks,
            files,
            policy_folder,
            device: if split.learner.is_empty() {
                Device::Cpu
            } else {
                Device::Cuda(split.learner.start as usize)
            },
            turns: if takes_turns { Turns::shared() } else { Turns::default() },
            executor: &executor,
            progress,
        };
        let trained = session.run(demonstrations);
        drop(session);
        executor.end();
        trained
    }
}

impl Session<'_> {
    fn run(&self, demonstrations: Option<RunPlan>) -> Result<TrainOutcome, TrainError> {
        let about = self.tasks.describe();
        self.progress.step(format_args!(
            "{} tasks of {} families to train on; {} held out, {} of them for evaluation",
            about.train_tasks,
            about.families.len(),
            about.held_out_tasks,
            about.evaluation_tasks
        ));
        self.make_policy()?;
        // Imitation runs alone on this thread and may use every core, unless results have to be the same on machines with other
        // core counts.
        let all = if self.plan.reproducible { 1 } else { facts::cpus() };
        configure_threads(settings::threads(self.plan.engine.of_learner().max(all))).map_err(|error| {
            TrainError::unavailable(error.to_string()).with_help("`clawrl doctor` looks at everything")
        })?;
        let model = policy_files(&self.policy_folder).map_err(unusable)?;
        let chat = Arc::new(Chat::load(&model).map_err(|error| TrainError::refused(error.to_string()))?);
        let teacher = self.remote_teacher(&chat, &model)?;
        let checkpoint = match self.last_checkpoint()? {
            Some(checkpoint) => checkpoint,
            None => {
                self.warm_start(&chat, demonstrations)?;
                let missing = || TrainError::internal("the checkpoint of the warm start is not there");
                self.last_checkpoint()?.ok_or_else(missing)?
            }
        };
        let updates = progress_of(&checkpoint.progress)?.updates;
        VersionLog::of(&self.files).add_found(checkpoint.version, checkpoint.branch, updates)?;
        match &self.plan.rl {
            Some(rl) => self.reinforce(rl, chat, checkpoint, teacher),
            None => self.judge_imitation(&chat, &checkpoint),
        }
    }

    /// The remote teacher, if there is one, checked before any episode.
    fn remote_teacher(
        &self,
        chat: &Arc<Chat>,
        model: &ModelFiles,
    ) -> Result<Option<Arc<RemoteTeacher>>, TrainError> {
        let Some(rl) = &self.plan.rl else { return Ok(None) };
        let config = model.read_config().map_err(unusable)?;
        let most_tokens = usize::try_from(config.max_position_embeddings).unwrap_or_default();
        let teacher = RemoteTeacher::new(rl, self.teacher_key.clone(), chat, most_tokens)?;
        if let Some(teacher) = &teacher {
            self.executor.handle().block_on(teacher.look())?;
        }
        Ok(teacher)
    }

    /// Evaluates the result of imitation, for a training without reinforcement learning.
    fn judge_imitation(&self, chat: &Arc<Chat>, checkpoint: &Checkpoint) -> Result<TrainOutcome, TrainError> {
        let engine = self.engine(checkpoint.version, &checkpoint.params, None)?;
        let mut evaluated = best::recorded(&self.files, &self.plan, 0)?;
        if evaluated.is_empty() {
            evaluated.push(self.evaluate(0, checkpoint.version, &engine, chat)?);
        }
        self.end(0, checkpoint.version, &evaluated)
    }

    /// Creates the preset's folder, unless it exists.
    fn make_policy(&self) -> Result<(), TrainError> {
        let PolicySource::Preset(preset) = &self.plan.policy else { return Ok(()) };
        if ModelFiles::of(&self.policy_folder).config().exists() {
            return Ok(());
        }
        let preset = match preset {
            Preset::Tiny => clawrl_torch::Preset::Tiny,
        };
        let mut texts = corpus(self.tasks.train().map(|task| &**task));
        let hinted = self.plan.warm_start.as_ref().is_some_and(|warm_start| warm_start.hinted_percent > 0);
        let taught = self.plan.rl.as_ref().is_some_and(|rl| rl.distillation.is_some());
        texts.extend((hinted || taught).then(|| HINT_MARK.to_owned()));
        let request = PresetRequest { preset, seed: self.plan.seed, texts: &texts, positions: None };
        let summary = init_policy(&self.policy_folder, &request)
            .map_err(|error| TrainError::storage(error.to_string()))?;
        self.progress.step(format_args!(
            "a policy from nothing: {} parameters, vocabulary of {}",
            summary.parameters, summary.vocab_size
        ));
        Ok(())
    }

    pub(super) fn checkpoints(&self) -> Checkpoints {
        checkpoints_of(&self.files, self.plan.checkpoint)
    }

    fn last_checkpoint(&self) -> Result<Option<Checkpoint>, TrainError> {
        let found = self.checkpoints().latest().map_err(unusable)?;
        for damaged in &found.damaged {
            self.progress.warn(format_args!("passed over: {damaged}"));
        }
        Ok(found.checkpoint)
    }

    /// Imitates demonstrations and writes checkpoint 0.
    fn warm_start(&self, chat: &Chat, plan: Option<RunPlan>) -> Result<(), TrainError> {
        // Without a warm start nothing is computed, so no GPU memory is used.
        let device = if self.plan.warm_start.is_some() { self.device } else { Device::Cpu };
        // An initial adapter is merged into the model.
        let params = load_merged(&self.policy_folder, device).map_err(unusable)?;
        let params = match (&self.plan.warm_start, plan) {
            (Some(warm_start), Some(plan)) => self.imitate(warm_start, plan, chat, params)?,
            _ => params,
        };
        // This learner only writes the checkpoint.
        let reinforcing = || {
            let rl = self.plan.rl.as_ref()?;
            let (loss, teacher) = (PolicyLoss::default(), None);
            Some(LearnerConfig { loss, teacher, ..settings::learner(rl, 1) })
        };
        let config = self.plan.warm_start.as_ref().map(settings::imitator).or_else(reinforcing);
        let config = config.ok_or_else(|| TrainError::internal("the training trains nothing"))?;
        let mut learner = self.learner(config, LearnerStart::whole(params), Box::new(Unpublished))?;
        let progress = serde_json::to_string(&StreamSnapshot::at(0))
            .map_err(|error| TrainError::internal(format!("progress cannot be written: {error}")))?;
        clawrl_learn::Learner::checkpoint(&mut learner, &progress).map_err(|error| gave_up(&error))
    }

    fn imitate(
        &self,
        warm_start: &WarmStartPlan,
        plan: RunPlan,
        chat: &Chat,
        params: Params,
    ) -> Result<Params, TrainError> {
        self.progress.step(format_args!(
            "{} demonstrations in real environments, right on purpose in {} %",
            warm_start.demonstrations, warm_start.oracle_percent
        ));
        let demonstrator = Demonstrator::new(warm_start.oracle_percent, plan.seed, (&plan).into());
        let demonstrator = demonstrator
            .ok_or_else(|| TrainError::refused("`oracle_percent` is a whole number from 0 to 100"))?;
        let run = self.whole(plan, Arc::new(demonstrator), 0).fill()?;
        let demonstrations = Demonstrations::read(&run, chat)?;
        self.progress.step(format_args!(
            "{} of {} demonstrations passed; all that finished are imitated",
            demonstrations.passed, demonstrations.attempts
        ));
        let config = settings::imitator(warm_start);
        let mut learner = self.learner(config, LearnerStart::whole(params), Box::new(Unpublished))?;
        let imitation = Imitation {
            plan: warm_start,
            chat,
            interchangeable: self.tasks.interchangeable(),
            seed: self.plan.seed,
        };
        let rows = demonstrations.imitate(
            &mut learner,
            &imitation,
            || self.executor.interrupt(),
            &*self.progress,
        )?;
        self.keep_metrics(rows)?;
        Ok(learner.params().share())
    }

    /// The collapse detector; for a resumed training, with the metrics of its updates.
    fn guard(&self, rl: &RlPlan, updates: u32) -> Result<Option<CollapseGuard>, TrainError> {
        let Some(bounds) = settings::collapse_bounds(&rl.guards) else { return Ok(None) };
        let figures = RunStore::open(self.files.results())?.run(self.files.run())?.updates()?;
        let mut guard = CollapseGuard::new(bounds);
        for figures in figures.iter().filter(|figures| figures.update <= u64::from(updates)) {
            if let Some(now) = vitals(|name| figures.get(name)) {
                guard.after(now);
            }
        }
        Ok(Some(guard))
    }

    /// Trains from a checkpoint to the last update, with the evaluations that are due.
    fn reinforce(
        &self,
        rl: &RlPlan,
        chat: Arc<Chat>,
        checkpoint: Checkpoint,
        teacher: Option<Arc<RemoteTeacher>>,
    ) -> Result<TrainOutcome, TrainError> {
        let snapshot = progress_of(&checkpoint.progress)?;
        let (engine, learner) = self.take_up(rl, checkpoint, snapshot.accepted())?;

        let stream_config = settings::stream(rl, self.plan.seed);
        let stream = GroupStream::new(stream_config, &self.slots, &self.kinds, snapshot.clone()).map_err(|error| {
            let help =
                "checkpoint and journal do not belong together; restore both from one copy, or train anew";
            TrainError::storage(format!("the checkpoint does not fit the plan: {error}")).with_help(help)
        })?;
        let mut learning = Learning {
            rl: rl.clone(),
            checkpointed: snapshot.version,
            parent: snapshot.accepted(),
            versions: VersionLog::of(&self.files),
            learner,
            stream,
            chat: Arc::clone(&chat),
            checkpoint_every: self.plan.checkpoint.every_updates,
            progress: Arc::clone(&self.progress),
            unsettled: BTreeMap::new(),
            unreadable: 0,
            no_signal: NoSignalGuard::default(),
            guard: self.guard(rl, snapshot.updates)?,
            gate: rl.gate.map(UpdateAcceptance::new),
            teacher,
        };
        learning.versions.forget_rejected_after(snapshot.version)?;
        // After a kill: groups that the checkpoint had not consumed run again completely.
        let mut mode = ResumeMode::RollBack {
            update: u64::from(snapshot.updates),
            consumed: snapshot.consumed.iter().collect::<BTreeSet<_>>(),
        };
        let mut evaluated = best::recorded(&self.files, &self.plan, snapshot.updates)?;
        // A process killed in between may not have stored all evaluations.
        best::keep(&self.files, &self.plan, &evaluated)?;
        loop {
            let at = learning.updates();
            let is_of_now = |past: &HeldOut| past.updates == u64::from(at) && !past.by_gate;
            if self.plan.evaluation.is_due(at, rl.updates) && !evaluated.iter().any(is_of_now) {
                learning.publish()?;
                let version = clawrl_learn::Learner::version(&learning.learner);
                let held_out = self.evaluate(at, version, &engine, &chat)?;
                self.keep_evaluation(&mut evaluated, held_out)?;
            }
            if at >= rl.updates {
                break;
            }
            if self.executor.interrupt() != Interrupt::None {
                return Err(interrupted());
            }
            let stops = |update: u32| {
                let is_gated = rl.gate.is_some_and(|gate| gate.evaluates(update));
                is_gated || self.plan.evaluation.is_due(update, rl.updates)
            };
            let target = (at + 1..=rl.updates).find(|&update| stops(update));
            self.stretch(
                &mut learning,
                target.unwrap_or(rl.updates),
                &engine,
                &chat,
                std::mem::take(&mut mode),
            )?;
            if let Some(held_out) = self.try_candidate(&mut learning, &chat)? {
                self.keep_evaluation(&mut evaluated, held_out)?;
            }
            match learning.end() {
                Some(StreamEnd::PlanExhausted) => {
                    let (why, help) = match rl.advantage {
                        Advantage::Running => (
                            "too many faulted",
                            "`clawrl show` tells of the faults; a larger `resample_budget` has spare groups",
                        ),
                        _ => (
                            "too many had the same reward for all",
                            "a warm start that is right sometimes, easier tasks or a larger `resample_budget` help",
                        ),
                    };
                    let updates = learning.updates();
                    let message =
                        format!("after {updates} updates there are no more groups to sample: {why}");
                    return Err(TrainError::aborted(message).with_help(help));
                }
                Some(StreamEnd::Cancelled) => return Err(interrupted()),
                Some(StreamEnd::Updates) | None => {}
            }
        }
        let version = clawrl_learn::Learner::version(&learning.learner);
        self.end(learning.updates(), version, &evaluated)
    }

    /// Stores an evaluation with the earlier ones, in place of the same version's evaluation as a candidate, and warns of a drop.
    fn keep_evaluation(&self, evaluated: &mut Vec<HeldOut>, held_out: HeldOut) -> Result<(), TrainError> {
        evaluated.retain(|past| past.updates != held_out.updates);
        evaluated.push(held_out);
        best::keep(&self.files, &self.plan, evaluated)?;
        if let Some(words) = best::warning(&self.files, evaluated) {
            self.progress.warn(format_args!("{words}"));
        }
        Ok(())
    }

    /// Journals that the training is over and writes its page.
    fn end(&self, updates: u32, version: u64, evaluated: &[HeldOut]) -> Result<TrainOutcome, TrainError> {
        self.finish()?;
        best::keep(&self.files, &self.plan, evaluated)?;
        let rate = |held_out: &HeldOut| (held_out.updates, held_out.rate());
        Ok(TrainOutcome {
            run: self.files.run().clone(),
            updates,
            held_out: evaluated.iter().map(rate).collect(),
            evaluated: evaluated.to_vec(),
            best: best::best_version(&self.files, evaluated),
            fall: fall_of(evaluated).map(fall_text),
            page: self.files.page(),
            policy: self.files.model_of(version),
        })
    }

    /// Learns up to an update while the scheduler fills slots.
    fn stretch(
        &self,
        learning: &mut Learning,
        target: u32,
        engine: &Engine,
        chat: &Arc<Chat>,
        mode: ResumeMode,
    ) -> Result<(), TrainError> {
        let (writer, plan, state) = RunWriter::resume(self.files.results(), self.files.run(), mode)?;
        let (demand, wanted) = watch::channel(Demand { groups: learning.wanted(), closed: false });
        let (kept, resolved) = attempt_sink(Arc::new(writer.sink()), plan.limits.concurrency);
        let sampling = learning.rl.sampling;
        let policy = self.policy(
            engine,
            chat,
            ReplySampling {
                max_new_tokens: sampling.max_new_tokens,
                temperature: sampling.temperature_milli as f32 / 1000.0,
            },
        );
        let plan = Arc::new(plan);
        let work = Work {
            plan: Arc::clone(&plan),
            open_slots: state.open_slots,
            first_epoch: state.next_epoch,
            attempt_numbers: (0..).map(SlotId).zip(state.next_numbers).collect::<BTreeMap<_, _>>(),
            demand: Some(wanted),
            policy,
            sink: Arc::new(kept) as Arc<dyn EpisodeSink>,
            metrics: Some(writer.sink()),
            cast_bytes: 0,
            is_shown: false,
        };
        let (resolved, judging) = match &self.judge {
            None => (resolved, None),
            Some(judge) => {
                let incoming = Incoming {
                    plan: Arc::clone(&plan),
                    resolved,
                    capacity: channel_size(plan.limits.concurrency),
                    sink: writer.sink(),
                    interrupts: self.executor.interrupts(),
                };
                let ScoredAttempts { attempts, task } = judge.judge_all(incoming, &self.executor.handle());
                (attempts, Some(task))
            }
        };
        let (resolved, teaching) = match &learning.teacher {
            None => (resolved, None),
            Some(teacher) => {
                let arriving = Arriving {
                    plan: Arc::clone(&plan),
                    resolved,
                    capacity: channel_size(plan.limits.concurrency),
                    interrupts: self.executor.interrupts(),
                };
                let ScoredAttempts { attempts, task } = teacher.teach_all(arriving, &self.executor.handle());
                (attempts, Some(task))
            }
        };
        let channels =
            LoopChannels { plan, resolved, demand, metrics: writer.sink(), runtime: self.executor.handle() };
        let threads = settings::threads(self.plan.engine.of_learner());
        let (ended, learned) = thread::scope(|scope| {
            let learner =
                thread::Builder::new().name("clawrl-learner".to_owned()).spawn_scoped(scope, || {
                    configure_threads(threads).map_err(|error| TrainError::unavailable(error.to_string()))?;
                    learning.until(target, channels)
                });
            let learner = learner
                .map_err(|error| TrainError::unavailable(format!("the learner has no thread: {error}")))?;
            let ended = self.executor.run(work);
            let learned = learner.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Ok::<_, TrainError>((ended, learned))
        })?;
        // The tasks end with the scheduler's run or with the learner.
        for task in judging.into_iter().chain(teaching) {
            if let Err(error) = self.executor.handle().block_on(task)
                && error.is_panic()
            {
                std::panic::resume_unwind(error.into_panic());
            }
        }
        // The learner's error has priority: the scheduler ended because of it.
        learned?;
        account(ended?, &*self.progress)?;
        writer.close()?;
        let waiting = u32::from(learning.candidate().is_some());
        if learning.updates() + waiting < target && self.executor.interrupt() != Interrupt::None {
            return Err(interrupted());
        }
        Ok(())
    }

    /// Journals the end of the training, unless that was done: after the last evaluation, because the entry contains its metrics.
    fn finish(&self) -> Result<(), TrainError> {
        let run = RunStore::open(self.files.results())?.run(self.files.run())?;
        if run.state().is_none_or(|state| state.finished().is_none()) {
            let (writer, ..) =
                RunWriter::resume(self.files.results(), self.files.run(), ResumeMode::OpenSlots)?;
            writer.finish(RunEnd::DemandClosed)?;
        }
        Ok(())
    }

    /// Evaluates the candidate with a separate sampler and decides whether it may act. Returns the evaluation if it may.
    fn try_candidate(
        &self,
        learning: &mut Learning,
        chat: &Arc<Chat>,
    ) -> Result<Option<HeldOut>, TrainError> {
        let Some(candidate) = learning.candidate() else { return Ok(None) };
        let began = std::time::Instant::now();
        let run = self.files.gate_evaluation(candidate.updates)?;
        let store = RunStore::open(self.files.results())?;
        // The run of a killed process: its candidate may have had other bits.
        match store.remove_run(&run) {
            Ok(()) | Err(RecordError::NoSuchRun { .. }) => {}
            Err(other) => return Err(other.into()),
        }
        let learner = &learning.learner;
        let engine = self.engine(candidate.version, learner.params(), learner.base())?;
        let held_out = self.measure(run, candidate.updates, candidate.version, &engine, chat)?;
        drop(engine);
        let ((passed, tried), success) = (held_out.total(), held_out.rate().value);
        self.progress.step(format_args!(
            "held-out, greedy, of version {} before it acts: {:.1} % ({passed} of {tried})",
            candidate.version,
            100.0 * success
        ));
        let before = accepted_success(&store.run(self.files.run())?.updates()?);
        let (outcome, mut figures) = learning.decide(success, before)?;
        figures.push((Metric::TrainEvaluationSeconds, began.elapsed().as_secs_f64()));
        self.keep_metrics(MetricRow::of_update(now_ms(), u64::from(candidate.updates), &figures))?;
        learning.checkpoint()?;
        learning.halt_if_hopeless(outcome)?;
        Ok((outcome == UpdateOutcome::Accepted).then_some(HeldOut { by_gate: true, ..held_out }))
    }

    /// A greedy run of a sampler's policy over the held-out tasks.
    fn measure(
        &self,
        run: RunId,
        updates: u32,
        version: u64,
        engine: &Engine,
        chat: &Arc<Chat>,
    ) -> Result<HeldOut, TrainError> {
        let plan =
            self.tasks.evaluation_plan(&self.policy_folder, &TrainRun { run, host: capacity::probe() })?;
        let max_new_tokens = self.plan.evaluation.max_new_tokens;
        let policy = self.policy(engine, chat, ReplySampling { max_new_tokens, temperature: 0.0 });
        let run = self.whole(plan, policy, EVALUATION_CAST_BYTES).fill()?;
        Ok(held_out(&run, updates, version))
    }

    /// Greedy success of the acting version, which equals the checkpoint of `version`.
    fn evaluate(
        &self,
        at: u32,
        version: u64,
        engine: &Engine,
        chat: &Arc<Chat>,
    ) -> Result<HeldOut, TrainError> {
        let began = std::time::Instant::now();
        let branch = VersionLog::of(&self.files).branches().get(&at).copied();
        let held_out = self.measure(self.files.evaluation(at, branch)?, at, version, engine, chat)?;
        let ((passed, tried), PassRate { value, low, high }) = (held_out.total(), held_out.rate());
        self.progress.step(format_args!(
            "held-out, greedy, after {at} updates: {:.1} % ({passed} of {tried}; 95 % interval {:.1} to {:.1} %)",
            100.0 * value,
            100.0 * low,
            100.0 * high
        ));
        if held_out.faulted > 0 {
            self.progress.warn(format_args!("{} held-out tasks faulted and are left out", held_out.faulted));
        }
        // The update's own metric belongs to the version that the update made.
        if branch.is_some() {
            return Ok(held_out);
        }
        self.keep_metrics(MetricRow::of_update(
            now_ms(),
            u64::from(at),
            &[
                (Metric::TrainHeldOutSuccessRatio, value),
                (Metric::TrainHeldOutTasksCount, tried as f64),
                (Metric::TrainEvaluationSeconds, began.elapsed().as_secs_f64()),
            ],
        ))?;
        Ok(held_out)
    }

    fn policy(&self, engine: &Engine, chat: &Arc<Chat>, sampling: ReplySampling) -> Arc<dyn Policy> {
        let name = format!("torch:{}", self.files.run());
        let lora = self.plan.rl.as_ref().and_then(|rl| rl.lora.as_ref());
        let adapter = lora.map(|_| AdapterName::from(ADAPTER));
        Arc::new(TorchPolicy::new(name, engine.handle(), Arc::clone(chat), sampling).with_adapter(adapter))
    }

    fn whole(&self, plan: RunPlan, policy: Arc<dyn Policy>, cast_bytes: usize) -> WholeRun<'_> {
        WholeRun {
            executor: self.executor,
            files: &self.files,
            plan,
            policy,
            cast_bytes,
            progress: &*self.progress,
        }
    }

    /// Adds metrics to the training's own record.
    fn keep_metrics(&self, rows: Vec<MetricRow>) -> Result<(), TrainError> {
        let (writer, ..) = RunWriter::resume(self.files.results(), self.files.run(), ResumeMode::OpenSlots)?;
        let kept = self.executor.handle().block_on(writer.sink().metrics(rows));
        writer.close()?;
        kept.map_err(|error| TrainError::storage(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_of_one_name_in_two_suites_are_two() {
        let tasks = [("b", "x"), ("a", "x"), ("b", "x"), ("a", "y")];
        assert_eq!(kinds(tasks.into_iter()), [2, 0, 2, 1]);
    }
}
