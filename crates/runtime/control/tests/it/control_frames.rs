//! Goal: the frame reader takes any chunking, refuses everything that is not a frame, and bounds its memory.

use drover_control::{
    BODY_BYTES_MAX, DecodeError, FDS_MAX, FrameError, FrameReader, HEADER_BYTES, Header, MAGIC, Reader,
    VERSION, Writer, fuzz_frames,
};
use drover_verbs::Export;
use proptest::prelude::*;
use std::os::fd::OwnedFd;
use std::sync::Arc;

fn encode(kind: u16, body: &[u8]) -> Vec<u8> {
    let header = Header {
        kind,
        body_bytes: body.len(),
        fd_count: 0,
    };
    [&header.encode()[..], body].concat()
}

fn descriptor() -> Arc<OwnedFd> {
    Arc::new(std::fs::File::open("/dev/null").expect("/dev/null").into())
}

/// Everything that comes out of `stream` when it arrives in pieces of the given lengths.
fn read_in(stream: &[u8], pieces: &[usize]) -> Result<Vec<(u16, Vec<u8>)>, FrameError> {
    let mut reader = FrameReader::new();
    let (mut rest, mut out, mut turn) = (stream, Vec::new(), 0);
    while !rest.is_empty() {
        let (piece, later) = rest.split_at(pieces[turn % pieces.len()].clamp(1, rest.len()));
        reader.push(piece, [])?;
        assert!(reader.held_bytes() <= HEADER_BYTES + BODY_BYTES_MAX + piece.len());
        while let Some(frame) = reader.next()? {
            out.push((frame.kind, frame.body));
        }
        (rest, turn) = (later, turn + 1);
    }
    Ok(out)
}

/// What a careless reader does: takes for granted that a chunk holds whole frames.
fn read_whole_chunks(stream: &[u8], piece: usize) -> Vec<(u16, Vec<u8>)> {
    let mut out = Vec::new();
    for chunk in stream.chunks(piece) {
        let mut reader = FrameReader::new();
        let _ = reader.push(chunk, []);
        while let Ok(Some(frame)) = reader.next() {
            out.push((frame.kind, frame.body));
        }
    }
    out
}

#[test]
fn a_reader_that_expects_whole_frames_is_caught() {
    let stream = [encode(20, b"one"), encode(21, b"two")].concat();
    let want = vec![(20, b"one".to_vec()), (21, b"two".to_vec())];
    assert_eq!(read_whole_chunks(&stream, stream.len()), want);
    let caught = (1..stream.len()).filter(|&piece| read_whole_chunks(&stream, piece) != want);
    assert!(caught.count() > 30);
    assert!((1..stream.len()).all(|piece| read_in(&stream, &[piece]).as_ref() == Ok(&want)));
}

proptest! {
    #[test]
    fn any_chunking_gives_the_same_frames(
        frames in prop::collection::vec((any::<u16>(), prop::collection::vec(any::<u8>(), 0..600)), 0..8),
        pieces in prop::collection::vec(1usize..700, 1..20),
    ) {
        let stream: Vec<u8> = frames.iter().flat_map(|(kind, body)| encode(*kind, body)).collect();
        prop_assert_eq!(read_in(&stream, &pieces), Ok(frames.clone()));
        prop_assert_eq!(read_in(&stream, &[1]), Ok(frames));
    }

    #[test]
    fn random_bytes_are_refused_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        fuzz_frames(&bytes);
        let _ = read_in(&bytes, &[7]);
    }

    /// A frame with one byte changed is still a frame, or an error, and never takes more than it brought.
    #[test]
    fn damaged_headers_are_refused_or_harmless(at in 0usize..HEADER_BYTES, with in any::<u8>(), kind in any::<u16>()) {
        let mut stream = encode(kind, b"twelve bytes");
        stream[at] = with;
        let kinds = 6..8;
        match read_in(&stream, &[stream.len()]) {
            Ok(frames) if frames.len() == 1 && frames[0].1 == b"twelve bytes" => {
                prop_assert!(kinds.contains(&at) || stream == encode(kind, b"twelve bytes"));
            }
            Ok(_) => prop_assert!((8..12).contains(&at), "byte {} = {}", at, with),
            Err(_) => prop_assert!(!kinds.contains(&at)),
        }
    }

    #[test]
    fn fields_come_back(a in any::<u8>(), b in any::<u16>(), c in any::<u32>(), d in any::<u64>(), e in any::<bool>(),
                        text in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut writer = Writer::new();
        writer.u8(a).u16(b).u32(c).u64(d).bool(e).bytes(&text).raw(b"end");
        let (body, fds) = writer.finish().expect("small");
        let mut reader = Reader::new(&body, &fds);
        prop_assert_eq!((reader.u8(), reader.u16(), reader.u32(), reader.u64()), (Ok(a), Ok(b), Ok(c), Ok(d)));
        prop_assert_eq!((reader.bool("e"), reader.bytes("text", 300)), (Ok(e), Ok(&text[..])));
        prop_assert_eq!((reader.raw(3), reader.finish()), (Ok(&b"end"[..]), Ok(())));
        // Every prefix ends inside a field, and says so.
        for len in 0..body.len() {
            prop_assert!(read_all(&body[..len]).is_err());
        }
    }
}

fn read_all(body: &[u8]) -> Result<(), drover_control::DecodeError> {
    let mut reader = Reader::new(body, &[]);
    reader.u8()?;
    reader.u16()?;
    reader.u32()?;
    reader.u64()?;
    reader.bool("e")?;
    reader.bytes("text", 300)?;
    reader.raw(3)?;
    reader.finish()
}

