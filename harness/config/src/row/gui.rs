//! A GUI environment, its sites, and what checks ask of pages.

use std::time::Duration;

use clawrl_core::{FixtureContent, SandboxKind, Screenshots, SiteFolder, StorageArea};

use super::terminal::FilesRow;
use super::text::{JsonText, Visit, pairs, texts};
use crate::file::Text;

/// A browser, and the pages that it is shown.
#[derive(Debug)]
pub(crate) struct GuiRow {
    pub(crate) sites: Vec<SiteRow>,
    pub(crate) origins: Vec<Text>,
    pub(crate) start: Option<Text>,
    pub(crate) prepare: Vec<Text>,
    pub(crate) end_when: Option<Text>,
    pub(crate) files: FilesRow,
    pub(crate) viewport: (u16, u16),
    pub(crate) hidden: Vec<Text>,
    pub(crate) screenshots: Screenshots,
    pub(crate) observation_chars: u32,
    pub(crate) show_address: bool,
    pub(crate) settle: Duration,
    pub(crate) sandbox: SandboxKind,
    pub(crate) memory_mib: u32,
}

#[derive(Debug)]
pub(crate) struct SiteRow {
    /// Never a template: addresses and checks name it.
    pub(crate) name: Text,
    pub(crate) folder: Option<SiteFolder>,
    pub(crate) files: FilesRow,
    pub(crate) routes: Vec<RouteRow>,
}

#[derive(Debug)]
pub(crate) struct RouteRow {
    pub(crate) request: RequestRow,
    pub(crate) after: u32,
    pub(crate) times: Option<u32>,
    pub(crate) delay: Duration,
    pub(crate) answer: RouteAnswerRow,
}

#[derive(Debug)]
pub(crate) enum RouteAnswerRow {
    Respond { status: u16, headers: Vec<(Text, Text)>, cookies: Vec<Text>, body: BodyRow },
    Redirect { to: Text, headers: Vec<(Text, Text)>, cookies: Vec<Text> },
    Serve(Option<Text>),
    Drop,
}

#[derive(Debug)]
pub(crate) enum BodyRow {
    Empty,
    Text(Text),
    Json(JsonText),
    File(FixtureContent),
}

#[derive(Debug)]
pub(crate) struct RequestRow {
    pub(crate) method: Option<Text>,
    pub(crate) path: Option<Text>,
    pub(crate) query: Vec<(Text, Text)>,
    pub(crate) form: Vec<(Text, Text)>,
    pub(crate) cookies: Vec<(Text, Text)>,
    pub(crate) json: Vec<(Text, JsonText)>,
}

/// What a text has to be.
#[derive(Debug)]
pub(crate) struct PatternRow {
    pub(crate) kind: PatternKind,
    pub(crate) text: Text,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatternKind {
    Equals,
    Contains,
    Matches,
}

/// What a check asks of a page, of what the browser keeps, or of what the sites were asked.
#[derive(Debug)]
pub(crate) enum PageCheckRow {
    Script {
        run: Text,
        equals: JsonText,
    },
    Reward {
        expression: Text,
        lowest: f64,
        highest: f64,
    },
    Element {
        selector: Text,
        text: Option<PatternRow>,
        value: Option<PatternRow>,
        attributes: Vec<(Text, PatternRow)>,
        checked: Option<bool>,
        visible: Option<bool>,
        at_least: u32,
        at_most: Option<u32>,
    },
    Url(PatternRow),
    /// Without a value, there is no such key.
    Storage {
        area: StorageArea,
        origin: Option<Text>,
        key: Text,
        value: Option<PatternRow>,
    },
    /// Without a value, there is no such cookie.
    Cookie {
        name: Text,
        value: Option<PatternRow>,
    },
    Requested {
        /// Never a template.
        site: Option<Text>,
        request: RequestRow,
        at_least: u32,
        at_most: Option<u32>,
    },
    Downloaded {
        name: Text,
        content: Option<PatternRow>,
    },
}

impl GuiRow {
    pub(super) fn each_text<'s>(&'s self, visit: &mut Visit<'_, 's>) {
        let lines = self.origins.iter().chain(&self.start).chain(&self.prepare).chain(&self.end_when);
        texts(lines.chain(&self.hidden), visit);
        self.files.each_text(visit);
        for site in &self.sites {
            site.files.each_text(visit);
            site.routes.iter().for_each(|route| route.each_text(visit));
        }
    }
}

impl RouteRow {
    fn each_text<'s>(&'s self, visit: &mut Visit<'_, 's>) {
        self.request.each_text(visit);
        match &self.answer {
            RouteAnswerRow::Respond { headers, cookies, body, .. } => {
                pairs(headers, visit);
                texts(cookies, visit);
                match body {
                    BodyRow::Text(text) => texts([text], visit),
                    BodyRow::Json(json) => json.each_text(visit),
                    BodyRow::Empty | BodyRow::File(_) => {}
                }
            }
            RouteAnswerRow::Redirect { to, headers, cookies } => {
                texts([to], visit);
                texts(cookies, visit);
                pairs(headers, visit);
            }
            RouteAnswerRow::Serve(path) => texts(path, visit),
            RouteAnswerRow::Drop => {}
        }
    }
}

impl RequestRow {
    fn each_text<'s>(&'s self, visit: &mut Visit<'_, 's>) {
        texts(self.method.iter().chain(&self.path), visit);
        for values in [&self.query, &self.form, &self.cookies] {
            pairs(values, visit);
        }
        for (pointer, value) in &self.json {
            texts([pointer], visit);
            value.each_text(visit);
        }
    }
}

impl PageCheckRow {
    pub(super) fn each_text<'s>(&'s self, visit: &mut Visit<'_, 's>) {
        let patterned = |pattern: &'s Option<PatternRow>| pattern.iter().map(|pattern| &pattern.text);
        match self {
            Self::Script { run, equals } => {
                texts([run], visit);
                equals.each_text(visit);
            }
            Self::Reward { expression, .. } => texts([expression], visit),
            Self::Element { selector, text, value, attributes, .. } => {
                texts(std::iter::once(selector).chain(patterned(text)).chain(patterned(value)), visit);
                for (name, pattern) in attributes {
                    texts([name, &pattern.text], visit);
                }
            }
            Self::Url(pattern) => texts([&pattern.text], visit),
            Self::Storage { origin, key, value, .. } => {
                texts(origin.iter().chain([key]).chain(patterned(value)), visit);
            }
            Self::Cookie { name, value } | Self::Downloaded { name, content: value } => {
                texts(std::iter::once(name).chain(patterned(value)), visit);
            }
            Self::Requested { request, .. } => request.each_text(visit),
        }
    }

    /// The key in the suite file.
    pub(super) fn key(&self) -> &'static str {
        match self {
            Self::Script { .. } => "page_script",
            Self::Reward { .. } => "page_reward",
            Self::Element { .. } => "page_element",
            Self::Url(_) => "page_url",
            Self::Storage { .. } => "page_storage",
            Self::Cookie { .. } => "page_cookie",
            Self::Requested { .. } => "requested",
            Self::Downloaded { .. } => "downloaded",
        }
    }
}
