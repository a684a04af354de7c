use super::*;

fn apt_text() -> String {
    Profile::named("apt").expect("apt loads").to_toml()
}

#[test]
fn every_profile_loads_and_reads_back() {
    for name in Profile::names() {
        let profile = Profile::named(name).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(profile.name(), name);
        let again = Profile::parse(&profile.to_toml()).expect("what was written can be read");
        assert_eq!(again.parameters(), profile.parameters(), "{name}");
        assert_eq!(again.hash(), profile.hash(), "{name}");
    }
}

#[test]
fn a_key_that_nobody_knows_is_refused() {
    let text = apt_text().replace("\n[pio]\n", "\n[pio]\nspeed_ns = { value = 1 }\n");
    let unknown = ProfileError::Unknown {
        path: "pio.speed_ns".to_string(),
    };
    assert_eq!(Profile::parse(&text).err(), Some(unknown));
    let text = apt_text().replace("line_ns = { ", "line_ns = { colour = \"red\", ");
    assert!(matches!(Profile::parse(&text), Err(ProfileError::Unknown { .. })));
}

#[test]
fn each_missing_key_is_named() {
    for key in KEYS {
        let (_, field) = key.path.split_once('.').unwrap();
        let mut group = String::new();
        let kept = |line: &&str| {
            if line.starts_with('[') {
                group = line.trim_matches(['[', ']']).to_string();
            }
            !(key.path.starts_with(&format!("{group}.")) && line.starts_with(&format!("{field} = ")))
        };
        let text: Vec<&str> = apt_text().leak().lines().filter(kept).collect();
        let missing = ProfileError::missing(key.path);
        assert_eq!(Profile::parse(&text.join("\n")).err(), Some(missing));
    }
}

#[test]
fn another_unit_or_a_value_outside_its_bounds_is_refused() {
    let us = apt_text().replacen("unit = \"ns\"", "unit = \"us\"", 1);
    assert!(matches!(Profile::parse(&us), Err(ProfileError::Malformed { .. })));
    let out = apt_text().replacen("low = ", "low = 1e9, was = ", 1);
    assert!(Profile::parse(&out).is_err());
}

#[test]
fn setting_a_number_changes_the_hash_and_stays_in_bounds() {
    let mut profile = Profile::named("apt").unwrap();
    let before = profile.hash();
    profile.set("pio.line_ns", 0, 1e9).unwrap();
    assert_eq!(
        profile.parameters().pio.line_ns,
        profile.entry("pio.line_ns").unwrap().high
    );
    assert_ne!(profile.hash(), before);
    profile.set("tx.gather_ns", 1, 50.0).unwrap();
    assert_eq!(profile.parameters().tx.gather_ns.points()[1].1, 50.0);
    assert!(profile.set("tx.gather_ns", 99, 50.0).is_err());
    assert!(profile.set("pio.line", 0, 1.0).is_err());
}

#[test]
fn what_a_profile_leaves_out_is_as_in_its_base() {
    let (apt, rfp) = (Profile::named("apt").unwrap(), Profile::named("rfp").unwrap());
    assert!(!rfp.is_own("tx.ack_ns") && rfp.is_own("link.bytes_per_ns"));
    assert_eq!(rfp.parameters().tx, apt.parameters().tx);
    assert!(rfp.parameters().link.bytes_per_ns < apt.parameters().link.bytes_per_ns);
}
