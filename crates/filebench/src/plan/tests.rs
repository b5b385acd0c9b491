//! What could break: values taken too early or too late, a name that is looked up in the wrong place, a
//! path that leads out of the directory.

use super::*;
use crate::error::WmlError;

fn plan(text: &str) -> Plan {
    read(text, &[]).unwrap_or_else(|error| panic!("{error}"))
}

fn read(text: &str, variables: &[(&str, &str)]) -> Result<Plan, WmlError> {
    let variables = variables.iter().map(|(name, value)| (name.to_string(), value.to_string()));
    let directory = "/mnt/test".to_owned();
    let options =
        PlanOptions { directory, variables: variables.collect(), ..PlanOptions::default() };
    Plan::read("t.f", text, &options)
}

fn error(text: &str) -> String {
    read(text, &[]).expect_err("refused").to_string()
}

const PROCESS: &str = "define process name=p { thread name=t { flowop read name=r,filename=a } }\n";

fn run_of(plan: &Plan) -> &RunPlan {
    let run = plan.steps.iter().find_map(|step| match step {
        Step::Run(run) => Some(run),
        _ => None,
    });
    run.expect("a run")
}

#[test]
fn values_count_as_they_are_when_a_run_starts() {
    let text = format!(
        "set $n=1\nset $size=4k\ndefine fileset name=a,path=$dir,entries=$n,size=$size,dirwidth=3\n\
         {PROCESS}set $n=7\nrun 5"
    );
    let plan = plan(&text);
    assert_eq!(plan.filesets.first().map(|fileset| fileset.entries), Some(7));
    assert_eq!(run_of(&plan).duration, Some(Duration::from_secs(5)));
    assert!(plan.notes.is_empty(), "{:?}", plan.notes);
}

#[test]
fn the_command_line_has_the_last_word() {
    let text = format!(
        "set $dir=/tmp\nset $n=1\ndefine fileset name=a,path=$dir,entries=$n,dirwidth=3\n{PROCESS}"
    );
    let plan = read(&text, &[("n", "2k")]).expect("good");
    let fileset = plan.filesets.first().expect("one");
    assert_eq!((fileset.entries, fileset.root.as_path()), (2048, std::path::Path::new("a")));
    let refused = read(&text, &[("nfiles", "3")]).expect_err("no such variable").to_string();
    assert_eq!(refused, "--set:1:1: there is no variable $nfiles here; there are: $dir, $n");
    assert!(
        read(&text, &[("n", "2x")]).expect_err("no number").to_string().starts_with("--set:1:8")
    );
}

#[test]
fn paths_stay_below_the_directory() {
    let root = |path: &str, name: &str| {
        let text = format!(
            "define file name={name},path={path}\n{}",
            PROCESS.replace("=a", &format!("={name}"))
        );
        read(&text, &[]).map(|plan| plan.filesets[0].root.display().to_string())
    };
    assert_eq!(root("$dir", "a").expect("good"), "a");
    assert_eq!(root("$dir/sub", "a").expect("good"), "sub/a");
    assert_eq!(root("/mnt/testing", "a").expect("good"), "mnt/testing/a");
    assert_eq!(root("/", "a").expect("good"), "a");
    for (path, name) in
        [("/mnt/test/../x", "a"), ("$dir", "\"..\""), ("$dir", "\"\""), ("$dir", "\"/\"")]
    {
        let error = root(path, name).expect_err("refused").to_string();
        assert!(error.contains("is no plain name below"), "{error}");
    }
}

#[test]
fn a_composite_has_its_own_variables() {
    let text = "
        define fileset name=a,path=$dir,entries=1,dirwidth=3
        define fileset name=b,path=$dir,entries=1,dirwidth=3
        define flowop name=inner, $set, $io=8k { flowop read name=r,filename=$set,iosize=$io }
        define flowop name=outer, $which, $n {
            flowop inner name=i, iters=$n, $set=$which
            flowop inner name=j, $set=$which, $io=1m
        }
        define process name=p { thread name=t {
            flowop outer name=x, $which=a, $n=5
            flowop outer name=y, $which=b, $n=6
            flowop opslimit name=l, target=r
        } }
        run 1";
    let plan = plan(text);
    let thread = &run_of(&plan).processes[0].threads[0];
    let [x, y, limit] = thread.flowops.as_slice() else { panic!("three") };
    let read = |outer: &Flowop, number: usize| outer.inner[number].inner[0].clone();
    assert_eq!(
        (x.inner[0].iterations, y.inner[0].iterations),
        (Number::Constant(5), Number::Constant(6))
    );
    assert_eq!((read(x, 0).fileset, read(y, 1).fileset), (Some(0), Some(1)));
    assert_eq!(
        (read(x, 0).iosize, read(x, 1).iosize),
        (Number::Constant(8192), Number::Constant(1 << 20))
    );
    assert_eq!(&*read(y, 1).name, "y.j.r");
    assert_eq!(limit.target, Target::Slot(read(x, 0).slot));
    assert_eq!(thread.slots, 11);
}

