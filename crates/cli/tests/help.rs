//! Every command explains itself.

mod support;

use support::Place;

/// The commands that `--help` of `path` names.
fn commands(place: &Place, path: &[&str]) -> Vec<String> {
    let help = help(place, path);
    let list = help.split_once("\nCommands:\n").map_or("", |(_, list)| list);
    let names = list.lines().take_while(|line| line.starts_with("  "));
    let names =
        names.filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

fn help(place: &Place, path: &[&str]) -> String {
    place.run(&[path, &["--help"]].concat()).expect(0).out
}

fn each_command(place: &Place, path: &[&str], visit: &mut impl FnMut(&[&str])) {
    visit(path);
    for name in commands(place, path) {
        each_command(place, &[path, &[name.as_str()]].concat(), visit);
    }
}

#[test]
fn every_command_has_help_with_an_example() {
    let place = Place::sqlite();
    let mut seen = Vec::new();
    each_command(&place, &[], &mut |path| {
        let help = help(&place, path);
        let example = format!("bell {}", path.join(" "));
        let (_, examples) = help.split_once("Examples:\n").unwrap_or_else(|| panic!("no example in {help}"));
        assert!(examples.contains(example.trim()), "{help}");
        assert!(help.contains("--json") && help.contains("--store"), "{help}");
        seen.push(path.join(" "));
    });
    for name in ["lock run", "lock acquire", "lock watch", "fence write", "store info", "demo", "man"] {
        assert!(seen.iter().any(|path| path == name), "{name} is not in {seen:?}");
    }
    assert!(!place.path("bell.db").exists());
}

#[test]
fn hidden_commands_stay_hidden() {
    let place = Place::sqlite();
    assert!(!help(&place, &[]).contains("__"));
}

#[test]
fn every_command_has_a_manual_page() {
    let place = Place::sqlite();
    let pages = place.json(&["man", "--out", "pages"]);
    assert_eq!(pages["outcome"], "written");
    each_command(&place, &[], &mut |path| {
        let name = [&["bell"], path].concat().join("-");
        let page = std::fs::read_to_string(place.path("pages").join(format!("{name}.1"))).unwrap();
        assert!(page.contains("Examples"), "{name}");
    });
    assert!(place.run(&["man"]).expect(0).out.contains(".TH bell 1"));
}

#[test]
fn completions_are_made_for_each_shell() {
    let place = Place::sqlite();
    for shell in ["bash", "zsh", "fish"] {
        let script = place.run(&["completions", shell]).expect(0).out;
        assert!(script.contains("acquire") && script.contains("bell"), "{shell}");
    }
    place.run(&["completions", "tcsh"]).expect(9);
}

#[test]
fn the_version_is_an_answer() {
    let place = Place::sqlite();
    let ran = place.run(&["--version"]).expect(0);
    assert_eq!(ran.out, format!("bell {}\n", env!("CARGO_PKG_VERSION")));
}
