//! Any bytes as a stored event.

use plica_kernel::canonical::{Domain, Hash, check};
use plica_kernel::decode::{DecodeError, decode, decode_trusted};
use plica_kernel::envelope::{SealError, read_line, write_line};

/// EV-4, EV-8, EV-9: a body that decodes is canonical, and what it decodes to, sealed anew,
/// decodes to the same; a hash that is not the body's is noticed; a line gives back what was
/// put into it.
pub fn event(bytes: &[u8]) {
    let hash = Domain::Event.hash(bytes);
    assert_eq!(decode(bytes, &hash).is_ok(), decode_trusted(bytes).is_ok());
    let forged = Hash::from_bytes([0; 32]);
    assert!(matches!(decode(bytes, &forged), Err(DecodeError::Corrupt { .. })));
    let line = write_line(bytes, &hash);
    let frame = line.strip_suffix(b"\n").expect("a line ends in a line feed");
    assert_eq!(read_line(frame), Some((bytes, hash)));
    if let Some((body, stored)) = read_line(bytes) {
        assert_eq!(write_line(body, &stored), [bytes, b"\n"].concat());
    }

    let Ok(event) = decode_trusted(bytes) else { return };
    assert_eq!(check(bytes), Ok(()), "only canonical bytes decode");
    match event.seal() {
        Ok(sealed) => assert_eq!(decode(&sealed.body, &sealed.hash).as_ref(), Ok(&event)),
        // Members that the bytes left to their defaults take room when they are written.
        Err(SealError::PayloadTooLarge { .. }) => {}
        Err(error) => panic!("what was decoded cannot be written: {error}"),
    }
}
