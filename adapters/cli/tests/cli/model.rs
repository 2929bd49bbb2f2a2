//! The program with a model behind HTTP, played by a scripted server.

use plica_conformance::model::chat::Chat;
use plica_conformance::model::server::{Act, Exchange, Framing, Server, response, stream};
use plica_conformance::model::{KEY, KEY_VARIABLE, Protocol, Said, Told};
use tokio::runtime::Runtime;

use super::world::{Ran, World, text};

/// How many bytes of the key in a row are one piece too much.
const KEY_PIECE: usize = 6;

/// A scripted provider, in a runtime of its own: the program under test is another process.
struct Provider {
    runtime: Runtime,
    server: Server,
}

impl Provider {
    fn new(exchanges: Vec<Exchange>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a test machine can start a runtime");
        let server = runtime.block_on(Server::start(exchanges));
        Self { runtime, server }
    }

    /// The agent that asks it.
    fn agent(&self, world: &World) -> std::path::PathBuf {
        let url = self.server.base_url();
        let agent = format!(
            "name = \"remote\"\nworkspace = \"work\"\ntools = [\"Bash\"]\npermission_mode = \"bypass\"\n[model]\n\
             provider = \"openai-compatible\"\nname = \"m\"\nbase_url = \"{url}\"\napi_key_env = \"{KEY_VARIABLE}\"\n"
        );
        world.write("remote.toml", &agent)
    }

    /// What it was told, request by request.
    fn told(&self) -> Vec<Vec<Told>> {
        self.server.received().iter().map(|sent| Chat.read(sent).expect("a valid request")).collect()
    }
}

fn says(said: &Said) -> Exchange {
    let events = Chat.events(said);
    let pieces: Vec<&[u8]> = events.iter().map(String::as_bytes).collect();
    vec![Act::Send(stream(Framing::Chunked, &pieces))]
}

/// Runs the agent with the key in its variable, at the most talkative.
fn run(world: &World, provider: &Provider, goal: &str) -> Ran {
    let agent = provider.agent(world);
    let args = ["run", "--agent", text(&agent), goal];
    let mut command = world.command(&args);
    let ended = command.env(KEY_VARIABLE, KEY).env("PLICA_LOG", "trace").output().expect("the program runs");
    Ran::ended(&args, &ended)
}

/// No piece of the key is in what the program printed or in any file that it left.
fn is_clean(world: &World, ran: &Ran) {
    let files = std::fs::read_dir(world.path(".")).expect("the folder is there").filter_map(|entry| {
        let path = entry.expect("an entry").path();
        path.is_file().then(|| std::fs::read(&path).expect("a file is read"))
    });
    let printed = [ran.out.clone(), ran.err.clone().into_bytes()];
    for bytes in files.chain(printed) {
        for piece in KEY.as_bytes().windows(KEY_PIECE) {
            let shows = bytes.windows(KEY_PIECE).any(|window| window == piece);
            assert!(!shows, "a piece of the key shows: {}", String::from_utf8_lossy(piece));
        }
    }
}

/// MO-1, TO-4: an agent with a model behind HTTP runs its tools and answers; a failure on the
/// way is tried again; the key is in no event, file or log.
#[test]
fn mo_1_an_agent_runs_with_a_model_behind_http() {
    let world = World::new();
    let failure = Act::Send(response(503, &[], &Chat.error(&format!("busy; your key is {KEY}"))));
    let calls =
        vec![("", "Bash", vec!["{\"command\":", "\"echo one\"}"]), ("", "Bash", vec!["{\"command\": \"echo two\"}"])];
    let first = Said { text: vec!["I look."], calls, ..Said::default() };
    let last = Said { text: vec!["One", " and two."], ..Said::default() };
    let provider = Provider::new(vec![vec![failure], says(&first), says(&last)]);
    let ran = run(&world, &provider, "Look.").exits(0);
    assert_eq!(ran.text(), "One and two.");
    is_clean(&world, &ran);
    let told = provider.told();
    assert_eq!((told.len(), &told[0]), (3, &told[1]));
    let [Told::Input(goal), Told::Output { calls, .. }, Told::Result { text: one, .. }, Told::Result { text: two, .. }] =
        &told[2][..]
    else {
        panic!("{:?}", told[2])
    };
    assert_eq!((goal.as_str(), one.trim(), two.trim()), ("Look.", "one", "two"));
    assert_ne!(calls[0].0, calls[1].0);
    drop(provider.runtime);
    world.is_sound("@last");
}

