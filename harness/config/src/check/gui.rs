//! The browser environment of a task, and its sites.

use std::collections::BTreeMap;
use std::time::Duration;

use clawrl_core::{
    FixtureContent, FixtureFile, GuiSpec, LINK_MODE, Route, RouteAnswer, SITE_SUFFIX, SandboxKind,
    Screenshots, SiteSpec,
};

use super::builder::{TaskBuilder, Written};
use super::checker::Checker;
use crate::bounds;
use crate::file::{
    Entries, FilesFile, GuiFile, Located, RespondFile, RouteFile, SandboxFile, SiteFile, Text,
};
use crate::source::Span;
use crate::value;

/// Default maximum number of characters of a page in an observation.
const DEFAULT_OBSERVATION: u32 = 8_000;

impl<'s> TaskBuilder<'_, '_, 's> {
    pub(super) fn gui(&mut self, file: &'s GuiFile, place: Span) -> GuiSpec {
        if let Some(Located { value: SandboxFile::Container | SandboxFile::None, span }) = file.sandbox {
            self.problem(
                span,
                "browsers run in `sandbox: bubblewrap` and in no other kind",
                "not for browsers",
                "remove the line",
            );
        }
        let sites = file.sites.iter().flat_map(|sites| &sites.0);
        let sites: Vec<SiteSpec> = sites.map(|(name, site)| self.site(name, site)).collect();
        if sites.is_empty() && file.start.is_none() {
            self.problem(
                place,
                "the task has neither sites nor a first page",
                "nothing to show",
                "add `sites: { app: { folder: fixtures/app } }`, or `start:` and `origins:`",
            );
        }
        let settle =
            self.whole("settle_millis", file.settle_millis.as_ref(), 1..=bounds::MAX_SETTLE_MILLIS, 5_000);
        let origins = self.all_ruled(file.origins.as_deref().unwrap_or_default(), value::origin);
        let start = self.start(file);
        if let Some(start) = &start {
            self.start_is_reached(file, start, &origins);
        }
        GuiSpec {
            sites,
            origins,
            start: start.unwrap_or_default(),
            prepare: self.texts(file.prepare.as_deref().unwrap_or_default()),
            end_when: self.optional(file.end_when.as_ref()).flatten(),
            files: file.files.as_ref().map(|files| self.uploads(files)).unwrap_or_default(),
            viewport: self.viewport(file.viewport.as_ref()),
            hidden: self.all_ruled(file.hidden.as_deref().unwrap_or_default(), value::not_blank),
            screenshots: file
                .screenshots
                .as_ref()
                .map_or_else(Screenshots::default, |when| when.value.into()),
            observation_chars: self.whole(
                "observation_chars",
                file.observation_chars.as_ref(),
                bounds::MIN_OBSERVATION..=bounds::MAX_OBSERVATION,
                DEFAULT_OBSERVATION,
            ),
            show_address: file.show_address.unwrap_or(true),
            settle: Duration::from_millis(u64::from(settle)),
            sandbox: SandboxKind::Bubblewrap,
            memory_mib: self.whole(
                "memory_mib",
                file.memory_mib.as_ref(),
                bounds::MIN_BROWSER_MIB..=bounds::MAX_MIB,
                1_024,
            ),
        }
    }

    /// The address of the first page; a path is one of the first site.
    pub(super) fn start(&mut self, file: &'s GuiFile) -> Option<String> {
        let written = match &file.start {
            Some(start) => self.ruled(start, value::start_page)?,
            None => "/".to_owned(),
        };
        if !written.starts_with('/') {
            return Some(written);
        }
        match file.sites.as_ref().and_then(|sites| sites.0.first()) {
            Some((name, _)) => Some(format!("http://{}{SITE_SUFFIX}{written}", name.value)),
            // If `start` is missing, the missing sites were already reported.
            None => {
                let start = file.start.as_ref()?;
                let message = format!("`{written}` is a path, and the task has no site");
                self.found(start.span, message, "of which site?", "write an address, or add `sites:`");
                None
            }
        }
    }

