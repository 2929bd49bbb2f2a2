//! The model suite on this adapter, against a server that speaks chat completions.

use std::collections::BTreeMap;
use std::sync::Arc;

use plica_conformance::model::chat::Chat;
use plica_conformance::model::{KEY, KEY_VARIABLE, ModelSubject, Setup};
use plica_openai::{ChatModel, Environment, Settings, Timeouts};
use plica_ports::Model;

fn model(setup: &Setup) -> Arc<dyn Model> {
    let options = [("base_url", setup.base_url.as_str()), ("api_key_env", setup.key_variable)];
    let options: BTreeMap<String, String> = options.map(|(name, value)| (name.into(), value.into())).into();
    let mut settings = Settings::of("openai-compatible", &options).expect("the options are sound");
    settings.limits.event_bytes = setup.event_bytes_max;
    let Setup { first_byte, idle, total, .. } = *setup;
    settings.timeouts = Timeouts { first_byte, idle, total, ..settings.timeouts };
    let environment: Environment = Arc::new(|name| (name == KEY_VARIABLE).then(|| KEY.to_owned()));
    Arc::new(ChatModel::new(settings, environment).expect("a client can be made"))
}

async fn subject() -> ModelSubject {
    ModelSubject::new(Chat, model)
}

plica_conformance::model_suite!(subject);
