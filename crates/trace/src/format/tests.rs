//! What could break: a line that is read as something else, or a bad one that is passed over.

use super::*;
use proptest::prelude::*;

fn read(text: &str) -> Result<Trace, TraceError> {
    parse("f", text, None, None)
}

/// What, byte, bytes, ms when sent, ms that it took.
type Said = (bool, u64, u64, Option<f64>, Option<f64>);

fn said(trace: &Trace) -> Vec<Said> {
    let ms = |time: Option<Duration>| time.map(|time| time.as_secs_f64() * 1e3);
    let of = |a: &Asked| (a.write, a.at.bytes(), a.len.bytes(), ms(a.sent), ms(a.took));
    trace.asked.iter().map(of).collect()
}

#[test]
fn validation_traces_hold_what_was_measured_and_the_pause_after_it() {
    let trace = read("R Hit    1975456   4  15362.00000  56074.00000\nW Doub 8 2 500 0.5\n")
        .expect("sound");
    assert_eq!((trace.format, trace.format.is_closed()), (Format::Validate, true));
    assert_eq!(
        said(&trace),
        [(false, 1_975_456 * 512, 2048, None, Some(15.362)), (true, 4096, 1024, None, Some(0.5))]
    );
    let pauses: Vec<_> = trace.asked.iter().map(|asked| asked.pause).collect();
    assert_eq!(pauses, [Some(Duration::from_micros(56_074)), Some(Duration::from_nanos(500))]);
    assert_eq!(trace.measured().map(|all| all.len()), Some(2));
}

#[test]
fn disksims_own_traces_count_from_the_first_request() {
    let trace = read("10.5 0 100 8 1\n12.0 0 200 16 0\n").expect("sound");
    assert_eq!(trace.format, Format::Ascii);
    assert_eq!(
        said(&trace),
        [(false, 51_200, 4096, Some(0.0), None), (true, 102_400, 8192, Some(1.5), None)]
    );
    assert_eq!(trace.measured(), None);
}

#[test]
fn logs_of_fio_are_read_in_both_versions() {
    let second = "fio version 2 iolog\n/dev/sda add\n/dev/sda open\n/dev/sda read 4096 512\n\
                  /dev/sda wait 0 2500\n/dev/sda write 0 1024\n/dev/sda trim 0 512\n/dev/sda close\n";
    let trace = read(second).expect("sound");
    assert_eq!((trace.format, trace.passed_over), (Format::Iolog, 5));
    assert_eq!(
        said(&trace),
        [(false, 4096, 512, Some(0.0), None), (true, 0, 1024, Some(2.5), None)]
    );
    let third = "fio version 3 iolog\n3 a add\n3 a open\n5 a read 0 4096\n9 a write 8192 4096\n";
    let sent: Vec<_> = said(&read(third).expect("sound")).iter().map(|asked| asked.3).collect();
    assert_eq!(sent, [Some(0.0), Some(4.0)]);
    let error = read("fio version 9 iolog\na read 0 512\n").expect_err("refused").to_string();
    assert_eq!(error, "f:1: version 9 of iolog: 2 and 3 are read");
}

#[test]
fn of_a_block_trace_the_disks_share_is_taken() {
    let text = "\
  8,0    3        1     0.000000000   697  Q   W 100 + 8 [kjournald]
  8,0    3        2     0.001000000   697  D   W 100 + 8 [kjournald]
  8,0    3        3     0.001500000   697  Q   R 100 + 8 [dd]
  8,0    3        4     0.002000000   697  D  RA 100 + 8 [dd]
  8,0    3        5     0.003000000   697  Q  FN [x]
  8,0    1        6     0.004000000     0  C   W 100 + 8 [0]
  8,0    1        7     0.007000000     0  C  RA 100 + 8 [0]
CPU0 (sda):
 Reads Queued:           1,        4KiB\t Writes Queued:           1,        4KiB
";
    let trace = read(text).expect("sound");
    assert_eq!(trace.format, Format::Blkparse);
    assert_eq!(
        said(&trace),
        [(true, 51_200, 4096, Some(0.0), Some(3.0)), (false, 51_200, 4096, Some(1.0), Some(5.0))]
    );
    let queued = "8,0 3 1 0.5 697 Q W 100 + 8 [a]\n8,0 3 1 0.75 697 Q R 300 + 8 [a]\n";
    assert_eq!(said(&read(queued).expect("sound")).last().map(|asked| asked.3), Some(Some(250.0)));
}

