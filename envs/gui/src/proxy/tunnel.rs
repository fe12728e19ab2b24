//! Tunnels that a browser requested: to a site, with HTTP inside, or to an origin, with unknown content.

use std::sync::Arc;

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::serve::{Shared, serve_http};
use crate::site::{SiteNumber, Sites};

/// A tunnel that was promised to the browser.
#[derive(Debug)]
pub(super) struct Tunnel {
    /// The browser's end, once the promise is sent.
    pub(super) near: OnUpgrade,
    pub(super) far: TunnelTarget,
}

#[derive(Debug)]
pub(super) enum TunnelTarget {
    Site(Arc<Sites>, SiteNumber),
    Origin(TcpStream),
}

impl Tunnel {
    /// Runs until one of the ends closes.
    pub(super) async fn run(self, shared: &Arc<Shared>) {
        // Fails when the browser is gone; nothing to do then.
        let Ok(near) = self.near.await else { return };
        match self.far {
            TunnelTarget::Site(sites, site) => {
                serve_http(near, shared, |request| sites.answer(site, request)).await;
            }
            TunnelTarget::Origin(mut far) => {
                // The two ends handle its end.
                let _ = tokio::io::copy_bidirectional(&mut TokioIo::new(near), &mut far).await;
            }
        }
    }
}
