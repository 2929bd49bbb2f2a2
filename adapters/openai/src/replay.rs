//! A stream read again from a recording.

use plica_ports::{Delta, DeltaSink, ModelError, ModelErrorKind, Reply};

use crate::Limits;
use crate::failure::Asked;
use crate::reply::{End, Incoming};
use crate::secret::Secrets;
use crate::sse::Events;

struct Nobody;

impl DeltaSink for Nobody {
    fn delta(&self, _: Delta) {}
}

/// Reads the body of a streamed reply from the pieces it came in, as a request would: for
/// tests, for fuzzing, and to look into a stream that somebody recorded. How the body is cut
/// into pieces makes no difference.
///
/// # Errors
/// As a request's, but for what happens on the way.
pub fn replay<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<Reply, ModelError> {
    let asked = Asked { host: "the recording".to_owned(), key_variable: None, secrets: Secrets::default() };
    let mut events = Events::new(Limits::default());
    let mut incoming = Incoming::default();
    'body: for piece in pieces {
        let oversize = |oversize| asked.error(ModelErrorKind::Invalid, &format!("holds {oversize}"));
        for data in events.push(piece) {
            incoming.event(&data.map_err(oversize)?, &asked, &Nobody)?;
            if incoming.is_done() {
                break 'body;
            }
        }
    }
    incoming.finish(End { framed: true, replaced: events.replaced(), request_id: None, has_cost: true }, &asked)
}
