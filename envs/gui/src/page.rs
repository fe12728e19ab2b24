//! Reads and operates a page through calls of a script that runs in it.

use std::ops::AddAssign;
use std::time::{Duration, Instant};

use clawrl_core::{Boundary, Fault, error_text};
use fantoccini::Client;
use fantoccini::actions::{InputSource as _, KeyAction, KeyActions, MouseActions, PointerAction};
use fantoccini::error::{CmdError, ErrorStatus, WebDriver};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::element_ref::ElementRef;

/// The script, one expression; see `api.js`.
pub(crate) const SCRIPT: &str = concat!(
    "(() => {\n'use strict';\n",
    include_str!("page/natives.js"),
    include_str!("page/roles.js"),
    include_str!("page/names.js"),
    include_str!("page/values.js"),
    include_str!("page/shapes.js"),
    include_str!("page/hooks.js"),
    include_str!("page/inputs.js"),
    include_str!("page/actable.js"),
    include_str!("page/tree.js"),
    include_str!("page/text.js"),
    include_str!("page/places.js"),
    include_str!("page/fields.js"),
    include_str!("page/checks.js"),
    include_str!("page/quiet.js"),
    include_str!("page/api.js"),
    "return api;\n})()",
);

/// Calls a function of the script in the page, and awaits its promise.
const CALL: &str = "const api = window[Symbol.for('clawrl.page')];\
    if (!api) return { missing: true };\
    return Promise.resolve(api[arguments[0]](...arguments[1])).then(value => ({ value: value === undefined ? null : value }));";

const READING: [&str; 6] = ["settle", "observe", "resolve", "locate", "elements", "storage"];

/// Wraps a function of the task: its exceptions are not errors of the page.
const TRY: &str = "return (async () => { try { return { value: (await";
const CATCH: &str = ") ?? null }; } catch (error) { let why = 'unknown'; try { why = String(error?.message ?? error); } catch {} return { error: why }; } })();";

/// How long one request waits for a page to settle: drivers end scripts that take 30 seconds.
const PORTION: Duration = Duration::from_secs(20);

/// Additional time for a request to be answered. A page that computes does not answer before it has finished.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);

/// For a preload script: installs the functions before the page's own scripts run, and observes their requests.
pub(crate) fn preload() -> String {
    format!(
        "() => {{ const api = {SCRIPT}; Object.defineProperty(window, Symbol.for('clawrl.page'), {{ value: api }});\
         api.hookListeners(); api.hookRequests(); api.hookTimers(); api.hookFiles(); api.hookErrors(); }}"
    )
}

/// The driver's message for a page whose process ended.
const CRASHED: &str = "tab crashed";

#[derive(Debug)]
pub(crate) enum PageError {
    /// A dialog is open and blocks the page.
    Dialog,
    NoTab,
    /// The page was replaced meanwhile, for example by navigation.
    Left,
    Hung,
    Crashed,
    /// Impossible, with the browser's message.
    Refused(String),
    Lost(Fault),
}

impl PageError {
    /// The fault for an attempt that cannot continue.
    pub(crate) fn fault(self) -> Fault {
        let fault = |code, message: &str| Fault::transient(Boundary::Env, code, message);
        match self {
            Self::Dialog => fault("dialog-open", "a dialog is open in the page"),
            Self::NoTab => fault("tab-closed", "the tab was closed"),
            Self::Left => fault("page-left", "the page kept navigating and never settled"),
            Self::Hung => fault("page-hung", "the page does not answer: its scripts do not end"),
            Self::Crashed => fault("page-crashed", "the process of the page ended"),
            Self::Refused(message) => fault("browser-refused", &message),
            Self::Lost(fault) => fault,
        }
    }
}

