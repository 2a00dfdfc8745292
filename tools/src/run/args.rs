//! The command line of ginrs-run.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::check;
use super::hosts::{self, Host};
use super::timeline::Wanted;

/// What --help prints.
pub const HELP: &str = "\
usage: ginrs-run -n RANKS [options] PROGRAM [arguments]
Starts RANKS processes of PROGRAM, on this machine or on others, and ends them together.
  -n, -np, --ranks RANKS   how many (1 to 4096)
  --timeline FILE          writes what all ranks did, as a trace for Perfetto (https://ui.perfetto.dev)
  --html FILE              writes it as one page for a browser, with who waited for whom and the bytes between ranks
  --timeline FILE --merge FILES   makes it (or --html FILE) of what processes have written under GINRS_TIMELINE, and runs nothing
  --waits [PID]            what the kernels of a job that runs wait for, asked from another terminal; ends nothing. PID: its ginrs-run or
                           any of its ranks, whoever has started them; none: the only ginrs-run of this user
  --devices N              devices that each process sees (GINRS_CPU_DEVICES)
  --timeout SECONDS        end the job after this time, with what its kernels wait for; the status is then 124
  --grace SECONDS          from the first failure to the kill of ranks that are still there (2)
  --explore N              runs the job under N seeds, from --seed (1) on, each for --timeout (60) seconds at most, and stops at the first
                           that fails: its output, how often it fails again, and whether the schedule or the network makes it fail
  --seed S                 sets GINRS_SCHEDULE=S and GINRS_CHAOS=S: threads, blocks and the network of the CPU device as seed S has them.
                           One process replays it exactly, one thread at a time and in virtual time; several do not. Both: one rank unless -n
                           says otherwise
  --check                  looks for what is wrong: a plain run, then up to 100 (--explore) seeds for 60 s (--check=SECONDS), races too if it was built
                           for them, to the first failure: what it is, your line, the command that brings it back, and a page (--html,
                           else PROGRAM.check.html). One rank unless -n says otherwise
  --check=race             look for races between kernels and puts (docs/user/races.md); needs ginrs-cc --check=race
  --no-prefix              print the ranks' lines without `[rank] ` in front
  --hosts A,B or A:4,B:4   run on these machines, in blocks of ranks or by their slots, over ssh
  --hostfile FILE          these machines, one in a line: HOST, HOST:SLOTS or HOST slots=N
  --rsh COMMAND            instead of ssh (or GINRS_RSH): gets the host and a command line for its shell there
  -x NAME or NAME=VALUE    environment for other machines beside PATH, LD_LIBRARY_PATH, NCCL_*, GINRS_*, CUDA_* and FI_*
  --wdir FOLDER            where to run (this folder)
  -h, --help  --version
Each process gets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT as torchrun sets them, and
GINRS_RUN_ID, a private folder of the job. Its standard input is empty.
The status is 0 if every rank ended with 0 (--explore: 1 if a seed fails; --check: 1 if it finds something, 2 if it can look for nothing), else that of the first that did not: its own, or 128 + the signal's number.
";

/// A job.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Number of processes.
    pub ranks: usize,
    /// `--hosts`; empty: this machine.
    pub hosts: Vec<Host>,
    /// `--rsh`
    pub rsh: Option<String>,
    /// `-x`
    pub exports: Vec<OsString>,
    /// `--wdir`
    pub folder: Option<OsString>,
    /// `--timeline`, `--html`
    pub pictures: Wanted,
    /// `--devices`
    pub devices: Option<usize>,
    /// `--timeout`
    pub timeout: Option<Duration>,
    /// `--grace`: from SIGTERM to SIGKILL.
    pub grace: Duration,
    /// False with `--no-prefix`.
    pub prefix: bool,
    /// `--check`: how long.
    pub check: Option<Duration>,
    /// `--check=race`
    pub race: bool,
    /// `--seed`
    pub seed: Option<u64>,
    /// `--explore`: how many seeds.
    pub explore: Option<u64>,
    /// The program and its arguments.
    pub program: Vec<OsString>,
}

/// What the command line asks for.
#[derive(Debug, PartialEq)]
pub enum Asked {
    /// A job.
    Run(Box<Options>),
    /// `--merge`: the pictures, and what they are made of.
    Merge(Wanted, Vec<PathBuf>),
    /// `--waits`: of this process's job, or of the only one.
    Waits(Option<u32>),
    /// `--serve`, for another ginrs-run.
    Serve,
    /// `--help`
    Help,
    /// `--version`
    Version,
}

impl Default for Options {
    fn default() -> Self {
        let (hosts, exports, program) = (Vec::new(), Vec::new(), Vec::new());
        let grace = Duration::from_secs(2);
        Self {
            ranks: 0,
            hosts,
            rsh: None,
            exports,
            folder: None,
            pictures: Wanted::default(),
            devices: None,
            timeout: None,
            grace,
            prefix: true,
            check: None,
            race: false,
            seed: None,
            explore: None,
            program,
        }
    }
}

