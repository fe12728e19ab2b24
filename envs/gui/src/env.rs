//! A browser for one episode.
//!
//! I1. Grading inspects pages, storage and requests while they exist, and nothing that the agent wrote.
//! I2. Dropping a step future poisons the environment, and its browser is ended, not reused.
//! I3. The same seed and the same actions give the same observations, if the pages are deterministic.
//!
//! Cancellation: `ctx.cancel` ends a step early; after that the environment can only be closed. Dropping the
//! environment ends its browser.

use std::sync::Arc;
use std::time::Duration;

use clawrl_core::{
    AttemptId, BlobError, BlobRef, BlobStore, Boundary, BoxFuture, Check, CheckReport, CheckSpec,
    CloseReport, Env, EnvSpec, Fault, Grade, GuiSpec, LeaseRequest, Limit, Observation, PageCheck, Progress,
    Screenshots, StepCtx, StepResult, StopReason, TaskSpec, ToolCall, fit_texts,
};
use clawrl_workspace::{JudgeContext, JudgeReports, check_answer};
use serde_json::Map;

use crate::action::{Action, parse, tools};
use crate::browser::no_downloads;
use crate::browser_session::{BrowserSession, PageSnapshot};
use crate::checks::{compared, invalid, judge};
use crate::page::{PageError, within};
use crate::picture::MEDIA_TYPE;
use crate::provider::Shared;

/// The [`Env`] of kind `gui`.
pub(crate) struct GuiEnv {
    shared: Arc<Shared>,
    task: Arc<TaskSpec>,
    attempt: AttemptId,
    seed: u64,
    answer: Option<String>,
    blobs: Arc<dyn BlobStore>,
    /// `None` after `close`, and when it cannot be reused.
    session: Option<BrowserSession>,
    progress: Progress,
    /// Whether a step reached its limit.
    spent: bool,
}

impl GuiEnv {
    pub(crate) fn new(shared: Arc<Shared>, request: LeaseRequest, session: BrowserSession) -> Self {
        let LeaseRequest { task, attempt, seed, blobs, .. } = request;
        let (session, progress) = (Some(session), Progress::default());
        Self { shared, task, attempt, seed, answer: None, blobs, session, progress, spent: false }
    }

    fn session(&mut self) -> Result<&mut BrowserSession, Fault> {
        self.session.as_mut().ok_or_else(Progress::closed)
    }

    async fn prepare(&mut self) -> Result<Observation, Fault> {
        let task = Arc::clone(&self.task);
        let spec = spec_of(&task)?;
        let (seed, shared) = (self.seed, Arc::clone(&self.shared));
        let sites = Arc::new(shared.sites.open(spec).await?);
        let session = self.session()?;
        let is_of_downloads =
            |spec: &CheckSpec| matches!(spec.check, Check::Page(PageCheck::Downloaded { .. }));
        session.is_for_downloads = task.checks.iter().any(is_of_downloads);
        if session.downloads_folder.is_none() && session.is_for_downloads {
            return Err(no_downloads());
        }
        session.proxy.open(Arc::clone(&sites));
        session.sites = Some(sites);
        if !spec.files.is_empty() {
            session.put(shared.fixtures.read(spec.files.clone()).await?).await?;
        }
        let snapshot = session.begin(spec, seed).await?;
        session.must_have_served(Boundary::Env)?;
        let observation = self.observed(&snapshot, Vec::new(), false).await?;
        Ok(Observation { tools: tools(spec.screenshots.on_request()), ..observation })
    }

