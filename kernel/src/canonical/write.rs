use alloc::{
    borrow::Cow,
    format,
    string::{String, ToString},
    vec::Vec,
};
use core::{cmp::Ordering, fmt};

use serde::ser::{self, Serialize, Serializer};

use super::{CanonicalError, DEPTH_MAX, INTEGER_MAX, scan::plain_len};

/// Writes `value` as canonical bytes.
///
/// # Errors
/// [`CanonicalError::Unrepresentable`] for floats, integers beyond ±(2^53−1), nesting over
/// 32, map keys that are not text, and duplicate names.
pub fn to_vec<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, CanonicalError> {
    to_text(value, 256).map(String::into_bytes)
}

/// [`to_vec`] as text, with room for `size` bytes from the start.
pub(crate) fn to_text<T: Serialize + ?Sized>(value: &T, size: usize) -> Result<String, CanonicalError> {
    let mut writer = Writer { out: String::with_capacity(size), depth: 0, written: false };
    value.serialize(&mut writer)?;
    Ok(writer.out)
}

/// A piece of canonical text that was written before and goes into a larger one as it stands.
/// Nothing outside the kernel can make one, so the writer can trust it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Written<'a>(pub(crate) &'a str);

const WRITTEN: &str = "$plica::canonical::Written";

impl Serialize for Written<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_newtype_struct(WRITTEN, self.0)
    }
}

/// Appends `text` as a canonical JSON string, quotes included.
pub fn write_string(out: &mut String, text: &str) {
    out.push('"');
    write_escaped(out, text);
    out.push('"');
}

fn write_escaped(out: &mut String, text: &str) {
    let mut rest = text;
    loop {
        let plain = plain_len(rest.as_bytes());
        let (before, after) = rest.split_at(plain);
        out.push_str(before);
        let Some(byte) = after.bytes().next() else { return };
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            0x08 => out.push_str("\\b"),
            0x09 => out.push_str("\\t"),
            0x0a => out.push_str("\\n"),
            0x0c => out.push_str("\\f"),
            0x0d => out.push_str("\\r"),
            _ => {
                out.push_str(if byte < 0x10 { "\\u000" } else { "\\u001" });
                out.push(char::from_digit(u32::from(byte & 15), 16).unwrap_or('0'));
            }
        }
        rest = &after[1..];
    }
}

/// Takes formatted text and escapes it as it comes.
struct Escaping<'a>(&'a mut String);

impl fmt::Write for Escaping<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        write_escaped(self.0, text);
        Ok(())
    }
}

/// The length in bytes of `text` as a canonical JSON string, quotes included.
pub fn string_len(text: &str) -> usize {
    text.bytes().fold(2, |sum, byte| {
        sum + match byte {
            b'"' | b'\\' | 0x08 | 0x09 | 0x0a | 0x0c | 0x0d => 2,
            0..0x20 => 6,
            _ => 1,
        }
    })
}

/// Orders two names by UTF-16 code units, as RFC 8785 section 3.2.3 asks.
pub(super) fn name_order(a: &str, b: &str) -> Ordering {
    match a.bytes().zip(b.bytes()).find(|(a, b)| a != b) {
        None => a.len().cmp(&b.len()),
        // UTF-8 and UTF-16 order agree unless a surrogate pair meets U+E000–U+FFFF.
        Some((a, b)) if a < 0xee || b < 0xee => a.cmp(&b),
        Some(_) => a.encode_utf16().cmp(b.encode_utf16()),
    }
}

struct Writer {
    out: String,
    depth: usize,
    /// Whether the next text was [`Written`] before.
    written: bool,
}

impl Writer {
    fn integer(&mut self, value: i64) -> Result<(), CanonicalError> {
        if value < 0 {
            self.out.push('-');
        }
        self.natural(value.unsigned_abs())
    }

    fn natural(&mut self, value: u64) -> Result<(), CanonicalError> {
        if value > INTEGER_MAX.unsigned_abs() {
            return Err(beyond(value));
        }
        let mut digits = [0; 16];
        let mut at = digits.len();
        let mut left = value;
        loop {
            at -= 1;
            digits[at] = b'0' + (left % 10) as u8;
            left /= 10;
            if left == 0 {
                break;
            }
        }
        self.out.push_str(core::str::from_utf8(&digits[at..]).unwrap_or_default());
        Ok(())
    }

    fn open(&mut self, bracket: char) -> Result<(), CanonicalError> {
        if self.depth == DEPTH_MAX {
            return Err(CanonicalError::Unrepresentable("nesting deeper than 32".to_string()));
        }
        self.depth += 1;
        self.out.push(bracket);
        Ok(())
    }

    fn close(&mut self, bracket: char) {
        self.depth -= 1;
        self.out.push(bracket);
    }
}

/// An array in progress.
struct List<'a> {
    writer: &'a mut Writer,
    empty: bool,
}

