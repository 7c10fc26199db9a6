//! Tables in Markdown.

use std::fmt;

/// A table with a heading above and notes below.
pub(crate) struct Table {
    heading: String,
    columns: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    notes: Vec<String>,
}

impl Table {
    /// An empty table. The first column holds words, the others numbers.
    pub(crate) fn new(heading: &str, columns: &[&'static str]) -> Self {
        Self { heading: heading.to_owned(), columns: columns.to_vec(), rows: Vec::new(), notes: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    pub(crate) fn note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "### {}\n", self.heading)?;
        writeln!(f, "| {} |", self.columns.join(" | "))?;
        let rule = |place| if place == 0 { "---" } else { "---:" };
        let rules: Vec<&str> = (0..self.columns.len()).map(rule).collect();
        writeln!(f, "| {} |", rules.join(" | "))?;
        for row in &self.rows {
            writeln!(f, "| {} |", row.join(" | "))?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "\n{note}"))
    }
}

/// A number as people read it: three digits that mean something, thousands apart.
pub(crate) fn number(value: f64) -> String {
    let decimals = match value.abs() {
        0.0 => 0,
        small if small < 10.0 => 2,
        medium if medium < 100.0 => 1,
        _ => 0,
    };
    let text = format!("{value:.decimals$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |digits| ("-", digits));
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{sign}{grouped}{rest}")
}

/// A count as people read it.
pub(crate) fn whole(count: usize) -> String {
    if count < 100 { count.to_string() } else { number(count as f64) }
}

/// A number, or a dash where there is none.
pub(crate) fn number_or_dash(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_that_mean_something_and_thousands_apart() {
        let cases =
            [(0.0, "0"), (0.037, "0.04"), (12.34, "12.3"), (999.6, "1,000"), (-1_234_567.0, "-1,234,567")];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn counts_have_no_fractions() {
        assert_eq!([whole(0), whole(7), whole(100), whole(100_000)], ["0", "7", "100", "100,000"]);
    }

    #[test]
    fn a_table_is_markdown() {
        let mut table = Table::new("Speed", &["store", "pairs/s"]);
        table.row(vec!["memory".to_owned(), number(1_500.0)]);
        table.note("Measured.");
        let text = "### Speed\n\n| store | pairs/s |\n| --- | ---: |\n| memory | 1,500 |\n\nMeasured.\n";
        assert_eq!(table.to_string(), text);
    }
}
