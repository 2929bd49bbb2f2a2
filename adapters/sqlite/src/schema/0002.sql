-- A body that gets shorter by it is kept as a Zstandard frame (RFC 8878); its hash and size stay
-- those of the plain bytes. This column comes after `bytes` and is read first all the same: the
-- values none and 1 lie in the header of a row.
ALTER TABLE content ADD COLUMN packed INTEGER;  -- 1: `bytes` is a frame; none: they are plain
