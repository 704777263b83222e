//! Silences the panics of the attempts to shrink an input: there may be thousands, each with its backtrace.

use std::cell::{Cell, RefCell};
use std::panic;
use std::sync::Once;

thread_local! {
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
    /// The place of this thread's last silenced panic, as " at FILE:LINE:COLUMN".
    static LAST: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Wraps the process's panic hook, once: panics of quiet threads are not printed.
fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |panic| match IS_QUIET.get() {
            true => {
                let place = panic.location().map(|place| format!(" at {place}"));
                LAST.set(place.unwrap_or_default());
            }
            false => print(panic),
        }));
    });
}

/// Calls `run`, which catches its own panics; returns its result and the place of its last panic, if that was silenced.
pub(crate) fn panics<T>(quietly: bool, run: impl FnOnce() -> T) -> (T, String) {
    install();
    LAST.take();
    IS_QUIET.set(quietly);
    let result = run();
    IS_QUIET.set(false);
    (result, LAST.take())
}
