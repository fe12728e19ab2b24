//! The sites of one attempt.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use clawrl_core::{Boundary, Fault, RequestPattern, SITE_SUFFIX};
use http::header::{ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, Entry, IF_RANGE, LOCATION, RANGE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use url::Url;

use super::answer::{FileRequest, file};
use super::body::{Body, empty, page};
use super::content::Content;
use super::file_type::file_type;
use super::folder::Folder;
use super::log::{Log, LoggedRequest, Matching};
use super::origin::Origin;
use super::path::{file_name, shown};
use super::pattern::Fit;
use super::reader::VerifiedContent;
use super::request::SiteRequest;
use super::route::{PreparedAnswer, PreparedRoute, choose};

/// All sites of an attempt, their request log, and the further origins that its pages may reach.
#[derive(Debug)]
pub(crate) struct Sites {
    sites: Vec<Site>,
    origins: Vec<Origin>,
    kept: Mutex<SiteState>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SiteNumber(usize);

#[derive(Debug)]
pub(super) struct Site {
    pub(super) name: Arc<str>,
    pub(super) files: HashMap<String, Content>,
    pub(super) folder: Option<Arc<VerifiedContent<Folder>>>,
    pub(super) routes: Vec<PreparedRoute>,
}

/// Guarded by one lock, so that routes are counted in the order of the log.
#[derive(Debug)]
struct SiteState {
    log: Log,
    /// For each site and route, the number of matching requests.
    passed: Vec<Vec<u64>>,
    fault: Option<Fault>,
}

/// The connection must end without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConnectionDropped;

impl fmt::Display for ConnectionDropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection ends without an answer")
    }
}

impl std::error::Error for ConnectionDropped {}

impl Sites {
    pub(super) fn new(sites: Vec<Site>, origins: Vec<Origin>) -> Self {
        let passed = sites.iter().map(|site| vec![0; site.routes.len()]).collect();
        Self { sites, origins, kept: Mutex::new(SiteState { log: Log::default(), passed, fault: None }) }
    }

    pub(crate) fn site(&self, host: &str) -> Option<SiteNumber> {
        let name = host.strip_suffix(SITE_SUFFIX)?;
        self.sites.iter().position(|site| *site.name == *name).map(SiteNumber)
    }

    /// The further origins that pages may reach.
    pub(crate) fn origins(&self) -> &[Origin] {
        &self.origins
    }

    pub(crate) fn requests(&self) -> Vec<LoggedRequest> {
        self.kept().log.entries().to_vec()
    }

    /// How many of them match, of one site or of all.
    pub(crate) fn matching(&self, site: Option<&str>, pattern: &RequestPattern) -> Matching {
        self.kept().log.matching(site, pattern)
    }

    /// Whether an address belongs to a site, and a route of the task defined its last answer.
    pub(crate) fn is_written(&self, url: &Url) -> Option<bool> {
        let site = url.host_str().filter(|_| url.scheme() == "http" && url.port().is_none())?;
        let name = Arc::clone(&self.sites[self.site(site)?.0].name);
        let path = shown(url.path());
        let kept = self.kept();
        let last = kept.log.entries().iter().rev().find(|asked| asked.site == name && asked.path == path);
        Some(last.is_some_and(|asked| asked.is_written))
    }

    /// The first file that could not be served as planned, if any.
    pub(crate) fn fault(&self) -> Option<Fault> {
        self.kept().fault.clone()
    }

