//! Commands that messages name, completed so that they work as printed (CL-8).

use std::borrow::Cow;
use std::sync::OnceLock;

/// How messages begin a command that can be typed.
const BEGINS: &str = "`plica ";

/// The store as it was given on the command line, as words of a shell.
static STORE: OnceLock<String> = OnceLock::new();

/// Commands are to name this store: it was named by a flag, which the next one needs again. (What
/// `PLICA_STORE` says holds for the next command too.)
pub fn name_store(store: &str) {
    let _ = STORE.set(format!("--store {} ", word(store)));
}

/// The message with `--store` in each of its commands, if this one had it.
pub fn complete(message: &str) -> Cow<'_, str> {
    match STORE.get() {
        Some(store) => Cow::Owned(message.replace(BEGINS, &format!("{BEGINS}{store}"))),
        None => Cow::Borrowed(message),
    }
}

/// A text as one word of a shell's command line.
pub fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '/' | '@' | '%' | '+' | ',');
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", crate::render::clean(text).replace('\'', "'\\''"))
}
