//! What was measured, as a table for people or as lines for machines.

use serde_json::json;

/// What a bar asks of its ratio.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Limit {
    AtLeast(f64),
    AtMost(f64),
    /// Shown for orientation.
    None,
}

impl Limit {
    fn is_met(self, ratio: f64) -> Option<bool> {
        match self {
            Self::AtLeast(limit) => Some(ratio >= limit),
            Self::AtMost(limit) => Some(ratio <= limit),
            Self::None => None,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtLeast(limit) => format!(">= {}", short(limit)),
            Self::AtMost(limit) => format!("<= {}", short(limit)),
            Self::None => String::new(),
        }
    }
}

/// One bar: our number, what it is measured against, their ratio and what the ratio has to be.
#[derive(Debug)]
pub(crate) struct Bar<'a> {
    pub(crate) id: &'a str,
    pub(crate) what: &'a str,
    pub(crate) ours: String,
    pub(crate) against: String,
    pub(crate) ratio: f64,
    pub(crate) limit: Limit,
}

/// All bars so far; each is printed as it comes.
#[derive(Debug)]
pub(crate) struct Report {
    json: bool,
    missed: Vec<String>,
    bars: usize,
}

impl Report {
    pub(crate) fn new(json: bool) -> Self {
        if !json {
            println!("{:5} {:58} {:>26} {:>26} {:>8} {:>8}", "bar", "what", "ours", "against", "ratio", "limit");
        }
        Self { json, missed: Vec::new(), bars: 0 }
    }

    pub(crate) fn add(&mut self, bar: Bar<'_>) {
        let Bar { id, what, ours, against, ratio, limit } = bar;
        let met = limit.is_met(ratio);
        if self.json {
            let line = json!({"bar": id, "what": what, "ours": ours, "against": against, "ratio": ratio,
                "limit": limit.text(), "met": met});
            println!("{line}");
        } else {
            let verdict = met.map_or("", |met| if met { "met" } else { "MISSED" });
            println!("{id:5} {what:58} {ours:>26} {against:>26} {:>8} {:>8} {verdict}", short(ratio), limit.text());
        }
        self.bars += usize::from(met.is_some());
        if met == Some(false) {
            self.missed.push(format!("{id} ({what})"));
        }
    }

    /// Says how many bars were met; whether all were.
    pub(crate) fn finish(self) -> bool {
        if !self.json {
            println!("{} of {} bars met", self.bars - self.missed.len(), self.bars);
            self.missed.iter().for_each(|missed| println!("missed: {missed}"));
        }
        self.missed.is_empty()
    }
}

/// A number with three digits that say something.
pub(crate) fn short(number: f64) -> String {
    match number.abs() {
        size if size >= 100_000.0 => format!("{:.0}k", number / 1_000.0),
        size if size >= 100.0 => format!("{number:.0}"),
        size if size >= 10.0 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

/// A rate.
pub(crate) fn rate(number: f64, what: &str) -> String {
    format!("{} {what}/s", short(number))
}

/// A time in seconds, in the unit that fits.
pub(crate) fn time(seconds: f64) -> String {
    match seconds {
        long if long >= 1.0 => format!("{} s", short(long)),
        long if long >= 0.001 => format!("{} ms", short(long * 1e3)),
        brief => format!("{} us", short(brief * 1e6)),
    }
}