impl Options {
    /// Understands the arguments, or says which one is wrong.
    pub fn parse(arguments: Vec<OsString>) -> Result<Asked, String> {
        let (mut options, mut hosts) = (Options::default(), None);
        let mut rest = arguments.into_iter();
        while let Some(argument) = rest.next() {
            let bytes = argument.as_bytes();
            let (name, joined) = match bytes.iter().position(|&b| b == b'=') {
                Some(at) if bytes.starts_with(b"--") => (&bytes[..at], Some(OsStr::from_bytes(&bytes[at + 1..]).to_owned())),
                _ => (bytes, None),
            };
            let name = String::from_utf8_lossy(name);
            let mut word = || joined.clone().or_else(|| rest.next()).ok_or_else(|| format!("`{name}` needs a value"));
            let mut value = || Ok::<String, String>(word()?.to_string_lossy().into_owned());
            match &*name {
                "-n" | "-np" | "--ranks" => options.ranks = number(&name, &value()?, 4096)?,
                "--devices" => options.devices = Some(number(&name, &value()?, 1024)?),
                "--timeline" => options.pictures.trace = Some(word()?),
                "--html" => options.pictures.page = Some(word()?),
                "--merge" => {
                    options
                        .pictures
                        .option()
                        .ok_or("`--merge` needs `--timeline FILE` or `--html FILE` in front: what is made")?;
                    let files = joined.into_iter().chain(rest).map(PathBuf::from).collect();
                    return Ok(Asked::Merge(options.pictures, files));
                }
                "--waits" => {
                    let words: Vec<OsString> = joined.into_iter().chain(rest).collect();
                    let pid = words.first().map(|word| {
                        let word = word.to_string_lossy();
                        word.parse()
                            .ok()
                            .filter(|&pid| pid > 0)
                            .ok_or_else(|| format!("`--waits {word}`: want the id of a process"))
                    });
                    let pid = pid.transpose()?;
                    if words.len() > 1 || options.ranks > 0 {
                        return Err("`--waits` stands alone, with the id of a process or without".into());
                    }
                    return Ok(Asked::Waits(pid));
                }
                "--timeout" => options.timeout = Some(seconds(&name, &value()?)?),
                "--grace" => options.grace = seconds(&name, &value()?)?,
                "--no-prefix" => options.prefix = false,
                "--seed" => {
                    let text = value()?;
                    let wrong = |_| format!("`--seed {text}`: want a number from 0 to {}", u64::MAX);
                    options.seed = Some(text.parse().map_err(wrong)?);
                }
                "--explore" => options.explore = Some(number(&name, &value()?, 1_000_000_000)? as u64),
                "--check" => match joined.as_ref().map(|word| word.to_string_lossy()) {
                    None => options.check = Some(check::LIMIT),
                    Some(what) if what == "race" => options.race = true,
                    Some(text) => {
                        let wrong = |_| format!("`--check={text}`: want race, or seconds above 0");
                        options.check = Some(seconds(&name, &text).map_err(wrong)?);
                    }
                },
                "--hosts" | "--host" => hosts = Some(value()?),
                "--hostfile" | "--machinefile" => hosts = Some(hosts::from_file(Path::new(&word()?))?),
                "--rsh" => options.rsh = Some(value()?),
                "-x" => options.exports.push(word()?),
                "--wdir" => options.folder = Some(word()?),
                "--serve" => return Ok(Asked::Serve),
                "-h" | "--help" => return Ok(Asked::Help),
                "--version" => return Ok(Asked::Version),
                "--" => {
                    options.program.extend(rest.by_ref());
                    break;
                }
                _ if bytes.starts_with(b"-") => return Err(format!("unknown option `{}`", argument.display())),
                _ => {
                    options.program.push(argument);
                    options.program.extend(rest.by_ref());
                    break;
                }
            }
        }
        if let Some(text) = hosts {
            options.hosts = hosts::share(&text, options.ranks)?;
            options.ranks = options.hosts.iter().map(|host| host.count).sum();
        }
        if options.ranks == 0 && (options.race || options.check.is_some() || options.seed.is_some() || options.explore.is_some())
        {
            options.ranks = 1;
            // LOCAL_WORLD_SIZE would be one.
            options.devices = options.devices.or(Some(8));
        }
        if options.ranks == 0 {
            return Err("how many ranks? say -n RANKS".into());
        }
        if options.explore.is_some() || options.check.is_some() {
            options.can_explore()?;
        }
        if options.program.is_empty() {
            return Err("which program? name it behind the options".into());
        }
        Ok(Asked::Run(Box::new(options)))
    }

