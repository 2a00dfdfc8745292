//! GINRS_COLLECTIVE: the way that someone who measures asks for.

use super::along::Along;
use super::table::How;
use crate::error::Result;
use crate::{bail, config};

/// A way, and its grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forced {
    /// Taken where it can be.
    pub how: How,
    /// Along rails, where Buffered has a choice.
    pub along: Option<Along>,
    /// In x; as many as there can be, at most.
    pub blocks: Option<u32>,
    /// Of a block.
    pub threads: Option<u32>,
}

/// None for nothing.
pub fn forced() -> Result<Option<Forced>> {
    parse(config::text("GINRS_COLLECTIVE").as_deref())
}

/// `staged`, `ring`, `direct:32`, `ll:8x128`.
pub fn parse(text: Option<&str>) -> Result<Option<Forced>> {
    let Some(text) = text.filter(|text| *text != "auto") else { return Ok(None) };
    let (how, grid) = text.split_once(':').map_or((text, None), |(how, grid)| (how, Some(grid)));
    let how = match how {
        "ll" => Some((How::Ll, None)),
        "direct" => Some((How::Direct, None)),
        "buffered" => Some((How::Buffered, None)),
        "ring" => Some((How::Buffered, Some(Along::Ring))),
        "tree" => Some((How::Buffered, Some(Along::Tree))),
        "staged" => Some((How::Staged, None)),
        "mapped" => Some((How::Mapped, None)),
        "multicast" => Some((How::Multicast, None)),
        _ => None,
    };
    let number = |text: &str, unit: u32| text.parse().ok().filter(|n: &u32| *n > 0 && n.is_multiple_of(unit));
    let grid = grid.map(|grid| match grid.split_once('x') {
        None => number(grid, 1).map(|blocks| (blocks, None)),
        Some((blocks, threads)) => number(blocks, 1).zip(number(threads, 32)).map(|(blocks, threads)| (blocks, Some(threads))),
    });
    match (how, grid) {
        (Some((how, along)), None) => Ok(Some(Forced { how, along, blocks: None, threads: None })),
        (Some((how, along)), Some(Some((blocks, threads)))) => Ok(Some(Forced { how, along, blocks: Some(blocks), threads })),
        _ => bail!(
            InvalidUsage,
            92,
            "GINRS_COLLECTIVE names no way | collectives | \"{text}\" | fix: auto, or ll, direct, buffered (ring or tree between LSA teams), staged, mapped or multicast, alone or with a grid as \
             direct:32 or ll:8x128 (threads in whole warps)"
        ),
    }
}
