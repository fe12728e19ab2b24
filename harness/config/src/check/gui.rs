//! The browser of a task, the sites that it is shown, and checks of pages.

use std::time::Duration;

use clawrl_core::{LINK_MODE, SandboxKind, Screenshots, SiteFolder, StorageArea};

use super::checker::Checker;
use super::toolcall::json_text;
use crate::bounds;
use crate::file::{
    CheckFile, Entries, FilesFile, GuiFile, Located, PageCookieFile, PageElementFile, PageRewardFile,
    PageStorageFile, PatternFile, RequestFile, RequestedFile, RespondFile, RouteFile, SandboxFile, Scalar,
    SiteFile, Text,
};
use crate::row::{
    BodyRow, CheckKind, FilesRow, GuiRow, PageCheckRow, PatternKind, PatternRow, RequestRow, RouteAnswerRow,
    RouteRow, SiteRow,
};
use crate::source::Span;
use crate::value;

/// How much of a page is shown when nothing else is said.
const DEFAULT_OBSERVATION: u32 = 8_000;

impl Checker {
    pub(super) fn gui(&mut self, file: GuiFile, place: Span) -> GuiRow {
        if let Some(Located { value: SandboxFile::Container | SandboxFile::None, span }) = file.sandbox {
            self.problem(
                span,
                "browsers run in `sandbox: bubblewrap` and in no other kind",
                "not for browsers",
                "remove the line",
            );
        }
        let sites: Vec<SiteRow> = file
            .sites
            .into_iter()
            .flat_map(|sites| sites.0)
            .map(|(name, site)| self.site(name, site))
            .collect();
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
        GuiRow {
            origins: file.origins.unwrap_or_default(),
            start: file.start,
            prepare: file.prepare.unwrap_or_default(),
            end_when: file.end_when,
            files: file.files.map_or_else(|| FilesRow::Map(Vec::new()), |files| self.uploads(files)),
            viewport: self.viewport(file.viewport),
            hidden: file.hidden.unwrap_or_default(),
            screenshots: file.screenshots.map_or_else(Screenshots::default, |when| when.value.into()),
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
            sites,
        }
    }

    /// Files that a page may be given. A browser uploads what a link leads to, so there is no use for one.
    fn uploads(&mut self, files: Located<FilesFile>) -> FilesRow {
        let span = files.span;
        let row = self.files(files);
        if let FilesRow::Folder(found) = &row
            && let Some(link) = found.iter().find(|file| file.mode == LINK_MODE)
        {
            let message = format!("`{}` is a symbolic link, and pages are given files", link.path);
            self.problem(span, message, "has a link", "replace it by the file it points to");
        }
        row
    }

