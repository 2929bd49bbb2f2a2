use alloc::{borrow::Cow, string::ToString, vec::Vec};
use core::{cmp::Ordering, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeSeed, IntoDeserializer, Visitor},
};

use super::{
    CanonicalError, DEPTH_MAX, INTEGER_MAX,
    scan::{WORD, copy_plain, plain_len},
    write::name_order,
};

/// Decodes canonical bytes, refusing whatever is not canonical anywhere in them, members
/// that `T` does not know included.
///
/// One pass; the memory used is a small multiple of the input (EV-9).
///
/// # Errors
/// [`CanonicalError::Form`] where the text is not canonical, [`CanonicalError::Shape`] where
/// it is but is not a `T`.
pub fn from_slice<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Result<T, CanonicalError> {
    from_slice_with(PhantomData::<T>, bytes)
}

/// [`from_slice`] for a shape that depends on more than a type.
pub(crate) fn from_slice_with<'de, S: DeserializeSeed<'de>>(
    seed: S,
    bytes: &'de [u8],
) -> Result<S::Value, CanonicalError> {
    let text = core::str::from_utf8(bytes)
        .map_err(|error| CanonicalError::Form { offset: error.valid_up_to(), rule: "text is UTF-8" })?;
    let mut parser = Parser { text, at: 0, depth: 0, unescaped: Vec::new() };
    let value = seed.deserialize(&mut parser).map_err(|error| parser.locate(error))?;
    if parser.at < text.len() {
        return Err(parser.form("nothing follows the value"));
    }
    Ok(value)
}

/// Checks that `bytes` are canonical, whatever they hold.
///
/// # Errors
/// [`CanonicalError::Form`] at the first departure.
pub fn check(bytes: &[u8]) -> Result<(), CanonicalError> {
    from_slice::<de::IgnoredAny>(bytes).map(|_| ())
}

/// A piece of canonical text taken as it stands, checked but not decoded.
///
/// Only [`from_slice`] fills it in; other formats refuse it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Raw<'a>(pub &'a str);

const RAW: &str = "$plica::canonical::Raw";

impl<'de: 'a, 'a> Deserialize<'de> for Raw<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RawVisitor;
        impl<'de> Visitor<'de> for RawVisitor {
            type Value = Raw<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("canonical text")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Raw<'de>, E> {
                Ok(Raw(text))
            }
        }
        deserializer.deserialize_newtype_struct(RAW, RawVisitor)
    }
}

struct Parser<'de> {
    text: &'de str,
    at: usize,
    depth: usize,
    /// Where strings with escapes are put together, one after the other.
    unescaped: Vec<u8>,
}

/// A string: as it stands, or put together until the next one is.
enum Text<'de, 'a> {
    Plain(&'de str),
    Unescaped(&'a str),
}

impl<'de> Parser<'de> {
    fn form(&self, rule: &'static str) -> CanonicalError {
        CanonicalError::Form { offset: self.at, rule }
    }

    /// Gives an error that serde made its place.
    fn locate(&self, error: CanonicalError) -> CanonicalError {
        match error {
            CanonicalError::Unrepresentable(message) => CanonicalError::Shape { offset: self.at, message },
            placed => placed,
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn expect(&mut self, byte: u8, rule: &'static str) -> Result<(), CanonicalError> {
        if self.peek() != Some(byte) {
            return Err(self.form(rule));
        }
        self.at += 1;
        Ok(())
    }

    fn word(&mut self, word: &'static str) -> Result<(), CanonicalError> {
        if !self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            return Err(self.form("a value is a string, integer, array, object, true, false or null"));
        }
        self.at += word.len();
        Ok(())
    }

    fn enter(&mut self) -> Result<(), CanonicalError> {
        if self.depth == DEPTH_MAX {
            return Err(self.form("nesting is at most 32"));
        }
        self.depth += 1;
        self.at += 1;
        Ok(())
    }

    fn leave(&mut self, bracket: u8) -> Result<(), CanonicalError> {
        self.expect(bracket, "an array or object is closed")?;
        self.depth -= 1;
        Ok(())
    }

    /// Reads a string; borrowed unless it holds an escape.
    fn string(&mut self) -> Result<Cow<'de, str>, CanonicalError> {
        Ok(match self.text()? {
            Text::Plain(text) => Cow::Borrowed(text),
            Text::Unescaped(text) => Cow::Owned(text.to_string()),
        })
    }

    /// The same, for who may not want to keep it.
    fn text(&mut self) -> Result<Text<'de, '_>, CanonicalError> {
        self.expect(b'"', "a string is expected")?;
        let start = self.at;
        self.plain();
        if self.peek() == Some(b'"') {
            let text = &self.text[start..self.at];
            self.at += 1;
            return Ok(Text::Plain(text));
        }
        let mut len = self.at - start;
        self.unescaped.clear();
        self.unescaped.extend_from_slice(&self.text.as_bytes()[start..self.at]);
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => {
                    let byte = self.escape()?;
                    self.make_room(len);
                    self.unescaped[len] = byte;
                    len += 1;
                }
                _ => return Err(self.form("a string is closed, and control characters are escaped")),
            }
            loop {
                self.make_room(len);
                let (copied, ended) = copy_plain(&self.text.as_bytes()[self.at..], &mut self.unescaped[len..]);
                self.at += copied;
                len += copied;
                if ended {
                    break;
                }
            }
        }
        self.at += 1;
        core::str::from_utf8(&self.unescaped[..len]).map(Text::Unescaped).map_err(|_| self.form("text is UTF-8"))
    }