/// MO-3: a key that is refused, or not there, fails the task at once and names the variable.
#[test]
fn mo_3_a_key_that_is_refused_or_not_there_is_named_by_its_variable() {
    let world = World::new();
    let refusal = Act::Send(response(401, &[], &Chat.error(&format!("wrong key: {}***", &KEY[..9]))));
    let provider = Provider::new(vec![vec![refusal]]);
    let ran = run(&world, &provider, "Look.").exits(1).says(&["llm_error", KEY_VARIABLE]);
    is_clean(&world, &ran);
    let agent = provider.agent(&world);
    world.plica(&["run", "--agent", text(&agent), "Look."]).exits(1).says(&[KEY_VARIABLE, "is not set"]);
    assert_eq!(provider.server.received().len(), 1, "nothing is sent without the key");
}

/// CL-8: `doctor` says which models could be used from here.
#[test]
fn cl_8_doctor_says_which_models_can_be_reached() {
    let world = World::new();
    let ended = world.command(&["doctor"]).env("OPENAI_API_KEY", KEY).output().expect("the program runs");
    let ran = Ran::ended(&["doctor"], &ended).exits(0);
    assert!(ran.text().contains("  openai: OPENAI_API_KEY is set\n"), "{}", ran.text());
    assert!(ran.text().contains("  openrouter: OPENROUTER_API_KEY is not set\n"));
    is_clean(&world, &ran);
    let found = world.plica(&["doctor", "--json"]).exits(0).json();
    let openai =
        found["models"].as_array().and_then(|models| models.iter().find(|model| model["provider"] == "openai"));
    assert_eq!(openai.map(|model| &model["ready"]), Some(&serde_json::json!(false)));
}

/// CL-8: `doctor FILE` checks an agent file and asks its server for the models that it has.
#[test]
fn cl_8_doctor_checks_agent_files_and_asks_their_servers() {
    let world = World::new();
    let listed = || vec![Act::Send(response(200, &[], r#"{"data": [{"id": "m"}, {"id": "n:8b"}]}"#))];
    let refused = vec![Act::Send(response(401, &[], &Chat.error(&format!("wrong key: {KEY}"))))];
    let provider = Provider::new(vec![listed(), listed(), refused]);
    let agent = provider.agent(&world);
    let doctor = |args: &[&str]| {
        let ended = world.command(args).env(KEY_VARIABLE, KEY).output().expect("the program runs");
        let ran = Ran::ended(args, &ended);
        is_clean(&world, &ran);
        ran
    };
    let said = doctor(&["doctor", text(&agent)]).exits(0).text();
    assert!(
        said.contains("agent remote, model openai-compatible:m, Bash, in ") && said.contains("it serves m, n:8b\n")
    );
    let disk = said.lines().find(|line| line.starts_with("disk ")).expect("the disk was measured");
    assert!(disk.contains(" commits a second"), "{disk}");
    let other = std::fs::read_to_string(&agent).expect("the agent").replace("name = \"m\"", "name = \"o\"");
    let other = world.write("other.toml", &other);
    let found = doctor(&["doctor", "--json", text(&other)]).exits(0).json();
    assert_eq!(found["agents"][0]["model_known"], false, "{found}");
    let said = doctor(&["doctor", text(&agent)]).exits(0).text();
    assert!(said.contains("is set, but ") && said.contains(KEY_VARIABLE), "{said}");
    let broken = world.write("broken.toml", "name = \"b\"\nmodle = \"x\"\n");
    doctor(&["doctor", text(&broken)]).exits(4).says(&["modle", "did you mean `model`"]);
    world.plica(&["agent", "check", text(&broken)]).exits(4).says(&["modle", "did you mean `model`"]);
    let checked = world.plica(&["agent", "check", "--json", text(&agent), text(&broken)]).exits(4).lines();
    assert_eq!((&checked[0]["ok"], &checked[1]["ok"]), (&true.into(), &false.into()));
}
