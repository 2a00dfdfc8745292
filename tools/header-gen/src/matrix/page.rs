//! Rows, tables and totals.

use super::uses::Tested;

/// One name, or several of which the same is to be said.
pub struct Entry {
    pub names: String,
    pub state: &'static str,
    pub tested: String,
    pub note: String,
}

/// Totals for the head of the page.
#[derive(Default)]
pub struct Tally {
    /// (state, how tested) of every name.
    names: Vec<(String, &'static str, &'static str)>,
}

impl Tally {
    /// Counts a name and says where it is tested, as the page shows it.
    pub fn count(&mut self, name: &str, state: &'static str, tested: &Tested, cases: &[String], layout: bool) -> String {
        let how = match (tested.run, layout, cases.is_empty() && tested.places.is_empty()) {
            (true, ..) => "run",
            (_, true, _) => "compared",
            (.., false) => "compiled",
            _ => "untested",
        };
        // A stub or an absent name has nothing to test.
        let how = if matches!(state, "stub" | "absent") { "" } else { how };
        self.names.push((name.to_owned(), state, how));
        let mut places = tested.places.clone();
        places.extend(layout.then(|| "layout".to_owned()));
        places.extend(cases.iter().cloned());
        match how {
            "untested" => "**untested**".into(),
            "" => String::new(),
            _ => places.join(", "),
        }
    }

    pub fn render(&self) -> String {
        let of = |what: &str| self.names.iter().filter(|(_, state, how)| *state == what || *how == what).count();
        let untested: Vec<String> =
            self.names.iter().filter(|(.., how)| *how == "untested").map(|(name, ..)| format!("`{name}`")).collect();
        let mut text = format!(
            "{} names: {} done, {} differ, {} stubs, {} absent. {} are used by tests that run, {} more are compared with NVIDIA's \
             headers, {} more only compiled, {} **untested**",
            self.names.len(),
            of("done"),
            of("differs"),
            of("stub"),
            of("absent"),
            of("run"),
            of("compared"),
            of("compiled"),
            untested.len()
        );
        text += &if untested.is_empty() { ".\n".into() } else { format!(": {}.\n", untested.join(", ")) };
        text
    }
}

/// Entries of which the same is to be said share a row.
pub fn table(entries: &[Entry]) -> String {
    let mut text = String::from("| name | state | tested in | note |\n|---|---|---|---|\n");
    let mut at = 0;
    while at < entries.len() {
        let Entry { state, tested, note, .. } = &entries[at];
        let alike = entries[at..].iter().take_while(|e| (e.state, &e.tested, &e.note) == (*state, tested, note)).count();
        let names: Vec<&str> = entries[at..at + alike].iter().map(|e| e.names.as_str()).collect();
        text += &format!("| {} | {state} | {tested} | {note} |\n", names.join(", "));
        at += alike;
    }
    text
}
