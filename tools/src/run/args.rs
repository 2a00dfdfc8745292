//! The command line of ginrs-run.

use std::time::Duration;

/// What --help prints.
pub const HELP: &str = "\
usage: ginrs-run -n RANKS [options] PROGRAM [arguments]
Starts RANKS processes of PROGRAM on this machine and ends them together.
  -n, -np, --ranks RANKS   how many (1 to 4096)
  --devices N              devices that each process sees (GINRS_CPU_DEVICES)
  --timeout SECONDS        end the job after this time; the status is then 124
  --no-prefix              print the ranks' lines without `[rank] ` in front
  -h, --help  --version
Each process gets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT as torchrun sets them, and
GINRS_RUN_ID, a private folder of the job. Its standard input is empty.
The status is 0 if every rank ended with 0, else that of the first that did not: its own, or 128 + the signal's number.
";

/// A job.
#[derive(Debug, PartialEq)]
pub struct Options {
    /// Number of processes.
    pub ranks: usize,
    /// `--devices`
    pub devices: Option<usize>,
    /// `--timeout`
    pub timeout: Option<Duration>,
    /// False with `--no-prefix`.
    pub prefix: bool,
    /// The program and its arguments.
    pub program: Vec<String>,
}

/// What the command line asks for.
#[derive(Debug, PartialEq)]
pub enum Asked {
    /// A job.
    Run(Options),
    /// `--help`
    Help,
    /// `--version`
    Version,
}

impl Options {
    /// Understands the arguments, or says which one is wrong.
    pub fn parse(arguments: Vec<String>) -> Result<Asked, String> {
        let mut options = Options { ranks: 0, devices: None, timeout: None, prefix: true, program: Vec::new() };
        let mut rest = arguments.into_iter();
        while let Some(argument) = rest.next() {
            let (name, joined) = match argument.split_once('=') {
                Some((name, value)) if name.starts_with("--") => (name.to_string(), Some(value.to_string())),
                _ => (argument.clone(), None),
            };
            let mut value = || joined.clone().or_else(|| rest.next()).ok_or_else(|| format!("`{name}` needs a value"));
            match name.as_str() {
                "-n" | "-np" | "--ranks" => options.ranks = number(&name, &value()?, 4096)?,
                "--devices" => options.devices = Some(number(&name, &value()?, 1024)?),
                "--timeout" => {
                    let text = value()?;
                    let seconds = text.parse().ok().filter(|s: &f64| *s > 0.0 && *s < 1e9);
                    options.timeout = Some(Duration::from_secs_f64(
                        seconds.ok_or_else(|| format!("`--timeout {text}`: want seconds above 0"))?,
                    ));
                }
                "--no-prefix" => options.prefix = false,
                "-h" | "--help" => return Ok(Asked::Help),
                "--version" => return Ok(Asked::Version),
                "--" => {
                    options.program.extend(rest.by_ref());
                    break;
                }
                _ if argument.starts_with('-') => return Err(format!("unknown option `{argument}`")),
                _ => {
                    options.program.push(argument);
                    options.program.extend(rest.by_ref());
                    break;
                }
            }
        }
        if options.ranks == 0 {
            return Err("how many ranks? say -n RANKS".into());
        }
        if options.program.is_empty() {
            return Err("which program? name it behind the options".into());
        }
        Ok(Asked::Run(options))
    }
}

fn number(name: &str, text: &str, most: usize) -> Result<usize, String> {
    text.parse().ok().filter(|n| (1..=most).contains(n)).ok_or_else(|| format!("`{name} {text}`: want a number from 1 to {most}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Asked, String> {
        Options::parse(line.split_whitespace().map(String::from).collect())
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
        ] {
            assert!(parse(line).unwrap_err().contains(word), "{line}");
        }
    }
}
