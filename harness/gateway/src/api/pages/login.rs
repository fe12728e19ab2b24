//! Who is logged in to the pages: a browser sends no bearer, so it has a cookie.
//!
//! I1. The cookie is a random token; here is only its digest, so that memory gives none away. It is never the key. I2. It counts for pages,
//! and never for `/v1/`. I3. What a page asks to be done has the token's other half in the form, which no page of another site can know. I4. A
//! login ends with its time, with a logout, and when its user has logged in too often since; what it let watch ends with it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::{HeaderMap, header};
use clawrl_core::hex;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{Digest, UserId};

/// Logins of one user at a time; one more ends the oldest. So there are as many as users times this.
const OF_USER: usize = 16;

/// All of them.
#[derive(Debug)]
pub(crate) struct Logins {
    /// Cookies of a host are sent to all of its ports: the name has ours, so that servers do not log each other out.
    cookie: String,
    lasts: Duration,
    open: Mutex<HashMap<Digest, Open>>,
}

#[derive(Debug)]
struct Open {
    user: UserId,
    until: Instant,
    ended: CancellationToken,
}

/// Whoever sees a page, and how they are known.
#[derive(Debug, Clone)]
pub(super) struct Visitor {
    pub(super) user: UserId,
    /// What a form has to have; nothing for those who sent their key, which no page of another site can.
    pub(super) proof: Option<String>,
    /// When it is over.
    pub(super) until: Option<Instant>,
    /// Cancelled when it is over before that.
    pub(super) ended: CancellationToken,
}

impl Logins {
    pub(crate) fn new(port: u16, lasts: Duration) -> Self {
        Self { cookie: format!("clawrl-{port}"), lasts, open: Mutex::default() }
    }

    /// Logs a user in; what the browser is to keep. `is_secret`: it came over TLS, and the cookie never goes over anything else.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(super) fn open(&self, user: &UserId, is_secret: bool) -> Result<String, getrandom::Error> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)?;
        let token = hex(&bytes);
        let until = Instant::now() + self.lasts;
        let mut open = self.lock();
        open.retain(|_, login| login.until > Instant::now());
        let of_user = || open.iter().filter(|(_, login)| login.user == *user);
        if of_user().count() >= OF_USER {
            let oldest = of_user().min_by_key(|(_, login)| login.until).map(|(token, _)| *token);
            if let Some(login) = oldest.and_then(|oldest| open.remove(&oldest)) {
                login.ended.cancel();
            }
        }
        let login = Open { user: user.clone(), until, ended: CancellationToken::new() };
        open.insert(Digest::of_bytes(token.as_bytes()), login);
        let (secure, seconds) = (if is_secret { "; Secure" } else { "" }, self.lasts.as_secs());
        Ok(format!("{}={token}; HttpOnly; SameSite=Strict; Path=/; Max-Age={seconds}{secure}", self.cookie))
    }

    /// Who sent this.
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

    /// Ends a login; what the browser is to forget.
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

    /// Nothing that panics runs under the lock.
    fn lock(&self) -> MutexGuard<'_, HashMap<Digest, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Visitor {
    /// Whoever sent their key.
    pub(super) fn with_key(user: UserId) -> Self {
        Self { user, proof: None, until: None, ended: CancellationToken::new() }
    }

    /// Whether a form with `proof` comes from a page that this visitor was shown.
    pub(super) fn is_asked(&self, proof: Option<&str>) -> bool {
        let digest = |text: &str| Digest::of_bytes(text.as_bytes());
        // Compared as digests, so that the time of a comparison gives nothing away.
        self.proof.as_deref().is_none_or(|own| proof.is_some_and(|proof| digest(own) == digest(proof)))
    }
}

/// The other half of a token: who has one of them cannot tell the other from it.
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
    async fn i4_one_more_ends_the_oldest() {
        let logins = Logins::new(80, Duration::from_secs(60));
        let mut cookies = Vec::new();
        for _ in 0..=OF_USER {
            cookies.push(sent(&logins.open(&ada(), false).unwrap()));
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        let are_open: Vec<bool> = cookies.iter().map(|cookie| logins.visitor(cookie).is_some()).collect();
        assert_eq!(are_open.iter().filter(|is_open| **is_open).count(), OF_USER);
        assert!(!are_open[0]);
        logins.open(&UserId("bob".to_owned()), false).unwrap();
        assert!(logins.visitor(&cookies[1]).is_some(), "somebody else's ends none of hers");
    }

    #[tokio::test]
    async fn i3_forms_have_what_pages_were_given() {
        let logins = Logins::new(80, Duration::from_secs(60));
        let cookie = logins.open(&ada(), true).unwrap();
        assert!(cookie.ends_with("; HttpOnly; SameSite=Strict; Path=/; Max-Age=60; Secure"), "{cookie}");
        let visitor = logins.visitor(&sent(&cookie)).unwrap();
        let proof = visitor.proof.clone().unwrap();
        assert!(!cookie.contains(&proof));
        assert!(visitor.is_asked(Some(&proof)));
        let other = logins.visitor(&sent(&logins.open(&ada(), true).unwrap())).unwrap();
        assert!(!visitor.is_asked(other.proof.as_deref()), "of another login");
        assert!(!visitor.is_asked(None) && !visitor.is_asked(Some("")));
        assert!(Visitor::with_key(ada()).is_asked(None));
    }
}
