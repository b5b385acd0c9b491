//! Decompression: any bytes fill exactly the buffer that is given, or are refused; what is compressed comes back.

use crate::machine::Input;
use codec::compress::Form;

/// The longest block: larger ones take the same ways.
const LOGICAL_MAX: usize = 256 << 10;

/// Input: the form, the length before compression in units of 512, the block.
pub fn decompress(input: &[u8]) {
    let mut input = Input::new(input);
    let forms = [Form::Lzjb, Form::Zle, Form::Lz4, Form::Gzip(6), Form::Zstd(3)];
    let form = forms[usize::from(input.byte()) % forms.len()];
    let len = (input.number::<2>() as usize * 512).min(LOGICAL_MAX);
    let block = input.rest();
    let mut first = vec![0; len];
    let outcome = form.decompress(block, &mut first);
    let mut second = vec![0xa5; len];
    assert_eq!(form.decompress(block, &mut second), outcome);
    if outcome.is_ok() {
        assert!(first == second, "every byte is written");
    }
    // The block itself as data.
    if let Some(stored) = form.compress(block, block.len() + 1024) {
        let mut again = vec![0xa5; block.len()];
        form.decompress(&stored, &mut again).expect("what was compressed comes back");
        assert!(again == block);
    }
}

/// A block of each form.
pub fn seeds() -> Vec<Vec<u8>> {
    let data: Vec<u8> =
        (0..2048_u32).map(|n| if n % 512 < 300 { 0 } else { (n % 7) as u8 }).collect();
    let forms = [Form::Lzjb, Form::Zle, Form::Lz4, Form::Gzip(6), Form::Zstd(3)];
    let seed = |(number, form): (usize, Form)| {
        let block = form.compress(&data, data.len()).expect("it is shorter");
        [&[number as u8, 4, 0], &block[..]].concat()
    };
    forms.into_iter().enumerate().map(seed).collect()
}
