//! data/device.txt: what kernels call and touch, by header.

pub struct Section {
    pub header: String,
    /// The namespace of its names: a test that does not say it means something else by them.
    pub namespace: Option<String>,
    pub rows: Vec<Row>,
}

pub struct Row {
    /// `put` of `ncclGin.put(ncclTeam, int)`.
    pub name: String,
    pub owner: Option<String>,
    /// Parameter types, if the row is one overload.
    pub shape: Option<String>,
    /// Numbers of the compile matrix.
    pub cases: Vec<String>,
    /// State and note, where a line below says so.
    pub note: Option<(&'static str, String)>,
}

impl Row {
    pub fn shown(&self) -> String {
        let name = match &self.owner {
            Some(owner) if *owner == self.name => self.name.clone(),
            Some(owner) => format!("{owner}.{}", self.name),
            None => self.name.clone(),
        };
        match &self.shape {
            Some(shape) => format!("{name}({shape})"),
            None => name,
        }
    }
}

pub fn read(text: &str) -> Result<Vec<Section>, String> {
    let mut sections: Vec<Section> = Vec::new();
    // How many rows the last line made: a note is theirs.
    let mut last = 0;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        if let Some(header) = line.strip_prefix("## ") {
            let (header, namespace) = match header.split_once(" namespace ") {
                Some((header, namespace)) => (header, Some(namespace.to_owned())),
                None => (header, None),
            };
            sections.push(Section { header: header.to_owned(), namespace, rows: Vec::new() });
            continue;
        }
        if line.starts_with('#') {
            continue;
        }
        let section = sections.last_mut().ok_or("device.txt: a name before the first header")?;
        if line.starts_with(' ') {
            let (state, note) = line.trim().split_once(": ").ok_or_else(|| format!("device.txt: {line:?} is no note"))?;
            let state = ["differs", "stub", "absent"].into_iter().find(|known| *known == state);
            let state = state.ok_or_else(|| format!("device.txt: {line:?}: the state is differs, stub or absent"))?;
            let at = section.rows.len() - last;
            section.rows[at..].iter_mut().for_each(|row| row.note = Some((state, note.to_owned())));
        } else {
            let rows = rows(line);
            last = rows.len();
            section.rows.extend(rows);
        }
    }
    Ok(sections)
}

fn is_case(word: &str) -> bool {
    word.strip_prefix('T').is_some_and(|number| number.starts_with(|c: char| c.is_ascii_digit()))
}

fn rows(line: &str) -> Vec<Row> {
    let (names, rest) = match line.rfind(')') {
        Some(end) => (vec![&line[..=end]], &line[end + 1..]),
        None => (line.split_whitespace().filter(|word| !is_case(word)).collect(), line),
    };
    let cases: Vec<String> = rest.split_whitespace().filter(|word| is_case(word)).map(str::to_owned).collect();
    let row = |name: &str| {
        let (path, shape) = match name.split_once('(') {
            Some((path, shape)) => (path, Some(shape.strip_suffix(')').unwrap_or(shape).to_owned())),
            None => (name, None),
        };
        let (owner, base) = match path.split_once('.') {
            Some((owner, base)) => (Some(owner.to_owned()), base),
            None => (None, path),
        };
        Row { name: base.to_owned(), owner, shape, cases: cases.clone(), note: None }
    };
    names.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_of_the_line_above() {
        let sections = read("# words\n## a.h\none\ntwo three T061\n  differs: why\nA.f(int, B const&) T118b\n").unwrap();
        let rows = &sections[0].rows;
        let shown: Vec<String> = rows.iter().map(Row::shown).collect();
        assert_eq!(shown, ["one", "two", "three", "A.f(int, B const&)"]);
        let noted: Vec<bool> = rows.iter().map(|row| row.note.is_some()).collect();
        assert_eq!(noted, [false, true, true, false]);
        assert_eq!((rows[1].cases.as_slice(), rows[3].cases.as_slice()), (&["T061".to_owned()][..], &["T118b".to_owned()][..]));
        assert!(read("## a.h\none\n  perhaps: why\n").is_err() && read("one\n").is_err());
    }
}
