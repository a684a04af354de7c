//! [`groups`]: which curves of a figure share a chart.

use super::marks::CURVES_MAX;

/// Curves that share charts, and what they have in common.
pub(super) struct Group<'a> {
    /// What stands behind the name of the metric.
    pub title: String,
    /// Names of the curves, in their order.
    pub series: Vec<&'a str>,
    /// Length of what all names begin with, which the title says.
    pub prefix: usize,
}

/// Divides the curves of a figure: all together if there are few; else by the first part of their names, if that has groups
/// of the right size; else evenly.
pub(super) fn groups<'a>(series: &[&'a str]) -> Vec<Group<'a>> {
    if series.len() <= CURVES_MAX {
        return vec![Group {
            title: String::new(),
            series: series.to_vec(),
            prefix: 0,
        }];
    }
    by_prefix(series).unwrap_or_else(|| {
        let count = series.len().div_ceil(CURVES_MAX);
        let chunks = series.chunks(series.len().div_ceil(count)).enumerate();
        chunks
            .map(|(index, chunk)| Group {
                title: format!(" ({} of {count})", index + 1),
                series: chunk.to_vec(),
                prefix: 0,
            })
            .collect()
    })
}

/// Between the parts of a curve's name.
const SEPARATOR: &str = " / ";

fn by_prefix<'a>(series: &[&'a str]) -> Option<Vec<Group<'a>>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for &name in series {
        let (first, _) = name.split_once(SEPARATOR)?;
        let title = format!(": {first}");
        match groups.iter_mut().find(|group| group.title == title) {
            Some(group) => group.series.push(name),
            None => groups.push(Group {
                title,
                series: vec![name],
                prefix: first.len() + SEPARATOR.len(),
            }),
        }
    }
    let fits = |group: &Group<'_>| (2..=CURVES_MAX).contains(&group.series.len());
    groups.iter().all(fits).then_some(groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(groups: &[Group<'_>]) -> Vec<(String, usize)> {
        let name = |group: &Group<'_>| (group.title.clone(), group.series.len());
        groups.iter().map(name).collect()
    }

    #[test]
    fn many_curves_are_divided_by_name_or_evenly() {
        let few = ["a", "b / c"];
        assert_eq!(names(&groups(&few)), [(String::new(), 2)]);
        let named: Vec<String> = (0..12)
            .map(|n| format!("{} / {n}", ["READ", "WRITE"][n / 6]))
            .collect();
        let named: Vec<&str> = named.iter().map(String::as_str).collect();
        let divided = groups(&named);
        assert_eq!(
            names(&divided),
            [(": READ".to_string(), 6), (": WRITE".to_string(), 6)]
        );
        assert_eq!(&divided[1].series[0][divided[1].prefix..], "6");
        let plain: Vec<String> = (0..13).map(|n| n.to_string()).collect();
        let plain: Vec<&str> = plain.iter().map(String::as_str).collect();
        assert_eq!(
            names(&groups(&plain)),
            [(" (1 of 2)".to_string(), 7), (" (2 of 2)".to_string(), 6)]
        );
    }
}
