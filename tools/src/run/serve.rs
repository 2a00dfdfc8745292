//! `ginrs-run --serve`: another ginrs-run's helper on this machine. It runs its share of the ranks as a job of its own, says what
//! they say in frames on standard output, and ends them when its standard input ends: with the connection, or with who asked.

use super::args::Options;
use super::frame::{Channel, Frame, GREETING, Share, VERSION};
use super::job::{free_port, run_share};
use super::output::Printer;
use super::relay::Relay;
use super::signals::{Signals, raise};
use super::timeline;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// What it hands on.
const SIGNALS: [i32; 8] =
    [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGTSTP, libc::SIGCONT, libc::SIGUSR1, libc::SIGUSR2];

/// How often it says that it is there.
const BEAT: Duration = Duration::from_secs(5);

/// The exit status: that of its ranks.
pub fn serve() -> i32 {
    let signals = Signals::block();
    let streams = (|| Ok((io::stdin().as_fd().try_clone_to_owned()?, io::stdout().as_fd().try_clone_to_owned()?)))();
    let (mut input, channel) = match streams.map(|(input, out): (_, std::os::fd::OwnedFd)| (File::from(input), Channel::new(out)))
    {
        Ok(both) => both,
        Err(error) => {
            let error: io::Error = error;
            crate::tell(format!("ginrs-run --serve: its standard streams: {error}"));
            return 1;
        }
    };
    // The frames' alone from here on.
    // SAFETY: both descriptors are open; dup2 changes what number 1 is and nothing else.
    unsafe { libc::dup2(io::stderr().as_raw_fd(), 1) };
    channel.raw(GREETING);
    channel.send(&Frame::Hello(VERSION.into(), free_port("0.0.0.0").unwrap_or(0)));
    // The end of input is an answer, too: nothing is to be done.
    let Ok(Some(Frame::Start(share))) = Frame::read(&mut input) else { return 0 };
    let status = run(input, &channel, &share, &signals).unwrap_or_else(|message| {
        channel.send(&Frame::Failed(1, message));
        1
    });
    channel.send(&Frame::Ended(status));
    status
}

fn run(input: File, channel: &Channel, share: &Share, signals: &Signals) -> Result<i32, String> {
    std::env::set_current_dir(&share.folder).map_err(|e| {
        format!("working directory {}: {e} | fix: make it there too, or name another with --wdir", share.folder.display())
    })?;
    let options = Options {
        ranks: share.ranks[1] as usize,
        devices: (share.devices > 0).then_some(share.devices as usize),
        grace: Duration::from_millis(share.grace.into()),
        program: share.program.clone(),
        ..Options::default()
    };
    let (printer, beats) = (Printer::away(channel)?, channel.clone());
    // Where the other end's machine has vanished nothing else would make sshd look for it, and the ranks would stay for ever.
    let beat = move || {
        loop {
            std::thread::sleep(BEAT);
            beats.send(&Frame::Beat);
        }
    };
    std::thread::Builder::new().spawn(beat).map_err(|e| format!("a thread: {e}; raise ulimit -u"))?;
    let relay = Relay::new(share.host, channel);
    let answers = relay.clone();
    let prepare = |folder: &Path| {
        relay.open(folder, share.master.1)?;
        let listen = move || listen(input, &relay);
        std::thread::Builder::new().spawn(listen).map(drop).map_err(|e| format!("a thread: {e}; raise ulimit -u"))
    };
    let status = run_share(&options, share, signals, &printer, prepare, |folder| timeline::send(folder, channel));
    answers.settle();
    status
}

/// What the other ginrs-run says, until it says nothing more.
fn listen(mut input: File, relay: &Arc<Relay>) {
    loop {
        match Frame::read(&mut input) {
            Ok(Some(Frame::Signal(number))) if SIGNALS.contains(&number) => raise(number),
            Ok(Some(frame)) => relay.take(frame),
            Ok(None) | Err(_) => return raise(libc::SIGTERM),
        }
    }
}
