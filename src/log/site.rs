//! A place of the sources that says something, as an event of `tracing`.
//!
//! `tracing` keeps what is interested in what in tables of the process, with locks that a child of fork() would find held, and finds
//! its dispatcher through thread-local data that has gone when destructors of static objects call the library. So a site is not
//! registered there, and our layers are no dispatcher: they are asked directly. A host program's subscriber and its caches are what
//! they were; one that wants our events is given to [`attach`].

#![forbid(unsafe_code)]

use super::lines::Lines;
use crate::config::verbosity::{LEVEL_NAMES, Level, Subsys, TARGETS};
use crate::sync::{OnceBox, PerProcess};
use std::fmt::Arguments;
use std::panic::Location;
use tracing::callsite::Identifier;
use tracing::field::{FieldSet, Value};
use tracing::metadata::Kind;
use tracing::subscriber::{Interest, Subscriber};
use tracing::{Callsite, Dispatch, Event, Metadata};
use tracing_subscriber::layer::{Layered, SubscriberExt};
use tracing_subscriber::registry::Registry;

/// See the module.
pub struct Site {
    level: Level,
    subsys: Option<Subsys>,
    metadata: Metadata<'static>,
}

impl Site {
    /// `own` is the site itself: a static that names itself.
    pub const fn new(
        level: Level,
        subsys: Option<Subsys>,
        module: &'static str,
        file: &'static str,
        line: u32,
        own: &'static Self,
    ) -> Self {
        let target = match subsys {
            Some(subsys) => TARGETS[subsys as usize],
            None => "ginrs",
        };
        let severity = match level {
            Level::Warn => tracing::Level::WARN,
            Level::Version | Level::Info => tracing::Level::INFO,
            _ => tracing::Level::TRACE,
        };
        let fields = FieldSet::new(&["message", "file", "line"], Identifier(own));
        let (name, file, line, module) = (LEVEL_NAMES[level as usize], Some(file), Some(line), Some(module));
        Self { level, subsys, metadata: Metadata::new(name, target, severity, file, line, module, fields, Kind::EVENT) }
    }

    /// True if somebody wants to hear what it has to say.
    pub fn is_wanted(&'static self) -> bool {
        let hearers = hearers();
        hearers.lines.wants(self.level, self.subsys) || hearers.attached(&self.metadata).is_some()
    }

    /// Says `text` to all who want it. `at`: where, if not here.
    pub fn say(&'static self, text: Arguments<'_>, at: Option<&Location<'_>>) {
        let (file, line) = (at.map(|at| at.file()), at.map(|at| at.line()));
        let values: [Option<&dyn Value>; 3] = [Some(&text), file.as_ref().map(|f| f as _), line.as_ref().map(|l| l as _)];
        let values = self.metadata.fields().value_set_all(&values);
        let (event, hearers) = (Event::new(&self.metadata, &values), hearers());
        if hearers.lines.wants(self.level, self.subsys) {
            hearers.layers.event(&event);
        }
        if let Some(other) = hearers.attached(&self.metadata) {
            other.event(&event);
        }
    }
}

impl Callsite for Site {
    fn set_interest(&self, _: Interest) {}

    fn metadata(&self) -> &Metadata<'_> {
        &self.metadata
    }
}

/// Who gets the events of this process.
struct Hearers {
    lines: &'static Lines,
    /// What comes beside the lines (a timeline) is another one.
    layers: Layered<&'static Lines, Registry>,
    attached: OnceBox<Dispatch>,
}

impl Hearers {
    fn attached(&'static self, event: &Metadata<'_>) -> Option<&'static Dispatch> {
        self.attached.get().filter(|other| other.enabled(event))
    }
}

fn hearers() -> &'static Hearers {
    static LINES: PerProcess<Lines> = PerProcess::new();
    static HEARERS: PerProcess<Hearers> = PerProcess::new();
    HEARERS.get(|| {
        let lines = LINES.get(Lines::open);
        Hearers { lines, layers: Registry::default().with(lines), attached: OnceBox::new() }
    })
}

/// Gives the library's events to a subscriber of the program, too, whatever NCCL_DEBUG is, for as long as the process lives; a forked
/// child attaches its own. The first one counts. Targets are `ginrs` for warnings, else `ginrs::INIT` and so on.
pub fn attach(other: Dispatch) {
    hearers().attached.get_or_init(|| Box::new(other));
}