    /// Checks that the first page is at a site or at an allowed origin: a task that cannot show it is useless.
    fn start_is_reached(&mut self, file: &'s GuiFile, start: &str, origins: &[String]) {
        let of_start = value::origin_of(start);
        let is_site = file.sites.iter().flat_map(|sites| &sites.0).any(|(name, _)| {
            of_start.is_some() && of_start == value::origin_of(&format!("http://{}{SITE_SUFFIX}", name.value))
        });
        if is_site || origins.iter().any(|origin| value::origin_of(origin) == of_start) {
            return;
        }
        let first_origin = file.origins.as_ref().and_then(|origins| origins.first());
        let Some(written) = file.start.as_ref().or(first_origin) else { return };
        let message = format!("`{start}` is neither at a site of this task nor at one of its `origins`");
        let help = "name the site, as in `http://NAME.localhost/`, or add the origin: `origins: [https://example.org]`";
        self.found(written.span, message, "never reached", help);
    }

    /// Files that a page may be given. Symbolic links are refused: a browser would upload their targets.
    fn uploads(&mut self, files: &'s Located<FilesFile>) -> Vec<FixtureFile> {
        let found = self.files(files);
        if let FilesFile::Folder(_) = files.value
            && let Some(link) = found.iter().find(|file| file.mode == LINK_MODE)
        {
            let message = format!("`{}` is a symbolic link, and pages are given files", link.path);
            self.problem(files.span, message, "has a link", "replace it by the file it points to");
        }
        found
    }

    fn viewport(&mut self, given: Option<&Located<Vec<Located<i64>>>>) -> (u16, u16) {
        let default = (1024, 768);
        let Some(given) = given else { return default };
        let [width, height] = given.value.as_slice() else {
            let message = format!("`viewport` has {} numbers", given.value.len());
            self.problem(given.span, message, "not two", "write width and height: `viewport: [1024, 768]`");
            return default;
        };
        let mut pixels = |number: &Located<i64>, default: u16| {
            let within = bounds::MIN_VIEWPORT..=bounds::MAX_VIEWPORT;
            u16::try_from(self.whole("viewport", Some(number), within, default.into())).unwrap_or(default)
        };
        (pixels(width, default.0), pixels(height, default.1))
    }

    fn site(&mut self, name: &'s Text, site: &'s Located<SiteFile>) -> SiteSpec {
        self.named(name, value::site_name);
        if site.folder.is_none() && site.routes.is_empty() && site.files.0.is_empty() {
            let message = format!("the site `{}` has nothing to show", name.value);
            let help = "name a folder beside the suite, `folder: fixtures/app`; or add `files:` or `routes:`";
            self.problem(site.span, message, "no files, no routes", help);
        }
        let folder = site.folder.as_ref();
        SiteSpec {
            name: name.value.clone(),
            folder: folder.and_then(|folder| {
                self.fixture(folder, value::relative_path, |fixtures, path| fixtures.site(path))
            }),
            files: self.file_map(&site.files),
            routes: site.routes.iter().filter_map(|route| self.route(route)).collect(),
        }
    }

