//! What could break: a word taken silently for nothing, an error at the wrong place, a parser that
//! panics or never ends on bytes that are no workload.

use super::*;
use proptest::prelude::*;

fn error(text: &str) -> String {
    parse("t.f", text).expect_err("refused").to_string()
}

#[test]
fn an_unknown_word_is_refused_with_its_place() {
    assert!(error("set $a=1\nfrobnicate 3").starts_with("t.f:2:1: unknown command \"frobnicate\""));
    let text = "define fileset name=a,path=/x,\n  sice=4k";
    let message = error(text);
    assert!(message.starts_with("t.f:2:3: unknown attribute \"sice\" of a fileset"), "{message}");
    let text = "define process name=p {\n thread name=t {\n  flowop read name=r, fast\n }\n}";
    assert!(error(text).starts_with("t.f:3:23: unknown attribute \"fast\" of a flowop"));
    assert!(error("stats snap").starts_with("t.f:1:1: stats is not carried out"));
    assert!(error("enable multi master=a,client=b").contains("several clients"));
}

#[test]
fn a_missing_mark_is_named() {
    assert_eq!(error("set $a 1"), "t.f:1:8: expected =, found the number 1");
    let unclosed = "define process name=p {\n thread name=t {\n  flowop read name=r";
    assert!(error(unclosed).ends_with("found the end of the file"), "{}", error(unclosed));
    assert!(error("run 60 60").starts_with("t.f:1:8: expected a command"));
}

#[test]
fn what_both_versions_write_is_understood() {
    let text = r#"
        set $dir=/tmp   # where
        set $n = $a * 2 - 4
        set $s = cvar(type=cvar-gamma, parameters=mean:16384;gamma:1.5, min=1k)
        set $r = randvar(type=tabular, min=1k, randtable = {{ 80, 1k, 4k}, {20, 4k, $n}})
        define randvar name=$g, type=gamma, min=0, gamma=100
        set $g.mean=5k
        set mode quit firstdone
        set mode nousestats
        eventgen rate = $n
        define file name="a b",path=$dir/sub,size=0,prealloc,cached=$c
        define fileset name=f,path=$dir,entries=3,filesize=4k,dirwidth=20,paralloc
        define flowop name=work, $set, $iters=4 {
            flowop openfile name=o,filesetname=$set,fd=1
            flowop aiowait
        }
        define process name=p,instances=2 {
            thread name=t,memsize=1m,useism,ioprio=3 {
                flowop work name=w, iters=2, $set=f
            }
        }
        usage "set \$dir=<dir> defaults to $dir"
        echo "mean $g.mean"
        foreach $x in 1, 2 { echo "$x" }
        create files
        list fileset
        enable lathist
        debug 3
        psrun -10 60
        quit
    "#;
    let script = parse("t.f", text).expect("understood");
    let first = script.commands.first().map(|command| command.at);
    assert_eq!(first, Some(Position { line: 2, column: 9 }));
    assert_eq!(script.commands.len(), 22);
    let Some(CommandKind::PeriodicRun { clears, .. }) =
        script.commands.iter().rev().nth(1).map(|command| &command.kind)
    else {
        panic!("psrun");
    };
    assert!(clears);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = parse("t.f", &String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn no_row_of_its_own_words_makes_it_panic(words in proptest::collection::vec(
        proptest::sample::select(vec![
            "set", "define", "process", "thread", "flowop", "fileset", "randvar", "cvar", "(", ")",
            "{", "}", "=", ",", "$a", "$a.mean", "4k", "-3", "\"x $a\"", "name", "randtable",
            "psrun", "run", "foreach", "in", "mode", "quit", "+", "*", "-", "/", "read", "echo",
        ]), 0..60)) {
        let _ = parse("t.f", &words.join(" "));
        let _ = parse("t.f", &words.concat());
    }
}
