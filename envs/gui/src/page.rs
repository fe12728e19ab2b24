//! A page, as the harness reads and moves it: calls of the script that runs in it.

use std::ops::AddAssign;
use std::time::{Duration, Instant};

use clawrl_core::{Boundary, Fault, error_text};
use fantoccini::Client;
use fantoccini::actions::{InputSource as _, KeyAction, KeyActions, MouseActions, PointerAction};
use fantoccini::error::{CmdError, ErrorStatus, WebDriver};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::naming::Naming;

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

/// Calls a function of the script in the page, and waits for what it promises.
const CALL: &str = "const api = window[Symbol.for('clawrl.page')];\
    if (!api) return { missing: true };\
    return Promise.resolve(api[arguments[0]](...arguments[1])).then(value => ({ value: value === undefined ? null : value }));";

/// Functions that change nothing.
const READING: [&str; 6] = ["settle", "observe", "resolve", "locate", "elements", "storage"];

/// Around a function of the task: what it throws is no trouble of the page.
const TRY: &str = "return (async () => { try { return { value: (await";
const CATCH: &str = ") ?? null }; } catch (error) { let why = 'unknown'; try { why = String(error?.message ?? error); } catch {} return { error: why }; } })();";

/// How long is waited for a page to come to rest by one question: drivers end scripts that take 30 seconds.
const PORTION: Duration = Duration::from_secs(20);

/// How long a question may take beyond what it waits for by itself. A page that computes is not answered before.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);

/// For a preload script: the functions are there before the page's own scripts run, and hear what those ask for.
pub(crate) fn preload() -> String {
    format!(
        "() => {{ const api = {SCRIPT}; Object.defineProperty(window, Symbol.for('clawrl.page'), {{ value: api }});\
         api.hookListeners(); api.hookRequests(); api.hookTimers(); api.hookFiles(); api.hookErrors(); }}"
    )
}

/// What drivers say of a page whose process ended.
const CRASHED: &str = "tab crashed";

/// Why a page did not answer.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// A dialog is open, which nothing goes on behind.
    Dialog,
    /// The tab is closed.
    NoTab,
    /// The page went away meanwhile, as one does that is left.
    Left,
    /// It is busy with itself.
    Hung,
    /// The page's process ended.
    Crashed,
    /// It cannot be done: the browser's words.
    Refused(String),
    /// The driver is gone.
    Lost(Fault),
}

impl Trouble {
    /// What an attempt ends with, where nothing less will do.
    pub(crate) fn fault(self) -> Fault {
        let fault = |code, message: &str| Fault::transient(Boundary::Env, code, message);
        match self {
            Self::Dialog => fault("dialog-open", "a dialog is open in the page"),
            Self::NoTab => fault("tab-closed", "the tab was closed"),
            Self::Left => fault("page-left", "the page was left and never came to rest"),
            Self::Hung => fault("page-hung", "the page does not answer: its scripts do not end"),
            Self::Crashed => fault("page-crashed", "the process of the page ended"),
            Self::Refused(message) => fault("browser-refused", &message),
            Self::Lost(fault) => fault,
        }
    }
}

impl From<CmdError> for Trouble {
    fn from(error: CmdError) -> Self {
        // An error of the driver's own, whose name stands where others have their words.
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
            // Drivers do not know the dialog of a page that asks whether it may be left.
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

/// The active tab of a session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Page<'a>(pub(crate) &'a Client);

/// What a page is, as text.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct View {
    /// Of the document, no other has it.
    pub(crate) identity: String,
    pub(crate) url: String,
    pub(crate) title: String,
    pub(crate) text: String,
    /// What its scripts did wrong since it was read before.
    #[serde(default)]
    pub(crate) errors: Vec<String>,
    /// How many elements have numbers.
    pub(crate) refs: u32,
    /// More than it may have was left out.
    pub(crate) truncated: bool,
    pub(crate) focused: Option<u32>,
}

/// A page that came to rest, or was waited for long enough.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Settled {
    pub(crate) quiet: bool,
    /// Whether it changes all the time, which nobody waits for to end.
    restless: bool,
    /// Of the document.
    pub(crate) identity: String,
    /// Clicks that began downloads since it last came to rest.
    pub(crate) files: Clicked,
}