/// An object in progress: members are written as they come and put in order at the end,
/// which costs nothing when they came in order.
struct Members<'a> {
    writer: &'a mut Writer,
    start: usize,
    sorted: bool,
    last: Option<Cow<'static, str>>,
}

impl<'a> Members<'a> {
    fn new(writer: &'a mut Writer) -> Result<Self, CanonicalError> {
        writer.open('{')?;
        let start = writer.out.len();
        Ok(Self { writer, start, sorted: true, last: None })
    }

    fn name(&mut self, name: Cow<'static, str>) {
        if let Some(last) = &self.last {
            self.writer.out.push(',');
            self.sorted &= name_order(last, &name) == Ordering::Less;
        }
        write_string(&mut self.writer.out, &name);
        self.writer.out.push(':');
        self.last = Some(name);
    }

    fn value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), CanonicalError> {
        value.serialize(&mut *self.writer)
    }

    fn finish(self) -> Result<(), CanonicalError> {
        if !self.sorted {
            let ordered = in_order(&self.writer.out[self.start..])?;
            self.writer.out.truncate(self.start);
            self.writer.out.push_str(&ordered);
        }
        self.writer.close('}');
        Ok(())
    }
}

/// Puts members that were written in another order into theirs.
fn in_order(text: &str) -> Result<String, CanonicalError> {
    let mut members: Vec<(String, &str)> = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (member, after) = first_member(rest);
        members.push((name_of(member)?, member));
        rest = after;
    }
    members.sort_by(|(a, _), (b, _)| name_order(a, b));
    if let Some(pair) = members.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(CanonicalError::Unrepresentable(format!("duplicate name {}", pair[0].0)));
    }
    let mut ordered = String::with_capacity(text.len());
    for (index, (_, member)) in members.iter().enumerate() {
        if index > 0 {
            ordered.push(',');
        }
        ordered.push_str(member);
    }
    Ok(ordered)
}

/// Splits off the first of some members, without the comma after it.
fn first_member(text: &str) -> (&str, &str) {
    let (mut depth, mut quoted, mut escaped) = (0, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            b',' if depth == 0 => return (&text[..at], &text[at + 1..]),
            _ => {}
        }
    }
    (text, "")
}

/// The name of a member that this writer wrote.
fn name_of(member: &str) -> Result<String, CanonicalError> {
    let mut end = 1;
    loop {
        end += plain_len(&member.as_bytes()[end..]);
        match member.as_bytes().get(end) {
            Some(b'\\') => end += 2,
            _ => return super::from_slice(&member.as_bytes()[..=end]),
        }
    }
}

fn beyond(value: impl fmt::Display) -> CanonicalError {
    CanonicalError::Unrepresentable(format!("integer {value} beyond 2^53-1"))
}

/// Writes a variant that carries data as an object of one member.
fn variant_open(writer: &mut Writer, variant: &str) -> Result<(), CanonicalError> {
    writer.open('{')?;
    write_string(&mut writer.out, variant);
    writer.out.push(':');
    Ok(())
}

impl<'a> ser::Serializer for &'a mut Writer {
    type Ok = ();
    type Error = CanonicalError;
    type SerializeSeq = List<'a>;
    type SerializeTuple = List<'a>;
    type SerializeTupleStruct = List<'a>;
    type SerializeTupleVariant = ser::Impossible<(), CanonicalError>;
    type SerializeMap = Members<'a>;
    type SerializeStruct = Members<'a>;
    type SerializeStructVariant = ser::Impossible<(), CanonicalError>;

