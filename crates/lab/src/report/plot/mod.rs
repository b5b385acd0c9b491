//! Our own plots, as inline SVG. They know nothing of studies: numbers and words in, markup out.
//!
//! * `axis` maps values to positions and chooses ticks;
//! * `lines` draws lines with whiskers (load curves, distributions, progress over time);
//! * `bars` draws horizontal bars or dots with intervals;
//! * `heat` draws a grid of shares;
//! * `ink` is what tells series apart: colour, dash and marker, all three, so that neither the
//!   colour-blind nor a grey printer lose any.
//!
//! Rules: no colour stands here, only classes, so that the page's style sheet themes light, dark and
//! print. Each plot is an `<svg role="img">` with a title and a description; each mark has a `<title>`,
//! which browsers show as a tooltip. A plot has a fixed view box and scales with its column; a page
//! lays out many small ones rather than one large one, so letters keep their size. Positions are
//! rounded to a tenth of a unit and clamped into the plot: what isn't finite is not drawn.

pub mod axis;
pub mod bars;
pub mod heat;
pub mod ink;
pub mod lines;

use maud::Render;

/// A position in the view box: one decimal, no `-0`, never `NaN`.
#[derive(Clone, Copy, Debug)]
pub struct Px(pub f64);

impl Px {
    fn text(self) -> String {
        assert!(self.0.is_finite(), "a plot's marks have positions");
        let tenths = (self.0 * 10.0).round();
        if tenths == 0.0 { "0".into() } else { (tenths / 10.0).to_string() }
    }
}

impl Render for Px {
    fn render_to(&self, buffer: &mut String) {
        buffer.push_str(&self.text());
    }
}

/// The letters of plots are this high, in units of the view box.
pub const LETTER_HEIGHT: f64 = 11.0;

/// About how wide a text is; fonts differ, so it errs to the wide side.
pub fn text_width(text: &str) -> f64 {
    let letter = |c: char| match c {
        'i' | 'l' | 'j' | 'I' | '.' | ',' | ':' | '|' | '\'' | ' ' | '\u{202f}' => 0.32,
        'm' | 'w' | 'M' | 'W' | '—' | '…' => 0.95,
        'A'..='Z' | '±' | '×' | '%' => 0.78,
        wide if u32::from(wide) > 0x2e80 => 1.0,
        _ => 0.61,
    };
    text.chars().map(letter).sum::<f64>() * LETTER_HEIGHT
}

/// Cut to a width, with an ellipsis.
pub fn shortened(text: &str, width: f64) -> String {
    if text_width(text) <= width {
        return text.to_owned();
    }
    let mut out = String::new();
    for letter in text.chars() {
        if text_width(&out) + 2.0 * LETTER_HEIGHT > width && !out.is_empty() {
            break;
        }
        out.push(letter);
    }
    out + "…"
}
