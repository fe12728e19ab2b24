//! Settings of a GUI environment, and its checks, as written.

use clawrl_core::{Screenshots, StorageArea};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::files::{FileEntry, FilesFile};
use super::forms::{two_forms, words};
use super::located::{Entries, Located, OptionalText, Scalar, Text, present, present_or_default};
use super::toolcall::NothingFile;
use super::workspace::SandboxFile;
use crate::bounds;

/// A browser, and the pages that it is shown.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Gui")]
pub(crate) struct GuiFile {
    /// Sites by name. Each attempt has them for itself, at `http://NAME.localhost`. A task's own map replaces that of the
    /// defaults.
    pub(crate) sites: Option<Entries<Located<SiteFile>>>,
    /// Origins beyond the sites that pages may reach, such as `https://example.org`. Default: none.
    pub(crate) origins: Option<Vec<Text>>,
    /// Address of the first page; a path is one of the first site. Default: `/`.
    pub(crate) start: Option<Text>,
    /// Bodies of JavaScript functions that run in the first page before it is shown. Each has `seed`, a whole number. One
    /// that throws is a setup fault.
    pub(crate) prepare: Option<Vec<Text>>,
    /// A JavaScript expression. The episode ends after the first step at whose end it is true.
    pub(crate) end_when: Option<Text>,
    /// Files that can be uploaded: a folder beside the suite, or a map of names to contents.
    pub(crate) files: Option<Located<FilesFile>>,
    /// Width and height of the page's window in pixels. Default: [1024, 768].
    #[schemars(with = "Option<[i64; 2]>")]
    pub(crate) viewport: Option<Located<Vec<Located<i64>>>>,
    /// CSS selectors of elements that observations leave out, with all that is in them. Default: none.
    pub(crate) hidden: Option<Vec<Text>>,
    /// When pictures of the page are taken. Default: on_request.
    pub(crate) screenshots: Option<Located<ScreenshotsFile>>,
    /// Most characters of an observation. Default: 8000.
    #[schemars(range(min = bounds::MIN_OBSERVATION, max = bounds::MAX_OBSERVATION))]
    pub(crate) observation_chars: Option<Located<i64>>,
    /// Whether observations begin with the address and the title of the page. Default: true.
    pub(crate) show_address: Option<bool>,
    /// A page that is not quiet by then is shown as it is. Default: 5000.
    #[schemars(range(min = 1, max = bounds::MAX_SETTLE_MILLIS))]
    pub(crate) settle_millis: Option<Located<i64>>,
    /// Isolation around the browser's own. Default, and the only one that browsers have: bubblewrap.
    pub(crate) sandbox: Option<Located<SandboxFile>>,
    /// Memory of the browser with all its processes. Default: 1024.
    #[schemars(range(min = bounds::MIN_BROWSER_MIB, max = bounds::MAX_MIB))]
    pub(crate) memory_mib: Option<Located<i64>>,
}

impl GuiFile {
    /// Fills missing keys from the defaults.
    pub(crate) fn or(self, defaults: &Self) -> Self {
        let below = defaults.clone();
        Self {
            sites: self.sites.or(below.sites),
            origins: self.origins.or(below.origins),
            start: self.start.or(below.start),
            prepare: self.prepare.or(below.prepare),
            end_when: self.end_when.or(below.end_when),
            files: self.files.or(below.files),
            viewport: self.viewport.or(below.viewport),
            hidden: self.hidden.or(below.hidden),
            screenshots: self.screenshots.or(below.screenshots),
            observation_chars: self.observation_chars.or(below.observation_chars),
            show_address: self.show_address.or(below.show_address),
            settle_millis: self.settle_millis.or(below.settle_millis),
            sandbox: self.sandbox.or(below.sandbox),
            memory_mib: self.memory_mib.or(below.memory_mib),
        }
    }
}

words! {
    /// When pictures are taken.
    enum ScreenshotsFile for Screenshots {
        /// Never.
        Never,
        /// When the agent asks for one.
        OnRequest,
        /// With every observation, for the record only, and shown when the agent asks.
        Recorded,
        /// With every observation, which shows it.
        Shown,
    }
}

/// A site: files, and answers to requests that are none for files.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Site")]
pub(crate) struct SiteFile {
    /// A folder beside the suite, served as it is. `/` and paths that end with it stand for their `index.html`.
    pub(crate) folder: Option<Text>,
    /// Contents by path, templates, before those of the folder.
    #[serde(default)]
    pub(crate) files: Entries<Located<FileEntry>>,
    /// What is answered instead of a file; the first that fits answers.
    #[serde(default)]
    pub(crate) routes: Vec<Located<RouteFile>>,
}

