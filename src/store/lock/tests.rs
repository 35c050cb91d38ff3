use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::sync::mpsc;

use proptest::prelude::*;

use super::*;

fn place() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("lock");
    (directory, path)
}

fn take(path: &Path, mode: Mode, sharing: Sharing) -> Result<Lock, LockError> {
    acquire(path, mode, sharing, &Interrupt::default(), &|_| ())
}

fn is_free(path: &Path) -> bool {
    let lock = try_acquire(path, Mode::Exclusive, Sharing::Private).unwrap();
    lock.is_some_and(|lock| lock.is_real())
}

#[test]
fn one_holder_at_a_time_or_many_that_share() {
    let (_directory, path) = place();
    let take = |mode| take(&path, mode, Sharing::Private).unwrap();
    let held = take(Mode::Exclusive);
    assert!(!is_free(&path));
    drop(held);
    let [one, other] = [take(Mode::Shared), take(Mode::Shared)];
    assert!(!is_free(&path));
    drop(one);
    assert!(!is_free(&path));
    drop(other);
    assert!(is_free(&path));
}

#[test]
fn the_file_stays_and_is_its_owners_or_the_groups() {
    for (sharing, mode) in [(Sharing::Private, 0o600), (Sharing::Group, 0o660)] {
        let (_directory, path) = place();
        drop(take(&path, Mode::Exclusive, sharing).unwrap());
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, mode);
    }
}

/// Waits for a lock that the caller holds, and gives what was reported before it was let in.
fn waits(path: &Path, held: Lock, mode: Mode) -> Vec<LockEvent> {
    let (send, reported) = mpsc::channel();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(move || {
            let observe = |event| send.send(event).unwrap();
            let interrupt = Interrupt::default();
            acquire(path, mode, Sharing::Private, &interrupt, &observe).map(drop)
        });
        let first = reported.recv().unwrap();
        drop(held);
        waiter.join().unwrap().unwrap();
        std::iter::once(first).chain(reported.try_iter()).collect()
    })
}

#[test]
fn the_holder_is_reported_once_to_who_waits() {
    let (_directory, path) = place();
    let before = now();
    let held = take(&path, Mode::Exclusive, Sharing::Private).unwrap();
    let reported = waits(&path, held, Mode::Shared);
    let [LockEvent::Waiting(Some(holder))] = reported.as_slice() else {
        panic!("{reported:?}");
    };
    assert_eq!(holder.pid, std::process::id());
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert_eq!(holder.host, host.trim());
    assert!((before..=now()).contains(&holder.since));
    let text = format!("process {} on {} (for ", holder.pid, holder.host);
    assert!(holder.to_string().starts_with(&text), "{holder}");
}

#[test]
fn a_holder_that_did_not_sign_is_nobody() {
    for signature in ["", "{", r#"{"pid":-1}"#, r#"{"pid":1,"host":"y"}"#, "\0\0"] {
        let (_directory, path) = place();
        let held = try_acquire(&path, Mode::Exclusive, Sharing::Private);
        fs::write(&path, signature).unwrap();
        let reported = waits(&path, held.unwrap().unwrap(), Mode::Exclusive);
        assert_eq!(reported, [LockEvent::Waiting(None)], "{signature:?}");
    }
}

#[test]
fn an_interrupt_ends_the_wait() {
    let (_directory, path) = place();
    let _held = take(&path, Mode::Exclusive, Sharing::Private).unwrap();
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
        let refused = take(path, Mode::Exclusive, Sharing::Private);
        let text = refused.unwrap_err().to_string();
        let expected = format!("can't lock {}: ", path.display());
        assert!(text.starts_with(&expected), "{text}");
    }
    assert!(!directory.path().join("elsewhere").exists());
}

proptest! {
    #[test]
    fn a_signature_is_read_back_whatever_was_there(garbage in prop::collection::vec(any::<u8>(), 0..2000)) {
        let (_directory, path) = place();
        fs::write(&path, garbage).unwrap();
        let mut file = open(&path, Sharing::Private).unwrap();
        let _ = holder(&mut file);
        sign(&mut file).unwrap();
        prop_assert_eq!(holder(&mut file).unwrap().pid, std::process::id());
    }
}
