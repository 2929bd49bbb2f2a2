//! stub

pub mod govern;
