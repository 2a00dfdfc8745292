//! ginrs-cc: see `ginrs_tools::cc` and docs/user/ginrs-cc.md.

fn main() {
    std::process::exit(ginrs_tools::cc::main(std::env::args_os().skip(1).collect()));
}
