//! Which cards there are, and why one cannot be used.
#![forbid(unsafe_code)]

use super::card::Card;
use super::opened;
use super::wishes::Wishes;

/// An RDMA device.
pub struct Found {
    /// As verbs call it.
    pub name: String,
    /// What it is, where it can be used.
    pub usable: Result<String, String>,
}

/// All devices; or why there are none. Each is opened for as long as its questions take.
pub fn survey() -> Result<Vec<Found>, String> {
    let (names, wishes) = (opened::names()?, Wishes::read()?);
    let found = names.into_iter().map(|name| {
        let usable = Card::open(Some(&name), &wishes).map(|card| card.describe());
        Found { name, usable }
    });
    Ok(found.collect())
}
