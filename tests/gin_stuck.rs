//! A step of the proxy that is inside a call of the driver that does not come back: whoever needs the engine is told, and does not
//! wait for ever.

mod common;
mod support;

use common::with_settings;
use ginrs::error::Result;
use ginrs::gin::Backend;
use ginrs::gin::descriptor::SignalOp;
use ginrs::gin::proxy::Routes;
use ginrs::transport::{Capabilities, Completion, Region, Submitted, Transport, Work};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};
use support::{Plan, fabric_over, signal};

/// A submit ends when it is let go.
struct Stuck {
    inside: Arc<Barrier>,
    go: Arc<AtomicBool>,
}

impl Transport for Stuck {
    fn capabilities(&self) -> Capabilities {
        Capabilities::of("stuck", 1 << 20)
    }
    fn register(&mut self, _: &Region) -> Result<()> {
        Ok(())
    }
    fn deregister(&mut self, _: u32) {}
    fn submit(&mut self, _: &Work) -> Result<Submitted> {
        self.inside.wait();
        while !self.go.load(Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(Submitted::Done)
    }
    fn progress(&mut self, _: &mut Vec<Completion>) -> Result<bool> {
        Ok(false)
    }
    fn abort(&mut self) {}
}

/// Lets it go, however the test ends.
struct LetGo<'a>(&'a AtomicBool);

impl Drop for LetGo<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[test]
fn a_step_that_does_not_end_is_named_and_waited_for_once() {
    let name = "a_step_that_does_not_end_is_named_and_waited_for_once";
    with_settings(name, &[("GINRS_TIMEOUT", "5")], || {
        let (inside, go) = (Arc::new(Barrier::new(2)), Arc::new(AtomicBool::new(false)));
        let plan = Plan { ranks: 1, threads: false, ..Plan::default() };
        let ranks = fabric_over(plan, |_, _| Routes {
            transports: vec![Box::new(Stuck { inside: inside.clone(), go: go.clone() })],
            by_peer: vec![0],
        });
        let (rank, kernel) = (&ranks[0], ranks[0].kernel(0));
        kernel.write(0, kernel.claim(0), &signal(0, SignalOp::Inc).encode().unwrap());
        std::thread::scope(|scope| {
            scope.spawn(|| rank.gin.step());
            inside.wait();
            let _go = LetGo(&go);
            let begin = Instant::now();
            let error = rank.gin.alloc_signals(Backend::Proxy, 1).unwrap_err();
            assert!(error.id == 5 && error.text.contains("rank 0") && error.text.contains("does not end"), "{error}");
            assert_eq!(rank.abort.cause().map(|cause| cause.id), Some(5), "the others hear of it");
            assert!(begin.elapsed() >= Duration::from_secs(5));
            // What is given back stays with the engine; what is asked for once more is not waited for again.
            rank.gin.deregister(rank.handle);
            rank.gin.free_signals(Backend::Proxy, 0, 1);
            assert_eq!(rank.gin.drain().unwrap_err().id, 5);
            let error = rank.gin.alloc_signals(Backend::Proxy, 1).unwrap_err();
            assert!(error.id == 5 && error.text.contains("it was waited for before"), "{error}");
        });
        rank.gin.alloc_signals(Backend::Proxy, 1).unwrap();
    });
}
