//! How fast a disk makes things safe: what every step of every task waits for.

use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes of one write: about what a small step appends.
const WRITE: [u8; 4096] = [0x5a; 4096];
/// How long is measured, and how often at most.
const MEASURE: Duration = Duration::from_millis(250);
const TIMES: u32 = 2_000;

/// Flushed writes a second on the disk of a folder, one after the other, in a file that has no
/// name and goes away by itself.
///
/// # Errors
/// When nothing can be written there.
pub fn commits_per_second(folder: &Path) -> io::Result<u64> {
    let mut file = tempfile::tempfile_in(folder)?;
    let began = Instant::now();
    let mut times = 0;
    while times < TIMES && (times == 0 || began.elapsed() < MEASURE) {
        file.write_all(&WRITE)?;
        file.sync_data()?;
        times += 1;
    }
    let micros = began.elapsed().as_micros().max(1);
    Ok(u64::try_from(u128::from(times) * 1_000_000 / micros).unwrap_or(u64::MAX))
}
