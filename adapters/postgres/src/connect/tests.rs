use super::*;

fn refused(url: &str) -> String {
    Place::parse(url).expect_err("no store can be there").to_string()
}

#[test]
fn a_connection_over_a_network_is_verified_unless_told_otherwise() {
    let table = [
        ("postgres://a@localhost/d", "none"),
        ("postgres://a@127.0.0.1/d", "none"),
        ("postgres://a@%2Frun%2Fpostgresql/d", "none"),
        ("postgres://a@db.example/d?sslmode=disable", "none"),
        ("postgres://a@localhost/d?sslmode=require", "verified"),
        ("postgresql://a@db.example/d?sslmode=verify-full", "verified"),
        ("postgres://a@db.example/d?sslmode=prefer", "verified"),
        ("postgres://a@localhost,db.example/d", "verified"),
    ];
    for (url, secrecy) in table {
        assert_eq!(Place::parse(url).expect(url).secrecy(), secrecy, "{url}");
    }
}

#[test]
fn a_password_is_never_shown() {
    let place = Place::parse("postgres://ada:hush@localhost:5433/work?schema=mine").expect("a URL");
    assert_eq!(place.to_string(), "postgres://localhost:5433/work (schema mine)");
    assert!(!format!("{place:?}").contains("hush"));
    for url in ["postgres://ada:hush@h/d?sslmode=maybe", "postgres://ada:hush@h:x/d", "postgres://ada:hush@h/d?no=1"] {
        assert!(!refused(url).contains("hush"), "{}", refused(url));
    }
}

#[test]
fn what_no_store_can_be_is_refused() {
    assert!(refused("postgres://a@localhost/d?schema=pg_mine").contains("schema"));
    assert!(refused("postgres://a@localhost/d?schema=a%22b").contains("schema"));
    assert!(refused("postgres://a@localhost/d?pool=0").contains("pool"));
    assert!(refused("postgres:///d").contains("host"));
    assert!(refused("postgres://a@localhost/d?sslmode=require&sslrootcert=/nowhere.pem").contains("/nowhere.pem"));
}

/// What is spelled as libpq spells it and would mean less than it says here, or nothing at all, is
/// refused by its name instead of being passed over.
#[test]
fn what_tls_cannot_be_told_is_refused_by_name() {
    for mode in ["allow", "maybe", "REQUIRE", ""] {
        let said = refused(&format!("postgres://a@db.example/d?sslmode={mode}"));
        assert!(said.contains(&format!("no such sslmode: {mode};")) && said.contains("verify-full"), "{said}");
    }
    for parameter in ["sslcert", "sslkey", "sslpassword", "sslcrl", "ssl_min_protocol_version"] {
        let said = refused(&format!("postgres://a@db.example/d?{parameter}=hush"));
        assert!(said.contains(parameter) && !said.contains("hush"), "{said}");
    }
}

#[test]
fn a_second_url_is_taken_for_listening() {
    let place = Place::parse("postgres://a@localhost:6432/d?notify=postgres%3A%2F%2Fa%40localhost%3A5432%2Fd");
    let Hearing::On(target) = place.expect("a URL").hearing else { panic!("it listens") };
    assert_eq!(target.config.get_ports(), [5432]);
    let place = Place::parse("postgres://a@localhost/d?notify=off").expect("a URL");
    assert!(matches!(place.hearing, Hearing::Off));
}