    /// Answers a request, when it is complete and the delay of its route is over.
    ///
    /// # Errors
    /// [`ConnectionDropped`] if a route says so, or the request was incomplete.
    pub(crate) async fn answer<B>(
        &self,
        site: SiteNumber,
        request: Request<B>,
    ) -> Result<Response<Body>, ConnectionDropped>
    where
        B: hyper::body::Body<Data = Bytes> + Unpin,
    {
        let (head, body) = request.into_parts();
        let site_number = site.0;
        let site = &self.sites[site_number];
        let mut answer = match SiteRequest::read(&head.method, &head.uri, &head.headers, body).await {
            Ok(request) => {
                let asked = RequestHead {
                    wanted: FileRequest::of(&head.method, &head.headers),
                    method: head.method,
                    uri: head.uri,
                };
                self.decide(site_number, &asked, request).await?
            }
            Err(trouble) => {
                let mut answer =
                    page(trouble.status().ok_or(ConnectionDropped)?, "the request was incomplete");
                // An incomplete request does not count.
                answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                answer
            }
        };
        if site.drops() {
            // Browsers repeat a request by themselves when a reused connection ends.
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(answer)
    }

    async fn decide(
        &self,
        site_number: usize,
        asked: &RequestHead,
        request: SiteRequest,
    ) -> Result<Response<Body>, ConnectionDropped> {
        let site = &self.sites[site_number];
        let (route, entry) = {
            let mut kept = self.kept();
            let SiteState { log, passed, .. } = &mut *kept;
            if !log.has_room(&request) {
                let text = "this site's log is full";
                return Ok(page(StatusCode::SERVICE_UNAVAILABLE, text));
            }
            let fits = |pattern: &RequestPattern| request.fit(pattern) == Fit::Yes;
            let route = choose(&site.routes, &mut passed[site_number], fits);
            // Browsers request it by themselves.
            if route.is_none() && asked.is_for_icon() && site.find(asked.uri.path()).is_none() {
                let mut answer = Response::new(empty());
                *answer.status_mut() = StatusCode::NO_CONTENT;
                return Ok(answer);
            }
            (route.map(|route| &site.routes[route]), log.push(&site.name, request))
        };
        if let Some(route) = route {
            // timer: the delay of the route
            tokio::time::sleep(route.delay).await;
        }
        let answer = match route.map(|route| &route.answer) {
            Some(PreparedAnswer::Drop) => return Err(ConnectionDropped),
            Some(PreparedAnswer::Respond { status, headers, content }) => {
                self.respond(site, *status, headers, content, asked.wanted.is_head).await
            }
            Some(PreparedAnswer::Redirect { headers }) => redirect(headers),
            Some(PreparedAnswer::Serve { path: Some(path) }) => {
                self.serve(site, site.named(path), &asked.wanted).await
            }
            Some(PreparedAnswer::Serve { path: None }) => {
                self.serve(site, site.find(asked.uri.path()), &asked.wanted).await
            }
            None => self.file_or_folder(site, asked).await,
        };
        let is_written = matches!(route.map(|route| &route.answer), Some(PreparedAnswer::Respond { .. }));
        self.kept().log.answered(entry, answer.status(), is_written);
        Ok(answer)
    }

    async fn file_or_folder(&self, site: &Site, asked: &RequestHead) -> Response<Body> {
        let found = site.find(asked.uri.path());
        if found.is_some() && !matches!(asked.method, Method::GET | Method::HEAD) {
            let mut answer = page(StatusCode::METHOD_NOT_ALLOWED, "files are only read");
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return answer;
        }
        match asked.folder().filter(|_| found.is_none()) {
            Some(folder) if site.find(folder.path()).is_some() => {
                let mut answer = page(StatusCode::MOVED_PERMANENTLY, "this is a folder");
                if let Ok(to) = HeaderValue::try_from(folder.to_string()) {
                    answer.headers_mut().insert(LOCATION, to);
                }
                answer
            }
            _ => self.serve(site, found, &asked.wanted).await,
        }
    }

    async fn serve(
        &self,
        site: &Site,
        found: Option<(String, Content)>,
        wanted: &FileRequest,
    ) -> Response<Body> {
        let Some((name, content)) = found else {
            return page(StatusCode::NOT_FOUND, "there is no such page");
        };
        match file(content, file_type(&name), wanted.clone()).await {
            Ok(answer) => answer,
            Err(error) => self.failed(site, &name, &error),
        }
    }

    async fn respond(
        &self,
        site: &Site,
        status: StatusCode,
        headers: &HeaderMap,
        content: &Content,
        is_head: bool,
    ) -> Response<Body> {
        let name = match content {
            Content::Host(file) => file.path().to_string_lossy().into_owned(),
            // Answers in the plan are mostly pages.
            Content::Memory(_) | Content::Folder(..) => "answer.html".to_owned(),
        };
        match file(content.clone(), file_type(&name), FileRequest { is_head, range: None }).await {
            Ok(mut answer) => {
                *answer.status_mut() = status;
                answer.headers_mut().remove(http::header::ACCEPT_RANGES);
                if is_without_body(status) {
                    *answer.body_mut() = empty();
                    answer.headers_mut().remove(CONTENT_TYPE);
                    answer.headers_mut().remove(http::header::CONTENT_LENGTH);
                }
                answer.headers_mut().extend(headers.clone());
                answer
            }
            Err(error) => self.failed(site, &name, &error),
        }
    }

    fn failed(&self, site: &Site, name: &str, error: &std::io::Error) -> Response<Body> {
        let message = format!("failed to serve {name:?} of site {} as planned: {error}", site.name);
        tracing::warn!("{message}");
        // The next attempt reads everything again, and fails permanently if the plan no longer matches.
        self.kept().fault.get_or_insert_with(|| Fault::transient(Boundary::Env, "site-changed", message));
        page(StatusCode::INTERNAL_SERVER_ERROR, "this page has changed since the plan was made")
    }

    fn kept(&self) -> MutexGuard<'_, SiteState> {
        // A panic in between leaves at most one request without its entry.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Site {
    /// The file that the path of a request stands for.
    fn find(&self, path: &str) -> Option<(String, Content)> {
        self.look_up(file_name(path)?)
    }

    fn named(&self, path: &str) -> Option<(String, Content)> {
        let mut name = path.strip_prefix('/').unwrap_or(path).to_owned();
        if name.is_empty() || name.ends_with('/') {
            name.push_str("index.html");
        }
        self.look_up(name)
    }

    fn look_up(&self, name: String) -> Option<(String, Content)> {
        let folder = || {
            let folder = self.folder.as_ref().filter(|folder| folder.has(&name))?;
            Some(Content::Folder(Arc::clone(folder), name.clone()))
        };
        let content = self.files.get(&name).cloned().or_else(folder)?;
        Some((name, content))
    }

    fn drops(&self) -> bool {
        self.routes.iter().any(|route| matches!(route.answer, PreparedAnswer::Drop))
    }
}

/// The part of a request that is needed to answer it.
struct RequestHead {
    method: Method,
    uri: Uri,
    wanted: FileRequest,
}

impl RequestHead {
    fn is_for_icon(&self) -> bool {
        self.uri.path() == "/favicon.ico" && matches!(self.method, Method::GET | Method::HEAD)
    }