    /// Makes room for a word more than `len` bytes of a string that is put together.
    fn make_room(&mut self, len: usize) {
        let room = (len + WORD).next_power_of_two();
        self.unescaped.resize(self.unescaped.len().max(room), 0);
    }

    /// Passes over a string without keeping it.
    fn skip_string(&mut self) -> Result<(), CanonicalError> {
        self.expect(b'"', "a string is expected")?;
        loop {
            self.plain();
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => {
                    self.escape()?;
                }
                _ => return Err(self.form("a string is closed, and control characters are escaped")),
            }
        }
    }

    /// Moves to the next quote, backslash or control character.
    fn plain(&mut self) {
        self.at += plain_len(&self.text.as_bytes()[self.at..]);
    }

    /// Reads an escape: all stand for characters of one byte.
    fn escape(&mut self) -> Result<u8, CanonicalError> {
        const RULE: &str = "only quote, backslash and U+0000-U+001F are escaped, in the short form where there is one";
        let rest = &self.text.as_bytes()[self.at + 1..];
        let (value, len) = match rest.first() {
            Some(b'"') => (b'"', 2),
            Some(b'\\') => (b'\\', 2),
            Some(b'b') => (0x08, 2),
            Some(b't') => (b'\t', 2),
            Some(b'n') => (b'\n', 2),
            Some(b'f') => (0x0c, 2),
            Some(b'r') => (b'\r', 2),
            Some(b'u') => {
                let [b'0', b'0', high @ (b'0' | b'1'), low @ (b'0'..=b'9' | b'a'..=b'f')] =
                    *rest.get(1..5).ok_or_else(|| self.form(RULE))?
                else {
                    return Err(self.form(RULE));
                };
                let low = if low <= b'9' { low - b'0' } else { low - b'a' + 10 };
                let code = (high - b'0') * 16 + low;
                if matches!(code, 8 | 9 | 10 | 12 | 13) {
                    return Err(self.form(RULE));
                }
                (code, 6)
            }
            _ => return Err(self.form(RULE)),
        };
        self.at += len;
        Ok(value)
    }

    fn integer(&mut self) -> Result<i64, CanonicalError> {
        const RULE: &str = "a number is an integer within 2^53-1, without leading zero or minus zero";
        let start = self.at;
        let negative = self.peek() == Some(b'-');
        self.at += usize::from(negative);
        let digits = self.at;
        let mut value: i64 = 0;
        while let Some(byte @ b'0'..=b'9') = self.peek() {
            value = value * 10 + i64::from(byte - b'0');
            self.at += 1;
            if value > INTEGER_MAX {
                return Err(CanonicalError::Form { offset: start, rule: RULE });
            }
        }
        let len = self.at - digits;
        let leading_zero = self.text.as_bytes().get(digits) == Some(&b'0') && (len > 1 || negative);
        if len == 0 || leading_zero || matches!(self.peek(), Some(b'.' | b'e' | b'E')) {
            return Err(CanonicalError::Form { offset: start, rule: RULE });
        }
        Ok(if negative { -value } else { value })
    }

    /// Passes over one value, checking it.
    fn skip(&mut self) -> Result<(), CanonicalError> {
        match self.peek() {
            Some(b'"') => self.skip_string(),
            Some(b'[') => {
                self.enter()?;
                if self.peek() != Some(b']') {
                    loop {
                        self.skip()?;
                        if self.peek() != Some(b',') {
                            break;
                        }
                        self.at += 1;
                    }
                }
                self.leave(b']')
            }
            Some(b'{') => {
                self.enter()?;
                let mut last = None;
                while self.peek() != Some(b'}') {
                    self.name(&mut last)?;
                    self.skip()?;
                }
                self.leave(b'}')
            }
            Some(b't') => self.word("true"),
            Some(b'f') => self.word("false"),
            Some(b'n') => self.word("null"),
            _ => self.integer().map(|_| ()),
        }
    }

    /// Reads a member's name and colon, with the comma before any but the first, and checks
    /// that names ascend.
    fn name(&mut self, last: &mut Option<Cow<'de, str>>) -> Result<Cow<'de, str>, CanonicalError> {
        if last.is_some() {
            self.expect(b',', "members are separated by one comma")?;
        }
        let offset = self.at;
        let name = self.string()?;
        if let Some(last) = last {
            match name_order(last, &name) {
                Ordering::Less => {}
                Ordering::Equal => return Err(CanonicalError::Form { offset, rule: "names are unique" }),
                Ordering::Greater => {
                    return Err(CanonicalError::Form { offset, rule: "names are sorted by UTF-16 code units" });
                }
            }
        }
        self.expect(b':', "a name is followed by a colon and no space")?;
        *last = Some(name.clone());
        Ok(name)
    }
}

