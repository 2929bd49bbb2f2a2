//! What a worker process has of the tools, and of which version (RC-8).

use std::collections::BTreeMap;

use super::prng::Prng;
use super::tools::Kind;

/// How workers of a world differ.
#[derive(Debug, Clone, Copy, Default)]
pub struct Variety {
    /// Whether some of them have other versions of tools.
    pub versions: bool,
    /// Whether some of them lack a tool.
    pub lacks: bool,
}

impl Variety {
    /// How the workers of a world differ.
    pub fn drawn(prng: &Prng) -> Self {
        Self { versions: prng.chance(350), lacks: prng.chance(200) }
    }
}

/// Versions of the tools that a process has, by their names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Equipment(BTreeMap<&'static str, &'static str>);

impl Equipment {
    /// What the next process has.
    pub fn drawn(prng: &Prng, variety: Variety) -> Self {
        let version = |_: Kind| if variety.versions && prng.chance(250) { "2" } else { "1" };
        let mut all: BTreeMap<_, _> = Kind::ALL.into_iter().map(|kind| (kind.name(), version(kind))).collect();
        if variety.lacks && prng.chance(500) {
            let lacking = [Kind::Mutate, Kind::Mail, Kind::Put, Kind::Look];
            all.remove(prng.pick(&lacking).name());
        }
        Self(all)
    }

    /// The version of a tool, if the process has it.
    pub fn version(&self, tool: &str) -> Option<&'static str> {
        self.0.get(tool).copied()
    }
}
