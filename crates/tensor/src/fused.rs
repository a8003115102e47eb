//! Fused multiply-adds of many elements at once.
//!
//! What a fused multiply-add gives is fixed to the bit, so it does not matter that machines with
//! such an instruction use it and others call a function.

use crate::storage::Element;

/// A float type with a fused multiply-add of the machine.
pub trait MultiplyAdd: Element + Default {
    /// `sums[i] = a[i] * b[i] + sums[i]`, rounded once, as far as the shortest of the three goes.
    fn multiply_add(sums: &mut [Self], a: &[Self], b: &[Self]);
}

macro_rules! multiply_add {
    ($float:ident) => {
        impl MultiplyAdd for $float {
            fn multiply_add(sums: &mut [$float], a: &[$float], b: &[$float]) {
                #[inline(always)]
                fn each(sums: &mut [$float], a: &[$float], b: &[$float]) {
                    for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
                        *sum = a.mul_add(*b, *sum);
                    }
                }

                #[cfg(target_arch = "x86_64")]
                {
                    #[target_feature(enable = "avx2,fma")]
                    fn wide(sums: &mut [$float], a: &[$float], b: &[$float]) {
                        each(sums, a, b);
                    }

                    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                        // SAFETY: the machine has the instructions, as just checked.
                        return unsafe { wide(sums, a, b) };
                    }
                }
                each(sums, a, b);
            }
        }
    };
}

multiply_add!(f32);
multiply_add!(f64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_once() {
        let a = 1.0 + f32::EPSILON;
        let mut sums = [-(1.0 + 2.0 * f32::EPSILON); 19];
        f32::multiply_add(&mut sums, &[a; 19], &[a; 19]);
        assert_eq!(sums, [f32::EPSILON * f32::EPSILON; 19]);
        let mut sums = [1.0, 2.0];
        f64::multiply_add(&mut sums, &[3.0], &[4.0]);
        assert_eq!(sums, [13.0, 2.0]);
    }
}
