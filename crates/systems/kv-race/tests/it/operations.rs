//! Goal: operations do what they say, and refuse what they must.

use crate::bed::{Bed, Fabric};
use drover_base::Condition;
use drover_kv_race::{ItemMeta, RaceError};
use drover_testkit::on_pool_fabrics;

const META: ItemMeta = ItemMeta {
    flags: 7,
    expire_s: 0,
};

on_pool_fabrics! {
    race_increments_add_up
    race_operations_do_what_they_say
    race_a_touch_changes_the_expiry_only
    race_defect_old_block_leaked
}

fn race_operations_do_what_they_say<F: Fabric>(fabric: F) {
    let bed = Bed::new(fabric, 8);
    let process = bed.process();
    bed.run(&process, |cx, race| async move {
        assert!(race.get(&cx, b"fox").await?.is_none());
        assert!(!race.update(&cx, b"fox", b"red", META).await?);
        assert!(!race.delete(&cx, b"fox").await?);
        assert!(race.add(&cx, b"fox", b"red", META).await?);
        assert!(!race.add(&cx, b"fox", b"blue", META).await?);
        let found = race.get(&cx, b"fox").await?.expect("added");
        assert_eq!((found.value(), found.flags), (&b"red"[..], 7));
        let version = found.version;
        race.put(&cx, b"fox", b"", ItemMeta::default()).await?;
        let found = race.get(&cx, b"fox").await?.expect("put");
        assert_eq!((found.value(), found.flags), (&b""[..], 0));
        assert_ne!(found.version, version);
        assert!(race.update(&cx, b"fox", &[9; 15_000], META).await?);
        assert_eq!(
            race.get(&cx, b"fox").await?.expect("updated").value(),
            [9; 15_000]
        );
        let append = |old: &[u8], new: &mut Vec<u8>| new.extend_from_slice(&[&old[..3], b"!"].concat());
        assert!(race.modify(&cx, b"fox", META, append).await?);
        assert_eq!(
            race.get(&cx, b"fox").await?.expect("modified").value(),
            [9, 9, 9, b'!']
        );
        assert!(!race.modify(&cx, b"dog", META, append).await?);
        assert!(race.delete(&cx, b"fox").await?);
        assert!(race.get(&cx, b"fox").await?.is_none());
        for (key, value) in [(&[][..], 1), (&[1; 251], 1), (b"k", (1 << 20) + 1)] {
            let put = race.put(&cx, key, &vec![1; value], META).await;
            assert_eq!(put, Err(RaceError::TooLarge), "{} and {value}", key.len());
        }
        Ok(())
    });
}

/// Who has read the value may still replace it under its version, as with memcached.
fn race_a_touch_changes_the_expiry_only<F: Fabric>(fabric: F) {
    let bed = Bed::new(fabric, 8);
    let process = bed.process();
    bed.run(&process, |cx, race| async move {
        for value in [&[1; 8][..], &[2; 40_000]] {
            race.put(&cx, b"fox", value, META).await?;
            let version = race.get(&cx, b"fox").await?.expect("put").version;
            let expire_s = race.expire_s(&cx, b"fox", 1000);
            assert!(race.touch(&cx, b"fox", expire_s, &mut Vec::new()).await?);
            let found = race.get(&cx, b"fox").await?.expect("touched");
            assert_eq!((found.value(), found.flags), (value, META.flags));
            assert_eq!((found.version, found.expire_s), (version, expire_s));
            let unchanged = Condition::IfVersion(version);
            assert!(race.delete_if(&cx, b"fox", unchanged).await?.is_done());
        }
        Ok(())
    });
}

/// RACE's public code never freed the block that an update replaced.
fn race_defect_old_block_leaked<F: Fabric>(fabric: F) {
    let bed = Bed::new(fabric, 8);
    let process = bed.process();
    // 16 times as much as the node has.
    bed.run(&process, |cx, race| async move {
        let mut waited = 0;
        for round in 0..16 * 256u32 {
            while let Err(error) = race.put(&cx, b"key", &[round as u8; 15_000], META).await {
                // What was freed waits for its epoch.
                assert!(
                    matches!(error, RaceError::Memory(_)) && waited < 20_000,
                    "{error}"
                );
                cx.sleep(drover_base::Ns::from_us(100)).await;
                waited += 1;
            }
        }
        let found = race.get(&cx, b"key").await?.expect("put");
        assert_eq!(found.value(), [255; 15_000]);
        Ok(())
    });
    assert!(process.pool.node(0).chunks_owned() <= 256);
}

/// Tasks of two processes increment two numbers.
fn race_increments_add_up<F: Fabric>(fabric: F) {
    let bed = Bed::new(fabric, 8);
    let processes = [bed.process(), bed.process()];
    bed.run(&processes[0], |cx, race| async move {
        race.put(&cx, &[0], &[0; 8], META).await?;
        race.put(&cx, &[1], &[0; 8], META).await
    });
    let mut outs = Vec::new();
    for process in &processes {
        for _ in 0..4 {
            outs.push(process.spawn(|cx, race| async move {
                for step in 0..50u8 {
                    let increment = |old: &[u8], new: &mut Vec<u8>| {
                        let number = u64::from_le_bytes(old.try_into().expect("8 bytes"));
                        new.extend_from_slice(&(number + 1).to_le_bytes());
                    };
                    let done = race.modify(&cx, &[step % 2], META, increment).await;
                    assert_eq!(done, Ok(true));
                }
            }));
        }
    }
    bed.wait_for(&outs);
    bed.run(&processes[1], |cx, race| async move {
        for key in 0..2 {
            let found = race.get(&cx, &[key]).await?.expect("put before");
            assert_eq!(found.value(), 200u64.to_le_bytes());
        }
        Ok(())
    });
}