    fn viewport(&mut self, given: Option<Located<Vec<Located<i64>>>>) -> (u16, u16) {
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

    fn site(&mut self, name: Text, site: Located<SiteFile>) -> SiteRow {
        self.named(&name, value::site_name);
        let Located { value: site, span } = site;
        let files = site.files.0.into_iter().filter_map(|(path, entry)| self.entry(path, entry)).collect();
        let files = FilesRow::Map(files);
        let has_nothing = site.folder.is_none()
            && site.routes.is_empty()
            && matches!(&files, FilesRow::Map(files) if files.is_empty());
        if has_nothing {
            let message = format!("the site `{}` has nothing to show", name.value);
            let help = "name a folder beside the suite, `folder: fixtures/app`; or add `files:` or `routes:`";
            self.problem(span, message, "no files, no routes", help);
        }
        let folder = site.folder.and_then(|folder| self.site_folder(&folder));
        let routes = site.routes.into_iter().filter_map(|route| self.route(route)).collect();
        SiteRow { name, folder, files, routes }
    }

    /// The folder with its hash, which many tasks may share.
    fn site_folder(&mut self, path: &Text) -> Option<SiteFolder> {
        if !self.fixture_path(path, value::relative_path) {
            return None;
        }
        if let Some(known) = self.site_folders.get(&path.value) {
            return Some(known.clone());
        }
        match self.fixtures.site(path) {
            Ok(folder) => {
                self.site_folders.insert(path.value.clone(), folder.clone());
                Some(folder)
            }
            Err(error) => {
                self.fixture_problem(path.span, error);
                None
            }
        }
    }

    fn route(&mut self, route: Located<RouteFile>) -> Option<RouteRow> {
        let Located { value: mut file, span } = route;
        let request = self.request(file.take_request());
        let after = self.whole("after", file.after.as_ref(), 0..=bounds::MAX_CALLS, 0);
        let times =
            file.times.as_ref().map(|times| self.whole("times", Some(times), 1..=bounds::MAX_CALLS, 1));
        let delay = self.whole("delay_millis", file.delay_millis.as_ref(), 0..=bounds::MAX_DELAY_MILLIS, 0);
        let (headers, cookies) = (file.headers.0, file.set_cookies);
        let beside = headers.first().map(|(name, _)| name.span).or(cookies.first().map(|cookie| cookie.span));
        if let (Some(span), None) = (beside, &file.redirect) {
            let message = "`headers` and `set_cookies` beside the answer are those of a `redirect`";
            self.problem(span, message, "not here", "those of an answer given here stand under `respond:`");
        }
        let mut answers = Vec::new();
        if let Some(respond) = file.respond {
            answers.push(self.respond(respond, span)?);
        }
        answers.extend(file.redirect.map(|to| RouteAnswerRow::Redirect { to, headers, cookies }));
        answers.extend(file.serve.map(|serve| RouteAnswerRow::Serve(serve.0)));
        answers.extend(file.drop.map(|_| RouteAnswerRow::Drop));
        match (answers.pop(), answers.is_empty()) {
            (Some(answer), true) => {
                let delay = Duration::from_millis(u64::from(delay));
                Some(RouteRow { request, after, times, delay, answer })
            }
            (answer, _) => {
                let message = "a route needs one of `respond`, `redirect`, `serve` and `drop`";
                let label = if answer.is_some() { "several" } else { "none of them" };
                let help = "write `{ path: /api, respond: { json: { ok: true } } }`, or `{ path: /slow, delay_millis: \
                            500, serve: }`";
                self.problem(span, message, label, help);
                None
            }
        }
    }

    fn respond(&mut self, file: RespondFile, span: Span) -> Option<RouteAnswerRow> {
        let status = self.whole("status", file.status.as_ref(), 200..=599, 200);
        let body = match (file.body, file.json, file.host) {
            (None, None, None) => BodyRow::Empty,
            (Some(text), None, None) => BodyRow::Text(text),
            (None, Some(json), None) => BodyRow::Json(json_text(json)),
            (None, None, Some(host)) => {
                if !self.fixture_path(&host, value::file_path) {
                    return None;
                }
                match self.fixtures.file(&host) {
                    Ok(file) => BodyRow::File(file.content),
                    Err(error) => {
                        self.fixture_problem(host.span, error);
                        return None;
                    }
                }
            }
            _ => {
                let help = "keep one of `body`, `json` and `host`";
                self.problem(span, "this answer has several bodies", "several in one", help);
                return None;
            }
        };
        let status = u16::try_from(status).unwrap_or(200);
        Some(RouteAnswerRow::Respond { status, headers: file.headers.0, cookies: file.set_cookies, body })
    }

    fn request(&mut self, file: RequestFile) -> RequestRow {
        let values = |entries: Entries<Located<Scalar>>| {
            entries.0.into_iter().map(|(name, value)| (name, self.written(value))).collect()
        };
        RequestRow {
            query: values(file.query),
            form: values(file.form),
            cookies: values(file.cookies),
            json: file.json.0.into_iter().map(|(pointer, value)| (pointer, json_text(value))).collect(),
            method: file.method,
            path: file.path,
        }
    }

    /// The kinds of checks of pages that are given.
    pub(super) fn page_checks(&mut self, check: &mut CheckFile) -> Vec<CheckKind> {
        let script = check
            .page_script
            .take()
            .map(|file| PageCheckRow::Script { run: file.run, equals: json_text(file.equals) });
        let reward = check.page_reward.take().map(|file| self.page_reward(file));
        let element = check.page_element.take().and_then(|file| self.page_element(file));
        let url = check.page_url.take().and_then(|pattern| self.pattern_row(pattern));
        let storage = check.page_storage.take().and_then(|file| self.page_storage(file));
        let cookie = check.page_cookie.take().and_then(|file| self.page_cookie(file));
        let requested = check.requested.take().map(|file| self.requested(file));
        let downloaded = check.downloaded.take().map(|file| PageCheckRow::Downloaded {
            name: file.name,
            content: file.content.and_then(|pattern| self.pattern_row(pattern)),
        });
        let given =
            [script, reward, element, url.map(PageCheckRow::Url), storage, cookie, requested, downloaded];
        given.into_iter().flatten().map(|check| CheckKind::Page(Box::new(check))).collect()
    }

    fn page_reward(&mut self, file: Located<PageRewardFile>) -> PageCheckRow {
        let Located { value: file, span } = file;
        let lowest = file.lowest.map_or(0.0, |number| number.value);
        let highest = file.highest.map_or(1.0, |number| number.value);
        if !(lowest < highest && lowest.is_finite() && highest.is_finite()) {
            let message = format!("no reward lies between {lowest} and {highest}");
            let help = "write the reward of a failure and that of a success: `lowest: -1`, `highest: 1`";
            self.problem(span, message, "no room between them", help);
        }
        PageCheckRow::Reward { expression: file.expression, lowest, highest }
    }

    fn page_element(&mut self, file: PageElementFile) -> Option<PageCheckRow> {
        let (at_least, at_most) =
            self.times(file.at_least.as_ref(), file.at_most.as_ref(), file.selector.span, "elements");
        let text = self.optional_pattern(file.text);
        let value = self.optional_pattern(file.value);
        let attributes: Vec<_> = file
            .attributes
            .0
            .into_iter()
            .map(|(name, pattern)| Some((name, self.pattern_row(pattern)?)))
            .collect();
        Some(PageCheckRow::Element {
            selector: file.selector,
            text: text?,
            value: value?,
            attributes: attributes.into_iter().collect::<Option<_>>()?,
            checked: file.checked,
            visible: file.visible,
            at_least,
            at_most,
        })
    }

    fn page_storage(&mut self, file: Located<PageStorageFile>) -> Option<PageCheckRow> {
        let Located { value: file, span } = file;
        let value = self.value_or_absent("page_storage", file.value, file.absent, span)?;
        let area = file.area.map_or(StorageArea::Local, |area| area.value.into());
        Some(PageCheckRow::Storage { area, origin: file.origin, key: file.key, value })
    }

    fn page_cookie(&mut self, file: Located<PageCookieFile>) -> Option<PageCheckRow> {
        let Located { value: file, span } = file;
        let value = self.value_or_absent("page_cookie", file.value, file.absent, span)?;
        Some(PageCheckRow::Cookie { name: file.name, value })
    }

    fn value_or_absent(
        &mut self,
        key: &str,
        value: Option<PatternFile>,
        absent: Option<Located<bool>>,
        span: Span,
    ) -> Option<Option<PatternRow>> {
        match (value, absent.map(|absent| absent.value)) {
            (Some(pattern), None) => self.pattern_row(pattern).map(Some),
            (None, Some(true)) => Some(None),
            _ => {
                let message = format!("`{key}` needs either `value` or `absent: true`");
                self.problem(span, message, "none, or both", "write one of `value: text` and `absent: true`");
                None
            }
        }
    }

    fn requested(&mut self, file: Located<RequestedFile>) -> PageCheckRow {
        let Located { value: mut file, span } = file;
        let request = self.request(file.take_request());
        let (at_least, at_most) = self.times(file.at_least.as_ref(), file.at_most.as_ref(), span, "requests");
        PageCheckRow::Requested { site: file.site, request, at_least, at_most }
    }

    /// Fewest and most that pass.
    pub(super) fn times(
        &mut self,
        at_least: Option<&Located<i64>>,
        at_most: Option<&Located<i64>>,
        place: Span,
        what: &str,
    ) -> (u32, Option<u32>) {
        let most = bounds::MAX_CALLS;
        let last = at_most.map(|number| self.whole("at_most", Some(number), 0..=most, u32::MAX));
        // Asked for at most none, nobody means at least one.
        let first = self.whole("at_least", at_least, 0..=most, u32::from(last != Some(0)));
        if let (Some(number), Some(last)) = (at_most, last)
            && first > last
        {
            let message = format!("no number of {what} is at least {first} and at most {last}");
            let help = format!("write `at_most: {first}` or more, or lower `at_least`");
            self.problem(number.span, message, "never passes", help);
        }
        if first == 0 && last.is_none() {
            let message = format!("any number of {what} passes this check");
            self.problem(place, message, "nothing is checked", "write `at_least: 1` or more, or `at_most`");
        }
        (first, last)
    }

    fn optional_pattern(&mut self, file: Option<PatternFile>) -> Option<Option<PatternRow>> {
        match file {
            Some(pattern) => self.pattern_row(pattern).map(Some),
            None => Some(None),
        }
    }

    fn pattern_row(&mut self, file: PatternFile) -> Option<PatternRow> {
        let Located { value: fields, span } = match file {
            PatternFile::Equals(scalar) => {
                return Some(PatternRow { kind: PatternKind::Equals, text: self.written(scalar) });
            }
            PatternFile::Fields(fields) => fields,
        };
        let (kind, text) = match (fields.equals, fields.contains, fields.matches) {
            (Some(scalar), None, None) => (PatternKind::Equals, self.written(scalar)),
            (None, Some(text), None) => (PatternKind::Contains, text),
            (None, None, Some(text)) => (PatternKind::Matches, text),
            _ => {
                let message = "what a text has to be needs one of `equals`, `contains` and `matches`";
                let help = "write one of them: `{ contains: hello }`; or the text itself";
                self.problem(span, message, "none, or several", help);
                return None;
            }
        };
        Some(PatternRow { kind, text })
    }

    /// The site that a check names is one of the task's.
    pub(super) fn declared_site(&mut self, name: &Text, gui: &GuiRow) {
        if gui.sites.iter().any(|site| site.name.value == name.value) {
            return;
        }
        let sites = gui.sites.iter().map(|site| site.name.value.as_str());
        let help = match sites.clone().next() {
            None => "declare it under `env: gui: sites:`".to_owned(),
            Some(_) => format!("sites of this task are {}", crate::suggest::listed(sites)),
        };
        let message = format!("there is no site `{}` in this task", name.value);
        self.problem(name.span, message, "not declared", help);
    }
}
