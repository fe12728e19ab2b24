//! Routes requests to answers.
//!
//! V1. Only requests whose `Host` is `127.0.0.1` or `localhost` with our port are answered, which stops other sites
//! whose name resolves to this machine (DNS rebinding). V2. Nothing is changed: only `GET` is allowed. V3. A path
//! contains the name of a run or the hash of a picture. The only other file served is the page of a training; files
//! outside the results folder are never served. V4. The only script is the viewer of a report, which its content
//! security policy allows by hash; stored pages run no scripts. V5. An unreadable run is listed with the reason.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use clawrl_core::{BlobRef, RunId};
use clawrl_record::{RecordError, Run, RunStore};
use clawrl_report::{Options, heading, report};
use http_body_util::Full;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};

use super::listing;

/// Size limit for attempts in a report, bytes: the default of `clawrl report`.
const PAGE_BYTES: u64 = 64 << 20;
/// The page of a training, in the folder of its run.
const TRAINING: &str = "report.html";
/// Policy for stored pages: allows text, styles and inline images only.
const SANDBOX: &str =
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'";

/// Web pages of a results folder.
#[derive(Debug)]
pub struct Site {
    store: RunStore,
    dir: PathBuf,
    /// Accepted values of `Host`.
    hosts: [String; 2],
    /// Generates one report at a time: each may use all cores, and as much memory as its page.
    making: Mutex<()>,
}

/// An answer before it is sent.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    status: StatusCode,
    kind: &'static str,
    policy: &'static str,
    body: Vec<u8>,
}

impl Site {
    /// Pages of the runs in `store`, whose folder is `dir`, served at this port of 127.0.0.1.
    pub fn new(store: RunStore, dir: PathBuf, port: u16) -> Self {
        let hosts = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
        Self { store, dir, hosts, making: Mutex::default() }
    }

    /// The answer to a request.
    pub fn answer<B>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
        let answer = if !self.is_ours(request) {
            told(StatusCode::FORBIDDEN, "This server has the names 127.0.0.1 and localhost, with its port.")
        } else if request.method() != Method::GET {
            told(StatusCode::METHOD_NOT_ALLOWED, "There is GET alone.")
        } else {
            self.page(request.uri().path())
        };
        let mut response = Response::new(Full::new(Bytes::from(answer.body)));
        *response.status_mut() = answer.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(answer.kind));
        for (name, value) in [
            (header::CONTENT_SECURITY_POLICY, answer.policy),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::REFERRER_POLICY, "no-referrer"),
            (header::CACHE_CONTROL, "no-store"),
            (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        if answer.status == StatusCode::METHOD_NOT_ALLOWED {
            headers.insert(header::ALLOW, HeaderValue::from_static("GET"));
        }
        response
    }

    /// Checks V1. A host in the request target is checked like the header.
    fn is_ours<B>(&self, request: &Request<B>) -> bool {
        let is_ours = |host: &str| self.hosts.iter().any(|own| own.eq_ignore_ascii_case(host));
        let mut hosts = request.headers().get_all(header::HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
        host.to_str().is_ok_and(is_ours)
            && request.uri().authority().is_none_or(|authority| is_ours(authority.as_str()))
    }

    fn page(&self, path: &str) -> Answer {
        if path == "/" {
            return match self.store.list() {
                Ok(runs) => {
                    let page = listing::page(&self.dir, &runs, |run| self.has_page_of_training(run));
                    html(page, "default-src 'none'; style-src 'self'; img-src data:; frame-ancestors 'none'")
                }
                Err(error) => {
                    told(StatusCode::INTERNAL_SERVER_ERROR, &format!("The runs cannot be listed: {error}."))
                }
            };
        }
        if path == "/style.css" {
            return Answer { kind: "text/css; charset=utf-8", ..told(StatusCode::OK, &listing::style()) };
        }
        let mut parts = path.strip_prefix("/runs/").unwrap_or_default().splitn(2, '/');
        let Some(run) = parts.next().and_then(RunId::new) else { return nowhere() };
        match parts.next() {
            Some("") => self.report(&run),
            Some("training") => self.training(&run),
            Some(rest) => match rest.strip_prefix("blobs/").and_then(picture) {
                Some((blob, kind)) => self.picture(&run, &blob, kind),
                None => nowhere(),
            },
            None => nowhere(),
        }
    }

    /// The page of `clawrl report`, made from the current record.
    fn report(&self, run: &RunId) -> Answer {
        let opened = match self.store.run(run) {
            Ok(opened) => opened,
            Err(error) => return unreadable(&error),
        };
        // A panic leaves no partial state.
        let _one = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        let options = Options { page_bytes: PAGE_BYTES, ..Options::default() };
        match report(&opened, &heading(&opened), &options) {
            // The page contains its policy, but only a header can forbid frames.
            Ok(made) => html(made.page, "frame-ancestors 'none'"),
            Err(error) => {
                told(StatusCode::INTERNAL_SERVER_ERROR, &format!("The report cannot be made: {error}."))
            }
        }
    }

    fn has_page_of_training(&self, run: &RunId) -> bool {
        self.store.run(run).is_ok_and(|run| page_of_training(&run).is_file())
    }

    fn training(&self, run: &RunId) -> Answer {
        let page = match self.store.run(run) {
            Ok(run) if run.train().is_ok_and(|train| train.is_some()) => page_of_training(&run),
            Ok(_) => return nowhere(),
            Err(error) => return unreadable(&error),
        };
        match read_file(&page) {
            Ok(body) => Answer { status: StatusCode::OK, kind: HTML, policy: SANDBOX, body },
            Err(error) => {
                told(StatusCode::NOT_FOUND, &format!("{} cannot be read: {error}.", page.display()))
            }
        }
    }

    fn picture(&self, run: &RunId, blob: &BlobRef, kind: &'static str) -> Answer {
        match self.store.run(run).and_then(|run| run.blob(blob)) {
            Ok(Some(body)) => Answer { status: StatusCode::OK, kind, policy: SANDBOX, body },
            Ok(None) => nowhere(),
            Err(error) => unreadable(&error),
        }
    }
}

