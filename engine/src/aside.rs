//! What plugins return beside their results, on its way into the append that it belongs to
//! (EN-9).

use plica_kernel::canonical::content_hash;
use plica_kernel::decide::{Aside, PluginRecord, Sent};
use plica_kernel::id::{DedupKey, TaskId};
use plica_kernel::wake::Item;
use plica_ports::{Outgoing, Parcel, Record};

/// Records and parcels of a plugin that acts as `actor` in `task`.
pub(crate) fn aside(actor: &str, task: &TaskId, records: Vec<Record>, outgoing: Vec<Outgoing>) -> Aside {
    let records = records.into_iter().map(|Record { plugin, kind, body }| PluginRecord { plugin, kind, body });
    let others = outgoing.into_iter().filter(|parcel| parcel.task != *task);
    Aside { records: records.collect(), sent: others.map(|parcel| sent(actor, parcel)).collect() }
}

/// A parcel as it is delivered. Keys are a plugin's own: none is in the way of what the engine or
/// people deliver.
fn sent(actor: &str, Outgoing { task, parcel, key }: Outgoing) -> Sent {
    let item = match parcel {
        Parcel::Message(text) => Item::Message { text },
        Parcel::Event { data, kind } => Item::Event { data, event: kind },
    };
    let key = format!("{actor}:{key}");
    let dedup = DedupKey::new(key.as_str()).unwrap_or_else(|_| {
        DedupKey::new(content_hash(key.as_bytes()).to_string()).expect("hexadecimal digits are a valid key")
    });
    Sent { task, actor: actor.to_owned(), item, dedup }
}
