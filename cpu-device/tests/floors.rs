//! Each file of the CPU device uses those only that lib.rs lists below it: what has to go back up is a function that the caller gives along.

use std::path::Path;

#[test]
fn each_file_uses_those_below_it_only() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let text = |path: &Path| std::fs::read_to_string(path).unwrap();
    let list = text(&root.join("lib.rs"));
    let named = |line: &str| Some(line.trim_start_matches("pub ").strip_prefix("mod ")?.strip_suffix(';')?.to_owned());
    let floors: Vec<String> = list.lines().filter_map(named).collect();
    let mut broken = Vec::new();
    for (own, module) in floors.iter().enumerate() {
        let mut files = vec![root.join(format!("{module}.rs"))];
        if let Ok(folder) = std::fs::read_dir(root.join(module)) {
            files.extend(folder.map(|file| file.unwrap().path()));
            files.retain(|file| file.exists());
        }
        for file in files {
            let text = text(&file);
            let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
            for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
                for rest in line.split("crate::").skip(1) {
                    let name = rest.split(|c: char| c != '_' && !c.is_ascii_alphanumeric()).next().unwrap();
                    assert!(!name.is_empty(), "{}: one `use` for each file of the crate", file.display());
                    let place = floors.iter().position(|floor| floor == name);
                    if place.is_some_and(|place| place < own) {
                        broken.push(format!("{} uses {name}, which stands above {module}", file.display()));
                    }
                }
            }
        }
    }
    assert!(floors.len() > 30 && broken.is_empty(), "{}", broken.join("\n"));
}
