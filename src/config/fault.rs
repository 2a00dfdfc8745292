//! What GINRS_FAULT may be.

/// A fault that a test plants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// `panic:ncclX`: that function panics.
    Panic(String),
    /// `random`: the system has no random bytes.
    Random,
    /// `fail:WHICH`: that step fails.
    Fail(Which),
    /// `exit:WHICH`: the process ends at that step.
    Exit(Which),
    /// `slow:WHICH`: that step takes a second: other threads go first.
    Slow(Which),
}

/// Which step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// The nth of this process, counted from 1.
    Nth(u64),
    /// Every one of that name.
    Named(String),
}

/// Its forms, for people.
pub const FORMS: &str =
    "one of panic:ncclX, random, fail:WHICH, exit:WHICH, slow:WHICH, where WHICH is a step's name or number from 1";

/// None for what is no fault.
pub fn parse(text: &str) -> Option<Fault> {
    let which = |text: &str| match text.parse() {
        Ok(0) => None,
        Ok(n) => Some(Which::Nth(n)),
        Err(_) => (!text.is_empty()).then(|| Which::Named(text.into())),
    };
    match text.split_once(':') {
        None => (text == "random").then_some(Fault::Random),
        Some(("panic", name)) => name.starts_with("nccl").then(|| Fault::Panic(name.into())),
        Some(("fail", text)) => which(text).map(Fault::Fail),
        Some(("exit", text)) => which(text).map(Fault::Exit),
        Some(("slow", text)) => which(text).map(Fault::Slow),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_fault_is_none() {
        assert_eq!(parse("panic:ncclGetVersion"), Some(Fault::Panic("ncclGetVersion".into())));
        assert_eq!(parse("random"), Some(Fault::Random));
        assert_eq!(parse("fail:12"), Some(Fault::Fail(Which::Nth(12))));
        assert_eq!(parse("exit:peer info"), Some(Fault::Exit(Which::Named("peer info".into()))));
        for text in ["", "randon", "random:", "fail", "fail:", "fail:0", "exit:0", "panic:", "panic:main", "die:3", ":"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}
