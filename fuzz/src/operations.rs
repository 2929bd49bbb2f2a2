//! Any bytes as a sequence of operations on the strictest store, against a model of it that
//! knows little more than who may write.

mod model;

use std::time::Duration;

use plica_ports::store::Worker;

use model::Model;

/// Operations that are looked at.
const OPERATIONS_MAX: usize = 512;

/// ST-1 to ST-8: whatever is done to a store in whatever order, the verdicts are those of the
/// model, logs only grow, epochs never go back and have one holder, and every item is taken at
/// most once.
pub fn operations(bytes: &[u8]) {
    let mut model = Model::new();
    for pair in bytes.chunks_exact(2).take(OPERATIONS_MAX) {
        let [operation, choice] = [pair[0], pair[1]];
        step(&mut model, operation, usize::from(choice));
        model.check();
    }
    model.check_whole();
}

/// One operation; what it does and to whom is the input's choice.
fn step(model: &mut Model, operation: u8, choice: usize) {
    match operation % 16 {
        0 => model.create(choice),
        1 | 2 => model.claim(choice, None),
        3 => model.claim(choice, Some(choice / 4)),
        4 | 5 => model.note(choice),
        6 => model.suspend(choice),
        7 => model.wake(choice),
        8 => model.complete(choice),
        9 | 10 => model.deliver(choice),
        11 => model.take_item(choice),
        12 => model.release(choice),
        13 => model.renew(choice),
        14 => model.adopt(choice),
        _ => model.advance(Duration::from_millis(1 << (choice % 16))),
    }
}

/// The workers there are.
fn worker(choice: usize) -> Worker {
    let name = ["ada", "bob"][choice % 2];
    Worker {
        id: name.parse().expect("a name is an id"),
        instance: format!("{name}-instance").parse().expect("a name is an id"),
        host: "here".into(),
        version: "1".into(),
        process: None,
    }
}