#[test]
fn traces_of_cambridge_count_in_tenths_of_a_microsecond() {
    let text = "128166372003061629,usr,0,Read,7014609920,24576,41286\n\
                128166372003161629,usr,0,Write,512,512,10000\n";
    let trace = read(text).expect("sound");
    assert_eq!(trace.format, Format::Msr);
    assert_eq!(
        said(&trace),
        [
            (false, 7_014_609_920, 24_576, Some(0.0), Some(4.1286)),
            (true, 512, 512, Some(10.0), Some(1.0))
        ]
    );
}

#[test]
fn a_line_that_makes_no_request_is_refused_by_its_number() {
    for (text, said) in [
        ("R Hit 5 4 1.0 2.0\nX Hit 5 4 1.0 2.0\n", "f:2: 'X' is neither R nor W"),
        ("R Hit 5 4 1.0 2.0\nR Hit five 4 1.0 2.0\n", "f:2: 'five' is no sector"),
        ("R Hit 5 4 1.0 2.0\n\nR Hit 5 4 -1 2.0\n", "f:3: '-1' is no time"),
        ("R Hit 5 4 1.0 2.0\nR Hit 5 4 NaN 2.0\n", "f:2: 'NaN' is no time"),
        (
            "R Hit 5 4 1.0 2.0\nR Hit 5 0 1 2.0\n",
            "f:2: a request of 0 bytes: write 1 byte to 1 GiB",
        ),
        ("R Hit 5 4 1.0 2.0\nR Hit 99999999999999999 4 1 2\n", "f:2: the sector is too far out"),
        ("0.5 0 100 8 1\n0.7 0 100 8 zz\n", "f:2: 'zz' is no hexadecimal number of flags"),
        ("1,usr,0,Read,0,512,5\n1,usr,0,Erase,0,512,5\n", "f:2: 'Erase' is neither Read nor Write"),
    ] {
        assert_eq!(read(text).expect_err("refused").to_string(), said);
    }
    let unknown = read("once upon a time\n").expect_err("refused").to_string();
    assert!(unknown.contains("validate, ascii, iolog, blkparse, msr"), "{unknown}");
    let empty = parse("f", "CPU0 (sda):\n", Some(Format::Blkparse), None).expect_err("refused");
    assert!(matches!(empty, TraceError::Empty { .. }));
}

#[test]
fn of_several_disks_one_is_chosen() {
    let text = "0.5 0 100 8 1\n0.7 1 100 8 1\n0.9 1 300 8 0\n";
    let error = read(text).expect_err("refused").to_string();
    assert_eq!(error, "f: it is of several disks, choose one with --device: 0, 1");
    let trace = parse("f", text, None, Some("1")).expect("sound");
    assert_eq!((trace.asked.len(), trace.passed_over), (2, 1));
    assert!(parse("f", text, None, Some("7")).is_err());
}

#[test]
fn a_compressed_trace_is_unpacked_and_a_broken_one_refused() {
    let text = "R Hit 5 4 1.0 2.0\n".repeat(100);
    let packed = zstd::encode_all(text.as_bytes(), 1).expect("packed");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.zst");
    std::fs::write(&path, &packed).expect("written");
    assert_eq!(crate::read(&path, None, None).expect("sound").asked.len(), 100);
    std::fs::write(&path, &packed[..packed.len() / 2]).expect("written");
    let error = crate::read(&path, None, None).expect_err("refused").to_string();
    assert!(error.contains("zstd"), "{error}");
    assert!(crate::read(&folder.path().join("none"), None, None).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    /// Traces come from anywhere; none may make the program fail but by an error.
    #[test]
    fn no_bytes_panic(text in "[-RW0-9., +a-zQDC/\n]{0,200}", which in 0_usize..6) {
        let _ = parse("f", &text, Format::ALL.get(which).copied(), None);
    }
}
