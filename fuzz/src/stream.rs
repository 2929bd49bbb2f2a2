//! Any bytes as the body of a model's streamed reply.

use plica_kernel::limits::CONTENT_BYTES_MAX;
use plica_kernel::message::{Block, blocks_body};
use plica_openai::replay;

/// MO-1, MO-3, EV-6, RC-10: it is a reply or a typed error, the same however the bytes are cut
/// into pieces; a reply can be recorded, and holds no more than came.
pub fn stream(bytes: &[u8]) {
    let whole = replay([bytes]);
    let (first, rest) = bytes.split_at(bytes.len() / 3);
    assert_eq!(replay([first, rest]), whole, "cut in two");
    assert_eq!(replay(bytes.chunks(1)), whole, "cut everywhere");
    let Ok(reply) = whole else { return };
    let size: usize = reply.blocks.iter().map(size).sum();
    // U+FFFD takes three bytes in the place of one.
    assert!(size <= 3 * bytes.len() + 2 * reply.blocks.len(), "{size} bytes of {}", bytes.len());
    assert!(reply.extra.as_ref().is_none_or(|extra| extra.len() <= CONTENT_BYTES_MAX));
    assert!(reply.usage.reasoning <= reply.usage.output);
    let mut blobs = Vec::new();
    assert!(blocks_body(&reply.blocks, &mut blobs).is_ok(), "a reply can be recorded");
}

fn size(block: &Block) -> usize {
    match block {
        Block::Text { text } | Block::Thinking { text, .. } => text.len(),
        Block::ToolUse { args, id, tool } => args.len() + id.as_ref().map_or(0, String::len) + tool.len(),
    }
}
