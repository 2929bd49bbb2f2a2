use alloc::{
    borrow::Cow,
    format,
    string::{String, ToString},
    vec::Vec,
};
use core::{cmp::Ordering, fmt};

use serde::ser::{self, Serialize, Serializer};

use super::{CanonicalError, DEPTH_MAX, INTEGER_MAX, buffer::Buffer, scan::plain_len};

/// Writes `value` as canonical bytes.
///
/// # Errors
/// [`CanonicalError::Unrepresentable`] for floats, integers beyond ±(2^53−1), nesting over
/// 32, map keys that are not text, and duplicate names.
pub fn to_vec<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, CanonicalError> {
    to_vec_of(value, ROOM)
}

/// Room for most payloads.
const ROOM: usize = 1024;

/// [`to_vec`] with room for `size` bytes from the start.
pub(crate) fn to_vec_of<T: Serialize + ?Sized>(value: &T, size: usize) -> Result<Vec<u8>, CanonicalError> {
    let mut writer = Writer { out: Buffer::with_room(size), depth: 0, written: false };
    value.serialize(&mut writer)?;
    Ok(writer.out.into_vec())
}

/// A piece of canonical text that was written before and goes into a larger one as it stands.
/// Nothing outside the kernel can make one, so the writer can trust it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Written<'a>(pub(crate) &'a [u8]);

const WRITTEN: &str = "$plica::canonical::Written";

impl Serialize for Written<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Bytes<'a>(&'a [u8]);
        impl Serialize for Bytes<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_bytes(self.0)
            }
        }
        serializer.serialize_newtype_struct(WRITTEN, &Bytes(self.0))
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
    out: Buffer,
    depth: usize,
    /// Whether the next bytes were [`Written`] before.
    written: bool,
}

impl Writer {
    fn integer(&mut self, value: i64) -> Result<(), CanonicalError> {
        if value < 0 {
            self.out.push(b'-');
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
        self.out.extend(&digits[at..]);
        Ok(())
    }

    fn open(&mut self, bracket: u8) -> Result<(), CanonicalError> {
        if self.depth == DEPTH_MAX {
            return Err(CanonicalError::Unrepresentable("nesting deeper than 32".to_string()));
        }
        self.depth += 1;
        self.out.push(bracket);
        Ok(())
    }

    fn close(&mut self, bracket: u8) {
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
        writer.open(b'{')?;
        let start = writer.out.len();
        Ok(Self { writer, start, sorted: true, last: None })
    }

    fn name(&mut self, name: Cow<'static, str>) {
        if let Some(last) = &self.last {
            self.writer.out.push(b',');
            self.sorted &= name_order(last, &name) == Ordering::Less;
        }
        self.writer.out.string(&name);
        self.writer.out.push(b':');
        self.last = Some(name);
    }

    fn value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), CanonicalError> {
        value.serialize(&mut *self.writer)
    }

    fn finish(self) -> Result<(), CanonicalError> {
        if !self.sorted {
            let ordered = in_order(&self.writer.out.as_bytes()[self.start..])?;
            self.writer.out.truncate(self.start);
            self.writer.out.extend(&ordered);
        }
        self.writer.close(b'}');
        Ok(())
    }
}

/// Puts members that were written in another order into theirs.
fn in_order(text: &[u8]) -> Result<Vec<u8>, CanonicalError> {
    let mut members: Vec<(String, &[u8])> = Vec::new();
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
    let mut ordered = Vec::with_capacity(text.len());
    for (index, (_, member)) in members.iter().enumerate() {
        if index > 0 {
            ordered.push(b',');
        }
        ordered.extend_from_slice(member);
    }
    Ok(ordered)
}

/// Splits off the first of some members, without the comma after it.
fn first_member(text: &[u8]) -> (&[u8], &[u8]) {
    let (mut depth, mut quoted, mut escaped) = (0, false, false);
    for (at, byte) in text.iter().enumerate() {
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
    (text, &[])
}

/// The name of a member that this writer wrote.
fn name_of(member: &[u8]) -> Result<String, CanonicalError> {
    let mut end = 1;
    loop {
        end += plain_len(&member[end..]);
        match member.get(end) {
            Some(b'\\') => end += 2,
            _ => return super::from_slice(&member[..=end]),
        }
    }
}

fn beyond(value: impl fmt::Display) -> CanonicalError {
    CanonicalError::Unrepresentable(format!("integer {value} beyond 2^53-1"))
}

/// Writes a variant that carries data as an object of one member.
fn variant_open(writer: &mut Writer, variant: &str) -> Result<(), CanonicalError> {
    writer.open(b'{')?;
    writer.out.string(variant);
    writer.out.push(b':');
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
        self.out.extend(if value { b"true" } else { b"false" });
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
        self.out.string(value);
        Ok(())
    }
    fn serialize_bytes(self, value: &[u8]) -> Result<(), CanonicalError> {
        if !core::mem::take(&mut self.written) {
            return Err(CanonicalError::Unrepresentable("raw bytes".to_string()));
        }
        self.out.extend(value);
        Ok(())
    }
    fn serialize_none(self) -> Result<(), CanonicalError> {
        self.serialize_unit()
    }
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), CanonicalError> {
        value.serialize(self)
    }
    fn serialize_unit(self) -> Result<(), CanonicalError> {
        self.out.extend(b"null");
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
        value.serialize(&mut *self)?;
        self.written = false;
        Ok(())
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
        self.close(b'}');
        Ok(())
    }
    fn serialize_seq(self, _: Option<usize>) -> Result<List<'a>, CanonicalError> {
        self.open(b'[')?;
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
        self.out.push(b'"');
        // Writing to a text fails only when the value's own formatting does.
        let written = fmt::Write::write_fmt(&mut self.out, format_args!("{value}"));
        written.map_err(|_| CanonicalError::Unrepresentable("a value that cannot be formatted".to_string()))?;
        self.out.push(b'"');
        Ok(())
    }
}

impl List<'_> {
    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), CanonicalError> {
        if !core::mem::take(&mut self.empty) {
            self.writer.out.push(b',');
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
        self.writer.close(b']');
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
        self.writer.close(b']');
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
        self.writer.close(b']');
        Ok(())
    }
}

impl ser::SerializeMap for Members<'_> {
    type Ok = ();
    type Error = CanonicalError;
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), CanonicalError> {
        let mut text = Writer { out: Buffer::with_room(64), depth: 0, written: false };
        key.serialize(&mut text)?;
        let name = super::from_slice::<String>(text.out.as_bytes()).map_err(|_| {
            CanonicalError::Unrepresentable(format!(
                "map key {} is not text",
                String::from_utf8_lossy(text.out.as_bytes())
            ))
        })?;
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
