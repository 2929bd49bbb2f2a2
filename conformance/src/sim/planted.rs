//! Bugs on purpose: each is one that a store, a tool or an engine could have, and that the
//! oracle has to catch. Nothing outside the simulation can switch one on.

/// A bug to be caught.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlantedBug {
    /// A tool that must not run twice says that it may.
    RetryOfMutations,
    /// A target that refuses keys it knows forgets them.
    TargetForgetsKeys,
    /// A tool that looks for a result finds one whether or not there is any.
    RecoveryInvents,
    /// A tool says that it is done and has done nothing.
    DoneWithoutEffect,
    /// A tool reports the result of another call.
    ResultsMixedUp,
}
