//! What a server says that it serves: for people who look for a model's name, never for a run.

use std::time::Duration;

use plica_ports::{ModelError, ModelErrorKind};
use serde::Deserialize;
use tokio::time::timeout;

use crate::ChatModel;

/// Bytes of a list of models that are read; those with thousands of models take half of it.
const LIST_BYTES_MAX: usize = 4 << 20;

/// `GET /models`, as far as it is of interest.
#[derive(Deserialize)]
struct List {
    data: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    id: String,
}

impl ChatModel {
    /// The names of the models that the server offers, in its order. Asks it, with the key if
    /// the settings name one, and costs nothing.
    ///
    /// # Errors
    /// As [`plica_ports::Model::ask`]: what the server or the way to it said.
    pub async fn served(&self, patience: Duration) -> Result<Vec<String>, ModelError> {
        let (headers, asked) = self.prepare()?;
        let read = async {
            let sent = self.client.get(self.settings.models_url()).headers(headers).send();
            let mut response = sent.await.map_err(|error| asked.transport(&error, patience))?;
            let (status, headers) = (response.status(), response.headers().clone());
            let mut body = Vec::new();
            while let Some(bytes) = response.chunk().await.map_err(|error| asked.transport(&error, patience))? {
                body.extend_from_slice(&bytes);
                if body.len() > LIST_BYTES_MAX {
                    return Err(asked.error(ModelErrorKind::Invalid, "sent a list of models without an end"));
                }
            }
            if !status.is_success() {
                return Err(asked.status(status, &headers, &body));
            }
            let list: List = serde_json::from_slice(&body)
                .map_err(|_| asked.error(ModelErrorKind::Invalid, "answered with no list of models"))?;
            Ok(list.data.into_iter().map(|entry| entry.id).collect())
        };
        timeout(patience, read).await.unwrap_or_else(|_| Err(asked.timeout("did not list its models", patience)))
    }
}