impl From<CmdError> for PageError {
    fn from(error: CmdError) -> Self {
        // An error of the driver itself, whose name is in the place of the message.
        if matches!(&error, CmdError::NotW3C(said) if said.as_str() == Some(CRASHED)) {
            return Self::Crashed;
        }
        let CmdError::Standard(error) = error else {
            return Self::Lost(Fault::transient(Boundary::Env, "browser-lost", error_text(&error)));
        };
        let message = error.message.lines().next().unwrap_or_default().to_owned();
        let says = |part: &str| message.contains(part);
        match error.error {
            ErrorStatus::UnexpectedAlertOpen => Self::Dialog,
            ErrorStatus::NoSuchWindow => Self::NoTab,
            ErrorStatus::InvalidSessionId => {
                Self::Lost(Fault::transient(Boundary::Env, "browser-lost", message))
            }
            ErrorStatus::ScriptTimeout | ErrorStatus::Timeout => Self::Hung,
            _ if says(CRASHED) || says("page crash") => Self::Crashed,
            // Drivers do not report the dialog that asks whether to leave a page.
            _ if says("Unexpected dialog type") => Self::Dialog,
            _ if says("disconnected") || says("session deleted") || says("chrome not reachable") => {
                Self::Lost(Fault::transient(Boundary::Env, "browser-lost", message))
            }
            _ if says("unloaded") || says("detached") || says("aborted by navigation") || says("context") => {
                Self::Left
            }
            _ => Self::Refused(message),
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Page<'a>(pub(crate) &'a Client);

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct PageView {
    pub(crate) identity: String,
    pub(crate) url: String,
    pub(crate) title: String,
    pub(crate) text: String,
    /// Errors of its scripts since the last read.
    #[serde(default)]
    pub(crate) errors: Vec<String>,
    pub(crate) refs: u32,
    /// Whether text beyond the limit was left out.
    pub(crate) truncated: bool,
    pub(crate) focused: Option<u32>,
}

/// A page that settled, or whose time to settle is over.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct SettledPage {
    pub(crate) quiet: bool,
    /// Whether it changes constantly, so that waiting is pointless.
    restless: bool,
    pub(crate) identity: String,
    /// Clicks that started downloads since it last settled.
    pub(crate) files: DownloadClicks,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct DownloadClicks {
    /// Files generated by the page, without a request.
    pub(crate) made: u32,
    pub(crate) asked: u32,
}

impl AddAssign for DownloadClicks {
    fn add_assign(&mut self, other: Self) {
        self.made += other.made;
        self.asked += other.asked;
    }
}

/// An element's position, or why it cannot be clicked.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Located {
    x: Option<f64>,
    y: Option<f64>,
    error: Option<String>,
    by: Option<String>,
}

/// Where to scroll an element that is out of view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScrollTo {
    Middle,
    /// No farther than necessary.
    Near,
    /// Do not scroll; out of view is an error.
    Nowhere,
}

impl ScrollTo {
    /// The script's word for it.
    fn word(self) -> &'static str {
        match self {
            Self::Middle => "center",
            Self::Near => "nearest",
            Self::Nowhere => "nowhere",
        }
    }
}

/// A point in the window, CSS pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) x: i64,
    pub(crate) y: i64,
}

