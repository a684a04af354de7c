//! [`Curve`]: a cost that depends on a size, piecewise linear between points.

/// A cost as a piecewise linear function of the payload bytes. It is constant before the first point; after the last
/// point it continues with the slope of the last piece (constant if there is only one point).
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Curve {
    points: Vec<(f64, f64)>,
}

impl Curve {
    /// The curve through `points` of (bytes, cost). `None` if there is no point, bytes do not strictly ascend, or a
    /// number is not finite.
    pub fn new(points: Vec<(f64, f64)>) -> Option<Curve> {
        let ascending = points.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let finite = points.iter().all(|(x, y)| x.is_finite() && y.is_finite());
        (!points.is_empty() && ascending && finite).then_some(Curve { points })
    }

    /// The same `cost` for every size.
    pub fn constant(cost: f64) -> Curve {
        Curve {
            points: vec![(0.0, cost)],
        }
    }

    /// The cost of `bytes`, in the curve's unit; never negative. The call itself takes about 10 ns: tabulate the
    /// results for hot paths.
    ///
    /// # Panics
    /// On `Curve::default()`, which has no points.
    pub fn at(&self, bytes: f64) -> f64 {
        let last = self.points.len() - 1;
        let next = self.points.partition_point(|(x, _)| *x < bytes);
        let y = match next {
            0 => self.points[0].1,
            _ if last == 0 => self.points[0].1,
            n => self.along(n.min(last), bytes),
        };
        y.max(0.0)
    }

    /// The cost on the line through points `right - 1` and `right`.
    fn along(&self, right: usize, bytes: f64) -> f64 {
        let ((x0, y0), (x1, y1)) = (self.points[right - 1], self.points[right]);
        y0 + (y1 - y0) * (bytes - x0) / (x1 - x0)
    }

    /// The points of (bytes, cost), bytes ascending.
    pub fn points(&self) -> &[(f64, f64)] {
        &self.points
    }

    /// A copy of this curve in which point `index` has the cost `cost`.
    ///
    /// # Panics
    /// If there is no such point.
    pub fn with_point(&self, index: usize, cost: f64) -> Curve {
        let mut points = self.points.clone();
        points[index].1 = cost;
        Curve { points }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn straight_between_points_and_beyond_the_last() {
        let curve = Curve::new(vec![(32.0, 10.0), (64.0, 20.0), (128.0, 20.0), (256.0, 84.0)]).unwrap();
        for (bytes, cost) in [
            (0.0, 10.0),
            (32.0, 10.0),
            (48.0, 15.0),
            (100.0, 20.0),
            (512.0, 212.0),
        ] {
            assert_eq!(curve.at(bytes), cost, "at {bytes} bytes");
        }
        assert_eq!(Curve::constant(7.0).at(4096.0), 7.0);
    }

    #[test]
    fn unordered_or_empty_is_no_curve() {
        assert!(Curve::new(vec![]).is_none());
        assert!(Curve::new(vec![(1.0, 1.0), (1.0, 2.0)]).is_none());
        assert!(Curve::new(vec![(1.0, f64::NAN)]).is_none());
    }
}