const HTML: &str = "text/html; charset=utf-8";

fn page_of_training(run: &Run) -> PathBuf {
    run.dir().join(TRAINING)
}

/// A regular file; links and pipes are refused.
fn read_file(path: &Path) -> std::io::Result<Vec<u8>> {
    if fs::symlink_metadata(path)?.is_file() {
        fs::read(path)
    } else {
        Err(std::io::Error::other("it is not a regular file"))
    }
}

/// The picture with this path below `blobs/`, and its media type. Other blobs are not served: a browser might execute them.
fn picture(path: &str) -> Option<(BlobRef, &'static str)> {
    let (folder, name) = path.split_once('/')?;
    let (hash, ending) = name.split_once('.')?;
    let kind = match ending {
        "png" => "image/png",
        "jpg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        _ => return None,
    };
    let blob = BlobRef { media_type: kind.to_owned(), sha256: hash.to_owned() };
    // A name that is not a hash has no path.
    (clawrl_record::blob_path(&blob)? == format!("blobs/{folder}/{name}")).then_some((blob, kind))
}

fn html(page: String, policy: &'static str) -> Answer {
    Answer { status: StatusCode::OK, kind: HTML, policy, body: page.into_bytes() }
}

fn told(status: StatusCode, words: &str) -> Answer {
    let policy = "default-src 'none'; frame-ancestors 'none'";
    Answer { status, kind: "text/plain; charset=utf-8", policy, body: format!("{words}\n").into_bytes() }
}

fn nowhere() -> Answer {
    told(StatusCode::NOT_FOUND, "There is nothing here; / lists the runs.")
}

