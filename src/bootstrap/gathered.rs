//! What an exchange has brought: one copy for all ranks of a process, and one of what is read from it.
#![forbid(unsafe_code)]

use crate::error::Result;
use crate::sync::OnceCell;
use std::any::Any;
use std::ops::Deref;
use std::sync::Arc;

/// Every rank's bytes, by rank.
#[derive(Clone)]
pub struct Gathered(Arc<Parts>);

struct Parts {
    parts: Vec<Arc<[u8]>>,
    read: OnceCell<Arc<dyn Any + Send + Sync>>,
}

impl Gathered {
    pub(super) fn new(parts: Vec<Arc<[u8]>>) -> Self {
        Self(Arc::new(Parts { parts, read: OnceCell::new() }))
    }

    /// What `read` makes of the parts. The first rank of this process that asks runs it, the others get the same: it must depend on nothing
    /// else, and be the same function for all.
    pub fn read<T: Send + Sync + 'static>(&self, read: impl FnOnce(&[Arc<[u8]>]) -> Result<T>) -> Result<Arc<T>> {
        let made = self.0.read.get_or_init(|| Arc::new(read(&self.0.parts).map(Arc::new)));
        made.downcast_ref::<Result<Arc<T>>>().expect("ranks of one step read it alike").clone()
    }
}

impl std::fmt::Debug for Gathered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&self.0.parts).finish()
    }
}

impl Deref for Gathered {
    type Target = [Arc<[u8]>];

    fn deref(&self) -> &Self::Target {
        &self.0.parts
    }
}
