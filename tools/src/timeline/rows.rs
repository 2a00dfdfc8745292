//! Where spans are drawn: groups of lines, in each of which nothing overlaps.

use super::pair::{Row, Span};
use std::collections::BTreeMap;

/// Spans of one row that overlap get lines of their own: in a line nothing overlaps.
pub struct Lines {
    /// By span: process and line, as the trace numbers them.
    pub of: Vec<(u64, u64)>,
    /// By process and device.
    pub groups: BTreeMap<(usize, Option<u64>), u64>,
    /// Group, line, and what stands in front of it.
    pub named: Vec<(u64, u64, String)>,
}

impl Lines {
    /// Lines for these spans.
    pub fn of(spans: &[Span]) -> Lines {
        let mut rows = BTreeMap::<_, Vec<usize>>::new();
        for (index, span) in spans.iter().enumerate() {
            rows.entry((span.process, span.device, span.row.clone())).or_default().push(index);
        }
        let mut lines = Lines { of: vec![(0, 0); spans.len()], groups: BTreeMap::new(), named: Vec::new() };
        for ((process, device, row), mut all) in rows {
            let next = lines.groups.len() as u64 + 1;
            let group = *lines.groups.entry((process, device)).or_insert(next);
            all.sort_by_key(|index| (spans[*index].from, std::cmp::Reverse(spans[*index].to)));
            let mut ends = Vec::<(u64, u64)>::new();
            for index in all {
                let span = &spans[index];
                let free = ends.iter_mut().find(|(end, _)| *end <= span.from);
                let line = match free {
                    Some((end, line)) => {
                        *end = span.to;
                        *line
                    }
                    None => {
                        let line = lines.named.len() as u64 + 1;
                        lines.named.push((group, line, name(&row)));
                        ends.push((span.to, line));
                        line
                    }
                };
                lines.of[index] = (group, line);
            }
        }
        lines
    }
}

fn name(row: &Row) -> String {
    match row {
        Row::Host(thread) => format!("host thread {thread}"),
        Row::Kernels => "kernels".into(),
        Row::Blocks => "blocks".into(),
        Row::Block(number) => format!("block {number}: puts and waits"),
        Row::Proxy => "proxy".into(),
    }
}
