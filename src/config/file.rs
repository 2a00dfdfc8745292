//! Files whose names come from the environment: read at once or not at all.

use std::io::{ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};

/// More than this is no settings file.
const MOST: u64 = 1 << 20;

/// The text of a settings file; None if there is none. Bytes that are no UTF-8 (in a comment, mostly) keep no other line from
/// being read.
pub fn settings(path: &str) -> Option<Result<String, String>> {
    match read(path, MOST) {
        Ok(bytes) => Some(Ok(String::from_utf8_lossy(&bytes).into_owned())),
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => None,
        Err(e) => Some(Err(e.to_string())),
    }
}

/// The settings file of this user: in HOME, else where the system's list of users has him. None if there cannot be one, also
/// where he may not even look into that folder (a program that runs as another user, with HOME kept).
pub fn of_user() -> Option<String> {
    let home = std::env::var("HOME").ok().filter(|home| !home.is_empty());
    let home = home.or_else(|| listed_home(rustix::process::getuid().as_raw(), &std::fs::read_to_string("/etc/passwd").ok()?))?;
    let path = format!("{home}/.nccl.conf");
    let hidden = std::fs::symlink_metadata(&path).is_err_and(|e| e.kind() == ErrorKind::PermissionDenied);
    (!hidden).then_some(path)
}

fn listed_home(user: u32, list: &str) -> Option<String> {
    let line = list
        .lines()
        .map(|line| line.split(':').collect::<Vec<_>>())
        .find(|fields| fields.len() > 5 && fields[2].parse() == Ok(user))?;
    Some(line[5].to_owned()).filter(|home| !home.is_empty())
}

/// The bytes of a plain file, at most `most`. A FIFO, a terminal or a device is refused: it may block, or never end. /dev/null
/// is an empty file.
pub fn read(path: &str, most: u64) -> std::io::Result<Vec<u8>> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY; // a FIFO that nobody writes to would block here already
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let about = file.metadata()?;
    let null = about.file_type().is_char_device() && about.rdev() == libc::makedev(1, 3);
    if !about.is_file() && !null {
        return Err(std::io::Error::other("it is not a plain file"));
    }
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(std::io::Error::other(format!("it has more than {most} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_block_or_never_end_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let owner = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, path("fifo"), rustix::fs::FileType::Fifo, owner, 0).unwrap();
        for odd in [path("fifo").as_str(), "/dev/zero", "/dev/tty", "/tmp"] {
            assert!(settings(odd).is_some_and(|read| read.is_err()), "{odd}");
        }
        std::fs::write(path("large"), vec![b'#'; MOST as usize + 1]).unwrap();
        assert!(settings(&path("large")).unwrap().unwrap_err().contains("more than 1048576"));
        std::fs::write(path("full"), vec![b'#'; MOST as usize]).unwrap();
        assert_eq!(settings(&path("full")).unwrap().unwrap().len() as u64, MOST);
        std::fs::write(path("latin"), [b'#', 0xe4]).unwrap();
        assert_eq!(settings(&path("latin")).unwrap().unwrap(), "#\u{fffd}");
        assert_eq!(settings("/dev/null"), Some(Ok(String::new())));
        assert_eq!(settings(&path("none")), None);
        assert_eq!(settings("/dev/null/.nccl.conf"), None, "HOME=/dev/null is a way to have none");
    }

    #[test]
    fn the_list_of_users_has_homes() {
        let list = "root:x:0:0:root:/root:/bin/sh\n# x\nu:x:7:7::/home/u:/bin/sh\nv:x:8:8:::\nshort:x:9\n";
        assert_eq!(listed_home(7, list).as_deref(), Some("/home/u"));
        assert!([8, 9, 10].iter().all(|&user| listed_home(user, list).is_none()));
    }
}
