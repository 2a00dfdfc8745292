//! ginrs-run: see `ginrs_tools::run` and docs/user/ginrs-run.md.

fn main() {
    std::process::exit(ginrs_tools::run::main(std::env::args_os().skip(1).collect()));
}