    async fn act(&mut self, calls: &[ToolCall]) -> Result<StepResult, Fault> {
        let task = Arc::clone(&self.task);
        let spec = spec_of(&task)?;
        let mut refused = Vec::new();
        let mut asked = false;
        for (number, call) in calls.iter().enumerate() {
            let action = match parse(call) {
                Ok(action) => action,
                Err(why) => {
                    refused.push(why);
                    break;
                }
            };
            if let Action::Submit(answer) = action {
                self.answer = answer;
                return Ok(StepResult {
                    observation: Observation::from_text("submitted"),
                    end: Some(StopReason::Submitted),
                    process_reward: None,
                });
            }
            if action == Action::Screenshot {
                if !spec.screenshots.on_request() {
                    refused.push("this task has no tool `screenshot`".to_owned());
                    break;
                }
                asked = true;
                continue;
            }
            let session = self.session()?;
            let done = match number {
                0 => session.act(&action, spec).await,
                _ => session.act_next(&action, spec).await,
            };
            match done {
                // The next call may answer a dialog that opened meanwhile.
                Ok(None) | Err(PageError::Dialog) => {}
                // Later calls assume that this one succeeded.
                Ok(Some(why)) => {
                    refused.push(why);
                    break;
                }
                Err(PageError::NoTab | PageError::Left) => break,
                Err(PageError::Refused(why)) => {
                    refused.push(why);
                    break;
                }
                Err(trouble) => return Err(trouble.fault()),
            }
        }
        let session = self.session()?;
        let snapshot = session.snapshot(spec).await?;
        session.must_have_served(Boundary::Env)?;
        let observation = self.observed(&snapshot, refused, asked).await?;
        let session = self.session()?;
        let end = match &spec.end_when {
            Some(expression) if snapshot.dialog.is_none() => {
                match within(session.page().is_true(expression)).await {
                    Ok(Ok(done)) => done.then(|| StopReason::Ended("page-done".to_owned())),
                    Ok(Err(why)) => {
                        let message = format!("failed to evaluate `end_when`: {why}");
                        return Err(Fault::permanent(Boundary::Env, "end-when", message));
                    }
                    // The next snapshot shows what has happened since.
                    Err(PageError::Dialog | PageError::NoTab | PageError::Left) => None,
                    Err(trouble) => return Err(trouble.fault()),
                }
            }
            _ => None,
        };
        Ok(StepResult { observation, end, process_reward: None })
    }

    /// The observation of a snapshot, with a picture if the task requires one or the agent `asked` for one.
    async fn observed(
        &mut self,
        snapshot: &PageSnapshot,
        mut refused: Vec<String>,
        asked: bool,
    ) -> Result<Observation, Fault> {
        let task = Arc::clone(&self.task);
        let spec = spec_of(&task)?;
        let with_every = matches!(spec.screenshots, Screenshots::Recorded | Screenshots::Shown);
        if !asked && !with_every {
            return Ok(observation(snapshot, &refused, spec));
        }
        match self.picture().await? {
            Ok(blob) => {
                let mut observation = observation(snapshot, &refused, spec);
                if asked || spec.screenshots == Screenshots::Shown {
                    observation.parts.push(blob.into());
                } else {
                    observation.pictures.push(blob);
                }
                Ok(observation)
            }
            Err(why) => {
                if asked {
                    refused.push(format!("there is no picture: {why}"));
                }
                let mut observation = observation(snapshot, &refused, spec);
                observation.facts.insert("no_picture".to_owned(), why.into());
                Ok(observation)
            }
        }
    }

    /// The inner error explains why there is no picture.
    async fn picture(&mut self) -> Result<Result<BlobRef, String>, Fault> {
        let bytes = match self.session()?.picture().await {
            Ok(bytes) => bytes,
            Err(why) => return Ok(Err(why.to_string())),
        };
        match self.blobs.keep(MEDIA_TYPE, bytes).await {
            Ok(blob) => Ok(Ok(blob)),
            Err(error @ BlobError::TooLarge { .. }) => Ok(Err(error.to_string())),
            // The record would drop other content as well.
            Err(error) => {
                let message = format!("failed to store a picture: {error}");
                Err(Fault::permanent(Boundary::Harness, "not-recorded", message))
            }
        }
    }

