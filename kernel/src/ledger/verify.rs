//! Verification.
