//! One suite per port, run against every adapter: whoever implements a port proves here that
//! it keeps the clauses of the design, one test a clause, named by it.
//!
//! The suites never reach behind a port. What they need besides (time that can be moved, a
//! second handle on the same store, a way to damage a body) an adapter hands over in its
//! [`Subject`], or declares as [lacking](Subject::lacking): a test whose means are neither
//! there nor declared lacking fails, so no clause passes silently.
//!
//! # A store of your own in ten lines
//!
//! In `tests/conformance.rs` of your crate, with `plica-conformance` as a dev-dependency:
//!
#![doc = concat!("```\n", include_str!("../tests/third_party.rs"), "```")]
//!
//! What the adapter can do is given instead of declared lacking: a second handle on the same
//! store, opened as another process would, with [`Subject::with_second`]; a folder or server
//! that has to outlive the test with [`Subject::keeping`].
//!
//! Each suite expands to one `#[test]` a clause (`store::st_1_…`, `content::co_1_…`); each
//! makes a fresh subject and runs in a runtime of its own, so the crate that is tested needs
//! no runtime as a dependency.
//!
//! A store with a clock that can be moved gives it with [`Subject::with_time`]; then the waits
//! of up to half a minute that ST-18 asks for are proved as well. First type to read:
//! [`Subject`]; then any file of [`store`].
//!
//! How the rest of the system stands a store that fails is tested with the decorators of
//! [`faults`].

mod bench;
mod call;
pub mod content;
pub mod differ;
pub mod faults;
pub mod layer;
mod log;
pub mod model;
pub mod sim;
pub mod store;
mod subject;

pub use bench::{BRIEF_LEASE, Bench, LEASE, SHORT_LEASE};
pub use log::{Log, note, opening_facts};
pub use subject::{Capability, ContentSubject, Subject, run};