    async fn judged(&mut self, ctx: &StepCtx) -> Result<Grade, Fault> {
        let task = Arc::clone(&self.task);
        let spec = spec_of(&task)?;
        let session = self.session()?;
        let readable = session.rest(spec).await.map_err(of_grader)?;
        session.must_have_served(Boundary::Grader)?;
        let mut reports: Vec<Option<CheckReport>> = Vec::new();
        let mut has_downloads = false;
        for spec in &task.checks {
            reports.push(match &spec.check {
                Check::Page(PageCheck::Downloaded { .. }) => {
                    has_downloads = true;
                    None
                }
                Check::Rubric { .. } => None,
                Check::Answer(check) => Some(check_answer(check, self.answer.as_deref())?.report(spec)),
                Check::Page(check) if !readable && is_of_page(check) => {
                    let message = "the page opens one dialog after another and cannot be read".to_owned();
                    Some(CheckReport { label: spec.label.clone(), score: 0.0, weight: spec.weight, message })
                }
                Check::Page(check) => Some(judge(self.session()?, spec, check).await?),
                other => return Err(invalid(format!("not a check of GUI tasks: {other:?}"))),
            });
        }
        if has_downloads {
            // The browser can write to the folder of its files: end everything that could before trusting them.
            let mut session = self.session.take().ok_or_else(Progress::closed)?;
            session.seal().await.map_err(of_grader)?;
            for (spec, report) in task.checks.iter().zip(&mut reports) {
                let Check::Page(PageCheck::Downloaded { name, content }) = &spec.check else { continue };
                let found = session.downloaded(name, MAX_DOWNLOADED).await.map_err(of_grader)?;
                let found = found.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
                let (score, message) = match (&found, content) {
                    (Some(_), None) => (1.0, format!("`{name}` was downloaded")),
                    (None, _) => (0.0, format!("`{name}` was not downloaded")),
                    (Some(text), Some(pattern)) => compared(&format!("`{name}`"), Some(text), Some(pattern))?,
                };
                *report =
                    Some(CheckReport { label: spec.label.clone(), score, weight: spec.weight, message });
            }
        }
        let (by_judge, judge_usage) = self.asked(ctx).await?;
        for (place, report) in by_judge {
            reports[place] = Some(report);
        }
        let grade = Grade::from_checks(reports.into_iter().flatten().collect(), Vec::new());
        Ok(Grade { judge_usage, ..grade })
    }

    /// The judge's reports on the answer, if there are rubrics.
    async fn asked(&self, ctx: &StepCtx) -> Result<JudgeReports, Fault> {
        if self.task.rubrics().next().is_none() {
            return Ok(JudgeReports::default());
        }
        let asking = JudgeContext {
            judge: self.shared.judge.as_deref(),
            attempt: self.attempt,
            task: &self.task,
            answer: self.answer.as_deref(),
            seed: self.seed,
            deadline: ctx.deadline,
            cancel: &ctx.cancel,
        };
        asking.ask().await
    }
}

fn of_grader(fault: Fault) -> Fault {
    Fault { boundary: Boundary::Grader, ..fault }
}

/// Whether a check reads the active page.
fn is_of_page(check: &PageCheck) -> bool {
    !matches!(check, PageCheck::Cookie { .. } | PageCheck::Requested { .. } | PageCheck::Downloaded { .. })
}

const MAX_DOWNLOADED: u64 = 16 << 20;

