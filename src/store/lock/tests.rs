use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::sync::mpsc;

use proptest::prelude::*;

use super::*;

fn place() -> (tempfile::TempDir, std::path::PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("lock");
    (directory, path)
}

fn silent(_: LockEvent) {}

fn take(path: &Path, mode: Mode) -> Lock {
    acquire(path, mode, Sharing::Private, &Interrupt::default(), &silent).unwrap()
}

#[test]
fn one_holder_at_a_time_or_many_that_share() {
    let (_directory, path) = place();
    let held = take(&path, Mode::Exclusive);
    assert!(try_acquire(&path).unwrap().is_none());
    drop(held);
    let shared = [take(&path, Mode::Shared), take(&path, Mode::Shared)];
    assert!(try_acquire(&path).unwrap().is_none());
    let [one, other] = shared;
    drop(one);
    assert!(try_acquire(&path).unwrap().is_none());
    drop(other);
    assert!(try_acquire(&path).unwrap().is_some());
}

#[test]
fn the_file_stays_and_is_the_owners() {
    let (_directory, path) = place();
    drop(take(&path, Mode::Exclusive));
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_group_can_lock_what_its_members_made() {
    let (_directory, path) = place();
    let interrupt = Interrupt::default();
    drop(acquire(&path, Mode::Shared, Sharing::Group, &interrupt, &silent).unwrap());
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o777, 0o660);
}

/// Waits for a lock that the caller holds, and gives what it was told before it was let in.
fn waits(path: &Path, held: Lock, mode: Mode) -> Vec<LockEvent> {
    let (tell, told) = mpsc::channel();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(move || {
            let observe = |event| tell.send(event).unwrap();
            acquire(
                path,
                mode,
                Sharing::Private,
                &Interrupt::default(),
                &observe,
            )
            .map(drop)
        });
        let first = told.recv().unwrap();
        drop(held);
        waiter.join().unwrap().unwrap();
        std::iter::once(first).chain(told.try_iter()).collect()
    })
}

#[test]
fn who_waits_is_told_once_for_whom() {
    let (_directory, path) = place();
    let before = now();
    let held = take(&path, Mode::Exclusive);
    let told = waits(&path, held, Mode::Shared);
    let [LockEvent::Waiting(Some(holder))] = told.as_slice() else {
        panic!("{told:?}");
    };
    assert_eq!(holder.pid, std::process::id());
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert_eq!(holder.host, host.trim());
    assert!((before..=now()).contains(&holder.since));
    let text = holder.to_string();
    assert!(
        text.starts_with(&format!("process {} on ", holder.pid)),
        "{text}"
    );
}

#[test]
fn who_waits_for_nobody_who_signed_is_told_that() {
    for signature in [
        "",
        "pid",
        "pid x\nhost y\nsince 1\n",
        "pid 1\nhost y\nsince",
        "\u{0}\u{0}",
        "pid -1\nhost\nsince 0",
    ] {
        let (_directory, path) = place();
        let held = try_acquire(&path).unwrap().unwrap();
        fs::write(&path, signature).unwrap();
        assert_eq!(
            waits(&path, held, Mode::Exclusive),
            [LockEvent::Waiting(None)],
            "{signature:?}"
        );
    }
}

#[test]
fn an_interrupt_ends_the_wait() {
    let (_directory, path) = place();
    let _held = take(&path, Mode::Exclusive);
    let interrupt = Interrupt::default();
    let events = RefCell::new(0);
    let observe = |_| {
        *events.borrow_mut() += 1;
        interrupt.raise();
    };
    let refused = acquire(
        &path,
        Mode::Exclusive,
        Sharing::Private,
        &interrupt,
        &observe,
    );
    assert!(
        matches!(refused, Err(LockError::Interrupted)),
        "{refused:?}"
    );
    assert_eq!(*events.borrow(), 1);
}

#[test]
fn what_is_no_lock_file_is_refused_by_name() {
    let (directory, path) = place();
    symlink("elsewhere", &path).unwrap();
    let below = directory.path().join("missing/lock");
    for path in [&path, &below, &directory.path().to_owned()] {
        let refused = acquire(
            path,
            Mode::Exclusive,
            Sharing::Private,
            &Interrupt::default(),
            &silent,
        );
        let text = refused.unwrap_err().to_string();
        assert!(
            text.starts_with(&format!("can't lock {}: ", path.display())),
            "{text}"
        );
    }
    assert!(!directory.path().join("elsewhere").exists());
}

proptest! {
    #[test]
    fn no_signature_is_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        let (_directory, path) = place();
        fs::write(&path, bytes).unwrap();
        let mut file = open(&path, Sharing::Private).unwrap();
        let _ = holder(&mut file);
    }

    #[test]
    fn a_signature_can_be_read_back(garbage in "\\PC{0,300}") {
        let (_directory, path) = place();
        fs::write(&path, garbage).unwrap();
        let mut file = open(&path, Sharing::Private).unwrap();
        sign(&mut file).unwrap();
        prop_assert_eq!(holder(&mut file).unwrap().pid, std::process::id());
    }
}