impl Page<'_> {
    /// Calls a function of the script, and installs the script first if necessary.
    pub(crate) async fn call<T: DeserializeOwned>(
        self,
        function: &str,
        arguments: Value,
    ) -> Result<T, PageError> {
        let until = Instant::now() + ANSWER_LIMIT;
        let answer = loop {
            let answer = self.call_once(function, &arguments).await;
            // A call with side effects is made once.
            if !(READING.contains(&function) && is_for_next(&answer, until)) {
                break answer?;
            }
            tokio::task::yield_now().await;
        };
        serde_json::from_value(answer)
            .map_err(|error| PageError::Refused(format!("unexpected answer of the page's script: {error}")))
    }

    /// Returns the value of a function body of the task, or of its promise. The inner error says why there is none.
    pub(crate) async fn run(self, body: &str, seed: u32) -> Result<Result<Value, String>, PageError> {
        let script = format!("{TRY} (function (seed) {{\n{body}\n}}).call(undefined, arguments[0]){CATCH}");
        self.script(&script, seed).await
    }

    /// The value of an expression of the task; a promise is not awaited.
    pub(crate) async fn evaluate(self, expression: &str) -> Result<Result<Value, String>, PageError> {
        let script = format!("{TRY} [(function () {{ return (\n{expression}\n); }}).call(undefined)]{CATCH}");
        let until = Instant::now() + ANSWER_LIMIT;
        let value = loop {
            let value = self.script(&script, 0).await;
            if !is_for_next(&value, until) {
                break value?;
            }
            tokio::task::yield_now().await;
        };
        Ok(value.map(|mut value| value[0].take()))
    }

    /// Whether an expression of the task is true.
    pub(crate) async fn is_true(self, expression: &str) -> Result<Result<bool, String>, PageError> {
        let value = self.evaluate(&format!("!!(\n{expression}\n)")).await?;
        Ok(value.map(|value| value == Value::Bool(true)))
    }

    /// The driver compiles the script: pages may forbid that their own functions compile code.
    async fn script(self, script: &str, seed: u32) -> Result<Result<Value, String>, PageError> {
        #[derive(Deserialize)]
        struct ScriptOutcome {
            #[serde(default)]
            value: Value,
            error: Option<String>,
        }
        let answer = match self.0.execute(script, vec![json!(seed)]).await {
            Err(CmdError::Standard(error)) if is_of_script(&error) => {
                let message = error.message.lines().next().unwrap_or_default();
                return Ok(Err(message.trim_start_matches("javascript error: ").to_owned()));
            }
            // As in `call_once`.
            Ok(Value::Null) => return Err(PageError::Dialog),
            answer => answer?,
        };
        let ran: ScriptOutcome = serde_json::from_value(answer)
            .map_err(|error| PageError::Refused(format!("unexpected answer of the script: {error}")))?;
        Ok(ran.error.map_or(Ok(ran.value), Err))
    }

    async fn call_once(self, function: &str, arguments: &Value) -> Result<Value, PageError> {
        let asked = [json!(function), arguments.clone()];
        let mut answer = self.0.execute(CALL, asked.to_vec()).await?;
        if answer.get("missing").is_some() {
            let install = format!(
                "Object.defineProperty(window, Symbol.for('clawrl.page'), {{ value: {SCRIPT}, configurable: true }});"
            );
            self.0.execute(&install, Vec::new()).await?;
            answer = self.0.execute(CALL, asked.to_vec()).await?;
        }
        // A dialog that opens meanwhile ends a script without an answer.
        if answer.is_null() {
            return Err(PageError::Dialog);
        }
        Ok(answer["value"].take())
    }

    /// Waits until nothing is loading and nothing moves, up to `limit`; returns whether that was reached.
    pub(crate) async fn settle(self, limit: Duration, hidden: &[String]) -> Result<SettledPage, PageError> {
        let until = Instant::now() + limit;
        let mut files = DownloadClicks::default();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let portion = left.min(PORTION);
            let arguments = json!([u64::try_from(portion.as_millis()).unwrap_or(u64::MAX), hidden]);
            let asked = self.call::<SettledPage>("settle", arguments);
            let waited = tokio::time::timeout(portion + ANSWER_LIMIT, asked).await;
            let settled = waited.map_err(|_| PageError::Hung)??;
            files += settled.files;
            if settled.quiet || settled.restless || portion == left {
                return Ok(SettledPage { files, ..settled });
            }
        }
    }

    pub(crate) async fn observe(self, hidden: &[String]) -> Result<PageView, PageError> {
        let seen = self.observe_of(None, None, hidden).await?;
        seen.ok_or(PageError::Left)
    }

    /// The page, if it is the document of an identity. `unseen` is the document whose last text was not shown.
    pub(crate) async fn observe_of(
        self,
        identity: Option<&str>,
        unseen: Option<&str>,
        hidden: &[String],
    ) -> Result<Option<PageView>, PageError> {
        let options = json!({ "of": identity, "unseen": unseen, "hidden": hidden });
        within(self.call("observe", json!([options]))).await
    }

    /// The number of an element. The inner error is for the agent.
    pub(crate) async fn number(self, element: &ElementRef) -> Result<Result<u32, String>, PageError> {
        #[derive(Deserialize)]
        struct Resolved {
            number: Option<u32>,
            error: Option<String>,
            #[serde(default)]
            near: Vec<String>,
            #[serde(default)]
            numbers: Vec<u32>,
            #[serde(default)]
            count: u32,
        }
        let (role, name, place) = match element {
            ElementRef::Number(number) => return Ok(Ok(*number)),
            ElementRef::Words { role, name, place } => (role, name, place),
        };
        let found: Resolved = within(self.call("resolve", json!([role, name, place]))).await?;
        Ok(match (found.number, found.error.as_deref()) {
            (Some(number), _) => Ok(number),
            (None, Some("several")) => {
                let numbers: Vec<String> = found.numbers.iter().map(|number| format!("[{number}]")).collect();
                let numbers = numbers.join(", ");
                Err(format!(
                    "{element} is the name of several elements: {numbers}; `{element} #2` is the second"
                ))
            }
            (None, Some("place")) => Err(format!("of {element} there are only {}", found.count)),
            (None, _) => Err(match found.near.as_slice() {
                [] => format!("there is no {element} in this page"),
                near => format!("there is no {element} in this page; near it: {}", near.join(", ")),
            }),
        })
    }

    /// A clickable point of an element, scrolled into view. The inner error is for the agent.
    pub(crate) async fn locate(self, element: u32, to: ScrollTo) -> Result<Result<Point, String>, PageError> {
        let located: Located = within(self.call("locate", json!([element, to.word()]))).await?;
        Ok(match (located.x, located.y, located.error.as_deref()) {
            (Some(x), Some(y), _) => Ok(Point { x: x as i64, y: y as i64 }),
            (.., Some("covered")) => {
                Err(format!("element {element} is covered by {}", located.by.unwrap_or_default()))
            }
            (.., Some("hidden")) => Err(format!("element {element} cannot be seen")),
            _ => Err(gone(element)),
        })
    }

    pub(crate) async fn has_dialog(self) -> Result<bool, PageError> {
        within(async {
            match self.0.get_alert_text().await {
                Ok(_) => Ok(true),
                Err(CmdError::Standard(error)) if error.error == ErrorStatus::NoSuchAlert => Ok(false),
                Err(error) => Err(error.into()),
            }
        })
        .await
    }

    /// Moves the pointer along points and presses a button, this many times, at the first one; it is released at the
    /// last.
    pub(crate) async fn point(self, points: &[Point], button: u64, presses: u32) -> Result<(), PageError> {
        let moved =
            |point: &Point| PointerAction::MoveTo { duration: None, x: point.x as f64, y: point.y as f64 };
        let mut actions = MouseActions::new("mouse".to_owned());
        let Some((first, rest)) = points.split_first() else { return Ok(()) };
        actions = actions.then(moved(first));
        for press in 0..presses {
            actions = actions.then(PointerAction::Down { button });
            if press + 1 == presses {
                for point in rest {
                    actions = actions.then(moved(point));
                }
            }
            actions = actions.then(PointerAction::Up { button });
        }
        within(async {
            self.let_go().await?;
            Ok(self.0.perform_actions(actions).await?)
        })
        .await
    }

    /// Releases everything that is held, so that the next click does not count as a second one.
    async fn let_go(self) -> Result<(), PageError> {
        Ok(self.0.release_actions().await?)
    }

    /// Presses keys one after another, while the modifiers are held.
    pub(crate) async fn keys(self, held: &[char], pressed: &[char]) -> Result<(), PageError> {
        let mut actions = KeyActions::new("keys".to_owned());
        for &value in held {
            actions = actions.then(KeyAction::Down { value });
        }
        for &value in pressed {
            actions = actions.then(KeyAction::Down { value }).then(KeyAction::Up { value });
        }
        for &value in held.iter().rev() {
            actions = actions.then(KeyAction::Up { value });
        }
        within(async {
            self.let_go().await?;
            Ok(self.0.perform_actions(actions).await?)
        })
        .await
    }
}

