//! Operations on whole trees of a [`SafeDir`](crate::SafeDir): hash, copy into a fresh workspace, and transfer to
//! another machine.
//!
//! I1. Everything that holds for `SafeDir` holds here: nothing outside is read, links are never followed, only regular
//! files are opened.
//! I2. [`TreeBounds`] limits entries, depth and bytes; an error names the limit.
//! I3. Any depth is walked with a constant stack and a constant number of descriptors.
//! I4. The hash is a function of names, kinds, executable bits, contents and link targets: it does not depend on the
//! machine, the owner, times or the order in which the file system lists names.
//! I5. A copy has the same hash as its source, unless its report lists skipped entries.
//! I6. A full machine and a full sandbox are different errors: the first is the machine's fault, the second that of the
//! tree's writer.
//! I7. A packed and unpacked tree looks the same through a `SafeDir` as its source on its own machine.
//!
//! If the tree changes meanwhile, the result is some mixture of states, or an error, within I1 and
//! I2. Errors: [`TreeError`]. Cancellation: blocks until done, like every operation of `SafeDir`.

mod bounds;
mod chain;
mod copy;
mod data_extents;
mod exclude;
mod hash;
mod pack;
mod part;
mod remove;
mod size_limit;
mod skipped_entries;
mod special;
mod stream;
mod unpack;
mod walk;

pub use bounds::{TreeBound, TreeBounds, TreeError};
pub use copy::{CopyOptions, CopyReport, Existing, copy_tree};
pub use exclude::Exclusions;
pub use pack::pack_tree;
pub use part::copy_part;
pub use remove::remove_content;
pub use size_limit::SizeLimit;
pub use skipped_entries::{SkipReason, Skipped, SkippedEntries};
pub(crate) use special::special_file;
pub use unpack::{UnpackError, unpack_tree};