    fn route(&mut self, route: &'s Located<RouteFile>) -> Option<Route> {
        let Located { value: file, span } = route;
        let request = self.request(file.request());
        let after = self.whole("after", file.after.as_ref(), 0..=bounds::MAX_CALLS, 0);
        let times =
            file.times.as_ref().map(|times| self.whole("times", Some(times), 1..=bounds::MAX_CALLS, 1));
        let delay = self.whole("delay_millis", file.delay_millis.as_ref(), 0..=bounds::MAX_DELAY_MILLIS, 0);
        let (headers, cookies) = (&file.headers, &file.set_cookies);
        let beside =
            headers.0.first().map(|(name, _)| name.span).or(cookies.first().map(|cookie| cookie.span));
        if let (Some(span), None) = (beside, &file.redirect) {
            let message = "`headers` and `set_cookies` beside the answer are those of a `redirect`";
            self.problem(span, message, "not here", "those of an answer given here stand under `respond:`");
        }
        let mut answers = Vec::new();
        if let Some(respond) = &file.respond {
            answers.push(self.respond(respond, *span)?);
        }
        if let Some(to) = &file.redirect {
            answers.push(RouteAnswer::Redirect {
                to: self.ruled(to, value::not_blank).unwrap_or_default(),
                headers: self.response_headers(headers),
                cookies: self.all_ruled(cookies, value::set_cookie),
            });
        }
        if let Some(serve) = &file.serve {
            let path = serve.0.as_ref().and_then(|path| self.ruled(path, value::site_path));
            answers.push(RouteAnswer::Serve { path });
        }
        answers.extend(file.drop.as_ref().map(|_| RouteAnswer::Drop));
        match (answers.pop(), answers.is_empty()) {
            (Some(answer), true) => {
                let delay = Duration::from_millis(u64::from(delay));
                Some(Route { request, after, times, delay, answer })
            }
            (answer, _) => {
                let message = "a route needs one of `respond`, `redirect`, `serve` and `drop`";
                let label = if answer.is_some() { "several" } else { "none of them" };
                let help = "write `{ path: /api, respond: { json: { ok: true } } }`, or `{ path: /slow, delay_millis: \
                            500, serve: }`";
                self.problem(*span, message, label, help);
                None
            }
        }
    }

    fn respond(&mut self, file: &'s RespondFile, span: Span) -> Option<RouteAnswer> {
        let status = self.whole("status", file.status.as_ref(), 200..=599, 200);
        let mut headers = self.response_headers(&file.headers);
        let cookies = self.all_ruled(&file.set_cookies, value::set_cookie);
        let (body, kind) = match (&file.body, &file.json, &file.host) {
            (None, None, None) => (FixtureContent::Inline(String::new()), None),
            (Some(text), None, None) => {
                let body = self.text(text).unwrap_or_default();
                (FixtureContent::Inline(body), Some("text/html; charset=utf-8"))
            }
            (None, Some(json), None) => {
                let body = self.json(json).unwrap_or_default().to_string();
                (FixtureContent::Inline(body), Some("application/json"))
            }
            (None, None, Some(host)) => {
                let file = self.fixture(host, value::file_path, |fixtures, path| fixtures.file(path))?;
                (file.content, None)
            }
            _ => {
                let help = "keep one of `body`, `json` and `host`";
                self.problem(span, "this answer has several bodies", "several in one", help);
                return None;
            }
        };
        if let Some(kind) = kind {
            headers.entry("content-type".to_owned()).or_insert_with(|| kind.to_owned());
        }
        Some(RouteAnswer::Respond { status: u16::try_from(status).unwrap_or(200), headers, cookies, body })
    }

    fn response_headers(&mut self, headers: &'s Entries<Text>) -> BTreeMap<String, String> {
        let written = headers.0.iter().map(|(name, text)| (name, Written::from(text)));
        let headers: BTreeMap<String, String> = self.pairs(written, value::header_name, value::header_value);
        headers.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect()
    }
}

impl Checker {
    /// The site that a check names is one of the task's.
    pub(super) fn declared_site(&mut self, name: &Text, gui: &GuiFile) {
        let sites = gui.sites.iter().flat_map(|sites| &sites.0).map(|(site, _)| site.as_str());
        if sites.clone().any(|site| site == name.value) {
            return;
        }
        let help = match sites.clone().next() {
            None => "declare it under `env: gui: sites:`".to_owned(),
            Some(_) => format!("sites of this task are {}", crate::suggest::listed(sites)),
        };
        let message = format!("there is no site `{}` in this task", name.value);
        self.problem(name.span, message, "not declared", help);
    }
}
