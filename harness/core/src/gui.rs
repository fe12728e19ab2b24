//! GUI environments: a browser, its pages, and checks of them.
//!
//! Units: `chars` are Unicode scalar values; sizes of windows are CSS pixels.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{FixtureContent, FixtureFile, SandboxKind};

/// Suffix of every site's host name. Browsers resolve such names to this machine and treat them as secure contexts.
/// The names are the same in every attempt, and lead to the sites of that attempt.
pub const SITE_SUFFIX: &str = ".localhost";

/// Settings of a GUI environment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GuiSpec {
    /// Sites that the harness serves, each at an origin of its own; names are unique.
    pub sites: Vec<SiteSpec>,
    /// Origins beyond the sites that pages may reach: `https://example.org`, `http://127.0.0.1:8080`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub origins: Vec<String>,
    /// Absolute address of the first page.
    pub start: String,
    /// Function bodies that run in the first page, in order, before the first observation. Each has `seed`, a whole number
    /// below 2^32; one that throws, or returns a promise that fails, is a setup fault.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prepare: Vec<String>,
    /// A JavaScript expression. The episode ends after the first step after which it is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_when: Option<String>,
    /// Files that the agent can upload.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FixtureFile>,
    /// Width and height of the page's window.
    pub viewport: (u16, u16),
    /// CSS selectors of elements that observations leave out, with all that is in them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden: Vec<String>,
    /// When pictures are taken.
    pub screenshots: Screenshots,
    /// Most characters of an observation.
    pub observation_chars: u32,
    /// Whether observations start with the URL and title of the page.
    #[serde(default = "shown", skip_serializing_if = "is_shown")]
    pub show_address: bool,
    /// Maximum time to wait until the page is quiet; then it is observed in any case.
    pub settle: Duration,
    /// Isolation of the browser, around its own.
    pub sandbox: SandboxKind,
    /// Memory of the browser with all its processes.
    pub memory_mib: u32,
}

/// When pictures of the page are taken, as PNG.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Screenshots {
    /// Never.
    Never,
    /// When the agent asks for one.
    #[default]
    OnRequest,
    /// With every observation, for the record only, and shown when the agent asks.
    Recorded,
    /// With every observation, which shows it.
    Shown,
}

impl Screenshots {
    /// Whether the agent can request screenshots. If every observation has one, there is no need to.
    #[must_use]
    pub fn on_request(self) -> bool {
        matches!(self, Self::OnRequest | Self::Recorded)
    }
}

/// A site that the harness serves, at `http://NAME.localhost`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SiteSpec {
    /// Letters, digits and hyphens, in lower case.
    pub name: String,
    /// Files of the site. `/` and paths that end with `/` mean their `index.html`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<SiteFolder>,
    /// Files of the plan itself, before those of the folder.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FixtureFile>,
    /// Answers to serve instead of files; the first match is used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Route>,
}

/// A folder of the host with all that is in it, links left out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SiteFolder {
    /// Absolute path.
    pub path: PathBuf,
    /// Hex SHA-256 over the relative paths and contents when the plan was made; anything else is a fault.
    pub sha256: String,
}

/// Answer to some requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Route {
    /// The requests.
    pub request: RequestPattern,
    /// Number of matching requests to skip before the answer is used.
    #[serde(default)]
    pub after: u32,
    /// Number of requests to answer; later ones are skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
    /// Delay of the answer.
    #[serde(default)]
    pub delay: Duration,
    /// The answer.
    pub answer: RouteAnswer,
}

/// Pattern of requests; every part that is given must match.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RequestPattern {
    /// In capitals. `None` stands for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Path without query; a `*` at the end stands for any rest. `None` stands for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Values of the query.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub query: BTreeMap<String, String>,
    /// Fields of a form in the body, urlencoded or multipart; of a file, its name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub form: BTreeMap<String, String>,
    /// Cookies.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cookies: BTreeMap<String, String>,
    /// Values in a JSON body, by JSON pointer (RFC 6901); numbers are equal by value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub json: BTreeMap<String, Value>,
}