/// Links that were clicked to lay down files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Clicked {
    /// Files that the page made: there is no request.
    pub(crate) made: u32,
    /// Files that are asked for.
    pub(crate) asked: u32,
}

impl AddAssign for Clicked {
    fn add_assign(&mut self, other: Self) {
        self.made += other.made;
        self.asked += other.asked;
    }
}

/// Where an element is, or why it cannot be pointed at.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Located {
    x: Option<f64>,
    y: Option<f64>,
    error: Option<String>,
    by: Option<String>,
}

/// Where something is scrolled to that is not in view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScrollTo {
    /// The middle of the window.
    Middle,
    /// No farther than it has to be.
    Near,
    /// It stays out of view, which is an error then.
    Nowhere,
}

impl ScrollTo {
    /// As scripts have it.
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
    /// Calls a function of the script. One that is not there yet is installed first.
    pub(crate) async fn call<T: DeserializeOwned>(
        self,
        function: &str,
        arguments: Value,
    ) -> Result<T, Trouble> {
        let until = Instant::now() + ANSWER_LIMIT;
        let answer = loop {
            let answer = self.call_once(function, &arguments).await;
            // What changes something is asked for once.
            if !(READING.contains(&function) && is_for_next(&answer, until)) {
                break answer?;
            }
            tokio::task::yield_now().await;
        };
        serde_json::from_value(answer)
            .map_err(|error| Trouble::Refused(format!("the page's script answered otherwise: {error}")))
    }

    /// What a function body of the task returns, or what its promise comes to. The inner error is why it has no value.
    pub(crate) async fn run(self, body: &str, seed: u32) -> Result<Result<Value, String>, Trouble> {
        let script = format!("{TRY} (function (seed) {{\n{body}\n}}).call(undefined, arguments[0]){CATCH}");
        self.script(&script, seed).await
    }

    /// The value of an expression of the task, a promise not waited for.
    pub(crate) async fn evaluate(self, expression: &str) -> Result<Result<Value, String>, Trouble> {
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
    pub(crate) async fn is_true(self, expression: &str) -> Result<Result<bool, String>, Trouble> {
        let value = self.evaluate(&format!("!!(\n{expression}\n)")).await?;
        Ok(value.map(|value| value == Value::Bool(true)))
    }

    /// The script is compiled by the driver: pages may forbid that their own functions compile any.
    async fn script(self, script: &str, seed: u32) -> Result<Result<Value, String>, Trouble> {
        #[derive(Deserialize)]
        struct Ran {
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
            Ok(Value::Null) => return Err(Trouble::Dialog),
            answer => answer?,
        };
        let ran: Ran = serde_json::from_value(answer)
            .map_err(|error| Trouble::Refused(format!("the script answered otherwise: {error}")))?;
        Ok(ran.error.map_or(Ok(ran.value), Err))
    }

    async fn call_once(self, function: &str, arguments: &Value) -> Result<Value, Trouble> {
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
            return Err(Trouble::Dialog);
        }
        Ok(answer["value"].take())
    }

