//! Published vectors, and both ciphers beside each other.

use drover_aes::{Cipher, Cmac, Instructions, Portable};

/// The bytes of hexadecimal digits.
fn bytes(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().as_chunks::<2>().0.iter();
    let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16);
    pairs.map(|pair| byte(pair).expect("digits")).collect()
}

fn block(digits: &str) -> u128 {
    u128::from_le_bytes(bytes(digits).try_into().expect("16 bytes"))
}

/// `[FIPS197, appendices B and C.1]`: key, plain text, cipher text.
const BLOCKS: [[&str; 3]; 2] = [
    [
        "2b7e151628aed2a6abf7158809cf4f3c",
        "3243f6a8885a308d313198a2e0370734",
        "3925841d02dc09fbdc118597196a0b32",
    ],
    [
        "000102030405060708090a0b0c0d0e0f",
        "00112233445566778899aabbccddeeff",
        "69c4e0d86a7b0430d8cdb78070b4c55a",
    ],
];

/// `[RFC4493 §4]`: the key, and a message whose first bytes are those of the examples.
const KEY: &str = "2b7e151628aed2a6abf7158809cf4f3c";
const MESSAGE: &str = "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51\
                       30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710";
/// Bytes of each example's message, and its CMAC.
const MACS: [(usize, &str); 4] = [
    (0, "bb1d6929e95937287fa37d129b756746"),
    (16, "070a16b46b4d4144f79bdd9dd04a287c"),
    (40, "dfa66747de9ae63030ca32611497c827"),
    (64, "51f0bebf7e3b9d92fc49741779363cfe"),
];

fn check_blocks<C: Cipher>(new: impl Fn(u128) -> C) {
    for [key, plain, cipher] in BLOCKS {
        assert_eq!(new(block(key)).encrypt(block(plain)), block(cipher));
    }
}

fn check_macs<C: Cipher>(cipher: C) {
    let (mac, message) = (Cmac::new(cipher), bytes(MESSAGE));
    for (len, want) in MACS {
        assert_eq!(mac.of(&message[..len]), block(want), "{len} bytes");
    }
    let first = u128::from_le_bytes(*message.first_chunk().expect("16 bytes"));
    assert_eq!(mac.of_block(first), block(MACS[1].1));
}

#[test]
fn the_portable_cipher_is_aes() {
    check_blocks(Portable::new);
    check_macs(Portable::new(block(KEY)));
}

#[test]
fn the_instructions_are_aes() {
    if Instructions::new(0).is_none() {
        println!("skipped: this processor has no instructions for AES");
        return;
    }
    check_blocks(|key| Instructions::new(key).expect("there are some"));
    check_macs(Instructions::new(block(KEY)).expect("there are some"));
}

/// CMAC as `[RFC4493 §2.3, §2.4]` writes it down.
fn plain_cmac(cipher: &impl Cipher, message: &[u8]) -> u128 {
    // The standard's numbers begin with their highest byte.
    let double = |key: u128| key << 1 ^ if key >> 127 == 1 { 0x87 } else { 0 };
    let k1 = double(cipher.encrypt(0).swap_bytes());
    let (whole, mut bytes) = (
        message.len().is_multiple_of(16) && !message.is_empty(),
        message.to_vec(),
    );
    if !whole {
        bytes.push(0x80);
        bytes.resize(bytes.len().next_multiple_of(16), 0);
    }
    let subkey = if whole { k1 } else { double(k1) };
    let (last, others) = bytes.as_chunks::<16>().0.split_last().expect("a block at least");
    let state = others.iter().fold(0, |state: u128, block| {
        cipher.encrypt(state ^ u128::from_le_bytes(*block))
    });
    cipher.encrypt(state ^ u128::from_le_bytes(*last) ^ subkey.swap_bytes())
}

#[test]
fn both_ciphers_give_the_standard_s_result_for_every_length() {
    // Successive results are as good as random keys and messages.
    let mut key = 1;
    for len in 0..=if cfg!(miri) { 33 } else { 300 } {
        let portable = Cmac::new(Portable::new(key));
        let message: Vec<u8> = (0..len).map(|i| (portable.of_block(i) >> 64) as u8).collect();
        assert_eq!(
            portable.of(&message),
            plain_cmac(&Portable::new(key), &message),
            "{len} bytes"
        );
        if let Some(instructions) = Instructions::new(key) {
            assert_eq!(
                Cmac::new(instructions).of(&message),
                portable.of(&message),
                "{len} bytes"
            );
        }
        key = portable.of(&message);
    }
}

#[test]
fn debug_output_does_not_contain_the_key() {
    let key = 0x1234_5678_9abc_def0_1122_3344_5566_7788;
    assert_eq!(format!("{:?}", Portable::new(key)), "Portable(Aes128Enc { .. })");
    if let Some(instructions) = Instructions::new(key) {
        assert_eq!(format!("{instructions:?}"), "Instructions { .. }");
    }
}
