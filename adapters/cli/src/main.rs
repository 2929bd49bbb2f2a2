//! The `plica` binary: reads the command line and the environment, plugs adapters into the
//! engine, and speaks to people and scripts. Data goes to standard output, talk to standard
//! error (CL-1). The only crate that reads the environment or configuration.

mod agent;
mod args;
mod compose;
mod fault;
mod render;
mod verbs;

use std::process::ExitCode;

use args::Arguments;
use clap::Parser;
use fault::Fault;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are no errors and go to standard output.
            let code = u8::from(error.use_stderr()) * fault::USAGE;
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    log_to_stderr();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return report(&Fault::Config(format!("no runtime: {error}"))),
    };
    let ended = runtime.block_on(verbs::carry_out(arguments));
    // A read that stands still, such as one of standard input, must not hold the end up.
    runtime.shutdown_background();
    match ended {
        Ok(code) => ExitCode::from(code),
        Err(fault) => report(&fault),
    }
}

fn report(fault: &Fault) -> ExitCode {
    let message = fault.to_string();
    if !message.is_empty() {
        eprintln!("plica: {message}");
    }
    ExitCode::from(fault.code())
}

/// Warnings go to standard error; `PLICA_LOG` asks for more, as in `PLICA_LOG=debug`.
fn log_to_stderr() {
    let filter = tracing_subscriber::EnvFilter::builder()
        .with_default_directive(tracing::level_filters::LevelFilter::WARN.into())
        .with_env_var("PLICA_LOG")
        .from_env_lossy();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(false)
        .init();
}
