//! Creating files as another owner.
//!
//! A tmpfs that was mounted inside a user namespace accepts only the ids mapped there: host root gets EOVERFLOW when it
//! creates a file, so `chown` cannot hand ownership over afterwards. Instead, the calling thread takes the owner's
//! effective ids for the few system calls that create. New entries also have the right owner from their first moment.
//!
//! The kernel marks the process as not dumpable when ids change. For a root process this only means that it leaves no
//! core dump.

use std::io;
use std::marker::PhantomData;

use rustix::process::{getegid, geteuid};
use rustix::thread::{Gid, Uid, set_thread_res_gid, set_thread_res_uid};

/// User and group of new entries, as numbered for this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner {
    /// User id on the host.
    pub uid: u32,
    /// Group id on the host.
    pub gid: u32,
}

/// While this value lives, its thread creates files as the owner. It cannot move to another thread.
#[derive(Debug)]
pub(crate) struct ActingAs {
    own: Option<(Uid, Gid)>,
    _on_this_thread: PhantomData<*const ()>,
}

impl ActingAs {
    /// Takes the owner's ids. `None`, or the ids that the thread already has, changes nothing.
    ///
    /// # Errors
    /// EPERM when this process is not root and the owner is another user.
    pub(crate) fn owner(owner: Option<Owner>) -> io::Result<Self> {
        let own = (geteuid(), getegid());
        let unchanged = Self { own: None, _on_this_thread: PhantomData };
        let Some(owner) = owner else { return Ok(unchanged) };
        if (owner.uid, owner.gid) == (own.0.as_raw(), own.1.as_raw()) {
            return Ok(unchanged);
        }
        // The kernel reads -1 as "leave unchanged".
        if owner.uid == u32::MAX || owner.gid == u32::MAX {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // The group first: without uid 0 it could no longer be changed. From here on dropping restores.
        set_thread_res_gid(None, Gid::from_raw(owner.gid), None)?;
        let acting = Self { own: Some(own), _on_this_thread: PhantomData };
        set_thread_res_uid(None, Uid::from_raw(owner.uid), None)?;
        Ok(acting)
    }
}

impl Drop for ActingAs {
    fn drop(&mut self) {
        let Some((uid, gid)) = self.own else { return };
        let restored = set_thread_res_uid(None, uid, None).and_then(|()| set_thread_res_gid(None, gid, None));
        if restored.is_err() {
            // The saved ids allow this, so only a broken kernel or filter gets here. A pooled thread that continued
            // with a foreign identity would fail, or succeed, at other tasks' work.
            std::process::abort();
        }
    }
}
