//! Types of parameters: a number, a count or a curve.

use super::curve::Curve;

/// Kind of a parameter's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// A real number.
    Number,
    /// A non-negative whole number.
    Count,
    /// A [`Curve`].
    Curve,
}

/// Description of a parameter: its name, its unit and the kind of its value, but not the value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key {
    /// `group.parameter`, as in profile files.
    pub path: &'static str,
    /// Unit as in profile files, for example `ns`.
    pub unit: &'static str,
    /// Kind of the value.
    pub shape: Shape,
}

/// Value of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number or a count.
    Number(f64),
    /// A curve.
    Curve(Curve),
}

impl Value {
    /// The number; for a curve, the costs at its points.
    pub fn numbers(&self) -> Vec<f64> {
        match self {
            Value::Number(number) => vec![*number],
            Value::Curve(curve) => curve.points().iter().map(|(_, cost)| *cost).collect(),
        }
    }

    /// A copy of this value with its number replaced by `number`; for a curve, with the cost at point `index` (counted
    /// from 0) replaced. `index` is ignored if this is no curve.
    ///
    /// # Panics
    /// If a curve has no such point.
    pub fn with_number(&self, index: usize, number: f64) -> Value {
        match self {
            Value::Number(_) => Value::Number(number),
            Value::Curve(curve) => Value::Curve(curve.with_point(index, number)),
        }
    }
}

/// A typed field that accepts a [`Value`].
pub(super) trait Field {
    /// Stores `value`; false if it is of another kind.
    fn put(&mut self, value: &Value) -> bool;
}

/// Kind of value that a type accepts.
pub(super) trait Shaped {
    /// The kind.
    const SHAPE: Shape;
}

impl Shaped for f64 {
    const SHAPE: Shape = Shape::Number;
}
impl Shaped for u64 {
    const SHAPE: Shape = Shape::Count;
}
impl Shaped for Curve {
    const SHAPE: Shape = Shape::Curve;
}

impl Field for f64 {
    fn put(&mut self, value: &Value) -> bool {
        let Value::Number(number) = value else {
            return false;
        };
        *self = *number;
        number.is_finite()
    }
}

impl Field for u64 {
    fn put(&mut self, value: &Value) -> bool {
        let Value::Number(number) = value else {
            return false;
        };
        *self = *number as u64;
        *number >= 0.0 && number.fract() == 0.0 && *number < 9e15
    }
}

impl Field for Curve {
    fn put(&mut self, value: &Value) -> bool {
        let Value::Curve(curve) = value else { return false };
        self.clone_from(curve);
        true
    }
}
