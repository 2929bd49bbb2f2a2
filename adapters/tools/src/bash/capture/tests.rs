use super::*;

fn capture(parts: &[&[u8]]) -> Captured {
    let mut capture = Capture::default();
    for part in parts {
        capture.push(part);
    }
    capture.finish()
}

#[test]
fn to_5_output_up_to_the_cap_is_told_whole_and_not_kept_twice() {
    for text in [String::new(), "x".into(), "x".repeat(TEXT_CHARS_MAX), "𝄞".repeat(TEXT_CHARS_MAX), "a\0b".into()] {
        let captured = capture(&[text.as_bytes()]);
        assert_eq!(captured.text, text);
        assert_eq!(captured.whole, None);
    }
}

#[test]
fn to_5_longer_output_is_told_by_its_ends_and_kept_whole() {
    for (unit, count) in [("x", TEXT_CHARS_MAX + 1), ("𝄞", TEXT_CHARS_MAX + 1), ("é", 1 << 20)] {
        let text = format!("first\n{}\nlast", unit.repeat(count));
        let captured = capture(&[&text.as_bytes()[..10], &text.as_bytes()[10..]]);
        assert!(captured.text.starts_with("first\n"));
        assert!(captured.text.contains("bytes are left out here]\n"));
        assert!(captured.text.contains("\nlast\n[the whole output is kept as sha256:"));
        assert!(captured.text.chars().count() < TEXT_CHARS_MAX + 300);
        assert!(!captured.text.contains('\u{fffd}'), "{unit}: no character is cut in two");
        let whole = captured.whole.expect("it was cut");
        assert_eq!((whole.bytes.as_slice(), whole.reference.media.as_str()), (text.as_bytes(), MEDIA_TEXT));
    }
}

#[test]
fn to_5_endless_output_is_bounded_and_says_so() {
    let mut capture = Capture::default();
    let part = vec![b'y'; 1 << 20];
    for _ in 0..(WHOLE_BYTES_MAX >> 20) + 2 {
        capture.push(&part);
    }
    capture.push(b"the end");
    assert!(capture.tail.len() <= END_BYTES);
    let captured = capture.finish();
    assert!(captured.text.contains("the end\n[of 69206023 bytes of output the first 67108864 are kept, as sha256:"));
    assert_eq!(captured.whole.map(|whole| whole.bytes.len()), Some(WHOLE_BYTES_MAX));
}

#[test]
fn ev_6_bytes_that_are_not_utf_8_are_replaced_said_so_and_kept() {
    let captured = capture(&[b"a\xffb"]);
    assert_eq!(captured.text, "a\u{fffd}b\n[bytes that are not UTF-8 are shown as U+FFFD]\n");
    let whole = captured.whole.expect("the text is not the whole");
    assert_eq!((whole.bytes.as_slice(), whole.reference.media.as_str()), (b"a\xffb".as_slice(), MEDIA_BYTES));
}