/// Builds a struct of its own fields and those that tell a request. Flattening a common struct instead would lose the
/// spans: serde buffers flattened values.
macro_rules! with_request {
    ($(#[$meta:meta])* struct $name:ident { $($(#[$own_meta:meta])* $own:ident: $own_type:ty,)* }) => {
        $(#[$meta])*
        pub(crate) struct $name {
            $($(#[$own_meta])* pub(crate) $own: $own_type,)*
            /// Method, such as POST. Default: any.
            pub(crate) method: Option<Text>,
            /// Path without query; a `*` at the end stands for any rest. Default: any.
            pub(crate) path: Option<Text>,
            /// Values of the query that it has at least.
            #[serde(default)]
            pub(crate) query: Entries<Located<Scalar>>,
            /// Fields of a form that it has at least; of a file, its name.
            #[serde(default)]
            pub(crate) form: Entries<Located<Scalar>>,
            /// Cookies that it has at least.
            #[serde(default)]
            pub(crate) cookies: Entries<Located<Scalar>>,
            /// Values in a JSON body, by JSON pointer.
            #[serde(default)]
            #[schemars(with = "Map<String, Value>")]
            pub(crate) json: Entries<Located<Value>>,
        }

        impl $name {
            /// The settings that tell the request.
            pub(crate) fn request(&self) -> RequestRef<'_> {
                RequestRef {
                    method: self.method.as_ref(),
                    path: self.path.as_ref(),
                    query: &self.query,
                    form: &self.form,
                    cookies: &self.cookies,
                    json: &self.json,
                }
            }
        }
    };
}

/// What tells a request, borrowed from the setting that has it.
#[derive(Clone, Copy)]
pub(crate) struct RequestRef<'a> {
    pub(crate) method: Option<&'a Text>,
    pub(crate) path: Option<&'a Text>,
    pub(crate) query: &'a Entries<Located<Scalar>>,
    pub(crate) form: &'a Entries<Located<Scalar>>,
    pub(crate) cookies: &'a Entries<Located<Scalar>>,
    pub(crate) json: &'a Entries<Located<Value>>,
}

with_request! {
    /// Requests that have all of this, and one answer to them: `respond`, `redirect`, `serve` or `drop`.
    #[derive(Debug, Clone, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[schemars(rename = "Route")]
    struct RouteFile {
        /// How many such requests pass by before it answers. Default: 0.
        #[schemars(range(min = 0, max = bounds::MAX_CALLS))]
        after: Option<Located<i64>>,
        /// How many it answers; all further ones pass by. Default: all.
        #[schemars(range(min = 1, max = bounds::MAX_CALLS))]
        times: Option<Located<i64>>,
        /// How long the answer is held back. Default: 0.
        #[schemars(range(min = 0, max = bounds::MAX_DELAY_MILLIS))]
        delay_millis: Option<Located<i64>>,
        /// An answer given here.
        #[serde(default, deserialize_with = "present_or_default")]
        respond: Option<RespondFile>,
        /// 303 to another path or address.
        redirect: Option<Text>,
        /// The file of another path, or with nothing behind it the one that was asked for: for a delay.
        #[serde(default, deserialize_with = "present")]
        serve: Option<OptionalText>,
        /// The connection ends without an answer.
        #[serde(default, deserialize_with = "present_or_default")]
        drop: Option<NothingFile>,
        /// Further headers of a `redirect`.
        #[serde(default)]
        headers: Entries<Text>,
        /// Cookies that a `redirect` sets: `session=7; Path=/`.
        #[serde(default)]
        set_cookies: Vec<Text>,
    }
}

/// An answer: its body is `body`, `json` or `host`, or empty.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Respond")]
pub(crate) struct RespondFile {
    /// HTTP status. Default: 200.
    #[schemars(range(min = 200, max = 599))]
    pub(crate) status: Option<Located<i64>>,
    /// Headers.
    #[serde(default)]
    pub(crate) headers: Entries<Text>,
    /// Cookies that it sets: `session=7; Path=/`.
    #[serde(default)]
    pub(crate) set_cookies: Vec<Text>,
    /// The body, a template. Read as HTML unless `headers` names a `content-type`.
    pub(crate) body: Option<Text>,
    /// The body, as JSON.
    pub(crate) json: Option<Located<Value>>,
    /// The body, a file beside the suite.
    pub(crate) host: Option<Text>,
}

/// What a script in the page comes to.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PageScript")]
pub(crate) struct PageScriptFile {
    /// Body of a JavaScript function: `return document.title`.
    pub(crate) run: Text,
    /// What it returns. A string that is one `{{ expression }}` takes the type of the expression.
    pub(crate) equals: Located<Value>,
}

/// A reward that the page itself gives.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PageReward")]
pub(crate) struct PageRewardFile {
    /// A JavaScript expression that is a number.
    pub(crate) expression: Text,
    /// The reward whose score is 0, and that of every lower one. Default: 0.
    pub(crate) lowest: Option<Located<f64>>,
    /// The reward whose score is 1, and that of every higher one. Default: 1.
    pub(crate) highest: Option<Located<f64>>,
}

/// Elements of the active page.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PageElement")]
pub(crate) struct PageElementFile {
    /// CSS selector.
    pub(crate) selector: Text,
    /// Text of those that count, with white space as single spaces.
    pub(crate) text: Option<Located<PatternFile>>,
    /// Value of those that count, of fields.
    pub(crate) value: Option<Located<PatternFile>>,
    /// Attributes of those that count.
    #[serde(default)]
    pub(crate) attributes: Entries<Located<PatternFile>>,
    /// Whether those that count are checked or selected.
    pub(crate) checked: Option<bool>,
    /// Whether those that count are seen: have a size, and are not hidden.
    pub(crate) visible: Option<bool>,
    /// Fewest that pass. Default: 1, or 0 with `at_most: 0`.
    #[schemars(range(min = 0, max = bounds::MAX_CALLS))]
    pub(crate) at_least: Option<Located<i64>>,
    /// Most that pass. Default: no limit.
    #[schemars(range(min = 0, max = bounds::MAX_CALLS))]
    pub(crate) at_most: Option<Located<i64>>,
}

/// What a site keeps in the browser. One of `value` and `absent`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PageStorage")]
pub(crate) struct PageStorageFile {
    /// `localStorage` or `sessionStorage`. Default: local.
    pub(crate) area: Option<Located<StorageAreaFile>>,
    /// Origin, such as `http://shop.localhost`. Default: that of the active page.
    pub(crate) origin: Option<Text>,
    /// The key.
    pub(crate) key: Text,
    /// Its value.
    pub(crate) value: Option<Located<PatternFile>>,
    /// `true`: there is no such key.
    pub(crate) absent: Option<Located<bool>>,
}

words! {
    /// Where a page keeps texts by key.
    enum StorageAreaFile for StorageArea {
        Local,
        Session,
    }
}

/// A cookie of any origin. One of `value` and `absent`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PageCookie")]
pub(crate) struct PageCookieFile {
    /// Its name.
    pub(crate) name: Text,
    /// Its value.
    pub(crate) value: Option<Located<PatternFile>>,
    /// `true`: there is no such cookie.
    pub(crate) absent: Option<Located<bool>>,
}

with_request! {
    /// How often the sites were asked for what has all of this.
    #[derive(Debug, Clone, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[schemars(rename = "Requested")]
    struct RequestedFile {
        /// Name of the site. Default: all together.
        site: Option<Text>,
        /// Fewest that pass. Default: 1, or 0 with `at_most: 0`.
        #[schemars(range(min = 0, max = bounds::MAX_CALLS))]
        at_least: Option<Located<i64>>,
        /// Most that pass. Default: no limit.
        #[schemars(range(min = 0, max = bounds::MAX_CALLS))]
        at_most: Option<Located<i64>>,
    }
}

/// A file that was downloaded.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Downloaded")]
pub(crate) struct DownloadedFile {
    /// Its name.
    pub(crate) name: Text,
    /// What it contains. Default: anything.
    pub(crate) content: Option<Located<PatternFile>>,
}

two_forms! {
    /// What a text has to be: the text itself, or a map.
    enum PatternFile as "Pattern" { Equals(Scalar), Fields(PatternFields) }
    expects "a text, or a map with `equals:`, `contains:` or `matches:`";
    described "What a text has to be: the text itself, or a map with `equals`, `contains` or `matches`.";
}

/// One of `equals`, `contains` and `matches`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "TextPattern")]
pub(crate) struct PatternFields {
    /// Exactly this.
    pub(crate) equals: Option<Located<Scalar>>,
    /// This is in it.
    pub(crate) contains: Option<Text>,
    /// A regular expression in the syntax of Rust's regex crate matches it somewhere. Quote it with single quotes.
    pub(crate) matches: Option<Text>,
}
