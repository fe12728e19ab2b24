//! Connections that a browser asked for: to a site, in which HTTP is spoken, or to an origin, of which nothing is known.

use std::sync::Arc;

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::serve::{Shared, speak};
use crate::site::{SiteNumber, Sites};

/// A tunnel that the browser was promised.
#[derive(Debug)]
pub(super) struct Tunnel {
    /// The browser's end, once the promise is sent.
    pub(super) near: OnUpgrade,
    pub(super) far: TunnelTarget,
}

/// Where a tunnel leads.
#[derive(Debug)]
pub(super) enum TunnelTarget {
    Site(Arc<Sites>, SiteNumber),
    Origin(TcpStream),
}

impl Tunnel {
    /// Lasts until one of the ends is gone.
    pub(super) async fn run(self, shared: &Arc<Shared>) {
        // It fails when the browser is gone, and then there is nothing to do.
        let Ok(near) = self.near.await else { return };
        match self.far {
            TunnelTarget::Site(sites, site) => {
                speak(near, shared, |request| sites.answer(site, request)).await;
            }
            TunnelTarget::Origin(mut far) => {
                // How it ends is for the two ends to know.
                let _ = tokio::io::copy_bidirectional(&mut TokioIo::new(near), &mut far).await;
            }
        }
    }
}