fn unreadable(error: &RecordError) -> Answer {
    let status = match error {
        RecordError::NoSuchRun { .. } => StatusCode::NOT_FOUND,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    told(status, &format!("The run cannot be read: {error}."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(dir: &Path) -> Site {
        Site::new(RunStore::open(dir).unwrap(), dir.to_owned(), 8080)
    }

    fn asked(site: &Site, method: &str, target: &str, hosts: &[&str]) -> Response<Full<Bytes>> {
        let request = Request::builder().method(method).uri(target);
        let request = hosts.iter().fold(request, |request, host| request.header("Host", *host));
        site.answer(&request.body(()).unwrap())
    }

    #[test]
    fn v1_v2_only_own_names_and_only_get_are_answered() {
        let dir = tempfile::tempdir().unwrap();
        let site = site(dir.path());
        let check = |method: &str, target: &str, hosts: &[&str], expected: u16| {
            let status = asked(&site, method, target, hosts).status().as_u16();
            assert_eq!(status, expected, "{method} {target} {hosts:?}");
        };
        let own = "127.0.0.1:8080";
        for host in [own, "localhost:8080", "LocalHost:8080"] {
            check("GET", "/", &[host], 200);
        }
        for host in [
            "evil.example",
            "evil.example:8080",
            "127.0.0.1",
            "127.0.0.1:80",
            "localhost:8080.evil.example",
            "[::1]:8080",
            "",
        ] {
            check("GET", "/", &[host], 403);
        }
        check("GET", "/", &[], 403);
        check("GET", "/", &[own, own], 403);
        check("GET", "http://evil.example/", &[own], 403);
        check("GET", "http://127.0.0.1:8080/", &[own], 200);
        for method in ["POST", "PUT", "DELETE", "HEAD", "OPTIONS", "TRACE"] {
            check(method, "/", &[own], 405);
        }
        check("POST", "/", &["evil.example"], 403);
    }

    #[test]
    fn v3_paths_lead_to_runs_and_pictures_alone() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("runs/real");
        fs::create_dir_all(run.join("blobs/ab")).unwrap();
        fs::write(dir.path().join("secret"), "secret").unwrap();
        fs::write(run.join("plan.json"), "secret").unwrap();
        fs::write(run.join("train.json"), "{}").unwrap();
        let site = site(dir.path());
        let hash = "ab".repeat(32);
        for path in [
            "/secret",
            "/runs",
            "/runs/",
            "/runs/../secret",
            "/runs/..",
            "/runs/../",
            "/runs/..%2fsecret",
            "/runs/%2e%2e/secret",
            "/runs/real/plan.json",
            "/runs/real/../../secret",
            "/runs/real/blobs/../plan.json",
            "/runs/real/blobs/ab/..%2f..%2fplan.json",
            "/runs/real/blobs/ab/../../plan.json",
            "/runs/real",
            "//runs/real/",
            "/runs//etc/passwd",
            "/runs/real/blobs/plan.json",
            &format!("/runs/real/blobs/ab/{hash}.html"),
            &format!("/runs/real/blobs/cd/{hash}.png"),
        ] {
            let response = asked(&site, "GET", path, &["127.0.0.1:8080"]);
            assert_eq!(response.status(), StatusCode::NOT_FOUND, "{path}");
        }
        // Every page of a run with an unreadable plan reports that.
        for path in ["/runs/real/", "/runs/real/training", &format!("/runs/real/blobs/ab/{hash}.png")] {
            let response = asked(&site, "GET", path, &["127.0.0.1:8080"]);
            assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR, "{path}");
        }
    }

    #[test]
    fn v3_a_page_of_a_training_that_is_a_link_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("secret"), dir.path().join("report.html"));
        fs::write(&file, "secret").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert_eq!(read_file(&file).unwrap(), b"secret");
        assert!(read_file(&link).is_err() && read_file(dir.path()).is_err());
    }

    #[test]
    fn every_answer_forbids_what_it_does_not_need() {
        let dir = tempfile::tempdir().unwrap();
        let site = site(dir.path());
        for (path, host) in [("/", "127.0.0.1:8080"), ("/nowhere", "127.0.0.1:8080"), ("/", "evil.example")] {
            let response = asked(&site, "GET", path, &[host]);
            let header = |name: &str| response.headers().get(name).unwrap().to_str().unwrap().to_owned();
            let policy = header("content-security-policy");
            assert!(
                policy.starts_with("default-src 'none'") && policy.ends_with("frame-ancestors 'none'"),
                "{policy}"
            );
            assert!(!policy.contains("unsafe") && !policy.contains("script"), "{policy}");
            assert_eq!(
                (header("x-content-type-options"), header("cache-control")),
                ("nosniff".to_owned(), "no-store".to_owned())
            );
        }
    }
}
