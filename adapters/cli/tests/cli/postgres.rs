//! The program on PostgreSQL: another word for the store, and nothing else is different. Where there
//! is no server these tests say that they are not run.

use serde_json::{Value, json};

use crate::world::{World, bash, say};

/// What there is to see of a life of every kind of verb, but for what is another in every store: ids,
/// times, hashes.
fn life(world: &World) -> Vec<(String, Value)> {
    let mut seen = Vec::new();
    let mut see = |what: &str, value: Value| seen.push((what.to_owned(), value));
    let write = json!({ "calls": [{ "tool": "Write", "args": { "file_path": "note", "content": "on \u{1f980}" } }] });
    let replies = [write, say("first"), bash("cat note"), say("second"), say("third"), say("fourth")];
    let agent = world.agent("talker", &replies, "interactive = true\n");
    let task = world.submit(&agent, "Begin \u{e9}.");
    world.work();
    world.plica(&["send", &task, "Go on.", "--detach"]).exits(0);
    world.work();
    let ends = world.events(&task).into_iter().filter(|event| event["type"] == "TaskSuspended");
    let first = ends.map(|event| event["seq"].to_string()).next().expect("a turn has ended");
    let fork = world.plica(&["fork", &task, "--at", &first]).exits(0).text();
    world.plica(&["rewind", &task, "--to", &first]).exits(3);
    world.plica(&["send", &task, "Once more."]).exits(3);
    world.plica(&["send", &fork, "Another way."]).exits(3);
    world.plica(&["close", &fork]).exits(3);
    let refused = world.plica(&["answer", &task, "what?"]).exits(2);
    see("a refusal", refused.err.replace(&task, "TASK").into());
    world.plica(&["cancel", &task]).exits(1);
    for (name, task) in [("task", &task), ("fork", &fork)] {
        world.is_sound(task);
        let kinds = world.events(task).into_iter().map(|event| event["type"].clone()).collect();
        see(&format!("events of the {name}"), kinds);
        see(&format!("words of the {name}"), world.plica(&["messages", task]).exits(0).text().into());
        let row = world.row(task);
        see(&format!("row of the {name}"), json!([row["status"], row["agent"], row["goal"]]));
        let then = world.plica(&["show", task, "--json", "--at", "4"]).exits(0).json();
        see(&format!("the {name} as of its fourth event"), json!([then["status"], then["head"]["seq"]]));
    }
    let verdict = world.plica(&["verify", "--all", "--json"]).exits(0).json();
    see("the verdict", json!([verdict["ok"], verdict["integrity"], verdict["causality"]]));
    let freed = world.plica(&["gc", "--json"]).exits(0).json();
    see("what was freed", freed["bodies"].clone());
    seen
}

/// HO-3: swapping the store is one word; what the program does and says is the same.
#[test]
fn ho_3_on_postgres_everything_is_as_on_a_file() {
    let Some(server) = plica_pgserver::shared() else { return };
    let fresh = server.fresh();
    let (file, database) = (life(&World::new()), life(&World::on(fresh.url())));
    assert_eq!(file.len(), database.len());
    for (file, database) in file.into_iter().zip(database) {
        assert_eq!(file, database);
    }
}

/// ST-16, ST-19: `doctor` makes nothing of a database, and says of a store there what is amiss.
#[test]
fn st_19_doctor_says_how_a_database_does() {
    let Some(server) = plica_pgserver::shared() else { return };
    let fresh = server.fresh();
    let world = World::on(fresh.url());
    let doctor = || world.plica(&["doctor", "--json"]).exits(0).json();
    assert_eq!(doctor()["store"]["state"], "not created yet: the first task creates it");
    world.submit(&world.agent("one", &[say("done")], ""), "Do it.");
    let found = doctor();
    let store = &found["store"];
    assert_eq!((&store["store"], &store["tasks"]), (&json!("postgres"), &json!("1")));
    assert!(store["server"].as_str().is_some_and(|version| version.starts_with("PostgreSQL ")), "{store}");
    assert!(store["longest due, not claimed"].as_str().is_some_and(|due| due.ends_with(" ms")), "{store}");
    let as_it_must_be = [("due, with neither lease nor time", "0"), ("indexes missing or unfit", "none")];
    for (name, value) in as_it_must_be {
        assert_eq!(store[name], value, "{store}");
    }
    for name in ["oldest snapshot of others", "indexes in use, and how often", "fsync", "synchronous commit"] {
        assert!(store[name].is_string(), "{name}: {store}");
    }
    assert!(found["clock_off_ms"].is_u64() && found["store_time"].is_string(), "{found}");
    let said = world.plica(&["doctor"]).exits(0).text();
    assert!(said.contains("due, with neither lease nor time 0"), "{said}");
}
