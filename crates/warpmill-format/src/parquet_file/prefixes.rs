//! The size of prefix-encoded strings (DELTA_BYTE_ARRAY), of which each stores only the part that it does not share with the one before. Page headers
//! contain no useful bound, and footers written by PyArrow 26 a wrong one: the lengths are summed.

/// Total bytes of the strings of a page, at most `most` strings; `values` excludes levels. `None` if the page is not valid.
pub(super) fn made_bytes(values: &[u8], most: u64) -> Option<u64> {
    let mut prefixes = vec![];
    let read = differences(values, most, |prefix| {
        prefixes.push(prefix);
        Some(())
    })?;
    let (mut own, mut stored, mut all) = (prefixes.iter(), 0u64, 0u64);
    let mut before = 0;
    let rest = &values[read..];
    let read = differences(rest, most, |suffix| {
        // Shared with the string before it, whose bytes are in this page.
        let prefix = *own.next().filter(|prefix| **prefix <= before)?;
        stored = stored.checked_add(suffix).filter(|stored| *stored <= rest.len() as u64)?;
        before = prefix + suffix;
        all = all.checked_add(before)?;
        Some(())
    })?;
    (own.next().is_none() && stored <= (rest.len() - read) as u64).then_some(all)
}

/// Passes integers stored as differences (DELTA_BINARY_PACKED), at most `most`, all non-negative, to `each`, which may stop early. Returns the number
/// of bytes that they take.
fn differences(data: &[u8], most: u64, mut each: impl FnMut(u64) -> Option<()>) -> Option<usize> {
    let mut at = 0;
    let (block, miniblocks) = (varint(data, &mut at)?, varint(data, &mut at)?);
    let (count, mut value) = (varint(data, &mut at)?, zigzag(varint(data, &mut at)?));
    if miniblocks == 0 || block > 1 << 24 || block % miniblocks != 0 || count > most {
        return None;
    }
    let length = block / miniblocks;
    if length == 0 || length % 32 != 0 {
        return None;
    }
    if count > 0 {
        each(u64::try_from(value).ok()?)?;
    }
    let mut done = 1;
    while done < count {
        let least = zigzag(varint(data, &mut at)?);
        let widths = data.get(at..at.checked_add(usize::try_from(miniblocks).ok()?)?)?;
        at += widths.len();
        for &bits in widths {
            if done >= count {
                break;
            }
            let here = length.min(count - done);
            if bits > 64 || (here * u64::from(bits)).div_ceil(8) > (data.len() - at) as u64 {
                return None;
            }
            for i in 0..here {
                let difference = bits_at(&data[at..], i * u64::from(bits), bits.into());
                value = value.wrapping_add(least).wrapping_add(difference as i64);
                each(u64::try_from(value).ok()?)?;
            }
            at = data.len().min(at + (length * u64::from(bits) / 8) as usize);
            done += here;
        }
    }
    Some(at)
}

/// `width` bits (at most 64) from bit `first` on; bits past the end are 0.
fn bits_at(data: &[u8], first: u64, width: u32) -> u64 {
    if width == 0 {
        return 0;
    }
    let (at, skew) = ((first / 8) as usize, (first % 8) as u32);
    let mut word = [0; 16];
    let found = &data[at.min(data.len())..data.len().min(at + 9)];
    word[..found.len()].copy_from_slice(found);
    (u128::from_le_bytes(word) >> skew) as u64 & (u64::MAX >> (64 - width))
}

fn varint(data: &[u8], at: &mut usize) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = *data.get(*at)?;
        *at += 1;
        number |= u64::from(byte & 127) << shift;
        if byte < 128 {
            return Some(number);
        }
    }
    None
}

fn zigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}
