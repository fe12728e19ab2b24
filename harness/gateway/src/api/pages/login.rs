//! Logins to the pages, by cookie, since a browser sends no bearer token.
//!
//! I1. The cookie is a random token, never the key; only its digest is stored, so that memory does not reveal it. I2. It is valid for pages
//! only, not for `/v1/`. I3. A form needs a proof derived from the token, which pages of other sites cannot know. I4. A login ends at its time
//! limit, with a logout, and after too many later logins of its user; its event streams end with it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::{HeaderMap, header};
use clawrl_core::hex;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{Digest, UserId};

/// Maximum number of logins per user; one more ends the oldest.
const MAX_PER_USER: usize = 16;

/// All logins.
#[derive(Debug)]
pub(crate) struct Logins {
    /// Contains the port, because browsers send a host's cookies to all of its ports.
    cookie: String,
    lifetime: Duration,
    open: Mutex<HashMap<Digest, Open>>,
}

#[derive(Debug)]
struct Open {
    user: UserId,
    until: Instant,
    ended: CancellationToken,
}

/// The authenticated visitor of a page.
#[derive(Debug, Clone)]
pub(super) struct Visitor {
    pub(super) user: UserId,
    /// Required in forms; `None` for visitors who sent their key, which pages of other sites cannot.
    pub(super) proof: Option<String>,
    /// When the login expires.
    pub(super) until: Option<Instant>,
    /// Cancelled when the login ends earlier.
    pub(super) ended: CancellationToken,
}

impl Logins {
    pub(crate) fn new(port: u16, lifetime: Duration) -> Self {
        Self { cookie: format!("clawrl-{port}"), lifetime, open: Mutex::default() }
    }

    /// Logs a user in; returns the cookie to set. `is_secret`: the request came over TLS, and the cookie requires it.
    ///
    /// # Errors
    /// The system's source of random numbers failed.
    pub(super) fn open(&self, user: &UserId, is_secret: bool) -> Result<String, getrandom::Error> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)?;
        let token = hex(&bytes);
        let until = Instant::now() + self.lifetime;
        let mut open = self.lock();
        open.retain(|_, login| login.until > Instant::now());
        let of_user = || open.iter().filter(|(_, login)| login.user == *user);
        if of_user().count() >= MAX_PER_USER {
            let oldest = of_user().min_by_key(|(_, login)| login.until).map(|(token, _)| *token);
            if let Some(login) = oldest.and_then(|oldest| open.remove(&oldest)) {
                login.ended.cancel();
            }
        }
        let login = Open { user: user.clone(), until, ended: CancellationToken::new() };
        open.insert(Digest::of_bytes(token.as_bytes()), login);
        let (secure, seconds) = (if is_secret { "; Secure" } else { "" }, self.lifetime.as_secs());
        Ok(format!("{}={token}; HttpOnly; SameSite=Strict; Path=/; Max-Age={seconds}{secure}", self.cookie))
    }

    /// The visitor who sent a request.
    pub(super) fn visitor(&self, headers: &HeaderMap) -> Option<Visitor> {
        let token = self.token(headers)?;
        let open = self.lock();
        let login = open.get(&Digest::of_bytes(token.as_bytes()))?;
        (login.until > Instant::now()).then(|| Visitor {
            user: login.user.clone(),
            proof: Some(proof(token)),
            until: Some(login.until),
            ended: login.ended.clone(),
        })
    }

    /// Ends a login; returns the cookie that clears it.
    pub(super) fn close(&self, headers: &HeaderMap) -> String {
        let token = self.token(headers).map(|token| Digest::of_bytes(token.as_bytes()));
        if let Some(login) = token.and_then(|token| self.lock().remove(&token)) {
            login.ended.cancel();
        }
        format!("{}=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0", self.cookie)
    }

    fn token<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|cookie| cookie.to_str().ok());
        let mut pairs =
            cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.split_once('='));
        pairs.find(|(name, _)| name.trim() == self.cookie).map(|(_, token)| token.trim())
    }

    /// No code that can panic runs under the lock.
    fn lock(&self) -> MutexGuard<'_, HashMap<Digest, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Visitor {
    /// A visitor who sent their key.
    pub(super) fn with_key(user: UserId) -> Self {
        Self { user, proof: None, until: None, ended: CancellationToken::new() }
    }

    /// Whether `proof` belongs to this login.
    pub(super) fn has_proof(&self, proof: Option<&str>) -> bool {
        let digest = |text: &str| Digest::of_bytes(text.as_bytes());
        // Compared as digests, so that timing reveals nothing.
        self.proof.as_deref().is_none_or(|own| proof.is_some_and(|proof| digest(own) == digest(proof)))
    }
}

/// The proof of a token; neither reveals the other.
fn proof(token: &str) -> String {
    hex(&Sha256::digest(format!("form {token}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ada() -> UserId {
        UserId("ada".to_owned())
    }

    fn sent(cookie: &str) -> HeaderMap {
        let pair = cookie.split(';').next().unwrap();
        HeaderMap::from_iter([(header::COOKIE, format!("other=1; {pair}").parse().unwrap())])
    }

    #[tokio::test(start_paused = true)]
    async fn i4_logins_end() {
        let logins = Logins::new(80, Duration::from_secs(60));
        let cookie = sent(&logins.open(&ada(), false).unwrap());
        let visitor = logins.visitor(&cookie).unwrap();
        assert_eq!(visitor.user, ada());
        tokio::time::advance(Duration::from_secs(59)).await;
        assert!(logins.visitor(&cookie).is_some());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(logins.visitor(&cookie).is_none(), "its time is over");
        let cookie = sent(&logins.open(&ada(), false).unwrap());
        assert_eq!(logins.lock().len(), 1, "what is over is forgotten");
        let visitor = logins.visitor(&cookie).unwrap();
        assert!(logins.close(&cookie).contains("Max-Age=0"));
        assert!(logins.visitor(&cookie).is_none() && visitor.ended.is_cancelled());
        assert!(logins.visitor(&HeaderMap::new()).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn i4_extra_login_ends_the_oldest() {
        let logins = Logins::new(80, Duration::from_secs(60));
        let mut cookies = Vec::new();
        for _ in 0..=MAX_PER_USER {
            cookies.push(sent(&logins.open(&ada(), false).unwrap()));
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        let are_open: Vec<bool> = cookies.iter().map(|cookie| logins.visitor(cookie).is_some()).collect();
        assert_eq!(are_open.iter().filter(|is_open| **is_open).count(), MAX_PER_USER);
        assert!(!are_open[0]);
        logins.open(&UserId("bob".to_owned()), false).unwrap();
        assert!(logins.visitor(&cookies[1]).is_some(), "logins of other users do not count");
    }

    #[tokio::test]
    async fn i3_proof_belongs_to_one_login() {
        let logins = Logins::new(80, Duration::from_secs(60));
        let cookie = logins.open(&ada(), true).unwrap();
        assert!(cookie.ends_with("; HttpOnly; SameSite=Strict; Path=/; Max-Age=60; Secure"), "{cookie}");
        let visitor = logins.visitor(&sent(&cookie)).unwrap();
        let proof = visitor.proof.clone().unwrap();
        assert!(!cookie.contains(&proof));
        assert!(visitor.has_proof(Some(&proof)));
        let other = logins.visitor(&sent(&logins.open(&ada(), true).unwrap())).unwrap();
        assert!(!visitor.has_proof(other.proof.as_deref()), "of another login");
        assert!(!visitor.has_proof(None) && !visitor.has_proof(Some("")));
        assert!(Visitor::with_key(ada()).has_proof(None));
    }
}