/// An answer of a site.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RouteAnswer {
    /// These bytes.
    Respond {
        /// HTTP status, 200 to 599.
        status: u16,
        /// Headers, names in lower case.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        headers: BTreeMap<String, String>,
        /// Values of `set-cookie`, a header for each: `id=7; Path=/`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        cookies: Vec<String>,
        /// The body.
        body: FixtureContent,
    },
    /// 303 to another path or address.
    Redirect {
        /// Target of the redirect.
        to: String,
        /// Further headers, names in lower case.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        headers: BTreeMap<String, String>,
        /// Values of `set-cookie`, a header for each.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        cookies: Vec<String>,
    },
    /// The file of this path, whatever path was asked for. Without one, the file that was asked for.
    Serve {
        /// Path of a file of the site, from `/`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
    },
    /// The connection ends without an answer.
    Drop,
}

/// Checks of pages, of the browser's storage, and of requests to sites.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PageCheck {
    /// The value that a function body returns in the active page, or that its promise resolves to, equals a JSON value.
    Script {
        /// The body.
        run: String,
        /// The value; numbers are equal by value.
        equals: Value,
    },
    /// The page's own reward, which an expression has: the score is the reward's place between two ends.
    Reward {
        /// The expression. Anything but a number is 0.
        expression: String,
        /// The reward that means score 0; lower rewards do, too.
        lowest: f64,
        /// The reward that means score 1; higher rewards do, too.
        highest: f64,
    },
    /// Elements of the active page that a CSS selector finds.
    Element {
        /// The selector.
        selector: String,
        /// Condition on the matching elements.
        #[serde(default)]
        with: ElementPattern,
        /// Fewest that pass.
        at_least: u32,
        /// Most that pass.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at_most: Option<u32>,
    },
    /// The address of the active page.
    Url(TextPattern),
    /// Value that a site stores in the browser under a key.
    Storage {
        /// The storage area.
        area: StorageArea,
        /// Origin; `None` for that of the active page.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        origin: Option<String>,
        /// The key.
        key: String,
        /// Expected value; `None` if the key must not exist.
        value: Option<TextPattern>,
    },
    /// A cookie of any origin.
    Cookie {
        /// Name of the cookie.
        name: String,
        /// Expected value; `None` if the cookie must not exist.
        value: Option<TextPattern>,
    },
    /// Number of requests to a site.
    Requested {
        /// Name of the site; `None` stands for all together.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        site: Option<String>,
        /// The requests that count.
        request: RequestPattern,
        /// Fewest that pass.
        at_least: u32,
        /// Most that pass.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at_most: Option<u32>,
    },
    /// A file that was downloaded.
    Downloaded {
        /// Name of the file.
        name: String,
        /// Expected content as UTF-8; `None` for any content.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content: Option<TextPattern>,
    },
}

/// Pattern of elements.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ElementPattern {
    /// The text, with white space collapsed to single spaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<TextPattern>,
    /// The value of a field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<TextPattern>,
    /// The attributes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, TextPattern>,
    /// Whether the element is checked or selected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checked: Option<bool>,
    /// Whether the element is visible: it has a size and is not hidden.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visible: Option<bool>,
}

/// Pattern of texts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TextPattern {
    /// Exactly this.
    Equals(String),
    /// This is in it.
    Contains(String),
    /// A regular expression, in the syntax of the `regex` crate, matches it somewhere.
    Matches(String),
}

/// Storage area for texts by key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StorageArea {
    /// `localStorage`.
    Local,
    /// `sessionStorage`.
    Session,
}

fn shown() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_shown(show_address: &bool) -> bool {
    *show_address
}

/// Defaults of the browser settings. They have no start page.
impl Default for GuiSpec {
    fn default() -> Self {
        Self {
            sites: Vec::new(),
            origins: Vec::new(),
            start: String::new(),
            prepare: Vec::new(),
            end_when: None,
            files: Vec::new(),
            viewport: (1024, 768),
            hidden: Vec::new(),
            screenshots: Screenshots::default(),
            observation_chars: 8_000,
            show_address: true,
            settle: Duration::from_secs(5),
            sandbox: SandboxKind::default(),
            memory_mib: 1_024,
        }
    }
}
