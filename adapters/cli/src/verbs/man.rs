//! `plica man`: a man page for each verb, for whoever packages the program (CL-1).

use clap::CommandFactory;

use crate::args::{Arguments, Man};
use crate::fault::Fault;

pub fn man(arguments: &Man) -> Result<u8, Fault> {
    let folder = &arguments.folder;
    clap_mangen::generate_to(Arguments::command(), folder).map_err(|error| {
        Fault::Config(format!(
            "man pages cannot be written to {}: {error}; name a folder that is there",
            folder.display()
        ))
    })?;
    Ok(0)
}