    fn serialize_bool(self, value: bool) -> Result<(), CanonicalError> {
        self.out.push_str(if value { "true" } else { "false" });
        Ok(())
    }
    fn serialize_i8(self, value: i8) -> Result<(), CanonicalError> {
        self.integer(value.into())
    }
    fn serialize_i16(self, value: i16) -> Result<(), CanonicalError> {
        self.integer(value.into())
    }
    fn serialize_i32(self, value: i32) -> Result<(), CanonicalError> {
        self.integer(value.into())
    }
    fn serialize_i64(self, value: i64) -> Result<(), CanonicalError> {
        self.integer(value)
    }
    fn serialize_i128(self, value: i128) -> Result<(), CanonicalError> {
        self.integer(i64::try_from(value).map_err(|_| beyond(value))?)
    }
    fn serialize_u8(self, value: u8) -> Result<(), CanonicalError> {
        self.natural(value.into())
    }
    fn serialize_u16(self, value: u16) -> Result<(), CanonicalError> {
        self.natural(value.into())
    }
    fn serialize_u32(self, value: u32) -> Result<(), CanonicalError> {
        self.natural(value.into())
    }
    fn serialize_u64(self, value: u64) -> Result<(), CanonicalError> {
        self.natural(value)
    }
    fn serialize_f32(self, _: f32) -> Result<(), CanonicalError> {
        Err(CanonicalError::Unrepresentable("a floating-point number".to_string()))
    }
    fn serialize_f64(self, _: f64) -> Result<(), CanonicalError> {
        Err(CanonicalError::Unrepresentable("a floating-point number".to_string()))
    }
    fn serialize_char(self, value: char) -> Result<(), CanonicalError> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }
    fn serialize_str(self, value: &str) -> Result<(), CanonicalError> {
        if core::mem::take(&mut self.written) {
            self.out.push_str(value);
        } else {
            write_string(&mut self.out, value);
        }
        Ok(())
    }
    fn serialize_bytes(self, _: &[u8]) -> Result<(), CanonicalError> {
        Err(CanonicalError::Unrepresentable("raw bytes".to_string()))
    }
    fn serialize_none(self) -> Result<(), CanonicalError> {
        self.serialize_unit()
    }
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), CanonicalError> {
        value.serialize(self)
    }
    fn serialize_unit(self) -> Result<(), CanonicalError> {
        self.out.push_str("null");
        Ok(())
    }
    fn serialize_unit_struct(self, _: &'static str) -> Result<(), CanonicalError> {
        self.serialize_unit()
    }
    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), CanonicalError> {
        self.serialize_str(variant)
    }
    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<(), CanonicalError> {
        self.written = name == WRITTEN;
        value.serialize(self)
    }
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), CanonicalError> {
        variant_open(self, variant)?;
        value.serialize(&mut *self)?;
        self.close('}');
        Ok(())
    }
    fn serialize_seq(self, _: Option<usize>) -> Result<List<'a>, CanonicalError> {
        self.open('[')?;
        Ok(List { writer: self, empty: true })
    }
    fn serialize_tuple(self, len: usize) -> Result<List<'a>, CanonicalError> {
        self.serialize_seq(Some(len))
    }
    fn serialize_tuple_struct(self, _: &'static str, len: usize) -> Result<List<'a>, CanonicalError> {
        self.serialize_seq(Some(len))
    }
    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, CanonicalError> {
        Err(CanonicalError::Unrepresentable(format!("tuple variant {variant}")))
    }
    fn serialize_map(self, _: Option<usize>) -> Result<Members<'a>, CanonicalError> {
        Members::new(self)
    }
    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Members<'a>, CanonicalError> {
        Members::new(self)
    }
    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, CanonicalError> {
        Err(CanonicalError::Unrepresentable(format!("struct variant {variant}")))
    }
    fn collect_str<T: fmt::Display + ?Sized>(self, value: &T) -> Result<(), CanonicalError> {
        self.out.push('"');
        // Writing to a text fails only when the value's own formatting does.
        let written = fmt::Write::write_fmt(&mut Escaping(&mut self.out), format_args!("{value}"));
        written.map_err(|_| CanonicalError::Unrepresentable("a value that cannot be formatted".to_string()))?;
        self.out.push('"');
        Ok(())
    }
}

impl List<'_> {
    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), CanonicalError> {
        if !core::mem::take(&mut self.empty) {
            self.writer.out.push(',');
        }
        value.serialize(&mut *self.writer)
    }
}

impl ser::SerializeSeq for List<'_> {
    type Ok = ();
    type Error = CanonicalError;
    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), CanonicalError> {
        self.item(value)
    }
    fn end(self) -> Result<(), CanonicalError> {
        self.writer.close(']');
        Ok(())
    }
}

impl ser::SerializeTuple for List<'_> {
    type Ok = ();
    type Error = CanonicalError;
    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), CanonicalError> {
        self.item(value)
    }
    fn end(self) -> Result<(), CanonicalError> {
        self.writer.close(']');
        Ok(())
    }
}

impl ser::SerializeTupleStruct for List<'_> {
    type Ok = ();
    type Error = CanonicalError;
    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), CanonicalError> {
        self.item(value)
    }
    fn end(self) -> Result<(), CanonicalError> {
        self.writer.close(']');
        Ok(())
    }
}

impl ser::SerializeMap for Members<'_> {
    type Ok = ();
    type Error = CanonicalError;
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), CanonicalError> {
        let mut text = Writer { out: String::new(), depth: 0, written: false };
        key.serialize(&mut text)?;
        let name = super::from_slice::<String>(text.out.as_bytes())
            .map_err(|_| CanonicalError::Unrepresentable(format!("map key {} is not text", text.out)))?;
        self.name(name.into());
        Ok(())
    }
    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), CanonicalError> {
        self.value(value)
    }
    fn end(self) -> Result<(), CanonicalError> {
        self.finish()
    }
}

impl ser::SerializeStruct for Members<'_> {
    type Ok = ();
    type Error = CanonicalError;
    fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), CanonicalError> {
        self.name(key.into());
        self.value(value)
    }
    fn end(self) -> Result<(), CanonicalError> {
        self.finish()
    }
}

impl ser::Error for CanonicalError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::Unrepresentable(message.to_string())
    }
}