    /// `--explore` and `--check`, which run the job many times.
    fn can_explore(&mut self) -> Result<(), String> {
        let name = if self.check.is_some() { "--check" } else { "--explore" };
        if !self.hosts.is_empty() {
            return Err(format!("`{name}` runs on this machine; on others run seeds one by one: --seed S --hosts .."));
        }
        let pictures = &self.pictures;
        if let Some(option) = pictures.option().filter(|option| self.check.is_none() || *option != "--html") {
            return Err(format!("{option} is of one run: let `{name}` find a seed, then say --seed S {option} FILE"));
        }
        let first = self.seed.unwrap_or(1);
        self.seed = Some(first);
        match first.checked_add(self.explore.unwrap_or(check::SEEDS) - 1) {
            Some(_) => Ok(()),
            None => Err(format!("`--seed {first}`: fewer than `{name}` needs are left, the last is {}", u64::MAX)),
        }
    }
}

fn number(name: &str, text: &str, most: usize) -> Result<usize, String> {
    text.parse().ok().filter(|n| (1..=most).contains(n)).ok_or_else(|| format!("`{name} {text}`: want a number from 1 to {most}"))
}

fn seconds(name: &str, text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|s: &f64| *s > 0.0 && *s < 1e9);
    seconds.map(Duration::from_secs_f64).ok_or_else(|| format!("`{name} {text}`: want seconds above 0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Asked, String> {
        Options::parse(line.split_whitespace().map(OsString::from).collect())
    }

    #[test]
    fn options_end_at_the_program() {
        let Ok(Asked::Run(options)) = parse("-n 3 --timeout=1.5 --no-prefix ./p -n 7 --help") else { panic!() };
        assert_eq!((options.ranks, options.prefix), (3, false));
        assert_eq!(options.timeout, Some(Duration::from_millis(1500)));
        assert_eq!(options.program, ["./p", "-n", "7", "--help"]);
        let Ok(Asked::Run(options)) = parse("--ranks 2 -- -odd") else { panic!() };
        assert_eq!(options.program, ["-odd"]);
    }

    #[test]
    fn what_is_checked_is_joined_to_the_option() {
        let Ok(Asked::Run(options)) = parse("--check race x") else { panic!() };
        assert_eq!((options.check, options.race, options.program.len()), (Some(check::LIMIT), false, 2));
        let Ok(Asked::Run(options)) = parse("--check=2.5 --check=race --html y p") else { panic!() };
        assert_eq!((options.check, options.race, options.ranks), (Some(Duration::from_millis(2500)), true, 1));
    }

    #[test]
    fn a_job_that_runs_is_named_or_not() {
        assert_eq!(parse("--waits"), Ok(Asked::Waits(None)));
        assert_eq!(parse("--waits 77"), Ok(Asked::Waits(Some(77))));
        assert_eq!(parse("--waits=77"), Ok(Asked::Waits(Some(77))));
    }

    #[test]
    fn a_program_and_its_arguments_are_bytes() {
        let odd = OsStr::from_bytes(b"./caf\xe9").to_os_string();
        let Ok(Asked::Run(options)) = Options::parse(vec!["-n".into(), "1".into(), odd.clone(), odd.clone()]) else { panic!() };
        assert_eq!(options.program, [odd.clone(), odd.clone()]);
        assert!(Options::parse(vec!["-n".into(), odd]).unwrap_err().contains("`-n ./caf"));
        let odd = OsStr::from_bytes(b"-\xff").to_os_string();
        assert!(Options::parse(vec![odd]).unwrap_err().contains("unknown option"));
    }

    #[test]
    fn wrong_ones_are_named() {
        for (line, word) in [
            ("-n 0 p", "`-n 0`"),
            ("-n x p", "`-n x`"),
            ("-n", "`-n` needs"),
            ("p", "-n RANKS"),
            ("-n 2", "which program"),
            ("--wat -n 2 p", "`--wat`"),
            ("-n 2 --timeout never p", "--timeout never"),
            ("-n 2 --timeout -1 p", "--timeout -1"),
            ("-n 2 --grace=0 p", "--grace 0"),
            ("--waits ./p", "`--waits ./p`"),
            ("--waits 0", "`--waits 0`"),
            ("--waits 7 8", "stands alone"),
            ("-n 2 --waits", "stands alone"),
            ("--seed x p", "`--seed x`"),
            ("--seed 18446744073709551616 p", "0 to 18446744073709551615"),
            ("--explore 0 p", "`--explore 0`"),
            ("--explore 3 --seed 18446744073709551614 p", "are left"),
            ("--check=fast p", "`--check=fast`"),
            ("--check=0 p", "`--check=0`"),
            ("--check --timeline x p", "--seed S --timeline"),
            ("--check -n 2 --hosts a,b p", "--seed S --hosts"),
            ("--explore 3", "which program"),
            ("--explore 3 --html x p", "--seed S --html"),
            ("--explore 3 -n 2 --hosts a,b p", "--seed S --hosts"),
        ] {
            assert!(parse(line).unwrap_err().contains(word), "{line}");
        }
    }
}
