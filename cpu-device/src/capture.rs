//! Stream capture: work goes into a graph instead of onto the device.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::device::Device;
use crate::error::{Code, Result, refuse};
use crate::task::{Task, Work};

/// One piece of work and the nodes before it.
#[derive(Clone)]
struct Node {
    work: Work,
    after: Vec<usize>,
}

/// A graph: its nodes come after those that they wait for.
#[derive(Clone, Default)]
pub struct Graph {
    nodes: Vec<Node>,
}

struct Shared {
    graph: Graph,
    invalid: bool,
    id: u64,
    origin: usize,
    /// Streams that joined: their capture ends with the origin's.
    joined: usize,
}

/// A stream's part in a capture.
pub struct Capture {
    shared: Arc<Mutex<Shared>>,
    /// The nodes that the stream's next work waits for.
    frontier: Vec<usize>,
}

/// A point in a capture: what an event recorded in it stands for.
pub struct Mark {
    shared: Arc<Mutex<Shared>>,
    frontier: Vec<usize>,
}

impl Mark {
    /// A stream that waited for the event joins the capture.
    pub fn fork(&self) -> Capture {
        self.shared.lock().joined += 1;
        Capture { shared: self.shared.clone(), frontier: self.frontier.clone() }
    }
}

impl Capture {
    /// Begins a capture on the stream with handle `origin`.
    pub fn begin(origin: usize) -> Capture {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let shared = Shared { graph: Graph::default(), invalid: false, id, origin, joined: 0 };
        Capture { shared: Arc::new(Mutex::new(shared)), frontier: Vec::new() }
    }

    /// Adds work after the stream's last.
    ///
    /// # Errors
    /// `StreamCaptureInvalidated` after an error in the capture.
    pub fn add(&mut self, work: Work) -> Result {
        let mut shared = self.shared.lock();
        if shared.invalid {
            return Err(Code::STREAM_CAPTURE_INVALIDATED);
        }
        let after = std::mem::take(&mut self.frontier);
        shared.graph.nodes.push(Node { work, after });
        self.frontier.push(shared.graph.nodes.len() - 1);
        Ok(())
    }

    /// Where the stream is.
    pub fn mark(&self) -> Mark {
        Mark { shared: self.shared.clone(), frontier: self.frontier.clone() }
    }

    /// The stream waits for `mark` too.
    ///
    /// # Errors
    /// `StreamCaptureMerge` if it is of another capture.
    pub fn join(&mut self, mark: &Mark) -> Result {
        if !Arc::ptr_eq(&self.shared, &mark.shared) {
            self.invalidate();
            return refuse(Code::STREAM_CAPTURE_MERGE, "a captured stream waits for an event of another capture");
        }
        self.frontier.extend(&mark.frontier);
        self.frontier.sort_unstable();
        self.frontier.dedup();
        Ok(())
    }

    /// An error makes the capture worthless.
    pub fn invalidate(&mut self) {
        self.shared.lock().invalid = true;
    }

    /// The handle of the stream that began it.
    pub fn origin(&self) -> usize {
        self.shared.lock().origin
    }

    /// Whether both streams are captured into the same graph.
    pub fn is_shared_with(&self, other: &Capture) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// What was captured.
    ///
    /// # Errors
    /// `StreamCaptureInvalidated`; `StreamCaptureUnjoined` if work of a stream that joined is not waited for by the origin.
    pub fn finish(&self) -> Result<Graph> {
        let shared = self.shared.lock();
        if shared.invalid {
            return Err(Code::STREAM_CAPTURE_INVALIDATED);
        }
        let graph = shared.graph.clone();
        if shared.joined > 0 && graph.reached_from(&self.frontier) < graph.nodes.len() {
            return refuse(
                Code::STREAM_CAPTURE_UNJOINED,
                "a stream that joined the capture has work that the first stream does not wait for\n\
                 fix: cudaEventRecord on it, then cudaStreamWaitEvent on the first stream, before cudaStreamEndCapture",
            );
        }
        Ok(graph)
    }

    /// A number that no other capture has.
    pub fn id(&self) -> u64 {
        self.shared.lock().id
    }

    /// Whether it still is worth something.
    pub fn is_valid(&self) -> bool {
        !self.shared.lock().invalid
    }
}

impl Graph {
    /// How many nodes it has.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// How many nodes are before or in `last`.
    fn reached_from(&self, last: &[usize]) -> usize {
        let mut reached = vec![false; self.nodes.len()];
        last.iter().for_each(|&node| reached[node] = true);
        for node in (0..self.nodes.len()).rev() {
            if reached[node] {
                self.nodes[node].after.iter().for_each(|&before| reached[before] = true);
            }
        }
        reached.iter().filter(|&&r| r).count()
    }

    /// Its work as tasks of `device`, which begin behind `first` once they are submitted.
    pub fn tasks(&self, device: &'static Device, first: &Arc<Task>) -> Vec<Arc<Task>> {
        let mut tasks: Vec<Arc<Task>> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let task = Task::new(device, node.work.clone());
            task.after(first);
            node.after.iter().for_each(|&before| task.after(&tasks[before]));
            tasks.push(task);
        }
        tasks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fork_must_be_joined_before_the_end() {
        let mut first = Capture::begin(16);
        first.add(Work::Point).unwrap();
        let mut second = first.mark().fork();
        second.add(Work::Point).unwrap();
        first.add(Work::Point).unwrap();
        let graph = first.shared.lock().graph.clone();
        assert_eq!((graph.len(), graph.reached_from(&first.frontier)), (3, 2));
        first.join(&second.mark()).unwrap();
        assert_eq!(graph.reached_from(&first.frontier), 3);
        let mut stranger = Capture::begin(32);
        assert_eq!(stranger.join(&first.mark()), Err(Code::STREAM_CAPTURE_MERGE));
        assert_eq!(stranger.add(Work::Point), Err(Code::STREAM_CAPTURE_INVALIDATED));
    }
}
