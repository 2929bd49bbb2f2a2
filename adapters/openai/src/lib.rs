#![doc = include_str!("../README.md")]

mod calls;
mod error;
mod failure;
mod model;
mod overflow;
mod preset;
mod replay;
mod reply;
mod request;
mod retry_after;
mod secret;
mod served;
mod settings;
mod sse;
mod text;
mod transport;
mod usage;

pub use error::OpenAiError;
pub use model::{ChatModel, Environment};
pub use preset::{COMPATIBLE, PRESETS, Preset};
pub use replay::replay;
pub use settings::{HeaderSource, Limits, OPTIONS, Settings, SettingsError, Timeouts};
