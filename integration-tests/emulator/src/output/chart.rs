//! Elements of SVG pictures that are readable in light and dark mode.

use std::fmt::Write as _;

/// The colours of schedulers, which most colour-blind readers can distinguish, on both backgrounds.
const COLOURS: [&str; 8] = [
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#b8a800", "#8a6bd1",
];

pub fn colour(scheduler: usize) -> &'static str {
    COLOURS[scheduler % COLOURS.len()]
}

/// A picture that grows downwards.
pub struct Svg {
    body: String,
    pub width: f64,
    pub height: f64,
}

impl Svg {
    pub fn new(width: f64) -> Self {
        Svg {
            body: String::new(),
            width,
            height: 0.0,
        }
    }

    pub fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), style: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(
            self.body,
            r#"<rect x="{x:.2}" y="{y:.2}" width="{width:.2}" height="{height:.2}" {style}/>"#
        );
    }

    pub fn line(&mut self, (x, y): (f64, f64), (to_x, to_y): (f64, f64), style: &str) {
        let _ = writeln!(
            self.body,
            r#"<line x1="{x:.2}" y1="{y:.2}" x2="{to_x:.2}" y2="{to_y:.2}" {style}/>"#
        );
    }

    pub fn text(&mut self, (x, y): (f64, f64), class: &str, text: &str) {
        let text = escaped(text);
        let _ = writeln!(
            self.body,
            r#"<text x="{x:.2}" y="{y:.2}" class="{class}">{text}</text>"#
        );
    }

    pub fn path(&mut self, points: &[(f64, f64)], style: &str) {
        let mut d = String::new();
        for (at, (x, y)) in points.iter().enumerate() {
            let _ = write!(d, "{}{x:.2} {y:.2}", if at == 0 { "M" } else { "L" });
        }
        let _ = writeln!(self.body, r#"<path d="{d}" {style}/>"#);
    }

    /// Draws a triangle that points down at this position.
    pub fn mark(&mut self, (x, y): (f64, f64), style: &str) {
        let _ = writeln!(self.body, r#"<path d="M{x:.2} {y:.2}l-4 -7h8z" {style}/>"#);
    }

    /// Draws an axis at `y` with ticks and their times below.
    pub fn time_axis(&mut self, left: f64, right: f64, y: f64, duration: f64) {
        let step = tick(duration);
        let mut at = 0.0;
        self.line((left, y), (right, y), r#"class="axis""#);
        while at <= duration * (1.0 + 1e-9) {
            let x = left + (right - left) * at / duration;
            self.line((x, y), (x, y + 5.0), r#"class="axis""#);
            let label = match at > 0.0 {
                true => super::text::span(at),
                false => "0".to_owned(),
            };
            self.text((x, y + 18.0), "tick", &label);
            at += step;
        }
    }

    pub fn finish(self, title: &str, about: &str) -> String {
        let Svg {
            body,
            width,
            height,
        } = self;
        let (title, about) = (escaped(title), escaped(about));
        format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0} {height:.0}" width="{width:.0}" height="{height:.0}" role="img">
<title>{title}</title>
<desc>{about}</desc>
<style>{STYLE}</style>
<rect class="ground" x="0" y="0" width="{width:.0}" height="{height:.0}"/>
{body}</svg>
"#
        )
    }
}

/// The style of elements without a scheduler's colour, for light and dark mode.
const STYLE: &str = "
text { font: 12px system-ui, sans-serif; fill: #1c1c1c; }
.title { font-size: 16px; font-weight: 600; }
.row { text-anchor: end; dominant-baseline: central; }
.tick { text-anchor: middle; font-size: 11px; fill: #555; }
.quiet { fill: #555; }
.ground { fill: #ffffff; }
.track { fill: #f0f0f0; }
.off { fill: #9a9a9a; fill-opacity: 0.45; }
.offline { fill: #d62728; fill-opacity: 0.55; }
.axis { stroke: #777; }
.miss { fill: #d62728; }
@media (prefers-color-scheme: dark) {
text { fill: #e8e8e8; }
.tick, .quiet { fill: #aaa; }
.ground { fill: #16181c; }
.track { fill: #24272d; }
.off { fill: #7d8590; }
.axis { stroke: #999; }
.miss, .offline { fill: #ff6b6b; }
}
";

pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// Returns a round span of which about ten fit into the duration.
fn tick(duration: f64) -> f64 {
    const ROUND: [f64; 19] = [
        1.0,
        5.0,
        10.0,
        30.0,
        60.0,
        300.0,
        600.0,
        1800.0,
        3600.0,
        7200.0,
        10_800.0,
        21_600.0,
        43_200.0,
        86_400.0,
        172_800.0,
        432_000.0,
        864_000.0,
        2_592_000.0,
        8_640_000.0,
    ];
    let fits = |step: &&f64| duration / **step <= 12.0;
    ROUND.iter().find(fits).copied().unwrap_or(duration / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_a_handful_of_ticks() {
        for duration in [10.0, 100.0, 3600.0, 10_800.0, 86_400.0, 2_592_000.0] {
            let count = duration / tick(duration);
            assert!((2.0..=12.0).contains(&count), "{duration}: {count}");
        }
    }
}
