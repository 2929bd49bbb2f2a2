//! Every bound of the tools, in one table: unit last in the name.

use std::time::Duration;

/// Characters that the model is told of one output.
pub(crate) const TEXT_CHARS_MAX: usize = 30_000;
/// Bytes of one output that are kept as content.
pub(crate) const WHOLE_BYTES_MAX: usize = 64 << 20;

/// Lines that `Read` gives unless asked for another number.
pub(crate) const READ_LINES_DEFAULT: u64 = 2_000;
/// Characters of one line that `Read` gives.
pub(crate) const READ_LINE_CHARS_MAX: usize = 2_000;
/// Bytes of text that one `Read` gives.
pub(crate) const READ_TEXT_BYTES_MAX: usize = 256 << 10;
/// First bytes of a file that are looked at to tell whether it is binary.
pub(crate) const BINARY_PROBE_BYTES: usize = 8 << 10;

/// Bytes of a file that `Edit` changes.
pub(crate) const EDIT_BYTES_MAX: u64 = 64 << 20;
/// Lines around a change that `Edit` shows.
pub(crate) const EDIT_SNIPPET_LINES: usize = 4;

/// Links that the name of a file leads through, one after the other: as many as Linux follows.
pub(crate) const LINKS_MAX: u32 = 40;

/// Paths that `Glob` collects.
pub(crate) const GLOB_PATHS_MAX: usize = 100_000;
/// Characters of one line that `Grep` gives.
pub(crate) const GREP_LINE_CHARS_MAX: usize = 500;
/// Bytes of one line that `Grep` searches; a file with a longer one is skipped.
pub(crate) const GREP_LINE_BYTES_MAX: usize = 64 << 20;
/// Lines of context around a match.
pub(crate) const GREP_CONTEXT_MAX: u64 = 1_000;
/// Folders within folders that a search descends into; each holds a file descriptor.
pub(crate) const WALK_DEPTH_MAX: usize = 100;
/// Bytes of an ignore file that are read.
pub(crate) const IGNORE_FILE_BYTES_MAX: u64 = 1 << 20;

/// How long a command may run unless the call says otherwise.
pub(crate) const BASH_TIMEOUT_DEFAULT_MS: u64 = 120_000;
/// The longest time that a call may ask for.
pub(crate) const BASH_TIMEOUT_MAX_MS: u64 = 3_600_000;
/// Bytes of a command: what Linux passes as one argument, its end included.
pub(crate) const BASH_COMMAND_BYTES_MAX: usize = (128 << 10) - 1;
/// How long the processes of a command that was told to end may take to do so.
pub(crate) const BASH_GRACE: Duration = Duration::from_secs(2);
/// How long a background command that is told to end may take before it is killed.
pub(crate) const JOB_GRACE: Duration = Duration::from_secs(5);
/// How long output of what a command left behind is waited for while none comes.
pub(crate) const BASH_QUIET: Duration = Duration::from_millis(250);
/// How long output of what a command left behind is taken while it keeps coming.
pub(crate) const BASH_DRAIN_MAX: Duration = Duration::from_secs(2);
/// Looks for the exits of a killed group, about a millisecond apart.
pub(crate) const BASH_REAP_TRIES_MAX: u32 = 1_000;