#[test]
fn what_is_missing_or_unknown_is_named_with_its_place() {
    let file = "define file name=a,path=$dir\n";
    let flowop = |flowop: &str| {
        error(&format!("{file}define process name=p {{ thread name=t {{\n{flowop}\n}} }}"))
    };
    assert!(flowop("flowop raed name=r").starts_with("t.f:3:8: unknown flowop \"raed\""));
    assert!(flowop("flowop read name=r,filename=b").starts_with("t.f:3:20: there is no file"));
    assert!(flowop("flowop read filename=a").contains("the flowop has no name"));
    assert_eq!(
        flowop("flowop read name=r,filename=a,iosize=$io"),
        "t.f:3:38: $io is not set; add a line `set $io=...` above, or set it on the command line"
    );
    assert!(
        flowop("flowop wakeup name=w,target=x").starts_with("t.f:3:22: no block flowop is named")
    );
    assert!(flowop("flowop aiowrite name=w,filename=a").contains("needs random"));
    assert!(flowop("flowop read name=r,filename=a,fd=129").contains("from 0 to 128"));
    assert!(flowop("flowop read name=r,filename=a,iosize=big").contains("must be a number"));
    assert!(error(file).contains("the workload has no process"));
    assert!(
        error(&format!("{file}{file}{PROCESS}"))
            .starts_with("t.f:2:8: file \"a\" is defined twice")
    );
    let pathless = error(&format!("define fileset name=a,entries=3\n{PROCESS}"));
    assert_eq!(pathless, "t.f:1:8: the fileset has no path; add path=...");
}

#[test]
fn system_is_refused_but_for_what_clears_caches() {
    let text = format!(
        "define file name=a,path=$dir\n{PROCESS}create files\nsystem \"sync\"\n\
         system \"echo 3 > /proc/sys/vm/drop_caches\"\npsrun -10 60"
    );
    let plan = plan(&text);
    let [Step::Create, Step::Sync, Step::DropCaches, Step::Run(run)] = plan.steps.as_slice() else {
        panic!("{:?}", plan.steps)
    };
    assert_eq!(run.period, Some(Period { every: Duration::from_secs(10), clears: true }));
    assert!(error("system \"rm -rf /\"").contains("--allow-system"));
}

#[test]
fn old_arithmetic_goes_from_left_to_right() {
    let text = format!(
        "set $a=2\nset $n = $a + 4 * 3 - 6 / 4\nset $m=$n -1\n\
         define fileset name=a,path=$dir,entries=$n,leafdirs=$m,dirwidth=3\n{PROCESS}"
    );
    let plan = plan(&text);
    assert_eq!((plan.filesets[0].entries, plan.filesets[0].leaf_directories), (3, 2));
    assert!(error("set $a=1\nset $b=$a - 2").contains("1 - 2"));
    assert!(error("set $a=1\nset $b=$a / 0").contains("1 / 0"));
}

#[test]
fn a_parameter_of_a_random_variable_can_be_set_alone() {
    let text = format!(
        "define randvar name=$x, type=uniform, min=10, mean=20\nset $x.mean=40\n\
         define file name=a,path=$dir,size=$x\n{PROCESS}echo \"$x.mean $x.type $x\""
    );
    let plan = plan(&text);
    let Number::Random(number) = plan.filesets[0].size else { panic!("random") };
    use crate::distribution::Distribution;
    assert_eq!(plan.variables[number].distribution, Distribution::Uniform(10.0, 70.0));
    assert!(plan.steps.contains(&Step::Print("40 uniform uniform random var".into())));
}
