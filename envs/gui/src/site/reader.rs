//! Builds sites that answer from the sites of a plan.
//!
//! A host folder or file is read and compared with the plan once, by the first attempt that uses it; others wait and
//! share the result. Each file's metadata is checked again when it is served: that costs little, detects a change
//! within an attempt, and makes the next attempt read everything again.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use clawrl_core::{Boundary, Fault, FixtureContent, GuiSpec, Route, RouteAnswer, SiteSpec};
use http::header::{CONNECTION, CONTENT_LENGTH, LOCATION, SET_COOKIE, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use tokio::sync::OnceCell;

use super::content::Content;
use super::folder::{Folder, HostFile};
use super::origin::Origin;
use super::route::{PreparedAnswer, PreparedRoute};
use super::sites::{Site, Sites};

/// Builds the sites of attempts, and caches what was read.
#[derive(Debug, Default)]
pub(crate) struct SiteReader {
    folders: ReadCache<Folder>,
    files: ReadCache<HostFile>,
}

impl SiteReader {
    /// The sites of one attempt, with empty counters and logs.
    ///
    /// # Errors
    /// A permanent env [`Fault`] when a folder or file is gone or differs from the plan, and for invalid values: a
    /// header that cannot be sent, an invalid origin.
    pub(crate) async fn open(&self, spec: &GuiSpec) -> Result<Sites, Fault> {
        let mut sites = Vec::with_capacity(spec.sites.len());
        for site in &spec.sites {
            sites.push(self.site(site).await?);
        }
        let origin = |text: &String| {
            Origin::parse(text).ok_or_else(|| invalid(format!("{text:?} is not the origin of a page")))
        };
        let origins = spec.origins.iter().map(origin).collect::<Result<_, _>>()?;
        Ok(Sites::new(sites, origins))
    }

    async fn site(&self, spec: &SiteSpec) -> Result<Site, Fault> {
        let folder = match &spec.folder {
            Some(folder) => Some(self.folders.get(&folder.path, &folder.sha256).await?),
            None => None,
        };
        let mut files = HashMap::new();
        for file in &spec.files {
            files.insert(file.path.clone(), self.content(&file.content).await?);
        }
        let mut routes = Vec::with_capacity(spec.routes.len());
        for route in &spec.routes {
            routes.push(self.route(route).await?);
        }
        Ok(Site { name: spec.name.as_str().into(), folder, files, routes })
    }

    async fn route(&self, route: &Route) -> Result<PreparedRoute, Fault> {
        let answer = match &route.answer {
            RouteAnswer::Respond { status, headers, cookies, body } => PreparedAnswer::Respond {
                status: StatusCode::from_u16(*status)
                    .ok()
                    .filter(|status| status.as_u16() >= 200)
                    .ok_or_else(|| invalid(format!("invalid status {status}")))?,
                headers: header_map(headers, cookies)?,
                content: self.content(body).await?,
            },
            RouteAnswer::Redirect { to, headers, cookies } => {
                let mut headers = header_map(headers, cookies)?;
                let to = HeaderValue::try_from(to.as_str())
                    .map_err(|_| invalid(format!("invalid redirect target {to:?}")))?;
                headers.insert(LOCATION, to);
                PreparedAnswer::Redirect { headers }
            }
            RouteAnswer::Serve { path } => PreparedAnswer::Serve { path: path.clone() },
            RouteAnswer::Drop => PreparedAnswer::Drop,
            other => return Err(invalid(format!("unknown answer {other:?}"))),
        };
        let Route { request, after, times, delay, .. } = route.clone();
        Ok(PreparedRoute { request, after, times, delay, answer })
    }

    async fn content(&self, content: &FixtureContent) -> Result<Content, Fault> {
        Ok(match content {
            FixtureContent::Inline(text) => Content::Memory(text.clone().into()),
            FixtureContent::Host { path, sha256 } => Content::Host(self.files.get(path, sha256).await?),
        })
    }
}

/// Headers of an answer, without those that the site sets itself.
fn header_map(headers: &BTreeMap<String, String>, cookies: &[String]) -> Result<HeaderMap, Fault> {
    let ours = HashSet::from([CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING]);
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let header = HeaderName::try_from(name.as_str()).ok().filter(|name| !ours.contains(name));
        let (Some(header), Ok(value)) = (header, HeaderValue::try_from(value.as_str())) else {
            return Err(invalid(format!("the header {name:?} cannot be sent with the value {value:?}")));
        };
        map.insert(header, value);
    }
    for cookie in cookies {
        let value = HeaderValue::try_from(cookie.as_str())
            .map_err(|_| invalid(format!("the cookie {cookie:?} cannot be sent")))?;
        map.append(SET_COOKIE, value);
    }
    Ok(map)
}

