//! The Rust client `memcache`, text protocol, against host:port.
#![forbid(unsafe_code)]

use memcache::{Client, MemcacheError};
use std::collections::HashMap;

fn main() -> Result<(), MemcacheError> {
    let server = std::env::args().nth(1).expect("host:port");
    let client = Client::connect(format!("memcache://{server}?protocol=ascii&timeout=10&tcp_nodelay=true"))?;
    client.set("rs-a", "one", 1000)?;
    assert_eq!(client.get::<String>("rs-a")?.as_deref(), Some("one"));
    assert_eq!(client.get::<String>("rs-none")?, None);
    // This client does not tell whether it was stored.
    let _ = client.add("rs-a", "x", 0);
    assert_eq!(client.get::<String>("rs-a")?.as_deref(), Some("one"));
    client.add("rs-b", "x", 0)?;
    client.replace("rs-b", "y", 0)?;
    let _ = client.replace("rs-none", "y", 0);
    assert_eq!(client.get::<String>("rs-none")?, None);
    client.append("rs-b", "z")?;
    client.prepend("rs-b", "x")?;
    assert_eq!(client.get::<String>("rs-b")?.as_deref(), Some("xyz"));
    client.set("rs-n", 10, 0)?;
    assert_eq!(client.increment("rs-n", 5)?, 15);
    assert_eq!(client.decrement("rs-n", 100)?, 0);
    assert!(client.increment("rs-none", 1).is_err());
    let seen: HashMap<String, (Vec<u8>, u32, Option<u64>)> = client.gets(&["rs-a", "rs-b"])?;
    let cas = seen["rs-a"].2.expect("gets tells versions");
    assert!(client.cas("rs-a", "two", 0, cas)?);
    assert!(!client.cas("rs-a", "three", 0, cas)?);
    let keys: Vec<String> = (0..100).map(|n| format!("rs-many{n}")).collect();
    for key in &keys {
        client.set(key, key.as_str(), 0)?;
    }
    let mut asked: Vec<&str> = keys.iter().map(String::as_str).collect();
    asked.push("rs-none");
    let many: HashMap<String, String> = client.gets(&asked)?;
    assert_eq!((many.len(), many["rs-many42"].as_str()), (100, "rs-many42"));
    let thousand: Vec<String> = (0..1000).map(|n| format!("rs-thousand{n}")).collect();
    for key in &thousand {
        client.set(key, &key[3..], 0)?;
    }
    let asked: Vec<&str> = thousand.iter().map(String::as_str).collect();
    let all: HashMap<String, String> = client.gets(&asked)?;
    assert!(thousand.iter().all(|key| all[key] == key[3..]));
    assert!(client.set("rs-limit", &vec![b'z'; (1 << 20) + 1][..], 0).is_err());
    assert_eq!(client.get::<Vec<u8>>("rs-limit")?, None);
    assert!(client.touch("rs-a", 100)?);
    let large = vec![7_u8; 1_000_000];
    client.set("rs-large", &large[..], 0)?;
    assert_eq!(client.get::<Vec<u8>>("rs-large")?, Some(large));
    assert!(client.delete("rs-a")? && !client.delete("rs-a")?);
    assert!(!client.version()?.is_empty());
    client.flush()?;
    assert_eq!(client.get::<String>("rs-b")?, None);
    println!("memcache (Rust): its whole round");
    Ok(())
}
