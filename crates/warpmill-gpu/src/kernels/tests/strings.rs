//! `strings.cuh` and the counting functions of `text.cuh`, compared with the standard library: strings of every short length and alignment, between
//! other strings, the last one at the end of its allocation.

use std::sync::Arc;

use crate::device::kernel::{Kernel, ParamBytes};
use crate::device::sim::{SimDevice, SimOptions};
use crate::device::{Device, DevicePtr, Stream};
use crate::kernels::library::Library;

/// A thread per pair of string and needle; `RESULTS` words of results each.
const CHECK: &str = r#"
struct Check {
    const u8* bytes;
    const u32* strings;     // where each begins and how long it is
    const u8* needle_bytes;
    const u32* needles;
    u32* out;
    u32 string_count;
    u32 needle_count;
};

__device__ u64 find_by_span(Str s, Str part, u32 from) {
    if (part.len == 0) return from;
    const u32 span = needle_span(part.len);
    if (span == 3) {
        u32 word = 0;
        for (u32 i = 4; i-- > 0;) word = word << 8 | part.data[i];
        return find(s, from, Needle{part, word, 0}, 3);
    }
    const Needle needle = {part, part.data[0] * 0x01010101u, part.data[span] * 0x01010101u};
    switch (span) {
        case 0: return find(s, from, needle, 0);
        case 1: return find(s, from, needle, 1);
        default: return find(s, from, needle, 2);
    }
}

extern "C" __global__ void check_strings(Check p) {
    const u32 pair = blockIdx.x * blockDim.x + threadIdx.x;
    if (pair >= p.string_count * p.needle_count) return;
    const u32 *string = p.strings + 2 * (pair / p.needle_count), *needle = p.needles + 2 * (pair % p.needle_count);
    const Str s = {p.bytes + string[0], string[1]}, part = {p.needle_bytes + needle[0], needle[1]};
    u32* out = p.out + (u64)6 * pair;
    out[0] = (u32)find(s, part, 0);
    out[1] = (u32)find_by_span(s, part, s.len / 3);
    out[2] = same(s, part) | less(s, part) << 1 | less(part, s) << 2 | starts_with(s, part) << 3 | ends_with(s, part) << 4 |
             is_ascii(s) << 5 | contains(s, part) << 6;
    out[3] = char_count(s);
    out[4] = char_start(s, 0, s.len / 2);
    out[5] = position(s, part);
}
"#;
const RESULTS: usize = 6;

/// Characters of the strings: partial matches overlap often, and some characters have several bytes.
const LETTERS: [&str; 8] = ["a", "a", "a", "b", "a", "b", "é", "\0"];

fn letters(seed: usize) -> impl Iterator<Item = &'static str> {
    let mut state = seed as u32 ^ 0x9E37_79B9;
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        LETTERS[state as usize >> 20 & 7]
    })
}

/// `len` bytes of text.
fn text(len: usize, seed: usize) -> String {
    let mut text = String::new();
    for letter in letters(seed) {
        if text.len() + letter.len() <= len {
            text.push_str(letter);
        }
        if text.len() == len {
            break;
        }
    }
    text
}

fn needles() -> Vec<String> {
    let mut needles: Vec<String> =
        ["", "a", "b", "\0", "é", "ab", "aab", "aaab", "bab", "aaaab", "aéab", "aaaaab", "\0a", "zzzzz", "a\0aaa"]
            .map(String::from)
            .to_vec();
    needles.extend([7, 8, 9, 15, 16, 17, 31].map(|len| format!("{}b", "a".repeat(len))));
    needles
}

/// Strings of lengths 0 to 40 at 16 alignments; those with an odd seed hold a needle somewhere.
fn strings(needles: &[String]) -> Vec<String> {
    let mut strings = vec![];
    for len in 0..=40 {
        for copy in 0..16 {
            let needle = &needles[(3 * len + 5 * copy) % needles.len()];
            strings.push(match len.checked_sub(needle.len()) {
                Some(rest) if copy % 2 == 1 => {
                    let before = (7 * copy + len) % (rest + 1);
                    format!("{}{needle}{}", text(before, len), text(rest - before, copy))
                }
                _ => text(len, 16 * len + copy),
            });
        }
    }
    strings
}

