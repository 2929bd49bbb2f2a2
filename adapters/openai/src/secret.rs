//! Secrets: read from variables at the last moment, and taken out of whatever a server says.

use std::fmt;

/// How many bytes of a secret in a row are taken for the secret: a server that masks a key
/// shows fewer.
const SHARED_BYTES_MAX: usize = 8;

/// What a secret is shown as.
const REDACTED: &str = "[redacted]";

/// The secrets of one request.
#[derive(Clone, Default)]
pub(crate) struct Secrets(Vec<String>);

impl Secrets {
    pub(crate) fn add(&mut self, secret: &str) {
        self.0.push(secret.to_owned());
    }

    /// `text` without any secret, or as much of one as says more than chance.
    pub(crate) fn redact(&self, text: &str) -> String {
        let mut hidden = vec![false; text.len()];
        for secret in &self.0 {
            mark(text.as_bytes(), secret.as_bytes(), &mut hidden);
        }
        if !hidden.contains(&true) {
            return text.to_owned();
        }
        let mut shown = String::with_capacity(text.len());
        let mut was_hidden = false;
        for (at, character) in text.char_indices() {
            // A secret may end inside a character; the whole of it goes.
            let is_hidden = hidden[at..at + character.len_utf8()].contains(&true);
            match (was_hidden, is_hidden) {
                (_, false) => shown.push(character),
                (false, true) => shown.push_str(REDACTED),
                (true, true) => {}
            }
            was_hidden = is_hidden;
        }
        shown
    }
}

/// Marks what `text` shares with `secret`, window by window.
fn mark(text: &[u8], secret: &[u8], hidden: &mut [bool]) {
    let width = secret.len().min(SHARED_BYTES_MAX);
    // Three bytes are no secret, and hiding them would garble every message.
    if width < 4 {
        return;
    }
    let mut windows: Vec<&[u8]> = secret.windows(width).collect();
    windows.sort_unstable();
    for (at, window) in text.windows(width).enumerate() {
        if windows.binary_search(&window).is_ok() {
            hidden[at..at + width].fill(true);
        }
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} secrets", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_taken_out_whole_or_in_part() {
        let mut secrets = Secrets::default();
        secrets.add("sk-live-0123456789abcdef");
        secrets.add("s3");
        for (said, shown) in [
            ("nothing s3", "nothing s3"),
            ("key sk-live-0123456789abcdef, wrong", "key [redacted], wrong"),
            ("é0123456789é", "é[redacted]é"),
            ("sk-live-0123456789abcdefsk-live-0123456789abcdef", "[redacted]"),
            ("sk-live***cdef", "sk-live***cdef"),
        ] {
            assert_eq!(secrets.redact(said), shown);
        }
        assert_eq!(format!("{secrets:?}"), "2 secrets");
    }
}
