//! The `plica` binary: reads the command line and the environment, plugs adapters into the
//! engine, and speaks to people and scripts. Data goes to standard output, talk to standard
//! error (CL-1). The only crate that reads the environment or configuration.

// Standard error has one writer, and standard output one way to it.
#![warn(clippy::print_stderr, clippy::print_stdout)]

mod agent;
mod args;
mod commands;
mod complete;
mod compose;
mod disk;
mod fault;
mod live;
mod render;
mod talk;
mod verbs;

use std::process::ExitCode;

use args::Arguments;
use clap::parser::ValueSource;
use clap::{CommandFactory, FromArgMatches};
use fault::Fault;

fn main() -> ExitCode {
    complete::answer_shell();
    let arguments = match arguments() {
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
    let code = match ended {
        Ok(code) => ExitCode::from(code),
        Err(fault) => report(&fault),
    };
    talk::settle();
    code
}

/// Reads the command line; a store that it names is named in the commands that are printed.
fn arguments() -> Result<Arguments, clap::Error> {
    let matches = Arguments::command().try_get_matches()?;
    let arguments = Arguments::from_arg_matches(&matches)?;
    if let Some(store) = &arguments.store
        && matches.value_source("store") == Some(ValueSource::CommandLine)
    {
        commands::name_store(store);
    }
    Ok(arguments)
}

fn report(fault: &Fault) -> ExitCode {
    let message = fault.to_string();
    if !message.is_empty() {
        talk::say(message);
        talk::settle();
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
        .with_writer(|| talk::Log)
        .with_ansi(false)
        .with_target(false)
        .init();
}