    /// The same address with a trailing slash. It stays on the site, because no path component may be empty.
    fn folder(&self) -> Option<Uri> {
        let path = self.uri.path();
        let query = self.uri.query().map_or_else(String::new, |query| format!("?{query}"));
        let is_read = matches!(self.method, Method::GET | Method::HEAD) && !path.ends_with('/');
        is_read.then(|| Uri::try_from(format!("{path}/{query}")).ok())?
    }
}

impl FileRequest {
    fn of(method: &Method, headers: &HeaderMap) -> Self {
        // There is no validator by which a part could be matched to the same file.
        let range = headers.get(RANGE).filter(|_| *method == Method::GET && !headers.contains_key(IF_RANGE));
        let range = range.and_then(|range| range.to_str().ok()).map(str::to_owned);
        Self { is_head: *method == Method::HEAD, range }
    }
}

fn redirect(headers: &HeaderMap) -> Response<Body> {
    let mut answer = Response::new(empty());
    *answer.status_mut() = StatusCode::SEE_OTHER;
    *answer.headers_mut() = headers.clone();
    if let Entry::Vacant(entry) = answer.headers_mut().entry(CACHE_CONTROL) {
        entry.insert(HeaderValue::from_static("no-store"));
    }
    answer
}

fn is_without_body(status: StatusCode) -> bool {
    matches!(status, StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT | StatusCode::NOT_MODIFIED)
}
