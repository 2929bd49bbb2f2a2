//! Stored text on its way to a terminal.

/// Whether a terminal would do something with `c` other than show it: controls of both sets,
/// line and paragraph separators, and the marks that turn the direction of writing
/// (Unicode Standard Annex 9).
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{61c}')
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The text with its lines, and nothing in it that a terminal would act on but they and tabs.
/// Carriage returns are left out: before a line feed they say nothing, elsewhere they would
/// overwrite what is shown.
pub fn harmless(text: &str) -> String {
    let shown = |c: char| match c {
        '\r' => None,
        '\n' | '\t' => Some(c),
        _ if is_unsafe(c) => Some(char::REPLACEMENT_CHARACTER),
        _ => Some(c),
    };
    text.chars().filter_map(shown).collect()
}

/// The text on one line: white space of any kind is a space, what a terminal would act on is
/// U+FFFD.
pub fn clean(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            _ if c.is_whitespace() => ' ',
            _ if is_unsafe(c) => char::REPLACEMENT_CHARACTER,
            _ => c,
        })
        .collect()
}

/// The text on one line, runs of white space one space, cut to `chars` characters.
pub fn cut(text: &str, chars: usize) -> String {
    // Four times as much is enough to fill the line after white space has shrunk, unless there
    // is next to nothing else; the whole of a large text is not walked for one line.
    let beginning: String = text.chars().take(chars.saturating_mul(4).saturating_add(1)).collect();
    let line = clean(&beginning).split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= chars && beginning.len() == text.len() {
        return line;
    }
    line.chars().take(chars.saturating_sub(1)).chain(['…']).collect()
}

/// The text's first `lines` lines, each indented, and how many more there are.
pub(super) fn indented(text: &str, lines: usize) -> String {
    let mut shown = String::new();
    let mut all = text.lines();
    for line in all.by_ref().take(lines) {
        let line: String =
            line.chars().map(|c| if c != '\t' && is_unsafe(c) { char::REPLACEMENT_CHARACTER } else { c }).collect();
        shown.push_str(format!("  {line}").trim_end());
        shown.push('\n');
    }
    match all.count() {
        0 => {}
        1 => shown.push_str("  … 1 more line\n"),
        more => shown.push_str(&format!("  … {more} more lines\n")),
    }
    shown
}