struct Fixture {
    device: Arc<dyn Device>,
    stream: Stream,
}

impl Fixture {
    fn upload(&self, bytes: &[u8]) -> DevicePtr {
        let ptr = self.device.allocate(bytes.len().next_multiple_of(16) as u64).unwrap();
        // SAFETY: just allocated.
        unsafe { self.device.copy_to_device(ptr, bytes, self.stream).unwrap() };
        ptr
    }

    fn upload_words(&self, words: &[u32]) -> DevicePtr {
        self.upload(&words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>())
    }

    /// Concatenates the strings up to the end of an allocation; returns it, and the array of their places.
    fn pack(&self, strings: &[String]) -> (DevicePtr, DevicePtr) {
        let total: usize = strings.iter().map(String::len).sum();
        let mut bytes = vec![b'a'; total.next_multiple_of(16) - total];
        let mut places = vec![];
        for string in strings {
            places.extend([bytes.len() as u32, string.len() as u32]);
            bytes.extend_from_slice(string.as_bytes());
        }
        (self.upload(&bytes), self.upload_words(&places))
    }
}

/// The expected result of the kernel.
fn expected(s: &str, part: &str) -> [u32; RESULTS] {
    let found = |from: usize| {
        let (s, part) = (s.as_bytes(), part.as_bytes());
        let at = (from..=s.len()).find(|&at| s[at..].starts_with(part));
        at.unwrap_or(s.len() + 1) as u32
    };
    let flags = [
        s == part,
        s.as_bytes() < part.as_bytes(),
        part.as_bytes() < s.as_bytes(),
        s.starts_with(part),
        s.ends_with(part),
        s.is_ascii(),
        s.contains(part),
    ];
    let flags = flags.iter().enumerate().fold(0, |flags, (bit, &flag)| flags | u32::from(flag) << bit);
    let middle = s.char_indices().nth(s.len() / 2).map_or(s.len(), |(at, _)| at);
    let position = s.find(part).map_or(0, |at| s[..at].chars().count() + 1);
    [found(0), found(s.len() / 3), flags, s.chars().count() as u32, middle as u32, position as u32]
}

#[test]
fn strings_agree_at_every_length_and_alignment() {
    let sanitize = std::env::var_os("WARPMILL_SIM_SANITIZE").is_some();
    let options = SimOptions { sanitize, ..SimOptions::default() };
    let device: Arc<dyn Device> = Arc::new(SimDevice::new(options).expect("a C++ compiler"));
    let stream = device.stream().unwrap();
    let fixture = Fixture { device, stream };
    let libraries = [Library::Value, Library::Compare, Library::Strings, Library::Text].map(Library::text).concat();
    let text = libraries + CHECK;
    let [kernel] = Kernel::compile(&fixture.device, text, [("check_strings", 64, 0)]).unwrap();
    let needles = needles();
    let strings = strings(&needles);
    let pairs = strings.len() * needles.len();
    let (bytes, places) = fixture.pack(&strings);
    let (needle_bytes, needle_places) = fixture.pack(&needles);
    let out = fixture.upload_words(&vec![0; RESULTS * pairs]);
    let params = ParamBytes::new().u64(bytes).u64(places).u64(needle_bytes).u64(needle_places).u64(out);
    let params = params.u32(strings.len() as u32).u32(needles.len() as u32);
    // SAFETY: the parameter is the kernel's, with buffers for all strings, needles and results.
    unsafe { kernel.launch_items(pairs as u64, params, stream).unwrap() };
    let mut results = vec![0; 4 * RESULTS * pairs];
    // SAFETY: the buffer has this size; the copy ends before the bytes are used.
    unsafe { fixture.device.copy_to_host(&mut results, out, stream).unwrap() };
    fixture.device.synchronize(stream).unwrap();
    let results: Vec<u32> = results.as_chunks().0.iter().map(|&word| u32::from_le_bytes(word)).collect();
    let all_pairs = strings.iter().flat_map(|s| needles.iter().map(move |part| (s, part)));
    for ((s, part), got) in all_pairs.zip(results.as_chunks::<RESULTS>().0) {
        assert_eq!(*got, expected(s, part), "{s:?}, {part:?}");
    }
}