struct Items<'a, 'de> {
    parser: &'a mut Parser<'de>,
    first: bool,
}

impl<'de> de::SeqAccess<'de> for Items<'_, 'de> {
    type Error = CanonicalError;
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, CanonicalError> {
        if self.parser.peek() == Some(b']') && self.first {
            return Ok(None);
        }
        if !core::mem::take(&mut self.first) {
            if self.parser.peek() != Some(b',') {
                return Ok(None);
            }
            self.parser.at += 1;
        }
        seed.deserialize(&mut *self.parser).map(Some)
    }
}

struct Fields<'a, 'de> {
    parser: &'a mut Parser<'de>,
    last: Option<Cow<'de, str>>,
}

impl<'de> de::MapAccess<'de> for Fields<'_, 'de> {
    type Error = CanonicalError;
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, CanonicalError> {
        if self.parser.peek() == Some(b'}') {
            return Ok(None);
        }
        match self.parser.name(&mut self.last)? {
            Cow::Borrowed(name) => seed.deserialize(de::value::BorrowedStrDeserializer::new(name)),
            Cow::Owned(name) => seed.deserialize(name.into_deserializer()),
        }
        .map(Some)
    }
    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, CanonicalError> {
        seed.deserialize(&mut *self.parser)
    }
}

/// A variant that carries data: an object of one member.
struct Variant<'a, 'de>(&'a mut Parser<'de>);

impl<'de> de::EnumAccess<'de> for Variant<'_, 'de> {
    type Error = CanonicalError;
    type Variant = Self;
    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), CanonicalError> {
        let name = self.0.name(&mut None)?;
        let value = seed.deserialize(name.as_ref().into_deserializer())?;
        Ok((value, self))
    }
}

impl<'de> de::VariantAccess<'de> for Variant<'_, 'de> {
    type Error = CanonicalError;
    fn unit_variant(self) -> Result<(), CanonicalError> {
        Err(de::Error::custom("a variant that holds nothing is written as a text"))
    }
    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, CanonicalError> {
        seed.deserialize(self.0)
    }
    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, CanonicalError> {
        self.0.deserialize_any(visitor)
    }
    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, CanonicalError> {
        self.0.deserialize_any(visitor)
    }
}

impl<'de> Deserializer<'de> for &mut Parser<'de> {
    type Error = CanonicalError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, CanonicalError> {
        match self.peek() {
            Some(b'"') => match self.text()? {
                Text::Plain(text) => visitor.visit_borrowed_str(text),
                Text::Unescaped(text) => visitor.visit_str(text),
            },
            Some(b'[') => {
                self.enter()?;
                let value = visitor.visit_seq(Items { parser: self, first: true })?;
                self.leave(b']')?;
                Ok(value)
            }
            Some(b'{') => {
                self.enter()?;
                let value = visitor.visit_map(Fields { parser: self, last: None })?;
                self.leave(b'}')?;
                Ok(value)
            }
            Some(b't') => {
                self.word("true")?;
                visitor.visit_bool(true)
            }
            Some(b'f') => {
                self.word("false")?;
                visitor.visit_bool(false)
            }
            Some(b'n') => {
                self.word("null")?;
                visitor.visit_unit()
            }
            _ => {
                let value = self.integer()?;
                match u64::try_from(value) {
                    Ok(value) => visitor.visit_u64(value),
                    Err(_) => visitor.visit_i64(value),
                }
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, CanonicalError> {
        if self.peek() == Some(b'n') {
            self.word("null")?;
            return visitor.visit_none();
        }
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, CanonicalError> {
        if name == RAW {
            let start = self.at;
            self.skip()?;
            return visitor.visit_borrowed_str(&self.text[start..self.at]);
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, CanonicalError> {
        if self.peek() == Some(b'{') {
            self.enter()?;
            let value = visitor.visit_enum(Variant(self))?;
            self.leave(b'}')?;
            return Ok(value);
        }
        let text = self.string()?;
        visitor.visit_enum(text.as_ref().into_deserializer())
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, CanonicalError> {
        self.skip()?;
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct seq tuple tuple_struct map struct identifier
    }
}

impl de::Error for CanonicalError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        // Given its offset by `Parser::locate`.
        Self::Unrepresentable(message.to_string())
    }
}