/// Whether the script caused the error (it did not compile, or its value cannot be serialised), as opposed to a page
/// that was replaced meanwhile.
fn is_of_script(error: &WebDriver) -> bool {
    let is_left = ["unloaded", "detached", "navigation"].iter().any(|part| error.message.contains(part));
    error.error == ErrorStatus::JavascriptError && !is_left
}

/// A step may have started to open another page: a call without side effects is then repeated on that one.
fn is_for_next<T>(answer: &Result<T, PageError>, until: Instant) -> bool {
    matches!(answer, Err(PageError::Left)) && Instant::now() < until
}

/// Message for the agent: no element has this number.
pub(crate) fn gone(element: u32) -> String {
    format!("there is no element {element} in this page")
}

/// Intermediate points, which pages that follow the pointer need.
pub(crate) fn way(from: Point, to: Point) -> Vec<Point> {
    const STEPS: i64 = 8;
    (0..=STEPS)
        .map(|step| Point {
            x: from.x + (to.x - from.x) * step / STEPS,
            y: from.y + (to.y - from.y) * step / STEPS,
        })
        // A drop right after the pointer arrives is lost: the page must first be asked whether it accepts it.
        .chain([to])
        .collect()
}

/// The script's message for the agent, if it did not perform the action.
pub(crate) fn refusal(answer: &Value, element: u32) -> Option<String> {
    let list = |name: &str| {
        let all = answer[name].as_array().into_iter().flatten().filter_map(Value::as_str);
        all.map(|one| format!("\"{one}\"")).collect::<Vec<_>>().join(", ")
    };
    Some(match answer["error"].as_str()? {
        "gone" => gone(element),
        "hidden" => format!("element {element} cannot be seen"),
        "disabled" => format!("element {element} is disabled"),
        "readonly" => format!("element {element} cannot be changed"),
        "missing" => format!("there is no option {}; options: {}", list("missing"), list("options")),
        "single" => format!("element {element} takes one option; options: {}", list("options")),
        "disabled option" => "the option is disabled".to_owned(),
        "value" => format!(
            "element {element} takes values such as {}",
            answer["example"].as_str().unwrap_or_default()
        ),
        "kind" => format!("element {element} takes nothing of that kind"),
        other => format!("element {element}: {other}"),
    })
}

/// A page that does not answer in time counts as hung.
pub(crate) async fn within<T>(question: impl Future<Output = Result<T, PageError>>) -> Result<T, PageError> {
    tokio::time::timeout(ANSWER_LIMIT, question).await.unwrap_or(Err(PageError::Hung))
}