#[test]
fn each_broken_header_has_its_own_error() {
    let good = encode(20, b"");
    let broken = |at: usize, bytes: &[u8]| {
        let mut stream = good.clone();
        stream[at..at + bytes.len()].copy_from_slice(bytes);
        read_in(&stream, &[1]).expect_err("accepted")
    };
    assert_eq!(
        broken(0, b"HTTP"),
        FrameError::Magic {
            found: u32::from_le_bytes(*b"HTTP")
        }
    );
    assert_eq!(broken(4, &[9, 0]), FrameError::Version { theirs: 9 });
    let long = (BODY_BYTES_MAX as u32 + 1).to_le_bytes();
    assert_eq!(
        broken(8, &long),
        FrameError::TooLong {
            bytes: BODY_BYTES_MAX + 1
        }
    );
    assert_eq!(
        broken(8, &[255; 4]),
        FrameError::TooLong {
            bytes: u32::MAX as usize
        }
    );
    assert_eq!(broken(12, &[FDS_MAX as u8 + 1, 0]), FrameError::TooManyFds);
    assert_eq!(
        broken(12, &[1, 0]),
        FrameError::MissingFds {
            announced: 1,
            arrived: 0
        }
    );
    assert_eq!(broken(14, &[1, 0]), FrameError::Reserved);
    assert_eq!(&MAGIC.to_le_bytes(), b"DRVC");
    assert_eq!(VERSION, 1);
}

#[test]
fn a_stranger_is_refused_after_four_bytes() {
    let mut reader = FrameReader::new();
    reader.push(b"GET ", []).expect("few bytes");
    assert!(matches!(reader.next(), Err(FrameError::Magic { .. })));
}

#[test]
fn descriptors_go_with_their_frame_and_surplus_is_closed() {
    let announce = |fd_count| {
        Header {
            kind: 30,
            body_bytes: 1,
            fd_count,
        }
        .encode()
    };
    let fds: Vec<_> = (0..3).map(|_| descriptor()).collect();
    let mut reader = FrameReader::new();
    reader.push(&encode(29, b"none"), []).expect("push");
    assert_eq!(reader.next().expect("frame").expect("whole").fds.len(), 0);
    // Two announced, three sent, and the frame in two pieces.
    reader.push(&announce(2), fds.clone()).expect("push");
    assert!(reader.next().expect("no error").is_none());
    assert_eq!(reader.held_fds(), 2);
    assert_eq!(Arc::strong_count(&fds[2]), 1, "the third was closed");
    reader.push(b"x", []).expect("push");
    let frame = reader.next().expect("frame").expect("whole");
    assert!(Arc::ptr_eq(&frame.fds[0], &fds[0]) && Arc::ptr_eq(&frame.fds[1], &fds[1]));
    // Descriptors that belong to no frame at all.
    reader.push(&encode(31, b""), fds.clone()).expect("push");
    assert_eq!(reader.next().expect("frame").expect("whole").fds.len(), 0);
    assert!(reader.next().expect("no error").is_none());
    assert_eq!(reader.held_fds(), 0);
}

#[test]
fn a_flood_of_descriptors_is_an_error() {
    let fd = descriptor();
    let mut reader = FrameReader::new();
    let flood = std::iter::repeat_n(fd.clone(), FDS_MAX + 1);
    assert_eq!(reader.push(&[], flood), Err(FrameError::TooManyFds));
    assert_eq!(Arc::strong_count(&fd), 1);
}

#[test]
fn exports_share_descriptors_and_bad_indices_are_refused() {
    let fd = descriptor();
    let export = Export {
        bytes: vec![1, 2, 3],
        fds: vec![fd.clone(), descriptor(), fd.clone()],
    };
    let mut writer = Writer::new();
    writer.export(&export).export(&export);
    let (body, fds) = writer.finish().expect("fits");
    assert_eq!(fds.len(), 2, "the shared ones travel once");
    let mut reader = Reader::new(&body, &fds);
    for _ in 0..2 {
        let back = reader.export().expect("export");
        assert_eq!(back.bytes, export.bytes);
        assert!(back.fds.iter().zip(&export.fds).all(|(a, b)| Arc::ptr_eq(a, b)));
    }
    assert!(
        Reader::new(&body, &fds[..1]).export().is_err(),
        "an index outside"
    );
    let mut writer = Writer::new();
    writer.bytes(&vec![0; Export::BYTES_MAX + 1]).u8(0);
    let (body, _) = writer.finish().expect("fits a frame");
    assert!(
        Reader::new(&body, &[]).export().is_err(),
        "an export over its limit"
    );
}

#[test]
fn fuzzing_entry_counts_frames() {
    let mut input = vec![3];
    input.extend(encode(20, b"one"));
    input.extend(encode(21, b""));
    assert_eq!(fuzz_frames(&input), 2);
    input.extend(b"junk that is no frame");
    assert_eq!(fuzz_frames(&input), 2);
}

/// Every descriptor must be referred to, not only the last one.
#[test]
fn descriptors_that_no_field_refers_to_are_counted() {
    let fds: Vec<_> = (0..3).map(|_| descriptor()).collect();
    let read = |used: &[usize]| {
        let mut body = Writer::new();
        body.bytes(b"").u8(used.len() as u8);
        used.iter().for_each(|index| _ = body.u8(*index as u8));
        let (body, _) = body.into_parts();
        let mut reader = Reader::new(&body, &fds);
        reader.export().expect("an export");
        reader.finish()
    };
    assert_eq!(read(&[2, 0, 1]), Ok(()));
    assert_eq!(read(&[2]), Err(DecodeError::SurplusFds { count: 2 }));
    assert_eq!(read(&[0, 2, 2]), Err(DecodeError::SurplusFds { count: 1 }));
}