impl Env for GuiEnv {
    fn reset(&mut self, ctx: StepCtx) -> BoxFuture<'_, Result<Observation, Fault>> {
        Box::pin(async move {
            self.progress.begin()?;
            let shared = Arc::clone(&self.shared);
            let limit = self.task.timeouts.setup;
            let work = shared.limited(self.prepare());
            let result = bounded(&ctx, Boundary::Env, Limit::Setup, limit, work).await;
            if result.is_ok() {
                self.progress.end();
            }
            result
        })
    }

    fn step<'a>(
        &'a mut self,
        calls: &'a [ToolCall],
        ctx: StepCtx,
    ) -> BoxFuture<'a, Result<StepResult, Fault>> {
        Box::pin(async move {
            self.progress.begin()?;
            let shared = Arc::clone(&self.shared);
            let limit = self.task.timeouts.step;
            let work = shared.limited(self.act(calls));
            let result = bounded(&ctx, Boundary::Env, Limit::Step, limit, work).await;
            // After a fault the browser may still be busy. After a limit it can be graded, but is not reused.
            let late = result.as_ref().is_err_and(|fault| fault.limit == Some(Limit::Step));
            self.spent |= late;
            if result.is_ok() || late {
                self.progress.end();
            }
            result
        })
    }

    fn grade(&mut self, ctx: StepCtx) -> BoxFuture<'_, Result<Grade, Fault>> {
        Box::pin(async move {
            self.progress.begin()?;
            let shared = Arc::clone(&self.shared);
            let limit = self.task.timeouts.grade;
            let work = shared.limited(self.judged(&ctx));
            let result = bounded(&ctx, Boundary::Grader, Limit::Grade, limit, work).await;
            if result.is_ok() {
                self.progress.end();
            }
            result
        })
    }

    fn close(&mut self) -> BoxFuture<'_, CloseReport> {
        Box::pin(async move {
            let whole = self.progress.close() && !self.spent;
            if let Some(session) = self.session.take() {
                self.shared.take_back(session, whole).await;
            }
            CloseReport::default()
        })
    }
}

async fn bounded<T>(
    ctx: &StepCtx,
    boundary: Boundary,
    limit: Limit,
    time: Duration,
    work: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    tokio::select! {
        biased;
        () = ctx.cancel.cancelled() => Err(Fault::transient(boundary, "cancelled", "the attempt was cancelled")),
        done = tokio::time::timeout_at(ctx.deadline.into(), work) => {
            done.unwrap_or_else(|_| Err(Fault::limit(boundary, limit, time)))
        }
    }
}

fn observation(snapshot: &PageSnapshot, refused: &[String], spec: &GuiSpec) -> Observation {
    let mut text = String::new();
    for why in refused {
        text.push_str(&format!("error: {why}\n"));
    }
    for name in &snapshot.downloads {
        text.push_str(&format!("downloaded: {name}\n"));
    }
    if snapshot.tabs.len() > 1 {
        let tab = |(at, title): (usize, &String)| {
            let mark = if at == snapshot.active { "*" } else { "" };
            format!("{}{mark} \"{title}\"", at + 1)
        };
        let tabs: Vec<String> = snapshot.tabs.iter().enumerate().map(tab).collect();
        text.push_str(&format!("tabs: {}\n", tabs.join(", ")));
    }
    if let Some(dialog) = &snapshot.dialog {
        text.push_str(&format!("dialog: {} \"{}\"\n", dialog.kind, dialog.message));
    }
    if let Some(view) = &snapshot.view {
        for error in &view.errors {
            text.push_str(&format!("page error: {error}\n"));
        }
        if spec.show_address {
            text.push_str(&format!("url: {}\ntitle: {}\n", view.url, view.title));
        }
        text.push_str(&format!("{}\n", view.text));
    }
    let text = text.trim_end().to_owned();
    let mut facts = Map::new();
    facts.insert("quiet".to_owned(), snapshot.quiet.into());
    if !snapshot.refused.is_empty() {
        facts.insert("refused".to_owned(), snapshot.refused.clone().into());
    }
    if let Some(view) = &snapshot.view {
        facts.insert("elements".to_owned(), view.refs.into());
    }
    let cut = fit_texts(&[&text], spec.observation_chars as usize).pop().flatten();
    let (shown, full_text) = match cut {
        Some(cut) => (cut, Some(text)),
        None => (text, None),
    };
    Observation { facts, full_text, ..Observation::from_text(shown) }
}

fn spec_of(task: &TaskSpec) -> Result<&GuiSpec, Fault> {
    match &task.env {
        EnvSpec::Gui(spec) => Ok(spec),
        other => {
            let message = format!("a browser was leased for a task of kind `{}`", other.kind());
            Err(Fault::permanent(Boundary::Harness, "wrong-env", message))
        }
    }
}
