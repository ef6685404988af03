//! Plots of cost against the size of the cluster, as SVG: two logarithmic axes, one line for each party.

use std::fmt::Write;

/// A line: its name and its points in ascending order.
pub struct Line {
    /// The name in the legend.
    pub name: String,
    /// Size and cost.
    pub points: Vec<(f64, f64)>,
}

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 130.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;
const COLOURS: [&str; 4] = ["#1668b8", "#c8501e", "#5aa0dc", "#e09a78"];

/// Returns an SVG, or an empty string if there are no points.
pub fn plot(title: &str, unit: &str, lines: &[Line]) -> String {
    let points = || lines.iter().flat_map(|line| &line.points).filter(|(x, y)| *x > 0.0 && *y > 0.0);
    if points().count() == 0 {
        return String::new();
    }
    let (x, y) = (Axis::new(points().map(|point| point.0)), Axis::new(points().map(|point| point.1)));
    let at_x = |value: f64| LEFT + x.place(value) * (WIDTH - LEFT - RIGHT);
    let at_y = |value: f64| HEIGHT - BOTTOM - y.place(value) * (HEIGHT - TOP - BOTTOM);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"{LEFT}\" y=\"22\" font-size=\"15\" fill=\"#222222\">{title}</text>\n"
    );
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    for decade in x.decades() {
        let at = at_x(decade);
        let _ = writeln!(svg, "<path d=\"M{at:.1} {TOP}V{bottom}\" stroke=\"#e4e4e4\"/>");
        let _ = writeln!(
            svg,
            "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#444444\">{}</text>",
            bottom + 18.0,
            label(decade)
        );
    }
    for decade in y.decades() {
        let at = at_y(decade);
        let _ = writeln!(svg, "<path d=\"M{LEFT} {at:.1}H{right}\" stroke=\"#e4e4e4\"/>");
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#444444\">{} {unit}</text>",
            LEFT - 6.0,
            at + 4.0,
            label(decade)
        );
    }
    let middle = f64::midpoint(LEFT, right);
    let _ = writeln!(
        svg,
        "<text x=\"{middle}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#444444\">Ingresses in the cluster</text>",
        bottom + 38.0
    );
    for (line, colour) in lines.iter().zip(COLOURS.iter().cycle()) {
        let places: Vec<(f64, f64)> =
            line.points.iter().filter(|(x, y)| *x > 0.0 && *y > 0.0).map(|(x, y)| (at_x(*x), at_y(*y))).collect();
        let path: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
        let _ = writeln!(svg, "<path d=\"M{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>", path.join("L"));
        for (x, y) in &places {
            let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{colour}\"/>");
        }
        if let Some((x, y)) = places.last() {
            let name = &line.name;
            let _ = writeln!(svg, "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"{colour}\">{name}</text>", x + 8.0, y + 4.0);
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// A logarithmic axis over whole decades.
struct Axis {
    from: f64,
    to: f64,
}

impl Axis {
    fn new(values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = values.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
        let (from, to) = (low.log10().floor(), high.log10().ceil());
        Self { from, to: if to > from { to } else { from + 1.0 } }
    }

    /// Returns the position between 0 and 1.
    fn place(&self, value: f64) -> f64 {
        (value.log10() - self.from) / (self.to - self.from)
    }

    fn decades(&self) -> impl Iterator<Item = f64> {
        let (from, to) = (self.from as i32, self.to as i32);
        (from..=to).map(|power| 10f64.powi(power))
    }
}

fn label(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{}M", value / 1e6),
        value if value >= 1e3 => format!("{}k", value / 1e3),
        value => format!("{value}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_has_a_line_for_each_party_and_leaves_out_what_has_no_logarithm() {
        let line = |name: &str, points: &[(f64, f64)]| Line { name: name.into(), points: points.to_vec() };
        let svg = plot("CPU", "ms", &[line("ours", &[(100.0, 0.0), (1e3, 2.0)]), line("other", &[(100.0, 30.0)])]);
        assert_eq!(svg.matches("<circle").count(), 2);
        assert!(svg.contains(">ours<") && svg.contains(">other<") && svg.ends_with("</svg>\n"), "{svg}");
        assert_eq!(plot("CPU", "ms", &[line("ours", &[(1e3, 0.0)])]), "");
    }
}
