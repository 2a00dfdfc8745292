//! The thread that plays the card: takes what records say is posted, does it, and writes completions.

use crate::memory;
use crate::nic::completion::{self, Syndrome};
use crate::nic::element::{self, Element, Place};
use crate::nic::fault::Rule;
use crate::world::{Registered, State, World, with};
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// Elements of one queue in a row, and how long it rests when there were none.
const BATCH: u32 = 64;
const REST: Duration = Duration::from_micros(50);

/// While contexts are open it runs.
pub fn start() {
    if with(|world| !std::mem::replace(&mut world.running, true)) {
        std::thread::spawn(|| {
            let rule = std::env::var("SOFTVERBS_FAULT").ok().map(|text| Rule::parse(&text).expect("SOFTVERBS_FAULT"));
            while let Some(worked) = with(|world| step(world, rule.as_ref())) {
                if !worked {
                    std::thread::sleep(REST);
                }
            }
        });
    }
}

/// One round over all queue pairs: did any have something? None: nobody has the card open.
fn step(world: &mut World, rule: Option<&Rule>) -> Option<bool> {
    if world.open == 0 {
        world.running = false;
        return None;
    }
    let numbers: Vec<u32> = world.pairs.keys().copied().collect();
    Some(numbers.into_iter().fold(false, |worked, number| serve(world, number, rule) | worked))
}

fn serve(world: &mut World, number: u32, rule: Option<&Rule>) -> bool {
    let mut worked = false;
    for _ in 0..BATCH {
        let pair = &world.pairs[&number];
        if !matches!(pair.state, State::ReadyToSend | State::Error) {
            break;
        }
        let record = u32::from_be(memory::half(pair.record)) as u16;
        let at = pair.taken;
        if record == at as u16 {
            break;
        }
        let slot = pair.ring + 64 * (at & ((1 << pair.log_depth) - 1)) as usize;
        let mut element = [0u64; 8];
        memory::copy(element.as_mut_ptr() as usize, slot, 64);
        let result = match pair.state {
            State::Error => Err(Syndrome::Flushed),
            _ => match done(world, number, at, &element, rule) {
                Some(result) => result,
                None => break,
            },
        };
        if let Err(syndrome) = result {
            crate::log::called(&format!("queue pair {number:#x} element {at:#x}: {syndrome:?} of {element:x?}"));
        }
        let pair = world.pairs.get_mut(&number).expect("it was there");
        pair.taken = at.wrapping_add(1);
        if result.is_err() {
            pair.state = State::Error;
        }
        let queue = world.completions.get_mut(&pair.completions).expect("a queue pair keeps it");
        let entries = 1u32 << queue.log_entries;
        let entry: [AtomicU64; 8] = Default::default();
        completion::write(&entry, entries, number, at, element::opcode(&element), result);
        memory::publish(queue.entries + 64 * (queue.done & (entries - 1)) as usize, &entry.map(AtomicU64::into_inner));
        queue.done = queue.done.wrapping_add(1);
        crate::events::after(world, number);
        worked = true;
    }
    worked
}

/// Does element `at` of queue pair `number`. None: it waits.
fn done(world: &mut World, number: u32, at: u32, words: &[u64; 8], rule: Option<&Rule>) -> Option<Result<(), Syndrome>> {
    let element = match element::decode(words, number, at) {
        Ok(element) => element,
        Err(misfit) => return Some(Err(misfit.syndrome())),
    };
    if let Element::Wait { queue, index } = element {
        let complete = world.completions.get(&queue).map(|queue| queue.done.wrapping_sub(index) as i32 > 0);
        match (world.pairs[&number].waits, complete) {
            (true, Some(true)) => {}
            (true, Some(false)) => return None,
            _ => return Some(Err(Syndrome::LocalOperation)),
        }
    }
    let mut matched = world.matched;
    let hit = rule.and_then(|rule| {
        rule.hits(&element, 0, (number, at), || {
            matched += 1;
            matched
        })
    });
    world.matched = matched;
    Some(hit.map_or_else(|| carry(world, number, &element), Err))
}

fn carry(world: &mut World, number: u32, element: &Element) -> Result<(), Syndrome> {
    let pair = &world.pairs[&number];
    let (own, remote) = (pair.domain, pair.remote);
    // A peer that is not there, or does not answer.
    let there = world.pairs.get(&remote).filter(|there| matches!(there.state, State::ReadyToReceive | State::ReadyToSend));
    let theirs = there.map(|there| there.domain);
    let local =
        |place: Place, bytes: u64| part(world.keys.get(&place.key), own, place, bytes, 0).ok_or(Syndrome::LocalProtection);
    let target = |place: Place, bytes: u64, right: u32| match theirs {
        None => Err(Syndrome::Retries),
        Some(domain) => part(world.keys.get(&place.key), domain, place, bytes, right).ok_or(Syndrome::RemoteAccess),
    };
    let result = match *element {
        Element::Nop | Element::Wait { .. } => Ok(()),
        Element::Write { bytes: 0, .. } => Ok(()),
        Element::Write { to, from, bytes } => local(from, bytes.into()).and_then(|from| {
            let to = target(to, bytes.into(), 0b10)?;
            memory::copy(to, from, bytes as usize);
            Ok(())
        }),
        Element::WriteInline { to, data, bytes } => target(to, bytes.into(), 0b10).map(|to| {
            memory::copy(to, data.as_ptr() as usize, bytes as usize);
        }),
        Element::FetchAdd { to, add, answer } => local(answer, 8).and_then(|answer| {
            let to = target(to, 8, 0b1000)?;
            if !to.is_multiple_of(8) {
                return Err(Syndrome::RemoteAccess);
            }
            let old = memory::add(to, add);
            memory::copy(answer, (&raw const old) as usize, 8);
            Ok(())
        }),
    };
    if result == Err(Syndrome::RemoteAccess)
        && let Some(there) = world.pairs.get_mut(&remote)
    {
        // The responder gives up, too.
        there.state = State::Error;
    }
    result
}

/// Address of a place, if its key is of that domain, has the right, and all bytes lie there.
fn part(key: Option<&Registered>, domain: u32, place: Place, bytes: u64, right: u32) -> Option<usize> {
    let key = key.filter(|key| key.domain == domain && key.access & right == right)?;
    key.range.part(place.address.checked_sub(key.first)?, bytes)
}
