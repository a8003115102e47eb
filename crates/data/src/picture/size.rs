//! How large a picture is made, and which part of it is taken.

use super::Fit;

/// What becomes of a picture's size: resized to `resized`, then the middle of it cut out, or put
/// into the middle of grey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Rows and columns after resizing.
    pub(super) resized: (usize, usize),
    /// Rows and columns of the result.
    pub(super) result: (usize, usize),
}

/// Rows and columns.
type Size = (usize, usize);

impl Plan {
    /// The plan for a picture, of extents that are fixed or not.
    ///
    /// # Errors
    /// Why the middle cannot be cut out.
    pub(super) fn of(
        from: Size,
        (height, width): (Option<usize>, Option<usize>),
        fit: Fit,
    ) -> Result<Plan, String> {
        let free = (height.unwrap_or(from.0), width.unwrap_or(from.1));
        match fit {
            Fit::Stretch => Ok(Plan { resized: free, result: free }),
            Fit::Crop => Ok(Plan { resized: scaled(from, free, f64::max), result: free }),
            Fit::Letterbox => Ok(Plan { resized: scaled(from, free, f64::min), result: free }),
            Fit::Side(side) => {
                let resized = with_side(from, side);
                let result = (height.unwrap_or(resized.0), width.unwrap_or(resized.1));
                Plan { resized, result }.checked(side)
            }
            Fit::ImageNet => {
                let result = (height.unwrap_or(224), width.unwrap_or(224));
                let side = (result.0.max(result.1) as f64 * 256.0 / 224.0).round() as usize;
                Plan { resized: with_side(from, side), result }.checked(side)
            }
        }
    }

    fn checked(self, side: usize) -> Result<Plan, String> {
        let Plan { resized, result } = self;
        match resized.0 >= result.0 && resized.1 >= result.1 {
            true => Ok(self),
            false => Err(format!(
                "with a shorter side of {side} it has {} x {} pixels, and the input takes {} x {}",
                resized.1, resized.0, result.1, result.0
            )),
        }
    }

    /// The pixels of the largest picture on the way.
    pub(super) fn most_pixels(&self) -> u64 {
        let pixels = |size: Size| (size.0 as u64).saturating_mul(size.1 as u64);
        pixels(self.resized).max(pixels(self.result))
    }
}

/// The size of which one side is that of the other, and the second smaller or larger.
fn scaled(from: Size, to: Size, pick: fn(f64, f64) -> f64) -> Size {
    let (rows, columns) = (to.0 as f64 / from.0 as f64, to.1 as f64 / from.1 as f64);
    let ratio = pick(rows, columns);
    let side = |from: usize| ((from as f64 * ratio).round() as usize).max(1);
    (side(from.0), side(from.1))
}

/// The size whose shorter side is given; the longer is cut to whole pixels, as torchvision's
/// `Resize` has it.
fn with_side((height, width): Size, side: usize) -> Size {
    let longer = |long: usize, short: usize| {
        usize::try_from(side as u128 * long as u128 / short as u128).unwrap_or(usize::MAX)
    };
    match height <= width {
        true => (side, longer(width, height)),
        false => (longer(height, width), side),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let both = (Some(20), Some(10));
        let of = |from, to, fit| {
            let plan = Plan::of(from, to, fit).expect("a plan");
            (plan.resized, plan.result)
        };
        assert_eq!(of((40, 40), both, Fit::Stretch), ((20, 10), (20, 10)));
        assert_eq!(of((40, 40), (None, Some(10)), Fit::Stretch), ((40, 10), (40, 10)));
        assert_eq!(of((40, 40), both, Fit::Crop), ((20, 20), (20, 10)));
        assert_eq!(of((40, 40), both, Fit::Letterbox), ((10, 10), (20, 10)));
        assert_eq!(of((41, 60), both, Fit::Side(30)), ((30, 43), (20, 10)));
        assert_eq!(of((60, 41), (None, None), Fit::Side(30)), ((43, 30), (43, 30)));
        assert_eq!(of((300, 400), (None, None), Fit::ImageNet), ((256, 341), (224, 224)));
        assert_eq!(of((300, 300), (Some(299), Some(299)), Fit::ImageNet).0, (342, 342));
        let refused = Plan::of((40, 40), both, Fit::Side(15)).expect_err("too small");
        assert!(refused.contains("15 x 15 pixels, and the input takes 10 x 20"), "{refused}");
    }
}
