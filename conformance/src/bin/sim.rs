//! Runs simulated worlds: `sim --seeds N [--seed S] [--trace] [--planted BUG]`.

use std::process::ExitCode;
use std::time::Instant;

use plica_conformance::sim::{self, Options, PlantedBug};

const USAGE: &str = "usage: sim --seeds N [--seed S] [--trace] [--planted BUG]";

/// What was asked for on the command line.
struct Asked {
    seeds: u64,
    first: u64,
    options: Options,
}

fn asked(mut args: impl Iterator<Item = String>) -> Result<Asked, String> {
    let mut asked = Asked { seeds: 0, first: 0, options: Options::default() };
    while let Some(arg) = args.next() {
        let mut number = || {
            let value = args.next().ok_or_else(|| format!("{arg} needs a number"))?;
            value.parse::<u64>().map_err(|_| format!("{arg}: {value:?} is no number"))
        };
        match arg.as_str() {
            "--seeds" => asked.seeds = number()?,
            "--seed" => asked.first = number()?,
            "--trace" => asked.options.trace = true,
            "--planted" => {
                let name = args.next().unwrap_or_default();
                let bug = PlantedBug::ALL.iter().find(|bug| format!("{bug:?}") == name);
                asked.options.planted = Some(*bug.ok_or_else(|| format!("no planted bug {name:?}"))?);
            }
            _ => return Err(format!("unknown argument {arg:?}")),
        }
    }
    if asked.seeds == 0 { Err("--seeds is missing".into()) } else { Ok(asked) }
}

fn main() -> ExitCode {
    let Asked { seeds, first, options } = match asked(std::env::args().skip(1)) {
        Ok(asked) => asked,
        Err(why) => {
            eprintln!("sim: {why}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let began = Instant::now();
    let totals = match sim::sweep(first..first.saturating_add(seeds), options) {
        Ok(totals) => totals,
        Err(failure) => {
            eprintln!("{failure}");
            return ExitCode::FAILURE;
        }
    };
    println!(
        "{seeds} seeds from {first}: {} events, {} starts of workers, {} s of virtual time in {} ms",
        totals.events(),
        totals.starts,
        totals.virtual_ms / 1000,
        began.elapsed().as_millis()
    );
    for (kind, count) in &totals.kinds {
        println!("{count:>9} {kind}");
    }
    ExitCode::SUCCESS
}