fn invalid(message: String) -> Fault {
    Fault::permanent(Boundary::Env, "site", message)
}

/// Content that was read and matched the plan.
#[derive(Debug)]
pub(super) struct VerifiedContent<T> {
    read: T,
    doubted: AtomicBool,
}

impl<T> VerifiedContent<T> {
    /// Marks it as changed, so that the next user reads it again.
    pub(super) fn invalidate(&self) {
        self.doubted.store(true, Ordering::Relaxed);
    }
}

impl<T> Deref for VerifiedContent<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.read
    }
}

/// Content that is read once for all attempts.
#[derive(Debug)]
struct ReadCache<T> {
    places: Mutex<HashMap<(PathBuf, String), Place<T>>>,
}

type Place<T> = Arc<OnceCell<Arc<VerifiedContent<T>>>>;

impl<T> Default for ReadCache<T> {
    fn default() -> Self {
        Self { places: Mutex::default() }
    }
}

impl<T: Hashed> ReadCache<T> {
    async fn get(&self, path: &Path, sha256: &str) -> Result<Arc<VerifiedContent<T>>, Fault> {
        let key = (path.to_owned(), sha256.to_owned());
        loop {
            let place = Arc::clone(self.lock().entry(key.clone()).or_default());
            let known = place.get_or_try_init(|| read(path, sha256)).await?;
            if !known.doubted.load(Ordering::Relaxed) {
                return Ok(Arc::clone(known));
            }
            let mut places = self.lock();
            if places.get(&key).is_some_and(|found| Arc::ptr_eq(found, &place)) {
                places.remove(&key);
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<(PathBuf, String), Place<T>>> {
        // Each change is a single step.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn read<T: Hashed>(path: &Path, sha256: &str) -> Result<Arc<VerifiedContent<T>>, Fault> {
    let fault = |message: String| Fault::permanent(Boundary::Env, "fixture", message);
    let owned = path.to_owned();
    let read = tokio::task::spawn_blocking(move || T::read(&owned))
        .await
        .map_err(|error| Fault::permanent(Boundary::Harness, "panic", error.to_string()))?
        .map_err(|error| fault(format!("failed to read {} of a site: {error}", path.display())))?;
    let found = read.sha256();
    if !found.eq_ignore_ascii_case(sha256) {
        let message = format!(
            "{} of a site has changed since the plan was made (sha256 {found}, planned {sha256}); make a new run",
            path.display()
        );
        return Err(fault(message));
    }
    Ok(Arc::new(VerifiedContent { read, doubted: AtomicBool::new(false) }))
}

trait Hashed: Sized + Send + 'static {
    fn read(path: &Path) -> io::Result<Self>;
    fn sha256(&self) -> &str;
}

impl Hashed for Folder {
    fn read(path: &Path) -> io::Result<Self> {
        Self::read(path)
    }

    fn sha256(&self) -> &str {
        &self.sha256
    }
}

impl Hashed for HostFile {
    fn read(path: &Path) -> io::Result<Self> {
        Self::read(path)
    }

    fn sha256(&self) -> &str {
        &self.sha256
    }
}
