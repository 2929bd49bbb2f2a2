//! The blocks that a message is made of: neutral, free of any vendor's shapes (MO-1).

use alloc::{string::String, vec::Vec};

use serde::{Deserialize, Serialize};

use crate::body::{Blob, Body, MEDIA_BLOCKS};
use crate::canonical::{CanonicalError, from_slice, to_vec};

/// One part of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// A call that the model asks for. Its place among the calls of the message is its index
    /// in the `DecisionRecorded` that follows.
    ToolUse {
        /// The arguments, as the JSON text that came (EV-5).
        args: String,
        /// The provider's own id, stored for the wire and used for nothing else.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        /// The tool.
        tool: String,
    },
    /// Thinking that has to go back to the provider as it came.
    Thinking {
        /// The provider's signature over it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
        /// The text.
        text: String,
    },
}

/// The canonical text of a message's blocks, as a body.
///
/// # Errors
/// None in practice: blocks hold text only.
pub fn blocks_body(blocks: &[Block], blobs: &mut Vec<Blob>) -> Result<Body, CanonicalError> {
    let bytes = to_vec(blocks)?;
    let text =
        String::from_utf8(bytes).map_err(|_| CanonicalError::Unrepresentable("blocks that are not UTF-8".into()))?;
    Ok(Body::of(&text, MEDIA_BLOCKS, blobs))
}

/// Reads the text of a message's blocks.
///
/// # Errors
/// When the text is not what [`blocks_body`] writes.
pub fn read_blocks(text: &str) -> Result<Vec<Block>, CanonicalError> {
    from_slice(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn ev_7_blocks_are_one_body_wherever_it_lies() {
        let blocks = [
            Block::Thinking { signature: Some("s".into()), text: "hm".into() },
            Block::Text { text: "x".repeat(2_000) },
            Block::ToolUse { args: "{ }".into(), id: None, tool: "Tool".into() },
        ];
        let mut blobs = vec![];
        let small = blocks_body(&blocks[2..], &mut blobs).unwrap();
        let text = r#"[{"args":"{ }","tool":"Tool","type":"tool_use"}]"#;
        assert_eq!((small.inline(), blobs.len()), (Some(text), 0));
        assert_eq!(read_blocks(text).unwrap(), blocks[2..]);
        let large = blocks_body(&blocks, &mut blobs).unwrap();
        assert_eq!(large.reference(), Some(&blobs[0].reference));
        assert_eq!(blobs[0].reference.media, MEDIA_BLOCKS);
        assert_eq!(read_blocks(core::str::from_utf8(&blobs[0].bytes).unwrap()).unwrap(), blocks);
        assert!(read_blocks("text").is_err());
    }
}