    /// Waits until nothing is loaded and nothing moves, at most so long; whether it is so.
    pub(crate) async fn settle(self, limit: Duration, hidden: &[String]) -> Result<Settled, Trouble> {
        let until = Instant::now() + limit;
        let mut files = Clicked::default();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let portion = left.min(PORTION);
            let arguments = json!([u64::try_from(portion.as_millis()).unwrap_or(u64::MAX), hidden]);
            let asked = self.call::<Settled>("settle", arguments);
            let waited = tokio::time::timeout(portion + ANSWER_LIMIT, asked).await;
            let settled = waited.map_err(|_| Trouble::Hung)??;
            files += settled.files;
            if settled.quiet || settled.restless || portion == left {
                return Ok(Settled { files, ..settled });
            }
        }
    }

    pub(crate) async fn observe(self, hidden: &[String]) -> Result<View, Trouble> {
        let seen = self.observe_of(None, None, hidden).await?;
        seen.ok_or(Trouble::Left)
    }

    /// The page, if it is the document of an identity. `unseen` is the document whose last text nobody was shown.
    pub(crate) async fn observe_of(
        self,
        identity: Option<&str>,
        unseen: Option<&str>,
        hidden: &[String],
    ) -> Result<Option<View>, Trouble> {
        let options = json!({ "of": identity, "unseen": unseen, "hidden": hidden });
        within(self.call("observe", json!([options]))).await
    }

    /// The number of an element. The inner error is for the agent.
    pub(crate) async fn number(self, element: &Naming) -> Result<Result<u32, String>, Trouble> {
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
            Naming::Number(number) => return Ok(Ok(*number)),
            Naming::Words { role, name, place } => (role, name, place),
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

    /// Where an element can be clicked, scrolled into view. The inner error is for the agent.
    pub(crate) async fn locate(self, element: u32, to: ScrollTo) -> Result<Result<Point, String>, Trouble> {
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

    /// Whether a dialog is open in it.
    pub(crate) async fn has_dialog(self) -> Result<bool, Trouble> {
        within(async {
            match self.0.get_alert_text().await {
                Ok(_) => Ok(true),
                Err(CmdError::Standard(error)) if error.error == ErrorStatus::NoSuchAlert => Ok(false),
                Err(error) => Err(error.into()),
            }
        })
        .await
    }

    /// Moves the pointer along points and presses a button, so many times, at the first one; it is released at the last.
    pub(crate) async fn point(self, points: &[Point], button: u64, presses: u32) -> Result<(), Trouble> {
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

    /// Nothing is held from before, and no click counts as the second of two.
    async fn let_go(self) -> Result<(), Trouble> {
        Ok(self.0.release_actions().await?)
    }

    /// Presses keys one after another, and holds those that modify while the others are pressed.
    pub(crate) async fn keys(self, held: &[char], pressed: &[char]) -> Result<(), Trouble> {
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

/// Whether a script is to blame, which could not be compiled, or whose value is none that can be told; not the page that went
/// away meanwhile.
fn is_of_script(error: &WebDriver) -> bool {
    let is_left = ["unloaded", "detached", "navigation"].iter().any(|part| error.message.contains(part));
    error.error == ErrorStatus::JavascriptError && !is_left
}

/// What a step did may have begun to open another page: a question that changes nothing is for that one.
fn is_for_next<T>(answer: &Result<T, Trouble>, until: Instant) -> bool {
    matches!(answer, Err(Trouble::Left)) && Instant::now() < until
}

/// For the agent: a number that stands for nothing.
pub(crate) fn gone(element: u32) -> String {
    format!("there is no element {element} in this page")
}

/// A few points on the way, which pages that follow the pointer need.
pub(crate) fn way(from: Point, to: Point) -> Vec<Point> {
    const STEPS: i64 = 8;
    (0..=STEPS)
        .map(|step| Point {
            x: from.x + (to.x - from.x) * step / STEPS,
            y: from.y + (to.y - from.y) * step / STEPS,
        })
        // What is dropped where it has just come to is dropped nowhere: a page has to be asked whether it takes it.
        .chain([to])
        .collect()
}

/// What the page's script answered, for the agent, where it did not do what was asked.
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

/// A page that does not answer in time hangs.
pub(crate) async fn within<T>(question: impl Future<Output = Result<T, Trouble>>) -> Result<T, Trouble> {
    tokio::time::timeout(ANSWER_LIMIT, question).await.unwrap_or(Err(Trouble::Hung))
}
